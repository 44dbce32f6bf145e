//! Resources: servers where parts of requests queue.

use super::gauge::Gauge;
use super::rng::Rng;
use crate::model::Device;
use std::collections::VecDeque;

/// A resource of one node.
#[derive(Debug)]
pub(super) struct ResourceInstance {
    /// Its index in the plan.
    pub(super) resource: u32,
    pub(super) ns_per_unit: f64,
    servers: u32,
    pub(super) busy: u32,
    pub(super) queue: VecDeque<u32>,
    device: Device,
    /// The last client of a disk with an arm, and the position.
    last: (u32, f64),
    /// A control waits for it to become idle.
    pub(super) watched: bool,
    /// Servers that work for each client.
    pub(super) used: Gauge,
    /// Time for which parts waited for it, from the start.
    pub(super) waited_ns: u64,
    changed_ns: u64,
}

impl ResourceInstance {
    pub(super) fn new(resource: u32, rate_per_s: f64, servers: u32, device: Device) -> Self {
        ResourceInstance {
            resource,
            ns_per_unit: 1e9 / rate_per_s,
            servers: servers.max(1),
            busy: 0,
            queue: VecDeque::new(),
            device,
            last: (u32::MAX, 0.0),
            watched: false,
            used: Gauge::new(),
            waited_ns: 0,
            changed_ns: 0,
        }
    }

    /// Whether a server is free.
    pub(super) fn has_room(&self) -> bool {
        self.busy < self.servers
    }

    /// Whether no part uses it or waits for it.
    pub(super) fn idle(&self) -> bool {
        self.busy == 0
    }

    /// Servers that it has.
    pub(super) fn servers(&self) -> u32 {
        self.servers
    }

    /// Accounts for the waiting time until now; called before the queue changes.
    pub(super) fn account(&mut self, now_ns: u64) {
        let span = now_ns - self.changed_ns;
        self.changed_ns = now_ns;
        self.waited_ns += span * self.queue.len() as u64;
    }

    /// How long an amount takes for this client, starting now.
    pub(super) fn service_ns(&mut self, amount: u64, client: u32, rng: &mut Rng) -> u64 {
        let transfer = (amount as f64 * self.ns_per_unit) as u64;
        match self.device {
            Device::Plain => transfer,
            Device::Seeking { seek_ns_min, seek_ns_max } => {
                let (last, position) = self.last;
                if last == client {
                    return transfer;
                }
                let to = rng.unit();
                let distance = (to - position).abs();
                self.last = (client, to);
                let span = seek_ns_max.saturating_sub(seek_ns_min) as f64;
                seek_ns_min + (span * distance.sqrt()) as u64 + transfer
            }
        }
    }
}
