//! Permits of sessions that do not work.
//!
//! P bounds the sessions that *work*: on a processor or in storage I/O. A session that is blocked,
//! whose client thinks inside a transaction, or that runs for many times the usual length does not
//! need its permit. It lends the permit, and another session is admitted.
//!
//! * *Blocked* ([`Region::block`], from the hook that sees the wait begin): at once if a processor
//!   is idle that others could use, else once the wait gets long. When the wait is over the session
//!   goes on at once ([`Region::unblock`]), with a permit if one is free. Else it goes on without,
//!   and is owed the next one. So no session that holds a lock ever waits for a permit.
//! * *Thinking*: after the time for which anticipation pays ([`Region::keeps_for`]).
//! * *Long* ([`Region::outgrow`], from the daemon): it goes on without a permit until its turn
//!   ends, as in the lower queue of a multilevel feedback scheduler. The kernel's scheduler then
//!   shares the processors as without a gate. One that waits for a processor is not long.

use crate::clock;
use crate::control::Mode;
use crate::layout::{Counter, Region};
use crate::permits::{holder, named};
use crate::session::{Pause, SessionSlot, State};
use core::sync::atomic::{AtomicU16, Ordering};
use headworks_policy::Nanos;
use headworks_policy::permit::{self, Long};

/// Weight of the latest sample in a moving average: one in so many.
const SAMPLE_WEIGHT: u32 = 4;

/// A client that sends or reads a part of its request within this time is not worth lending for.
const CLIENT_IS_QUICK: Nanos = Nanos::from_millis(2);

/// A thread that sleeps for longer, on a thing that is not known, does not wait for storage.
const ASLEEP_MAX: Nanos = Nanos::from_millis(20);

/// A session whose sleeps usually are longer than this lends its permit when it falls asleep. Most
/// sleeps for a group commit are shorter.
const USUALLY_ASLEEP: Nanos = Nanos::from_millis(2);

impl Region {
    /// A session whose permit was lent goes on: at once, with a permit if one is free, else without
    /// and owed one.
    pub fn reenter(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        if !self.control.enforcing() {
            slot.set_state(State::Passing);
            return;
        }
        if self.is_quiet() && self.take_free_permit(slot) {
            return;
        }
        slot.set_state(State::Owed);
        let first = self.locked(|gate, _| {
            // The thread that had the lock before may have rebuilt the queue and given the session
            // a permit.
            if slot.state() != State::Owed {
                return false;
            }
            gate.grant_next_first(session);
            self.is_quiet()
        });
        match first {
            Some(true) => self.scan_permits(),
            Some(false) => {}
            None => drop(slot.move_state(State::Owed, State::Passing)),
        }
        if slot.state() == State::Owed {
            self.count(Counter::Overdraft);
        }
    }

    /// A session is blocked in the middle of a request. It lends its permit at once. While the
    /// processors are saturated, it does so once the daemon finds that the wait takes long. It goes
    /// on through [`Region::unblock`]. Only for the thread that serves the session.
    pub fn block(&self, session: u32, why: Pause) {
        let Some(slot) = self.session(session) else { return };
        slot.begin_pause(why, clock::now());
        // One that is owed a permit has none to keep, and is owed it again afterwards.
        let owed = slot.state() == State::Owed;
        // It may wait for a session that is queued here.
        let elsewhere = why == Pause::Elsewhere;
        if self.control.lends_at_once() || (self.control.counts_working() && (owed || elsewhere)) {
            self.lend(session, why);
        }
    }

    /// The thread that serves a session falls asleep on a condition in the middle of a request. If
    /// the server has not said for what, the session lends its permit. It does so at once if its
    /// sleeps usually are long, as those for a replica are, else once the daemon finds this one
    /// long. It goes on through [`Region::wakes_up`]. Only for the thread that serves the session.
    pub fn falls_asleep(&self, session: u32, now: Nanos) {
        let Some(slot) = self.session(session) else { return };
        if !matches!(slot.state(), State::Running | State::Owed) || slot.is_paused() {
            return;
        }
        if self.usually_sleeps_long(slot) {
            self.block(session, Pause::Asleep);
        } else {
            slot.begin_pause(Pause::Asleep, now);
        }
    }

