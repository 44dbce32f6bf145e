//! Reading a scenario.

use super::amounts::{example, quantity, some_time, time};
use super::error::{Report, suggest};
use super::names::unique;
use super::policy::read_policy;
use super::section::{Section, real};
use crate::model::{NodeId, Tad};
use crate::scenario::{Arrivals, Change, Client, Entry, Keys, Load, Patience, Scenario};
use crate::units;
use toml::de::DeValue;

const SECOND_NS: u64 = 1_000_000_000;

/// Most intervals of a run.
const SAMPLES_MAX: u64 = 100_000;

/// Most requests that come whether the system is ready or not.
const REQUESTS_MAX: f64 = 1e9;

/// By how much amounts of work vary, as a fraction of themselves.
fn jitter(root: &mut Section, report: &mut Report) -> f64 {
    let jitter = root.number(report, "jitter").unwrap_or(0.0);
    if !(0.0..=1.0).contains(&jitter) {
        report.error(
            &root.at("jitter"),
            format!("jitter {jitter} is no fraction"),
            "Write a number from 0 (exact amounts) to 1.",
        );
        return 0.0;
    }
    jitter
}

/// Refuses runs that no machine could finish.
fn refuse_endless(
    root: &Section,
    report: &mut Report,
    clients: &[Client],
    (duration_ns, sample_ns): (u64, u64),
) {
    if duration_ns / sample_ns > SAMPLES_MAX {
        report.error(
            &root.at("sample"),
            format!(
                "the run would have {} intervals: too many to read, and for memory",
                duration_ns / sample_ns
            ),
            format!("Write a longer `sample`; up to {SAMPLES_MAX} fit into a run."),
        );
    }
    let loads = clients.iter().flat_map(|client| &client.loads);
    let requests: f64 =
        loads.map(|load| load.arrivals.per_s()).sum::<f64>() * duration_ns as f64 / 1e9;
    if requests > REQUESTS_MAX {
        report.error(
            &root.at("client"),
            format!("{requests:.0e} requests would come in the simulated time, which would take days"),
            format!("Write a lower `rate` or `burst`, or a shorter `duration`: up to {REQUESTS_MAX:.0e} requests."),
        );
    }
}

/// Reads everything.
pub(super) fn read(root: &mut Section, report: &mut Report, tad: &Tad) -> Scenario {
    let name = root.need_text(report, "name").map(|name| name.text).unwrap_or_default();
    let mut clients: Vec<Client> = Vec::new();
    for mut section in root.tables(report, "client", "[[client]]") {
        let taken = clients.iter().map(|client| client.name.as_str());
        let name = unique(&mut section, report, "client", taken).text;
        let weight = section.number(report, "weight").unwrap_or(1.0);
        if weight <= 0.0 {
            report.error(
                &section.at("weight"),
                format!("client \"{name}\" has weight 0: it would never be served"),
                "Write a weight above 0.",
            );
        }
        let loads = read_loads(&mut section, report, tad, "load", "[[client.load]]");
        section.finish(report);
        clients.push(Client { name, weight, loads });
    }
    if clients.is_empty() {
        report.error(
            &root.at,
            "no client issues requests",
            "Add a [[client]] with a [[client.load]].",
        );
    }
    let duration_ns = some_time(root, report, "duration", 60 * SECOND_NS);
    let warmup_ns = time(root, report, "warmup", 0);
    if warmup_ns >= duration_ns {
        report.error(
            &root.at("warmup"),
            "the warm-up takes all of the simulated time, so nothing is counted",
            "Write a shorter `warmup` or a longer `duration`.",
        );
    }
    let mut changes = Vec::new();
    for section in root.tables(report, "change", "[[change]]") {
        changes.extend(read_change(section, report, tad, &clients, duration_ns));
    }
    changes.sort_by_key(|(at, _)| *at);
    let sample_ns = some_time(root, report, "sample", SECOND_NS);
    refuse_endless(root, report, &clients, (duration_ns, sample_ns));
    Scenario {
        name,
        about: root.words(report, "about"),
        clients,
        changes,
        duration_ns,
        warmup_ns,
        sample_ns,
        policy: read_policy(root, report),
        jitter: jitter(root, report),
        switch_ns: time(root, report, "switch-cost", 0),
    }
}

