//! What the server registers by `epoll_ctl`, and what is registered in the kernel instead.

use super::connection::{self, Asked, LoopConnection, QueueState};
use super::events::{IN, real_events};
use super::section::{self, Set};
use super::turn::turn;
use crate::mysql::Opaque;
use crate::{conn, process, threads};
use headworks_region::{Protocol, State, clock, set_waker};

/// A call of `epoll_ctl` for a client's socket, in progress.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    fd: i32,
    connection: &'static LoopConnection,
    before: Option<Asked>,
    was_tagged: bool,
    asked: Option<Asked>,
    is_tagged: bool,
    count: Option<(u32, bool)>,
    /// Events and data to make the call with; `None` for the caller's own.
    pub real: Option<(u32, u64)>,
}

/// The server made an epoll set.
pub fn created(set: i32) {
    if process::region().is_some()
        && process::is_attached_process()
        && let Some(found) = section::find_or_make(set)
    {
        found.renew(true);
    }
}

/// The descriptor of what may be an epoll set is about to be closed.
pub fn closing_set(set: i32) {
    let Some(found) = section::find(set).filter(|found| found.in_use() || found.is_made()) else {
        return;
    };
    if super::is_foreign() {
        return;
    }
    if let Some(section) = found.enter() {
        let lists = section.lists();
        for queue_state in
            [QueueState::Held, QueueState::Granted, QueueState::Served, QueueState::Kept]
        {
            while let Some((fd, connection)) = lists.first(queue_state) {
                lists.put(fd, connection, QueueState::Out);
            }
        }
    }
    found.renew(false);
}

/// The server is about to call `epoll_ctl` for `fd`. `None` if the call is not governed. Otherwise
/// the caller makes the call as returned and reports its result to [`settled`].
pub fn prepare(set: i32, op: i32, fd: i32, asked: Option<(u32, u64)>) -> Option<Registration> {
    let known = connection::client(fd);
    let is_client = known.is_some() || conn::find(fd)?.session_id().is_some();
    if !is_client || super::is_foreign() {
        return None;
    }
    let connection = known.or_else(|| adopt(fd)).filter(|connection| !connection.is_blocking())?;
    let before = connection.asked();
    let was_tagged = connection.is_tagged();
    let same = Registration {
        fd,
        connection,
        before,
        was_tagged,
        asked: before,
        is_tagged: was_tagged,
        count: None,
        real: None,
    };
    if before.is_some_and(|(other, ..)| other != set) {
        // It is in a second set: only the first is governed.
        return None;
    }
    if op == libc::EPOLL_CTL_DEL {
        return Some(Registration { asked: None, is_tagged: false, ..same });
    }
    let (events, data) = asked?;
    if events & IN != 0 {
        turn_over_elsewhere(set, fd, connection);
    }
    let found = section::find_or_make(set);
    let waited = found.is_some_and(Set::is_waited);
    // A server with a pool, which is known by its name, waits by functions that are hooked.
    let is_tagged =
        found.is_some() && process::region().is_some_and(|region| waited || region.pooled());
    let asked = Some((set, events, data));
    // Before the call: an event may come before it returns.
    let count = Some(connection.next_registration());
    connection.note_asked(asked, is_tagged);
    if is_tagged
        && !was_tagged
        && let Some(set) = found
    {
        set.count_tagged(true);
    }
    let held = connection.queue_state() == QueueState::Held;
    let real = is_tagged.then(|| (real_events(events, held), connection.tag(fd)));
    Some(Registration { asked, is_tagged, count, real, ..same })
}

/// The call that [`prepare`] prepared has been made.
pub fn settled(registration: Registration, done: bool) {
    let Registration { fd, connection, before, was_tagged, asked, is_tagged, count, .. } =
        registration;
    let set = asked.or(before).and_then(|(set, ..)| section::find(set));
    if !done {
        if asked.is_none() {
            return;
        }
        if let Some(count) = count {
            connection.undo_registration(count);
        }
        connection.note_asked(before, was_tagged);
        if is_tagged
            && !was_tagged
            && let Some(set) = set
        {
            set.count_tagged(false);
        }
        return;
    }
    let Some(set) = set else { return };
    if asked.is_none() {
        // Leave every list of this set, too: the next set that it is in has its own lists.
        withdraw(set, fd, connection);
        connection.note_asked(None, false);
    }
    if was_tagged && !is_tagged {
        set.count_tagged(false);
    }
    let reads = asked.is_some_and(|(_, events, _)| events & IN != 0);
    match connection.queue_state() {
        QueueState::Held | QueueState::Granted if !reads => withdraw(set, fd, connection),
        _ if asked.is_none() => {}
        // The server registers it again, so it wants more: its turn is checked again.
        QueueState::Kept if reads && !connection.is_elsewhere() => {
            if let Some(section) = set.enter() {
                section.lists().put(fd, connection, QueueState::Served);
            }
        }
        _ => {}
    }
}

/// The server removes a session that is held or served from the set.
fn withdraw(set: &'static Set, fd: i32, connection: &'static LoopConnection) {
    if connection.queue_state() == QueueState::Out {
        return;
    }
    {
        // The section is held only briefly. To go on without it would corrupt the lists.
        let Some(section) = (0..20).find_map(|_| set.enter()) else { return };
        let _ = turn(section.lists(), (fd, connection), clock::now(), |turn| turn.account());
        section.lists().put(fd, connection, QueueState::Out);
        if let Some(mut used) = connection.use_soon()
            && let Some(inner) = used.inner()
        {
            inner.waiting = false;
        }
    }
    if let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) {
        region.leave(session_id);
    }
}

/// A connection that `threads` follows is put into an epoll set. Its server has a pool of threads,
/// and does so once the client has logged in. Other sockets that it accepts, as those of a
/// cluster's replication, belong to a separate event loop of the server. Those must not be held.
#[inline(never)] // seldom called, and it takes much of the stack
fn adopt(fd: i32) -> Option<&'static LoopConnection> {
    let conn = conn::find(fd)?;
    let session_id = conn.session_id()?;
    if !process::region()?.pooled() || !has_logged_in(&conn.try_use()?) {
        return None;
    }
    let connection = connection::find_or_make(fd)?;
    set_waker(super::turn::wake);
    connection.end();
    connection.note_asked(None, false);
    connection.begin(fd, session_id, Protocol::MySql).then_some(connection)
}

fn has_logged_in(inner: &conn::Use<'_>) -> bool {
    // No login is seen if the protocol has none, or if TLS hides it.
    inner.framing == conn::Framing::Generic
        || inner.session.opaque() == Some(Opaque::Tls)
        || inner.session.identity().is_some()
}

/// A thread of a pool gives a connection back to the set: the request is over, and perhaps the
/// turn. If the session keeps its permit, that is recorded before its next request can arrive.
fn turn_over_elsewhere(set: i32, fd: i32, connection: &'static LoopConnection) {
    let Some(conn) = conn::find(fd).filter(|conn| conn.session_id().is_some()) else { return };
    threads::about_to_wait(conn);
    let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) else {
        return;
    };
    let Some(slot) = region.session(session_id) else { return };
    if !matches!(slot.state(), State::Running | State::Owed) {
        return;
    }
    if let Some(section) = section::find_or_make(set).and_then(Set::enter) {
        region.begin_gap(slot, clock::now());
        section.lists().put(fd, connection, QueueState::Kept);
    }
}
