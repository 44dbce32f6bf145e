//! A private server, its clients as programs of their own, and its count of requests.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::{
    ACCOUNT, LoopKind, LoopServer, PostgresServer, SUPERUSER, Server, find_program,
    postgres_program,
};

use super::cassandra::Cassandra;
use crate::gate_postgres::pooler;
use crate::progress::Progress;
use crate::running::{Running, output, pause};
use crate::split::{wiredtiger, wiredtiger_counted};
use crate::work::Work;

/// Rows of each of four tables of sysbench, and pgbench's scale.
const ROWS: &str = "25000";
const SCALE: &str = "4";
/// After this, clients are connected and the server's memory is warm.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longer than any of the experiments needs its clients.
const FOREVER_S: &str = "36000";
const ENDLESS: &str = "1000000000";
/// WiredTiger's documents, as redis-benchmark chooses them: each is written some five times.
const DOCUMENTS: &str = "20000";
const FILL: &str = "100000";
const KEY: &str = "document:__rand_int__";
/// Megabytes of its cache, which has half of the documents; seconds between checkpoints.
const ENGINE: (&str, &str) = ("10", "2");
/// Transactions of two statements, of which one waits in the server.
const SCRIPT: &str = "pooled.sql";
const POOLED: &str = "\\set aid random(1, 400000)\n\
                      SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                      SELECT pg_sleep(0.005);\n";
const PREPARE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    MariaDb,
    Postgres,
    Redis,
    WiredTiger,
    /// Its clients share one connection.
    Cassandra,
    /// PostgreSQL behind PgBouncer, with so many connections between them.
    Pooled(u32),
}