fn read_loads(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    key: &'static str,
    what: &'static str,
) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for table in section.tables(report, key, what) {
        let at = table.at.clone();
        let Some(load) = read_load(table, report, tad) else { continue };
        if loads.iter().any(|other| other.name == load.name) {
            report.error(
                &at,
                format!(
                    "two loads of the client are named \"{}\"; results could not tell them apart",
                    load.name
                ),
                "Give one of them another `name`.",
            );
        }
        loads.push(load);
    }
    let part = |load: &Load| match load.arrivals {
        Arrivals::Part { part } => part,
        _ => 0.0,
    };
    let parts: f64 = loads.iter().map(part).sum();
    let threads = loads.iter().any(|load| matches!(load.arrivals, Arrivals::Closed { .. }));
    if parts > 1.0 || parts > 0.0 && !threads {
        report.error(
            &section.at,
            "`part` is a part of the requests of another load with `threads`, and all parts are at most 1",
            "Add a load with `threads = …`, or write smaller parts.",
        );
    }
    loads
}

fn read_load(mut section: Section, report: &mut Report, tad: &Tad) -> Option<Load> {
    let request = section.need_text(report, "request").and_then(|text| {
        let found = tad.request(&text.text);
        if found.is_none() {
            report.error(
                &text.at,
                format!("system \"{}\" has no request \"{}\"", tad.name, text.text),
                suggest(&text.text, tad.requests.iter().map(|kind| kind.name.as_str())),
            );
        }
        found
    });
    let arrivals = read_arrivals(&mut section, report);
    let given = section.entries(report, "parameters");
    let node = request.map(|id| tad.node_of(tad.requests[id].steps[tad.requests[id].first].stage));
    let entry = read_entry(&mut section, report, tad, node);
    let keys = read_keys(&mut section, report);
    let patience = read_patience(&mut section, report);
    let name = section.text(report, "name").map(|name| name.text);
    section.finish(report);
    let kind = &tad.requests[request?];
    let mut parameters: Vec<u64> = kind.parameters.iter().map(|known| known.default).collect();
    for (key, value) in given {
        let Some(index) = kind.parameters.iter().position(|known| known.name == key.text) else {
            report.error(
                &key.at,
                format!("request \"{}\" has no parameter \"{}\"", kind.name, key.text),
                suggest(&key.text, kind.parameters.iter().map(|known| known.name.as_str())),
            );
            continue;
        };
        let dimension = kind.parameters[index].dimension;
        match value.get_ref().as_str() {
            Some(text) => {
                let place = super::section::Text { text: text.to_owned(), at: value.span() };
                let amount = units::amount(text, dimension);
                if let Some(amount) = quantity(report, &place, amount, example(dimension)) {
                    parameters[index] = amount;
                }
            }
            None => report.error(
                &value.span(),
                format!("parameter \"{}\" is of type {}", key.text, value.get_ref().type_str()),
                format!("Write an amount in quotes, for instance \"{}\".", example(dimension)),
            ),
        }
    }
    Some(Load {
        request: request?,
        arrivals: arrivals?,
        parameters,
        entry,
        keys,
        name: name.unwrap_or_else(|| kind.name.clone()),
        patience,
    })
}

