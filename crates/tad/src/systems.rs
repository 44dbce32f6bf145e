//! The built-in systems.

/// Name and text of each, in the order of Table 4.5; then the remedied HBase, and what was written
/// from documents.
const SYSTEMS: [(&str, &str); 7] = [
    ("hbase", include_str!("../systems/hbase.toml")),
    ("mongodb", include_str!("../systems/mongodb.toml")),
    ("cassandra", include_str!("../systems/cassandra.toml")),
    ("riak", include_str!("../systems/riak.toml")),
    ("hbase-maat", include_str!("../systems/hbase-maat.toml")),
    ("kafka", include_str!("../systems/kafka.toml")),
    ("etcd", include_str!("../systems/etcd.toml")),
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().map(|(name, _)| *name)
}

/// The file of a system.
pub fn text(name: &str) -> Option<&'static str> {
    SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Small systems, each with one of the five problems (dissertation, section 4.2), in the order of
/// the problems.
const PROBLEMS: [(&str, &str); 5] = [
    ("no-scheduling", include_str!("../systems/problems/no-scheduling.toml")),
    ("unknown-usage", include_str!("../systems/problems/unknown-usage.toml")),
    ("hidden-contention", include_str!("../systems/problems/hidden-contention.toml")),
    ("blocking", include_str!("../systems/problems/blocking.toml")),
    ("ordering", include_str!("../systems/problems/ordering.toml")),
];

/// The names of the small systems with one problem each.
pub fn problem_names() -> impl Iterator<Item = &'static str> {
    PROBLEMS.iter().map(|(name, _)| *name)
}

/// The file of a small system.
pub fn problem_text(name: &str) -> Option<&'static str> {
    PROBLEMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