    /// A session that has not slept yet will probably sleep as others do.
    fn usually_sleeps_long(&self, slot: &SessionSlot) -> bool {
        let usual = match slot.asleep_us.load(Ordering::Relaxed) {
            0 => self.extent.asleep_us.load(Ordering::Relaxed),
            own => own,
        };
        Nanos::from_micros(u64::from(usual)) > USUALLY_ASLEEP
    }

    /// It goes on. Only for the thread that serves the session.
    pub fn wakes_up(&self, session: u32, now: Nanos) {
        let Some(slot) = self.session(session) else { return };
        if slot.pause() != Pause::Asleep || !slot.is_paused() {
            return;
        }
        let before = self.usually_sleeps_long(slot);
        learn(&slot.asleep_us, now.since(Nanos(slot.paused_ns.load(Ordering::Relaxed))));
        if self.usually_sleeps_long(slot) != before {
            let usual = slot.asleep_us.load(Ordering::Relaxed);
            self.extent.asleep_us.store(usual, Ordering::Relaxed);
        }
        if slot.state() == State::Lent {
            self.unblock(session);
        } else {
            // It was storage, or a short sleep.
            slot.end_pause();
        }
    }

    /// A session waits for what belongs to its request, in a call that its hook cannot cut in two.
    /// The daemon lends its permit if that takes long. It goes on through [`Region::unblock`]. Only
    /// for the thread that serves the session.
    pub fn await_client(&self, slot: &SessionSlot, now: Nanos) {
        slot.begin_pause(Pause::Client, now);
    }

    /// The permit of a session that pauses, if it has one, is lent to others. The session goes on
    /// through [`Region::reenter`] or [`Region::unblock`]. Says whether it was working so far. Any
    /// thread may call it; the daemon does.
    pub fn lend(&self, session: u32, why: Pause) -> bool {
        let Some(slot) = self.session(session) else { return false };
        if why == Pause::Client {
            slot.begin_pause(why, clock::now());
        }
        let permit = slot.permit.load(Ordering::Acquire);
        let was_owed = slot.state() == State::Owed;
        let from = if was_owed { State::Owed } else { State::Running };
        if !slot.move_state(from, State::Lent) {
            return false;
        }
        if was_owed {
            self.locked(|gate, _| gate.clear_debt(session));
        }
        let counter = if why.is_blocked() { Counter::LentBlocked } else { Counter::Lent };
        self.take_from(session, slot, permit, counter);
        true
    }

    /// Frees the permit that a session had when it was last looked at, unless it has given that
    /// one back itself.
    fn take_from(&self, session: u32, slot: &SessionSlot, word: u32, counter: Counter) -> bool {
        let Some(permit) = named(word) else { return false };
        let taken =
            slot.permit.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let freed = taken && self.free_permit(session, permit);
        if freed {
            self.count(counter);
        }
        freed
    }

    /// What blocked a session is over: the time is counted, and if its permit was lent it goes on
    /// at once. Only for the thread that serves the session.
    pub fn unblock(&self, session: u32) {
        let Some(slot) = self.session(session) else { return };
        if slot.pause().is_blocked() {
            let since = Nanos(slot.paused_ns.swap(0, Ordering::Relaxed));
            if since > Nanos(0) {
                let time = clock::now().since(since);
                slot.served.was_blocked(time);
                slot.paused_in_turn(time);
            }
        }
        if slot.state() == State::Lent {
            self.reenter(session);
        }
    }

