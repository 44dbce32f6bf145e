//! Numbers of a run: when targets were met, how they were held, what was left for others. Pure.

use super::host::PARTS;
use super::stack::Outcome;
use crate::sweep::record::Run;
use headworks_store::sim::judge::{self, Goal, Times};
use headworks_store::sim::run::{Second, Trace};
use std::collections::BTreeMap;
use std::ops::Range;

/// Seconds of a phase that do not count for holding: as many as a target may take.
const SETTLE_S: usize = 15;

/// Stands for the time of what was not met within a phase: longer than any bound of a claim.
const NEVER_S: f64 = 9_999.0;

/// A part of a run that is judged for itself.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub name: &'static str,
    pub seconds: Range<usize>,
    /// Applications with a target, and what they are to have.
    pub goals: Vec<Goal>,
    /// Applications of best effort.
    pub others: Vec<usize>,
}

/// Rates as the judge of the simulation takes them.
pub(super) fn trace(outcome: &Outcome) -> Trace {
    let second = |did: &Vec<super::host::Did>| {
        did.iter().map(|did| Second { rate: did.rate, ..Second::default() }).collect()
    };
    outcome.seconds.iter().map(second).collect()
}

/// Part of the windows of a minute in which a goal is missed by more than 5 %.
fn short(trace: &Trace, goals: &[Goal], seconds: Range<usize>) -> f64 {
    let length = 60.min(seconds.len());
    let windows: Vec<_> = trace[seconds].windows(length.max(1)).collect();
    let mean = |window: &[Vec<Second>], at: usize| {
        window.iter().map(|second| second[at].rate).sum::<f64>() / window.len() as f64
    };
    let is_short =
        |window: &&&[Vec<Second>]| goals.iter().any(|(at, goal)| mean(window, *at) < 0.95 * goal);
    windows.iter().filter(is_short).count() as f64 / windows.len().max(1) as f64
}

/// Adds what a phase says; keys begin with its name.
pub(super) fn judge(trace: &Trace, phase: &Phase, numbers: &mut BTreeMap<String, f64>) {
    let Range { start: from, end } = phase.seconds;
    let to = end.min(trace.len());
    if from >= to {
        return;
    }
    let counted = (from + SETTLE_S).min(to - (to - from) / 2)..to;
    let mut add = |key: &str, value: f64| {
        numbers.insert(format!("{}_{key}", phase.name), value);
    };
    let all = |at: &usize| judge::mean(trace, *at, counted.start, to);
    add("others_per_s", phase.others.iter().map(all).sum());
    let apps = trace.first().map_or(0, Vec::len);
    add("all_per_s", (0..apps).map(|at| all(&at)).sum());
    if phase.goals.is_empty() {
        return;
    }
    let settled = judge::settled(trace, &phase.goals, from, to);
    add("settled_s", settled.map_or(NEVER_S, |second| second as f64));
    add("never", f64::from(u8::from(settled.is_none())));
    if counted.len() >= judge::DELIVERED_S {
        add("held_part", judge::held(trace, &phase.goals, counted.start, to));
    }
    add("short_part", short(trace, &phase.goals, counted.clone()));
    let of_target = phase.goals.iter().map(|(at, goal)| all(at) / goal);
    add("of_target", of_target.clone().sum::<f64>() / phase.goals.len() as f64);
    add("least_of_target", of_target.fold(f64::INFINITY, f64::min));
    add("worst_of_target", judge::worst(trace, &phase.goals, counted.start, to));
    let sigmas = phase.goals.iter().map(|(at, _)| judge::sigma(trace, *at, counted.start, to));
    add("sigma_part", sigmas.fold(0.0, f64::max));
}

/// Seconds from `from` until what these applications do is nine tenths of what they do later, up to
/// `to`: how long it takes to lend a share, or to give it back.
pub(super) fn follows_s(outcome: &Outcome, apps: &[usize], from: usize, to: usize) -> f64 {
    let seconds = &outcome.seconds[from..to.min(outcome.seconds.len())];
    let parts: Vec<f64> = seconds
        .iter()
        .flat_map(|did| {
            let of = |part: usize| apps.iter().map(|app| did[*app].accesses[part] as f64).sum();
            (0..PARTS as usize).map(of).collect::<Vec<f64>>()
        })
        .collect();
    let later = &parts[parts.len() / 2..];
    let level = later.iter().sum::<f64>() / later.len().max(1) as f64;
    let half = PARTS as usize / 2;
    let there = parts
        .windows(half)
        .position(|window| window.iter().sum::<f64>() / half as f64 >= 0.9 * level);
    there.map_or(f64::NAN, |at| at as f64 / f64::from(PARTS))
}

