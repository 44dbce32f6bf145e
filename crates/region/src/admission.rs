//! Letting sessions in and out: permits, the queue, sleeping and waking.
//!
//! # Permits
//! There are P permits, each a word on a cache line of its own. Whoever holds one is inside, so at
//! most P are, exactly and without a shared counter that could be checked and then overshot. A
//! session takes the permit that it held last if it is still free: below P each session keeps its own,
//! and no cache line moves between processors.
//!
//! # Nobody is forgotten
//! A session that finds no permit enqueues under the lock and raises `pending`; the first to raise it
//! from zero then looks at all permits once more (`scan_permits`). A session that leaves frees its permit and then
//! looks at `pending`. Both pairs are sequentially consistent: either the one sees the free permit, or
//! the other sees that somebody waits, takes the lock and gives on the permit that it freed
//! (`hand_over`). The look at all permits needs no lock, which is only taken to give one away: under
//! the lock nothing grows with P.
//!
//! Those who enqueue while `pending` is above zero look at no permit, for none is free that nobody
//! will see to. It was above zero, without a break, since the first of them raised it, who looks at
//! each permit after that. A permit that is free at this look is given away. One that is busy then and
//! is freed later is freed either under the lock, where it is given on as long as anybody needs it,
//! or without it: then its owner, who looks at `pending` after that, sees it above zero. The same is
//! true of a permit that somebody took without the lock, having seen `pending` at zero a moment too
//! late. Whatever else makes a permit free looks at all of them after it has raised `pending`: a
//! larger P, the queue made anew, permits that were found again (`repair`).
//!
//! The first of them goes on looking although it was given a permit itself meanwhile.
//!
//! It may die or be stopped before it has looked at all, or an owner between freeing its permit and
//! looking, or somebody may not get the lock. The daemon looks at all permits twenty times a second
//! if anybody waits ([`Region::dispatch_all`]), and without a daemon nobody waits. `tests/forgotten.rs`
//! tries all orders of these steps on a model.
//!
//! # Nobody is held for ever
//! A sleeper wakes every fifth of a second and looks whether the daemon lives, the gate is open
//! and its longest hold is over; each of these lets it pass. If all who wait may pass at the same
//! moment, they leave over a short ramp (`headworks_policy::ramp`). Whoever passes holds no permit and
//! gives none back.

use crate::entered::{Entered, PassReason};
use crate::futex;
use crate::layout::{Counter, Region};
use crate::permits::named;
use crate::session::{FLAG_BYPASS, FLAG_UNFOLLOWED, SessionSlot, State, bump};
use core::sync::atomic::{AtomicU64, Ordering};
use headworks_policy::wrr::ClassShare;
use headworks_policy::{CLASSES, Nanos};

impl Region {
    /// Claims a slot for a new session. `None` when all are taken; the connection then passes.
    pub fn register(&self, pid: u32, now: Nanos) -> Option<u32> {
        let Some(session) = self.claim_slot(pid) else {
            self.count(Counter::SlotTableFull);
            return None;
        };
        let slot = self.session(session)?;
        slot.reset();
        slot.connected_ns.store(now.0, Ordering::Relaxed);
        slot.last_permit.store(session % self.control.limit(), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.join(session, 0));
        Some(session)
    }

    /// Counts an answered request of the session with this slot: what it waited in the gate until
    /// it was admitted, and what it took until `now`. Several that came and were answered together
    /// count as `requests`. Only for the thread that serves the session.
    pub fn record(
        &self,
        session: u32,
        slot: &SessionSlot,
        wait: Nanos,
        (admitted, now): (Nanos, Nanos),
        requests: u32,
    ) {
        let run = now.since(admitted);
        slot.served.record(wait, run, requests);
        slot.note_run(run);
        if wait.0 > 0 {
            self.note_held(session, wait, admitted, now);
        }
        let class = slot.class.load(Ordering::Relaxed);
        let sessions = (session, self.high_water());
        self.histograms.record(class, sessions, wait, wait + run, requests);
    }

    /// Gives back everything a session holds and its slot; its counters go to its class.
    pub fn unregister(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        if slot.state() == State::Free {
            return;
        }
        self.leave(session);
        let late = self.locked(|gate, wakes| {
            gate.wrr.withdraw(session);
            gate.clear_debt(session);
            self.fold_into_class_totals(slot);
            let permit = self.take_back(session, slot);
            self.hand_over(gate, wakes, permit);
            permit.is_some()
        });
        // A granter that was killed has booked one on it late: perhaps more was left undone.
        if late == Some(true) {
            self.scan_permits();
        }
        slot.thread.store(0, Ordering::Relaxed);
        slot.set_state(State::Free);
        self.free_slot(session);
    }

