//! Checks before anything starts: can this program be preloaded, what will it listen on, and is
//! that free?

mod elf;
mod loops;
mod ports;
mod postgres;
mod program;
mod server;
mod sockets;

pub use loops::{memcached_settings, mongodb_settings, redis_settings};
pub use ports::{port_in_use, socket_in_use};
pub use postgres::{owner_of_data, postgres_settings};
pub use program::{Binary, check_binary};
pub use server::{ServerSettings, mariadb_settings, running_mariadb_settings};

pub(crate) use elf::read as read_elf;
pub(crate) use program::resolve;

/// Architecture of this build, as `dpkg --print-architecture` and humans call it.
pub(crate) const OUR_MACHINE: &str = std::env::consts::ARCH;