enum Program {
    MariaDb(Server),
    Postgres(PostgresServer),
    Redis(LoopServer),
    WiredTiger(LoopServer),
    Cassandra(Cassandra),
    Pooled { pooler: Running, port: u16, server: PostgresServer },
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
            Kind::Pooled(size) => {
                let builder = PostgresServer::builder();
                let server = builder.remove_when_orphaned(work.path()).start()?;
                let (program, folder) = (pooler::program()?, work.path());
                std::fs::write(folder.join(SCRIPT), POOLED)?;
                let (pooler, port) = pooler::start(&program, folder, server.port(), size)?;
                Program::Pooled { pooler, port, server }
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
            Kind::WiredTiger => {
                let log = work.path().join("fill.log");
                let fill = |server: &LoopServer| {
                    let mut command = redis_benchmark(server.port(), 8)?;
                    command.args(["-n", FILL, "-r", DOCUMENTS, "HSET", KEY, "field", &document()]);
                    Running::spawn("the load", command, &log)?.wait(PREPARE, progress)
                };
                let (cache_mb, checkpoint_every_s) = ENGINE;
                let server = wiredtiger(work.path(), cache_mb, checkpoint_every_s, fill)?;
                Program::WiredTiger(server)
            }
            Kind::Cassandra => Program::Cassandra(Cassandra::start(work.path(), progress)?),
        };
        let site = Self { server, work };
        if let Program::MariaDb(server) = &site.server {
            server.sql("CREATE DATABASE sbtest")?;
        }
        let prepare = match kind {
            Kind::MariaDb => Some(site.sysbench("oltp_point_select", 1, "prepare")?),
            Kind::Postgres | Kind::Pooled(_) => Some(site.pgbench(&["-i", "-q", "-s", SCALE])?),
            Kind::Redis | Kind::WiredTiger | Kind::Cassandra => None,
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
            Program::Redis(server) | Program::WiredTiger(server) => server.pid(),
            Program::Cassandra(server) => server.pid(),
            Program::Pooled { server, .. } => server.pid(),
        }
    }

    /// Its processes, without those that they forked.
    pub(super) fn pids(&self) -> Vec<u32> {
        let pooler = match &self.server {
            Program::Pooled { pooler, .. } => Some(pooler.id()),
            _ => None,
        };
        pooler.into_iter().chain([self.pid()]).collect()
    }

    /// Whether all clients have one connection.
    pub(super) fn shares_connection(&self) -> bool {
        matches!(self.server, Program::Cassandra(_))
    }

    /// What runs, in words.
    pub(super) fn about(&self) -> &'static str {
        match &self.server {
            Program::MariaDb(_) => {
                "MariaDB, 256 MiB of buffer pool, four tables of 25,000 rows; sysbench"
            }
            Program::Postgres(_) => "PostgreSQL, fsync on, scale 4; pgbench",
            Program::Redis(_) => "Redis, append-only file, fsync each second; redis-benchmark",
            Program::Pooled { .. } => "PostgreSQL behind PgBouncer, scale 4; pgbench",
            Program::WiredTiger(_) => {
                "WiredTiger behind a thread for each connection, 20,000 documents of 1 KB, a cache of 10 MB, \
                 updates durable when they are answered, a checkpoint every 2 s; redis-benchmark"
            }
            Program::Cassandra(_) => {
                "Cassandra 4.1.5, one node, a heap of 1 GB, 20,000 rows of 1 kB; clients of one connection"
            }
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
            Program::Pooled { .. } => {
                let (clients, threads) = (clients.to_string(), clients.min(8).to_string());
                let words = ["-n", "-f", SCRIPT, "-c", &clients, "-j", &threads, "-T", FOREVER_S];
                self.pgbench(&words)?
            }
            Program::Redis(server) => {
                let mut command = redis_benchmark(server.port(), clients)?;
                command.args(["-n", ENDLESS, "-r", "10000", "-q", "-t", load]);
                command
            }
            Program::WiredTiger(server) => {
                let mut command = redis_benchmark(server.port(), clients)?;
                // A thread for each client, which sends when it has its answer.
                command.args(["-n", ENDLESS, "-r", DOCUMENTS, "-q"]);
                command.args(["--threads", &clients.min(8).to_string()]);
                match load {
                    "get" => command.args(["HGETALL", KEY]),
                    _ => command.args(["HSET", KEY, "field", &document()]),
                };
                command
            }
            Program::Cassandra(server) => server.load(load, clients)?,
        };
        let running = Running::spawn("the load", command, &self.log("load"))?;
        // The driver is in Java, too, and connects when it is compiled.
        pause(if self.shares_connection() { 3 * WARM_UP } else { WARM_UP })?;
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
            Program::Postgres(server) | Program::Pooled { server, .. } => {
                /// Statements of a transaction: `pgbench -N` has five.
                const UPDATE: f64 = 5.0;
                let psql = postgres_program("psql").context("psql is not installed")?;
                let mut command = Command::new(psql);
                command.args(["-X", "-At", "-h", "127.0.0.1", "-U", SUPERUSER, "-p"]);
                command.args([&server.port().to_string(), "postgres", "-c"]);
                command.arg("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'");
                let commits = number(&mut command, |text| text.trim().parse().ok())?;
                Ok(commits * if load == "update" { UPDATE } else { 1.0 })
            }
            Program::Redis(server) => {
                let mut command = Command::new("redis-cli");
                command.args(["-p", &server.port().to_string(), "INFO", "stats"]);
                number(&mut command, |text| {
                    let key = "total_commands_processed:";
                    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
                })
            }
            Program::WiredTiger(server) => wiredtiger_counted(server, "requests"),
            Program::Cassandra(server) => server.answered(),
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
        let port = match &self.server {
            Program::Postgres(server) => server.port(),
            Program::Pooled { port, .. } => *port,
            _ => unreachable!("PostgreSQL alone"),
        };
        let program = postgres_program("pgbench").context("pgbench is not installed")?;
        let mut command = Command::new(program);
        command
            .args(["-h", "127.0.0.1", "-U", SUPERUSER, "-p", &port.to_string()])
            .args(words)
            .env_remove("LD_PRELOAD")
            .env("PGDATABASE", "postgres")
            .current_dir(self.work.path());
        Ok(command)
    }
}

fn redis_benchmark(port: u16, clients: usize) -> Result<Command> {
    let program = find_program("redis-benchmark")
        .context("redis-benchmark is not installed (apt-get install redis-tools)")?;
    let mut command = Command::new(program);
    command.args(["-p", &port.to_string(), "-c", &clients.to_string()]).env_remove("LD_PRELOAD");
    Ok(command)
}

fn document() -> String {
    "x".repeat(1_000)
}

fn number(command: &mut Command, parse: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let said = output(command.env_remove("LD_PRELOAD"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    parse(&text).with_context(|| format!("no number is in: {text}"))
}
