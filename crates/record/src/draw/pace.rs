//! How many clients an entry has, and at which pace they send.

use super::counted;
use super::fit::{self, Fit};
use crate::infer::arrows::End;
use crate::infer::{Architecture, Pace};
use crate::trace::Trace;

/// So many more requests are handed over, and answered, than connections show: they have several at
/// a time.
const SEVERAL: f64 = 1.2;

/// Fewer clients that wait to be accepted are chance.
const WAITING_MIN: f64 = 0.5;

/// Number of requests, and how many are under way, of an entry whose connections have several at a
/// time. Either the next stage gets more requests than connections show, and as many are answered,
/// or the sockets show several. Hand-overs alone show none: one request may be handed over several
/// times.
pub(super) fn several(trace: &Trace, found: &Architecture, entry: usize) -> Option<(f64, f64)> {
    let turns = found.requests.iter().find(|(stage, _)| *stage == entry)?.1 as f64;
    let counted_ns = (trace.head.counted_s * 1e9).max(1.0);
    let next = found.arrows.iter().filter_map(|arrow| match (arrow.from, arrow.to) {
        (End::Stage(from), End::Stage(to)) if from == entry && arrow.feeds(to) => Some(to),
        _ => None,
    });
    let next = next.filter(|&stage| !found.stages.stages[stage].on_demand);
    let counted = next.map(|stage| {
        let visits = super::all_visits(trace, found, stage);
        (visits, fit::working(found, stage, counted_ns))
    });
    let most = counted.max_by(|a, b| a.0.total_cmp(&b.0));
    let answers = found.answered.get(&entry).copied().unwrap_or(0) as f64;
    match most {
        Some((visits, under_way)) if visits.min(answers) > SEVERAL * turns => {
            Some((visits.min(answers), under_way))
        }
        _ if found.several.contains(&entry) => {
            let under_way =
                most.map_or_else(|| fit::working(found, entry, counted_ns), |one| one.1);
            Some((turns, under_way))
        }
        _ => None,
    }
}

/// How many connections a stage's clients have, their pace if it is known, and how long each takes
/// from one request to the next, for so many requests in the time that was counted.
pub(super) fn pace(
    trace: &Trace,
    found: &Architecture,
    entry: usize,
    n: f64,
) -> (u32, Option<Pace>, f64) {
    let counted_s = trace.head.counted_s.max(1e-9);
    // From request to request, as in the whole recording.
    let whole_s = counted_s / counted::whole(trace, found, entry).unwrap_or(1.0);
    let mut threads = found.connections.get(&entry).copied().unwrap_or(1).max(1) as u32;
    let mut pace = found.paces.get(&entry).copied();
    if let Some((_, under_way)) = several(trace, found, entry) {
        // Answers and requests of one connection are not in turns: their times tell nothing.
        threads = threads.max(under_way.round() as u32);
        let each_ns = f64::from(threads) * whole_s * 1e9 / n.max(1.0);
        pace = Some(Pace { answers: (1, each_ns as u64), thinks: (1, 0) });
    }
    let each_ns = f64::from(threads) * whole_s * 1e9 / n.max(1.0);
    // So do those that wait to be accepted: how many these are is known.
    if let Some(waiting) = found.backlog.get(&entry).filter(|waiting| **waiting >= WAITING_MIN) {
        let waits_ns = waiting * whole_s * 1e9 / n.max(1.0);
        let answer_ns = pace.as_ref().and_then(Pace::answer_ns).unwrap_or(0) as f64 + waits_ns;
        let answer = answer_ns.min(each_ns) as u64;
        let seen = Pace { answers: (1, answer), thinks: (1, each_ns as u64 - answer) };
        return (threads, Some(seen), each_ns);
    }
    // Requests that a busy thread has not read yet wait in its sockets: that looks like the
    // clients' time.
    let reader = found.readers.get(&entry).copied().unwrap_or(entry);
    let stage = &found.stages.stages[reader];
    let few = f64::from(stage.most.max(1));
    if f64::from(threads) > few && !stage.on_demand && several(trace, found, entry).is_none() {
        let busy = fit::working(found, reader, counted_s * 1e9) / few;
        let service_ns = busy.min(1.0) * few * counted_s * 1e9 / n.max(1.0);
        let users = f64::from(threads) / few;
        let away_ns = fit::elsewhere_ns(busy.min(0.999), service_ns, users);
        let away_ns = away_ns.min(each_ns);
        let (answer, think) = ((each_ns - away_ns) as u64, away_ns as u64);
        let slower = pace.as_ref().and_then(Pace::think_ns);
        if slower.is_none_or(|seen| think < seen) {
            pace = Some(Pace { answers: (1, answer), thinks: (1, think) });
        }
    }
    (threads, pace, each_ns)
}

/// How long a client takes from an answer to the next request, of the time that was seen. In that
/// time a client on this machine computes (`client_ns`), it and the entry's thread are woken, and
/// both may wait for a busy processor. Only the wake-ups are the client's time: the rest is
/// simulated.
pub(super) fn think_ns(
    trace: &Trace,
    (fit, entry, requests): (&Fit, usize, f64),
    (all_per_s, client_ns): (f64, u64),
    seen_ns: u64,
) -> u64 {
    let (n, ns) = fit.stages[entry].wakes;
    // Who is awake needs no wake-up for a request.
    let entry_ns = ns as f64 / n.max(1) as f64 * (n as f64 / requests.max(1.0)).min(1.0);
    let here_ns = trace.head.clients_waiting * 1e9 / all_per_s.max(1e-9);
    let wakes = if client_ns > 0 { 2.0 } else { 1.0 };
    let rest_ns = seen_ns.saturating_sub(client_ns);
    let left_ns = (rest_ns as f64 - entry_ns - here_ns).max(0.0);
    ((left_ns + idle_wake_ns(trace) * wakes) as u64).min(rest_ns)
}

/// Fewer wake-ups onto idle processors are chance.
const IDLE_WAKES_MIN: u64 = 20;

/// From a wake-up until the thread runs, where a processor is free: what the machine takes for it.
pub(super) fn idle_wake_ns(trace: &Trace) -> f64 {
    let each = trace.units.values().map(|unit| unit.idle_wakes);
    let (n, ns) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if n < IDLE_WAKES_MIN { 0.0 } else { ns as f64 / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::fit::Totals;
    use crate::trace::{Head, Unit};

    #[test]
    fn waits_for_busy_processors_are_not_the_clients_time() {
        let wakes = (1_000, 1_000 * 200_000);
        let fit = Fit { stages: vec![Totals { wakes, ..Totals::default() }], ..Fit::default() };
        let head = Head { clients_waiting: 0.5, ..Head::default() };
        let unit = Unit { idle_wakes: (100, 100 * 30_000), ..Unit::default() };
        let mut trace = Trace { head, units: [(2, unit)].into(), ..Trace::default() };
        // Of a millisecond the client computes 100 us, and waits 500 us for a processor. The
        // entry's thread waits 200 us. On free processors the two wake-ups take 60 us.
        let think =
            |trace: &Trace| think_ns(trace, (&fit, 0, 1_000.0), (1_000.0, 100_000), 1_000_000);
        assert_eq!(think(&trace), 260_000);
        trace.units.clear();
        assert_eq!(think(&trace), 200_000, "nothing is known of free processors");
        trace.head.clients_waiting = 5.0;
        assert_eq!(think(&trace), 0);
    }
}
