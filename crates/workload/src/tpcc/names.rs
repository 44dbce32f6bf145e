//! Last names and the non-uniform random choice (clauses 2.1.6 and 4.3.2.3).

use crate::random::Random;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number in 0..=999: its three digits as syllables (clause 4.3.2.3). 371 is
/// PRICALLYOUGHT.
pub fn last_name(number: i64) -> String {
    let digit = |place: i64| SYLLABLES[(number.unsigned_abs() / place as u64 % 10) as usize];
    [digit(100), digit(10), digit(1)].concat()
}

/// `NURand(A, x, y) = (((random(0..A) | random(x..y)) + C) % (y − x + 1)) + x` (clause 2.1.6).
///
/// OR sets bits, so numbers with many ones below A are frequent: a hot set whose size A chooses and
/// whose position C moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NuRand {
    /// The spread, one less than a power of two.
    pub a: i64,
    /// The smallest number.
    pub x: i64,
    /// The largest number.
    pub y: i64,
    /// The constant that moves the hot set, in 0..=A.
    pub c: i64,
}

impl NuRand {
    /// One number in `x..=y`.
    pub fn draw(self, random: &mut Random) -> i64 {
        let span = (self.y - self.x + 1).max(1);
        ((random.within(0, self.a) | random.within(self.x, self.y)) + self.c) % span + self.x
    }
}

/// C-Run for last names. It differs enough from the population's C-Load that a run does not profit
/// from data in memory after loading. `|C-Run − C-Load|` is in 65..=119 and neither 96 nor 112
/// (clause 2.1.6.1).
pub fn run_constant(load_constant: i64, random: &mut Random) -> i64 {
    let allowed: Vec<i64> = (0..=255)
        .filter(|c: &i64| {
            let delta = (c - load_constant).abs();
            (65..=119).contains(&delta) && delta != 96 && delta != 112
        })
        .collect();
    let last = allowed.len() as i64 - 1;
    // Any C-Load in 0..=255 leaves at least 53 values: 255 − C-Load or C-Load is at least 119.
    allowed.get(random.within(0, last).max(0) as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
        // The longest fits into c_last VARCHAR(16): CALLY and OUGHT have five letters, three of
        // them 15.
        assert_eq!((0..1000).map(|n| last_name(n).len()).max(), Some(15));
    }

    #[test]
    fn or_favours_numbers_with_many_ones() {
        let mut random = Random::stream(3, 0);
        let mut seen = vec![0u32; 1000];
        let nurand = NuRand { a: 255, x: 0, y: 999, c: 0 };
        for _ in 0..1_000_000 {
            seen[nurand.draw(&mut random) as usize] += 1;
        }
        // A bit of the low byte is one with probability 3/4 instead of 1/2. 255 needs eight ones,
        // and a random(0..999) in 0..=255: (3/4)^8 x 256/1000 = 0.0256.
        let expected = 1_000_000.0 * 0.75f64.powi(8) * 256.0 / 1000.0;
        assert!((f64::from(seen[255]) - expected).abs() < 0.05 * expected, "{}", seen[255]);
        // 64 needs a single one and seven zeros: 3/4 x (1/4)^7 x 256/1000 x 1,000,000 = 12. (Up to
        // 23, what OR lifts to 1000..=1023 comes on top.)
        assert!(seen[64] < 40, "{}", seen[64]);
        assert_eq!(seen.iter().sum::<u32>(), 1_000_000);
    }

    #[test]
    fn the_constant_of_the_run_keeps_its_distance() {
        for load in 0..=255 {
            for stream in 0..20 {
                let run = run_constant(load, &mut Random::stream(1, stream));
                let delta = (run - load).abs();
                assert!((0..=255).contains(&run));
                assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{load} {run}");
            }
        }
    }
}
