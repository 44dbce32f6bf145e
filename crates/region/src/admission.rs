//! Admission: permits, the queue, sleeping and waking.
//!
//! # Permits
//! There are P permits. Each is a word on its own cache line. A session holds one while it runs, so
//! at most P sessions run. There is no shared counter that could be checked and then overshot. A
//! session takes the permit that it held last if that is still free. So below P each session keeps
//! its own, and no cache line moves between processors.
//!
//! # No session is forgotten
//! A session that finds no permit enqueues under the lock and raises `pending`. The first session
//! to raise it from zero then scans all permits (`scan_permits`). A session that leaves frees its
//! permit and then reads `pending`. Both pairs are sequentially consistent. Either the first sees
//! the free permit, or the second sees `pending` above zero, takes the lock and grants the permit
//! that it freed (`hand_over`). The scan itself takes no lock; only granting a permit does. So
//! nothing under the lock grows with P.
//!
//! A session that enqueues while `pending > 0` need not scan the permits. The first waiter scanned
//! them after it made `pending` nonzero. Every permit freed after that scan is handled by the
//! thread that frees it. Under the lock, that thread grants it to the next waiter. Outside the
//! lock, it reads `pending`, sees it nonzero, and dispatches. The same holds for a permit that was
//! taken without the lock by a session that had read `pending` as zero a moment before. Everything
//! else that frees permits scans them all after it has raised `pending`: a larger P, a rebuilt
//! queue, and permits that `repair` found.
//!
//! The first waiter finishes its scan even if it is granted a permit meanwhile.
//!
//! Three things can cut this short. The first waiter may be killed or stopped during its scan. An
//! owner may be stopped between freeing its permit and reading `pending`. A session may not get the
//! lock. Therefore the daemon scans all permits at each heartbeat while any session is queued
//! ([`Region::dispatch_all`]). Without a daemon no session is queued. `tests/forgotten.rs` tries
//! all orders of these steps on a model.
//!
//! # No session is held for ever
//! A queued session wakes every fifth of a second. It passes if the daemon is gone, the gate was
//! opened, or it has waited for the longest hold. If all queued sessions may pass at the same
//! moment, they leave over a short ramp (`headworks_policy::ramp`). A session that passes holds no
//! permit and gives none back.

use crate::entered::{Entered, PassReason};
use crate::futex;
use crate::layout::{Counter, Region};
use crate::permits::named;
use crate::session::{FLAG_BYPASS, FLAG_UNFOLLOWED, SessionSlot, State, bump};
use core::sync::atomic::{AtomicU64, Ordering};
use headworks_policy::counterfactual::ObservedTurn;
use headworks_policy::wrr::ClassShare;
use headworks_policy::{CLASSES, Nanos};

impl Region {
    /// Claims a slot for a new session. `None` if all are taken; the connection then passes.
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

    /// Counts an answered request: how long it was queued, and how long it ran until `now`.
    /// `requests` is more than one for requests that arrived together and were answered together.
    /// Only for the thread that serves the session.
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

    /// A turn of the session is over: keeps a record of it for the replay of a dry run.
    #[cold]
    pub fn note_turn(&self, session: u32, now: Nanos) {
        let Some(slot) = self.session(session) else { return };
        self.ring.push(&ObservedTurn {
            session,
            class: slot.class.load(Ordering::Relaxed),
            arrived: Nanos(slot.turn_arrived_ns.load(Ordering::Relaxed)),
            ended: now,
            requests: slot.used.load(Ordering::Relaxed),
            paused: Nanos(slot.turn_paused_ns.swap(0, Ordering::Relaxed)),
        });
    }

    /// Gives back everything that a session holds, and its slot. Its counters are added to its
    /// class.
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
        // A killed granter had granted this session a permit: it may have left more undone.
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

    /// Puts a session into a class and sets whether it bypasses the gate.
    pub fn classify(&self, session: u32, class: u32, bypass: bool, epoch: u32) {
        let Some(slot) = self.session(session) else { return };
        slot.class.store(class.min(CLASSES as u32 - 1), Ordering::Relaxed);
        slot.class_epoch.store(epoch, Ordering::Relaxed);
        let flags = slot.flags.load(Ordering::Relaxed) & !FLAG_BYPASS;
        slot.flags.store(flags | (u32::from(bypass) * FLAG_BYPASS), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.reclassify(session, class));
    }

    /// Marks a session whose protocol cannot be followed. It bypasses the gate, whatever the rules
    /// say.
    pub fn stop_following(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        let flags = slot.flags.load(Ordering::Relaxed);
        slot.flags.store(flags | FLAG_UNFOLLOWED, Ordering::Relaxed);
        // Its own thread may be queued. It then ends its wait itself.
        if slot.move_state(State::Queued, State::Cancelled) {
            futex::wake(&slot.state, 1);
        } else {
            self.leave(session);
        }
    }

    /// Follows a session again after [`Region::stop_following`].
    pub fn resume_following(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        let flags = slot.flags.load(Ordering::Relaxed);
        slot.flags.store(flags & !FLAG_UNFOLLOWED, Ordering::Relaxed);
    }

