//! The rig: real servers, a raw client and readings of the machine, for tests and experiments.
//!
//! * [`Server`] starts an unmodified MariaDB in a private directory, on a private port and socket.
//!   It stops it again, whatever happens to the process that started it.
//! * [`PostgresServer`] is the same for PostgreSQL.
//! * [`LoopServer`] is the same for Redis and memcached.
//! * [`Client`] speaks the MySQL wire protocol byte by byte, so that a test can send what no driver
//!   would send.
//! * [`machine`] describes the machine of a measurement, and how busy it was.
//!
//! * [`gated`] puts the program `headworks` in front of any of them, and reads its status.
//!
//! Nothing here touches the machine's own databases. It depends only on the gate's program: a
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

pub use builder::{Builder, Kind, free_port};
pub use client::{Address, Answer, Client, ClientError, ConnectOptions};
pub use guard::Guard;
pub use loops::{LoopBuilder, LoopKind, LoopServer, java_class_path, java_directory};
pub use mariadb::{ACCOUNT, DATABASE, MariaDb, Server, ServerBuilder};
pub use postgres::{
    POSTGRES_SKIPPED, PostgreSql, PostgresBuilder, PostgresServer, SUPERUSER, postgres_or_skip,
    postgres_program,
};
pub use process::{Process, Stopped};
pub use programs::{Programs, SKIPPED, find_program};

/// Whether a server started by this process could keep its data in `directory` (which need not
/// exist). Started by root, it runs as an unprivileged account, which must be able to enter every
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