    /// A session runs for so long that it is not counted any more, until its turn ends. Says
    /// whether it had a permit. For the daemon.
    pub fn outgrow(&self, session: u32) -> bool {
        let Some(slot) = self.session(session) else { return false };
        let permit = slot.permit.load(Ordering::Acquire);
        slot.move_state(State::Running, State::Long)
            && self.take_from(session, slot, permit, Counter::Outgrown)
    }

    /// Takes the permits of sessions that hold one without using it, and of long requests. For the
    /// daemon; it looks at no session that holds no permit, and at none unless others wait. `used`
    /// says how much a request has used, and is asked for those that begin to last. If it does not
    /// know, all the time counts.
    pub fn lend_unused(
        &self,
        now: Nanos,
        long: Long,
        mut used: impl FnMut(u32, &SessionSlot) -> Option<Nanos>,
    ) {
        if self.is_quiet() {
            return;
        }
        let counts_working = self.control.counts_working();
        for permit in 0..self.control.limit() {
            let Some(session) = holder(self, permit) else { continue };
            let Some(slot) = self.session(session).filter(|slot| slot.state() == State::Running)
            else {
                continue;
            };
            let pause = slot.pause();
            let paused = now.since(Nanos(slot.paused_ns.load(Ordering::Relaxed)));
            let admitted = slot.admitted_ns.load(Ordering::Relaxed);
            let lasts = now.since(Nanos(admitted));
            let at_once = self.control.lends_at_once();
            match pause {
                // Its own hooks do this; they cannot where the server waits in a call that is not
                // hooked, or that cannot be cut in two.
                Pause::Thinking if paused > self.keeps_for(slot) => drop(self.lend(session, pause)),
                Pause::Thinking => {}
                Pause::Client if slot.is_paused() && paused > self.keeps_for_client() => {
                    self.lend(session, pause);
                }
                _ if !counts_working => {}
                Pause::Asleep if paused > ASLEEP_MAX => drop(self.lend(session, pause)),
                Pause::Asleep => {}
                _ if slot.is_paused() && (at_once || paused > long.lasts) => {
                    self.lend(session, pause);
                }
                _ if slot.is_paused() => {}
                _ if long.is_watched(lasts) => {
                    let used = used(session, slot).unwrap_or(lasts);
                    let same = slot.admitted_ns.load(Ordering::Relaxed) == admitted;
                    if same && lasts > long.lasts && used > long.uses {
                        self.outgrow(session);
                    }
                }
                _ => {}
            }
        }
    }

    /// Sessions that hold a permit and work.
    pub fn working(&self) -> u32 {
        let works = |permit| {
            let slot = holder(self, permit).and_then(|session| self.session(session));
            slot.is_some_and(|slot| {
                slot.state() == State::Running
                    && slot.pause() != Pause::Thinking
                    && !slot.is_paused()
            })
        };
        (0..self.control.limit()).filter(|&permit| works(permit)).count() as u32
    }

    /// Sessions that at `now` had worked for longer than `after` at one request. None if they keep
    /// their permits. Those that always pass are not counted.
    pub fn outlasting(&self, now: Nanos, after: Nanos) -> u32 {
        if !self.control.counts_working() {
            return 0;
        }
        let outlasts = |session| {
            self.session(session).is_some_and(|slot| {
                let runs = now.since(Nanos(slot.admitted_ns.load(Ordering::Relaxed)));
                matches!(slot.state(), State::Running | State::Owed | State::Long)
                    && runs > after
                    && slot.pause() != Pause::Thinking
                    && !slot.is_paused()
            })
        };
        (0..self.high_water()).filter(|&session| outlasts(session)).count() as u32
    }

    /// How long the requests of the quickest tenth of the sessions usually run. It is the mean of a
    /// session, and nine tenths of the others have a longer one. `None` if none has run any.
    pub fn usual_run(&self) -> Option<Nanos> {
        let usual = |session| {
            let slot = self.session(session).filter(|slot| slot.state() != State::Free)?;
            Some(slot.run_us.load(Ordering::Relaxed)).filter(|&us| us > 0)
        };
        let mut usual: Vec<u16> = (0..self.high_water()).filter_map(usual).collect();
        let at = usual.len() / 10;
        (!usual.is_empty()).then(|| Nanos::from_micros(u64::from(*usual.select_nth_unstable(at).1)))
    }

