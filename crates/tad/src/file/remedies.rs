//! `[[control]]` and `[remedy.<problem>.<letter>]`.

use super::amounts::some_time;
use super::error::{Report, list, suggest};
use super::policy::read_policy;
use super::section::{Section, Text, entries};
use crate::model::{Alternative, NodeId, Policy, Tad, Threads};
use crate::remedy::{Problem, Remedy};
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// Stages that a remedy may name: those of the system, and those that earlier remedies make.
#[derive(Debug, Default)]
struct Made(BTreeMap<String, Option<NodeId>>);

/// Reads the controls and the remedies of a system.
pub(super) fn read(root: &mut Section, report: &mut Report, tad: &mut Tad) {
    for mut section in root.tables(report, "control", "[[control]]") {
        let at = section.at("do");
        if let Some(remedy) = read_remedy(&mut section, report, tad, &mut Made::default()) {
            if remedy.is_control() {
                tad.controls.push(remedy);
            } else {
                report.error(
                    &at,
                    format!(
                        "\"{}\" changes the architecture, it is no control logic",
                        remedy.name()
                    ),
                    "Describe the changed architecture instead, or put it into a [remedy.…].",
                );
            }
        }
        section.finish(report);
    }
    let mut made = Made::default();
    let problems = root.entries(report, "remedy");
    for (name, _) in &problems {
        if Problem::from_name(&name.text).is_none() {
            report.error(
                &name.at,
                format!("there is no problem \"{}\"", name.text),
                suggest(&name.text, Problem::ALL.map(Problem::name)),
            );
        }
    }
    // In the order in which remedies are chosen, so that those of a later problem may name what
    // those of an earlier one make.
    for problem in Problem::ALL {
        let Some((name, value)) = problems.iter().find(|(name, _)| name.text == problem.name())
        else {
            continue;
        };
        let Some(table) = value.get_ref().as_table() else {
            root.mistyped(report, &name.text, value, "a table for each letter");
            continue;
        };
        for (letter, value) in entries(table) {
            let Some(table) = value.get_ref().as_table() else {
                root.mistyped(report, &letter.text, value, "`about` and `remedies`");
                continue;
            };
            let section = Section::new(table, letter.at.clone(), "[remedy.…]");
            read_alternative(section, report, tad, &mut made, problem, letter);
        }
    }
}

fn read_alternative(
    mut section: Section,
    report: &mut Report,
    tad: &mut Tad,
    made: &mut Made,
    problem: Problem,
    letter: Text,
) {
    let about = section.words(report, "about");
    let cost = section.count(report, "cost");
    let remedies = read_list(&mut section, report, tad, made);
    if !section.has("remedies") {
        report.error(
            &section.at,
            format!("remedy \"{}\" of {} does nothing", letter.text, problem.name()),
            "Add `remedies = [{ do = \"…\", … }]`.",
        );
    }
    section.finish(report);
    let alternative = Alternative { letter: letter.text, about, remedies, cost };
    tad.remedies.entry(problem).or_default().push(alternative);
}

/// `remedies = [{ do = "…" }, …]`
fn read_list(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    made: &mut Made,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    for mut table in section.tables(report, "remedies", "a remedy") {
        remedies.extend(read_remedy(&mut table, report, tad, made));
        table.finish(report);
    }
    remedies
}

/// Reads nothing but `remedies = […]`, for a system that is known.
pub(super) fn read_alone(root: &mut Section, report: &mut Report, tad: &Tad) -> Vec<Remedy> {
    read_list(root, report, tad, &mut Made::default())
}

/// The keys of a remedy, with the names in them looked up.
struct Keys<'s, 't, 'i, 'r, 'a> {
    section: &'s mut Section<'t, 'i>,
    report: &'r mut Report<'a>,
    tad: &'s Tad,
    made: &'s mut Made,
}

fn read_remedy(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    made: &mut Made,
) -> Option<Remedy> {
    let what = section.need_text(report, "do")?;
    Keys { section, report, tad, made }.remedy(&what)
}

