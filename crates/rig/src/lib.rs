//! The rig: real servers, a raw client and the machine's own readings, for tests and experiments.
//!
//! * [`Server`] starts an unmodified MariaDB in a private directory, on a private port and socket,
//!   and takes it down again, whatever happens to the process that started it.
//! * [`PostgresServer`] is the same for PostgreSQL.
//! * [`LoopServer`] is the same for Redis and memcached.
//! * [`Client`] speaks the MySQL wire protocol byte by byte, so that a test can send what no driver
//!   would send.
//! * [`machine`] says where a measurement was made and how busy the machine was meanwhile.
//!
//! * [`gated`] puts the program `headworks` in front of any of them, and asks it.
//!
//! Nothing here touches the machine's own databases. Of the gate, only its program is known: a
//! command in front of the server's own ([`Builder::prefix`]).

mod builder;
pub mod client;
pub mod gated;
mod guard;
mod loops;
pub mod machine;
mod mariadb;
mod postgres;
mod process;
mod programs;
mod template;
pub mod wire;

pub use builder::{Builder, Kind};
pub use client::{Address, Answer, Client, ClientError, ConnectOptions};
pub use loops::{LoopBuilder, LoopKind, LoopServer, java_class_path, java_directory};
pub use mariadb::{ACCOUNT, DATABASE, MariaDb, Server, ServerBuilder};
pub use postgres::{
    POSTGRES_SKIPPED, PostgreSql, PostgresBuilder, PostgresServer, SUPERUSER, postgres_or_skip,
    postgres_program,
};
pub use process::{Process, Stopped};
pub use programs::{Programs, SKIPPED, find_program};

/// Whether a server started by this process could keep its data in `directory` (which need not
/// exist): started by root it runs as an unprivileged account, which has to be able to enter every
/// parent.
pub fn server_can_reach(directory: &std::path::Path) -> bool {
    match template::Owner::for_servers() {
        Ok(Some(owner)) => {
            std::path::absolute(directory).is_ok_and(|directory| owner.can_reach(&directory))
        }
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Whether MariaDB is installed; prints why a test is skipped when it is not.
///
/// ```no_run
/// if !headworks_rig::mariadb_or_skip() {
///     return;
/// }
/// ```
pub fn mariadb_or_skip() -> bool {
    let found = Programs::find().is_ok();
    if !found {
        println!("{SKIPPED}");
    }
    found
}
