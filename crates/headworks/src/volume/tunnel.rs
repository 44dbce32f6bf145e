//! The way to a storage server that wants TLS: `headworks store tunnel`, kept running.
//!
//! This program links no library for TLS (decision 21). A tunnel that ends is started again, and
//! the volume's client goes on as after a restart of the server.

use anyhow::{Context, Result, bail};
use headworks_volume::VolumeConfig;
use headworks_volume::store::nbd::{Address, Tls};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a tunnel may take to listen.
const START: Duration = Duration::from_secs(10);

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(50);

/// A tunnel, until it is dropped.
pub struct Tunnel {
    socket: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tunnel {
    /// For a volume whose server is reached by TLS, by this socket. None for others.
    pub fn open(config: &VolumeConfig, socket: &Path) -> Result<Option<Tunnel>> {
        if !config.is_nbd() {
            return Ok(None);
        }
        let address = Address::parse(&config.backing)?;
        let Some(tls) = address.tls() else { return Ok(None) };
        for file in ["ca-cert.pem", "client-cert.pem", "client-key.pem"] {
            let file = tls.certificates.join(file);
            std::fs::File::open(&file)
                .with_context(|| format!("cannot read {}, which TLS needs", file.display()))?;
        }
        let mut child = start(tls, socket)?;
        let deadline = Instant::now() + START;
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            if child.try_wait()?.is_some() || Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the tunnel to {address} does not start: see its words above");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ends = Arc::new(AtomicBool::new(false));
        let (own, to, place) = (Arc::clone(&ends), tls.clone(), socket.to_owned());
        let thread = std::thread::Builder::new()
            .name("tunnel".to_owned())
            .spawn(move || keep(child, &to, &place, &own))?;
        Ok(Some(Tunnel { socket: socket.to_owned(), ends, thread: Some(thread) }))
    }

    /// The Unix socket that leads to the server.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It panics only by a bug of ours, which was reported then.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn start(tls: &Tls, socket: &Path) -> Result<Child> {
    let mut command: Command =
        headworks_console::program("headworks-store", "headworks store tunnel")?;
    let host = match tls.host.contains(':') {
        true => format!("[{}]", tls.host),
        false => tls.host.clone(),
    };
    command
        .args(["tunnel", &format!("{host}:{}", tls.port), "--socket"])
        .arg(socket)
        .arg("--certificate")
        .arg(tls.certificates.join("client-cert.pem"))
        .arg("--key")
        .arg(tls.certificates.join("client-key.pem"))
        .arg("--servers")
        .arg(tls.certificates.join("ca-cert.pem"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let parent = std::process::id();
    // SAFETY: only calls that are safe between fork and exec. Without its volume a tunnel has no
    // use; a volume that is gone already has another parent's number.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            if libc::getppid() as u32 != parent {
                Err(std::io::ErrorKind::Other.into())
            } else {
                Ok(())
            }
        });
    }
    command.spawn().context("cannot start `headworks store tunnel`")
}

/// Starts it again whenever it ends.
fn keep(mut child: Child, tls: &Tls, socket: &Path, ends: &AtomicBool) {
    let mut running = true;
    while !ends.load(Ordering::Acquire) {
        if running && matches!(child.try_wait(), Ok(Some(_))) {
            eprintln!("headworks: the tunnel has ended; starting it again");
            running = false;
        }
        if !running && let Ok(fresh) = start(tls, socket) {
            child = fresh;
            running = true;
        }
        std::thread::sleep(LOOK);
    }
    let _ = child.kill();
    let _ = child.wait();
}
