//! The store's devices: the paper's fifteen disks, and a flash drive.

use headworks_policy::Nanos;
use headworks_policy::block::{Request, cost::SeekCost};
use headworks_volume::model::raid::Raid0;
use headworks_volume::model::{Device, Model};

/// A disk of 10,000 revolutions a minute with its write cache off. Four OLTP-A get 700 to 800 I/Os
/// a second from fifteen of them, as the paper measured 800.
const DISK: &str = "\
about = \"SAS disk of 10,000 rpm\"
[hdd]
rpm = 10000
seek_settle_ms = 1
seek_sqrt_ms = 3.5
seek_linear_ms = 5.4
queue_gain = 0
write_gain = 1
outer_mb_per_s = 130
inner_mb_per_s = 80
cache_kib = 0
span_gib = 18
";

/// Sectors over which all applications ask at random: no application has shorter seeks than others.
pub const SPAN_SECTORS: u64 = 256 << 21;

/// Kind of array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fifteen disks, RAID-0 with chunks of 64 KiB.
    Disks,
    /// A flash drive.
    Flash,
}

impl Kind {
    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Disks => "15 disks",
            Kind::Flash => "flash",
        }
    }

    /// A model, with its arms anywhere.
    pub fn model(self, seed: u64) -> Box<dyn Model> {
        match self {
            Kind::Disks => {
                let disk = Device::from_toml(DISK, "disk").unwrap_or(Device::Raw);
                let member =
                    |number| disk.model(24 << 30, seed.wrapping_mul(31).wrapping_add(number));
                Box::new(Raid0::new((0..15).map(member).collect(), 128))
            }
            Kind::Flash => Device::preset("ssd-a").unwrap_or(Device::Raw).model(320 << 30, seed),
        }
    }

    /// Requests that a store has in the device: twice the disks; 32 in flash.
    pub const fn depth(self) -> u32 {
        match self {
            Kind::Disks => 30,
            Kind::Flash => 32,
        }
    }

    /// Requests that a host may have at the store: more than the store gives the device. With as
    /// many, a host that has nine tenths of the store is never seen to wait there, and others pass.
    pub const fn host_depth(self) -> u32 {
        2 * self.depth()
    }

    /// How requests are charged: by requests and bytes. On the disks a request of 16 KiB is an
    /// access of 8 ms, and one of 1 MiB is fifteen. Flash works page by page.
    pub const fn cost(self) -> SeekCost {
        match self {
            Kind::Disks => SeekCost::by_size(Nanos(6_222_000), Nanos(55_556)),
            Kind::Flash => SeekCost::by_size(Nanos::from_micros(10), Nanos::from_micros(1)),
        }
    }

    /// Cost of one request, in seconds.
    pub fn cost_s(self, request: &Request) -> f64 {
        self.cost().of(request).0 as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_one() {
        assert!(matches!(Device::from_toml(DISK, "disk"), Ok(Device::Hdd(_))));
    }
}
