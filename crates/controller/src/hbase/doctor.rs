//! What is enforced: by node, table, tenant and stage; and what is not, and why.

use crate::hbase::edit::{OUR_QUEUE, QUEUE_CLASS, QUEUE_TYPE};
use crate::hbase::figures::{self, Figures, Page};
use crate::hbase::site::Site;
use crate::hbase::{jmx, queues};
use std::collections::{BTreeMap, BTreeSet};

/// Version of plug-in and agent that belong to this program.
pub const VERSION: u64 = 3;

const REGIONS: &str = "Hadoop:service=HBase,name=RegionServer,sub=Regions";

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// As it should be.
    Ok,
    /// Less than could be.
    Warning,
    /// Wrong.
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How it stands.
    pub state: State,
    /// What.
    pub what: String,
    /// What was found.
    pub found: String,
}

fn finding(state: State, what: impl Into<String>, found: impl Into<String>) -> Finding {
    Finding { state, what: what.into(), found: found.into() }
}

/// Kinds of nodes that no list names: none of them was asked.
pub fn unlisted(pages: &[Page], hadoop: bool) -> Vec<Finding> {
    let missing = |region_server| !pages.iter().any(|page| page.region_server == region_server);
    let mut found = Vec::new();
    if missing(true) {
        let words = "the file regionservers in --conf names none, so none was asked";
        found.push(finding(State::Warning, "region servers", words));
    }
    if missing(false) {
        let words = if hadoop {
            "the file workers in --hadoop-conf names none, so none was asked"
        } else {
            "none was asked: name Hadoop's configuration by --hadoop-conf DIR"
        };
        found.push(finding(State::Warning, "DataNodes", words));
    }
    found
}

/// What the configuration says.
pub fn configuration(site: &Site) -> Vec<Finding> {
    let mut found = Vec::new();
    let ours =
        site.get(QUEUE_TYPE) == Some("pluggable") && site.get(QUEUE_CLASS) == Some(OUR_QUEUE);
    found.push(if ours {
        finding(State::Ok, "call queue", OUR_QUEUE)
    } else {
        finding(
            State::Wrong,
            "call queue",
            "HBase's own: no tenant is told apart\n  mend: headworks hbase enable --conf DIR",
        )
    });
    if site.get("headworks.enabled") == Some("false") {
        found.push(finding(
            State::Warning,
            "headworks.enabled",
            "false: nothing is ordered by tenant",
        ));
    }
    if site.number("hbase.ipc.server.callqueue.read.ratio", 0.0) > 0.0 {
        let words =
            "above 0: HBase gives calls to idle handlers past the queue, and they are not charged";
        found.push(finding(State::Warning, "hbase.ipc.server.callqueue.read.ratio", words));
    }
    if site.get("hbase.ipc.server.callqueue.pluggable.queue.fast.path.enabled") == Some("true") {
        let words = "true: calls pass the queue while a handler is idle, and are not charged";
        found.push(finding(
            State::Warning,
            "hbase.ipc.server.callqueue.pluggable.queue.fast.path.enabled",
            words,
        ));
    }
    found.extend(large_responses(site));
    found.extend(
        queues::faults(site).into_iter().map(|words| finding(State::Wrong, "queues", words)),
    );
    found
}

/// Limits of HBase on one response that are above our bound on what a tenant has unread.
fn large_responses(site: &Site) -> Vec<Finding> {
    const BOUND: &str = "headworks.responses.bytes-per-tenant";
    let bound = site.number(BOUND, 0.0);
    let limits = [
        ("hbase.table.max.rowsize", f64::from(1 << 30)),
        ("hbase.server.scanner.max.result.size", f64::from(100 << 20)),
    ];
    let above = |(limit, usual): (&str, f64)| {
        let most = site.number(limit, usual);
        (bound > 0.0 && most > bound).then(|| {
            let words = format!(
                "{most}, above {BOUND} ({bound}): before a tenant's first large response its size \
                 is not known, and each handler may be making one\n  mend: set it to what rows \
                 and batches really need"
            );
            finding(State::Warning, limit, words)
        })
    };
    limits.into_iter().filter_map(above).collect()
}

/// The NameNode's lock is held by calls of all users of HDFS, and an HBase is one of them. Hadoop
/// can order calls by user, and count for how long each holds the lock.
pub fn name_node(core: &Site) -> Finding {
    const NODE: &str = "NameNode";
    let address = core.get("fs.defaultFS").unwrap_or_default();
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    let port = address.split('/').next().and_then(|node| node.rsplit_once(':'));
    // A name service has its port in hdfs-site.xml: usually this one.
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or(8020);
    let class = |key: &str| core.get(&format!("ipc.{port}.{key}")).unwrap_or_default();
    let mut lacks = Vec::new();
    if !class("callqueue.impl").ends_with(".FairCallQueue") {
        lacks.push(format!("ipc.{port}.callqueue.impl=org.apache.hadoop.ipc.FairCallQueue"));
    }
    if !class("cost-provider.impl").ends_with(".WeightedTimeCostProvider") {
        lacks.push(format!(
            "ipc.{port}.cost-provider.impl=org.apache.hadoop.ipc.WeightedTimeCostProvider"
        ));
    }
    if class("decay-scheduler.service-users").is_empty() {
        lacks.push(format!("ipc.{port}.decay-scheduler.service-users=HBASES_USER"));
    }
    if lacks.is_empty() {
        let words = "calls are ordered by user of HDFS and charged for its lock, HBase's own go \
                     first; not by tenant: region servers are one user there";
        return finding(State::Ok, NODE, words);
    }
    let words = format!(
        "NOT by tenant: region servers are one user there. Calls of other users of HDFS may hold \
         its lock, and HBase waits\n  mend: in core-site.xml {}",
        lacks.join(", ")
    );
    finding(State::Warning, NODE, words)
}

