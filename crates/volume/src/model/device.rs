//! Devices by name and from files.

use super::raw::Raw;
use super::{Model, file, hdd, ssd};
use headworks_settings::Mistake;

/// The description of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Device {
    /// No model: as fast as the volume itself.
    Raw,
    /// A flash drive.
    Ssd(ssd::Parameters),
    /// A disk.
    Hdd(hdd::Parameters),
}

/// The devices of LRU-C, Table 1: name and file. They read and write random pages of 16 KiB at a
/// depth of 32 as published there. The files give the source of everything else.
pub const PRESETS: [(&str, &str); 5] = [
    ("ssd-a", include_str!("../../devices/ssd-a.toml")),
    ("ssd-b", include_str!("../../devices/ssd-b.toml")),
    ("ssd-c", include_str!("../../devices/ssd-c.toml")),
    ("ssd-d", include_str!("../../devices/ssd-d.toml")),
    ("hdd", include_str!("../../devices/hdd.toml")),
];

impl Device {
    /// The device of this name: `raw` or one of [`PRESETS`].
    pub fn preset(name: &str) -> Option<Device> {
        if name == "raw" {
            return Some(Device::Raw);
        }
        let (name, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        // A test reads all of them.
        Device::from_toml(text, name).ok()
    }

    /// Reads a device file. `name` is its name in errors.
    pub fn from_toml(text: &str, name: &str) -> Result<Device, Mistake> {
        file::read(text, name)
    }

    /// As a file, which [`Self::from_toml`] reads. The raw device has none.
    pub fn to_toml(&self, about: &str) -> Option<String> {
        match self {
            Device::Raw => None,
            Device::Ssd(p) => {
                Some(file::write(about, "ssd", ssd::Parameters::FIELDS, &p.numbers()))
            }
            Device::Hdd(p) => {
                Some(file::write(about, "hdd", hdd::Parameters::FIELDS, &p.numbers()))
            }
        }
    }

    /// Whether seeks matter to a scheduler.
    pub const fn is_rotational(&self) -> bool {
        matches!(self, Device::Hdd(_))
    }

    /// The model of one such device under a volume of `size_bytes`.
    pub fn model(&self, size_bytes: u64, seed: u64) -> Box<dyn Model> {
        match self {
            Device::Raw => Box::new(Raw),
            Device::Ssd(parameters) => Box::new(ssd::Ssd::new(*parameters, seed)),
            Device::Hdd(parameters) => Box::new(hdd::Hdd::new(*parameters, size_bytes, seed)),
        }
    }
}
