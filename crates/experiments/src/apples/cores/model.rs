//! A database as a function of P and of the number of cores: how many transactions a second it
//! answers.
//!
//! # Model
//! A closed network with P transactions inside, solved by mean value analysis. A transaction
//!
//! * needs a processor for D; c cores are one fast processor and a delay of D (c−1)/c (Seidmann's
//!   approximation),
//! * waits for disk and client for Z, and for others' row locks for ρ (P−1) (D + Z),
//! * passes one latch that all transactions need (log, lock table, free list) for S.
//!
//! What makes throughput fall beyond the matching point, as AppleS finds (section 2.1):
//!
//! * *Cache conflicts and switches.* Threads beyond the cores take each other's cache lines: D
//!   grows by the factor 1 + e (s/127)^1.3, with s of them for each core. The exponent and e are
//!   fitted to one machine, see [`Database::typical`].
//! * *Latch contention.* Each of the waiters that run on other cores makes handing the latch over
//!   slower by a part h of S, because its line moves between the cores.
//!
//! The model leaves out boundaries of memory and sockets (NUMA), a buffer pool that is too small,
//! clients that are the limit, and the cost of the gate.

use headworks_policy::random::Random;

/// A database on a machine. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Database {
    pub(super) cores: f64,
    /// D.
    pub(super) processor_s: f64,
    /// Z.
    pub(super) delay_s: f64,
    /// S.
    pub(super) latch_s: f64,
    /// e: growth of D with 127 surplus threads for each core, which two cores have with 256 users.
    pub(super) eviction: f64,
    /// h: growth of S with each waiter on another core.
    pub(super) handover: f64,
    /// ρ: part of a transaction's time for which another one waits for its row locks.
    pub(super) conflicts: f64,
}

const EVICTION_EXPONENT: f64 = 1.3;
const SURPLUS_UNIT: f64 = 127.0;

/// Iterations after which the latch's time has settled against its own queue.
const FIXED_POINT: usize = 12;

impl Database {
    /// The middle of what [`Database::drawn`] draws. On two cores its throughput is near the one
    /// that `apples-matching` measured on MariaDB with TPC-C; see [`MEASURED`].
    pub(super) const fn typical(cores: f64) -> Database {
        Database {
            cores,
            processor_s: 1.81e-3,
            delay_s: 1.13e-3,
            latch_s: 20e-6,
            eviction: 0.227,
            handover: 0.03,
            conflicts: 0.0006,
        }
    }

    /// One of many databases: each quantity of the typical one times up to a factor, evenly over
    /// the logarithm. What could not be measured on two cores has the largest factors. A seed draws
    /// the same database for every number of cores.
    pub(super) fn drawn(cores: f64, random: &mut Random) -> Database {
        let typical = Database::typical(cores);
        let mut near = |value: f64, factor: f64| value * factor.powf(2.0 * random.unit() - 1.0);
        Database {
            cores,
            processor_s: near(typical.processor_s, 1.5),
            delay_s: near(typical.delay_s, 2.0),
            latch_s: near(typical.latch_s, 3.0),
            eviction: near(typical.eviction, 2.0),
            handover: near(typical.handover, 3.0),
            conflicts: near(typical.conflicts, 3.0),
        }
    }

    /// Transactions a second with `inside` transactions inside.
    pub(super) fn throughput_per_s(&self, inside: u32) -> f64 {
        let p = f64::from(inside);
        let surplus = (p - self.cores).max(0.0) / self.cores;
        let slower = 1.0 + self.eviction * (surplus / SURPLUS_UNIT).powf(EVICTION_EXPONENT);
        let processor_s = self.processor_s * slower;
        let locks_s = self.conflicts * (p - 1.0) * (self.processor_s + self.delay_s);
        let delay_s = self.delay_s + locks_s + processor_s * (self.cores - 1.0) / self.cores;
        let mut latch_s = self.latch_s;
        let mut throughput = 0.0;
        for _ in 0..FIXED_POINT {
            let waiting;
            (throughput, waiting) = network(inside, processor_s / self.cores, latch_s, delay_s);
            let contended = 1.0 + self.handover * waiting.min(self.cores - 1.0);
            latch_s = f64::midpoint(latch_s, self.latch_s * contended);
        }
        throughput
    }

