//! What is compared: small systems that show one thing each, and a cluster.

use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::model::Tad;
use headworks_tad::remedy::{Problem, apply};
use headworks_tad::scenario::Scenario;
use headworks_tad::systems;

/// A system with remedies, and what its clients do.
pub struct Case {
    pub name: &'static str,
    system: &'static str,
    remedies: &'static [(Problem, &'static str)],
    clients: &'static str,
    seconds: u64,
}

const SMALL: &str = include_str!("../../reference/small.toml");

impl Case {
    /// Its system and scenario.
    pub fn read(&self) -> (Tad, Scenario) {
        let text = if self.system == "small" { Some(SMALL) } else { systems::text(self.system) };
        let mut tad = read_tad(self.system, text.expect("a system")).expect("a system").value;
        for (problem, letter) in self.remedies {
            let known = tad.remedies[problem].iter().find(|each| each.letter == *letter);
            for remedy in known.expect("a remedy").remedies.clone() {
                apply(&mut tad, &remedy).expect("a remedy that fits");
            }
        }
        let text = format!(
            "name = \"{}\"\nduration = \"{} s\"\nwarmup = \"1 s\"\npolicy = \"drf\"\n{}",
            self.name, self.seconds, self.clients
        );
        let scenario = read_scenario(self.name, &text, &tad);
        (tad, scenario.unwrap_or_else(|errors| panic!("{errors}")).value)
    }
}

/// In the order of Table 4.1's building blocks: a stage with a queue, one without, unknown usage, a
/// shared scheduler, blocking and not, an ordered queue; then seven nodes that talk to each other.
pub const CASES: &[Case] = &[
    Case {
        name: "on-demand stage",
        system: "small",
        remedies: &[],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "store", threads = 40 }] },
    { name = "C2", load = [{ request = "store", threads = 160 }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "two fair queues",
        system: "small",
        remedies: &[(Problem::NoScheduling, "d")],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "store", threads = 40 }] },
    { name = "C2", weight = 2.0, load = [{ request = "store", threads = 160, parameters = { io = "60 KB" } }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "unknown usage",
        system: "small",
        remedies: &[],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "cold", threads = 40 }] },
    { name = "C2", load = [{ request = "cold", threads = 40 }, { request = "cached", threads = 40 }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "hidden contention",
        system: "small",
        remedies: &[],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "reply", threads = 40 }] },
    { name = "C2", load = [{ request = "reply", threads = 40, parameters = { reply = "100 KB" } }] },
]"#,
        seconds: 6,
    },
    Case {
        name: "one shared scheduler",
        system: "small",
        remedies: &[(Problem::HiddenContention, "d")],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "reply", threads = 40 }] },
    { name = "C2", load = [{ request = "reply", threads = 40, parameters = { reply = "100 KB" } }] },
]"#,
        seconds: 6,
    },
    Case {
        name: "threads that block",
        system: "small",
        remedies: &[(Problem::NoScheduling, "d")],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "store-blocking", threads = 40, parameters = { io = "5 KB" } }] },
    { name = "C2", load = [{ request = "store-blocking", threads = 40 }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "threads that do not block",
        system: "small",
        remedies: &[(Problem::NoScheduling, "d"), (Problem::Blocking, "d")],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "store-blocking", threads = 40, parameters = { io = "5 KB" } }] },
    { name = "C2", load = [{ request = "store-blocking", threads = 40 }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "ordered queue",
        system: "small",
        remedies: &[],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "put", threads = 10 }] },
    { name = "C2", load = [{ request = "put", threads = 60, parameters = { io = "100 KB" } }] },
]"#,
        seconds: 11,
    },
    Case {
        name: "HBase gets, 7 nodes",
        system: "hbase",
        remedies: &[(Problem::NoScheduling, "d")],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "get", threads = 140 }] },
    { name = "C2", load = [{ request = "get", threads = 280 }, { request = "get-cached", threads = 20 }] },
]"#,
        seconds: 4,
    },
    Case {
        name: "HBase puts, 7 nodes",
        system: "hbase",
        remedies: &[],
        clients: r#"
client = [
    { name = "C1", load = [{ request = "put", threads = 70 }] },
    { name = "C2", load = [{ request = "put", threads = 140, parameters = { wal = "10 KB" } }] },
]"#,
        seconds: 2,
    },
];
