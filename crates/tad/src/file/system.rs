//! The parts of a system: machines, processes, stages, arrows, shared queues.

use super::error::{Report, suggest};
use super::marks::Marks;
use super::names::{NOWHERE, stage, unique};
use super::policy::read_policy;
use super::section::{Section, Text, whole};
use super::{remedies, request, resource};
use crate::model::{
    Batch, Confidence, End, Flow, FlowKind, NodeId, NodeKind, Policy, Process, Queue, SharedQueue,
    Stage, StageId, Tad, Threads, Use,
};
use std::collections::BTreeMap;
use toml::de::DeValue;

const FLOWS: [(FlowKind, &str); 3] = [
    (FlowKind::Data, "data"),
    (FlowKind::Blocking, "blocking"),
    (FlowKind::Information, "information"),
];

/// Reads everything; what is not there or not right is reported and left out or [`NOWHERE`].
pub(super) fn read(root: &mut Section, report: &mut Report, marks: &mut Marks) -> Tad {
    let mut tad = Tad {
        name: root.need_text(report, "name").map(|name| name.text).unwrap_or_default(),
        version: root.words(report, "version"),
        about: root.words(report, "about"),
        source: root.words(report, "source"),
        nodes: Vec::new(),
        processes: Vec::new(),
        resources: Vec::new(),
        stages: Vec::new(),
        flows: Vec::new(),
        requests: Vec::new(),
        shared_queues: Vec::new(),
        controls: Vec::new(),
        remedies: BTreeMap::new(),
    };
    for section in root.tables(report, "node", "[[node]]") {
        read_node(section, report, &mut tad);
    }
    for section in root.tables(report, "process", "[[process]]") {
        read_process(section, report, &mut tad);
    }
    for section in root.tables(report, "stage", "[[stage]]") {
        read_stage(section, report, &mut tad, marks);
    }
    for section in root.tables(report, "flow", "[[flow]]") {
        read_flow(section, report, &mut tad, marks);
    }
    for section in root.tables(report, "request", "[[request]]") {
        request::read(section, report, &mut tad, marks);
    }
    for section in root.tables(report, "shared-queue", "[[shared-queue]]") {
        read_shared(section, report, &mut tad);
    }
    remedies::read(root, report, &mut tad);
    if tad.stages.is_empty() {
        report.error(&root.at, "a system without stages does nothing", "Add a [[stage]].");
    }
    tad
}

fn read_node(mut section: Section, report: &mut Report, tad: &mut Tad) {
    let name =
        unique(&mut section, report, "node", tad.nodes.iter().map(|node| node.name.as_str()));
    let id = tad.nodes.len();
    tad.nodes.push(NodeKind {
        title: section.text(report, "title").map_or_else(|| name.text.clone(), |title| title.text),
        name: name.text,
        count: section.count(report, "count").unwrap_or(1),
    });
    for resource in section.tables(report, "resource", "[[node.resource]]") {
        resource::read(resource, report, tad, id);
    }
    section.finish(report);
}

fn read_process(mut section: Section, report: &mut Report, tad: &mut Tad) {
    let taken = tad.processes.iter().map(|process| process.name.as_str());
    let name = unique(&mut section, report, "process", taken);
    let node = match section.need_text(report, "node") {
        Some(node) => {
            let found = tad.nodes.iter().position(|known| known.name == node.text);
            found.unwrap_or_else(|| {
                report.error(
                    &node.at,
                    format!(
                        "process \"{}\" runs on node \"{}\", which there is not",
                        name.text, node.text
                    ),
                    suggest(&node.text, tad.nodes.iter().map(|node| node.name.as_str())),
                );
                NOWHERE
            })
        }
        None => NOWHERE,
    };
    tad.processes.push(Process {
        title: section.text(report, "title").map_or_else(|| name.text.clone(), |title| title.text),
        name: name.text,
        node,
    });
    section.finish(report);
}

