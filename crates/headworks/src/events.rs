//! What a daemon waits for: commands of clients, signals, and the end of a process.

use crate::process;
use anyhow::{Context, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The sources of events.
pub struct Events {
    clients: UnixListener,
    signals: OwnedFd,
    /// The process whose end is an event.
    pub watched: Option<OwnedFd>,
    /// Without free descriptors no client can be accepted, and the socket stays readable. Then one
    /// wait leaves it out.
    listens: bool,
}

/// What has happened.
#[derive(Debug, Default)]
pub struct Happened {
    /// The watched process has ended.
    pub ended: bool,
    /// A client has connected.
    pub client: Option<UnixStream>,
    /// A signal came.
    pub signal: Option<i32>,
}

impl Events {
    /// Listens on `socket`, for this user only, and takes SIGHUP, SIGTERM and SIGINT as events from
    /// here on. To be called before any thread exists.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn start(socket: &Path) -> Result<Events> {
        let signals = process::block_signals()?;
        let _ = std::fs::remove_file(socket);
        let clients = UnixListener::bind(socket)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        Ok(Events { clients, signals, watched: None, listens: true })
    }

    /// Waits until something has happened, for `timeout_ms` at most.
    pub fn wait(&mut self, timeout_ms: i32) -> Happened {
        let clients = if self.listens { self.clients.as_raw_fd() } else { -1 };
        self.listens = true;
        // Poll ignores a negative descriptor.
        let watched = self.watched.as_ref().map_or(-1, OwnedFd::as_raw_fd);
        let mut fds = [watched, clients, self.signals.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array and its length belong together.
        unsafe { libc::poll(fds.as_mut_ptr(), 3, timeout_ms) };
        let [ended, came, signal] = fds.map(|fd| fd.revents != 0);
        let mut happened = Happened { ended, ..Happened::default() };
        if came {
            match self.clients.accept() {
                Ok((stream, _)) => happened.client = Some(stream),
                Err(_) => self.listens = false,
            }
        }
        if signal {
            happened.signal = process::read_signal(&self.signals);
        }
        happened
    }
}
