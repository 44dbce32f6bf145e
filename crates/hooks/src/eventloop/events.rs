//! Events of a client's socket in the kernel: which are asked for, while its session is held and
//! otherwise.

use super::connection::LoopConnection;
use headworks_region::thread::keeping_errno;

pub(super) const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Flags with which a registration is not purely level-triggered.
const SPECIAL: u32 =
    (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE | libc::EPOLLWAKEUP) as u32;
/// Events that are hidden while a session is held: that it has bytes to read.
pub(super) const READING: u32 = IN | RDHUP | libc::EPOLLPRI as u32 | libc::EPOLLRDNORM as u32;

/// How a registration is made in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// The server asked for level-triggered reads only. The kernel is asked for edges, and the
    /// levels are computed here.
    Edges,
    /// Level-triggered, as asked: hiding it takes a system call. For servers that also wait to
    /// write because their client is slow, which is rare.
    Levels,
    /// Edge-triggered or one-shot, as asked. An event that is not passed on does not come again.
    AsAsked,
}

pub(super) fn way(asked: u32) -> Entry {
    if asked & SPECIAL != 0 {
        Entry::AsAsked
    } else if asked & OUT != 0 || asked & IN == 0 {
        Entry::Levels
    } else {
        Entry::Edges
    }
}

/// Events of the real registration.
pub(super) fn real_events(asked: u32, held: bool) -> u32 {
    match way(asked) {
        Entry::Edges => asked | RDHUP | libc::EPOLLET as u32,
        Entry::Levels if held => asked & !READING,
        Entry::Levels | Entry::AsAsked => asked,
    }
}

/// Makes the kernel report a granted session again. Called by the thread that grants, because the
/// set's own thread may be asleep.
pub(super) fn rearm(fd: i32, connection: &LoopConnection) {
    // Done twice if the server changed the registration meanwhile: its change must not be undone.
    for _ in 0..2 {
        let Some(asked) = connection.asked().filter(|_| connection.is_tagged()) else { return };
        modify(asked.0, fd, connection, real_events(asked.1, false));
        if connection.asked() == Some(asked) {
            return;
        }
    }
}

/// Takes a held session out of the set if the kernel would go on reporting it.
pub(super) fn hide(fd: i32, connection: &LoopConnection) {
    if let Some((set, events, _)) = connection.asked()
        && connection.is_tagged()
        && way(events) == Entry::Levels
    {
        modify(set, fd, connection, real_events(events, true));
    }
}

fn modify(set: i32, fd: i32, connection: &LoopConnection, events: u32) {
    let mut event = libc::epoll_event { events, u64: connection.tag(fd) };
    keeping_errno(|| {
        // SAFETY: the event is valid; descriptors that are none (any more) are refused.
        unsafe { libc::syscall(libc::SYS_epoll_ctl, set, libc::EPOLL_CTL_MOD, fd, &raw mut event) };
    });
}
