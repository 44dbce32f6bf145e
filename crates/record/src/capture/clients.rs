//! Programs of this machine that send to the recorded ones: their load takes processors, too.

use super::procfs;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A process that was seen to send.
struct Client {
    since: Instant,
    until: Instant,
    before: Duration,
    after: Duration,
}

/// See the module.
#[derive(Default)]
pub struct Clients(BTreeMap<u32, Client>);

impl Clients {
    /// Looks at what these processes used until now.
    pub fn look(&mut self, pids: impl IntoIterator<Item = u32>) {
        let now = Instant::now();
        for pid in pids {
            let Some(used) = procfs::cpu_of(pid) else { continue };
            let client = self.0.entry(pid).or_insert(Client {
                since: now,
                until: now,
                before: used,
                after: used,
            });
            (client.until, client.after) = (now, used);
        }
    }

    /// Processors that they took on average while they were seen.
    pub fn processors(&self) -> f64 {
        let one = |client: &Client| {
            let time = client.until.duration_since(client.since).as_secs_f64();
            let used = client.after.saturating_sub(client.before).as_secs_f64();
            if time > 0.0 { used / time } else { 0.0 }
        };
        self.0.values().map(one).sum()
    }
}
