//! What differs between two diagrams: two versions of a system, or two loads.

use headworks_tad::model::{Confidence, End, FlowKind, RequestType, Tad, Threads};
use serde::Serialize;
use std::collections::BTreeMap;

/// A difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is of: `stage`, `arrow`, `resource`, `use`.
    pub what: &'static str,
    /// Name.
    pub name: String,
    /// In the first and in the second; none if it is not there.
    pub before: Option<String>,
    /// See there.
    pub after: Option<String>,
}

/// Amounts that differ by less are the same: recordings vary.
const SAME: f64 = 0.1;

/// Differences, those of stages first.
pub fn diff(a: &Tad, b: &Tad) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("stage", &stages(a), &stages(b), &mut changes);
    compare("arrow", &arrows(a), &arrows(b), &mut changes);
    compare("resource", &resources(a), &resources(b), &mut changes);
    let (before, after) = (amounts(a), amounts(b));
    for (name, x) in &before {
        let Some(y) = after.get(name) else { continue };
        if (x.0 - y.0).abs() > SAME * x.0.max(y.0) {
            let said = |(amount, unit): &(f64, &str)| Some(format!("{amount:.0} {unit}"));
            let (before, after) = (said(x), said(y));
            changes.push(Change { what: "use", name: name.clone(), before, after });
        }
    }
    changes
}

fn compare(
    what: &'static str,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    changes: &mut Vec<Change>,
) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (x, y) = (before.get(name), after.get(name));
        // How sure an arrow is says how often it was seen, not what the system is.
        let same = if what == "arrow" { x.is_some() == y.is_some() } else { x == y };
        if !same {
            let (name, before, after) = (name.clone(), x.cloned(), y.cloned());
            changes.push(Change { what, name, before, after });
        }
    }
}

fn stages(tad: &Tad) -> BTreeMap<String, String> {
    let one = |stage: &headworks_tad::model::Stage| match stage.threads {
        Threads::Bounded(1) => "1 thread".to_owned(),
        Threads::Bounded(threads) => format!("{threads} threads"),
        Threads::OnDemand => "on demand".to_owned(),
    };
    tad.stages.iter().map(|stage| (stage.name.clone(), one(stage))).collect()
}

fn arrows(tad: &Tad) -> BTreeMap<String, String> {
    let end = |end: End| match end {
        End::Clients => "clients",
        End::Stage(stage) => &tad.stages[stage].name,
    };
    let one = |flow: &headworks_tad::model::Flow| {
        let kind = match flow.kind {
            FlowKind::Data => "->",
            FlowKind::Blocking => "waits for",
            FlowKind::Information => "informs",
        };
        let sure = if flow.confidence == Confidence::Guess { "a guess" } else { "there" };
        (format!("{} {kind} {}", end(flow.from), end(flow.to)), sure.to_owned())
    };
    tad.flows.iter().map(one).collect()
}

fn resources(tad: &Tad) -> BTreeMap<String, String> {
    let limited = tad.resources.iter().filter(|resource| resource.limited());
    limited.map(|resource| (resource.name.clone(), resource.kind.name().to_owned())).collect()
}

/// Amounts of requests at steps, with their units.
fn amounts(tad: &Tad) -> BTreeMap<String, (f64, &'static str)> {
    let mut found = BTreeMap::new();
    let all = |request: &RequestType| request.steps.clone();
    for request in &tad.requests {
        let defaults: Vec<u64> = request.parameters.iter().map(|each| each.default).collect();
        for step in all(request) {
            for each in step.uses.iter().chain(&step.uses_after) {
                let resource = &tad.resources[each.resource];
                let amount = each.amount.mean(&defaults);
                let name = format!("{} at {}: {}", request.name, step.name, resource.name);
                let (amount, unit) = match resource.kind {
                    headworks_tad::model::ResourceKind::Io
                    | headworks_tad::model::ResourceKind::Network => (amount as f64, "B"),
                    _ => (amount as f64 / resource.rate_per_s * 1e6, "us"),
                };
                found.entry(name).or_insert((0.0, unit)).0 += amount;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_tad::file::read_tad;
    use headworks_tad::systems;

    #[test]
    fn a_system_does_not_differ_from_itself_and_a_larger_pool_shows() {
        let text = systems::text("hbase").expect("built in");
        let a = read_tad("hbase", text).expect("a system").value;
        assert_eq!(diff(&a, &a), []);
        let mut b = a.clone();
        let stage = b.stages.iter_mut().find(|s| matches!(s.threads, Threads::Bounded(_)));
        let stage = stage.expect("a pool");
        stage.threads = Threads::Bounded(77);
        let name = stage.name.clone();
        b.flows.pop();
        b.flows[0].confidence = Confidence::Guess;
        let changes = diff(&a, &b);
        assert_eq!(changes.len(), 2, "how sure an arrow is does not differ: {changes:?}");
        let pool = changes.iter().find(|change| change.name == name).expect("the pool");
        assert_eq!(pool.after.as_deref(), Some("77 threads"));
        assert!(changes.iter().any(|change| change.what == "arrow" && change.after.is_none()));
    }
}
