//! Operations before and after the server's call of `epoll_wait`.

use super::connection::{self, LoopConnection, QueueState};
use super::events::{Entry, READING, rearm, way};
use super::section::{self, Lists, Set};
use super::turn::{Refused, Turn, has_more, turn};
use crate::process;
use headworks_policy::Nanos;
use headworks_region::layout::Counter;
use headworks_region::{Region, clock};
use libc::epoll_event;

/// Longest sleep of a loop while sessions are held, and interval at which it checks them.
const MAX_SLEEP: Nanos = Nanos::from_millis(200);

/// Sleep of a loop that must retry because another thread uses a connection. Without a sleep, that
/// thread might get no processor to finish on.
const MOMENT: Nanos = Nanos::from_millis(1);

const HUNG_UP: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// How long the kernel may let the loop sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Not at all: events are ready to be passed on.
    None,
    /// At most this long, whatever the server asked for.
    AtMost(Nanos),
    /// As long as the server asked for.
    Freely,
}

/// The server is about to wait for events of a set that has clients in it.
pub fn before_wait(set: i32, now: Nanos) -> Sleep {
    let Some(section) = section::find(set).and_then(Set::enter) else {
        return Sleep::AtMost(MAX_SLEEP);
    };
    let lists = section.lists();
    if !contended(lists) {
        lists.next_round();
        settle_earlier(lists, now);
    }
    if !lists.is_empty(QueueState::Granted) {
        return Sleep::None;
    }
    let busy = match lists.first(QueueState::Served) {
        None => None,
        Some((_, connection)) if connection.is_in_use() && connection.use_soon().is_none() => {
            Some(MOMENT)
        }
        Some(_) => return Sleep::None,
    };
    let held = about_to_sleep(lists, now);
    let kept = lend_idle(lists, now);
    if !lists.is_empty(QueueState::Granted) {
        return Sleep::None;
    }
    match [busy, held, kept].into_iter().flatten().min() {
        Some(time) => Sleep::AtMost(time),
        // While this thread sleeps, another thread of the pool may hold a session of this set.
        None if process::region().is_some_and(Region::pooled) => Sleep::AtMost(MAX_SLEEP),
        None => Sleep::Freely,
    }
}

/// Whether any session is queued for the permits that served sessions would give back.
fn contended(lists: Lists) -> bool {
    process::region().is_some_and(|region| region.pending() > 0)
        || !lists.is_empty(QueueState::Held)
        || !lists.is_empty(QueueState::Granted)
}

/// The server's wait returned `count` events. Passes on the events of sessions that are admitted,
/// and appends the events of held sessions that were granted, as far as `events` has room.
/// Returns the number of events for the server.
pub fn after_wait(set: i32, events: &mut [epoll_event], count: usize) -> usize {
    let Some(section) = section::find(set).and_then(Set::enter) else {
        return pass_through(events, count);
    };
    let lists = section.lists();
    let now = clock::now();
    lists.next_round();
    let mut passed_on = 0;
    for at in 0..count.min(events.len()) {
        if let Some(event) = pass_on(lists, events[at], now) {
            events[passed_on] = event;
            passed_on += 1;
        }
    }
    settle_earlier(lists, now);
    if now.since(lists.looked()) >= MAX_SLEEP {
        lists.note_looked(now);
        each_held(lists, now, |turn| turn.look());
        lend_idle(lists, now);
    }
    while passed_on < events.len()
        && let Some((fd, connection)) = lists.first(QueueState::Granted)
    {
        if let Some(event) = grant(lists, fd, connection, now) {
            events[passed_on] = event;
            passed_on += 1;
        }
    }
    passed_on
}

/// Translates events back to what the server registered, and holds none: the gate is bypassed.
/// Returns the number of events.
pub fn pass_through(events: &mut [epoll_event], count: usize) -> usize {
    let mut passed_on = 0;
    for at in 0..count.min(events.len()) {
        if let Some(event) = translated(events[at]) {
            events[passed_on] = event;
            passed_on += 1;
        }
    }
    passed_on
}

fn translated(event: epoll_event) -> Option<epoll_event> {
    let Some(client) = connection::tagged(event.u64) else { return Some(event) };
    let (_, connection) = client?;
    connection.note_ready(event.events);
    server_event(connection, event.events)
}

/// An event as the server registered it; `None` if it did not ask for it.
fn server_event(connection: &LoopConnection, events: u32) -> Option<epoll_event> {
    let (_, asked, data) = connection.asked()?;
    let events = events & (asked | HUNG_UP);
    (events != 0 && connection.tell()).then_some(epoll_event { events, u64: data })
}

