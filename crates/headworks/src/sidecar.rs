//! `headworks attend`: the gate of a service, made ready before the service starts.
//!
//! A service manager starts the database in its own way; this process runs as its sidecar. It makes
//! the region and tells the manager that it is ready. Then it is the daemon of the server that
//! attaches: the preloaded library records the process that accepts the first connection. When the
//! server ends, it waits for the next one. If it is killed, all requests pass, and its successor
//! takes over the region that the server uses.

use crate::cgroup::{Companion, Worker};
use crate::cli::Attend;
use crate::config::{self, Config};
use crate::daemon::{self, apply_config};
use crate::instance::{Instance, Note, started_ticks};
use crate::io;
use crate::profile::Profiles;
use anyhow::Result;
use headworks_region::Mapping;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Makes the gate ready and serves it until it is told to end.
pub fn run(args: &Attend) -> Result<()> {
    daemon::prefer();
    let mut config = match &args.config {
        Some(path) => config::load(path)?,
        None => Config::default(),
    };
    let scheduled = config.io.choose(args.io) || args.io_region;
    let profile = Profiles::read()?.asked(&args.profile)?;
    let instance = Instance::named(&args.name)?;
    let region = region(&instance)?;
    region.set_protocol(profile.protocol);
    region.declared_locks.set(&profile.locks);
    region.set_pooled(args.pool_of_threads || profile.served_by == "event-loops");
    let server_pid = region.heartbeat.server.load(Ordering::Relaxed);
    if region.heartbeat.ungoverned() {
        eprintln!("headworks: {}", daemon::says_ungoverned(server_pid));
    }
    let note = Note {
        server_pid,
        server_started_ticks: started_ticks(server_pid).unwrap_or(0),
        command: Vec::new(),
        config: args.config.as_ref().map(std::fs::canonicalize).transpose()?,
        extra_port: args.extra_port,
        profile: profile.name.clone(),
        profile_file: profile.file.as_ref().map(std::fs::canonicalize).transpose()?,
        attended: true,
        cpu_weights: config.cpu_weights,
        token: None,
    };
    instance.rewrite_note(&note)?;
    apply_config(&region, &config, note.extra_port, &profile.bypass);
    // A server that uses one keeps it, with what was set meanwhile.
    let lives = server_pid != 0 && started_ticks(server_pid).is_some();
    let kept = || (lives || instance.mapped_by().is_some()) && instance.open_io().is_ok();
    if scheduled && !kept() {
        let _ = std::fs::remove_file(instance.io_path());
        io::prepare(&instance, None, &config.io, &profile, Path::new("."))?;
    }
    println!(
        "headworks: the gate of `{}` is ready (profile {}, region {})",
        instance.name,
        profile.name,
        instance.region_path().display()
    );
    let companion = match config.cpu_weights {
        true => Companion::Own(Box::new(Worker::new(&instance.name))),
        false => Companion::None,
    };
    daemon::run(instance, Some(Manager), false, companion)
}

/// The instance's existing region, if a process uses it and this build can, else a fresh one.
/// A server that uses a region of another version keeps that: it is not governed until it is
/// restarted. The directory may have been made by the service manager.
fn region(instance: &Instance) -> Result<Mapping> {
    instance.refuse_elsewhere()?;
    let user = instance.mapped_by();
    if let Ok(region) = instance.open_region() {
        let server = region.heartbeat.server.load(Ordering::Relaxed);
        if user.is_some() || (server != 0 && started_ticks(server).is_some()) {
            return Ok(region);
        }
    }
    let noted = instance.note().ok().filter(|_| instance.is_running()).map(|note| note.server_pid);
    instance.empty()?;
    let region = instance.create_in_place()?;
    if let Some(server) = noted.or(user) {
        region.heartbeat.set_ungoverned(server);
    }
    Ok(region)
}

/// The service manager, which is told once that the service is ready.
struct Manager;

impl std::io::Write for Manager {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        notify()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// As in sd_notify(3); does nothing if no manager asks for it.
fn notify() -> std::io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let socket = UnixDatagram::unbound()?;
    let name = name.to_string_lossy();
    let address = match name.strip_prefix('@') {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)?
        }
        None => SocketAddr::from_pathname(&*name)?,
    };
    socket.send_to_addr(b"READY=1", &address).map(|_| ())
}
