//! Trials after a recording: what stops of one stage's threads do to the waits of another, and who
//! takes the locks of stages that look for their work themselves.

use super::super::inject;
use super::Session;
use crate::capture::kernel::LOCK_FUNCTION;
use crate::infer;
use crate::infer::arrows::{End, Meaning};
use crate::trace::{Call, Injection};
use anyhow::Result;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Stages that are stopped, to see whether others wait for them.
const PAIRS_MAX: usize = 8;
/// How long, and how long it is looked at without.
const TRIAL: Duration = Duration::from_millis(400);

/// Calls are counted for so long, or until there were so many: each costs the program some two
/// microseconds.
const PROBED: Duration = Duration::from_millis(200);
const CALLS_MAX: u64 = 20_000;
/// How often the number of calls is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Processes that are probed.
const PROBED_MAX: usize = 4;

impl Session<'_> {
    /// Counts who takes which lock, if there are stages that look for work themselves. Nothing
    /// wakes these, but a stage that has work for them takes the lock of their queue.
    pub fn look_at_locks(&mut self) -> Result<()> {
        let trace = self.trace()?;
        let found = infer::infer(&trace, &crate::hints::Hints::default());
        let polling = (0..found.stages.stages.len()).filter(|id| found.polls_unfed(&trace, *id));
        let pids: BTreeSet<u32> = polling
            .flat_map(|id| &found.stages.stages[id].units)
            .map(|unit| trace.pid_of(*unit))
            .collect();
        let mut links = Vec::new();
        for pid in pids.into_iter().filter_map(NonZeroU32::new).take(PROBED_MAX) {
            let Some(library) = c_library(pid.get()) else { continue };
            match self.kernel.look_at_locks(pid, &library) {
                Ok(link) => links.push(link),
                Err(error) => self.say_once(format!("locks of process {pid}: {error:#}")),
            }
        }
        if links.is_empty() {
            return Ok(());
        }
        let opened = self.kernel.open(0)?;
        let count = |session: &Self| -> Result<u64> {
            Ok(session.kernel.calls()?.iter().map(|(_, n)| n).sum())
        };
        while opened.elapsed() < PROBED && count(self)? < CALLS_MAX {
            std::thread::sleep(LOOK.min(PROBED.saturating_sub(Instant::now() - opened)));
        }
        let probed = self.kernel.close()?.duration_since(opened);
        self.kernel.rest(Duration::MAX)?;
        for link in links {
            self.kernel.leave_locks(link)?;
        }
        self.counted += probed;
        self.probed = probed;
        let calls = self.kernel.calls()?.into_iter();
        self.calls = calls
            .map(|(key, n)| Call {
                unit: self.unit(key.group),
                function: LOCK_FUNCTION.to_owned(),
                object: key.object,
                n,
            })
            .collect();
        Ok(())
    }

    /// Stops the threads of stages for which others seem to wait, one stage after another.
    pub fn inject(&mut self) -> Result<()> {
        let trace = self.trace()?;
        let found = infer::infer(&trace, &crate::hints::Hints::default());
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for arrow in found.arrows.iter().filter(|arrow| arrow.meaning == Meaning::Blocking) {
            if let (End::Stage(waits), End::Stage(on)) = (arrow.from, arrow.to) {
                pairs.push((waits, on));
            }
        }
        if pairs.is_empty() {
            self.say_once(
                "what stops show: no stage seems to wait for another, so none was stopped"
                    .to_owned(),
            );
        }
        for (waits, on) in pairs.into_iter().take(PAIRS_MAX) {
            let units = |stage: usize| found.stages.stages[stage].units.clone();
            let (waiters, stopped) = (units(waits), units(on));
            let threads = found.stages.stages[on].threads.clone();
            let seen = threads.first().and_then(|tid| self.registry.threads.get(tid));
            let Some(pid) = seen.map(|seen| seen.thread.pid) else { continue };
            let before = self.watched(&waiters, &stopped, || {
                std::thread::sleep(TRIAL);
                Duration::ZERO
            })?;
            let during =
                self.watched(&waiters, &stopped, || inject::stop_for(pid, &threads, TRIAL))?;
            self.injections.push(Injection {
                waiters,
                stopped,
                before: before.0,
                during: during.0,
                stood_ns: during.1.as_nanos() as u64,
            });
        }
        Ok(())
    }

    /// Waits of some units for others while something is done, and what that returns.
    fn watched(
        &mut self,
        waiters: &[u32],
        wakers: &[u32],
        act: impl FnOnce() -> Duration,
    ) -> Result<((u64, u64), Duration)> {
        let before = self.waits_for(waiters, wakers)?;
        let opened = self.kernel.open(0)?;
        let done = act();
        self.counted += self.kernel.close()?.duration_since(opened);
        self.kernel.rest(Duration::MAX)?;
        let after = self.waits_for(waiters, wakers)?;
        Ok(((after.0 - before.0, after.1 - before.1), done))
    }

    fn waits_for(&self, waiters: &[u32], wakers: &[u32]) -> Result<(u64, u64)> {
        let mut sum = (0, 0);
        for (key, edge) in self.kernel.edges()? {
            if waiters.contains(&self.unit(key.wakee)) && wakers.contains(&self.unit(key.waker)) {
                sum.0 += edge.n;
                sum.1 += edge.off_ns;
            }
        }
        Ok(sum)
    }
}

/// The C library of a process, as this one reaches it.
fn c_library(pid: u32) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path =
        maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).find(|path| {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libc.so") || name.starts_with("libpthread")
        })?;
    Some(PathBuf::from(format!("/proc/{pid}/root{path}")))
}
