//! How a gated server is started, and where its instance lives.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use headworks_rig::{Server, mariadb_or_skip};

use crate::common::{Gate, NAME};
pub use crate::directory::RunDirectory;

/// How a gated server is to be started.
pub struct Setup {
    keys: BTreeMap<&'static str, String>,
    pub sections: String,
    options: Vec<String>,
}

impl Setup {
    /// P permits. The limits on holds, stalls and idling are out of reach of a test. A session that
    /// sleeps or idles keeps its permit.
    pub fn places(parallelism: u32) -> Setup {
        let setup = Setup { keys: BTreeMap::new(), sections: String::new(), options: Vec::new() };
        setup
            .key("parallelism", parallelism)
            .key("hold_ms_max", 900_000)
            .key("idle_in_transaction_ms", 600_000)
            .key("stall_ms", 600_000)
            .key("count", "\"admitted\"")
    }

    /// A key of the section `[gate]`.
    pub fn key(mut self, key: &'static str, value: impl Display) -> Setup {
        self.keys.insert(key, value.to_string());
        self
    }

    /// A place is lent out as soon as its owner idles for a moment.
    pub fn lending(self) -> Setup {
        self.key("idle_in_transaction_ms", 50)
    }

    /// As by default: sessions that do not work lend their permit.
    pub fn working(self) -> Setup {
        self.key("count", "\"working\"")
    }

    /// Classes and rules.
    pub fn sections(mut self, text: &str) -> Setup {
        self.sections = text.to_owned();
        self
    }

    /// An option of the server.
    pub fn option(mut self, option: impl Into<String>) -> Setup {
        self.options.push(option.into());
        self
    }

    /// Options of the server.
    pub fn options<'a>(self, options: impl IntoIterator<Item = &'a str>) -> Setup {
        options.into_iter().fold(self, Setup::option)
    }

    /// Starts the server; `None`, with a printed reason, if there is no MariaDB here.
    pub fn start(self) -> Option<Gate> {
        if !mariadb_or_skip() {
            return None;
        }
        let headworks = Path::new(env!("CARGO_BIN_EXE_headworks"));
        assert!(
            std::env::var_os("HEADWORKS_SHIM").is_some()
                || headworks.with_file_name("libheadworks.so").exists(),
            "no libheadworks.so beside {}: run `cargo build --workspace` first",
            headworks.display()
        );
        let directory = RunDirectory::new();
        let config = directory.0.join("headworks.toml");
        fs::write(&config, self.text()).unwrap();
        let server = Server::builder()
            .prefix([
                headworks.as_os_str(),
                "run".as_ref(),
                "--name".as_ref(),
                NAME.as_ref(),
                "--config".as_ref(),
                config.as_os_str(),
                "--".as_ref(),
            ])
            .env("HEADWORKS_RUN_DIR", &directory.0)
            .options(["--innodb-flush-log-at-trx-commit=0"])
            .options(crate::POOL.then_some("--thread-handling=pool-of-threads"))
            .options(&self.options)
            .remove_when_orphaned(&directory.0)
            .start()
            .unwrap();
        assert!(server.has_mapped("libheadworks").unwrap());
        Some(Gate::new(server, directory, config, self))
    }

    /// The administrator of the tests is never held: `root`, over the Unix socket.
    pub fn text(&self) -> String {
        let mut text = "[gate]\n".to_owned();
        for (key, value) in &self.keys {
            text += &format!("{key} = {value}\n");
        }
        text += &self.sections;
        text + "\n[[rule]]\naccount = \"root\"\nbypass = true\n"
    }
}
