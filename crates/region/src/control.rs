//! Settings that the command line and the daemon write and every process reads.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;

/// What the gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Measure, queue no session, and replay what the gate would have done.
    DryRun = 0,
    /// Queue sessions, so that at most P are admitted.
    Enforce = 1,
}

impl Mode {
    /// From the word in memory; an unknown one queues no session.
    pub fn from_word(word: u32) -> Mode {
        if word == Mode::Enforce as u32 { Mode::Enforce } else { Mode::DryRun }
    }

    /// As on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Mode::DryRun => "dry-run",
            Mode::Enforce => "enforce",
        }
    }
}

/// Which sessions P counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Count {
    /// Those that work: a session that is blocked, thinks or runs for long lends its permit.
    #[default]
    Working = 0,
    /// All that were admitted, whatever they do, as AppleS counts them. Only a client that idles
    /// for longer than [`Settings::idle_limit`] lends its permit.
    Admitted = 1,
}

impl Count {
    /// As on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Count::Working => "working",
            Count::Admitted => "admitted",
        }
    }
}

/// Most sessions that P and the stall detector's bonus together let inside.
pub const PERMITS: usize = 1024;

/// No request is held for longer, whatever the region says.
pub const HOLD_CEILING: Nanos = Nanos::from_millis(3_600_000);

/// A heartbeat older than this is no heartbeat: all requests pass.
pub const STALE_AFTER: Nanos = Nanos::from_millis(600);

/// Read often, written rarely: its cache line stays shared.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Control {
    mode: AtomicU32,
    off: AtomicU32,
    parallelism: AtomicU32,
    bonus: AtomicU32,
    zeta: AtomicU32,
    auto: AtomicU32,
    hold_max_ns: AtomicU64,
    idle_limit_ns: AtomicU64,
    anticipation_ns: AtomicU64,
    stall_ns: AtomicU64,
    unfairness_max_mille: AtomicU32,
    latency_cv_max_mille: AtomicU32,
    count: AtomicU32,
    /// Written by the daemon, whatever the settings say.
    saturated: AtomicU32,
}

headworks_policy::layout!(Control {
    mode,
    off,
    parallelism,
    bonus,
    zeta,
    auto,
    hold_max_ns,
    idle_limit_ns,
    anticipation_ns,
    stall_ns,
    unfairness_max_mille,
    latency_cv_max_mille,
    count,
    saturated,
});

/// A copy of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the gate does.
    pub mode: Mode,
    /// The gate is open for all sessions, whatever the mode.
    pub off: bool,
    /// P: sessions inside at once.
    pub parallelism: u32,
    /// The daemon looks for the best P and sets it.
    pub auto: bool,
    /// ζ: requests of a round over all sessions; zero for its minimum.
    pub zeta: u32,
    /// Bound of unfairness under which the daemon makes ζ as large as it can, in thousandths;
    /// zero for none.
    pub unfairness_max_mille: u32,
    /// The same for the latencies' coefficient of variation. With neither bound ζ is as set.
    pub latency_cv_max_mille: u32,
    /// Longest hold of a request.
    pub hold_max: Nanos,
    /// How long a client may idle inside a transaction before its permit is lent out.
    pub idle_limit: Nanos,
    /// How long a session inside its quota is waited for.
    pub anticipation: Nanos,
    /// How long nothing may complete before one more session is admitted.
    pub stall: Nanos,
    /// Which sessions P counts.
    pub count: Count,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Enforce,
            off: false,
            parallelism: 16,
            auto: false,
            zeta: 0,
            unfairness_max_mille: 0,
            latency_cv_max_mille: 0,
            hold_max: Nanos::from_millis(30_000),
            idle_limit: Nanos::from_millis(100),
            anticipation: Nanos(0),
            stall: Nanos::from_millis(500),
            count: Count::Working,
        }
    }
}

impl Control {
    /// Whether requests may be held at all.
    pub fn enforcing(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == Mode::Enforce as u32
            && self.off.load(Ordering::Relaxed) == 0
    }

    /// What the gate does.
    pub fn mode(&self) -> Mode {
        Mode::from_word(self.mode.load(Ordering::Relaxed))
    }

    /// Permits in use: P and the stall detector's bonus.
    pub fn limit(&self) -> u32 {
        let sum = self
            .parallelism
            .load(Ordering::Relaxed)
            .saturating_add(self.bonus.load(Ordering::Relaxed));
        sum.clamp(1, PERMITS as u32)
    }

    /// Sessions beyond P that the stall detector lets in.
    pub fn bonus(&self) -> u32 {
        self.bonus.load(Ordering::Relaxed)
    }

    /// Writes the stall detector's bonus. The region's `set_bonus` also lets those in whom it
    /// concerns.
    pub(crate) fn store_bonus(&self, bonus: u32) {
        self.bonus.store(bonus, Ordering::SeqCst);
    }

