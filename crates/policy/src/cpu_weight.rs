//! Shares of processor time for groups of threads: from the classes' weights to the kernel's.
//!
//! # Problem
//! The gate says who is inside; among those inside, the kernel says who runs. A companion may put
//! the threads that serve the sessions of a class into a control group, and give the group a CPU
//! weight. Between groups, and threads beside them, the kernel divides time in proportion to
//! weights, where one ordinary thread counts [`ONE_THREAD`].
//!
//! # Two wishes
//! 1. Classes get time as their weights say, as in [`crate::wrr`]. If each session of a class has
//!    the weight, the class counts it for each session. If they share it, the class counts it once.
//! 2. Threads that serve no session (flushers, purge) keep what they have. Without groups each of
//!    them stands beside as many threads as run. So all groups together weigh as much as these: as
//!    many as there are sessions, but at most P.
//!
//! With equal weights the groups therefore change nothing, and that is the test of a companion.
//!
//! # Example
//! P = 16. Class A has weight 3 and 8 sessions, B weight 1 and 8 sessions: they count 24 and 8, and
//! weigh 16 threads together, 1600. A gets 1600 · 24/32 = 1200, B 400; a flusher keeps its 100.

/// Weight of one thread of ordinary priority, in the kernel's unit (`cpu.weight` of control groups,
/// version 2, which is 100 by default).
pub const ONE_THREAD: u32 = 100;

/// Least and largest weight that the kernel takes.
pub const WEIGHT_MIN: u32 = 1;
/// See [`WEIGHT_MIN`].
pub const WEIGHT_MAX: u32 = 10_000;

/// What a class asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its weight; must be positive to count.
    pub weight: f64,
    /// Whether its sessions share the weight, instead of each having it.
    pub shared: bool,
    /// Sessions that have a thread in the group.
    pub sessions: u32,
}

impl Demand {
    /// What it counts against others; 0 without sessions.
    fn counts(&self) -> f64 {
        let times = if self.shared { self.sessions.min(1) } else { self.sessions };
        self.weight.max(0.0) * f64::from(times)
    }
}

/// CPU weight of each class, into `weights`, which is as long as `demands`. `places` is P, or
/// `None` if no request is held. A class without sessions gets [`ONE_THREAD`], which is what a
/// fresh group has.
pub fn cpu_weights(demands: &[Demand], places: Option<u32>, weights: &mut [u32]) {
    let sessions: u32 = demands.iter().map(|demand| demand.sessions).fold(0, u32::saturating_add);
    let running = places.map_or(sessions, |places| sessions.min(places));
    let all: f64 = demands.iter().map(Demand::counts).sum();
    let whole = f64::from(running) * f64::from(ONE_THREAD);
    let largest = demands.iter().map(Demand::counts).fold(0.0, f64::max);
    // Between classes proportions count most, so all of them shrink if one would be too large.
    let whole =
        if largest > 0.0 { whole.min(f64::from(WEIGHT_MAX) * all / largest) } else { whole };
    for (demand, weight) in demands.iter().zip(weights) {
        let counts = demand.counts();
        *weight = if counts > 0.0 && all > 0.0 {
            // Clamped to what the kernel takes before it becomes a whole number.
            (whole * counts / all).round().clamp(f64::from(WEIGHT_MIN), f64::from(WEIGHT_MAX))
                as u32
        } else {
            ONE_THREAD
        };
    }
}

/// The same weight as `cpu.shares` of control groups, version 1, where one thread is 1024.
pub fn cpu_shares(weight: u32) -> u32 {
    // 10,000 · 1024 fits.
    (weight.clamp(WEIGHT_MIN, WEIGHT_MAX) * 1024 / ONE_THREAD).clamp(2, 262_144)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(demands: &[Demand], places: Option<u32>) -> Vec<u32> {
        let mut weights = vec![0; demands.len()];
        cpu_weights(demands, places, &mut weights);
        weights
    }

    const fn each(weight: f64, sessions: u32) -> Demand {
        Demand { weight, shared: false, sessions }
    }

    #[test]
    fn one_class_weighs_as_many_threads_as_run() {
        assert_eq!(weights(&[each(1.0, 5)], None), [500]);
        assert_eq!(weights(&[each(1.0, 50)], Some(16)), [1600]);
        assert_eq!(weights(&[each(1.0, 5)], Some(16)), [500]);
        // Whatever the weight is: there is no other class to compare it with.
        assert_eq!(weights(&[each(0.01, 5)], None), [500]);
    }

    #[test]
    fn classes_divide_by_weight_and_users() {
        // 3 · 8 = 24 and 1 · 8 = 8 of 32; 16 threads are 1600.
        assert_eq!(weights(&[each(3.0, 8), each(1.0, 8)], Some(16)), [1200, 400]);
        // 3 once, and 1 · 9: 3 and 9 of 12; 10 sessions are 1000.
        let shared = Demand { weight: 3.0, shared: true, sessions: 1 };
        assert_eq!(weights(&[shared, each(1.0, 9)], None), [250, 750]);
        // However many share it: 3 and 9 of 12; 20 sessions are 2000.
        let many = Demand { sessions: 11, ..shared };
        assert_eq!(weights(&[many, each(1.0, 9)], None), [500, 1500]);
    }

    #[test]
    fn proportions_stay_where_the_kernel_has_no_larger_number() {
        // 400 threads are 40,000; 3 : 1 with at most 10,000.
        assert_eq!(weights(&[each(3.0, 200), each(1.0, 200)], None), [10_000, 3333]);
        // 1000 · 10 against 0.001 · 1: the small one gets the least there is.
        assert_eq!(weights(&[each(1000.0, 10), each(0.001, 1)], None), [1100, 1]);
    }

    #[test]
    fn nobody_and_nonsense_get_what_a_fresh_group_has() {
        assert_eq!(weights(&[each(5.0, 0), each(1.0, 4)], None), [100, 400]);
        assert_eq!(weights(&[each(0.0, 3), each(f64::NAN, 3)], Some(4)), [100, 100]);
        assert_eq!(weights(&[], None), [0; 0]);
    }

    #[test]
    fn shares_are_1024_for_100() {
        assert_eq!(
            [1, 100, 1600, 10_000, 50_000].map(cpu_shares),
            [10, 1024, 16_384, 102_400, 102_400]
        );
    }
}
