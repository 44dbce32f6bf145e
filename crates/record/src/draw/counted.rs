//! How many requests came in a second, and how sure that is.
//!
//! Events are counted in windows. What threads of a stage did in the whole recording is known by
//! how often they fell asleep, so requests are counted by that: a load that comes and goes is not
//! taken for that of the windows. How often they lost a processor to others tells nothing.

use crate::infer::Architecture;
use crate::trace::Trace;

/// Fewer sleeps in windows say nothing of the others.
const SLEEPS_MIN: u64 = 100;
/// Answers exceed requests by so much where one call reads several.
const MORE: f64 = 1.1;

/// Requests a second, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    /// The figure.
    pub per_s: f64,
    /// Part by which chance may make it wrong, in 19 of 20 recordings.
    pub within: f64,
    /// Why it is a lower bound, if it is one.
    pub least: Option<String>,
}

/// Of an entry with so many requests in the time that was counted. `several` of a connection may be
/// under way.
pub(super) fn counted(
    trace: &Trace,
    found: &Architecture,
    (entry, n, several): (usize, f64, bool),
) -> Counted {
    let whole = whole(trace, found, entry);
    // What each request makes threads do varies less than how many come.
    let known = if whole.is_some() { 0.5 } else { 1.0 };
    let left = 1.0 - trace.head.counted_s / trace.head.seconds.max(trace.head.counted_s).max(1e-9);
    Counted {
        per_s: n / trace.head.counted_s.max(1e-9) * whole.unwrap_or(1.0),
        within: 2.0 * known * (left.clamp(0.0, 1.0) / n.max(1.0)).sqrt(),
        least: least(trace, found, (entry, n, several)),
    }
}

/// Rate of the whole recording for one in the windows: by how often the threads that read requests
/// fell asleep. Not known where threads come and go.
pub(super) fn whole(trace: &Trace, found: &Architecture, entry: usize) -> Option<f64> {
    let reader = found.readers.get(&entry).copied().unwrap_or(entry);
    let stage = &found.stages.stages[reader];
    let units = || stage.units.iter().filter_map(|unit| trace.units.get(unit));
    let lasts = units().all(|unit| unit.births + unit.deaths == 0 && unit.lost == 0);
    let inside: u64 = units().map(|unit| unit.sleeps).sum();
    let all: u64 =
        stage.threads.iter().filter_map(|tid| trace.threads.get(tid)).map(|t| t.sleeps).sum();
    let head = trace.head_of(trace.host_of(found.stages.places[stage.place].pid));
    if !lasts || inside < SLEEPS_MIN || all < inside {
        return None;
    }
    let part = head.counted_s / head.seconds.max(1e-9);
    Some(all as f64 * part / inside as f64).filter(|rate| rate.is_finite() && *rate > 0.0)
}

fn least(
    trace: &Trace,
    found: &Architecture,
    (entry, n, several): (usize, f64, bool),
) -> Option<String> {
    let reader = found.readers.get(&entry).copied().unwrap_or(entry);
    let lost = |unit: &u32| trace.units.get(unit).is_some_and(|unit| unit.lost > 0);
    let answers = found.answered.get(&entry).copied().unwrap_or(0) as f64;
    let why = if found.stages.stages[reader].units.iter().any(lost) {
        "a table was full"
    } else if several {
        "several are under way on a connection, and one call may read more than one"
    } else if answers > MORE * n {
        "more answers were sent"
    } else {
        return None;
    };
    Some(why.to_owned())
}
