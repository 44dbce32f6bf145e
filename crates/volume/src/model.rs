//! What a device would take for a command: pure models, driven by time as an argument.
//!
//! A model knows no data and no clock. It is told of each command when the device gets it, and
//! answers when it will complete: the engine waits until then. The same model
//! therefore runs under a real volume and, in simulated time, in tests and previews
//! ([`crate::sim`]). From the same seed and the same commands at the same times it gives the same
//! answers.

pub mod calibrate;
pub mod device;
mod file;
pub mod hdd;
mod parameters;
pub mod raw;
pub mod ssd;

pub use device::{Device, PRESETS};
pub use file::DeviceError;
pub use parameters::{Field, Form};

use headworks_policy::Nanos;
use headworks_policy::block::Operation;

/// What a model needs to know of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is asked.
    pub operation: Operation,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Sectors. Zero for a flush.
    pub sectors: u32,
    /// Durable at completion.
    pub fua: bool,
}

/// A device. The engine never starts more commands than [`Model::depth`] at a time, starts them in
/// the order of time, and completes each at the time that [`Model::start`] named.
pub trait Model: Send {
    /// Commands that the device takes at a time (its queue depth).
    fn depth(&self) -> u32;

    /// A command is given to the device at `now`: when it will complete, not before `now`. Times
    /// never run backwards from call to call.
    fn start(&mut self, now: Nanos, command: &Command) -> Nanos;
}
