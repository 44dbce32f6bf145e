//! How much a request that lasts has itself used: the daemon's side of `policy::permit::Long`.
//!
//! On a busy machine a request may last because its thread waits for a processor. If it left the
//! count for that, one more would be admitted, and all would wait for longer.
//!
//! The kernel counts for each thread how long it ran and how long it waited for a processor. To
//! read that takes microseconds. So it is read only for requests that begin to last, from the first
//! look on. What is used before the first look does not count.

use headworks_policy::Nanos;
use headworks_region::session::SessionSlot;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// Requests that begin to last, by session.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<u32, Look>);

/// A request at the first look.
#[derive(Debug)]
struct Look {
    /// The request: when it was admitted, and its thread.
    request: (Nanos, u32),
    at: Nanos,
    before: Times,
    blocked: Nanos,
    /// How long it has slept since, at the least. Known only when it sleeps.
    asleep: Nanos,
}

/// What the kernel counts for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    ran: Nanos,
    /// Runnable, without a processor. A wait that goes on is not part of it yet.
    waited: Nanos,
    asleep: bool,
}

impl Looks {
    /// Looks at a session's request. Returns the time that it has used since the first look: on a
    /// processor, or asleep for an unknown reason, as for storage. `None` if the kernel does not
    /// tell, or no thread is known.
    pub(super) fn used(&mut self, session: u32, slot: &SessionSlot, now: Nanos) -> Option<Nanos> {
        let [process, thread] = [&slot.pid, &slot.thread].map(|word| word.load(Relaxed));
        let times = (thread != 0).then(|| times_of(process, thread)).flatten()?;
        let request = (Nanos(slot.admitted_ns.load(Relaxed)), thread);
        let blocked = Nanos(slot.served.blocked_ns.load(Relaxed));
        let first = Look { request, at: now, before: times, blocked, asleep: Nanos(0) };
        let look = self.0.entry(session).or_insert_with(|| first);
        if look.request != request {
            *look = Look { request, at: now, before: times, blocked, asleep: Nanos(0) };
        }
        Some(look.used(now, times, blocked))
    }

    /// Forgets those that were not looked at since then.
    pub(super) fn forget(&mut self, before: Nanos) {
        self.0.retain(|_, look| look.at >= before);
    }
}

impl Look {
    fn used(&mut self, now: Nanos, times: Times, blocked: Nanos) -> Nanos {
        let ran = times.ran.since(self.before.ran);
        if times.asleep {
            let waited = times.waited.since(self.before.waited) + blocked.since(self.blocked);
            self.asleep = self.asleep.max(now.since(self.at).since(ran).since(waited));
        }
        ran + self.asleep
    }
}

fn times_of(process: u32, thread: u32) -> Option<Times> {
    let read = |file| std::fs::read_to_string(format!("/proc/{process}/task/{thread}/{file}"));
    // The state first: all waits of a thread that sleeps are over, and are counted.
    let stat = read("stat").ok()?;
    times(&stat, &read("schedstat").ok()?)
}

/// From the lines of the kernel. The name of a thread may contain anything.
fn times(stat: &str, schedstat: &str) -> Option<Times> {
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    let mut fields = schedstat.split_whitespace().map(|word| word.parse().map(Nanos).ok());
    let (ran, waited) = (fields.next()??, fields.next()??);
    Some(Times { ran, waited, asleep: matches!(state, 'S' | 'D') })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ran: u64, waited: u64, asleep: bool) -> Times {
        Times { ran: Nanos::from_millis(ran), waited: Nanos::from_millis(waited), asleep }
    }

    #[test]
    fn the_lines_of_the_kernel_are_read() {
        let stat = "7 (a) R (b) D 1 7 7 0 -1 4194560";
        assert_eq!(times(stat, "3000000 2000000 9\n"), Some(at(3, 2, true)));
        assert_eq!(times("7 (x) R 1", "3000000 0 9"), Some(at(3, 0, false)));
        assert_eq!(times("7 (x) R 1", "0\n"), None, "a kernel that does not count");
        // SAFETY: gettid has no preconditions.
        let own = unsafe { libc::gettid() } as u32;
        assert!(times_of(std::process::id(), own).is_some());
    }

    #[test]
    fn waiting_for_a_processor_is_not_used() {
        let ms = Nanos::from_millis;
        let look = || Look {
            request: (ms(0), 1),
            at: ms(1_000),
            before: at(100, 50, false),
            blocked: ms(7),
            asleep: ms(0),
        };
        let (mut waits, mut reads) = (look(), look());
        // It waits for a processor all the time, and the kernel has not counted that yet.
        assert_eq!(waits.used(ms(1_100), at(102, 50, false), ms(7)), ms(2));
        assert_eq!(waits.used(ms(1_110), at(103, 157, false), ms(7)), ms(3));
        // Of 100 ms it ran for 10, waited for a processor for 20 and for a lock for 30.
        assert_eq!(reads.used(ms(1_100), at(110, 70, true), ms(37)), ms(50));
        assert_eq!(reads.used(ms(1_120), at(112, 80, false), ms(37)), ms(52));
    }
}