    fn fold_into_class_totals(&self, slot: &SessionSlot) {
        let class = (slot.class.load(Ordering::Relaxed) as usize).min(CLASSES - 1);
        let departed = &self.classes[class].departed;
        let add = |to: &AtomicU64, by: u64| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        add(&departed.sessions, 1);
        let served = &slot.served;
        for (to, from) in [
            (&departed.requests, &served.requests),
            (&departed.turns, &served.turns),
            (&departed.queued, &served.queued),
            (&departed.passed, &served.passed),
            (&departed.wait_ns, &served.wait_ns),
            (&departed.run_ns, &served.run_ns),
            (&departed.blocked_ns, &served.blocked_ns),
        ] {
            add(to, from.load(Ordering::Relaxed));
        }
    }

    /// Puts a session into a class and marks whether it is ever held.
    pub fn classify(&self, session: u32, class: u32, bypass: bool, epoch: u32) {
        let Some(slot) = self.session(session) else { return };
        slot.class.store(class.min(CLASSES as u32 - 1), Ordering::Relaxed);
        slot.class_epoch.store(epoch, Ordering::Relaxed);
        let flags = slot.flags.load(Ordering::Relaxed) & !FLAG_BYPASS;
        slot.flags.store(flags | (u32::from(bypass) * FLAG_BYPASS), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.reclassify(session, class));
    }

    /// Marks a session whose conversation cannot be followed: never held, whatever the rules say.
    pub fn stop_following(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        let flags = slot.flags.load(Ordering::Relaxed);
        slot.flags.store(flags | FLAG_UNFOLLOWED, Ordering::Relaxed);
        // Its own thread may be held, and ends its wait itself.
        if slot.move_state(State::Queued, State::Cancelled) {
            futex::wake(&slot.state, 1);
        } else {
            self.leave(session);
        }
    }

    /// Follows a session again that was [left alone](Region::stop_following) for a while.
    pub fn resume_following(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        let flags = slot.flags.load(Ordering::Relaxed);
        slot.flags.store(flags & !FLAG_UNFOLLOWED, Ordering::Relaxed);
    }

    /// A request of `session`, which holds nothing, wants to start its turn. Returns when it may,
    /// at the latest when the longest hold is over.
    pub fn enter(&self, session: u32, arrived: Nanos) -> Entered {
        let Some(slot) = self.session(session) else { return Entered::Passed(PassReason::Bypass) };
        self.try_enter(slot).unwrap_or_else(|| self.wait_for_turn(session, slot, arrived))
    }

    /// What needs no waiting.
    pub(crate) fn try_enter(&self, slot: &SessionSlot) -> Option<Entered> {
        slot.used.store(0, Ordering::Relaxed);
        slot.quota.store(1, Ordering::Relaxed);
        slot.accounted.store(0, Ordering::Relaxed);
        if !self.control.enforcing() {
            return Some(self.pass(slot, PassReason::NotEnforcing));
        }
        if slot.flags.load(Ordering::Relaxed) != 0 {
            return Some(self.pass(slot, PassReason::Bypass));
        }
        if self.is_quiet() && self.take_free_permit(slot) {
            return Some(Entered::AtOnce);
        }
        None
    }

    /// The turn is over: gives the permit back and accounts for what was used. Also right for a
    /// session that holds no permit.
    pub fn leave(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        if slot.state() == State::Idle {
            return;
        }
        slot.end_pause();
        let overdraft = slot.state() == State::Owed;
        // Written by this thread, or by the granter while this thread waits: no swap is needed.
        let accounted = slot.accounted.load(Ordering::Relaxed) != 0;
        slot.accounted.store(0, Ordering::Relaxed);
        let used = slot.used.load(Ordering::Relaxed);
        slot.used.store(0, Ordering::Relaxed);
        let contended = self.pending.count.load(Ordering::Relaxed) != 0;
        if accounted || contended || overdraft {
            let done = self.locked(|gate, wakes| {
                gate.wrr.withdraw(session);
                gate.clear_debt(session);
                gate.wrr.end_turn(session, used);
                let permit = self.take_back(session, slot);
                slot.set_state(State::Idle);
                self.hand_over(gate, wakes, permit);
            });
            if done.is_some() {
                return;
            }
        }
        let permit = slot.permit.swap(0, Ordering::AcqRel);
        slot.set_state(State::Idle);
        if let Some(permit) = named(permit) {
            self.free_permit(session, permit);
        }
    }

    /// The socket of `session` was shut down or closed, perhaps by another thread: it is not held
    /// any longer, now or later.
    pub fn cancel(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        slot.closing.store(1, Ordering::SeqCst);
        if slot.move_state(State::Queued, State::Cancelled) {
            self.count(Counter::Cancelled);
            futex::wake(&slot.state, 1);
        }
    }