/// What a node says.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Of its stages and tenants.
    pub figures: Figures,
    /// Tables with regions there.
    pub tables: BTreeSet<String>,
}

/// Looks at a node. Findings name it, and what it lacks.
pub fn node(page: &Page) -> (Node, Vec<Finding>) {
    let what = format!("{} {}", page.kind(), page.address);
    let wrong = |words: String| (Node::default(), vec![finding(State::Wrong, &*what, words)]);
    let figures = match figures::ask(page) {
        Ok(Some(figures)) => figures,
        Ok(None) => {
            let words = "neither plug-in nor agent: it serves as a stock server\n  mend: copy the jars there, and restart it";
            return wrong(words.to_owned());
        }
        Err(error) => return wrong(format!("{error:#}")),
    };
    let version = figures.version;
    let found = if version != VERSION {
        let words = format!(
            "version {version} of plug-in and agent, and this program expects {VERSION}\n  mend: copy the jars there, and restart it"
        );
        finding(State::Wrong, what, words)
    } else if !figures.agent {
        let words = "no agent: only RPC Handle is ordered\n  mend: -javaagent in HBASE_REGIONSERVER_OPTS, and restart it";
        finding(State::Warning, what, words)
    } else if !figures.several {
        finding(State::Ok, what, "plug-in and agent; one tenant so far, and nothing is ordered")
    } else {
        finding(State::Ok, what, "plug-in and agent")
    };
    (Node { figures, tables: tables(page) }, vec![found])
}

fn tables(page: &Page) -> BTreeSet<String> {
    let regions = page.region_server.then(|| jmx::bean(&page.address, REGIONS));
    let Some(Ok(Some(regions))) = regions else { return BTreeSet::new() };
    let keys = regions.as_object().into_iter().flat_map(|object| object.keys());
    keys.filter_map(|key| table(key)).collect()
}

/// The table of `Namespace_NAMESPACE_table_TABLE_region_…`.
fn table(key: &str) -> Option<String> {
    let rest = key.strip_prefix("Namespace_")?;
    let (namespace, rest) = rest.split_once("_table_")?;
    let (table, _) = rest.rsplit_once("_region_")?;
    Some(if namespace == "default" { table.to_owned() } else { format!("{namespace}:{table}") })
}

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
    weight: f64,
    served: BTreeMap<&'a str, u64>,
    /// Stages of the nodes where it was seen.
    stages: Reasons<'a>,
}

