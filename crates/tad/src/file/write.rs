//! Writing a system or a scenario as a file: what was found or changed by a program can be read,
//! drawn and simulated by a person. Reading the file gives the same again.

use crate::model::{
    Confidence, Consumption, Device, Discipline, End, FlowKind, Law, Place, Policy, Quantity,
    RequestType, ResourceKind, Step, Tad, Threads,
};
use crate::remedy::Remedy;
use crate::scenario::{Arrivals, Change, Entry, Keys, Load, Scenario};
use crate::units::Dimension;
use std::fmt::Write;

/// The file of a system.
pub fn write_tad(tad: &Tad) -> String {
    let mut out = Out::default();
    out.pair("name", quoted(&tad.name));
    for (key, text) in [("version", &tad.version), ("about", &tad.about), ("source", &tad.source)] {
        if !text.is_empty() {
            out.pair(key, quoted(text));
        }
    }
    for (id, node) in tad.nodes.iter().enumerate() {
        out.head("[[node]]");
        out.pair("name", quoted(&node.name));
        out.title(&node.title, &node.name);
        out.pair("count", node.count);
        for resource in tad.resources.iter().filter(|resource| resource.node == id) {
            out.head("[[node.resource]]");
            write_resource(&mut out, resource);
        }
    }
    for process in &tad.processes {
        out.head("[[process]]");
        out.pair("name", quoted(&process.name));
        out.title(&process.title, &process.name);
        out.pair("node", quoted(&tad.nodes[process.node].name));
    }
    for stage in 0..tad.stages.len() {
        write_stage(&mut out, tad, stage);
    }
    for flow in &tad.flows {
        let end = |end: End| match end {
            End::Clients => "clients",
            End::Stage(stage) => &tad.stages[stage].name,
        };
        out.head("[[flow]]");
        out.pair("from", quoted(end(flow.from)));
        out.pair("to", quoted(end(flow.to)));
        match flow.kind {
            FlowKind::Data => {}
            FlowKind::Blocking => out.pair("kind", "\"blocking\""),
            FlowKind::Information => out.pair("kind", "\"information\""),
        }
        if !flow.label.is_empty() {
            out.pair("label", quoted(&flow.label));
        }
        out.flag("remote", flow.remote);
        out.confidence(flow.confidence);
    }
    for queue in &tad.shared_queues {
        let stages = queue.stages.iter().map(|&stage| tad.stages[stage].name.as_str());
        out.head("[[shared-queue]]");
        out.pair("name", quoted(&queue.name));
        out.pair("stages", list(stages));
        out.pair("concurrency", queue.concurrency);
        out.pair("policy", quoted(queue.policy.name()));
    }
    for request in &tad.requests {
        write_request(&mut out, tad, request);
    }
    for control in &tad.controls {
        out.head("[[control]]");
        // A remedy is an inline table; a control is the same pairs as lines.
        for pair in pairs_of(control) {
            out.line(&pair);
        }
    }
    for (problem, alternatives) in &tad.remedies {
        for alternative in alternatives {
            out.head(&format!("[remedy.{}.{}]", problem.name(), alternative.letter));
            if !alternative.about.is_empty() {
                out.pair("about", quoted(&alternative.about));
            }
            if let Some(cost) = alternative.cost {
                out.pair("cost", cost);
            }
            let remedies: Vec<String> = alternative.remedies.iter().map(Remedy::to_toml).collect();
            out.pair("remedies", format!("[{}]", remedies.join(", ")));
        }
    }
    out.0
}

