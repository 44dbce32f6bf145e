//! The scenarios that come with Headworks: for each system, a few workloads that show its problems.

/// A built-in scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// Name on the command line.
    pub name: &'static str,
    /// The system it is for. The remedied HBase also takes those of HBase.
    pub system: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! included {
    ($($system:literal: $name:literal,)*) => {
        [$(Included {
            name: $name,
            system: $system,
            text: include_str!(concat!("../scenarios/", $name, ".toml")),
        },)*]
    };
}

const SCENARIOS: [Included; 11] = included![
    "hbase": "hbase-isolation",
    "hbase": "hbase-replies",
    "hbase": "hbase-blocking",
    "hbase": "hbase-puts",
    "mongodb": "mongodb-updates",
    "mongodb": "mongodb-replication-stall",
    "cassandra": "cassandra-cold-neighbour",
    "riak": "riak-crowd",
    "riak": "riak-hot-partitions",
    "kafka": "kafka-lagging-consumer",
    "etcd": "etcd-ranges",
];

/// All of them, in the order of their systems.
pub fn all() -> &'static [Included] {
    &SCENARIOS
}

/// The one of a name.
pub fn find(name: &str) -> Option<&'static Included> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