/// The part of a kernel event that the server may see.
fn pass_on(lists: Lists, event: epoll_event, now: Nanos) -> Option<epoll_event> {
    let Some(client) = connection::tagged(event.u64) else { return Some(event) };
    // Closed or registered again meanwhile.
    let (fd, connection) = client?;
    if connection.was_told() {
        return None;
    }
    let events = event.events;
    connection.note_ready(events);
    let hung_up = events & HUNG_UP != 0;
    if events & READING == 0 && !hung_up {
        return server_event(connection, events);
    }
    let goes_on = turn(lists, (fd, connection), now, |turn| {
        if turn.connection.queue_state() != QueueState::Served {
            return turn.admit(hung_up);
        }
        // It was served before, and has sent more.
        turn.settle(true);
        if turn.connection.queue_state() == QueueState::Held {
            return turn.admit(hung_up);
        }
        turn.go_on();
        true
    });
    match goes_on {
        Ok(false) => server_event(connection, events & !READING),
        Ok(true) => server_event(connection, events),
        Err(refused) => {
            pass(lists, fd, connection, refused);
            server_event(connection, events)
        }
    }
}

/// A session's event bypasses the gate.
fn pass(lists: Lists, fd: i32, connection: &LoopConnection, refused: Refused) {
    if refused == Refused::Busy
        && let Some(region) = process::region()
    {
        region.count(Counter::ConcurrentUse);
    }
    lists.put(
        fd,
        connection,
        if connection.is_elsewhere() { QueueState::Out } else { QueueState::Served },
    );
}

/// A session that bypasses the gate must not keep a permit. It may have got one earlier, or be
/// getting one at this moment.
fn give_back(connection: &LoopConnection) {
    if let (Some(region), Some(session_id)) = (process::region(), connection.session_id()) {
        region.leave(session_id);
    }
}

/// Passes on an event that was held.
fn grant(
    lists: Lists,
    fd: i32,
    connection: &'static LoopConnection,
    now: Nanos,
) -> Option<epoll_event> {
    if let Err(refused) = turn(lists, (fd, connection), now, |turn| turn.go_on()) {
        pass(lists, fd, connection, refused);
    }
    if connection.asked().is_some_and(|(_, events, _)| way(events) == Entry::Levels) {
        rearm(fd, connection);
    }
    server_event(connection, connection.ready())
}

/// Settles the sessions that were served in an earlier round.
fn settle_earlier(lists: Lists, now: Nanos) {
    while let Some((fd, connection)) = lists.first(QueueState::Served) {
        if lists.is_of_this_round(connection) {
            return;
        }
        let more = has_more(fd, connection);
        match turn(lists, (fd, connection), now, |turn| turn.settle(more)) {
            Ok(()) => {}
            // The gate does not decide about it; the bytes that were not read are still there.
            Err(Refused::Ungated) => {
                give_back(connection);
                lists.put(fd, connection, if more { QueueState::Granted } else { QueueState::Out });
            }
            // The next call settles it: nothing else would end its turn.
            Err(Refused::Busy) => lists.put(fd, connection, QueueState::Served),
        }
    }
}

/// Runs an operation on each held session. Returns whether one was skipped because another thread
/// uses it.
fn each_held(lists: Lists, now: Nanos, mut work: impl FnMut(&mut Turn<'_>)) -> bool {
    let mut busy = false;
    let mut next = lists.first(QueueState::Held);
    while let Some((fd, connection)) = next {
        // The next one first: the operation may take this session out of the list.
        next = lists.after(connection);
        match turn(lists, (fd, connection), now, &mut work) {
            Ok(()) => {}
            Err(Refused::Ungated) => lists.put(fd, connection, QueueState::Granted),
            Err(Refused::Busy) => busy = true,
        }
    }
    busy
}

/// Checks the held sessions. Returns how long the loop may sleep until the next check.
fn about_to_sleep(lists: Lists, now: Nanos) -> Option<Nanos> {
    if lists.is_empty(QueueState::Held) {
        return None;
    }
    let mut longest = MAX_SLEEP;
    let due = now.since(lists.looked()) >= MAX_SLEEP;
    let busy = each_held(lists, now, |turn| {
        longest = longest.min(turn.hold_left());
        turn.peek();
        if due || turn.hold_left() == Nanos(0) {
            turn.look();
        }
    });
    if due {
        lists.note_looked(now);
    }
    Some(if busy { MOMENT } else { longest.max(MOMENT) })
}

/// Lends the permits of sessions that have idled for too long. Returns when the next one is due.
fn lend_idle(lists: Lists, now: Nanos) -> Option<Nanos> {
    while let Some((fd, connection)) = lists.first(QueueState::Kept) {
        match turn(lists, (fd, connection), now, |turn| turn.lend()) {
            Ok(Some(left)) => return Some(left),
            Ok(None) => {}
            Err(Refused::Ungated) => {
                give_back(connection);
                lists.put(fd, connection, QueueState::Out);
            }
            Err(Refused::Busy) => return Some(MOMENT),
        }
    }
    None
}
