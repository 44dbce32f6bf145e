//! Timing of modelled devices; [`super::SimDevice`] keeps it.

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
    /// The host's queue: after so many reads while writes wait …
    pub reads_per_turn: u32,
    /// … so many writes go first (the kernel's `mq-deadline` has 32 and 16).
    pub writes_per_turn: u32,
    /// A flush of the device's write cache.
    pub sync_ns: u64,
    /// Whether a flush waits until every command has ended, and lets none begin meanwhile. On SATA
    /// it does: FLUSH CACHE is not a queued command.
    pub sync_drains: bool,
}

impl DeviceModel {
    /// A device that does so many random reads or writes a second at queue depth 32.
    #[must_use]
    pub fn from_iops(read_iops: u32, write_iops: u32) -> Self {
        let unit_ns = |iops: u32| 32 * 1_000_000_000 / u64::from(iops.max(1));
        Self {
            units: 32,
            read_ns: unit_ns(read_iops),
            write_ns: unit_ns(write_iops),
            sequential_bytes_per_s: 500_000_000,
            reads_per_turn: 32,
            writes_per_turn: 16,
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
    /// The flush takes no time beyond the drain: the paper does not give one.
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

    /// The share of the device's time that so many reads and writes in a second take (0 to 1 for
    /// what it can do).
    #[must_use]
    pub fn utilization(&self, reads_per_s: f64, writes_per_s: f64) -> f64 {
        (reads_per_s * self.read_ns as f64 + writes_per_s * self.write_ns as f64)
            / (f64::from(self.units) * 1e9)
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
