//! Connections to one export that follow each other: which are over, and how they give way.

use super::directory::Origin;
use super::link::Link;
use crate::clock;
use headworks_policy::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A connection that was silent for so long has nothing on its way.
const QUIET: Duration = Duration::from_millis(100);

/// How long a connection waits for those before it. A client that is busy on many connections may
/// open one more.
const SETTLE: Duration = Duration::from_secs(3);

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The client's end is closed.
const GONE: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

impl Link {
    /// The client says that it leaves, and waits for what is open.
    pub(super) fn note_leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// The client's end is closed.
    pub(super) fn is_broken(&self) -> bool {
        let mut fds = [PollFd::new(self.wire(), PollFlags::RDHUP)];
        poll(&mut fds, Some(&NOW)).is_ok() && fds[0].revents().intersects(GONE)
    }

    /// Bytes came from the client.
    pub(super) fn note_heard(&self) {
        self.heard_ns.store(clock::now().0, Ordering::Relaxed);
        self.at_rest.store(false, Ordering::Release);
    }

    /// Bytes are waited for, in the middle of a request or not.
    pub(super) fn note_waits(&self, at_rest: bool) {
        self.at_rest.store(at_rest, Ordering::Release);
    }

    /// Waits until each of these connections is over, or has had nothing to do for a while, if it
    /// is of the same machine as this one. By TCP, the end of a killed client's stream comes behind
    /// all that it had sent before: until then, its connection looks alive.
    pub(super) fn settle(&self, earlier: &[Arc<Link>]) {
        let same = |other: &&Arc<Link>| match (self.terms.origin, other.terms.origin) {
            (Origin::Tcp(own), Origin::Tcp(other)) => own.ip() == other.ip(),
            _ => false,
        };
        let session = |other: &&Arc<Link>| {
            self.terms.session.is_empty() || other.terms.session != self.terms.session
        };
        let mut busy: Vec<&Arc<Link>> = earlier.iter().filter(session).filter(same).collect();
        let until = Instant::now() + SETTLE;
        loop {
            busy.retain(|other| !other.is_quiet() && !other.is_over());
            if busy.is_empty() || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_over(&self) -> bool {
        self.is_broken() || self.lock().dead
    }

    /// Which of these connections' clients have closed their end, by one system call.
    pub(super) fn broken(links: &[Arc<Link>]) -> Vec<bool> {
        let mut fds: Vec<PollFd<'_>> =
            links.iter().map(|link| PollFd::new(link.wire(), PollFlags::RDHUP)).collect();
        let looked = poll(&mut fds, Some(&NOW)).is_ok();
        fds.iter().map(|fd| looked && fd.revents().intersects(GONE)).collect()
    }

    /// The client's own socket.
    fn wire(&self) -> &OwnedFd {
        self.terms.wire.as_ref().unwrap_or(&self.socket)
    }

    fn is_quiet(&self) -> bool {
        let heard = Nanos(self.heard_ns.load(Ordering::Relaxed));
        let waits = |socket: &OwnedFd| !matches!(rustix::io::ioctl_fionread(socket), Ok(0));
        clock::now().since(heard).0 > QUIET.as_nanos() as u64
            && self.at_rest.load(Ordering::Acquire)
            && self.lock().requests == 0
            && !waits(&self.socket)
            && !self.terms.wire.as_ref().is_some_and(waits)
    }

    /// Another connection of the same export follows. If this one is over, or of the same session,
    /// none of its requests reaches the store after this. Says whether that came in time.
    pub(super) fn give_way(&self, session: &str, broken: bool) -> bool {
        let same = !session.is_empty() && self.terms.session == session;
        if same {
            self.hang_up();
        } else if !broken && !self.lock().dead {
            return true;
        } else if self.left.load(Ordering::Acquire) {
            // What a client has asked for before it left is carried out.
            return self.wait_idle();
        }
        self.fence.close(self.terms.patience)
    }

    fn wait_idle(&self) -> bool {
        let until = Instant::now() + self.terms.patience;
        let mut state = self.lock();
        while state.requests > 0 && Instant::now() < until {
            state.waited_for = true;
            let step = Duration::from_millis(100);
            let waited = self.room.wait_timeout(state, step);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.requests == 0
    }
}
