//! Building costs of remedies.
//!
//! The dissertation ranks them only in words: indirect remedies "usually involve minimal changes to
//! the thread architecture", direct ones change it (section 4.2.6), and changes across processes
//! are harder (section 4.4.1). Here control logic or a setting costs one point and a change of the
//! architecture three, for each process touched. A system's file can be more exact: `cost = 8` in a
//! `[remedy.<problem>.<letter>]` is the cost of all its remedies together.

use crate::model::{ProcessId, Tad};
use crate::remedy::Remedy;
use serde::Serialize;
use std::collections::BTreeSet;

/// Points for each kind of remedy, for each process that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// Control logic, numbers of threads, policies.
    pub indirect: u32,
    /// Changes of the architecture.
    pub direct: u32,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { indirect: 1, direct: 3 }
    }
}

impl Costs {
    /// Sets one from `indirect=2` or `direct=5`.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let hint = "write indirect=1 or direct=3, a whole number from 0 to 1000";
        let (kind, points) =
            text.split_once('=').ok_or_else(|| format!("\"{text}\" is no cost: {hint}"))?;
        let points = points.trim().parse().ok().filter(|points| *points <= 1000);
        let points = points.ok_or_else(|| format!("\"{text}\" is no cost: {hint}"))?;
        match kind.trim() {
            "indirect" => self.indirect = points,
            "direct" => self.direct = points,
            other => return Err(format!("there is no kind of remedy \"{other}\": {hint}")),
        }
        Ok(())
    }

    /// Points of one remedy.
    pub fn of(&self, tad: &Tad, remedy: &Remedy) -> u32 {
        let setting = matches!(
            remedy,
            Remedy::SetThreads { .. } | Remedy::SetBatch { .. } | Remedy::SetPolicy { .. }
        );
        // Work that is divided into turns is another program, although the diagram stays the same.
        let divides = matches!(remedy, Remedy::ServeInTurns { .. });
        let light = setting || remedy.is_control() && !divides;
        let points = if light { self.indirect } else { self.direct };
        let processes: BTreeSet<ProcessId> = stages(remedy)
            .into_iter()
            .filter_map(|name| tad.stage(name))
            .map(|stage| tad.stages[stage].process)
            .collect();
        points * (processes.len().max(1) as u32)
    }
}

/// Stages that a remedy names.
pub(crate) fn stages(remedy: &Remedy) -> Vec<&str> {
    match remedy {
        Remedy::AddSchedulingPoint { stage, .. }
        | Remedy::MakePluggable { stage }
        | Remedy::RateLimit { stage, .. }
        | Remedy::Speculate { stage, .. }
        | Remedy::Unblock { stage }
        | Remedy::ScheduleThreads { stage }
        | Remedy::SeparateStreams { stage }
        | Remedy::ServeInTurns { stage, .. }
        | Remedy::SetThreads { stage, .. }
        | Remedy::SetBatch { stage, .. }
        | Remedy::SetPolicy { stage, .. } => vec![stage],
        Remedy::Split { stage, into, .. } => vec![stage, into],
        Remedy::CongestionFeedback { stage, downstream, .. }
        | Remedy::BoundDownstream { stage, downstream, .. } => vec![stage, downstream],
        Remedy::ShareScheduler { stages, .. }
        | Remedy::CoordinateWeights { stages, .. }
        | Remedy::BackOff { stages, .. } => stages.iter().map(String::as_str).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read_tad;
    use crate::systems;

    #[test]
    fn a_remedy_costs_by_kind_and_process() {
        let tad = read_tad("hbase", systems::text("hbase").unwrap()).unwrap().value;
        let costs = Costs::default();
        let unblock = Remedy::Unblock { stage: "rpc-handle".into() };
        assert_eq!(costs.of(&tad, &unblock), 3);
        let stages = vec!["rpc-handle".to_owned(), "data-xceive".to_owned()];
        let weights =
            Remedy::CoordinateWeights { stages, resource: "io".into(), period_ns: 1_000_000_000 };
        // Control logic in two processes.
        assert_eq!(costs.of(&tad, &weights), 2);
    }

    #[test]
    fn costs_can_be_set() {
        let mut costs = Costs::default();
        costs.set("direct=7").unwrap();
        assert_eq!(costs, Costs { indirect: 1, direct: 7 });
        assert!(costs.set("magic=1").unwrap_err().contains("indirect=1"));
        assert!(costs.set("direct").is_err());
    }
}