fn read_stage(mut section: Section, report: &mut Report, tad: &mut Tad, marks: &mut Marks) {
    let taken = tad.stages.iter().map(|stage| stage.name.as_str());
    let name = unique(&mut section, report, "stage", taken);
    let process = section.need_text(report, "process").and_then(|process| {
        let found = tad.processes.iter().position(|known| known.name == process.text);
        if found.is_none() {
            report.error(
                &process.at,
                format!(
                    "stage \"{}\" is in process \"{}\", which there is not",
                    name.text, process.text
                ),
                suggest(&process.text, tad.processes.iter().map(|known| known.name.as_str())),
            );
        }
        found
    });
    let node = process.map_or(NOWHERE, |process| tad.processes[process].node);
    let threads = read_threads(&mut section, report, &name);
    let asynchronous = section.flag(report, "asynchronous");
    let confidence = read_confidence(&mut section, report);
    if threads == Threads::OnDemand {
        for key in ["queue", "asynchronous"] {
            if section.has(key) {
                report.error(
                    &section.at(key),
                    format!(
                        "stage \"{}\" has a thread for each request, so `{key}` means nothing",
                        name.text
                    ),
                    format!("Remove `{key}`, or give the stage a number of threads."),
                );
            }
        }
    }
    let queue = read_queue(&mut section, report);
    let mut uses = Vec::new();
    let mut spans = Vec::new();
    for text in section.texts(report, "uses") {
        if let Some(item) = read_use(report, tad, node, &uses, &text) {
            uses.push(item);
            spans.push(text.at);
        }
    }
    let batch = read_batch(&mut section, report, tad, &uses);
    marks.stages.push(name.at);
    marks.uses.push(spans);
    tad.stages.push(Stage {
        title: section.text(report, "title").map_or_else(|| name.text.clone(), |title| title.text),
        name: name.text,
        process: process.unwrap_or(NOWHERE),
        threads,
        threads_label: section.text(report, "threads-label").map(|label| label.text),
        queue,
        uses,
        instances: section.count(report, "instances").unwrap_or(1),
        asynchronous,
        confidence,
        batch,
    });
    section.finish(report);
}

/// `batch = { most = 64, once = ["io"] }`
fn read_batch(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    uses: &[Use],
) -> Option<Batch> {
    const HINT: &str = "Write `batch = { most = 64, once = [\"io\"] }`.";
    let mut table = section.tables(report, "batch", "`batch`").into_iter().next()?;
    if !table.has("most") {
        report.error(&table.at, "the batch does not say how many requests it takes", HINT);
    }
    let most = table.count(report, "most");
    let mut once = Vec::new();
    for text in table.texts(report, "once") {
        let used = uses.iter().map(|u| u.resource).find(|&id| tad.resources[id].name == text.text);
        match used {
            Some(id) => once.push(id),
            None => report.error(
                &text.at,
                format!("the stage does not use \"{}\"", text.text),
                suggest(&text.text, uses.iter().map(|u| tad.resources[u.resource].name.as_str())),
            ),
        }
    }
    table.finish(report);
    Some(Batch { most: most?, once })
}

fn read_threads(section: &mut Section, report: &mut Report, name: &Text) -> Threads {
    const HINT: &str =
        "Write a number of at least 1, or \"on-demand\" for a thread for each request.";
    let at = section.at("threads");
    let Some(value) = section.value("threads") else {
        report.error(&at, format!("stage \"{}\" has no `threads`", name.text), HINT);
        return Threads::Bounded(1);
    };
    match value.get_ref() {
        DeValue::String(text) if text == "on-demand" => return Threads::OnDemand,
        number => {
            if let Some(threads @ 1..=1_000_000) = whole(number) {
                return Threads::Bounded(threads as u32);
            }
        }
    }
    let why = if whole(value.get_ref()) == Some(0) {
        "with zero threads nothing is ever done"
    } else {
        "that is no number of threads"
    };
    report.error(&at, format!("`threads` of stage \"{}\": {why}", name.text), HINT);
    Threads::Bounded(1)
}

fn read_queue(section: &mut Section, report: &mut Report) -> Queue {
    let mut queue = Queue::IMPLICIT;
    let Some(mut section) = section.tables(report, "queue", "`queue`").into_iter().next() else {
        return queue;
    };
    queue.explicit = section.flag(report, "explicit");
    queue.pluggable = section.flag(report, "pluggable");
    if let Some(value) = section.value("ordered") {
        match value.get_ref() {
            DeValue::Boolean(ordered) => queue.ordered = *ordered,
            DeValue::String(text) if text == "per-client" => {
                queue.ordered = true;
                queue.ordered_per_client = true;
            }
            _ => section.mistyped(report, "ordered", value, "true, false or \"per-client\""),
        }
    }
    queue.order_confidence = read_confidence(&mut section, report);
    if queue.order_confidence != Confidence::Certain && !queue.ordered {
        report.error(
            &section.at,
            "`confidence` of a queue says how sure its order is, and it has none",
            "Remove `confidence`, or write `ordered = true`.",
        );
    }
    if let Some(policy) = read_policy(&mut section, report) {
        queue.policy = policy;
    }
    if queue.ordered && queue.pluggable && !queue.ordered_per_client {
        report.error(
            &section.at,
            "an ordered queue cannot take another policy: a policy is another order",
            "Remove `pluggable`, or write `ordered = \"per-client\"`.",
        );
    }
    section.finish(report);
    queue
}

