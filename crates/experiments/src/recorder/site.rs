//! A private server, its clients as programs of their own, and its count of requests.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::{
    ACCOUNT, LoopKind, LoopServer, PostgresServer, SUPERUSER, Server, find_program,
    postgres_program,
};

use crate::progress::Progress;
use crate::running::{Running, output, pause};
use crate::work::Work;

/// Rows of each of four tables of sysbench, and pgbench's scale.
const ROWS: &str = "25000";
const SCALE: &str = "4";
/// After this, clients are connected and the server's memory is warm.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longer than any of the experiments needs its clients.
const FOREVER_S: &str = "36000";
const PREPARE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    MariaDb,
    Postgres,
    Redis,
}

enum Program {
    MariaDb(Server),
    Postgres(PostgresServer),
    Redis(LoopServer),
}

/// See the module.
pub(super) struct Site {
    server: Program,
    work: Work,
}

impl Site {
    /// Starts the server with its tables.
    pub(super) fn start(kind: Kind, work: Work, progress: &Progress) -> Result<Self> {
        let server = match kind {
            Kind::MariaDb => {
                let options = ["--innodb-buffer-pool-size=256M", "--max-connections=400"];
                let builder = Server::builder().options(options);
                Program::MariaDb(builder.remove_when_orphaned(work.path()).start()?)
            }
            Kind::Postgres => {
                let builder = PostgresServer::builder().setting("fsync", "on");
                Program::Postgres(builder.remove_when_orphaned(work.path()).start()?)
            }
            Kind::Redis => {
                let builder = LoopServer::builder(LoopKind::Redis).options([
                    "--appendonly",
                    "yes",
                    "--appendfsync",
                    "everysec",
                ]);
                Program::Redis(builder.remove_when_orphaned(work.path()).start()?)
            }
        };
        let site = Self { server, work };
        if let Program::MariaDb(server) = &site.server {
            server.sql("CREATE DATABASE sbtest")?;
        }
        let prepare = match kind {
            Kind::MariaDb => Some(site.sysbench("oltp_point_select", 1, "prepare")?),
            Kind::Postgres => Some(site.pgbench(&["-i", "-q", "-s", SCALE])?),
            Kind::Redis => None,
        };
        if let Some(command) = prepare {
            Running::spawn("the load", command, &site.log("prepare"))?.wait(PREPARE, progress)?;
        }
        Ok(site)
    }

    pub(super) fn pid(&self) -> u32 {
        match &self.server {
            Program::MariaDb(server) => server.pid(),
            Program::Postgres(server) => server.pid(),
            Program::Redis(server) => server.pid(),
        }
    }

    /// What runs, in words.
    pub(super) fn about(&self) -> &'static str {
        match &self.server {
            Program::MariaDb(_) => {
                "MariaDB, 256 MiB of buffer pool, four tables of 25,000 rows; sysbench"
            }
            Program::Postgres(_) => "PostgreSQL, fsync on, scale 4; pgbench",
            Program::Redis(_) => "Redis, append-only file, fsync each second; redis-benchmark",
        }
    }

    /// Starts clients that send one request after another, and waits until they are warm.
    pub(super) fn load(&self, load: &str, clients: usize) -> Result<Running> {
        let command = match &self.server {
            Program::MariaDb(_) => self.sysbench(load, clients, "run")?,
            Program::Postgres(_) => {
                let (clients, threads) = (clients.to_string(), clients.min(8).to_string());
                let mode = if load == "select" { "-S" } else { "-N" };
                self.pgbench(&["-n", mode, "-c", &clients, "-j", &threads, "-T", FOREVER_S])?
            }
            Program::Redis(server) => {
                let program = find_program("redis-benchmark")
                    .context("redis-benchmark is not installed (apt-get install redis-tools)")?;
                let mut command = Command::new(program);
                command.args(["-p", &server.port().to_string(), "-c", &clients.to_string()]);
                command.args(["-n", "1000000000", "-r", "10000", "-q", "-t", load]);
                command
            }
        };
        let running = Running::spawn("the load", command, &self.log("load"))?;
        pause(WARM_UP)?;
        Ok(running)
    }

    /// Requests that were answered since the server began: statements, or commands.
    pub(super) fn answered(&self, load: &str) -> Result<f64> {
        match &self.server {
            Program::MariaDb(server) => {
                let answer = server.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
                let value = answer.rows.first().and_then(|row| row.get(1)?.as_ref()?.parse().ok());
                value.context("MariaDB does not count its statements")
            }
            Program::Postgres(server) => {
                /// Statements of a transaction: `pgbench -N` has five.
                const UPDATE: f64 = 5.0;
                let psql = postgres_program("psql").context("psql is not installed")?;
                let mut command = Command::new(psql);
                command.args(["-X", "-At", "-h", "127.0.0.1", "-U", SUPERUSER, "-p"]);
                command.args([&server.port().to_string(), "postgres", "-c"]);
                command.arg("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'");
                let commits = number(&mut command, |text| text.trim().parse().ok())?;
                Ok(commits * if load == "select" { 1.0 } else { UPDATE })
            }
            Program::Redis(server) => {
                let mut command = Command::new("redis-cli");
                command.args(["-p", &server.port().to_string(), "INFO", "stats"]);
                number(&mut command, |text| {
                    let key = "total_commands_processed:";
                    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
                })
            }
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.work.path().join(format!("{name}.log"))
    }

    fn sysbench(&self, script: &str, threads: usize, word: &str) -> Result<Command> {
        let Program::MariaDb(server) = &self.server else { unreachable!("MariaDB alone") };
        let program = find_program("sysbench")
            .context("sysbench is not installed (apt-get install sysbench)")?;
        let mut command = Command::new(program);
        command
            .args([script, "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-password="])
            .arg(format!("--mysql-port={}", server.port()))
            .arg(format!("--mysql-user={ACCOUNT}"))
            .args(["--mysql-db=sbtest", "--tables=4", "--db-ps-mode=disable", "--events=0"])
            .arg(format!("--table-size={ROWS}"))
            .arg(format!("--threads={threads}"))
            .arg(format!("--time={FOREVER_S}"))
            .arg(word)
            .env_remove("LD_PRELOAD")
            .env_remove("LUA_PATH")
            .current_dir(self.work.path());
        Ok(command)
    }

    fn pgbench(&self, words: &[&str]) -> Result<Command> {
        let Program::Postgres(server) = &self.server else { unreachable!("PostgreSQL alone") };
        let program = postgres_program("pgbench").context("pgbench is not installed")?;
        let mut command = Command::new(program);
        command
            .args(["-h", "127.0.0.1", "-U", SUPERUSER, "-p", &server.port().to_string()])
            .args(words)
            .env_remove("LD_PRELOAD")
            .env("PGDATABASE", "postgres")
            .current_dir(self.work.path());
        Ok(command)
    }
}

fn number(command: &mut Command, parse: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let said = output(command.env_remove("LD_PRELOAD"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    parse(&text).with_context(|| format!("no number is in: {text}"))
}
