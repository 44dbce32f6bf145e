//! Who commits, and how long a commit takes undisturbed.
//!
//! # Terms
//! * *commit*: a small operation that its caller waits for: a small `fsync`, a small durable write,
//!   or under `rcp` any critical `fsync` or read.
//! * *active*: of an account: one of its commits runs, or ended less than [`ACTIVE`] ago.
//! * *interval*: of a caller that pauses between its commits: the time from one to the next.
//! * *late*: of a commit: it began at once when the one before it was over, and that one took most
//!   of the interval. Its caller pauses otherwise, so it is behind: it has commits to make by the
//!   clock, and each batch makes it wait for longer than the one before.
//! * *probe*: a few commits during which nothing is ordered, so that it becomes known what they
//!   take undisturbed. If the interval is not known, it lasts until a pause shows it: a caller that
//!   was behind from its first commit on looks like one that never pauses.

use super::super::Account;
use crate::Nanos;

/// An account whose last commit was so long ago is not waited for.
pub const ACTIVE: Nanos = Nanos::from_millis(300);

/// Commits of a probe.
pub const PROBES: u32 = 4;

/// Commits of a probe at the most, if no pause was seen.
const CATCH_UP: u32 = 32;

/// A probe ends early if its caller has neither begun nor ended a commit for so long.
pub const PROBE_PAUSE: Nanos = Nanos::from_millis(60);

/// How often an account's undisturbed time is measured again.
pub const PROBE_EVERY: Nanos = Nanos::from_millis(10_000);

/// A commit that runs for longer is not waited for.
const LOST: Nanos = Nanos::from_millis(10_000);

/// After such a time without commits, the dirty pieces of a file are not bounded. If clients come
/// back before the flusher's visit, they wait for all of these pieces.
pub const DESERTED: Nanos = Nanos::from_millis(5_000);

/// A pause is at least one part in so many of the interval.
const PAUSE: u64 = 8;

/// An interval that has not been seen for so long is forgotten.
const INTERVAL_LASTS: Nanos = Nanos::from_millis(10_000);

/// Accounts that are remembered.
pub(in crate::split) const CALLERS: usize = 64;

/// Commits of one account.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Caller {
    /// When one last began or ended.
    last: Nanos,
    /// When the last one began.
    began: Nanos,
    /// Its interval; zero for not known.
    interval: Nanos,
    /// When that was seen.
    paused: Nanos,
    /// What one takes undisturbed; zero for not known.
    alone: Nanos,
    /// When that was measured.
    probed: Nanos,
    /// Undisturbed ones that are still to be measured.
    probes: u32,
    /// Those that run.
    running: u32,
    /// Account plus one; zero for none.
    account: u32,
    /// Backlog, in quarters of a piece, when the last one began.
    behind: u32,
    /// File of the last one plus one; zero for none.
    file: u32,
    /// Not zero: the last one began late.
    late: u32,
}

crate::layout!(Caller {
    last,
    began,
    interval,
    paused,
    alone,
    probed,
    probes,
    running,
    account,
    behind,
    file,
    late
});

impl Caller {
    fn runs(&self, now: Nanos) -> bool {
        self.running > 0 && now.since(self.last) < LOST
    }

    /// The next commit begins: what that says of the time between them.
    fn begins(&mut self, now: Nanos) {
        if self.running == 0 && self.began > Nanos(0) {
            let (took, pause) = (self.last.since(self.began), now.since(self.last));
            let interval = now.since(self.began);
            let pauses = pause.0.saturating_mul(PAUSE) >= interval.0;
            let known = self.interval(now);
            self.late = (!pauses && known.is_some_and(|known| took.0 > known.0 / 4 * 3)).into();
            if pauses && interval < ACTIVE {
                let mean = |known: Nanos| Nanos(known.0 - known.0 / 4 + interval.0 / 4);
                (self.interval, self.paused) = (known.map_or(interval, mean), now);
                self.probes = self.probes.min(PROBES);
            }
        }
        self.began = now;
    }

    fn interval(&self, now: Nanos) -> Option<Nanos> {
        let known = self.interval > Nanos(0) && now.since(self.paused) < INTERVAL_LASTS;
        known.then_some(self.interval)
    }

    /// A probe begins.
    fn probe(&mut self, now: Nanos) {
        self.probes = if self.interval(now).is_some() { PROBES } else { CATCH_UP };
    }

    fn is_active(&self, now: Nanos) -> bool {
        self.account != 0 && (self.runs(now) || now.since(self.last) < ACTIVE)
    }
}

/// What a disturbed commit tells of the device.
pub(super) struct Sample {
    /// What it takes undisturbed.
    pub(super) alone: Nanos,
    /// Backlog, in quarters of a piece, when it began.
    pub(super) behind: u32,
    /// It began late.
    pub(super) late: bool,
}

/// All zero bytes: no account commits.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Commits {
    callers: [Caller; CALLERS],
}

crate::layout!(Commits { callers });

impl Default for Commits {
    fn default() -> Self {
        Commits { callers: [Caller::default(); CALLERS] }
    }
}

fn number(account: Account) -> u32 {
    u32::from(account) + 1
}

impl Commits {
    /// Active accounts other than this one.
    fn others(&self, now: Nanos, account: Account) -> impl Iterator<Item = &Caller> {
        self.callers
            .iter()
            .filter(move |caller| caller.is_active(now) && caller.account != number(account))
    }