    /// Admits a request of a session that holds no permit. Returns when the request may run, at the
    /// latest after the longest hold.
    pub fn enter(&self, session: u32, arrived: Nanos) -> Entered {
        let Some(slot) = self.session(session) else { return Entered::Passed(PassReason::Bypass) };
        self.try_enter(slot, arrived).unwrap_or_else(|| self.wait_for_turn(session, slot, arrived))
    }

    /// Admits at once, if it can.
    pub(crate) fn try_enter(&self, slot: &SessionSlot, arrived: Nanos) -> Option<Entered> {
        // Before it has a permit: the daemon looks how long it has had one.
        slot.admitted_ns.store(arrived.0, Ordering::Relaxed);
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

    /// The turn is over: gives the permit back and charges the session for its requests. Harmless
    /// for a session that holds no permit.
    pub fn leave(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        if slot.state() == State::Idle {
            return;
        }
        slot.end_pause();
        let overdraft = slot.state() == State::Owed;
        // Only this thread writes it, or the granter while this thread waits: a plain load and
        // store do.
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

    /// The session's socket was shut down or closed, perhaps by another thread. It is never queued
    /// again, and a wait ends at once.
    pub fn cancel(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        slot.closing.store(1, Ordering::SeqCst);
        if slot.move_state(State::Queued, State::Cancelled) {
            self.count(Counter::Cancelled);
            futex::wake(&slot.state, 1);
        }
    }

    /// Grants free permits to queued sessions. Called by the daemon at each heartbeat: see "No
    /// session is forgotten".
    pub fn dispatch_all(&self) {
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            // Taking the lock recovers the permits in transfer, if the previous owner died with it.
            self.locked(|_, _| ());
            self.scan_permits();
        }
    }

    /// Gives back what an earlier process with this number held. The process that has the number
    /// calls it at its start.
    pub fn reclaim_from_previous_process(&self, pid: u32) {
        for session in 0..self.high_water() {
            let slot = &self.sessions[session as usize];
            if slot.pid.load(Ordering::Relaxed) == pid {
                self.release_dead_session(session, pid);
            }
        }
    }

    /// Gives back what a session of the dead process `pid` holds. Does nothing if the slot belongs
    /// to another process by now. Of several callers one succeeds; if that one dies meanwhile, its
    /// number in the slot says so.
    pub fn release_dead_session(&self, session: u32, pid: u32) {
        let Some(slot) = self.session(session) else { return };
        let own = std::process::id();
        if slot.pid.compare_exchange(pid, own, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        if slot.state() == State::Free {
            // The process died while it claimed the slot.
            self.free_slot(session);
            return;
        }
        self.count(Counter::Reaped);
        self.unregister(session);
    }

    /// Writes new settings, and admits or passes the sessions that they concern. `false` if the
    /// lock was busy: ζ then counts from the next time on. Does not change `off`.
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

    /// Sets P, unless P or the search for it was changed since the settings were `seen`. Returns
    /// whether it did. A smaller P takes no permit from a running session: permits beyond P are not
    /// granted again once they are free.
    pub fn tune_parallelism(&self, seen: &crate::control::Settings, parallelism: u32) -> bool {
        if !self.control.exchange_parallelism(seen, parallelism) {
            return false;
        }
        self.locked(|_, _| self.count_excess());
        self.scan_permits();
        true
    }

    /// Sets ζ. `false` if the lock was busy: it then counts from the next time on.
    pub fn tune_quota(&self, zeta: u32) -> bool {
        self.control.store_zeta(zeta);
        self.locked(|gate, _| gate.wrr.set_zeta(zeta)).is_some()
    }

    /// Sets the stall detector's bonus: how many sessions may run beyond P.
    pub fn set_bonus(&self, bonus: u32) {
        self.control.store_bonus(bonus);
        self.locked(|_, _| self.count_excess());
        self.scan_permits();
    }

    /// Opens the gate, or closes it. When it opens, queued sessions leave over 0.2 s.
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

    /// Sets whether clients wait for the I/O of a class's sessions.
    pub fn set_foreground(&self, class: usize, foreground: bool) {
        if let Some(slot) = self.classes.get(class) {
            slot.background.store(u32::from(!foreground), Ordering::Relaxed);
        }
    }

    /// Number of a session's class, and whether the I/O of its requests is background I/O.
    pub fn class_of(&self, session: u32) -> Option<(u8, bool)> {
        let number = self.session(session)?.class.load(Ordering::Relaxed);
        let class = self.classes.get(number as usize)?;
        Some((u8::try_from(number).ok()?, class.background.load(Ordering::Relaxed) != 0))
    }

    /// Wakes every queued session, so that it checks whether it may pass.
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

    /// Counts one request of the session's turn. Returns whether quota is left for another.
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

    /// For tests: takes the lock and never releases it, like a thread that is killed while it holds
    /// it.
    #[doc(hidden)]
    pub fn die_with_the_lock(&self) {
        core::mem::forget(self.lock.lock.acquire(|_| false));
    }
}