/// `timeout = "100 ms"`, `retries = 3`
fn read_patience(section: &mut Section, report: &mut Report) -> Option<Patience> {
    let retries = section.number(report, "retries").unwrap_or(0.0);
    if !section.has("timeout") {
        if section.has("retries") {
            report.error(
                &section.at("retries"),
                "who waits without end never asks again",
                "Add `timeout = \"100 ms\"`, say.",
            );
        }
        section.value("timeout");
        return None;
    }
    if retries.fract() != 0.0 || retries > 1_000.0 {
        report.error(
            &section.at("retries"),
            "`retries` is no whole number up to 1000",
            "Write how often a client asks again before it gives up.",
        );
    }
    let timeout_ns = some_time(section, report, "timeout", SECOND_NS);
    Some(Patience { timeout_ns, retries: retries as u32 })
}

fn read_arrivals(section: &mut Section, report: &mut Report) -> Option<Arrivals> {
    let ways = ["threads", "part", "rate", "burst"];
    let given: Vec<&str> = ways.into_iter().filter(|key| section.has(key)).collect();
    if given.len() != 1 {
        report.error(
            &section.at,
            if given.is_empty() {
                "the load does not say how its requests come".to_owned()
            } else {
                format!("the load says {} ways in which its requests come", given.len())
            },
            "Write one of `threads = 40` (closed loop), `part = 0.3` (of another load's requests), `rate = 1000` (a second, open loop) or `burst = { count = 100, every = \"1 s\" }`.",
        );
    }
    let think_ns = time(section, report, "think", 0);
    if section.has("think") && !section.has("threads") {
        report.error(
            &section.at("think"),
            "only threads of a closed loop think between requests",
            "Remove `think`, or use `threads`.",
        );
    }
    let threads = section.count(report, "threads");
    if section.has("part") {
        let part = section.number(report, "part")?;
        if !(0.0..=1.0).contains(&part) {
            report.error(
                &section.at("part"),
                format!("{part} is no part of the requests"),
                "Write a number from 0 to 1.",
            );
            return None;
        }
        return Some(Arrivals::Part { part });
    }
    let rate = section.number(report, "rate");
    let burst = section.tables(report, "burst", "`burst`").into_iter().next();
    if let Some(mut burst) = burst {
        let count = burst.count(report, "count");
        if !burst.has("count") || !burst.has("every") {
            report.error(
                &burst.at,
                "a burst is so many requests every so often",
                "Write `burst = { count = 100, every = \"1 s\" }`.",
            );
        }
        let every_ns = some_time(&mut burst, report, "every", SECOND_NS);
        burst.finish(report);
        return Some(Arrivals::Burst { count: count?, every_ns });
    }
    if let Some(rate_per_s) = rate {
        if rate_per_s <= 0.0 {
            report.error(
                &section.at("rate"),
                "no requests come at rate 0",
                "Write requests a second, or remove the load.",
            );
            return None;
        }
        return Some(Arrivals::Open { rate_per_s });
    }
    Some(Arrivals::Closed { threads: threads?, think_ns })
}

fn read_entry(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    node: Option<NodeId>,
) -> Entry {
    let Some(text) = section.text(report, "entry") else { return Entry::Any };
    match text.text.as_str() {
        "any" => return Entry::Any,
        "partition" => return Entry::Partition,
        "each" => return Entry::Each,
        other => {
            let fixed = other.strip_prefix("node ").and_then(|n| n.trim().parse::<u32>().ok());
            let count = node.map_or(u32::MAX, |node| tad.nodes[node].count);
            if let Some(fixed) = fixed.filter(|&fixed| fixed < count) {
                return Entry::Fixed(fixed);
            }
        }
    }
    report.error(
        &text.at,
        format!("no request starts at \"{}\"", text.text),
        match node {
            Some(node) => format!(
                "Write \"any\", \"each\", \"partition\" or \"node 0\" to \"node {}\".",
                tad.nodes[node].count - 1
            ),
            None => "Write \"any\", \"each\", \"partition\" or \"node 0\".".to_owned(),
        },
    );
    Entry::Any
}

