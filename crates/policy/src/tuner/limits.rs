//! Bounds and patience of the search.

use crate::Nanos;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least P that is tried.
    pub least: u32,
    /// Largest P that is tried; fewer if there are fewer sessions.
    pub most: u32,
    /// Processors of the database. With fewer requests inside than that some of them idle, whatever
    /// the database does: the first samples are not taken below it.
    pub cores: u32,
    /// Shortest slice.
    pub slice: Nanos,
    /// Longest slice, unless fewer than `completions_min` turns ended in it.
    pub slice_max: Nanos,
    /// Longest slice in any case, and longest time that what is inside is given to turn over before
    /// it.
    pub slice_rare_max: Nanos,
    /// Turns that a slice should have.
    pub completions: u64,
    /// Turns that a slice should have at least: their number is known to an eighth then, by chance
    /// alone. A first sample that has fewer is not believed.
    pub completions_min: u64,
    /// Half of the confidence interval of a mean, relative to it, at which sampling ends.
    pub precision: f64,
    /// Time between two probes while P is held; more if a probe takes long.
    pub probe_every: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            least: 2,
            most: 1_024,
            cores: 1,
            slice: Nanos::from_millis(300),
            slice_max: Nanos::from_millis(2_000),
            slice_rare_max: Nanos::from_millis(20_000),
            completions: 400,
            completions_min: 64,
            precision: 0.02,
            probe_every: Nanos::from_millis(5_000),
        }
    }
}
