//! Block volumes whose device, queue and faults live in user space.
//!
//! A volume is a stack. A *front end* (a FUSE file under a loop device, or an NBD server) takes
//! requests from the kernel or a client. *Layers* delay, limit, fail or record them. The *engine*
//! queues them; a block scheduler picks the next one, and a *device model* tells how long it takes.
//! A *store* holds the bytes.

pub mod buffer;
pub mod clock;
pub mod config;
pub mod engine;
pub mod fuse;
pub mod kernel_queue;
pub mod layer;
pub mod loop_device;
pub mod model;
pub mod nbd;
pub mod probe;
pub mod reach;
pub mod replay;
pub mod sim;
mod spin;
pub mod store;

pub use buffer::Buffer;
pub use config::{Volume, VolumeConfig};
pub use engine::{Completion, Engine, EngineConfig, Submission};
