//! Waiting to be admitted: in one go, or in steps between which the server does other work.
//!
//! A thread that serves one connection has nothing else to do, and sleeps until its session is
//! admitted. A process that serves one connection must react to signals. They end it, have it take
//! part in something that all processes do, or have it tell its client something. It waits in
//! steps, and its server sees the signals after each step. Between two steps its session keeps its
//! position in the queue. The next step finds whether it was admitted meanwhile.

use crate::clock;
use crate::entered::{Entered, PassReason};
use crate::futex;
use crate::layout::{Counter, Region};
use crate::permits::holder;
use crate::session::{SessionSlot, State};
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;
use headworks_policy::gate::Gate;

/// Longest sleep of a queued thread before it checks whether it may pass.
const MAX_SLEEP: Nanos = Nanos::from_millis(200);

/// Added to the time at which the heartbeat gets too old, so that it is too old at the check.
const STALE_MARGIN: Nanos = Nanos::from_micros(100);

/// A wait and its limit, as it was when the wait began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// When the request arrived.
    pub arrived: Nanos,
    hold_max: Nanos,
}

impl Wait {
    /// No wait.
    pub const NONE: Wait = Wait { arrived: Nanos(0), hold_max: Nanos(0) };
}

/// Result of checking a queued session.
enum Check {
    /// It may sleep for this long before the next check.
    Sleep(Nanos),
    /// It was admitted.
    Granted,
    /// It passes without a permit.
    Pass(PassReason),
}

impl Region {
    pub(crate) fn wait_for_turn(
        &self,
        session: u32,
        slot: &SessionSlot,
        arrived: Nanos,
    ) -> Entered {
        if let Some(entered) = self.queue_up(session, slot, arrived) {
            return entered;
        }
        let wait = self.begin_wait(arrived);
        let mut waited = false;
        loop {
            match self.check_and_leave(slot, wait) {
                Check::Sleep(time) => {
                    waited = true;
                    futex::wait(&slot.state, State::Queued as u32, time);
                }
                check => return self.end_wait(session, slot, check, waited),
            }
        }
    }

    /// A wait that begins now.
    pub fn begin_wait(&self, arrived: Nanos) -> Wait {
        Wait { arrived, hold_max: self.control.hold_max() }
    }

    /// As [`Region::enter`], but returns after each sleep: when it was admitted, after a signal, or
    /// after a fifth of a second. `None` if the session is still queued; [`Region::continue_wait`]
    /// goes on.
    pub fn enter_in_steps(&self, session: u32, wait: Wait) -> Option<Entered> {
        let Some(slot) = self.session(session) else {
            return Some(Entered::Passed(PassReason::Bypass));
        };
        let entered = self.try_enter(slot, wait.arrived);
        let entered = entered.or_else(|| self.queue_up(session, slot, wait.arrived));
        entered.or_else(|| self.step(session, slot, wait, false))
    }

    /// The next step of a wait that [`Region::enter_in_steps`] has begun.
    pub fn continue_wait(&self, session: u32, wait: Wait) -> Option<Entered> {
        let Some(slot) = self.session(session) else {
            return Some(Entered::Passed(PassReason::Bypass));
        };
        self.step(session, slot, wait, true)
    }

    /// As [`Region::enter`], but never sleeps: `None` if the session is queued. Its admission is
    /// then announced by the process's [`Waker`](crate::Waker), or found by [`Region::poll_wait`].
    pub fn enter_or_queue(&self, session: u32, wait: Wait) -> Option<Entered> {
        let Some(slot) = self.session(session) else {
            return Some(Entered::Passed(PassReason::Bypass));
        };
        let entered = self.try_enter(slot, wait.arrived);
        let entered = entered.or_else(|| self.queue_up(session, slot, wait.arrived));
        entered.or_else(|| match self.check(slot, wait) {
            Check::Sleep(_) => None,
            check => Some(self.end_wait(session, slot, check, false)),
        })
    }

    /// Checks a session that was queued by [`Region::enter_or_queue`]. `None` if it still is.
    pub fn poll_wait(&self, session: u32, wait: Wait) -> Option<Entered> {
        let Some(slot) = self.session(session) else {
            return Some(Entered::Passed(PassReason::Bypass));
        };
        match self.check(slot, wait) {
            Check::Sleep(_) => None,
            check => Some(self.end_wait(session, slot, check, true)),
        }
    }

