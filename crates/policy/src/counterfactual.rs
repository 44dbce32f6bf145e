//! What the gate would have done: a replay of observed turns behind a gate that was not there.
//!
//! # The problem
//! A dry run must say what P and the weights would change, from a record of what happened without
//! them. Replaying the observed service times would be wrong: they are long *because* all sessions
//! were inside at once.
//!
//! # The model
//! The database runs `capacity` turns at full speed; with n turns inside, each advances at the rate
//! `min(1, capacity / n)` (egalitarian processor sharing). From the record follows each turn's
//! *demand*: the integral of that rate over the time it was inside. The replay runs the same
//! demands through the real [`Gate`](crate::gate::Gate) policy with P permits. It is a closed loop:
//! each session starts its next turn as long after the end of the previous one as it did in the
//! record.
//!
//! In parts of a turn the session did not work: it was blocked, or its client thought. It then
//! demands nothing and holds no permit. In the replay these parts come after the turn's work.
//!
//! The model leaves out what the database gains by fewer conflicts inside. So it is cautious about
//! throughput, and right about order and waiting.

use crate::gate::{Gate, Next};
use crate::wrr::ClassShare;
use crate::{CLASSES, Nanos, SESSIONS};

/// One observed turn: from the first request that needed admission to the end of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedTurn {
    /// Index of the session, below [`SESSIONS`].
    pub session: u32,
    /// Index of its class, below [`CLASSES`].
    pub class: u32,
    /// When its first request arrived.
    pub arrived: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// Requests it was made of.
    pub requests: u32,
    /// How long its session did not work meanwhile.
    pub paused: Nanos,
}

impl ObservedTurn {
    /// The part of its time in which it worked.
    fn work_share(&self) -> f64 {
        let length = self.ended.since(self.arrived);
        if length == Nanos(0) {
            return 1.0;
        }
        length.since(self.paused).0 as f64 / length.0 as f64
    }
}

/// The gate that was not there.
#[derive(Clone, Debug)]
pub struct Setting {
    /// P, at least 1.
    pub parallelism: u32,
    /// ζ; zero for its minimum.
    pub zeta: u32,
    /// Turns that the database runs at full speed at once, at least 1.
    pub capacity: u32,
    /// Weight of each class.
    pub shares: Vec<ClassShare>,
}

/// A replayed turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedTurn {
    /// The observed turn.
    pub observed: ObservedTurn,
    /// When it arrived in the replay.
    pub arrived: Nanos,
    /// When it was admitted.
    pub admitted: Nanos,
    /// When it ended.
    pub ended: Nanos,
}

/// Demand of each turn, in nanoseconds at full speed, in the order given.
fn demands(turns: &[ObservedTurn], capacity: f64) -> Vec<f64> {
    let mut edges: Vec<(u64, bool, usize)> = Vec::with_capacity(turns.len() * 2);
    for (at, turn) in turns.iter().enumerate() {
        edges.push((turn.arrived.0, true, at));
        edges.push((turn.ended.0.max(turn.arrived.0 + 1), false, at));
    }
    edges.sort_unstable_by_key(|&(time, opens, at)| (time, opens, at));
    // `work` is the integral of the rate since the start: a turn's demand is a difference of two
    // readings.
    let (mut work, mut inside, mut last) = (0.0, 0.0, 0u64);
    let mut demand = vec![0.0; turns.len()];
    for (time, opens, at) in edges {
        if inside > 0.0 {
            work += (time - last) as f64 * (capacity / inside).min(1.0);
        }
        last = time;
        let share = turns[at].work_share();
        if opens {
            inside += share;
            demand[at] = -work * share;
        } else {
            inside -= share;
            demand[at] += work * share;
        }
    }
    demand
}

