//! The process of a store: signals, the control socket, metrics.

use anyhow::{Context, Result, bail};
use headworks_store::config::{Size, Volume};
use headworks_store::control;
use headworks_store::metrics::{self, Metrics};
use headworks_store::running::Running;
use headworks_store::server::Server;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Serves until it is told to stop.
pub fn serve(config: &Path) -> Result<()> {
    let signals = Signals::block();
    for volume in headworks_store::config::load(config)?.volumes {
        look_for(&volume)?;
    }
    let server = Server::start(config)?;
    let running = Arc::clone(&server.running);
    let loaded = headworks_store::config::load(config)?;
    let path = loaded.control();
    let control = listen(&path)?;
    let own = Arc::clone(&running);
    std::thread::Builder::new().name("store-control".to_owned()).spawn(move || {
        for client in control.incoming().flatten() {
            let own = Arc::clone(&own);
            // Errors of a client concern only that client.
            let _ = std::thread::Builder::new()
                .spawn(move || control::serve(client, |request| own.answer(request)));
        }
    })?;
    let _metrics = match loaded.metrics {
        Some(address) => Some(serve_metrics(address, &running)?),
        None => None,
    };
    println!("{} volumes are served on {}", loaded.volumes.len(), loaded.listen.join(", "));
    notify("READY=1");
    loop {
        match signals.wait(Duration::from_millis(500)) {
            Some(libc::SIGHUP) => match running.reload() {
                Ok(done) => eprintln!("headworks-store: {done}"),
                Err(error) => eprintln!("headworks-store: nothing is changed: {error}"),
            },
            Some(_) => break,
            None if server.has_ended() => bail!("a listener has failed"),
            None => {}
        }
    }
    notify("STOPPING=1");
    server.stop();
    // Another store may have taken its place.
    let _ = std::fs::remove_file(&path);
    Ok(())
}

/// Says which file of a volume is missing, and how to make it.
fn look_for(volume: &Volume) -> Result<()> {
    let path = Path::new(&volume.path);
    if volume.path == "memory" || volume.path.contains("://") || path.exists() {
        return Ok(());
    }
    let size = volume.size.as_ref().and_then(Size::bytes).unwrap_or(10 << 30);
    let dir = path.parent().filter(|dir| !dir.is_dir());
    let make = dir.map_or_else(String::new, |dir| format!("mkdir -p {}; ", dir.display()));
    bail!(
        "volume `{}`: there is no {}\n  make it: {make}truncate -s {size} {}; or write another `path`",
        volume.name,
        path.display(),
        path.display()
    )
}

fn serve_metrics(address: std::net::SocketAddr, running: &Arc<Running>) -> Result<Metrics> {
    let running = Arc::clone(running);
    Metrics::start(address, move || metrics::text(&running.status()))
        .with_context(|| format!("cannot serve metrics on {address}\n  see who has it: ss -ltnp"))
}

/// The control socket, which only this user may open.
fn listen(path: &Path) -> Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        bail!("a store runs there already: {}", path.display());
    }
    // Of a store that was killed, if there is one.
    let _ = std::fs::remove_file(path);
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot make {}", path.display()))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Tells systemd, if it started this.
fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() else { return };
    let name = path.as_encoded_bytes();
    // Without an answer from here, systemd says so itself.
    let _ = match name.strip_prefix(b"@") {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(state.as_bytes(), &address))
        }
        None => socket.send_to(state.as_bytes(), &path),
    };
}

/// Signals that end the store, or have it read its configuration.
struct Signals(libc::sigset_t);

impl Signals {
    /// Keeps them for [`Signals::wait`]. Before any thread exists: they inherit it.
    fn block() -> Signals {
        // SAFETY: all zeros is a valid set, which sigemptyset then makes empty; the rest adds to it
        // and blocks it for this thread.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            Signals(set)
        }
    }

    fn wait(&self, time: Duration) -> Option<i32> {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: a valid set and time; no information is asked for.
        let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &time) };
        (signal > 0).then_some(signal)
    }
}