/// What is enforced for each table, tenant and stage.
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
            known.weight = tenant.weight;
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
        let words = if table.starts_with("hbase:") {
            "exempt: HBase's own tables have handlers of their own".to_owned()
        } else {
            words(stages)
        };
        out += &format!("  {table:<24} {words}\n");
    }
    out += "TENANTS (requests that were served)\n";
    for (name, tenant) in &tenants {
        let counts: Vec<String> =
            tenant.served.iter().map(|(stage, count)| format!("{stage} {count}")).collect();
        out += &format!(
            "  {:<24} weight {:<8} {}\n  {:<24} {}\n",
            headworks_console::printable(name),
            tenant.weight,
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
    use std::io::{Read, Write};

    /// A server that answers each question by the same JSON.
    fn page(answer: &'static str) -> Page {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.read(&mut [0; 1024]);
                let _ = client.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{answer}").as_bytes());
            }
        });
        Page { address, region_server: true }
    }

    #[test]
    fn a_node_without_the_agent_or_with_an_old_one_is_named() {
        for (answer, words) in [
            ("{\"beans\":[]}", "neither plug-in nor agent"),
            ("{\"beans\":[{\"Version\":1,\"Agent\":true}]}", "version 1"),
            ("{\"beans\":[{\"Version\":3,\"Agent\":false}]}", "no agent"),
            ("{\"beans\":[{\"Version\":3,\"Agent\":true,\"Several\":true}]}", "plug-in and agent"),
            ("<html>", "does not answer by JSON"),
            ("{\"beans\":[{\"Version\":3,\"Tenants\":\"[7]\"}]}", "Tenants cannot be read"),
        ] {
            let page = page(answer);
            let (_, found) = node(&page);
            assert!(
                found[0].what.ends_with(&page.address) && found[0].found.contains(words),
                "{found:?}"
            );
        }
        let gone = Page { address: "127.0.0.1:1".into(), region_server: false };
        assert_eq!(node(&gone).1[0].state, State::Wrong);
    }

    #[test]
    fn each_table_tenant_and_stage_is_told() {
        let page = page(
            "{\"beans\":[{\"Version\":3,\"Agent\":true,\"Several\":true,\
             \"Stages\":\"[{\\\"stage\\\":\\\"RPC Handle\\\",\\\"why\\\":\\\"\\\"},{\\\"stage\\\":\\\"RPC Respond\\\",\\\"why\\\":\\\"no rate\\\"},\
             {\\\"stage\\\":\\\"Data Xceiver\\\",\\\"why\\\":\\\"no agent\\\"}]\",\
             \"Tenants\":\"[{\\\"name\\\":\\\"alice\\\",\\\"weight\\\":4.0,\\\"served\\\":{\\\"RPC Handle\\\":7}}]\",\
             \"Namespace_default_table_t_region_0_metric_storeCount\":1,\
             \"Namespace_hbase_table_meta_region_1_metric_storeCount\":1}]}",
        );
        let (found, _) = node(&page);
        let text = enforced(&[(page, found)]);
        for words in [
            "RPC Handle     enforced",
            "RPC Respond    NOT: no rate",
            "hbase:meta               exempt",
            "alice",
            "weight 4",
            "RPC Handle 7",
            "t                        enforced: RPC Handle; NOT: RPC Respond (no rate)\n",
            "                           enforced: RPC Handle; NOT: RPC Respond (no rate)\n",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("Data Xceiver") && !text.contains("none was told"), "{text}");
        assert!(enforced(&[]).contains("none was told"));
    }

    #[test]
    fn nodes_that_no_list_names_are_told() {
        let page = Page { address: "a:1".into(), region_server: true };
        let found = unlisted(&[], true);
        assert_eq!(found.len(), 2);
        let found = unlisted(&[page], false);
        assert!(found.len() == 1 && found[0].found.contains("--hadoop-conf"), "{found:?}");
    }

    fn site(values: &[(&str, &str)]) -> Site {
        let property = |(name, value): &(&str, &str)| {
            format!("<property><name>{name}</name><value>{value}</value></property>")
        };
        let all: String = values.iter().map(property).collect();
        Site::parse(&format!("<configuration>{all}</configuration>")).unwrap()
    }

    #[test]
    fn a_name_node_that_orders_calls_by_arrival_or_by_number_is_named() {
        let queue = ("ipc.9000.callqueue.impl", "org.apache.hadoop.ipc.FairCallQueue");
        let cost =
            ("ipc.9000.cost-provider.impl", "org.apache.hadoop.ipc.WeightedTimeCostProvider");
        let users = ("ipc.9000.decay-scheduler.service-users", "hbase");
        for (at, settings, lacks) in [
            ("hdfs://one:9000", &[queue, cost, users][..], None),
            ("hdfs://one:9000/", &[queue, users], Some("ipc.9000.cost-provider.impl=")),
            ("hdfs://one:9000", &[queue, cost], Some("ipc.9000.decay-scheduler.service-users=")),
            ("hdfs://service", &[queue, cost, users], Some("ipc.8020.callqueue.impl=")),
        ] {
            let found = name_node(&site(&[&[("fs.defaultFS", at)], settings].concat()));
            let words = found.found.split_once("core-site.xml ").map(|(_, words)| words);
            assert_eq!(found.state == State::Ok, lacks.is_none(), "{found:?}");
            assert!(words.is_none_or(|words| words.starts_with(lacks.unwrap())), "{found:?}");
        }
    }

    #[test]
    fn limits_of_hbase_that_let_one_response_pass_the_bound_are_named() {
        let bound = ("headworks.responses.bytes-per-tenant", "67108864");
        let row = ("hbase.table.max.rowsize", "67108864");
        let batch = ("hbase.server.scanner.max.result.size", "1000000");
        for (settings, named) in [
            (&[bound][..], &[row.0, batch.0][..]),
            (&[bound, row], &[batch.0]),
            (&[bound, row, batch], &[]),
            (&[], &[]),
        ] {
            let found = large_responses(&site(settings));
            let whats: Vec<&str> = found.iter().map(|one| &*one.what).collect();
            assert_eq!(whats, named);
        }
    }

    #[test]
    fn settings_that_pass_the_queue_are_named() {
        let stock = Site::parse("<configuration/>").unwrap();
        assert_eq!(configuration(&stock)[0].state, State::Wrong);
        let ours = format!(
            "<configuration><property><name>{QUEUE_TYPE}</name><value>pluggable</value></property>\
             <property><name>{QUEUE_CLASS}</name><value>{OUR_QUEUE}</value></property>\
             <property><name>hbase.ipc.server.callqueue.read.ratio</name><value>0.5</value></property>\
             <property><name>hbase.ipc.server.callqueue.scan.ratio</name><value>1</value></property></configuration>"
        );
        let found = configuration(&Site::parse(&ours).unwrap());
        let states: Vec<State> = found.iter().map(|one| one.state).collect();
        assert_eq!(states, [State::Ok, State::Warning, State::Wrong], "{found:?}");
    }
}