    /// Gives free permits to those who wait. Called by the daemon twenty times a second: see "Nobody is
    /// forgotten".
    pub fn dispatch_all(&self) {
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            // Whoever had the lock may be dead, and the permits that it had in hand with it.
            self.locked(|_, _| ());
            self.scan_permits();
        }
    }

    /// Gives back what the sessions of an earlier process with this number held, for the process that has it now.
    pub fn reclaim_from_previous_process(&self, pid: u32) {
        for session in 0..self.high_water() {
            let slot = &self.sessions[session as usize];
            if slot.pid.load(Ordering::Relaxed) == pid {
                self.release_dead_session(session, pid);
            }
        }
    }

    /// Gives back what a session of the process `pid` holds, which is gone. Not if the slot is somebody else's by now; of
    /// several that do it one succeeds, and if that one dies over it, the slot says so.
    pub fn release_dead_session(&self, session: u32, pid: u32) {
        let Some(slot) = self.session(session) else { return };
        let own = std::process::id();
        if slot.pid.compare_exchange(pid, own, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        if slot.state() == State::Free {
            // It was claimed, and no more.
            self.free_slot(session);
            return;
        }
        self.count(Counter::Reaped);
        self.unregister(session);
    }

    /// Writes new settings and lets those in or pass whom they concern. `false` if the lock was
    /// not to be had: ζ then counts from the next time on. Leaves `off` as it is.
    pub fn apply(&self, settings: &crate::control::Settings) -> bool {
        self.control.store(settings);
        let done = self.locked(|gate, _| {
            gate.wrr.set_zeta(settings.zeta);
            self.count_excess();
        });
        self.scan_permits();
        if !self.control.enforcing() {
            self.wake_everybody();
        }
        done.is_some()
    }

    /// Sets P, unless somebody has set it, fixed it or left it to the search since the settings were `seen`; says whether
    /// it did. Nobody is held who was inside: with a smaller P, permits are not given again as they become free.
    pub fn tune_parallelism(&self, seen: &crate::control::Settings, parallelism: u32) -> bool {
        if !self.control.exchange_parallelism(seen, parallelism) {
            return false;
        }
        self.locked(|_, _| self.count_excess());
        self.scan_permits();
        true
    }

    /// Sets ζ. `false` if the lock was not to be had: it then counts from the next time on.
    pub fn tune_quota(&self, zeta: u32) -> bool {
        self.control.store_zeta(zeta);
        self.locked(|gate, _| gate.wrr.set_zeta(zeta)).is_some()
    }

    /// Sets how many sessions beyond P may be inside, for the stall detector.
    pub fn set_bonus(&self, bonus: u32) {
        self.control.store_bonus(bonus);
        self.locked(|_, _| self.count_excess());
        self.scan_permits();
    }

    /// Opens the gate for everybody, or closes it. Those who wait leave in turn, over 0.2 s.
    pub fn set_off(&self, off: bool) {
        self.control.store_off(off);
        if off {
            self.wake_everybody();
        }
    }

    /// Writes name and weight of a class.
    pub fn set_class(
        &self,
        class: usize,
        name: &str,
        weight: u32,
        share: ClassShare,
        shared: bool,
    ) {
        let Some(slot) = self.classes.get(class) else { return };
        slot.name.set(name.as_bytes());
        slot.weight.store(weight, Ordering::Relaxed);
        slot.shared.store(u32::from(shared), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.set_share(class, share));
    }

    /// Writes a class's target; `None` for none.
    pub fn set_target(&self, class: usize, target: Option<(f64, Nanos)>) {
        let Some(slot) = self.classes.get(class) else { return };
        let (quantile, latency) = target.unwrap_or((0.0, Nanos(0)));
        slot.target_ppm.store((quantile * 1e6).round() as u32, Ordering::Relaxed);
        let us = u32::try_from(latency.0 / 1_000).unwrap_or(u32::MAX);
        slot.target_us.store(us, Ordering::Relaxed);
    }

    /// Wakes every held thread, so that it looks around.
    pub fn wake_everybody(&self) {
        for slot in &self.sessions[..self.high_water() as usize] {
            if slot.state() == State::Queued {
                futex::wake(&slot.state, 1);
            }
        }
    }

    pub(crate) fn pass(&self, slot: &SessionSlot, reason: PassReason) -> Entered {
        slot.set_state(State::Passing);
        slot.pass_reason.store(reason as u32, Ordering::Relaxed);
        if reason != PassReason::NotEnforcing {
            slot.served.was_passed();
        }
        match reason {
            PassReason::Stale => self.count(Counter::Stale),
            PassReason::HoldLimit => self.count(Counter::HoldLimit),
            PassReason::GateOpened => self.count(Counter::GateOpen),
            PassReason::LockBusy => self.count(Counter::LockBusy),
            _ => {}
        }
        Entered::Passed(reason)
    }

    /// Counts one request in the session's turn and says whether it still has quota for another.
    pub fn spend(&self, slot: &SessionSlot) -> bool {
        self.spend_many(slot, 1)
    }

    /// The same for several requests.
    pub fn spend_many(&self, slot: &SessionSlot, requests: u32) -> bool {
        bump(&slot.used, requests);
        if matches!(slot.state(), State::Running | State::Owed) {
            bump(&slot.progress, requests);
        }
        slot.used.load(Ordering::Relaxed) < slot.quota.load(Ordering::Relaxed)
    }

    /// For tests: takes the lock and never gives it back, as a thread does that is killed inside.
    #[doc(hidden)]
    pub fn die_with_the_lock(&self) {
        core::mem::forget(self.lock.lock.acquire(|_| false));
    }
}