    /// Lets a queued session pass. It keeps a permit that was granted at this moment.
    pub fn let_pass(&self, session: u32, reason: PassReason) -> Entered {
        let Some(slot) = self.session(session) else { return Entered::Passed(reason) };
        self.end_wait(session, slot, Check::Pass(reason), true)
    }

    fn step(&self, session: u32, slot: &SessionSlot, wait: Wait, waited: bool) -> Option<Entered> {
        match self.check_and_leave(slot, wait) {
            Check::Sleep(time) => futex::wait(&slot.state, State::Queued as u32, time),
            check => return Some(self.end_wait(session, slot, check, waited)),
        }
        match self.check_and_leave(slot, wait) {
            Check::Sleep(_) => None,
            check => Some(self.end_wait(session, slot, check, true)),
        }
    }

    /// Enqueues a session. `Some` if it passes instead.
    pub(crate) fn queue_up(
        &self,
        session: u32,
        slot: &SessionSlot,
        arrived: Nanos,
    ) -> Option<Entered> {
        if self.heartbeat.stale(arrived) {
            return Some(self.pass(slot, PassReason::Stale));
        }
        slot.set_state(State::Queued);
        let queued = self.locked(|gate, _| {
            // The previous owner of the lock may have rebuilt the queue and admitted this session.
            if slot.state() != State::Queued {
                return (false, false);
            }
            gate.wrr.arrive(session);
            (self.is_quiet(), gate.may_exceed_limit(session))
        });
        match queued {
            Some((first, due)) => {
                // While others need a permit, none is free: see "No session is forgotten".
                if first {
                    self.scan_permits();
                }
                if due && self.admit_over_limit(session, slot) {
                    return Some(Entered::AtOnce);
                }
            }
            // A permit that was granted meanwhile is kept.
            None if slot.move_state(State::Queued, State::Passing)
                || slot.move_state(State::Cancelled, State::Passing) =>
            {
                return Some(self.pass(slot, PassReason::LockBusy));
            }
            None => return Some(self.end_wait(session, slot, Check::Granted, true)),
        }
        if slot.state() == State::Queued {
            self.note_wait(slot);
        }
        None
    }

    /// Admits a session above P if no session of its class has a permit and the policy agrees.
    /// Reading the permits takes longer the larger P is, so it comes before the lock is taken.
    fn admit_over_limit(&self, session: u32, slot: &SessionSlot) -> bool {
        let class = slot.class.load(Ordering::Relaxed);
        slot.state() == State::Queued
            && !self.is_inside(class)
            && self.locked(|gate, _| self.admit_over_limit_now(gate, session, slot)) == Some(true)
    }

    /// The lock is held.
    fn admit_over_limit_now(&self, gate: &mut Gate, session: u32, slot: &SessionSlot) -> bool {
        if slot.state() != State::Queued {
            return false;
        }
        let Some(turn) = gate.admit_over_limit(session) else { return false };
        slot.quota.store(turn.quota, Ordering::Relaxed);
        slot.accounted.store(1, Ordering::Relaxed);
        let ahead = slot.move_state(State::Queued, State::Owed);
        if ahead {
            self.count(Counter::Ahead);
        } else {
            // It was cancelled at this moment.
            gate.clear_debt(session);
            gate.wrr.withdraw(session);
        }
        ahead
    }

    /// Whether a session of the class has a permit.
    fn is_inside(&self, class: u32) -> bool {
        (0..self.control.limit())
            .filter_map(|permit| holder(self, permit).and_then(|session| self.session(session)))
            .any(|slot| slot.class.load(Ordering::Relaxed) == class)
    }

    fn check(&self, slot: &SessionSlot, wait: Wait) -> Check {
        match slot.state() {
            State::Queued => {}
            State::Cancelled => return Check::Pass(PassReason::Cancelled),
            _ => return Check::Granted,
        }
        if slot.closing.load(Ordering::SeqCst) != 0 {
            return Check::Pass(PassReason::Cancelled);
        }
        if !self.control.enforcing() {
            return Check::Pass(PassReason::GateOpened);
        }
        let now = clock::now();
        if self.heartbeat.stale(now) {
            return Check::Pass(PassReason::Stale);
        }
        let held = now.since(wait.arrived);
        if held >= wait.hold_max {
            return Check::Pass(PassReason::HoldLimit);
        }
        // The last heartbeat may be the last one for ever: the ramp then begins at once.
        let stale_in = self.heartbeat.fresh_for(now) + STALE_MARGIN;
        Check::Sleep(MAX_SLEEP.min(stale_in).min(wait.hold_max - held))
    }

