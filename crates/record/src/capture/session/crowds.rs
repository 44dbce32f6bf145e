//! Threads that do the same share a unit: pairs of many threads would fill the kernel's tables.

use super::Session;
use crate::infer;
use crate::infer::stages::Basis;
use anyhow::Result;

/// A stage of more threads is counted as one unit: pairs of threads would fill the tables.
const CROWD: usize = 8;

impl Session<'_> {
    /// Threads that were found to do the same share a unit from here.
    pub(super) fn join_crowds(&mut self) -> Result<()> {
        // Names that change do not tell stages, so each thread's is read once more.
        self.look()?;
        let trace = self.trace()?;
        let hints = &self.options.hints;
        let stages = infer::stages::find(&trace, hints);
        let mut changed = false;
        for stage in &stages.stages {
            if !matches!(stage.basis, Basis::Name | Basis::Runtime | Basis::Loop | Basis::Hint)
                || hints.splits(&stage.title)
                || stage.threads.len() <= CROWD
                || stage.units.len() <= 1
            {
                continue;
            }
            let Some(common) = self.registry.common_unit() else { break };
            for &tid in &stage.threads {
                let Some(seen) = self.registry.threads.get_mut(&tid) else { continue };
                self.joined.insert(seen.thread.unit, common);
                seen.thread.unit = common;
                // A thread that has ended meanwhile leaves an entry that its number's next owner
                // overwrites.
                self.kernel.put(tid, common)?;
                changed = true;
            }
        }
        if changed {
            self.kernel.regroup()?;
        }
        Ok(())
    }
}
