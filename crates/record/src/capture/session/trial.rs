//! Trials: what do stops of one stage's threads do to the waits of another?

use super::super::inject;
use super::Session;
use crate::infer;
use crate::infer::arrows::{End, Meaning};
use crate::trace::Injection;
use anyhow::Result;
use std::time::Duration;

/// Stages that are stopped, to see whether others wait for them.
const PAIRS_MAX: usize = 8;
/// How long, and how long it is looked at without.
const TRIAL: Duration = Duration::from_millis(400);

impl Session<'_> {
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