fn read_keys(section: &mut Section, report: &mut Report) -> Keys {
    const HINT: &str = "Write \"uniform\", { zipf = 1.0 } or { partition = 0 }.";
    let Some(value) = section.value("keys") else { return Keys::Uniform };
    match value.get_ref() {
        DeValue::String(text) if text == "uniform" => return Keys::Uniform,
        DeValue::Table(table) if table.len() == 1 => {
            let zipf = table.get("zipf").and_then(|value| real(value.get_ref()));
            if let Some(exponent) = zipf.filter(|e| e.is_finite() && (0.0..=100.0).contains(e)) {
                return Keys::Zipf(exponent);
            }
            let fixed = table.get("partition").and_then(|value| real(value.get_ref()));
            if let Some(partition) = fixed.filter(|p| p.fract() == 0.0 && (0.0..=1e6).contains(p)) {
                return Keys::Fixed(partition as u32);
            }
        }
        _ => {}
    }
    report.error(&value.span(), "`keys` does not say which partitions are wanted", HINT);
    Keys::Uniform
}

fn read_change(
    mut section: Section,
    report: &mut Report,
    tad: &Tad,
    clients: &[Client],
    duration_ns: u64,
) -> Option<(u64, Change)> {
    const HINT: &str =
        "Write `client = …` with a [[change.load]], or `node = …`, `resource = …` and `rate = …`.";
    if !section.has("at") {
        report.error(&section.at, "the change does not say when", "Add `at = \"60 s\"`.");
    }
    let at_ns = time(&mut section, report, "at", 0);
    if at_ns >= duration_ns {
        report.error(
            &section.at("at"),
            "the change comes after the end of the simulated time",
            "Write an earlier `at` or a longer `duration`.",
        );
    }
    let client = section.text(report, "client");
    let resource = section.text(report, "resource");
    let change = match (client, resource) {
        (Some(text), None) => {
            let client = clients.iter().position(|client| client.name == text.text);
            if client.is_none() {
                report.error(
                    &text.at,
                    format!("there is no client \"{}\"", text.text),
                    suggest(&text.text, clients.iter().map(|client| client.name.as_str())),
                );
            }
            let loads = read_loads(&mut section, report, tad, "load", "[[change.load]]");
            client.map(|client| Change::Loads { client, loads })
        }
        (None, Some(resource)) => read_rate(&mut section, report, tad, &resource),
        _ => {
            report.error(
                &section.at,
                "a change is of one client's loads or of one resource's rate",
                HINT,
            );
            section.value("load");
            section.value("node");
            section.value("rate");
            None
        }
    };
    section.finish(report);
    Some((at_ns, change?))
}

fn read_rate(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    resource: &super::section::Text,
) -> Option<Change> {
    let node = section.need_text(report, "node");
    let rate = section.need_text(report, "rate");
    let (node, rate) = (node?, rate?);
    let Some(kind) = tad.nodes.iter().position(|known| known.name == node.text) else {
        report.error(
            &node.at,
            format!("there is no node \"{}\"", node.text),
            suggest(&node.text, tad.nodes.iter().map(|node| node.name.as_str())),
        );
        return None;
    };
    let Some(id) = tad.resource(kind, &resource.text) else {
        let known = tad.resources.iter().filter(|resource| resource.node == kind);
        report.error(
            &resource.at,
            format!("node \"{}\" has no resource \"{}\"", node.text, resource.text),
            suggest(&resource.text, known.map(|resource| resource.name.as_str())),
        );
        return None;
    };
    let value = units::rate(&rate.text, tad.resources[id].kind.dimension());
    let rate_per_s = quantity(report, &rate, value, "10 MB/s")?;
    if rate_per_s <= 0.0 {
        report.error(
            &rate.at,
            "at rate 0, a request that uses the resource never ends",
            "Write a rate above 0.",
        );
        return None;
    }
    Some(Change::Rate { resource: id, rate_per_s })
}