    /// Longest hold of a request.
    pub fn hold_max(&self) -> Nanos {
        Nanos(self.hold_max_ns.load(Ordering::Relaxed)).min(HOLD_CEILING)
    }

    /// How long a client may idle inside a transaction.
    pub fn idle_limit(&self) -> Nanos {
        Nanos(self.idle_limit_ns.load(Ordering::Relaxed))
    }

    /// Whether a session that does not work lends its permit.
    pub fn counts_working(&self) -> bool {
        self.count.load(Ordering::Relaxed) != Count::Admitted as u32
    }

    /// Whether a session that stops working lends its permit at once: others could use the
    /// processors. While these are saturated a permit is kept for a while.
    pub fn lends_at_once(&self) -> bool {
        self.counts_working() && !self.saturated()
    }

    /// Whether no processor is idle and the server has work for most of them.
    pub fn saturated(&self) -> bool {
        self.saturated.load(Ordering::Relaxed) != 0
    }

    /// Writes what [`Control::saturated`] reads. For the daemon.
    pub fn set_saturated(&self, saturated: bool) {
        self.saturated.store(u32::from(saturated), Ordering::Relaxed);
    }

    /// How long a session inside its quota is waited for.
    pub fn anticipation(&self) -> Nanos {
        Nanos(self.anticipation_ns.load(Ordering::Relaxed))
    }

    /// Copies all settings out.
    pub fn settings(&self) -> Settings {
        Settings {
            mode: self.mode(),
            off: self.off.load(Ordering::Relaxed) != 0,
            parallelism: self.parallelism.load(Ordering::Relaxed),
            auto: self.auto.load(Ordering::Relaxed) != 0,
            zeta: self.zeta.load(Ordering::Relaxed),
            unfairness_max_mille: self.unfairness_max_mille.load(Ordering::Relaxed),
            latency_cv_max_mille: self.latency_cv_max_mille.load(Ordering::Relaxed),
            hold_max: self.hold_max(),
            idle_limit: self.idle_limit(),
            anticipation: self.anticipation(),
            stall: Nanos(self.stall_ns.load(Ordering::Relaxed)),
            count: if self.counts_working() { Count::Working } else { Count::Admitted },
        }
    }

    /// Writes all settings but two. Only `store_off` writes `off`. So a caller that opens the gate
    /// has the last word over one that writes settings at that time. P is kept if the search for it
    /// was on before and is on afterwards. The search may have set another P since the settings
    /// were read. The region's `apply` also wakes the sessions that the settings concern.
    pub(crate) fn store(&self, settings: &Settings) {
        self.store_zeta(settings.zeta);
        self.unfairness_max_mille.store(settings.unfairness_max_mille, Ordering::Relaxed);
        self.latency_cv_max_mille.store(settings.latency_cv_max_mille, Ordering::Relaxed);
        self.hold_max_ns.store(settings.hold_max.0, Ordering::Relaxed);
        self.idle_limit_ns.store(settings.idle_limit.0, Ordering::Relaxed);
        self.anticipation_ns.store(settings.anticipation.0, Ordering::Relaxed);
        self.stall_ns.store(settings.stall.0, Ordering::Relaxed);
        self.count.store(settings.count as u32, Ordering::Relaxed);
        let looked_for = self.auto.swap(u32::from(settings.auto), Ordering::SeqCst) != 0;
        // Zero is no P that a search has found: P was never set.
        if !(looked_for && settings.auto) || self.parallelism.load(Ordering::SeqCst) == 0 {
            self.parallelism.store(settings.parallelism.clamp(1, PERMITS as u32), Ordering::SeqCst);
        }
        self.mode.store(settings.mode as u32, Ordering::SeqCst);
    }

    /// Writes ζ alone. The region's `tune_quota` also tells the policy.
    pub(crate) fn store_zeta(&self, zeta: u32) {
        self.zeta.store(zeta, Ordering::Relaxed);
    }

    /// Writes P alone, unless P or the search for it differs from what was `seen`. The region's
    /// `tune_parallelism` also admits sessions.
    pub(crate) fn exchange_parallelism(&self, seen: &Settings, parallelism: u32) -> bool {
        let (from, to) = (seen.parallelism, parallelism.clamp(1, PERMITS as u32));
        let order = Ordering::SeqCst;
        // A caller that fixes P clears `auto` before it writes P. So one of the two checks fails.
        (self.auto.load(order) != 0) == seen.auto
            && self.parallelism.compare_exchange(from, to, order, order).is_ok()
    }

    /// Opens the gate for all sessions, or closes it.
    pub(crate) fn store_off(&self, off: bool) {
        self.off.store(u32::from(off), Ordering::SeqCst);
    }
}

