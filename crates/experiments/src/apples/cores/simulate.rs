//! The tuner of the gate against a simulated database: the same policy that the daemon runs.

use std::collections::BTreeMap;

use headworks_policy::Nanos;
use headworks_policy::tuner::{Decision, Limits, Observation, Tuner};

use headworks_policy::random::Random;

/// How long a search is watched.
pub(super) const WATCHED_S: u64 = 180;

/// Time between two looks of the tuner.
const STEP_MS: u64 = 50;

/// Settled: from then on the mean of so many seconds is never below this part of the best.
const SETTLED: f64 = 0.97;
const SETTLED_OVER_S: usize = 10;

/// How much what is measured scatters: from slice to slice, and slowly.
#[derive(Debug, Clone, Copy)]
struct Noise {
    white: f64,
    drift: f64,
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    /// P with the most throughput.
    pub(super) optimum_p: u32,
    /// Throughput there, a second.
    pub(super) optimum_per_s: f64,
    /// The same with all inside.
    pub(super) ungated_per_s: f64,
    /// P that the tuner holds at the end.
    pub(super) found_p: u32,
    /// Throughput there, without noise.
    pub(super) found_per_s: f64,
    /// P that the model of AppleS points to, if the first samples fit it.
    pub(super) model_p: Option<u32>,
    /// Seconds until it has settled; `None` if it has not in [`WATCHED_S`].
    pub(super) settling_s: Option<usize>,
    /// The slowest second, relative to the best throughput.
    pub(super) least_second: f64,
}

impl Search {
    /// Numbers for the record: `optimum_p`, `optimum_per_s`, `gain` (over all inside), `found_p`,
    /// `error` (of λ_max), `settling_s` (the whole time if it has not), `settled` (0 or 1),
    /// `least_second`; `model_p` and, from `curve`, `model_error`.
    pub(super) fn numbers(&self, curve: &[f64]) -> BTreeMap<String, f64> {
        let mut numbers = BTreeMap::new();
        let mut put = |key: &str, value: f64| numbers.insert(key.to_owned(), value);
        put("optimum_p", f64::from(self.optimum_p));
        put("optimum_per_s", self.optimum_per_s);
        put("gain", self.optimum_per_s / self.ungated_per_s);
        put("found_p", f64::from(self.found_p));
        put("error", 1.0 - self.found_per_s / self.optimum_per_s);
        put("settling_s", self.settling_s.map_or(WATCHED_S as f64, |seconds| seconds as f64));
        put("settled", f64::from(u8::from(self.settling_s.is_some())));
        put("least_second", self.least_second);
        if let Some(p) = self.model_p
            && let Some(throughput) = curve.get(p as usize)
        {
            put("model_p", f64::from(p));
            put("model_error", 1.0 - throughput / self.optimum_per_s);
        }
        numbers
    }
}

/// P with which the daemon begins: the open gate.
pub(super) fn daemon_start() -> u32 {
    Limits::default().most
}

/// Lets the tuner look for P from a cold start, with so many users without pauses. `curve` is the
/// database's throughput at each P; `start` is P at the beginning.
pub(super) fn search(
    curve: &[f64],
    cores: f64,
    users: u32,
    start: u32,
    random: &mut Random,
) -> Search {
    let noise = Noise { white: 0.01 + 0.03 * random.unit(), drift: 0.004 };
    // Whole numbers of cores.
    let limits = Limits { cores: cores as u32, ..Limits::default() };
    let mut tuner = Tuner::new(limits, start);
    let inside = |p: u32| curve[p.min(users) as usize];
    let (optimum_p, optimum_per_s) = (1..=users)
        .map(|p| (p, inside(p)))
        .fold((0, 0.0), |best, each| if each.1 > best.1 { each } else { best });
    let (mut completed, mut inside_s, mut drift) = (0.0, 0.0, 1.0);
    let mut seconds = Vec::new();
    for second in 0..WATCHED_S {
        let mut served = 0.0;
        for step in 1..=1000 / STEP_MS {
            let rate = inside(tuner.parallelism());
            let span_s = STEP_MS as f64 / 1e3;
            drift += (1.0 - drift) * 0.05 + noise.drift * (2.0 * random.unit() - 1.0);
            let white = 1.0 + 3.0 * noise.white * around(random);
            completed += rate * drift * white.max(0.0) * span_s;
            served += rate * span_s;
            inside_s += f64::from(tuner.parallelism().min(users)) * span_s;
            tuner.observe(Observation {
                now: Nanos::from_millis(second * 1000 + step * STEP_MS),
                // Counts are whole.
                completed: completed as u64,
                // One request each: the mix stays.
                requests: completed as u64,
                run: Nanos((inside_s * 1e9) as u64),
                sessions: users,
                long: 0,
            });
        }
        seconds.push(served / optimum_per_s);
    }
    let (decisions, _) = tuner.decisions();
    let model_p = decisions
        .filter_map(|decision| match decision {
            Decision::Fitted { fit: Ok(curve), .. } => {
                curve.matching_point(curve.base.parallelism, users)
            }
            _ => None,
        })
        .next();
    Search {
        optimum_p,
        optimum_per_s,
        ungated_per_s: inside(users),
        found_p: tuner.center(),
        found_per_s: inside(tuner.center()),
        model_p,
        settling_s: settled(&seconds),
        least_second: seconds.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

/// The first second from which on every mean of [`SETTLED_OVER_S`] is good.
fn settled(seconds: &[f64]) -> Option<usize> {
    let good = |window: &[f64]| window.iter().sum::<f64>() >= SETTLED * window.len() as f64;
    let windows: Vec<bool> = seconds.windows(SETTLED_OVER_S).map(good).collect();
    let after = windows.iter().rposition(|good| !good).map_or(0, |last| last + 1);
    (after < windows.len()).then_some(after)
}

/// Around 0, from −1 to 1, the middle being the likeliest.
fn around(random: &mut Random) -> f64 {
    random.unit() + random.unit() - 1.0
}

#[cfg(test)]
mod tests {
    use super::super::model::Database;
    use super::*;

    #[test]
    fn settled_is_when_no_later_window_is_bad() {
        let mut seconds = vec![0.5; 5];
        seconds.extend([1.0; 40]);
        // Ten seconds with one of 0.5 have a mean of 0.95; the first window without one begins at
        // 5.
        assert_eq!(settled(&seconds), Some(5));
        seconds[30] = 0.6;
        // A mean of 0.96 until the window that begins after it.
        assert_eq!(settled(&seconds), Some(31));
        seconds.extend([0.5; 3]);
        assert_eq!(settled(&seconds), None);
    }

    #[test]
    fn a_search_finds_the_peak_of_a_simulated_database() {
        let database = Database::typical(2.0);
        let curve = database.curve(256);
        let search = search(&curve, 2.0, 256, daemon_start(), &mut Random::new(1));
        assert!((8..=24).contains(&search.optimum_p), "{search:?}");
        let numbers = search.numbers(&curve);
        // 1,110 of 902 were measured.
        assert!((1.18..1.28).contains(&numbers["gain"]), "{numbers:?}");
        assert!(numbers["error"] < 0.036 && numbers["settled"] == 1.0, "{numbers:?}");
    }
}
