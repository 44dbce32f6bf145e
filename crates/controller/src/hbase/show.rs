//! A live view: stages with their queues, and what each tenant has of every resource.

use crate::hbase::figures::{self, Figures, Page, Stage, Tenant};
use headworks_console::{Column, Ink, Sheet, count, printable, rate};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Nodes that are asked at a time.
const ASKED_AT_A_TIME: usize = 64;
/// Tenants that are shown.
const ROWS: usize = 40;
/// Stages whose requests are counted by tenant, as the table's columns have them.
const COUNTED: [&str; 3] = ["RPC Handle", "Log append", "Data Xceiver"];
/// Resources, as the table's columns have them.
const RESOURCES: [&str; 5] = ["handlers", "processors", "network", "disk", "log"];

/// All nodes at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// In the order of the configuration.
    pub nodes: Vec<Node>,
}

/// A node at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// When it answered.
    #[serde(skip)]
    at: Option<Instant>,
    /// Where it was asked.
    #[serde(flatten)]
    pub page: Page,
    /// What it says. None: it does not answer, or has nothing of ours.
    pub figures: Option<Figures>,
    /// Why there are no figures.
    pub error: Option<String>,
}

/// Asks all nodes. A node that does not answer is in the result with the reason.
pub fn look(pages: &[Page]) -> Look {
    let ask = |page: &Page| {
        let (figures, error) = match figures::ask(page) {
            Ok(Some(figures)) => (Some(figures), None),
            Ok(None) => (None, Some("has neither plug-in nor agent".to_owned())),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Node { at: Some(Instant::now()), page: page.clone(), figures, error }
    };
    let nodes = pages.chunks(ASKED_AT_A_TIME).flat_map(|pages| {
        std::thread::scope(|scope| {
            let asked: Vec<_> = pages.iter().map(|page| scope.spawn(move || ask(page))).collect();
            let answers = asked
                .into_iter()
                .map(|asked| asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            answers.collect::<Vec<_>>()
        })
    });
    Look { nodes: nodes.collect() }
}

/// What happened between two looks, the older one first: stages, then tenants.
pub fn text(before: &Look, now: &Look, width: usize, ink: Ink) -> String {
    let stages = stages(before, now).text(usize::MAX, width, ink);
    stages + "\n" + &tenants(before, now).text(ROWS, width, ink)
}

impl Look {
    fn figures(&self) -> impl Iterator<Item = (&Page, &Figures)> {
        self.nodes.iter().filter_map(|node| Some((&node.page, node.figures.as_ref()?)))
    }

    /// Nodes with figures, with those of a look before and the seconds since then.
    fn since<'a>(&'a self, before: &'a Look) -> impl Iterator<Item = Since<'a>> {
        self.nodes.iter().filter_map(|node| {
            let now = node.figures.as_ref()?;
            let mut earlier = before.nodes.iter().filter(|known| known.figures.is_some());
            let earlier = earlier.find(|known| known.page == node.page);
            let begun = earlier.and_then(|node| node.at);
            let seconds = match (begun, node.at) {
                (Some(begun), Some(at)) => at.duration_since(begun).as_secs_f64().max(1e-3),
                _ => 1.0,
            };
            let before = earlier.and_then(|node| node.figures.as_ref());
            Some(Since { page: &node.page, now, before, seconds })
        })
    }

    fn answering(&self, region_server: bool) -> usize {
        self.figures().filter(|(page, _)| page.region_server == region_server).count()
    }
}

/// A node between two looks.
struct Since<'a> {
    page: &'a Page,
    now: &'a Figures,
    before: Option<&'a Figures>,
    seconds: f64,
}

impl Since<'_> {
    /// How much a counter has grown each second. A node that began again begins with zero.
    fn per_s(&self, before: Option<u64>, now: u64) -> f64 {
        let before = before.unwrap_or(now);
        now.checked_sub(before).unwrap_or(now) as f64 / self.seconds
    }
}

#[derive(Default)]
struct StageSum<'a> {
    nodes: usize,
    enforced: usize,
    queued: u64,
    served_per_s: f64,
    waited_per_s: f64,
    passed_per_s: f64,
    why: BTreeSet<&'a str>,
}

