//! TPC-C on MariaDB and on PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use headworks_rig::{PostgresBuilder, PostgresServer, SUPERUSER, ServerBuilder};
use headworks_workload::db::{Database, DbError};
use headworks_workload::driver::{self, Progress as Told, Report};
use headworks_workload::tpcc::{
    Home, LoadOptions, MixHandle, Pace, Population, Terminal, TerminalOptions, check, load,
};

use super::{Drive, Front, Place, Server};

/// Options of MariaDB in every arm; everything else is its default.
const MARIADB: [&str; 5] = [
    "--innodb-buffer-pool-size=5G",
    "--innodb-log-file-size=2G",
    "--max-connections=2000",
    "--back-log=2000",
    "--thread-stack=256K",
];

/// Settings of PostgreSQL in every arm; everything else is its default. The rig's own are for tests.
const POSTGRESQL: [(&str, &str); 4] = [
    ("fsync", "on"),
    ("shared_buffers", "2GB"),
    ("max_wal_size", "4GB"),
    ("max_connections", "1100"),
];

/// Warehouses of a full and of a quick run. At 32 the tables (3.2 GB) fit into memory.
const WAREHOUSES: (i64, i64) = (32, 2);

/// What a quick run divides the tables by.
const QUICK_SCALE: i64 = 30;

const STOP_DEADLINE: Duration = Duration::from_secs(120);
const DATABASE: &str = "tpcc";

/// Accounts of the users, the sensitive ones first.
const ACCOUNTS: [&str; 2] = ["ls", "be"];

/// Tables whose rows are drawn at random, read so that no arm pays for having been started last.
const READS: [&str; 2] =
    ["SELECT SUM(LENGTH(s_data)) FROM stock", "SELECT SUM(LENGTH(c_data)) FROM customer"];

enum Engine {
    MariaDb(headworks_rig::Server),
    PostgreSql(PostgresServer),
}

/// A server with TPC-C's tables.
pub(super) struct Sql {
    engine: Engine,
    population: Population,
}

pub(super) fn mariadb(place: Place<'_>, front: &Front, filling: bool) -> Result<Sql> {
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
    builder = if front.gate.is_empty() {
        ours().fold(builder, ServerBuilder::env_remove)
    } else {
        builder.prefix(front.gate.clone())
    };
    Ok(Sql { engine: Engine::MariaDb(builder.start()?), population: population(place)? })
}

pub(super) fn postgresql(place: Place<'_>, front: &Front, filling: bool) -> Result<Sql> {
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
    builder = if front.gate.is_empty() {
        ours().fold(builder, PostgresBuilder::env_remove)
    } else {
        builder.prefix(front.gate.clone())
    };
    Ok(Sql { engine: Engine::PostgreSql(builder.start()?), population: population(place)? })
}

/// Not even a setting of ours reaches a server without the gate.
fn ours() -> impl Iterator<Item = std::ffi::OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("HEADWORKS"))
}

fn population(place: Place<'_>) -> Result<Population, DbError> {
    let (warehouses, scale) =
        if place.quick { (WAREHOUSES.1, QUICK_SCALE) } else { (WAREHOUSES.0, 1) };
    Population::new(warehouses, scale, 1)
}

impl Sql {
    fn database(&self, account: &str) -> Result<Database, DbError> {
        let at = |scheme, port| format!("{scheme}://{account}@127.0.0.1:{port}/{DATABASE}");
        match &self.engine {
            Engine::MariaDb(server) => at("mysql", server.port()).parse(),
            Engine::PostgreSql(server) => at("postgres", server.port()).parse(),
        }
    }

    /// The database and the accounts.
    fn create(&self) -> Result<()> {
        match &self.engine {
            Engine::MariaDb(server) => {
                server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
                for account in ACCOUNTS {
                    server.sql(&format!("CREATE USER {account}@'%'"))?;
                    server.sql(&format!("GRANT ALL ON {DATABASE}.* TO {account}@'%'"))?;
                }
            }
            Engine::PostgreSql(server) => {
                let address =
                    format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", server.port());
                let mut session = address.parse::<Database>()?.connect()?;
                session.run(&format!("CREATE DATABASE {DATABASE}"))?;
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
        let options = LoadOptions { threads: 4, ..LoadOptions::default() };
        load(&self.database("be")?, &self.population, &options, &mut |_, _| tick())?;
        Ok(())
    }

    fn make_ready(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut session = self.database("be")?.connect()?;
        if matches!(self.engine, Engine::PostgreSql(_)) {
            // Every run finds the same: no rows to be cleaned up, no checkpoint that is due.
            session.run("VACUUM ANALYZE")?;
            session.run("CHECKPOINT")?;
        }
        for read in READS {
            tick();
            session.query(read, &[])?;
        }
        Ok(())
    }

    fn drive(&self, drive: Drive<'_>) -> Result<Report, DbError> {
        let databases = [self.database(ACCOUNTS[0])?, self.database(ACCOUNTS[1])?];
        let load = drive.load;
        let terminals = TerminalOptions {
            population: self.population,
            seed: drive.seed,
            mix: MixHandle::new(load.mix),
            home: Home::Fixed,
            pace: Pace::default(),
        };
        let connect = |number: usize| -> Result<Terminal, DbError> {
            Terminal::connect(&databases[usize::from(number >= load.sensitive)], &terminals, number)
        };
        let flipped = AtomicBool::new(false);
        let observe = &mut |told: &Told| {
            (drive.tick)(told.elapsed);
            if let Some(then) = load.then
                && told.elapsed >= drive.how.warm_up
                && !flipped.swap(true, Ordering::Relaxed)
            {
                terminals.mix.set(then);
            }
        };
        driver::run(drive.how, Terminal::KINDS, &connect, drive.stop, observe)
    }

    fn check(&self) -> Result<()> {
        let conditions = check(self.database("be")?.connect()?.as_mut())?;
        let broken: Vec<_> = conditions.iter().filter(|condition| !condition.holds).collect();
        ensure!(broken.is_empty(), "the data is not consistent: {broken:?}");
        Ok(())
    }

    fn is_running(&mut self) -> bool {
        match &mut self.engine {
            Engine::MariaDb(server) => server.is_running(),
            Engine::PostgreSql(server) => server.is_running(),
        }
    }

    fn has_mapped(&self, part: &str) -> Result<bool> {
        match &self.engine {
            Engine::MariaDb(server) => Ok(server.has_mapped(part)?),
            Engine::PostgreSql(server) => server.has_mapped(part),
        }
    }

    fn log_tail(&self) -> String {
        match &self.engine {
            Engine::MariaDb(server) => server.log_tail(),
            Engine::PostgreSql(server) => server.log_tail(),
        }
    }

    fn stop(&mut self) -> Result<()> {
        match &mut self.engine {
            Engine::MariaDb(server) => server.stop(STOP_DEADLINE)?,
            // SIGINT: ends sessions, then shuts down in good order.
            Engine::PostgreSql(server) => server.end(libc::SIGINT, STOP_DEADLINE)?,
        };
        Ok(())
    }
}
