//! Programs of this machine that send to the recorded ones: their load takes processors, too.

use super::procfs;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A process that was seen to send.
struct Client {
    since: Instant,
    until: Instant,
    /// Time that it ran, and that it waited for a processor.
    before: [Duration; 2],
    after: [Duration; 2],
}

/// See the module.
#[derive(Default)]
pub struct Clients(BTreeMap<u32, Client>);

impl Clients {
    /// Looks at what these processes used until now.
    pub fn look(&mut self, pids: impl IntoIterator<Item = u32>) {
        let now = Instant::now();
        for pid in pids {
            let used = procfs::scheduled(pid);
            if used[0].is_zero() {
                continue;
            }
            let client = self.0.entry(pid).or_insert(Client {
                since: now,
                until: now,
                before: used,
                after: used,
            });
            (client.until, client.after) = (now, used);
        }
    }

    /// Whether none was seen yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Processors that they took on average while they were seen, and how many of their threads
    /// waited for one.
    pub fn processors(&self) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for client in self.0.values() {
            let time = client.until.duration_since(client.since).as_secs_f64();
            for (at, sum) in sums.iter_mut().enumerate().filter(|_| time > 0.0) {
                *sum += client.after[at].saturating_sub(client.before[at]).as_secs_f64() / time;
            }
        }
        sums
    }
}