/// `confidence = "likely"`
fn read_confidence(section: &mut Section, report: &mut Report) -> Confidence {
    let Some(text) = section.text(report, "confidence") else { return Confidence::Certain };
    let known = Confidence::NAMES.into_iter().find(|(_, name)| *name == text.text);
    if known.is_none() {
        report.error(
            &text.at,
            format!("\"{}\" is no confidence", text.text),
            suggest(&text.text, Confidence::NAMES.map(|(_, name)| name)),
        );
    }
    known.map_or(Confidence::Certain, |(confidence, _)| confidence)
}

fn read_use(
    report: &mut Report,
    tad: &Tad,
    node: NodeId,
    already: &[Use],
    text: &Text,
) -> Option<Use> {
    let (name, may) = match text.text.strip_suffix('?') {
        Some(name) => (name, true),
        None => (text.text.as_str(), false),
    };
    if node == NOWHERE {
        return None; // Its process or node was reported.
    }
    let Some(resource) = tad.resource(node, name) else {
        let known = tad.resources.iter().filter(|resource| resource.node == node);
        report.error(
            &text.at,
            format!("node \"{}\" has no resource \"{name}\"", tad.nodes[node].name),
            suggest(name, known.map(|resource| resource.name.as_str())),
        );
        return None;
    };
    if already.iter().any(|other| other.resource == resource) {
        report.error(
            &text.at,
            format!("resource \"{name}\" is listed twice"),
            "Name it once; with \"?\" if some requests do not use it.",
        );
        return None;
    }
    Some(Use { resource, may })
}

fn read_flow(mut section: Section, report: &mut Report, tad: &mut Tad, marks: &mut Marks) {
    let mut end = |section: &mut Section, key| {
        let text = section.need_text(report, key)?;
        if text.text == "clients" {
            return Some(End::Clients);
        }
        stage(report, tad, &text).map(End::Stage)
    };
    let (from, to) = (end(&mut section, "from"), end(&mut section, "to"));
    let kind = match section.text(report, "kind") {
        None => FlowKind::Data,
        Some(text) => {
            let known = FLOWS.into_iter().find(|(_, name)| *name == text.text);
            if known.is_none() {
                report.error(
                    &text.at,
                    format!("\"{}\" is no kind of flow", text.text),
                    suggest(&text.text, FLOWS.map(|(_, name)| name)),
                );
            }
            known.map_or(FlowKind::Data, |(kind, _)| kind)
        }
    };
    let label = section.words(report, "label");
    let remote = section.flag(report, "remote");
    let confidence = read_confidence(&mut section, report);
    if let (Some(from), Some(to)) = (from, to) {
        marks.flows.push(section.at.clone());
        tad.flows.push(Flow { from, to, kind, label, remote, confidence });
    }
    section.finish(report);
}

fn read_shared(mut section: Section, report: &mut Report, tad: &mut Tad) {
    let taken = tad.shared_queues.iter().map(|queue| queue.name.as_str());
    let name = unique(&mut section, report, "shared queue", taken);
    let mut stages: Vec<StageId> = Vec::new();
    for text in section.texts(report, "stages") {
        let Some(id) = stage(report, tad, &text) else { continue };
        let node =
            |id: StageId| tad.processes.get(tad.stages[id].process).map(|process| process.node);
        let problem = if tad.stages[id].threads == Threads::OnDemand {
            "has no queue that could be shared"
        } else if stages.contains(&id) || tad.shared_queues.iter().any(|q| q.stages.contains(&id)) {
            "is in a shared queue already"
        } else if stages.first().is_some_and(|&first| node(first) != node(id)) {
            "runs on another kind of node than the others, where it cannot share their queue"
        } else {
            stages.push(id);
            continue;
        };
        report.error(
            &text.at,
            format!("stage \"{}\" {problem}", text.text),
            "Remove it from `stages`.",
        );
    }
    if stages.is_empty() {
        report.error(&section.at, "a shared queue has no stages", "Add `stages = [\"…\", \"…\"]`.");
    }
    let concurrency = section.count(report, "concurrency");
    if !section.has("concurrency") {
        report.error(
            &section.at,
            "a shared queue does not say how many of its requests may be worked on at a time",
            "Add `concurrency = …`; requests that wait for other stages do not count.",
        );
    }
    tad.shared_queues.push(SharedQueue {
        name: name.text,
        stages,
        concurrency: concurrency.unwrap_or(1),
        policy: read_policy(&mut section, report).unwrap_or(Policy::Drf),
    });
    section.finish(report);
}
