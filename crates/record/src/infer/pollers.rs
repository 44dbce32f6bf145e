//! Threads that wait for clients' bytes, and others that read them.
//!
//! A listener may sleep in `epoll` for all connections and hand those that are ready to workers,
//! which read them. Requests come to who waits for them: its queue of connections is before the
//! workers, although these touch the bytes first.

use super::sites::Kind;
use super::sockets::Sockets;
use super::stages::Stages;
use super::waits::Links;
use crate::trace::{How, OUTSIDE, Trace, Wait};
use std::collections::BTreeMap;

/// Sleeps that what clients send ends.
const SLEEPS: [i64; 12] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
];
/// Fewer hand-overs are chance.
const HANDED_MIN: u64 = 10;
/// A listener is woken for one of so many requests at least: it is awake for the others.
const AWAKE: u64 = 10;

/// Whether a client may have ended this sleep. What comes from another machine has no waker.
fn by_a_client(wait: &Wait) -> bool {
    let sleeps = SLEEPS.contains(&i64::from(wait.sleep));
    sleeps && (wait.waker == OUTSIDE && wait.how == How::Ready || wait.how == How::None)
}

/// Gives the requests of stages that only read to those that wait for them.
pub fn entrust(trace: &Trace, stages: &Stages, links: &Links, sockets: &mut Sockets) {
    let mut woken: BTreeMap<usize, u64> = BTreeMap::new();
    for wait in trace.waits.iter().filter(|wait| by_a_client(wait)) {
        if let Some(&stage) = stages.of.get(&wait.wakee) {
            *woken.entry(stage).or_default() += wait.n;
        }
    }
    let woken = |stage: usize| woken.get(&stage).copied().unwrap_or(0);
    for (reader, n) in sockets.requests.clone() {
        let mut handed: BTreeMap<usize, u64> = BTreeMap::new();
        for link in links.all.iter().filter(|link| link.wakee == reader) {
            if let (Kind::Handover | Kind::Ready, Some(from)) = (link.kind, link.waker) {
                *handed.entry(from).or_default() += link.n;
            }
        }
        let reads =
            |stage: usize| sockets.requests.iter().find(|(at, _)| *at == stage).map_or(0, |r| r.1);
        let waits = |&(&stage, &handed): &(&usize, &u64)| {
            stage != reader
                && stages.stages[stage].place == stages.stages[reader].place
                && handed >= HANDED_MIN
                && reads(stage) * AWAKE < n
                && woken(stage) * AWAKE >= n
                && woken(stage) > 2 * woken(reader)
        };
        let listener = handed.iter().filter(waits).max_by_key(|(stage, _)| woken(**stage));
        if let Some((&listener, _)) = listener {
            sockets.entrust(reader, listener);
        }
    }
}
