//! What a figure is measured on: a database with its data, and the workload that its users bring.
//!
//! A figure says how many users there are and how the server is run; everything that differs from
//! database to database is here, behind [`Server`].

mod sql;
#[cfg(test)]
mod tests;
mod ycsb;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use headworks_workload::db::DbError;
use headworks_workload::driver::{Report, RunOptions as Driving, Stop};
use headworks_workload::sysbench::Oltp;
use headworks_workload::ycsb::Core;

use super::figure::{LOAD_S, Load};

/// Filling sysbench's tables, in seconds.
const SYSBENCH_S: u64 = 60;

/// A relational database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    MariaDb,
    PostgreSql,
}

impl Engine {
    /// Its name, for people.
    fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::PostgreSql => "PostgreSQL",
        }
    }
}

/// A database and a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// TPC-C on MariaDB.
    MariaDb,
    /// TPC-C on PostgreSQL.
    PostgreSql,
    /// sysbench's OLTP, all in memory. A load's mix of TPC-C means nothing here.
    Sysbench(Engine, Oltp),
    /// YCSB on Redis, all in memory. A load's mix of TPC-C means nothing here.
    Redis(Core),
    /// YCSB on memcached, all in memory.
    Memcached(Core),
    /// YCSB on mongo-java-server, which speaks MongoDB's protocol and keeps all in memory, too.
    MongoDb(Core),
}

/// A running server with its data. Dropping it takes it down.
pub(super) trait Server {
    /// Makes the data, once for all runs. `tick` says whether to go on.
    fn fill(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()>;

    /// Brings it into the state that every run begins with.
    fn make_ready(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()>;

    /// Lets users work.
    fn drive(&self, drive: Drive<'_>) -> Result<Report, DbError>;

    /// Whether the data is consistent, after a run.
    fn check(&self) -> Result<()>;

    /// Whether it still runs.
    fn is_running(&mut self) -> bool;

    /// An error if our library is not in it although it should be, or the reverse.
    fn ensure_gated(&self, gated: bool) -> Result<()>;

    /// The end of its log.
    fn log_tail(&self) -> String;

    /// Ends it in good order.
    fn stop(&mut self) -> Result<()>;
}

/// A run that went through: an error if the server died meanwhile, or if a request was given up.
pub(super) fn whole(server: &mut dyn Server, report: Result<Report, DbError>) -> Result<Report> {
    let report = report.map_err(|error| {
        if server.is_running() {
            anyhow!(error)
        } else {
            anyhow!("the server died; its log ends with:\n{}", server.log_tail())
        }
    })?;
    if let Some(failure) = &report.first_failure {
        bail!("a request failed for good: {failure}");
    }
    Ok(report)
}

/// What users do, and for how long.
pub(super) struct Drive<'a> {
    pub(super) load: &'a Load,
    pub(super) how: &'a Driving,
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
    /// Called ten times a second, with the time since the begin of the warm-up.
    pub(super) tick: &'a mut dyn FnMut(Duration),
}

/// Where a server keeps its data, and how much that is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The directory of the experiment's data.
    pub(super) work: &'a Path,
    /// Little data.
    pub(super) quick: bool,
}

/// What is in front of a server, and its options.
#[derive(Default)]
pub(super) struct Front {
    /// The gate's command; empty without one.
    pub(super) gate: Vec<OsString>,
    /// Options of the server: arguments, and for PostgreSQL settings as `name=value`.
    pub(super) options: &'static [&'static str],
}

impl Site {
    /// Starts it. While `filling`, nothing has to be durable before the server is stopped.
    pub(super) fn start(
        self,
        place: Place<'_>,
        front: &Front,
        filling: bool,
    ) -> Result<Box<dyn Server>> {
        let tpcc = |engine| -> Result<Box<dyn Server>> {
            let content = sql::TpcC::new(place)?;
            Ok(Box::new(sql::start(engine, content, place, front, filling)?))
        };
        Ok(match self {
            Self::MariaDb => tpcc(Engine::MariaDb)?,
            Self::PostgreSql => tpcc(Engine::PostgreSql)?,
            Self::Sysbench(engine, workload) => {
                let content = sql::Sysbench::new(workload, place)?;
                Box::new(sql::start(engine, content, place, front, filling)?)
            }
            Self::Redis(core) => Box::new(ycsb::redis(core, place, front, filling)?),
            Self::Memcached(core) => Box::new(ycsb::memcached(core, place, front)?),
            Self::MongoDb(core) => Box::new(ycsb::mongodb(core, place, front)?),
        })
    }

