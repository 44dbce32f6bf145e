//! Block volumes whose device, queue and faults live in user space.
//!
//! A volume is a stack: a *front end* (a FUSE file under a loop device, an NBD server) takes
//! requests of the kernel or of a client; the *engine* queues them, asks a block scheduler which goes
//! next, and a *device model* how long it takes; *layers* delay, limit, fail, record or forget; a
//! *store* holds the bytes.

pub mod model;
pub mod sim;
pub mod store;
