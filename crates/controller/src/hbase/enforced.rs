//! The part of `doctor` that says for each stage, table and tenant whether its order is enforced on
//! all nodes, and why it is not.

use crate::hbase::doctor::Node;
use crate::hbase::figures::Page;
use std::collections::{BTreeMap, BTreeSet};

/// Stages, with the reasons why they are not enforced at nodes. The empty reason: at one they are.
type Reasons<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn add<'a>(reasons: &mut Reasons<'a>, node: &'a Node) {
    for stage in &node.figures.stages {
        reasons.entry(&stage.stage).or_default().insert(&stage.why);
    }
}

fn words(stages: &Reasons<'_>) -> String {
    let (mut there, mut not) = (Vec::new(), Vec::new());
    for (stage, reasons) in stages {
        let why = reasons.iter().copied().collect::<Vec<_>>().join("; ");
        match (reasons.contains(""), reasons.len()) {
            (true, 1) => there.push((*stage).to_owned()),
            (true, _) => there.push(format!("{stage} (not at some nodes{why})")),
            (false, _) => not.push(format!("{stage} ({why})")),
        }
    }
    let line = |begin: &str, all: Vec<String>| {
        let some = (!all.is_empty()).then(|| all.join(", "));
        some.map(|all| format!("{begin}{all}"))
    };
    let lines = [line("enforced: ", there), line("NOT: ", not)];
    lines.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A tenant, over all nodes.
#[derive(Default)]
struct Tenant<'a> {
    /// As the text is, and the kinds of nodes that have it.
    weights: BTreeMap<String, BTreeSet<&'static str>>,
    served: BTreeMap<&'a str, u64>,
    /// Stages of the nodes where it was seen.
    stages: Reasons<'a>,
}

/// Says for each table, tenant and stage whether the plug-in enforces its order.
pub fn enforced(nodes: &[(Page, Node)]) -> String {
    let mut stages: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    let mut tables: BTreeMap<&str, Reasons<'_>> = BTreeMap::new();
    let mut tenants: BTreeMap<&str, Tenant<'_>> = BTreeMap::new();
    for (page, node) in nodes {
        for stage in &node.figures.stages {
            let reasons = stages.entry(&stage.stage).or_default();
            reasons.entry(&stage.why).or_default().push(&page.address);
        }
        for table in &node.tables {
            add(tables.entry(table).or_default(), node);
        }
        for tenant in &node.figures.tenants {
            let known = tenants.entry(&tenant.name).or_default();
            let kinds = known.weights.entry(tenant.weight.to_string()).or_default();
            kinds.insert(page.kind());
            add(&mut known.stages, node);
            for (stage, count) in &tenant.served {
                *known.served.entry(stage).or_default() += count;
            }
        }
    }
    let mut out = "STAGES\n".to_owned();
    for (stage, reasons) in &stages {
        for (why, at) in reasons {
            let state = if why.is_empty() { "enforced".to_owned() } else { format!("NOT: {why}") };
            out += &format!("  {stage:<14} {state}  ({})\n", at.join(", "));
        }
    }
    out += "TABLES (at the region servers that have them)\n";
    if tables.is_empty() {
        out += "  none was told: HBase begins its figures again when regions move; ask once more in some seconds\n";
    }
    for (table, stages) in &tables {
        let words = match table.starts_with("hbase:") {
            true => format!("by handlers of HBase's own tables; {}", words(stages)),
            false => words(stages),
        };
        out += &format!("  {table:<24} {words}\n");
    }
    out += "TENANTS (requests that were served)\n";
    for (name, tenant) in &tenants {
        let counts: Vec<String> =
            tenant.served.iter().map(|(stage, count)| format!("{stage} {count}")).collect();
        let weights: Vec<String> = match tenant.weights.len() {
            1 => tenant.weights.keys().cloned().collect(),
            _ => {
                let kinds =
                    |kinds: &BTreeSet<&str>| kinds.iter().copied().collect::<Vec<_>>().join(", ");
                tenant
                    .weights
                    .iter()
                    .map(|(weight, at)| format!("{weight} ({})", kinds(at)))
                    .collect()
            }
        };
        out += &format!(
            "  {:<24} weight {:<8} {}\n  {:<24} {}\n",
            headworks_console::printable(name),
            weights.join(", "),
            counts.join(", "),
            "",
            words(&tenant.stages)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbase::figures::{Figures, Stage, Tenant};

    #[test]
    fn each_table_tenant_and_stage_is_told() {
        let stage = |stage: &str, why: &str| Stage {
            stage: stage.to_owned(),
            why: why.to_owned(),
            ..Stage::default()
        };
        let tenant = |weight: f64, stage: &str| Tenant {
            name: "alice".to_owned(),
            weight,
            served: BTreeMap::from([(stage.to_owned(), 7)]),
            ..Tenant::default()
        };
        let server = Node {
            figures: Figures {
                stages: vec![stage("RPC Handle", ""), stage("RPC Respond", "no rate")],
                tenants: vec![tenant(4.0, "RPC Handle")],
                ..Figures::default()
            },
            tables: BTreeSet::from(["t".to_owned(), "hbase:meta".to_owned()]),
        };
        let data = Node {
            figures: Figures { tenants: vec![tenant(1.0, "Data Xceiver")], ..Figures::default() },
            ..Node::default()
        };
        let page = |region_server| Page { address: "a:1".to_owned(), region_server };
        let text = enforced(&[(page(true), server.clone())]);
        for words in [
            "RPC Handle     enforced",
            "RPC Respond    NOT: no rate",
            "hbase:meta               by handlers of HBase's own tables; enforced: RPC Handle",
            "alice",
            "weight 4 ",
            "RPC Handle 7",
            "t                        enforced: RPC Handle; NOT: RPC Respond (no rate)\n",
            "                           enforced: RPC Handle; NOT: RPC Respond (no rate)\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("none was told"), "{text}");
        let text = enforced(&[(page(true), server), (page(false), data)]);
        assert!(text.contains("weight 1 (DataNode), 4 (region server)"), "{text}");
        assert!(enforced(&[]).contains("none was told"));
    }
}