    /// How long a session keeps its permit once its client has begun to think.
    pub fn keeps_for(&self, slot: &SessionSlot) -> Nanos {
        let limit = self.control.idle_limit();
        if !self.control.counts_working() {
            return limit;
        }
        let [gap, run] = [&slot.gap_us, &slot.run_us]
            .map(|mean| Nanos::from_micros(u64::from(mean.load(Ordering::Relaxed))));
        permit::keeps_for(gap, run, limit, self.control.saturated())
    }

    /// How long a session keeps its permit while its client does not send or read what belongs to
    /// its request.
    pub fn keeps_for_client(&self) -> Nanos {
        if self.control.counts_working() { CLIENT_IS_QUICK } else { self.control.idle_limit() }
    }

    /// A statement is answered, and its transaction goes on: the client thinks. Only for the
    /// thread that serves the session.
    pub fn begin_gap(&self, slot: &SessionSlot, now: Nanos) {
        slot.begin_pause(Pause::Thinking, now);
    }

    /// The next statement has come: learns how long the client has thought. Only for the thread
    /// that serves the session.
    pub fn end_gap(&self, slot: &SessionSlot, now: Nanos) {
        // While it still thinks, so that the daemon takes this statement for no earlier one.
        slot.admitted_ns.store(now.0, Ordering::Relaxed);
        if slot.pause() == Pause::Thinking {
            let began = Nanos(slot.paused_ns.load(Ordering::Relaxed));
            learn(&slot.gap_us, now.since(began));
            if self.control.mode() != Mode::Enforce {
                slot.paused_in_turn(now.since(began));
            }
        }
        slot.end_pause();
    }
}

/// Takes a sample into a moving average. Longer ones count as 65 ms: all that is asked of it is
/// shorter.
fn learn(mean_us: &AtomicU16, sample: Nanos) {
    let sample = u32::try_from(sample.0 / 1_000).unwrap_or(u32::MAX).min(u32::from(u16::MAX));
    let before = u32::from(mean_us.load(Ordering::Relaxed));
    // Rounded up, so that a session that has run anything is told from one that has not.
    let after = (before * (SAMPLE_WEIGHT - 1) + sample).div_ceil(SAMPLE_WEIGHT);
    mean_us.store(after.min(u32::from(u16::MAX)) as u16, Ordering::Relaxed);
}

impl SessionSlot {
    fn begin_pause(&self, why: Pause, now: Nanos) {
        self.paused_ns.store(now.0, Ordering::Relaxed);
        self.pause.store(why as u32, Ordering::Relaxed);
    }

    /// For the replay of what was not enforced.
    fn paused_in_turn(&self, time: Nanos) {
        let before = self.turn_paused_ns.load(Ordering::Relaxed);
        self.turn_paused_ns.store(before.wrapping_add(time.0), Ordering::Relaxed);
    }

    /// Whether its request is blocked at this moment.
    fn is_paused(&self) -> bool {
        self.pause().is_blocked() && self.paused_ns.load(Ordering::Relaxed) != 0
    }

    /// It works again. Only for the thread that serves the session.
    pub fn end_pause(&self) {
        if self.pause.load(Ordering::Relaxed) != 0 {
            self.pause.store(Pause::None as u32, Ordering::Release);
        }
    }

    /// Why it does not work, or did not in the request in hand.
    pub fn pause(&self) -> Pause {
        Pause::from_word(self.pause.load(Ordering::Acquire))
    }

    /// A request is over: learns how long it ran, unless it was blocked.
    pub(crate) fn note_run(&self, run: Nanos) {
        if self.pause().is_blocked() {
            self.end_pause();
        } else {
            learn(&self.run_us, run);
        }
    }
}