/// Replays `turns` (any order; turns of one session must not overlap) behind a gate.
pub fn replay(turns: &[ObservedTurn], setting: &Setting) -> Vec<ReplayedTurn> {
    let capacity = f64::from(setting.capacity.max(1));
    let mut turns: Vec<ObservedTurn> =
        turns.iter().copied().filter(|turn| (turn.session as usize) < SESSIONS).collect();
    turns.sort_unstable_by_key(|turn| (turn.arrived, turn.session));
    let demand = demands(&turns, capacity);

    let mut gate = Box::new(Gate::new());
    gate.wrr.set_zeta(setting.zeta);
    for (class, share) in setting.shares.iter().take(CLASSES).enumerate() {
        gate.wrr.set_share(class, *share);
    }
    // The turns of each session, in order, and the time each waits after the one before.
    let mut queue: Vec<Vec<usize>> = vec![Vec::new(); SESSIONS];
    for (at, turn) in turns.iter().enumerate().rev() {
        queue[turn.session as usize].push(at);
    }
    let mut arrivals = std::collections::BTreeSet::<(u64, usize)>::new();
    for (session, queue) in queue.iter_mut().enumerate() {
        if let Some(first) = queue.pop() {
            gate.wrr.join(session as u32, turns[first].class);
            arrivals.insert((turns[first].arrived.0, first));
        }
    }

    let mut waiting: Vec<Option<(usize, u64)>> = vec![None; SESSIONS];
    let mut inside: Vec<(usize, f64, u64, u64)> = Vec::new(); // turn, demand left, arrived, admitted
    let mut replayed = Vec::with_capacity(turns.len());
    let mut now = arrivals.first().map_or(0, |&(time, _)| time);
    loop {
        while inside.len() < setting.parallelism.max(1) as usize {
            let Some(Next::Admit(turn)) = gate.decide() else { break };
            if let Some((at, arrived)) = waiting[turn.session as usize].take() {
                inside.push((at, demand[at].max(1.0), arrived, now));
            }
        }
        let rate = (capacity / inside.len().max(1) as f64).min(1.0);
        let finish = inside
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
            .map(|(slot, &(_, left, ..))| (now + (left / rate).ceil().max(1.0) as u64, slot));
        let arrival = arrivals.first().copied();
        let (then, finished) = match (finish, arrival) {
            (None, None) => return replayed,
            (Some((time, slot)), Some((next, _))) if time <= next => (time, Some(slot)),
            (Some((time, slot)), None) => (time, Some(slot)),
            (_, Some((next, _))) => (next.max(now), None),
        };
        for entry in &mut inside {
            entry.1 -= (then - now) as f64 * rate;
        }
        now = then;
        if let Some(slot) = finished {
            let (at, _, arrived, admitted) = inside.swap_remove(slot);
            let turn = turns[at];
            gate.wrr.end_turn(turn.session, turn.requests.max(1));
            replayed.push(ReplayedTurn {
                observed: turn,
                arrived: Nanos(arrived),
                admitted: Nanos(admitted),
                ended: Nanos(now) + turn.paused,
            });
            if let Some(next) = queue[turn.session as usize].pop() {
                let think = turns[next].arrived.since(turn.ended) + turn.paused;
                arrivals.insert((now + think.0, next));
            }
        } else if let Some((_, at)) = arrivals.pop_first() {
            waiting[turns[at].session as usize] = Some((at, now));
            gate.wrr.arrive(turns[at].session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: u32, arrived_ms: u64, ended_ms: u64) -> ObservedTurn {
        ObservedTurn {
            session,
            class: 0,
            arrived: Nanos::from_millis(arrived_ms),
            ended: Nanos::from_millis(ended_ms),
            requests: 1,
            paused: Nanos(0),
        }
    }

    fn setting(parallelism: u32) -> Setting {
        Setting { parallelism, zeta: 0, capacity: 1, shares: Vec::new() }
    }

    #[test]
    fn sharing_halves_the_demand() {
        // Two turns share one processor for 100 ms: each needed 50 ms of it.
        let demand = demands(&[turn(0, 0, 100), turn(1, 0, 100)], 1.0);
        assert!((demand[0] - 50e6).abs() < 10.0 && (demand[1] - 50e6).abs() < 10.0);
        // A database with room for both: 100 ms each.
        let demand = demands(&[turn(0, 0, 100), turn(1, 0, 100)], 2.0);
        assert!((demand[0] - 100e6).abs() < 10.0);
    }

    #[test]
    fn a_turn_that_waits_for_its_client_holds_up_nobody() {
        // Each works for 10 ms of 100. As they are, and one at a time with their permits lent.
        let thinks =
            |session| ObservedTurn { paused: Nanos::from_millis(90), ..turn(session, 0, 100) };
        let turns: Vec<_> = (0..4).map(thinks).collect();
        let demand = demands(&turns, 1.0);
        assert!(demand.iter().all(|demand| (demand - 10e6).abs() < 10.0), "{demand:?}");
        let ended = replay(&turns, &setting(1)).iter().map(|turn| turn.ended).max();
        assert_eq!(ended.map(|ended| ended.0 / 1_000_000), Some(130));
    }

    #[test]
    fn one_at_a_time_finishes_the_first_early_and_the_last_no_later() {
        let replayed = replay(&[turn(0, 0, 100), turn(1, 0, 100)], &setting(1));
        let ended: Vec<u64> = replayed.iter().map(|turn| turn.ended.0 / 1_000_000).collect();
        assert_eq!(ended, [50, 100]);
        assert_eq!(replayed[1].admitted.0 / 1_000_000, 50);
    }

    #[test]
    fn nobody_waits_when_there_is_room() {
        let turns: Vec<_> = (0..10).map(|session| turn(session, u64::from(session), 100)).collect();
        for turn in replay(&turns, &setting(16)) {
            assert_eq!(turn.admitted, turn.arrived);
        }
    }

    #[test]
    fn every_turn_is_replayed_once_and_the_loop_is_closed() {
        let turns: Vec<_> = (0..40)
            .map(|n| turn(n % 4, u64::from(n / 4) * 50, u64::from(n / 4) * 50 + 40))
            .collect();
        let replayed = replay(&turns, &setting(2));
        assert_eq!(replayed.len(), 40);
        for session in 0..4 {
            let mut own: Vec<_> =
                replayed.iter().filter(|turn| turn.observed.session == session).collect();
            own.sort_by_key(|turn| turn.arrived);
            for pair in own.windows(2) {
                // It thought 10 ms between two turns in the record, and does so in the replay.
                assert_eq!(pair[1].arrived.since(pair[0].ended), Nanos::from_millis(10));
            }
        }
    }
}
