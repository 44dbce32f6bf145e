//! Device models: how long a device would take for a command. They are pure and get the time as an
//! argument.
//!
//! A model has no data and no clock. It learns of each command when the device gets it, and returns
//! when it will complete; the engine waits until then. So the same model runs under a real volume
//! and, in simulated time, in tests and previews ([`crate::sim`]). The same seed and the same
//! commands at the same times give the same answers.

pub mod calibrate;
pub mod device;
mod file;
pub mod hdd;
mod parameters;
pub mod raid;
pub mod raw;
pub mod ssd;

pub use device::{Device, PRESETS};
pub use parameters::{Field, Form};

use headworks_policy::Nanos;
use headworks_policy::block::Request;

/// A device. The engine never starts more commands than [`Model::depth`] at a time, starts them in
/// the order of time, and completes each at the time that [`Model::start`] returned.
pub trait Model: Send {
    /// Commands that the device takes at a time (its queue depth).
    fn depth(&self) -> u32;

    /// The device gets a command at `now`. Returns when it will complete, not before `now`. Times
    /// never run backwards from call to call.
    fn start(&mut self, now: Nanos, command: &Request) -> Nanos;
}
