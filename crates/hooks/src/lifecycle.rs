//! What happens to the process as a whole, whichever way it serves its clients: one connects, and
//! the process forks.

use crate::threads::blocked;
use crate::{backend, eventloop, process, server, threads};
use headworks_region::{Protocol, lock};

/// This process is about to listen.
pub fn listens() {
    if let Some(region) = process::region().filter(|_| process::is_attached_process()) {
        server::listens(region);
    }
}

/// `accept` returned a connection.
pub fn accepted(fd: i32) {
    let Some(region) = process::region() else { return };
    if !process::is_attached_process() {
        return;
    }
    server::accepts(region);
    let Some(region) = process::region() else { return };
    match region.protocol() {
        Protocol::MySql | Protocol::Generic => threads::accepted(region, fd),
        Protocol::PostgreSql => backend::accepted(fd),
        protocol => eventloop::accepted(fd, protocol),
    }
}

/// In the child after `fork`. If it is to serve the connection that its parent accepted, it goes on
/// as its own process. Otherwise its parent's connections are not its concern.
pub fn forked() {
    lock::forget_thread_id();
    blocked::serves(None);
    eventloop::forked();
    process::forked(backend::inherit());
}