impl Keys<'_, '_, '_, '_, '_> {
    fn remedy(&mut self, what: &Text) -> Option<Remedy> {
        match what.text.as_str() {
            "add-scheduling-point" => {
                let stage = self.stage("stage")?;
                if let Some(id) = self.tad.stage(&stage)
                    && self.tad.stages[id].threads != Threads::OnDemand
                {
                    let at = self.section.at("stage");
                    self.report.error(
                        &at,
                        format!("stage \"{stage}\" has a queue already"),
                        "Use \"make-pluggable\" if its queue should take another policy.",
                    );
                }
                Some(Remedy::AddSchedulingPoint { stage, threads: self.count("threads")? })
            }
            "make-pluggable" => Some(Remedy::MakePluggable { stage: self.stage("stage")? }),
            "split" => self.split(),
            "share-scheduler" => {
                let name = self.section.need_text(self.report, "name");
                let stages = self.stages();
                let concurrency = self.count("concurrency");
                Some(Remedy::ShareScheduler {
                    name: name?.text,
                    stages: stages?,
                    concurrency: concurrency?,
                })
            }
            "unblock" => Some(Remedy::Unblock { stage: self.stage("stage")? }),
            "separate-streams" => Some(Remedy::SeparateStreams { stage: self.stage("stage")? }),
            "set-threads" => {
                let stage = self.stage("stage");
                let threads = self.count("threads");
                Some(Remedy::SetThreads { stage: stage?, threads: threads? })
            }
            "set-batch" => {
                let stage = self.stage("stage");
                let most = self.count("most");
                Some(Remedy::SetBatch { stage: stage?, most: most? })
            }
            "set-policy" => {
                let stage = self.stage("stage");
                let policy = self.policy();
                Some(Remedy::SetPolicy { stage: stage?, policy: policy? })
            }
            _ => self.control(what),
        }
    }

    /// Control logic, which leaves the architecture as it is.
    fn control(&mut self, what: &Text) -> Option<Remedy> {
        match what.text.as_str() {
            "rate-limit" => {
                let stage = self.stage("stage");
                let resource = self.resource_anywhere();
                let period_ns = self.period();
                Some(Remedy::RateLimit { stage: stage?, resource: resource?, period_ns })
            }
            "speculate" => {
                let stage = self.stage("stage")?;
                let idle = self.resource("idle", &stage);
                let threads = self.count("threads");
                Some(Remedy::Speculate { stage, idle: idle?, threads: threads? })
            }
            "coordinate-weights" => {
                let (stages, resource, period_ns) = self.group()?;
                Some(Remedy::CoordinateWeights { stages, resource, period_ns })
            }
            "back-off" => {
                let (stages, resource, period_ns) = self.group()?;
                Some(Remedy::BackOff { stages, resource, period_ns })
            }
            "congestion-feedback" => {
                let stage = self.stage("stage");
                let downstream = self.stage("downstream");
                let backlog = self.count("backlog");
                let wrong_per_mille = self.per_mille("wrong-per-mille");
                Some(Remedy::CongestionFeedback {
                    stage: stage?,
                    downstream: downstream?,
                    backlog: backlog?,
                    wrong_per_mille,
                })
            }
            "schedule-threads" => Some(Remedy::ScheduleThreads { stage: self.stage("stage")? }),
            "bound-downstream" => {
                let stage = self.stage("stage");
                let downstream = self.stage("downstream");
                let limit = self.count("limit");
                Some(Remedy::BoundDownstream {
                    stage: stage?,
                    downstream: downstream?,
                    limit: limit?,
                })
            }
            "serve-in-turns" => {
                let stage = self.stage("stage");
                let turn_ns = some_time(self.section, self.report, "turn", MILLISECOND_NS);
                Some(Remedy::ServeInTurns { stage: stage?, turn_ns })
            }
            other => {
                self.report.error(
                    &what.at,
                    format!("there is no remedy \"{other}\""),
                    suggest(other, Remedy::NAMES),
                );
                None
            }
        }
    }

    fn count(&mut self, key: &'static str) -> Option<u32> {
        if !self.section.has(key) {
            self.report.error(
                &self.section.at,
                format!("this remedy does not say `{key}`"),
                format!("Add `{key} = 10`, say."),
            );
        }
        self.section.count(self.report, key)
    }

    fn period(&mut self) -> u64 {
        some_time(self.section, self.report, "period", SECOND_NS)
    }

    fn per_mille(&mut self, key: &'static str) -> u32 {
        let share = self.section.number(self.report, key).unwrap_or(0.0);
        if share > 1000.0 {
            let at = self.section.at(key);
            self.report.error(
                &at,
                format!("`{key}` counts thousandths"),
                "Write a number from 0 to 1000.",
            );
            return 0;
        }
        share.round() as u32
    }

    fn policy(&mut self) -> Option<Policy> {
        if !self.section.has("policy") {
            self.report.error(
                &self.section.at,
                "this remedy does not say which policy",
                format!("Add `policy = …`, one of {}.", list(Policy::NAMES.map(|(_, name)| name))),
            );
        }
        read_policy(self.section, self.report)
    }

    /// The name of a stage that is there by the time the remedy is applied.
    fn stage(&mut self, key: &'static str) -> Option<String> {
        let text = self.section.need_text(self.report, key)?;
        self.known(&text)
    }

    fn known(&mut self, text: &Text) -> Option<String> {
        if self.tad.stage(&text.text).is_some() || self.made.0.contains_key(&text.text) {
            return Some(text.text.clone());
        }
        let known = self.tad.stages.iter().map(|stage| stage.name.as_str());
        self.report.error(
            &text.at,
            format!("the remedy names the stage \"{}\", which neither the system has nor an earlier \"split\" makes", text.text),
            suggest(&text.text, known.chain(self.made.0.keys().map(String::as_str))),
        );
        None
    }

    fn node(&self, stage: &str) -> Option<NodeId> {
        match self.tad.stage(stage) {
            Some(id) => Some(self.tad.processes.get(self.tad.stages[id].process)?.node),
            None => *self.made.0.get(stage)?,
        }
    }

    fn stages(&mut self) -> Option<Vec<String>> {
        let texts = self.section.texts(self.report, "stages");
        let stages: Vec<String> = texts.iter().filter_map(|text| self.known(text)).collect();
        if texts.is_empty() {
            let at = self.section.at("stages");
            self.report.error(&at, "this remedy names no stages", "Add `stages = [\"…\", \"…\"]`.");
            return None;
        }
        let nodes: Vec<_> = stages.iter().map(|stage| self.node(stage)).collect();
        if nodes.windows(2).any(|pair| pair[0] != pair[1]) {
            let at = self.section.at("stages");
            self.report.error(
                &at,
                "these stages do not run on the same kind of node, so they have nothing to share",
                "Use one remedy for each kind of node.",
            );
        }
        (stages.len() == texts.len()).then_some(stages)
    }

    /// `stages`, `resource` and `period` of a controller.
    fn group(&mut self) -> Option<(Vec<String>, String, u64)> {
        let stages = self.stages();
        let resource = match stages.as_ref().and_then(|stages| stages.first()) {
            Some(first) => self.resource("resource", first),
            None => self.section.need_text(self.report, "resource").map(|text| text.text),
        };
        let period_ns = self.period();
        Some((stages?, resource?, period_ns))
    }

    /// A resource of a stage's node.
    fn resource(&mut self, key: &'static str, stage: &str) -> Option<String> {
        let text = self.section.need_text(self.report, key)?;
        let node = self.node(stage)?;
        if self.tad.resource(node, &text.text).is_none() {
            let known = self.tad.resources.iter().filter(|resource| resource.node == node);
            self.report.error(
                &text.at,
                format!("the node of stage \"{stage}\" has no resource \"{}\"", text.text),
                suggest(&text.text, known.map(|resource| resource.name.as_str())),
            );
            return None;
        }
        Some(text.text)
    }

    /// A resource that is protected from afar may be on any node.
    fn resource_anywhere(&mut self) -> Option<String> {
        let text = self.section.need_text(self.report, "resource")?;
        let mut names = self.tad.resources.iter().map(|resource| resource.name.as_str());
        if !names.any(|name| name == text.text) {
            let known = self.tad.resources.iter().map(|resource| resource.name.as_str());
            self.report.error(
                &text.at,
                format!("no node has a resource \"{}\"", text.text),
                suggest(&text.text, known),
            );
            return None;
        }
        Some(text.text)
    }

    fn split(&mut self) -> Option<Remedy> {
        let stage = self.stage("stage");
        let resource = stage.as_ref().and_then(|stage| self.resource("resource", stage));
        let into = self.section.need_text(self.report, "into");
        let threads = self.count("threads");
        let (stage, resource, into) = (stage?, resource?, into?);
        if let Some(id) = self.tad.stage(&stage)
            && !self.tad.stages[id]
                .uses
                .iter()
                .any(|u| self.tad.resources[u.resource].name == resource)
        {
            let at = self.section.at("resource");
            self.report.error(
                &at,
                format!("stage \"{stage}\" does not use \"{resource}\", so there is nothing to split off"),
                "Name a resource from `uses` of the stage.",
            );
        }
        let node = self.node(&stage);
        if self.tad.stage(&into.text).is_none() {
            self.made.0.insert(into.text.clone(), node);
        }
        Some(Remedy::Split { stage, resource, into: into.text, threads: threads? })
    }
}
