//! The modelled devices of volumes under the buffer pool, slowed down to what two cores can drive.

use anyhow::{Context, Result};
use headworks_bufferpool::storage::{Command, CommandKind, Timing};
use headworks_policy::Nanos;
use headworks_policy::block::{Noop, Operation, Request, SECTOR_BYTES};
use headworks_volume::model::{self, Device, Model};
use headworks_volume::sim;

/// What a page of the pool stands for: the paper's pages have 16 KiB.
const BLOCK_BYTES: u64 = 16 * 1024;

/// Seed of a device's own variation.
const SEED: u64 = 7;

/// A device of the paper's Table 1, or one made of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DeviceKind {
    /// Name of a preset of `headworks-volume`.
    pub(super) preset: &'static str,
    /// So many channels of so many ways, instead of the preset's.
    pub(super) channels: Option<(u32, u32)>,
    /// All times are so much longer.
    pub(super) slowed: f64,
}

impl DeviceKind {
    pub(super) const fn slowed(preset: &'static str, slowed: f64) -> Self {
        Self { preset, channels: None, slowed }
    }

    fn device(&self) -> Result<Device> {
        let device = Device::preset(self.preset)
            .with_context(|| format!("no device model is named {}", self.preset))?;
        Ok(match (device, self.channels) {
            (Device::Ssd(parameters), Some((channels, ways))) => {
                Device::Ssd(model::ssd::Parameters { channels, ways, ..parameters })
            }
            (device, _) => device,
        })
    }

    /// The device under `pages` pages.
    pub(super) fn timing(&self, pages: u64) -> Result<Box<dyn Timing>> {
        let model = self.device()?.model(pages * BLOCK_BYTES, SEED);
        let sata = matches!(self.preset, "ssd-c" | "hdd");
        Ok(Box::new(Slowed { model, slowed: self.slowed, sata }))
    }

    /// The device's own rate of random requests, at this depth and share of reads. Reads and writes
    /// come in random order. Who writes in batches can do more: dies then turn less often from
    /// programs to reads.
    pub(super) fn limit_iops(&self, pages: u64, depth: u16, reads_percent: u8) -> Result<f64> {
        let mut model = self.device()?.model(pages * BLOCK_BYTES, SEED);
        let sectors = pages * BLOCK_BYTES / SECTOR_BYTES;
        let job = sim::Job { reads_percent, ..sim::Job::random(Operation::Write, depth, sectors) };
        let (warm_up, time) = (Nanos::from_millis(5_000), Nanos::from_millis(5_000));
        let mut noop = Noop::default();
        let outcomes = sim::run(&mut noop, model.as_mut(), &[job], warm_up, time, SEED);
        Ok(outcomes.first().map_or(0.0, sim::Outcome::iops) / self.slowed)
    }

    /// For the record.
    pub(super) fn describe(&self) -> String {
        let channels = self.channels.map_or(String::new(), |(channels, ways)| {
            format!(", {channels} channels of {ways} ways")
        });
        format!("{}{channels}, all times x {}", self.preset, self.slowed)
    }
}

/// A model whose time runs more slowly.
struct Slowed {
    model: Box<dyn Model>,
    slowed: f64,
    /// Its FLUSH CACHE is not a queued command: it waits for all others, and they for it.
    sata: bool,
}

impl Timing for Slowed {
    fn depth(&self) -> u32 {
        self.model.depth()
    }

    fn start(&mut self, now_ns: u64, command: &Command) -> u64 {
        let operation = match command.kind {
            CommandKind::Read => Operation::Read,
            CommandKind::Write => Operation::Write,
            CommandKind::Flush => Operation::Flush,
        };
        let per_page = BLOCK_BYTES / SECTOR_BYTES;
        // A run is far below 2^27 pages.
        let sectors = command.pages * per_page as u32;
        let command = Request::new(operation, command.page.0 * per_page, sectors);
        // Times of a run are far below 2^53 ns; rounding down keeps their order.
        let own_ns = (now_ns as f64 / self.slowed) as u64;
        let done = self.model.start(Nanos(own_ns), &command);
        ((done.0 as f64 * self.slowed) as u64).max(now_ns)
    }

    fn sync_drains(&self) -> bool {
        self.sata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_bufferpool::PageId;

    /// A device at an eighth of its speed does an eighth of the requests, and each takes eight
    /// times as long.
    #[test]
    fn a_slowed_device_is_slower_by_its_factor() {
        let (whole, eighth) = (DeviceKind::slowed("ssd-a", 1.0), DeviceKind::slowed("ssd-a", 8.0));
        let limits = [whole, eighth].map(|kind| kind.limit_iops(100_000, 32, 100).unwrap());
        assert!((limits[0] / limits[1] - 8.0).abs() < 1e-6, "{limits:?}");
        assert!((limits[0] / 190_622.0 - 1.0).abs() < 0.05, "Table 1: {limits:?}");
        let first_read_ns = |kind: DeviceKind| {
            let command =
                Command { kind: CommandKind::Read, page: PageId(9), pages: 1, page_size: 4096 };
            kind.timing(1000).unwrap().start(0, &command)
        };
        let ratio = first_read_ns(eighth) as f64 / first_read_ns(whole) as f64;
        assert!((ratio - 8.0).abs() < 0.01, "{ratio}");
    }
}
