//! Figures of all nodes for Prometheus, in its text format.

use crate::hbase::figures::{Figures, Page, Stage, Tenant};
use crate::hbase::show::Look;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A name, its kind and its help.
type Family = (&'static str, &'static str, &'static str);
/// With where its value is.
type Of<T> = (Family, fn(&T) -> f64);

const UP: Family = ("up", "gauge", "1 if the node tells its figures");
const STAGES: [Of<Stage>; 5] = [
    (("stage_enforced", "gauge", "1 if the stage orders requests by tenant"), |stage| {
        f64::from(u8::from(stage.why.is_empty()))
    }),
    (("stage_queued", "gauge", "requests that wait"), |stage| stage.queued as f64),
    (("stage_requests_total", "counter", "requests that were served"), |stage| stage.served as f64),
    (("stage_waited_total", "counter", "served requests that had waited"), |stage| {
        stage.waited as f64
    }),
    (
        (
            "stage_passed_total",
            "counter",
            "requests that went on without a permit, as they had waited for too long",
        ),
        |stage| stage.passed as f64,
    ),
];
const TENANTS: [Of<Tenant>; 3] = [
    (("tenant_weight", "gauge", "weight of the tenant there"), |tenant| tenant.weight),
    (
        ("tenant_unread_bytes", "gauge", "responses that the tenant's clients have not read"),
        |tenant| tenant.unread as f64,
    ),
    (("tenant_connections", "gauge", "open connections of the tenant's users"), |tenant| {
        tenant.connections as f64
    }),
];
const REQUESTS: Family =
    ("tenant_requests_total", "counter", "requests of the tenant that a stage has served");
const FAILED: Family = (
    "tenant_failed_total",
    "counter",
    "calls of the tenant that were answered by an exception, by its name",
);
const USED: Family = (
    "tenant_used_seconds_total",
    "counter",
    "time for which the tenant's work would keep all of the resource busy",
);

/// A board for Grafana that shows all of this: JSON to import there.
pub const BOARD: &str = include_str!("board.json");

/// The text of a scrape. Times are in seconds, sizes in bytes.
pub fn text(look: &Look) -> String {
    let mut text = String::new();
    head(&mut text, UP);
    for node in &look.nodes {
        sample(&mut text, UP.0, &node.page, "", f64::from(u8::from(node.figures.is_some())));
    }
    let mut add = |family: Family, of: &dyn Fn(&Figures) -> Vec<(String, f64)>| {
        head(&mut text, family);
        for node in &look.nodes {
            for (labels, value) in node.figures.as_ref().map(of).unwrap_or_default() {
                sample(&mut text, family.0, &node.page, &labels, value);
            }
        }
    };
    for (family, of) in STAGES {
        add(family, &|figures| {
            figures.stages.iter().map(|one| (label("stage", &one.stage), of(one))).collect()
        });
    }
    for (family, of) in TENANTS {
        add(family, &|figures| {
            figures.tenants.iter().map(|one| (label("tenant", &one.name), of(one))).collect()
        });
    }
    add(REQUESTS, &|figures| by(figures, "stage", |tenant| &tenant.served, 1.0));
    add(FAILED, &|figures| by(figures, "exception", |tenant| &tenant.failed, 1.0));
    add(USED, &|figures| by(figures, "resource", |tenant| &tenant.used_us, 1e-6));
    text
}

fn by(
    figures: &Figures,
    key: &str,
    of: fn(&Tenant) -> &BTreeMap<String, u64>,
    unit: f64,
) -> Vec<(String, f64)> {
    let all =
        figures.tenants.iter().flat_map(|tenant| of(tenant).iter().map(move |of| (tenant, of)));
    all.map(|(tenant, (name, value))| {
        (label("tenant", &tenant.name) + &label(key, name), *value as f64 * unit)
    })
    .collect()
}

/// A label behind others. Tenants choose their names.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!(",{name}=\"{value}\"")
}

fn head(text: &mut String, (name, kind, help): Family) {
    let _ = writeln!(
        text,
        "# HELP headworks_hbase_{name} {help}\n# TYPE headworks_hbase_{name} {kind}"
    );
}

fn sample(text: &mut String, name: &str, page: &Page, labels: &str, value: f64) {
    let (node, kind) = (&page.address, page.kind());
    let _ =
        writeln!(text, "headworks_hbase_{name}{{node=\"{node}\",kind=\"{kind}\"{labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbase::show;
    use std::io::{Read, Write};

    #[test]
    fn the_board_asks_for_what_there_is_and_for_all_of_it() {
        let board: serde_json::Value = serde_json::from_str(BOARD).unwrap();
        let mut asked = std::collections::BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let words = target["expr"].as_str().unwrap();
                let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                asked.extend(words.filter(|word| word.starts_with("headworks_")));
            }
        }
        let scrape = text(&show::Look { nodes: Vec::new() });
        let told =
            scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        assert_eq!(asked, told.collect());
    }

    #[test]
    fn a_scrape_has_each_node_stage_and_tenant_whatever_their_names() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.read(&mut [0; 1024]);
                let stages = r#"[{"stage":"RPC Handle","why":"","queued":2,"served":9}]"#;
                let tenants = r#"[{"name":"a\"b","weight":2,"unread":7,"connections":3,"failed":{"RegionTooBusyException":2},"served":{"RPC Handle":5},"used_us":{"disk":1500000}}]"#;
                let bean = serde_json::json!({"beans": [{"Version": 2, "Stages": stages, "Tenants": tenants}]});
                let _ = client.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{bean}").as_bytes());
            }
        });
        let page = Page { address: address.clone(), region_server: true };
        let gone = Page { address: "127.0.0.1:1".to_owned(), region_server: false };
        let text = text(&show::look(&[page, gone]));
        let node = format!("node=\"{address}\",kind=\"region server\"");
        for line in [
            format!("up{{{node}}} 1\n"),
            "up{node=\"127.0.0.1:1\",kind=\"DataNode\"} 0\n".to_owned(),
            format!("stage_enforced{{{node},stage=\"RPC Handle\"}} 1\n"),
            format!("stage_queued{{{node},stage=\"RPC Handle\"}} 2\n"),
            format!("tenant_unread_bytes{{{node},tenant=\"a\\\"b\"}} 7\n"),
            format!("tenant_connections{{{node},tenant=\"a\\\"b\"}} 3\n"),
            format!(
                "tenant_failed_total{{{node},tenant=\"a\\\"b\",exception=\"RegionTooBusyException\"}} 2\n"
            ),
            format!("tenant_requests_total{{{node},tenant=\"a\\\"b\",stage=\"RPC Handle\"}} 5\n"),
            format!(
                "tenant_used_seconds_total{{{node},tenant=\"a\\\"b\",resource=\"disk\"}} 1.5\n"
            ),
        ] {
            assert!(text.contains(&format!("headworks_hbase_{line}")), "{line}: {text}");
        }
    }
}