    /// Starts it on its data, and makes sure that our library is in it or not, as what is in front
    /// of it says.
    pub(super) fn serve(self, place: Place<'_>, front: &Front) -> Result<Box<dyn Server>> {
        let server = self.start(place, front, false)?;
        server.ensure_gated(!front.gate.is_empty())?;
        Ok(server)
    }

    /// Workload and database, for people.
    pub(super) fn title(self) -> String {
        match self {
            Self::Sysbench(engine, workload) => format!("sysbench {workload} on {}", engine.name()),
            Self::Redis(core) => format!("YCSB {core} on Redis"),
            Self::Memcached(core) => format!("YCSB {core} on memcached"),
            Self::MongoDb(core) => format!("YCSB {core} on mongo-java-server"),
            Self::MariaDb | Self::PostgreSql => self.family(),
        }
    }

    /// The same for several workloads on its data.
    pub(super) fn family(self) -> String {
        match self {
            Self::MariaDb => "TPC-C on MariaDB".to_owned(),
            Self::PostgreSql => "TPC-C on PostgreSQL".to_owned(),
            Self::Sysbench(engine, _) => format!("sysbench OLTP on {}", engine.name()),
            Self::Redis(_) => "YCSB on Redis".to_owned(),
            Self::Memcached(_) => "YCSB on memcached".to_owned(),
            Self::MongoDb(_) => "YCSB on mongo-java-server".to_owned(),
        }
    }

    /// The database as it is, for people.
    pub(super) fn server(self) -> &'static str {
        match self {
            Self::MariaDb | Self::Sysbench(Engine::MariaDb, _) => "MariaDB as it is",
            Self::PostgreSql | Self::Sysbench(Engine::PostgreSql, _) => "PostgreSQL as it is",
            Self::Redis(_) => "Redis as it is",
            Self::Memcached(_) => "memcached as it is",
            Self::MongoDb(_) => "mongo-java-server as it is",
        }
    }

    /// What `headworks run` has to be told about a program whose name does not say what it speaks.
    pub(super) fn profile(self) -> &'static [&'static str] {
        match self {
            Self::MongoDb(_) => &["--profile", "mongodb-loops"],
            _ => &[],
        }
    }

    /// Whether runs find the data that earlier runs left.
    pub(super) fn keeps_data(self) -> bool {
        !matches!(self, Self::Memcached(_) | Self::MongoDb(_))
    }

    /// Free space that the data needs.
    pub(super) fn disk_bytes(self) -> u64 {
        match self {
            Self::MariaDb | Self::PostgreSql => 8 << 30,
            Self::Sysbench(..) => 4 << 30,
            Self::Redis(_) | Self::Memcached(_) | Self::MongoDb(_) => 1 << 30,
        }
    }

    /// What is needed, and how long making the data takes, in seconds.
    pub(super) const fn needs(self) -> (&'static [&'static str], u64) {
        match self {
            Self::MariaDb => (&["mariadb-server-core", "8 GB of disk", "6 GB of memory"], LOAD_S.0),
            Self::PostgreSql => (&["postgresql", "8 GB of disk", "4 GB of memory"], LOAD_S.0),
            Self::Sysbench(Engine::MariaDb, _) => {
                (&["mariadb-server-core", "4 GB of disk", "3 GB of memory"], SYSBENCH_S)
            }
            Self::Sysbench(Engine::PostgreSql, _) => {
                (&["postgresql", "4 GB of disk", "3 GB of memory"], SYSBENCH_S)
            }
            // Records of YCSB are made in seconds.
            Self::Redis(_) => (&["redis-server", "1 GB of memory"], 0),
            Self::Memcached(_) => (&["memcached", "1 GB of memory"], 0),
            Self::MongoDb(_) => (&["default-jdk-headless", "maven", "scripts/setup java"], 0),
        }
    }
}
