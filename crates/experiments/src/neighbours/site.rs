//! A database of the experiment: started as it is or behind the gate, with its table and its
//! accounts.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};
use headworks_rig::{self as rig, Builder, PostgresServer, Server};
use headworks_workload::db::{Database, Session};

/// Accounts of the clients.
pub(super) const ACCOUNTS: [&str; 5] = ["small", "large", "red", "green", "blue"];

/// Rows of the table, which stays in memory.
pub(crate) const ROWS: i64 = 200_000;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    MariaDb,
    /// With its own pool of threads.
    MariaDbPool,
    PostgreSql,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "MariaDB",
            Kind::MariaDbPool => "MariaDB's pool",
            Kind::PostgreSql => "PostgreSQL",
        }
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) enum Site {
    MariaDb(Server),
    PostgreSql(PostgresServer),
}

impl Site {
    /// Starts a server, behind `prefix` if that is not empty, and fills its table.
    pub(crate) fn start(kind: Kind, prefix: &[OsString], work: &Path) -> Result<Site> {
        let site = Site::launch(kind, prefix, work, None)?;
        site.prepare()?;
        Ok(site)
    }

    /// Starts a server on the data that it finds in `data`, or with temporary data.
    pub(crate) fn launch(
        kind: Kind,
        prefix: &[OsString],
        work: &Path,
        data: Option<&Path>,
    ) -> Result<Site> {
        fn on<K: rig::Kind>(builder: Builder<K>, data: Option<&Path>) -> Builder<K> {
            data.into_iter().fold(builder, Builder::data_directory)
        }
        let site = match kind {
            Kind::MariaDb | Kind::MariaDbPool => {
                let mut builder = Server::builder()
                    .cache(work.join("template"))
                    .options(["--innodb-buffer-pool-size=512M", "--max-connections=500"])
                    .options(["--back-log=500", "--innodb-flush-log-at-trx-commit=0"])
                    .behind(prefix);
                if kind == Kind::MariaDbPool {
                    builder = builder.option("--thread-handling=pool-of-threads");
                }
                Site::MariaDb(on(builder, data).start()?)
            }
            Kind::PostgreSql => {
                let builder = PostgresServer::builder()
                    .setting("shared_buffers", "256MB")
                    .setting("synchronous_commit", "off")
                    .behind(prefix);
                Site::PostgreSql(on(builder, data).start()?)
            }
        };
        match &site {
            Site::MariaDb(server) => server.ensure_gated(!prefix.is_empty())?,
            Site::PostgreSql(server) => server.ensure_gated(!prefix.is_empty())?,
        }
        Ok(site)
    }

    /// Its TCP port.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Site::MariaDb(server) => server.port(),
            Site::PostgreSql(server) => server.port(),
        }
    }

    /// How `account` connects.
    pub(crate) fn database(&self, account: &str) -> Result<Database> {
        let address = match self {
            Site::MariaDb(server) => {
                format!("mysql://{account}@127.0.0.1:{}/{}", server.port(), headworks_rig::DATABASE)
            }
            Site::PostgreSql(server) => {
                format!("postgresql://{account}@127.0.0.1:{}/postgres", server.port())
            }
        };
        Ok(address.parse::<Database>()?)
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self) -> String {
        match self {
            Site::MariaDb(server) => server.log_tail(),
            Site::PostgreSql(server) => server.log_tail(),
        }
    }

    /// Makes the table and the accounts.
    pub(crate) fn prepare(&self) -> Result<()> {
        let account = match self {
            Site::MariaDb(_) => headworks_rig::ACCOUNT,
            Site::PostgreSql(_) => headworks_rig::SUPERUSER,
        };
        let mut session: Box<dyn Session> = self.database(account)?.connect()?;
        let mut statements = match self {
            Site::MariaDb(_) => vec![
                "CREATE TABLE item (id INT PRIMARY KEY, v INT) ENGINE=InnoDB".to_owned(),
                format!("INSERT INTO item SELECT seq, seq % 1000 FROM seq_1_to_{ROWS}"),
            ],
            Site::PostgreSql(_) => vec![
                "CREATE TABLE item (id int PRIMARY KEY, v int)".to_owned(),
                format!("INSERT INTO item SELECT g, g % 1000 FROM generate_series(1, {ROWS}) g"),
                "VACUUM ANALYZE item".to_owned(),
            ],
        };
        for account in ACCOUNTS {
            statements.extend(match self {
                Site::MariaDb(_) => vec![
                    format!("CREATE USER {account}@'%'"),
                    format!("GRANT ALL ON *.* TO {account}@'%'"),
                ],
                Site::PostgreSql(_) => vec![
                    format!("CREATE ROLE {account} LOGIN"),
                    format!("GRANT ALL ON item TO {account}"),
                ],
            });
        }
        for statement in statements {
            session.run(&statement).with_context(|| statement.clone())?;
        }
        Ok(())
    }
}