    /// [`Database::throughput_per_s`] for every P from 0 (where it is 0) to `most`.
    pub(super) fn curve(&self, most: u32) -> Vec<f64> {
        std::iter::once(0.0).chain((1..=most).map(|p| self.throughput_per_s(p))).collect()
    }
}

/// Mean value analysis of two queues and a delay: throughput, and transactions at the second queue.
fn network(inside: u32, first_s: f64, second_s: f64, delay_s: f64) -> (f64, f64) {
    let (mut throughput, mut first, mut second) = (0.0, 0.0, 0.0);
    for n in 1..=inside {
        // A transaction that arrives sees what n − 1 others leave there on average.
        let (at_first, at_second) = (first_s * (1.0 + first), second_s * (1.0 + second));
        throughput = f64::from(n) / (at_first + at_second + delay_s);
        (first, second) = (throughput * at_first, throughput * at_second);
    }
    (throughput, second)
}

/// The typical database is fitted to these measurements: transactions a second of MariaDB 10.11 at
/// each P, with 256 users of TPC-C on two cores. They are means of three rounds
/// (`docs/results/apples.md`).
pub(super) const MEASURED: [(u32, f64); 8] = [
    (4, 968.0),
    (8, 1091.0),
    (12, 1090.0),
    (16, 1110.0),
    (24, 1091.0),
    (32, 1082.0),
    (64, 1062.0),
    (256, 902.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_takes_its_demands_and_many_are_bound_by_the_slowest() {
        // 1 / (2 ms + 1 ms + 7 ms).
        let (alone, _) = network(1, 0.002, 0.001, 0.007);
        assert!((alone - 100.0).abs() < 1e-9, "{alone}");
        // The first queue gives 1 / 2 ms at most.
        let (many, waiting) = network(1000, 0.002, 0.001, 0.007);
        assert!((many / 500.0 - 1.0).abs() < 1e-3, "{many}");
        // The second one is half busy: 0.5 / (1 − 0.5) there.
        assert!((waiting - 1.0).abs() < 0.01, "{waiting}");
    }

    #[test]
    fn without_contention_cores_multiply_the_limit() {
        let calm = |cores| Database {
            latch_s: 1e-9,
            eviction: 0.0,
            handover: 0.0,
            conflicts: 0.0,
            ..Database::typical(cores)
        };
        let (two, sixteen) = (calm(2.0), calm(16.0));
        // c / D with enough inside.
        assert!((two.throughput_per_s(400) * two.processor_s / 2.0 - 1.0).abs() < 0.01);
        assert!((sixteen.throughput_per_s(3000) * sixteen.processor_s / 16.0 - 1.0).abs() < 0.01);
        let curve = two.curve(256);
        let falls = curve.windows(2).any(|pair| pair[1] < pair[0] * (1.0 - 1e-9));
        assert!(!falls, "nothing makes it fall");
    }

    #[test]
    fn each_kind_of_contention_makes_throughput_fall() {
        let calm =
            Database { eviction: 0.0, handover: 0.0, conflicts: 0.0, ..Database::typical(64.0) };
        let falls = |database: Database| {
            let most = database.curve(512).into_iter().fold(0.0, f64::max);
            database.throughput_per_s(512) / most
        };
        assert!(falls(calm) > 0.999);
        assert!(falls(Database { eviction: 5.0, ..calm }) < 0.95);
        assert!(falls(Database { latch_s: 60e-6, handover: 0.1, ..calm }) < 0.8);
    }

    #[test]
    fn the_typical_database_is_near_the_one_that_was_measured() {
        for (p, measured) in MEASURED {
            let ratio = Database::typical(2.0).throughput_per_s(p) / measured;
            assert!((0.98..1.02).contains(&ratio), "P = {p}: {ratio:.3}");
        }
    }
}
