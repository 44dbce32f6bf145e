//! Timing models of devices, for [`super::SimDevice`].

use crate::ids::PageId;

/// Kinds of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandKind {
    /// Pages from the device.
    Read,
    /// Write pages to the device, perhaps only into its cache.
    Write,
    /// Every completed write becomes durable.
    Flush,
}

/// A command at the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// What.
    pub kind: CommandKind,
    /// The first page, 0 of a flush.
    pub page: PageId,
    /// Consecutive pages, 0 of a flush.
    pub pages: u32,
    /// Bytes of a page.
    pub page_size: u32,
}

/// A timing model. It has no clock: time is an argument, in ns since the device was made.
///
/// Commands start in the order of time, at most [`Timing::depth`] at a time, and complete at the
/// time that `start` returned.
pub trait Timing: Send {
    /// Commands that the device takes at a time, at least 1.
    fn depth(&self) -> u32;

    /// When the command that starts at `now_ns` will be complete, not before `now_ns`.
    fn start(&mut self, now_ns: u64, command: &Command) -> u64;

    /// Whether a flush waits until all commands have ended, and lets none begin meanwhile. On SATA
    /// it does: FLUSH CACHE is not a queued command.
    fn sync_drains(&self) -> bool {
        false
    }
}

/// How the host's queue before a device shares it between reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostQueue {
    /// After this many reads while writes wait …
    pub reads_per_turn: u32,
    /// … this many writes go first.
    pub writes_per_turn: u32,
}

/// The kernel's `mq-deadline`: 32 and 16.
impl Default for HostQueue {
    fn default() -> Self {
        Self { reads_per_turn: 32, writes_per_turn: 16 }
    }
}

/// A device's timing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceModel {
    /// Commands that the device works on at once.
    pub units: u32,
    /// A unit's time for a random page read.
    pub read_ns: u64,
    /// A unit's time for a random page write.
    pub write_ns: u64,
    /// Rate of a long sequential write, which occupies one unit.
    pub sequential_bytes_per_s: u64,
    /// The host's queue.
    pub host: HostQueue,
    /// A flush of the device's write cache.
    pub sync_ns: u64,
    /// See [`Timing::sync_drains`].
    pub sync_drains: bool,
}

impl DeviceModel {
    /// A device with these rates of random reads and writes a second at queue depth 32.
    #[must_use]
    pub fn from_iops(read_iops: u32, write_iops: u32) -> Self {
        let unit_ns = |iops: u32| 32 * 1_000_000_000 / u64::from(iops.max(1));
        Self {
            units: 32,
            read_ns: unit_ns(read_iops),
            write_ns: unit_ns(write_iops),
            sequential_bytes_per_s: 500_000_000,
            host: HostQueue::default(),
            sync_ns: 0,
            sync_drains: false,
        }
    }

    /// SSD-A of the LRU-C paper's Table 1: Intel P4101, NVMe.
    #[must_use]
    pub fn ssd_a() -> Self {
        Self { sequential_bytes_per_s: 2_000_000_000, ..Self::from_iops(190_622, 33_866) }
    }

    /// SSD-C of the LRU-C paper's Table 1: Micron MX500, SATA.
    ///
    /// The flush takes no time beyond the drain: the paper gives none.
    #[must_use]
    pub fn ssd_c() -> Self {
        Self { sync_drains: true, ..Self::from_iops(39_860, 3_830) }
    }

    /// The same device, `factor` times slower: for machines that cannot drive the full one.
    #[must_use]
    pub fn slowed(self, factor: f64) -> Self {
        // Service times are far below 2^52 ns; the rate far below 2^52 bytes a second.
        let slow = |ns: u64| (ns as f64 * factor) as u64;
        Self {
            read_ns: slow(self.read_ns),
            write_ns: slow(self.write_ns),
            sync_ns: slow(self.sync_ns),
            sequential_bytes_per_s: (self.sequential_bytes_per_s as f64 / factor) as u64,
            ..self
        }
    }

    /// The share of the device's time that these reads and writes a second take: 0 to 1 if it can
    /// do them.
    #[must_use]
    pub fn utilization(&self, reads_per_s: f64, writes_per_s: f64) -> f64 {
        (reads_per_s * self.read_ns as f64 + writes_per_s * self.write_ns as f64)
            / (f64::from(self.units) * 1e9)
    }
}

/// Every unit works on one command at a time, and the times are independent. A run of pages takes
/// one random write for positioning, then the sequential rate. At that rate all units work for the
/// run together, so it occupies them all.
impl Timing for DeviceModel {
    fn depth(&self) -> u32 {
        self.units
    }

    fn start(&mut self, now_ns: u64, command: &Command) -> u64 {
        let rest = u64::from(command.pages.saturating_sub(1)) * u64::from(command.page_size);
        let stream_ns = rest * 1_000_000_000 / self.sequential_bytes_per_s.max(1);
        now_ns
            + match command.kind {
                CommandKind::Read => self.read_ns + stream_ns,
                CommandKind::Write => self.write_ns + stream_ns,
                CommandKind::Flush => self.sync_ns,
            }
    }

    fn sync_drains(&self) -> bool {
        self.sync_drains
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn table_1_is_met_at_saturation() {
        let model = DeviceModel::ssd_c();
        assert!((model.utilization(39_860.0, 0.0) - 1.0).abs() < 1e-4);
        assert!((model.utilization(0.0, 3_830.0) - 1.0).abs() < 1e-4);
    }
}