    /// Whether another account is active.
    pub(super) fn matter(&self, now: Nanos, account: Account) -> bool {
        self.others(now, account).next().is_some()
    }

    /// Whether the last commit of another active account was of this file.
    pub(super) fn are_of(&self, now: Nanos, account: Account, file: u32) -> bool {
        self.others(now, account).any(|caller| caller.file == file.saturating_add(1))
    }

    /// Whether a commit of another account runs.
    pub(super) fn run(&self, now: Nanos, account: Account) -> bool {
        self.others(now, account).any(|caller| caller.runs(now))
    }

    /// What commits of other accounts leave of the time between them, with a quarter of it to
    /// spare. `None` if none of them has an interval.
    pub(super) fn leave(&self, now: Nanos, account: Account) -> Option<Nanos> {
        let left = |caller: &Caller| {
            let interval = caller.interval(now)?;
            Some(Nanos((interval.0 / 4 * 3).saturating_sub(caller.alone.0)))
        };
        self.others(now, account).filter_map(left).min()
    }

    /// The part of the time that commits of other accounts take which have an interval, in
    /// hundredths.
    pub(super) fn take(&self, now: Nanos, account: Account) -> u64 {
        let part = |caller: &Caller| Some(caller.alone.0 * 100 / caller.interval(now)?.0.max(1));
        self.others(now, account).filter_map(part).sum()
    }

    /// Whether another account has committed within [`DESERTED`].
    pub(super) fn were_seen(&self, now: Nanos, account: Account) -> bool {
        self.callers.iter().any(|caller| {
            caller.account != 0
                && caller.account != number(account)
                && now.since(caller.last) < DESERTED
        })
    }

    /// Whether undisturbed commits of another account are waited for. Commits that a probe waits
    /// for may themselves wait for a call of this account.
    pub(super) fn are_probed(&self, now: Nanos, account: Account) -> bool {
        self.others(now, account).any(|caller| {
            caller.probes > 0 && (caller.runs(now) || now.since(caller.last) < PROBE_PAUSE)
        })
    }

    fn find(&mut self, account: Account) -> Option<&mut Caller> {
        self.callers.iter_mut().find(|caller| caller.account == number(account))
    }

    /// A commit of a file, if it is one of a file, begins behind so much backlog. If its account
    /// has no place, it takes the one that was used longest ago.
    pub(super) fn begin(&mut self, now: Nanos, account: Account, file: Option<u32>, behind: u32) {
        let found = self.callers.iter().position(|caller| caller.account == number(account));
        let at = found.unwrap_or_else(|| {
            let oldest = |at: &usize| (self.callers[*at].running > 0, self.callers[*at].last);
            (0..CALLERS).min_by_key(oldest).unwrap_or(0)
        });
        let caller = &mut self.callers[at];
        if found.is_none() {
            *caller = Caller { account: number(account), ..Caller::default() };
        }
        caller.begins(now);
        caller.last = now;
        caller.running = caller.running.saturating_add(1);
        caller.behind = behind;
        caller.file = file.map_or(0, |file| file.saturating_add(1));
    }

    /// A commit has ended. Says whether it had begun. It had not if it was a big call, or if its
    /// account lost its place because there were too many.
    pub(super) fn end(&mut self, now: Nanos, account: Account) -> bool {
        let Some(caller) = self.find(account).filter(|caller| caller.running > 0) else {
            return false;
        };
        caller.running -= 1;
        caller.last = now;
        true
    }

    /// A commit took so long. `disturbed`: something was in flight meanwhile.
    pub(super) fn learn(
        &mut self,
        now: Nanos,
        account: Account,
        took: Nanos,
        disturbed: bool,
    ) -> Option<Sample> {
        let caller = self.find(account)?;
        if now.since(caller.probed) >= PROBE_EVERY {
            caller.probed = now;
            caller.probe(now);
        }
        if !disturbed && caller.behind == 0 {
            caller.alone = match caller.alone {
                Nanos(0) => took,
                alone => Nanos(alone.0 - alone.0 / 4 + took.0 / 4),
            };
            caller.probes = caller.probes.saturating_sub(1);
            caller.probed = now;
            return None;
        }
        if caller.alone == Nanos(0) {
            caller.probe(now);
            return None;
        }
        Some(Sample { alone: caller.alone, behind: caller.behind, late: caller.late != 0 })
    }

    /// Keeps active accounts active: their clients wait for something other than a commit.
    pub(super) fn stay_active(&mut self, now: Nanos) {
        for caller in self.callers.iter_mut().filter(|caller| caller.is_active(now)) {
            caller.last = now;
        }
    }

    /// The account is another thread's from here on.
    pub(super) fn forget(&mut self, account: Account) {
        if let Some(caller) = self.find(account) {
            *caller = Caller::default();
        }
    }

    /// Forgets accounts whose threads have ended. Says whether one of them was waited for.
    pub(super) fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        let mut found = false;
        for caller in &mut self.callers {
            let Some(account) = caller.account.checked_sub(1) else { continue };
            let matters = caller.running > 0 || now.since(caller.last) < DESERTED;
            if matters && !lives(account as Account) {
                *caller = Caller::default();
                found = true;
            }
        }
        found
    }

    /// Accounts of which a commit runs.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.callers.iter().filter(|caller| caller.running > 0).count()
    }
}
