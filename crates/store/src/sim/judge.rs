//! What a trace is worth.
//!
//! A second is *on target* if every goal is met within a tolerance. *Converged* is the first second
//! from which 75 % of the next 120 s and 65 % of the next 600 s are on target: lenient, since the
//! paper's automata go on exploring. *Rate* judges rates without their noise, *delivered* windows
//! of 30 s of what was delivered, noise and all. *Held* is the part of such windows on target.

use super::run::{Second, Trace};

/// Application and rate.
pub type Goal = (usize, f64);

/// Seconds of a window of delivered work.
pub const DELIVERED_S: usize = 30;

/// Quantiles of times; `None` is never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Half of the runs were there by then.
    pub median_s: Option<usize>,
    /// Nine of ten were.
    pub p90_s: Option<usize>,
    /// Runs that never were.
    pub never: usize,
}

impl Times {
    /// Of these runs.
    pub fn of(times: &[Option<usize>]) -> Self {
        let mut sorted: Vec<usize> = times.iter().map(|time| time.unwrap_or(usize::MAX)).collect();
        sorted.sort_unstable();
        let quantile = |part: f64| {
            let at =
                ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
            sorted.get(at).copied().filter(|time| *time < usize::MAX)
        };
        let never = times.iter().filter(|time| time.is_none()).count();
        Times { median_s: quantile(0.5), p90_s: quantile(0.9), never }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let say = |time: Option<usize>| time.map_or("never".to_owned(), |time| time.to_string());
        write!(f, "{} / {}", say(self.median_s), say(self.p90_s))
    }
}

fn on_target(second: &[Second], goals: &[Goal], tolerance: f64) -> bool {
    goals.iter().all(|(at, goal)| (second[*at].even / goal - 1.0).abs() <= tolerance)
}

fn delivered_on_target(window: &[Vec<Second>], goals: &[Goal]) -> bool {
    let mean = |at: usize| window.iter().map(|s| s[at].rate).sum::<f64>() / window.len() as f64;
    goals.iter().all(|(at, goal)| (mean(*at) / goal - 1.0).abs() <= 0.05)
}

fn first_steady(ok: &[bool], from: usize, to: usize) -> Option<usize> {
    let mut sums = vec![0usize; ok.len() + 1];
    for (at, ok) in ok.iter().enumerate() {
        sums[at + 1] = sums[at] + usize::from(*ok);
    }
    let part = |at: usize, length: usize| {
        let end = (at + length).min(to);
        (sums[end] - sums[at]) as f64 / (end - at) as f64
    };
    let steady = |at: &usize| ok[*at] && part(*at, 120) >= 0.75 && part(*at, 600) >= 0.65;
    (from..to.saturating_sub(120)).find(steady).map(|at| at - from)
}

/// Seconds from `from` until rates have converged.
pub fn converged(
    trace: &Trace,
    goals: &[Goal],
    from: usize,
    to: usize,
    tolerance: f64,
) -> Option<usize> {
    let ok: Vec<bool> = trace.iter().map(|second| on_target(second, goals, tolerance)).collect();
    first_steady(&ok, from, to)
}

/// Seconds from `from` until what is delivered has converged. A window begins at its second, so
/// seeing it takes 30 s more.
pub fn delivered(trace: &Trace, goals: &[Goal], from: usize, to: usize) -> Option<usize> {
    let window = |at: usize| &trace[at..(at + DELIVERED_S).min(trace.len())];
    let ok: Vec<bool> = (0..trace.len()).map(|at| delivered_on_target(window(at), goals)).collect();
    first_steady(&ok, from, to)
}

/// Seconds from `from` until windows of delivered work are on target and three quarters of those
/// that follow are: what can be said of a run of minutes.
pub fn settled(trace: &Trace, goals: &[Goal], from: usize, to: usize) -> Option<usize> {
    let windows = trace[from..to].windows(DELIVERED_S.min(to - from).max(1));
    let ok: Vec<bool> = windows.map(|window| delivered_on_target(window, goals)).collect();
    let mut fine = 0;
    let mut first = None;
    for (after, at) in (1..).zip((0..ok.len()).rev()) {
        fine += usize::from(ok[at]);
        if ok[at] && 4 * fine >= 3 * after {
            first = Some(at);
        }
    }
    first
}

/// Part of the windows of delivered work that are on target. Windows begin every seven seconds, so
/// that a swing of the load is seen in all its phases.
pub fn held(trace: &Trace, goals: &[Goal], from: usize, to: usize) -> f64 {
    let windows = trace[from..to].windows(DELIVERED_S).step_by(7);
    let all = windows.len().max(1);
    windows.filter(|window| delivered_on_target(window, goals)).count() as f64 / all as f64
}

/// Mean of what was delivered of an application.
pub fn mean(trace: &Trace, at: usize, from: usize, to: usize) -> f64 {
    trace[from..to].iter().map(|second| second[at].rate).sum::<f64>() / (to - from).max(1) as f64
}

/// The worst 10 s of any goal, as a part of it.
pub fn worst(trace: &Trace, goals: &[Goal], from: usize, to: usize) -> f64 {
    let of = |window: &[Vec<Second>], (at, goal): &Goal| {
        window.iter().map(|second| second[*at].rate).sum::<f64>() / window.len() as f64 / goal
    };
    let least =
        |window: &[Vec<Second>]| goals.iter().map(|goal| of(window, goal)).fold(f64::MAX, f64::min);
    trace[from..to].windows(10).map(least).fold(f64::MAX, f64::min)
}

/// The standard deviation of 5 s windows, as a part of their mean: the noise of a run.
pub fn sigma(trace: &Trace, at: usize, from: usize, to: usize) -> f64 {
    let means: Vec<f64> = trace[from..to]
        .chunks_exact(5)
        .map(|window| window.iter().map(|second| second[at].rate).sum::<f64>() / 5.0)
        .collect();
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    let square = |value: &f64| (value / mean.max(f64::MIN_POSITIVE) - 1.0).powi(2);
    (means.iter().map(square).sum::<f64>() / means.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(rates: impl Iterator<Item = f64>) -> Trace {
        rates.map(|rate| vec![Second { rate, even: rate, ..Second::default() }]).collect()
    }

    #[test]
    fn converged_is_when_it_stays() {
        let trace =
            trace((0..1_000).map(|t| if (50..60).contains(&t) || t >= 200 { 1.0 } else { 0.5 }));
        let goals = [(0, 1.0)];
        assert_eq!(converged(&trace, &goals, 0, 1_000, 0.05), Some(200));
        assert_eq!(
            delivered(&trace, &goals, 0, 1_000),
            Some(198),
            "two seconds of thirty may be half"
        );
        assert_eq!(settled(&trace, &goals, 0, 1_000), Some(198));
        assert_eq!(settled(&trace, &goals, 0, 190), None);
        assert_eq!(held(&trace, &goals, 200, 1_000), 1.0);
        assert_eq!(worst(&trace, &goals, 0, 1_000), 0.5);
    }

    #[test]
    fn quantiles_of_times_know_never() {
        let times = Times::of(&[Some(3), None, Some(1), Some(2)]);
        assert_eq!((times.median_s, times.p90_s, times.never), (Some(2), None, 1));
        assert_eq!(times.to_string(), "2 / never");
    }
}
