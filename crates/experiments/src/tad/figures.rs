//! The figures, in the order of the dissertation.

use std::sync::LazyLock;

use super::figure::Figure;

const FILES: [&str; 24] = [
    include_str!("figures/no-scheduling.toml"),
    include_str!("figures/unknown-usage.toml"),
    include_str!("figures/hidden-contention.toml"),
    include_str!("figures/blocking.toml"),
    include_str!("figures/ordering.toml"),
    include_str!("figures/hbase-no-scheduling.toml"),
    include_str!("figures/hbase-unknown-usage.toml"),
    include_str!("figures/hbase-hidden-contention.toml"),
    include_str!("figures/hbase-convergence.toml"),
    include_str!("figures/hbase-blocking.toml"),
    include_str!("figures/hbase-predictions.toml"),
    include_str!("figures/hbase-handlers.toml"),
    include_str!("figures/hbase-ordering.toml"),
    include_str!("figures/hbase-ordering-latency.toml"),
    include_str!("figures/hbase-weights.toml"),
    include_str!("figures/mongodb-unknown-usage.toml"),
    include_str!("figures/mongodb-hidden-contention.toml"),
    include_str!("figures/mongodb-blocking.toml"),
    include_str!("figures/cassandra-unknown-usage.toml"),
    include_str!("figures/cassandra-blocking.toml"),
    include_str!("figures/cassandra-hidden-contention.toml"),
    include_str!("figures/riak-no-scheduling.toml"),
    include_str!("figures/riak-unknown-usage.toml"),
    include_str!("figures/riak-hidden-contention.toml"),
];

/// All of them. The files are part of the program, and a test reads them.
pub(super) static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let read = |text: &&str| toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    FILES.iter().map(read).collect()
});

/// The figure of an experiment.
#[cfg(test)]
pub(super) fn figure(id: &str) -> &'static Figure {
    FIGURES.iter().find(|figure| figure.id == id).expect(id)
}
