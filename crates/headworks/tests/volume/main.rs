//! Volumes of a real kernel: FUSE, loop device, file system, and what becomes of them when the
//! power or the process goes.

mod crash;
mod cut;
mod databases;
mod engine;
mod life;
mod owners;
mod reach;
mod refusals;
mod rig;
mod store;
mod users;
