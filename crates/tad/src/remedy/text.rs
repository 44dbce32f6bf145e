//! Remedies in the form of a system file.

use crate::model::{Problem, Remedy};
use std::fmt::Write;

/// A value in a remedy's table.
enum Value<'a> {
    Text(&'a str),
    Texts(&'a [String]),
    Number(u32),
    Time(u64),
}

impl Remedy {
    /// Valid values of `do`.
    pub const NAMES: [&'static str; 17] = [
        "add-scheduling-point",
        "make-pluggable",
        "rate-limit",
        "split",
        "speculate",
        "share-scheduler",
        "coordinate-weights",
        "back-off",
        "unblock",
        "congestion-feedback",
        "schedule-threads",
        "separate-streams",
        "bound-downstream",
        "serve-in-turns",
        "set-threads",
        "set-batch",
        "set-policy",
    ];

    /// Its name: the value of `do`.
    pub fn name(&self) -> &'static str {
        match self {
            Remedy::AddSchedulingPoint { .. } => "add-scheduling-point",
            Remedy::MakePluggable { .. } => "make-pluggable",
            Remedy::RateLimit { .. } => "rate-limit",
            Remedy::Split { .. } => "split",
            Remedy::Speculate { .. } => "speculate",
            Remedy::ShareScheduler { .. } => "share-scheduler",
            Remedy::CoordinateWeights { .. } => "coordinate-weights",
            Remedy::BackOff { .. } => "back-off",
            Remedy::Unblock { .. } => "unblock",
            Remedy::CongestionFeedback { .. } => "congestion-feedback",
            Remedy::ScheduleThreads { .. } => "schedule-threads",
            Remedy::SeparateStreams { .. } => "separate-streams",
            Remedy::BoundDownstream { .. } => "bound-downstream",
            Remedy::ServeInTurns { .. } => "serve-in-turns",
            Remedy::SetThreads { .. } => "set-threads",
            Remedy::SetBatch { .. } => "set-batch",
            Remedy::SetPolicy { .. } => "set-policy",
        }
    }

    /// Whether it is control logic, which leaves the architecture unchanged.
    pub fn is_control(&self) -> bool {
        matches!(
            self,
            Remedy::RateLimit { .. }
                | Remedy::Speculate { .. }
                | Remedy::CoordinateWeights { .. }
                | Remedy::BackOff { .. }
                | Remedy::CongestionFeedback { .. }
                | Remedy::ScheduleThreads { .. }
                | Remedy::BoundDownstream { .. }
                | Remedy::ServeInTurns { .. }
        )
    }

    /// Its table in a system file: `{ do = "unblock", stage = "worker" }`.
    pub fn to_toml(&self) -> String {
        use Value::{Number, Text, Texts, Time};
        let keys: Vec<(&str, Value)> = match self {
            Remedy::AddSchedulingPoint { stage, threads }
            | Remedy::SetThreads { stage, threads } => {
                vec![("stage", Text(stage)), ("threads", Number(*threads))]
            }
            Remedy::MakePluggable { stage }
            | Remedy::Unblock { stage }
            | Remedy::ScheduleThreads { stage }
            | Remedy::SeparateStreams { stage } => vec![("stage", Text(stage))],
            Remedy::RateLimit { stage, resource, period_ns } => vec![
                ("stage", Text(stage)),
                ("resource", Text(resource)),
                ("period", Time(*period_ns)),
            ],
            Remedy::Split { stage, resource, into, threads } => vec![
                ("stage", Text(stage)),
                ("resource", Text(resource)),
                ("into", Text(into)),
                ("threads", Number(*threads)),
            ],
            Remedy::Speculate { stage, idle, threads } => {
                vec![("stage", Text(stage)), ("idle", Text(idle)), ("threads", Number(*threads))]
            }
            Remedy::ShareScheduler { name, stages, concurrency } => vec![
                ("name", Text(name)),
                ("stages", Texts(stages)),
                ("concurrency", Number(*concurrency)),
            ],
            Remedy::CoordinateWeights { stages, resource, period_ns }
            | Remedy::BackOff { stages, resource, period_ns } => vec![
                ("stages", Texts(stages)),
                ("resource", Text(resource)),
                ("period", Time(*period_ns)),
            ],
            Remedy::CongestionFeedback { stage, downstream, backlog, wrong_per_mille } => vec![
                ("stage", Text(stage)),
                ("downstream", Text(downstream)),
                ("backlog", Number(*backlog)),
                ("wrong-per-mille", Number(*wrong_per_mille)),
            ],
            Remedy::BoundDownstream { stage, downstream, limit } => vec![
                ("stage", Text(stage)),
                ("downstream", Text(downstream)),
                ("limit", Number(*limit)),
            ],
            Remedy::ServeInTurns { stage, turn_ns } => {
                vec![("stage", Text(stage)), ("turn", Time(*turn_ns))]
            }
            Remedy::SetBatch { stage, most } => {
                vec![("stage", Text(stage)), ("most", Number(*most))]
            }
            Remedy::SetPolicy { stage, policy } => {
                vec![("stage", Text(stage)), ("policy", Text(policy.name()))]
            }
        };
        let mut out = format!("{{ do = {}", quoted(self.name()));
        for (key, value) in keys {
            // Writing to a String cannot fail.
            let _ = match value {
                Text(text) => write!(out, ", {key} = {}", quoted(text)),
                Texts(texts) => {
                    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                    write!(out, ", {key} = [{}]", texts.join(", "))
                }
                Number(number) => write!(out, ", {key} = {number}"),
                Time(ns) if ns % 1_000_000 == 0 => {
                    write!(out, ", {key} = \"{} ms\"", ns / 1_000_000)
                }
                Time(ns) if ns % 1_000 == 0 => write!(out, ", {key} = \"{} us\"", ns / 1_000),
                Time(ns) => write!(out, ", {key} = \"{ns} ns\""),
            };
        }
        out.push_str(" }");
        out
    }
}

fn quoted(text: &str) -> String {
    // Names in files are plain; any other is escaped so that it still parses.
    toml::Value::String(text.to_owned()).to_string()
}

impl serde::Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
