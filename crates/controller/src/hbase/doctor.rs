//! What is enforced: by node, table, tenant and stage; and what is not, and why.

use crate::hbase::edit::{OUR_QUEUE, QUEUE_CLASS, QUEUE_TYPE};
use crate::hbase::figures::{self, Figures, Page};
use crate::hbase::site::Site;
use crate::hbase::{jmx, queues, settings};
use std::collections::BTreeSet;

/// What makes a server's queues of calls.
const SCHEDULER_FACTORY: &str = "hbase.region.server.rpc.scheduler.factory.class";
const USUAL_FACTORY: &str = ".SimpleRpcSchedulerFactory";

/// Version of plug-in and agent that belong to this program.
pub const VERSION: u64 = 4;

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

impl Finding {
    /// As it is printed.
    pub fn line(&self) -> String {
        let word = match self.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Wrong => "WRONG  ",
        };
        format!("{word}  {}: {}", self.what, self.found.replace('\n', "\n       "))
    }
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
    if let Some(class) = site.get(SCHEDULER_FACTORY).filter(|class| !class.ends_with(USUAL_FACTORY))
    {
        let (state, words) = if class.ends_with(".FifoRpcSchedulerFactory") {
            (
                State::Wrong,
                "it has no call queues, so nothing is ordered\n  mend: take this setting out",
            )
        } else {
            (State::Warning, "what it keeps in other queues than HBase's is not ordered")
        };
        found.push(finding(state, SCHEDULER_FACTORY, format!("{class}: {words}")));
    }
    for (name, value) in site.all(settings::OURS) {
        if let Err(words) = settings::check(name, value) {
            found.push(finding(State::Wrong, name, format!("{value}: {words}")));
        }
    }
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
    let others = figures.jars.iter().chain([&figures.version]).find(|version| **version != VERSION);
    let mut more = Vec::new();
    if !figures.lacks.is_empty() {
        let words = format!("the agent leaves out:\n{}", figures.lacks.join("\n"));
        more.push(finding(State::Wrong, &*what, words));
    }
    if figures.controller.ends_with("the last weights stay") {
        let words = format!("controller: {}", figures.controller);
        more.push(finding(State::Warning, &*what, words));
    }
    let found = if let Some(version) = others {
        let words = format!(
            "version {version} of plug-in or agent, and this program expects {VERSION} of both\n  mend: copy both jars there, and restart it"
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
    more.insert(0, found);
    (Node { figures, tables: tables(page) }, more)
}

/// Looks at masters. They read the same configuration, and need the plug-in's jar for it.
pub fn masters(addresses: &BTreeSet<String>) -> Vec<Finding> {
    if addresses.is_empty() {
        let words = "neither hbase.masters nor the file backup-masters names one, so none was asked. \
                     They read this hbase-site.xml, and do not start without the plug-in's jar";
        return vec![finding(State::Ok, "masters", words)];
    }
    let one = |address: &String| {
        let what = format!("master {address}");
        let page = Page { address: address.clone(), region_server: true };
        match figures::ask(&page) {
            Ok(Some(figures)) if figures.version == VERSION => {
                finding(State::Ok, what, "plug-in: administration is ordered by tenant, too")
            }
            Ok(Some(figures)) => {
                let words = format!(
                    "version {} of the plug-in, and this program expects {VERSION}\n  mend: copy the jar there, and restart it",
                    figures.version
                );
                finding(State::Wrong, what, words)
            }
            Ok(None) => {
                let words = "it has another configuration: no plug-in is loaded\n  mend: copy \
                             jar and hbase-site.xml there, and restart it";
                finding(State::Warning, what, words)
            }
            Err(error) => finding(State::Warning, what, format!("{error:#}")),
        }
    };
    addresses.iter().map(one).collect()
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
            ("{\"beans\":[{\"Version\":4,\"Agent\":false}]}", "no agent"),
            ("{\"beans\":[{\"Version\":4,\"Agent\":true,\"Several\":true}]}", "plug-in and agent"),
            // Both jars have the same classes, and only each itself knows its version.
            (
                "{\"beans\":[{\"Version\":4,\"Agent\":true,\"AgentVersion\":3,\"PluginVersion\":4}]}",
                "version 3 of plug-in or agent",
            ),
            ("<html>", "does not answer by JSON"),
            ("{\"beans\":[{\"Version\":4,\"Tenants\":\"[7]\"}]}", "Tenants cannot be read"),
        ] {
            let page = page(answer);
            let (_, found) = node(&page);
            assert!(
                found[0].what.ends_with(&page.address) && found[0].found.contains(words),
                "{found:?}"
            );
        }
        let page = page(
            "{\"beans\":[{\"Version\":4,\"Agent\":true,\"Lacks\":\"X for Y: no such class\",\
             \"Controller\":\"a:1: its settings cannot be read; the last weights stay\"}]}",
        );
        let (_, found) = node(&page);
        let all: Vec<String> = found.iter().map(Finding::line).collect();
        let all = all.join("\n");
        assert!(all.contains("X for Y") && all.contains("settings cannot be read"), "{all}");
        for (answer, state) in [
            ("{\"beans\":[{\"Version\":4}]}", State::Ok),
            ("{\"beans\":[{\"Version\":3}]}", State::Wrong),
            ("{\"beans\":[]}", State::Warning),
        ] {
            let found = masters(&BTreeSet::from([self::page(answer).address]));
            assert!(found[0].state == state && found[0].what.starts_with("master "), "{found:?}");
        }
        assert!(masters(&BTreeSet::new())[0].found.contains("none was asked"));
        let gone = Page { address: "127.0.0.1:1".into(), region_server: false };
        assert_eq!(node(&gone).1[0].state, State::Wrong);
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
