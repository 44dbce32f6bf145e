//! A private MariaDB: its own directory, port and socket, all removed when it is dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::builder::{Builder, Kind, Place};
use crate::client::{Address, Client, ClientError, ConnectOptions};
use crate::process::Process;
use crate::programs::Programs;
use crate::template;

/// The account without a password, with all rights and from any address, that every server of the
/// rig has.
pub const ACCOUNT: &str = "app";

/// The empty database that every server of the rig has.
pub const DATABASE: &str = "rig";

/// A running MariaDB.
pub type Server = Process<MariaDb>;

/// How to start a MariaDB.
pub type ServerBuilder = Builder<MariaDb>;

/// MariaDB.
#[derive(Debug, Clone, Default)]
pub struct MariaDb {
    cache: Option<PathBuf>,
}

impl Builder<MariaDb> {
    /// Keeps the template of data directories here instead of among the temporary files.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.kind.cache = Some(directory.into());
        self
    }
}

impl Kind for MariaDb {
    const REFUSES_ROOT: bool = true;

    fn program(&self) -> Result<PathBuf> {
        Ok(Programs::find()?.mariadbd)
    }

    fn initialise(&self, place: &Place) -> Result<bool> {
        let (owner, data) = (place.owner, &place.data_directory);
        if owner.is_some_and(|owner| !owner.can_reach(data)) {
            bail!(
                "the server's unprivileged account cannot enter a parent directory of {}; choose another directory",
                data.display()
            );
        }
        // A server removes the temporary tables that it finds at its start, so no two may share a
        // directory for them.
        let temporary_tables = temporary_tables(place);
        template::private_directory(&temporary_tables)?;
        owner.map_or(Ok(()), |owner| owner.take(&temporary_tables))?;
        let fresh = !data.exists();
        if fresh {
            let cache = self.cache.clone().unwrap_or_else(template::default_cache);
            template::new_data_directory(&Programs::find()?, &cache, owner, data)?;
        }
        Ok(fresh)
    }

    fn arguments(&self, place: &Place) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["--no-defaults".into()];
        let paths = [
            ("datadir", &place.data_directory),
            ("socket", &socket(&place.run_directory)),
            ("pid-file", &place.run_directory.join("pid")),
            ("tmpdir", &temporary_tables(place)),
        ];
        for (name, path) in paths {
            let mut option = OsString::from(format!("--{name}="));
            option.push(path);
            line.push(option);
        }
        line.push(format!("--port={}", place.port).into());
        line.extend(
            [
                "--bind-address=127.0.0.1",
                "--max-connections=2000",
                "--skip-log-bin",
                "--skip-name-resolve",
            ]
            .map(Into::into),
        );
        line.extend(place.owner.map(|owner| format!("--user={}", owner.name()).into()));
        line
    }

    /// A refusal in the protocol counts: the server is up.
    fn ready(&self, server: &Server) -> Result<()> {
        for address in [server.unix(), server.tcp()] {
            match ConnectOptions::new(address, "root")
                .read_timeout(Duration::from_secs(5))
                .connect()
            {
                Ok(client) => client.quit()?,
                Err(ClientError::Server { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Anonymous accounts are removed, as one at `localhost` would be preferred to an account at
    /// any address.
    fn furnish(&self, server: &Server) -> Result<()> {
        server.sql(&format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))?;
        server.sql("DELETE FROM mysql.global_priv WHERE User = ''")?;
        server.sql(&format!("CREATE OR REPLACE USER '{ACCOUNT}'@'%'"))?;
        server.sql(&format!("GRANT ALL ON *.* TO '{ACCOUNT}'@'%' WITH GRANT OPTION"))?;
        server.sql("FLUSH PRIVILEGES")?;
        Ok(())
    }
}

/// The Unix socket: a short path, as a socket address holds 108 bytes.
fn socket(run_directory: &Path) -> PathBuf {
    run_directory.join("s")
}

fn temporary_tables(place: &Place) -> PathBuf {
    place.run_directory.join("tmp")
}

impl Server {
    /// A server to be configured.
    pub fn builder() -> ServerBuilder {
        Builder::new(MariaDb::default())
    }

    /// A server with the rig's defaults and temporary data.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The TCP address.
    pub fn tcp(&self) -> Address {
        Address::Tcp(self.address())
    }

    /// The Unix socket.
    pub fn unix(&self) -> Address {
        Address::Unix(self.socket())
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        socket(self.directory())
    }

    /// Connects as the administrator over the Unix socket.
    pub fn admin(&self) -> Result<Client, ClientError> {
        ConnectOptions::new(self.unix(), "root").connect()
    }

    /// Connects as the ordinary account [`ACCOUNT`] over TCP, with the database [`DATABASE`].
    pub fn connect(&self) -> Result<Client, ClientError> {
        self.options().connect()
    }

    /// The options of [`connect`](Self::connect), to be changed.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions::new(self.tcp(), ACCOUNT).database(DATABASE)
    }

    /// Runs one statement as the administrator.
    pub fn sql(&self, sql: &str) -> Result<crate::Answer> {
        let mut admin = self.admin().context("cannot connect as the administrator")?;
        let answer = admin.query(sql).with_context(|| format!("this statement failed: {sql}"))?;
        admin.quit()?;
        Ok(answer)
    }
}
