//! Block volumes whose device, queue and faults live in user space.
//!
//! A volume is a stack: a *front end* (a FUSE file under a loop device, an NBD server) takes
//! requests of the kernel or of a client; *layers* delay, limit, fail or record them; the *engine*
//! queues them, asks a block scheduler which goes next, and a *device model* how long it takes; a
//! *store* holds the bytes.

pub mod buffer;
mod clock;
pub mod config;
pub mod engine;
pub mod fuse;
pub mod kernel_queue;
pub mod layer;
pub mod loop_device;
pub mod model;
pub mod nbd;
pub mod probe;
pub mod replay;
pub mod sim;
mod spin;
pub mod store;

pub use buffer::Buffer;
pub use config::{Volume, VolumeConfig};
pub use engine::{Completion, Engine, EngineConfig, Submission};