fn stages(before: &Look, now: &Look) -> Sheet {
    let mut sums: Vec<(&str, StageSum<'_>)> = Vec::new();
    for node in now.since(before) {
        for stage in &node.now.stages {
            let at = sums.iter().position(|(name, _)| *name == stage.stage).unwrap_or_else(|| {
                sums.push((&stage.stage, StageSum::default()));
                sums.len() - 1
            });
            add_stage(&mut sums[at].1, &node, stage);
        }
    }
    let queued: u64 = sums.iter().map(|(_, sum)| sum.queued).sum();
    let row = |(name, sum): (&str, StageSum<'_>)| {
        vec![
            printable(name),
            format!("{} of {}", sum.enforced, sum.nodes),
            count(sum.queued),
            rate(sum.served_per_s),
            rate(sum.waited_per_s),
            rate(sum.passed_per_s),
            printable(&sum.why.into_iter().collect::<Vec<_>>().join("; ")),
        ]
    };
    Sheet {
        title: format!(
            "{} of {} nodes answer; {} {}",
            now.figures().count(),
            now.nodes.len(),
            count(queued),
            if queued == 1 { "request waits" } else { "requests wait" },
        ),
        notes: notes(now),
        columns: vec![
            Column::left("STAGE"),
            Column::right("ENFORCED"),
            Column::right("QUEUED"),
            Column::right("REQ/S"),
            Column::right("WAITED/S"),
            Column::right("PASSED/S"),
            Column::left("WHY NOT"),
        ],
        rows: sums.into_iter().map(row).collect(),
    }
}

fn add_stage<'a>(sum: &mut StageSum<'a>, node: &Since<'_>, now: &'a Stage) {
    let before = node
        .before
        .and_then(|figures| figures.stages.iter().find(|known| known.stage == now.stage));
    sum.nodes += 1;
    sum.enforced += usize::from(now.why.is_empty());
    sum.queued += now.queued;
    sum.served_per_s += node.per_s(before.map(|stage| stage.served), now.served);
    sum.waited_per_s += node.per_s(before.map(|stage| stage.waited), now.waited);
    sum.passed_per_s += node.per_s(before.map(|stage| stage.passed), now.passed);
    if !now.why.is_empty() {
        sum.why.insert(&now.why);
    }
}

fn notes(now: &Look) -> Vec<String> {
    let silent = now.nodes.iter().filter_map(|node| {
        let error = printable(node.error.as_ref()?.lines().next().unwrap_or_default());
        Some(format!("{} {}: {error}", node.page.kind(), node.page.address))
    });
    let one = now.figures().filter(|(_, figures)| !figures.several).count();
    let one = (one > 0).then(|| {
        format!("{one} of them have one tenant or none, so that nothing is ordered there")
    });
    silent.chain(one).collect()
}

#[derive(Default)]
struct TenantSum {
    weights: BTreeSet<String>,
    served_per_s: [f64; COUNTED.len()],
    /// Microseconds a second of the nodes that count.
    used_per_s: [f64; RESOURCES.len()],
    failed_per_s: f64,
    connections: u64,
    unread: u64,
}

fn tenants(before: &Look, now: &Look) -> Sheet {
    let mut sums: BTreeMap<&str, TenantSum> = BTreeMap::new();
    let (servers, data_nodes) = (now.answering(true), now.answering(false));
    for node in now.since(before) {
        for tenant in &node.now.tenants {
            // A region server knows of the disk what was asked for, a DataNode what was read.
            let counts =
                |resource: &str| node.page.region_server != (resource == "disk" && data_nodes > 0);
            add_tenant(sums.entry(&tenant.name).or_default(), &node, tenant, counts);
        }
    }
    let mut sums: Vec<(&str, TenantSum)> = sums.into_iter().collect();
    let busiest = |sum: &TenantSum| sum.used_per_s.iter().copied().fold(0.0, f64::max);
    sums.sort_by(|(_, a), (_, b)| busiest(b).total_cmp(&busiest(a)));
    let row = |(name, sum): (&str, TenantSum)| {
        let mut cells =
            vec![printable(name), sum.weights.into_iter().collect::<Vec<_>>().join(" ")];
        cells.extend(sum.served_per_s.map(rate));
        cells.push(rate(sum.failed_per_s));
        cells.extend(RESOURCES.iter().zip(sum.used_per_s).map(|(resource, used)| {
            let nodes = if *resource == "disk" && data_nodes > 0 { data_nodes } else { servers };
            percent(used / 1e6 / nodes.max(1) as f64)
        }));
        cells.push(count(sum.connections));
        cells.push(if sum.unread == 0 { "0".into() } else { format!("{}B", count(sum.unread)) });
        cells
    };
    Sheet {
        title: format!("{} tenants, and how much of each resource they use", sums.len()),
        notes: Vec::new(),
        columns: vec![
            Column::left("TENANT"),
            Column::left("WEIGHT"),
            Column::right("HANDLE/S"),
            Column::right("LOG/S"),
            Column::right("XCEIVER/S"),
            Column::right("FAILED/S"),
            Column::right("HANDLERS"),
            Column::right("CPU"),
            Column::right("NETWORK"),
            Column::right("DISK"),
            Column::right("LOG"),
            Column::right("CONNECTIONS"),
            Column::right("UNREAD"),
        ],
        rows: sums.into_iter().map(row).collect(),
    }
}

fn add_tenant(sum: &mut TenantSum, node: &Since<'_>, now: &Tenant, counts: impl Fn(&str) -> bool) {
    let before =
        node.before.and_then(|figures| figures.tenants.iter().find(|known| known.name == now.name));
    sum.weights.insert(format!("{}", now.weight));
    sum.unread += now.unread;
    sum.connections += now.connections;
    let failed = |tenant: &Tenant| tenant.failed.values().sum();
    sum.failed_per_s += node.per_s(before.map(failed), failed(now));
    let of = |map: &BTreeMap<String, u64>, key: &str| map.get(key).copied().unwrap_or(0);
    for (stage, served) in COUNTED.iter().zip(&mut sum.served_per_s) {
        let earlier = before.map(|tenant| of(&tenant.served, stage));
        *served += node.per_s(earlier, of(&now.served, stage));
    }
    for (resource, used) in
        RESOURCES.iter().zip(&mut sum.used_per_s).filter(|(name, _)| counts(name))
    {
        let earlier = before.map(|tenant| of(&tenant.used_us, resource));
        *used += node.per_s(earlier, of(&now.used_us, resource));
    }
}