fn write_resource(out: &mut Out, resource: &crate::model::Resource) {
    let (kind, title) = match resource.kind {
        ResourceKind::Cpu => ("cpu", ResourceKind::Cpu.name()),
        ResourceKind::Io => ("io", ResourceKind::Io.name()),
        ResourceKind::Network => ("network", ResourceKind::Network.name()),
        ResourceKind::Lock => ("lock", ResourceKind::Lock.name()),
        ResourceKind::Custom => ("custom", ResourceKind::Custom.name()),
        ResourceKind::Delay => ("delay", ResourceKind::Delay.name()),
    };
    out.pair("name", quoted(&resource.name));
    if kind != resource.name {
        out.pair("kind", quoted(kind));
    }
    out.title(&resource.title, title);
    let endless = resource.kind == ResourceKind::Delay;
    if resource.kind != ResourceKind::Lock && !endless {
        out.pair("rate", rate(resource.rate_per_s, resource.kind.dimension()));
    }
    if resource.parallelism != 1 && !endless {
        out.pair("parallelism", resource.parallelism);
    }
    if let Discipline::RoundRobin { quantum_ns } = resource.discipline {
        out.pair("quantum", time(quantum_ns));
    }
    if let Device::Seeking { seek_ns_min, seek_ns_max } = resource.device {
        out.pair("seek", format!("[{}, {}]", time(seek_ns_min), time(seek_ns_max)));
    }
}

fn write_stage(out: &mut Out, tad: &Tad, id: usize) {
    let stage = &tad.stages[id];
    out.head("[[stage]]");
    out.pair("name", quoted(&stage.name));
    out.title(&stage.title, &stage.name);
    out.pair("process", quoted(&tad.processes[stage.process].name));
    match stage.threads {
        Threads::Bounded(threads) => out.pair("threads", threads),
        Threads::OnDemand => out.pair("threads", "\"on-demand\""),
    }
    if let Some(label) = &stage.threads_label {
        out.pair("threads-label", quoted(label));
    }
    if stage.threads != Threads::OnDemand {
        let queue = &stage.queue;
        let mut keys = Vec::new();
        if queue.explicit {
            keys.push("explicit = true".to_owned());
        }
        if queue.pluggable {
            keys.push("pluggable = true".to_owned());
        }
        if queue.ordered {
            let per_client = if queue.ordered_per_client { "\"per-client\"" } else { "true" };
            keys.push(format!("ordered = {per_client}"));
            if queue.order_confidence != Confidence::Certain {
                keys.push(format!("confidence = {}", quoted(queue.order_confidence.name())));
            }
        }
        if queue.policy != Policy::Fifo {
            keys.push(format!("policy = {}", quoted(queue.policy.name())));
        }
        if !keys.is_empty() {
            out.pair("queue", format!("{{ {} }}", keys.join(", ")));
        }
        out.flag("asynchronous", stage.asynchronous);
    }
    if !stage.uses.is_empty() {
        let uses: Vec<String> = stage
            .uses
            .iter()
            .map(|u| tad.resources[u.resource].name.clone() + if u.may { "?" } else { "" })
            .collect();
        out.pair("uses", list(uses.iter().map(String::as_str)));
    }
    if stage.instances != 1 {
        out.pair("instances", stage.instances);
    }
    if let Some(batch) = &stage.batch {
        let once = list(batch.once.iter().map(|&id| tad.resources[id].name.as_str()));
        out.pair("batch", format!("{{ most = {}, once = {once} }}", batch.most));
    }
    out.confidence(stage.confidence);
}

fn write_request(out: &mut Out, tad: &Tad, request: &RequestType) {
    let name = |step: &usize| request.steps[*step].name.as_str();
    out.head("[[request]]");
    out.pair("name", quoted(&request.name));
    if !request.about.is_empty() {
        out.pair("about", quoted(&request.about));
    }
    if !request.parameters.is_empty() {
        let values: Vec<String> = request
            .parameters
            .iter()
            .map(|each| {
                format!("{} = {}", key(&each.name), quoted(&amount(each.default, each.dimension)))
            })
            .collect();
        out.pair("parameters", format!("{{ {} }}", values.join(", ")));
    }
    out.pair("answered-by", list(request.answered_by.iter().map(name)));
    if request.first != 0 {
        out.pair("first", quoted(name(&request.first)));
    }
    for step in &request.steps {
        write_step(out, tad, request, step);
    }
}

