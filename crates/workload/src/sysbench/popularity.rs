//! Which rows are requested.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::ycsb::Zipf;

/// Part of the draws from the few popular rows (sysbench's `--rand-spec-res`).
const SPECIAL_SHARE: f64 = 0.75;

/// Part of the rows that are popular (`--rand-spec-pct`).
const SPECIAL_ROWS: f64 = 0.01;

/// Uniform numbers that are averaged for a draw from all rows (`--rand-spec-iter`).
const ITERATIONS: u32 = 12;

/// The exponent of Zipf's law (`--rand-zipfian-exp` of sysbench 1.1; 1.0 has none).
const ZIPF_EXPONENT: f64 = 0.8;

static ZIPF: LazyLock<Zipf> = LazyLock::new(|| Zipf::new(ZIPF_EXPONENT));

/// Which rows of a table are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Popularity {
    /// In three of four draws one of the middle hundredth of the rows, else any row, those in the
    /// middle more often: the default of sysbench 1.0.
    #[default]
    Special,
    /// All alike.
    Uniform,
    /// The smaller its id, the more popular, by Zipf's law.
    Zipfian,
}

impl Popularity {
    /// An id from 1 to `rows`; 1 if there are none.
    pub fn draw(self, rows: i64, random: &mut Random) -> i64 {
        match self {
            Self::Special => special(rows, random),
            Self::Uniform => random.within(1, rows),
            // Ids are far below 2^63.
            Self::Zipfian => ZIPF.draw(rows.max(1).unsigned_abs(), random) as i64,
        }
    }
}

/// sysbench's special distribution.
///
/// It decides with one uniform number between the few and all. Then it uses the same number, which
/// is above a quarter by then, for the position among the few: their first quarter is never drawn.
/// It is the same here, because it makes the rest of them that much more contended.
fn special(rows: i64, random: &mut Random) -> i64 {
    let span = (rows - 1).max(0) as f64;
    let choice = random.unit();
    let at = if choice < 1.0 - SPECIAL_SHARE {
        let sum: f64 = (0..ITERATIONS).map(|_| random.unit()).sum();
        span * sum / f64::from(ITERATIONS)
    } else {
        let few = span * SPECIAL_ROWS;
        (span - few) / 2.0 + choice * (few + 1.0)
    };
    // Rows are far fewer than 2^53, and the clamp keeps rounding inside.
    (1 + at as i64).clamp(1, rows.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: i64 = 100_000;
    const DRAWS: i32 = 200_000;

    fn drawn(popularity: Popularity) -> Vec<i64> {
        let mut random = Random::stream(5, 0);
        (0..DRAWS).map(|_| popularity.draw(ROWS, &mut random)).collect()
    }

    fn share(draws: &[i64], of: impl Fn(i64) -> bool) -> f64 {
        draws.iter().filter(|&&id| of(id)).count() as f64 / f64::from(DRAWS)
    }

    /// Five standard deviations of a share of one half, which has the largest: 0.0056.
    const NEAR: f64 = 0.0056;

    #[test]
    fn three_of_four_fall_on_less_than_a_hundredth() {
        let draws = drawn(Popularity::Special);
        assert!(draws.iter().all(|id| (1..=ROWS).contains(id)));
        // The middle hundredth is 49,501 to 50,500; its first quarter is left to the bell over all
        // rows, which has 0.25 × 0.0479 of its mass in any middle hundredth (σ = √(1/144) of the
        // range: 0.01 / (σ √(2π))).
        let few = share(&draws, |id| (49_750..=50_501).contains(&id));
        assert!((few - (0.75 + 0.25 * 0.0479 * 0.75)).abs() < NEAR, "{few}");
        let first_quarter = share(&draws, |id| (49_501..=49_749).contains(&id));
        assert!(first_quarter < 0.25 * 0.0479 * 0.25 + 0.001, "{first_quarter}");
        // A bell with σ = 1/12 of the range: 68.3 % within one of them.
        let within = share(&draws, |id| (id - ROWS / 2).abs() <= ROWS / 12);
        assert!((within - (0.75 + 0.25 * 0.683)).abs() < NEAR, "{within}");
    }

    #[test]
    fn the_few_are_alike() {
        let draws = drawn(Popularity::Special);
        let part = |from: i64| share(&draws, |id| (from..from + 250).contains(&id));
        let parts = [part(49_751), part(50_001), part(50_251)];
        // A third of 0.75 each, and of the bell some 0.003.
        assert!(parts.iter().all(|part| (part - 0.253).abs() < NEAR), "{parts:?}");
    }

    #[test]
    fn uniform_means_all_alike() {
        let draws = drawn(Popularity::Uniform);
        for tenth in 0..10 {
            let part = share(&draws, |id| (id - 1) / (ROWS / 10) == tenth);
            assert!((part - 0.1).abs() < NEAR, "{tenth}: {part}");
        }
    }

    #[test]
    fn small_ids_are_popular_by_zipfs_law() {
        let draws = drawn(Popularity::Zipfian);
        let zeta: f64 = (1..=ROWS).map(|id| (id as f64).powf(-ZIPF_EXPONENT)).sum();
        let first = share(&draws, |id| id == 1);
        assert!((first - 1.0 / zeta).abs() < 0.002, "{first}, not {}", 1.0 / zeta);
        let hundred: f64 = (1..=100).map(|id| f64::from(id).powf(-ZIPF_EXPONENT)).sum();
        let early = share(&draws, |id| id <= 100);
        assert!((early - hundred / zeta).abs() < NEAR, "{early}, not {}", hundred / zeta);
    }

    #[test]
    fn small_tables_have_all_their_rows_drawn() {
        for popularity in [Popularity::Special, Popularity::Uniform, Popularity::Zipfian] {
            for rows in [0, 1, 2, 3, 7] {
                let mut random = Random::stream(1, 0);
                let mut seen = [false; 8];
                for _ in 0..20_000 {
                    seen[popularity.draw(rows, &mut random) as usize] = true;
                }
                let expected = rows.max(1) as usize;
                let all = seen[1..=expected].iter().all(|&seen| seen);
                // The bell hardly ever reaches the ends of a table.
                assert!(all || popularity == Popularity::Special, "{popularity:?}, {rows}");
                assert!(
                    !seen[0] && !seen[expected + 1..].contains(&true),
                    "{popularity:?}, {rows}"
                );
            }
        }
    }
}