/// A P that is in force for a short time: a sample, a probe, an operator's trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryP {
    /// P in force.
    pub parallelism: u32,
    /// The P that is to follow.
    pub permanent: u32,
}

/// The daemon's heartbeat, on its own cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Heartbeat {
    /// Time of the last heartbeat.
    pub alive_ns: AtomicU64,
    /// Process of the daemon.
    pub daemon: AtomicU32,
    /// Process of the database.
    pub server: AtomicU32,
    /// A [`TemporaryP`]: P in the low half, the permanent one in the high half. Zero if the P in
    /// force is permanent.
    temporary: AtomicU64,
    /// A server that uses the region of another version, after an upgrade. Nothing here concerns
    /// it.
    ungoverned: AtomicU32,
}

headworks_policy::layout!(Heartbeat { alive_ns, daemon, server, temporary, ungoverned });

impl Heartbeat {
    /// For how much longer the last heartbeat counts at `now`.
    pub fn fresh_for(&self, now: Nanos) -> Nanos {
        let alive = Nanos(self.alive_ns.load(Ordering::Relaxed));
        (alive + STALE_AFTER).since(now)
    }

    /// Whether the server uses the region of another version, so that no request is held.
    pub fn ungoverned(&self) -> bool {
        let server = self.ungoverned.load(Ordering::Relaxed);
        server != 0 && server == self.server.load(Ordering::Relaxed)
    }

    /// Names a server that uses the region of another version. The next one is another process.
    pub fn set_ungoverned(&self, server: u32) {
        self.server.store(server, Ordering::Relaxed);
        self.ungoverned.store(server, Ordering::Relaxed);
    }

    /// Whether the last heartbeat is too old at `now`. One from the future does not count: it would
    /// queue sessions for ever.
    pub fn stale(&self, now: Nanos) -> bool {
        let alive = Nanos(self.alive_ns.load(Ordering::Relaxed));
        now.since(alive) > STALE_AFTER || alive.since(now) > STALE_AFTER
    }

    /// The temporary P in force, if any. A daemon that is killed meanwhile leaves it to the next
    /// one.
    pub fn temporary_p(&self) -> Option<TemporaryP> {
        let word = self.temporary.load(Ordering::SeqCst);
        let temporary = TemporaryP { parallelism: word as u32, permanent: (word >> 32) as u32 };
        (word != 0).then_some(temporary)
    }

    /// Records a temporary P, before it is put into force. `None`: the P in force is permanent.
    pub fn set_temporary_p(&self, temporary: Option<TemporaryP>) {
        let word = temporary
            .map_or(0, |each| u64::from(each.parallelism) | u64::from(each.permanent) << 32);
        self.temporary.store(word, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Control {
        // SAFETY: a control is made of integers, for which all zero bytes are a value.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn p_is_left_to_the_search_while_there_is_one() {
        let control = control();
        let settings = |auto, parallelism| Settings { auto, parallelism, ..Settings::default() };
        // P, whether it is looked for, and what is in force then.
        for (auto, parallelism, expected) in [
            // P was never set; then it was.
            (true, 16, 16),
            (true, 8, 16),
            // An operator fixes it, fixes another, and lets it be looked for from a third one on.
            (false, 8, 8),
            (false, 4, 4),
            (true, 5, 5),
            (true, 9, 5),
        ] {
            control.store(&settings(auto, parallelism));
            let found = control.settings();
            assert_eq!((found.auto, found.parallelism), (auto, expected), "{parallelism}");
        }
    }

    #[test]
    fn p_is_only_exchanged_for_the_one_that_was_seen() {
        let control = control();
        let settings = Settings { auto: true, parallelism: 16, ..Settings::default() };
        control.store(&settings);
        assert!(control.exchange_parallelism(&settings, 24));
        assert!(!control.exchange_parallelism(&settings, 32), "16 was seen, and 24 is in force");
        let seen = control.settings();
        control.store(&Settings { auto: false, ..seen });
        assert!(!control.exchange_parallelism(&seen, 32), "fixed meanwhile, at the same number");
        assert_eq!(control.settings().parallelism, 24);
        assert!(control.exchange_parallelism(&control.settings(), 2_000));
        assert_eq!(control.settings().parallelism, PERMITS as u32);
    }

    #[test]
    fn both_halves_of_a_passing_p_come_back() {
        // SAFETY: as above.
        let beat: Heartbeat = unsafe { core::mem::zeroed() };
        assert_eq!(beat.temporary_p(), None);
        let temporary = TemporaryP { parallelism: 256, permanent: 16 };
        beat.set_temporary_p(Some(temporary));
        assert_eq!(beat.temporary_p(), Some(temporary));
        beat.set_temporary_p(None);
        assert_eq!(beat.temporary_p(), None);
        assert_eq!(size_of::<Heartbeat>(), 64);
    }
}
