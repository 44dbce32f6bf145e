//! Split-level I/O scheduling: who writes, flushes and reads beside whom, on a modelled device.

mod load;

pub use load::file_load;
