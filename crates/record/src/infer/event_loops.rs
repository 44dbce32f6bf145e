//! Event loops: threads that sleep in one `epoll`, `poll` or `select` for clients and for what
//! other threads tell them, or servers behind them answer. Such a thread is not blocked by a stage
//! that wakes it: it serves what comes first.

use super::stages::Stages;
use crate::trace::{How, OUTSIDE, Trace};
use std::collections::{BTreeMap, BTreeSet};

const SLEEPS: [i64; 3] = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
/// These have no descriptor that tells one place from another. A thread that sleeps in them for the
/// one client that it reads may wait for answers elsewhere.
const LISTS: [i64; 4] = [libc::SYS_poll, libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6];

/// Some threads of a stage may serve clients, and others the connections to servers behind it. It
/// is one of event loops if the first have at least this part of its wake-ups.
const PART: u64 = 5;

/// Stages of event loops.
pub fn find(trace: &Trace, stages: &Stages) -> BTreeSet<usize> {
    // By thread and descriptor: wake-ups by processes that are not recorded, and by others.
    let mut woken: BTreeMap<(u32, u64), [u64; 2]> = BTreeMap::new();
    let clients = clients(trace);
    let one = |unit: u32| clients.get(&unit).is_some_and(|clients| clients.len() == 1);
    for wait in trace.waits.iter().filter(|wait| wait.how == How::Ready) {
        let lists = LISTS.contains(&i64::from(wait.sleep)) && !one(wait.wakee);
        let polls = lists || SLEEPS.contains(&i64::from(wait.sleep));
        let inside = wait.waker != OUTSIDE;
        let object = if polls { wait.object } else { u64::MAX };
        woken.entry((wait.wakee, object)).or_default()[usize::from(inside)] += wait.n;
    }
    let mut by: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
    for ((unit, object), [outside, inside]) in woken {
        let Some(&stage) = stages.of.get(&unit) else { continue };
        let both = outside > 0 && object != u64::MAX;
        by.entry(stage).or_default()[usize::from(both)] += inside;
    }
    let loops = by.into_iter().filter(|(_, [apart, both])| both * PART > apart + both);
    loops.map(|(stage, _)| stage).collect()
}

/// Clients whose requests each unit reads.
fn clients(trace: &Trace) -> BTreeMap<u32, BTreeSet<&str>> {
    let port = |end: &str| end.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let mut clients: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for socket in trace.sockets.iter().filter(|socket| !socket.sends) {
        let process = trace.processes.get(&trace.pid_of(socket.unit));
        let accepted = process.is_some_and(|process| match port(&socket.local) {
            Some(port) => process.listens.contains(&port),
            None => process.listens_unix,
        });
        if accepted {
            clients.entry(socket.unit).or_default().insert(&socket.remote);
        }
    }
    clients
}
