//! MariaDB and PostgreSQL, with the tables of TPC-C or of sysbench.

mod sysbench;
mod tpcc;

use std::time::Duration;

use anyhow::{Result, ensure};
use headworks_rig::{PostgresServer, SUPERUSER};
use headworks_workload::db::{Database, DbError, Session};
use headworks_workload::driver::Report;
use headworks_workload::tpcc::Condition;

use super::{Drive, Engine, Front, Place, Server};

pub(super) use sysbench::Sysbench;
pub(super) use tpcc::TpcC;

/// Options of MariaDB in every arm; everything else is its default.
const MARIADB: [&str; 5] = [
    "--innodb-buffer-pool-size=5G",
    "--innodb-log-file-size=2G",
    "--max-connections=2000",
    "--back-log=2000",
    "--thread-stack=256K",
];

/// Settings of PostgreSQL in every arm; everything else is its default. The rig's own are for
/// tests.
const POSTGRESQL: [(&str, &str); 4] = [
    ("fsync", "on"),
    ("shared_buffers", "2GB"),
    ("max_wal_size", "4GB"),
    ("max_connections", "1100"),
];

const STOP_DEADLINE: Duration = Duration::from_secs(120);

/// Accounts of the users, the sensitive ones first.
const ACCOUNTS: [&str; 2] = ["ls", "be"];

/// Tables and what users do with them.
pub(super) trait Content {
    /// The name of the database.
    fn database(&self) -> &'static str;

    /// Makes the tables. `tick` says whether to go on.
    fn fill(&self, database: &Database, tick: &mut dyn FnMut() -> bool) -> Result<(), DbError>;

    /// Reads of tables whose rows are drawn at random, so that no arm pays for having been started
    /// last.
    fn reads(&self) -> Vec<String>;

    /// Lets users work; those whose number is below
    /// [`Load::sensitive`](super::super::figure::Load::sensitive) by the first account.
    fn drive(&self, accounts: &[Database; 2], drive: Drive<'_>) -> Result<Report, DbError>;

    /// Whether the data is consistent.
    fn check(&self, session: &mut dyn Session) -> Result<()>;
}

enum Running {
    MariaDb(headworks_rig::Server),
    PostgreSql(PostgresServer),
}

/// A server with tables.
pub(super) struct Sql {
    running: Running,
    content: Box<dyn Content>,
}

/// Starts a server. While `filling`, nothing has to be durable before it is stopped.
pub(super) fn start(
    engine: Engine,
    content: impl Content + 'static,
    place: Place<'_>,
    front: &Front,
    filling: bool,
) -> Result<Sql> {
    let running = match engine {
        Engine::MariaDb => Running::MariaDb(mariadb(place, front, filling)?),
        Engine::PostgreSql => Running::PostgreSql(postgresql(place, front, filling)?),
    };
    Ok(Sql { running, content: Box::new(content) })
}

fn mariadb(place: Place<'_>, front: &Front, filling: bool) -> Result<headworks_rig::Server> {
    let mut builder = headworks_rig::Server::builder()
        .data_directory(place.work.join("data"))
        .cache(place.work.join("template"))
        .options(MARIADB)
        .options(front.options)
        .remove_when_orphaned(place.work)
        .start_deadline(Duration::from_secs(120));
    if filling {
        builder = builder.option("--innodb-flush-log-at-trx-commit=0");
    }
    builder.behind(&front.gate).start()
}

fn postgresql(place: Place<'_>, front: &Front, filling: bool) -> Result<PostgresServer> {
    let mut builder = PostgresServer::builder()
        .data_directory(place.work.join("postgres"))
        .remove_when_orphaned(place.work);
    let own = front.options.iter().filter_map(|option| option.split_once('='));
    for (name, value) in POSTGRESQL.into_iter().chain(own) {
        builder = builder.setting(name, value);
    }
    if filling {
        builder = builder.setting("fsync", "off").setting("synchronous_commit", "off");
    }
    builder.behind(&front.gate).start()
}

/// Conditions that do not hold are an error.
fn consistent(conditions: &[Condition]) -> Result<()> {
    let broken: Vec<_> = conditions.iter().filter(|condition| !condition.holds).collect();
    ensure!(broken.is_empty(), "the data is not consistent: {broken:?}");
    Ok(())
}

impl Sql {
    fn database(&self, account: &str) -> Result<Database, DbError> {
        let name = self.content.database();
        let at = |scheme, port| format!("{scheme}://{account}@127.0.0.1:{port}/{name}");
        match &self.running {
            Running::MariaDb(server) => at("mysql", server.port()).parse(),
            Running::PostgreSql(server) => at("postgres", server.port()).parse(),
        }
    }

    /// The database and the accounts.
    fn create(&self) -> Result<()> {
        let name = self.content.database();
        match &self.running {
            Running::MariaDb(server) => {
                server.sql(&format!("CREATE DATABASE {name}"))?;
                for account in ACCOUNTS {
                    server.sql(&format!("CREATE USER {account}@'%'"))?;
                    server.sql(&format!("GRANT ALL ON {name}.* TO {account}@'%'"))?;
                }
            }
            Running::PostgreSql(server) => {
                let address =
                    format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", server.port());
                let mut session = address.parse::<Database>()?.connect()?;
                session.run(&format!("CREATE DATABASE {name}"))?;
                for account in ACCOUNTS {
                    session.run(&format!("CREATE ROLE {account} LOGIN SUPERUSER"))?;
                }
            }
        }
        Ok(())
    }
}

impl Server for Sql {
    fn fill(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        self.create()?;
        Ok(self.content.fill(&self.database("be")?, tick)?)
    }

    fn make_ready(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut session = self.database("be")?.connect()?;
        if matches!(self.running, Running::PostgreSql(_)) {
            // Every run finds the same: no rows to be cleaned up, no checkpoint that is due.
            session.run("VACUUM ANALYZE")?;
            session.run("CHECKPOINT")?;
        }
        for read in self.content.reads() {
            tick();
            session.query(&read, &[])?;
        }
        Ok(())
    }

    fn drive(&self, drive: Drive<'_>) -> Result<Report, DbError> {
        let [sensitive, others] = ACCOUNTS;
        self.content.drive(&[self.database(sensitive)?, self.database(others)?], drive)
    }

    fn check(&self) -> Result<()> {
        self.content.check(self.database("be")?.connect()?.as_mut())
    }

    fn is_running(&mut self) -> bool {
        match &mut self.running {
            Running::MariaDb(server) => server.is_running(),
            Running::PostgreSql(server) => server.is_running(),
        }
    }

    fn ensure_gated(&self, gated: bool) -> Result<()> {
        match &self.running {
            Running::MariaDb(server) => server.ensure_gated(gated),
            Running::PostgreSql(server) => server.ensure_gated(gated),
        }
    }

    fn log_tail(&self) -> String {
        match &self.running {
            Running::MariaDb(server) => server.log_tail(),
            Running::PostgreSql(server) => server.log_tail(),
        }
    }

    fn stop(&mut self) -> Result<()> {
        match &mut self.running {
            Running::MariaDb(server) => server.stop(STOP_DEADLINE)?,
            // SIGINT: ends sessions, then shuts down in good order.
            Running::PostgreSql(server) => server.end(libc::SIGINT, STOP_DEADLINE)?,
        };
        Ok(())
    }
}
