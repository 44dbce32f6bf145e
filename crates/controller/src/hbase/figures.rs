//! What the plug-in and the agent say of themselves by JMX.

use crate::hbase::jmx;
use crate::hbase::site::Site;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const SCHEDULER: &str = "headworks:type=Scheduler";
/// The one stage that a DataNode has. All others are in region servers.
const DATA_NODE: &str = "Data Xceiver";

/// A node's page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// `HOST:PORT`.
    pub address: String,
    /// Region server, or DataNode.
    pub region_server: bool,
}

impl Page {
    /// What kind of node has it.
    pub fn kind(&self) -> &'static str {
        if self.region_server { "region server" } else { "DataNode" }
    }
}

/// What plug-in and agent of one node say. A field that an older version does not have is empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Of plug-in and agent.
    pub version: u64,
    /// The agent is installed.
    pub agent: bool,
    /// Versions of the jars of agent and plug-in, where they are there and say it.
    pub jars: Vec<u64>,
    /// What the agent could not change.
    pub lacks: Vec<String>,
    /// More than one tenant was seen, so that requests are ordered.
    pub several: bool,
    /// What is known of controllers.
    pub controller: String,
    /// The stages that such a node has.
    pub stages: Vec<Stage>,
    /// The tenants with the most requests.
    pub tenants: Vec<Tenant>,
}

/// A stage of one node. Counts are since the node's start.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// Why it orders nothing; the empty text: it does.
    pub why: String,
    /// Requests that wait now.
    pub queued: u64,
    /// Requests that were served.
    pub served: u64,
    /// Of them those that had waited.
    pub waited: u64,
    /// Requests that went on without a permit, as they had waited for too long.
    pub passed: u64,
}

/// A tenant at one node. Counts are since the node's start.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its weight there.
    pub weight: f64,
    /// Bytes of responses that the client has not read.
    pub unread: u64,
    /// Open connections of its users.
    pub connections: u64,
    /// Calls that were answered by an exception, by its name.
    pub failed: BTreeMap<String, u64>,
    /// Served requests by stage.
    pub served: BTreeMap<String, u64>,
    /// Microseconds for which its work would keep all of a resource busy, by resource.
    pub used_us: BTreeMap<String, u64>,
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant {
            name: String::new(),
            weight: 1.0,
            unread: 0,
            connections: 0,
            failed: BTreeMap::new(),
            served: BTreeMap::new(),
            used_us: BTreeMap::new(),
        }
    }
}

/// The pages of all nodes, by the lists and ports of a configuration.
///
/// # Errors
/// A file of the configuration cannot be read.
pub fn pages(conf: &Path, hadoop_conf: Option<&Path>) -> Result<Vec<Page>> {
    let hbase = Site::load(&conf.join("hbase-site.xml"))?;
    let port = hbase.number("hbase.regionserver.info.port", 16_030.0);
    let page = |host: String, port: &str, region_server| Page {
        address: format!("{host}:{port}"),
        region_server,
    };
    let servers = hosts(&conf.join("regionservers")).into_iter();
    let mut pages: Vec<Page> = servers.map(|host| page(host, &port.to_string(), true)).collect();
    if let Some(hadoop) = hadoop_conf {
        let hdfs = Site::load(&hadoop.join("hdfs-site.xml"))?;
        let address = hdfs.get("dfs.datanode.http.address").unwrap_or("0.0.0.0:9864");
        let port = address.rsplit_once(':').map_or("9864", |(_, port)| port);
        let hosts = hosts(&hadoop.join("workers")).into_iter();
        pages.extend(hosts.map(|host| page(host, port, false)));
    }
    // A host may be in a list twice.
    let mut seen = BTreeSet::new();
    pages.retain(|page| seen.insert(page.address.clone()));
    Ok(pages)
}

/// Addresses of the masters' pages, as far as a list names them: `hbase.masters`, `backup-masters`.
///
/// # Errors
/// A file of the configuration cannot be read.
pub fn masters(conf: &Path) -> Result<BTreeSet<String>> {
    let hbase = Site::load(&conf.join("hbase-site.xml"))?;
    let port = hbase.number("hbase.master.info.port", 16_010.0);
    let listed = hbase.get("hbase.masters").unwrap_or_default().split(',').map(str::trim);
    let listed = listed.filter(|one| !one.is_empty());
    let host = |one: &str| one.rsplit_once(':').map_or(one, |(host, _)| host).to_owned();
    let all = listed.map(host).chain(hosts(&conf.join("backup-masters")));
    Ok(all.map(|host| format!("{host}:{port}")).collect())
}

fn hosts(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Asks a node. None: it has neither plug-in nor agent.
///
/// # Errors
/// It does not answer, or with what cannot be read.
pub fn ask(page: &Page) -> Result<Option<Figures>> {
    let bean = jmx::bean(&page.address, SCHEDULER)?;
    bean.map(|bean| read(&bean, page.region_server)).transpose()
}

fn read(bean: &Value, region_server: bool) -> Result<Figures> {
    let mut stages: Vec<Stage> = list(bean, "Stages")?;
    stages.retain(|stage| (stage.stage != DATA_NODE) == region_server);
    let jars = ["AgentVersion", "PluginVersion"].iter().filter_map(|name| bean[name].as_u64());
    let lacks = bean["Lacks"].as_str().unwrap_or_default().lines();
    Ok(Figures {
        version: bean["Version"].as_u64().unwrap_or(0),
        jars: jars.filter(|version| *version > 0).collect(),
        lacks: lacks.map(str::to_owned).collect(),
        agent: bean["Agent"] == true,
        several: bean["Several"] == true,
        controller: bean["Controller"].as_str().unwrap_or_default().to_owned(),
        stages,
        tenants: list(bean, "Tenants")?,
    })
}

/// A list that the bean has as a text. An old version may have none.
fn list<T: DeserializeOwned>(bean: &Value, name: &str) -> Result<Vec<T>> {
    let Some(text) = bean[name].as_str() else { return Ok(Vec::new()) };
    serde_json::from_str(text)
        .with_context(|| format!("{name} cannot be read: is the plug-in of another version?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_listed_twice_is_asked_once_and_a_mark_is_a_comment() {
        let dir = std::env::temp_dir().join(format!("headworks-hosts-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("hbase-site.xml"), "<configuration/>").unwrap();
        std::fs::write(dir.join("regionservers"), "a\n# b\n\na # again\nc\n").unwrap();
        let pages = pages(&dir, None).unwrap();
        let addresses: Vec<&str> = pages.iter().map(|page| &*page.address).collect();
        assert_eq!(addresses, ["a:16030", "c:16030"]);
        assert!(masters(&dir).unwrap().is_empty());
        std::fs::write(dir.join("backup-masters"), "b\n").unwrap();
        let site = "<configuration><property><name>hbase.masters</name><value>a:16000, b:16000\
                    </value></property></configuration>";
        std::fs::write(dir.join("hbase-site.xml"), site).unwrap();
        let all: Vec<String> = masters(&dir).unwrap().into_iter().collect();
        assert_eq!(all, ["a:16010", "b:16010"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