fn write_step(out: &mut Out, tad: &Tad, request: &RequestType, step: &Step) {
    out.head("[[request.step]]");
    out.pair("name", quoted(&step.name));
    out.pair("stage", quoted(&tad.stages[step.stage].name));
    match step.place {
        Place::Same => {}
        Place::Any => out.pair("at", "\"any\""),
        Place::Other => out.pair("at", "\"other\""),
        Place::Partition => out.pair("at", "\"partition\""),
        Place::Origin => out.pair("at", "\"origin\""),
        Place::Fixed(node) => out.pair("at", format!("\"node {node}\"")),
    }
    for (key, uses) in [("uses", &step.uses), ("uses-after", &step.uses_after)] {
        if !uses.is_empty() {
            let uses: Vec<String> =
                uses.iter().map(|each| consumption(tad, request, each)).collect();
            out.pair(key, list(uses.iter().map(String::as_str)));
        }
    }
    if let Some(cache) = &step.cache {
        let skips = cache.skips.iter().map(|&id| tad.resources[id].name.as_str());
        let (name, entries, keys) = (quoted(&cache.name), cache.entries, cache.keys);
        let skips = list(skips);
        out.pair(
            "cache",
            format!("{{ name = {name}, entries = {entries}, keys = {keys}, skips = {skips} }}"),
        );
    }
    for (key, steps) in [("submits", &step.submits), ("waits", &step.waits), ("then", &step.then)] {
        if !steps.is_empty() {
            out.pair(key, list(steps.iter().map(|&id| request.steps[id].name.as_str())));
        }
    }
    if let Some(enough) = step.enough {
        out.pair("enough", enough);
    }
}

fn consumption(tad: &Tad, request: &RequestType, each: &Consumption) -> String {
    let resource = &tad.resources[each.resource];
    format!("{} {}", resource.name, quantity(request, &each.amount, resource.kind.dimension()))
}