    /// As [`Region::check`], for a thread that can sleep. If all queued sessions may pass, they
    /// leave in turn. When its turn has come a session checks again, as the gate may be closed by
    /// then.
    fn check_and_leave(&self, slot: &SessionSlot, wait: Wait) -> Check {
        let check = self.check(slot, wait);
        let Check::Pass(PassReason::Stale | PassReason::GateOpened) = check else { return check };
        let now = clock::now();
        let left = wait.hold_max.since(now.since(wait.arrived));
        let pause = self.leave_in_turn(now).min(left);
        if pause == Nanos(0) {
            return check;
        }
        futex::wait(&slot.state, State::Queued as u32, pause);
        self.check(slot, wait)
    }

    fn end_wait(&self, session: u32, slot: &SessionSlot, check: Check, waited: bool) -> Entered {
        let reason = match check {
            Check::Pass(reason) => reason,
            _ if waited => {
                slot.served.was_queued();
                return Entered::Waited;
            }
            _ => return Entered::AtOnce,
        };
        // A permit that was granted at this moment is kept.
        if !slot.move_state(State::Queued, State::Passing)
            && !slot.move_state(State::Cancelled, State::Passing)
        {
            return Entered::Waited;
        }
        slot.served.was_queued();
        self.locked(|gate, _| gate.wrr.withdraw(session));
        self.pass(slot, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::{enforcing, session, stop_beating};

    #[test]
    fn a_machine_that_stood_still_lets_out_only_the_first() {
        let region = enforcing(1);
        stop_beating(region);
        region.enter(session(region), clock::now());
        let waiting: Vec<u32> = (0..5).map(|_| session(region)).collect();
        for &session in &waiting {
            assert_eq!(region.enter_or_queue(session, region.begin_wait(clock::now())), None);
        }
        // Nothing ran for a second, and all check before the daemon sends a heartbeat.
        let late = clock::now() + Nanos::from_millis(1_000);
        region
            .heartbeat
            .alive_ns
            .store(clock::now().since(Nanos::from_millis(1_000)).0, Ordering::Relaxed);
        let slots: Vec<&SessionSlot> =
            waiting.iter().map(|&session| region.session(session).unwrap()).collect();
        let wait = region.begin_wait(clock::now());
        assert!(matches!(region.check_and_leave(slots[0], wait), Check::Pass(PassReason::Stale)));
        for slot in &slots[1..] {
            assert!(matches!(region.check(slot, wait), Check::Pass(PassReason::Stale)));
        }
        std::thread::scope(|scope| {
            let check = |slot| scope.spawn(move || region.check_and_leave(slot, wait));
            // The last of many: its time is far off.
            for _ in 0..100 {
                region.leave_in_turn(clock::now());
            }
            let checks: Vec<_> = slots[1..].iter().map(|slot| check(*slot)).collect();
            // The heartbeat comes before they check or after: they stay in either case.
            region
                .heartbeat
                .alive_ns
                .store(late.0.min(clock::now().0 + 500_000_000), Ordering::Relaxed);
            for check in checks {
                assert!(matches!(check.join().unwrap(), Check::Sleep(_)));
            }
        });
        assert_eq!(region.waiting(), 5);
    }

    #[test]
    fn nobody_leaves_later_than_before_for_having_to_leave_in_turn() {
        let region = enforcing(1);
        stop_beating(region);
        let slot = region.session(session(region)).unwrap();
        slot.set_state(State::Queued);
        let wait = region.begin_wait(clock::now());
        // With a fresh heartbeat it sleeps its longest; with one that is nearly too old, until it
        // is.
        region.heartbeat.alive_ns.store(clock::now().0, Ordering::Relaxed);
        let Check::Sleep(time) = region.check(slot, wait) else { panic!("it waits") };
        assert_eq!(time, MAX_SLEEP);
        let old = crate::control::STALE_AFTER.since(Nanos::from_millis(50));
        region.heartbeat.alive_ns.store(clock::now().since(old).0, Ordering::Relaxed);
        match region.check(slot, wait) {
            Check::Sleep(time) => assert!(time <= Nanos::from_millis(51), "{time}"),
            // On a machine that took so long.
            Check::Pass(reason) => assert_eq!(reason, PassReason::Stale),
            Check::Granted => panic!("no permit was granted"),
        }
        assert_eq!(
            MAX_SLEEP,
            headworks_policy::ramp::RAMP,
            "the ramp takes the place of the last time"
        );
    }
}
