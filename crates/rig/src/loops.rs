//! A private Redis, memcached or server of MongoDB's protocol: servers that serve all connections
//! by event loops.

use std::ffi::OsString;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::builder::{Builder, Kind, Place};
use crate::process::Process;
use crate::programs::find_program;
use crate::template::UNPRIVILEGED;

/// A running server with event loops.
pub type LoopServer = Process<LoopKind>;

/// How to start a server with event loops.
pub type LoopBuilder = Builder<LoopKind>;

/// One kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// Redis, without persistence unless a setting asks for it.
    Redis,
    /// memcached.
    Memcached,
    /// mongo-java-server, under a JVM.
    MongoJava,
}

impl LoopKind {
    /// Its program.
    pub fn program(self) -> &'static str {
        match self {
            LoopKind::Redis => "redis-server",
            LoopKind::Memcached => "memcached",
            LoopKind::MongoJava => "java",
        }
    }

    /// Whether it is installed; prints why a test is skipped when it is not.
    pub fn is_here_or_skip(self) -> bool {
        let found = find_program(self.program()).is_some();
        if self == LoopKind::MongoJava {
            let found = found && java_directory().join("classes/MongoServer.class").exists();
            if !found {
                println!(
                    "skipped: there is no JVM, or no server to run under it (scripts/setup java)"
                );
            }
            return found;
        }
        if !found {
            println!("skipped: {0} is not installed (apt-get install {0})", self.program());
        }
        found
    }
}

/// Where `scripts/setup java` puts libraries (`jars`) and programs (`classes`), unless
/// `HEADWORKS_CONFORMANCE_JAVA` names another directory.
pub fn java_directory() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/conformance/java");
    std::env::var_os("HEADWORKS_CONFORMANCE_JAVA").map_or_else(default, PathBuf::from)
}

/// The class path of these programs.
pub fn java_class_path() -> OsString {
    let directory = java_directory();
    let mut path = directory.join("classes").into_os_string();
    path.push(":");
    path.push(directory.join("jars/*"));
    path
}

impl LoopServer {
    /// A server to be configured.
    pub fn builder(kind: LoopKind) -> LoopBuilder {
        Builder::new(kind)
    }
}

impl Kind for LoopKind {
    fn program(&self) -> Result<PathBuf> {
        let name = LoopKind::program(*self);
        find_program(name).with_context(|| format!("{name} is not installed"))
    }

    fn temporary_data(&self, run_directory: &Path) -> PathBuf {
        run_directory.to_owned()
    }

    fn initialise(&self, _place: &Place) -> Result<bool> {
        Ok(true)
    }

    fn arguments(&self, place: &Place) -> Vec<OsString> {
        let port = place.port.to_string();
        let words: &[&str] = match self {
            LoopKind::Redis => &[
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ],
            LoopKind::Memcached => &["-p", &port, "-l", "127.0.0.1", "-U", "0", "-c", "4096"],
            LoopKind::MongoJava => {
                &["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
            }
        };
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        match self {
            LoopKind::Redis => words.push(place.run_directory.clone().into()),
            // It refuses to run as root.
            LoopKind::Memcached => words.extend(["-u".into(), UNPRIVILEGED.into()]),
            LoopKind::MongoJava => {
                words.extend([java_class_path(), "MongoServer".into(), port.as_str().into()]);
            }
        }
        words
    }

    fn ready(&self, server: &LoopServer) -> Result<()> {
        TcpStream::connect(server.address())?;
        Ok(())
    }
}