fn quantity(request: &RequestType, value: &Quantity, dimension: Dimension) -> String {
    match value {
        Quantity::Fixed(value) => amount(*value, dimension),
        Quantity::Parameter(index) => format!("${}", request.parameters[*index].name),
        Quantity::Drawn(Law::Exponential, mean) => {
            format!("exponential {}", quantity(request, mean, dimension))
        }
        Quantity::Drawn(Law::Pareto(shape), mean) => {
            let shape = f64::from(*shape) / 1e3;
            format!("pareto {shape} {}", quantity(request, mean, dimension))
        }
        Quantity::Histogram(amounts) => {
            let each =
                amounts.iter().map(|(value, n)| format!("{}: {n}", amount(*value, dimension)));
            format!("histogram {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The file of a scenario for a system.
pub fn write_scenario(scenario: &Scenario, tad: &Tad) -> String {
    let mut out = Out::default();
    out.pair("name", quoted(&scenario.name));
    if !scenario.about.is_empty() {
        out.pair("about", quoted(&scenario.about));
    }
    out.pair("duration", time(scenario.duration_ns));
    out.pair("warmup", time(scenario.warmup_ns));
    out.pair("sample", time(scenario.sample_ns));
    if let Some(policy) = scenario.policy {
        out.pair("policy", quoted(policy.name()));
    }
    out.pair("jitter", format!("{:?}", scenario.jitter));
    if scenario.switch_ns > 0 {
        out.pair("switch-cost", time(scenario.switch_ns));
    }
    for client in &scenario.clients {
        out.head("[[client]]");
        out.pair("name", quoted(&client.name));
        out.pair("weight", format!("{:?}", client.weight));
        for load in &client.loads {
            write_load(&mut out, tad, "[[client.load]]", load);
        }
    }
    for (at_ns, change) in &scenario.changes {
        out.head("[[change]]");
        out.pair("at", time(*at_ns));
        match change {
            Change::Loads { client, loads } => {
                out.pair("client", quoted(&scenario.clients[*client].name));
                for load in loads {
                    write_load(&mut out, tad, "[[change.load]]", load);
                }
            }
            Change::Rate { resource, rate_per_s } => {
                let resource = &tad.resources[*resource];
                out.pair("node", quoted(&tad.nodes[resource.node].name));
                out.pair("resource", quoted(&resource.name));
                out.pair("rate", rate(*rate_per_s, resource.kind.dimension()));
            }
        }
    }
    out.0
}

fn write_load(out: &mut Out, tad: &Tad, head: &str, load: &Load) {
    let request = &tad.requests[load.request];
    out.head(head);
    if load.name != request.name {
        out.pair("name", quoted(&load.name));
    }
    out.pair("request", quoted(&request.name));
    match load.arrivals {
        Arrivals::Closed { threads, think_ns } => {
            out.pair("threads", threads);
            if think_ns > 0 {
                out.pair("think", time(think_ns));
            }
        }
        Arrivals::Part { part } => out.pair("part", format!("{part:?}")),
        Arrivals::Open { rate_per_s } => out.pair("rate", format!("{rate_per_s:?}")),
        Arrivals::Burst { count, every_ns } => {
            out.pair("burst", format!("{{ count = {count}, every = {} }}", time(every_ns)));
        }
    }
    match load.entry {
        Entry::Any => {}
        Entry::Fixed(node) => out.pair("entry", format!("\"node {node}\"")),
        Entry::Partition => out.pair("entry", "\"partition\""),
        Entry::Each => out.pair("entry", "\"each\""),
    }
    match load.keys {
        Keys::Uniform => {}
        Keys::Zipf(exponent) => out.pair("keys", format!("{{ zipf = {exponent:?} }}")),
        Keys::Fixed(partition) => out.pair("keys", format!("{{ partition = {partition} }}")),
    }
    if let Some(patience) = load.patience {
        out.pair("timeout", time(patience.timeout_ns));
        if patience.retries > 0 {
            out.pair("retries", patience.retries);
        }
    }
    let given = request.parameters.iter().zip(&load.parameters);
    let given: Vec<String> = given
        .filter(|(known, value)| known.default != **value)
        .map(|(known, value)| {
            format!("{} = {}", key(&known.name), quoted(&amount(*value, known.dimension)))
        })
        .collect();
    if !given.is_empty() {
        out.pair("parameters", format!("{{ {} }}", given.join(", ")));
    }
}

#[derive(Default)]
struct Out(String);

impl Out {
    fn line(&mut self, text: &str) {
        self.0 += text;
        self.0.push('\n');
    }

    fn head(&mut self, text: &str) {
        self.0.push('\n');
        self.line(text);
    }

    fn pair(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn title(&mut self, title: &str, default: &str) {
        if title != default {
            self.pair("title", quoted(title));
        }
    }

    fn confidence(&mut self, confidence: Confidence) {
        if confidence != Confidence::Certain {
            self.pair("confidence", quoted(confidence.name()));
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.pair(key, "true");
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A bare key if it can be one.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(quoted).collect();
    format!("[{}]", names.join(", "))
}

fn time(ns: u64) -> String {
    match ns {
        ns if ns % 1_000_000_000 == 0 => format!("\"{} s\"", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("\"{} ms\"", ns / 1_000_000),
        ns => format!("\"{ns} ns\""),
    }
}

fn amount(value: u64, dimension: Dimension) -> String {
    match dimension {
        Dimension::Cycles if value.is_multiple_of(1_000) => format!("{} us", value / 1_000),
        Dimension::Cycles => format!("{value} cycles"),
        Dimension::Bytes => format!("{value} B"),
        Dimension::Time if value.is_multiple_of(1_000) => format!("{} us", value / 1_000),
        Dimension::Time => format!("{value} ns"),
        Dimension::Operations => format!("{value} op"),
    }
}

fn rate(per_s: f64, dimension: Dimension) -> String {
    match dimension {
        Dimension::Cycles => format!("\"{} MHz\"", per_s / 1e6),
        Dimension::Bytes => format!("\"{per_s} B/s\""),
        Dimension::Time | Dimension::Operations => format!("\"{per_s} op/s\""),
    }
}

/// `do = "…"` and what follows, each separately.
fn pairs_of(remedy: &Remedy) -> Vec<String> {
    let table: toml::Table =
        toml::from_str(&format!("r = {}", remedy.to_toml())).unwrap_or_default();
    let inner = table.get("r").and_then(toml::Value::as_table);
    inner.into_iter().flatten().map(|(key, value)| format!("{key} = {value}")).collect()
}