fn percent(share: f64) -> String {
    match share * 1e2 {
        0.0 => "-".to_owned(),
        x if x < 9.95 => format!("{x:.1} %"),
        x => format!("{x:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn node(address: &str, region_server: bool, handled: u64) -> Node {
        let stage = if region_server { COUNTED[0] } else { COUNTED[2] };
        let resource = if region_server { "handlers" } else { "disk" };
        let served = BTreeMap::from([(stage.to_owned(), handled)]);
        let used_us = BTreeMap::from([(resource.to_owned(), handled * 5_000)]);
        Node {
            at: None,
            page: Page { address: address.to_owned(), region_server },
            figures: Some(Figures {
                several: true,
                stages: vec![Stage {
                    stage: stage.to_owned(),
                    queued: 3,
                    served: handled,
                    ..Stage::default()
                }],
                tenants: vec![Tenant {
                    name: "alice".to_owned(),
                    weight: 4.0,
                    connections: 3,
                    served,
                    used_us,
                    ..Tenant::default()
                }],
                ..Figures::default()
            }),
            error: None,
        }
    }

    fn looks(before: Vec<Node>, now: Vec<Node>) -> String {
        let begun = Instant::now();
        let after = |seconds: u64, mut nodes: Vec<Node>| {
            let at = begun + Duration::from_secs(seconds);
            nodes.iter_mut().for_each(|node| node.at = Some(at));
            Look { nodes }
        };
        let (before, now) = (after(0, before), after(2, now));
        text(&before, &now, 200, Ink { color: false })
    }

    /// The cells of the first row that begins so.
    fn row(text: &str, begin: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(begin)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn what_all_nodes_did_between_two_looks_is_added_up() {
        let all = |handled| {
            vec![
                node("a:1", true, handled),
                node("b:1", true, handled),
                node("a:2", false, handled),
            ]
        };
        let text = looks(all(100), all(200));
        assert_eq!(row(&text, "RPC Handle"), ["RPC Handle", "2 of 2", "6", "100", "0", "0"]);
        assert_eq!(row(&text, "Data Xceiver"), ["Data Xceiver", "1 of 1", "3", "50.0", "0", "0"]);
        // Half a second of 2 s on each node: 100 requests of 5 ms.
        let alice =
            ["alice", "4", "100", "0", "50.0", "0", "25 %", "-", "-", "25 %", "-", "9", "0"];
        assert_eq!(row(&text, "alice"), alice);
        assert!(text.starts_with("3 of 3 nodes answer; 9 requests wait\n"), "{text}");
    }

    #[test]
    fn calls_that_failed_are_counted_whatever_their_exceptions() {
        let failed = |exceptions: &[(&str, u64)]| {
            let mut node = node("a:1", true, 100);
            node.figures.as_mut().unwrap().tenants[0].failed =
                exceptions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            vec![node]
        };
        let text = looks(
            failed(&[("RpcThrottlingException", 10)]),
            failed(&[("RpcThrottlingException", 15), ("RegionTooBusyException", 3)]),
        );
        assert_eq!(row(&text, "alice")[5], "4.0", "eight in two seconds");
    }

    #[test]
    fn each_node_has_the_time_between_its_answers() {
        let begun = Instant::now();
        let answered = |seconds, handled| Look {
            nodes: vec![Node {
                at: Some(begun + Duration::from_secs(seconds)),
                ..node("a:1", true, handled)
            }],
        };
        let text = text(&answered(0, 0), &answered(10, 100), 200, Ink { color: false });
        assert_eq!(row(&text, "alice")[2], "10.0");
    }

    #[test]
    fn a_node_that_began_again_or_that_is_new_counts_from_zero_or_not_at_all() {
        let text = looks(vec![node("a:1", true, 100)], vec![node("a:1", true, 8)]);
        assert_eq!(row(&text, "alice")[2], "4.0");
        let text = looks(vec![], vec![node("a:1", true, 1_000_000)]);
        assert_eq!(row(&text, "alice")[2], "0");
    }

    #[test]
    fn nodes_without_figures_and_stages_that_order_nothing_are_named() {
        let mut stock = node("b:1", true, 0);
        (stock.figures, stock.error) = (None, Some("connection refused\nmore".to_owned()));
        let mut off = node("a:1", true, 1);
        let figures = off.figures.as_mut().unwrap();
        (figures.several, figures.stages[0].why) = (false, "no rate".to_owned());
        let text = looks(vec![], vec![stock, off]);
        assert!(text.contains("region server b:1: connection refused\n"), "{text}");
        assert!(text.contains("1 of them have one tenant or none"), "{text}");
        assert_eq!(row(&text, "RPC Handle")[6..], ["no rate"]);
    }
}