/// What happened over time.
pub(super) fn series(outcome: &Outcome, names: &[String], run: &mut Run) {
    let seconds = outcome.seconds.len();
    run.bucket_s = 1.0;
    for (at, name) in names.iter().enumerate() {
        let rates = outcome.seconds.iter().map(|second| second[at].rate).collect();
        run.series.insert(format!("{name}_per_s"), rates);
        // The store is older than its hosts: the last windows are those of the run.
        let windows = &outcome.windows[at];
        let own = &windows[windows.len().saturating_sub(seconds)..];
        let percent = |of: &dyn Fn(&headworks_store::governor::Window) -> f64| {
            own.iter().map(|window| 100.0 * of(window)).collect::<Vec<f64>>()
        };
        run.series.insert(format!("{name}_share_percent"), percent(&|w| w.granted));
        run.series.insert(format!("{name}_used_percent"), percent(&|w| w.used));
        if own.iter().any(|window| window.dft.is_some()) {
            let achieved = percent(&|w| 1.0 + w.dft.unwrap_or(0.0).clamp(-1.0, 1.0));
            run.series.insert(format!("{name}_of_target_percent"), achieved);
            run.series.insert(format!("{name}_ask_percent"), percent(&|w| w.ask));
        }
    }
}

/// The median and the ninth tenth of times over runs, for people.
pub(super) fn times(runs: &[Run], phase: &str) -> String {
    let one = |run: &Run| {
        let is_never = run.numbers.get(&format!("{phase}_never")) == Some(&1.0);
        let settled = run.numbers.get(&format!("{phase}_settled_s"))?;
        Some((!is_never).then_some(*settled as usize))
    };
    let all: Vec<_> = runs.iter().filter_map(one).collect();
    if all.is_empty() { "–".to_owned() } else { Times::of(&all).to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::host::Did;
    use super::*;

    fn outcome(rates: impl Fn(usize) -> [f64; 2]) -> Outcome {
        let did = |rate: f64| Did { rate, accesses: vec![(rate / 10.0) as u64; PARTS as usize] };
        let seconds = (0..100).map(|second| rates(second).map(did).to_vec()).collect();
        Outcome { seconds, windows: Vec::new() }
    }

    #[test]
    fn a_phase_says_when_its_target_was_met_and_what_was_left() {
        let outcome = outcome(|second| if second < 10 { [50.0, 150.0] } else { [100.0, 100.0] });
        let phase = Phase { name: "p", seconds: 0..100, goals: vec![(0, 100.0)], others: vec![1] };
        let mut numbers = BTreeMap::new();
        judge(&trace(&outcome), &phase, &mut numbers);
        assert_eq!(numbers["p_settled_s"], 8.0, "two seconds of thirty may be half");
        assert_eq!((numbers["p_never"], numbers["p_held_part"]), (0.0, 1.0));
        assert_eq!((numbers["p_others_per_s"], numbers["p_all_per_s"]), (100.0, 200.0));
        assert_eq!((numbers["p_short_part"], numbers["p_sigma_part"]), (0.0, 0.0));
        let missed = Phase { goals: vec![(0, 120.0)], ..phase };
        judge(&trace(&outcome), &missed, &mut numbers);
        assert_eq!((numbers["p_never"], numbers["p_settled_s"]), (1.0, NEVER_S));
        assert_eq!((numbers["p_held_part"], numbers["p_short_part"]), (0.0, 1.0));
    }

    #[test]
    fn a_share_is_given_back_when_its_owner_has_nine_tenths() {
        let outcome = outcome(|second| if second < 42 { [10.0, 190.0] } else { [100.0, 100.0] });
        let seconds = follows_s(&outcome, &[0], 40, 100);
        assert!((1.9..=2.0).contains(&seconds), "{seconds}");
    }
}
