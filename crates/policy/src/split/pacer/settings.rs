//! What the pacer is told of a device.

use crate::Nanos;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Pieces in flight while no other account commits, and in the largest batch. Default 32 for a
    /// disk, 64 for flash.
    pub window_max: u32,
    /// An `fsync` of so many pieces is small whatever a batch is. Default 2: a log's tail and its
    /// head.
    pub small: u32,
    /// Dirty pieces of a file with a long deadline, beyond which writes to it are held while others
    /// commit. Default 32 for a disk, 256 for flash.
    pub pieces_max: u32,
    /// Device time of a piece where commits do not tell. Default 4 ms for a disk, 1 ms for flash.
    pub piece: Nanos,
}

crate::layout!(Settings { window_max, small, pieces_max, piece });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        let (window_max, pieces_max) = if rotational { (32, 32) } else { (64, 256) };
        let piece = Nanos::from_millis(if rotational { 4 } else { 1 });
        Settings { window_max, small: 2, pieces_max, piece }
    }
}
