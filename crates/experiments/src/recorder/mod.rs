//! The recorder (`headworks tad record`) on systems that are known: random ones, and real servers
//! under load. What it finds is compared with what there is, and the diagram that it draws is
//! simulated beside the server.

mod cassandra;
mod expected;
mod hbase;
mod interval;
mod limits;
mod overhead;
mod points;
mod predict;
mod recorded;
mod servers;
mod site;
mod truth;

use crate::experiment::{Bench, Experiment};
pub use headworks_record::planted::serve as planted_server;
pub use headworks_record::truth::serve as random_server;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    truth::EXPERIMENT,
    limits::EXPERIMENT,
    servers::MARIADB,
    servers::POSTGRES,
    servers::REDIS,
    servers::WIREDTIGER,
    servers::CASSANDRA,
    hbase::EXPERIMENT,
    predict::EXPERIMENT,
    overhead::EXPERIMENT,
];

const fn experiment(
    id: &'static str,
    title: &'static str,
    (expected_s, expected_quick_s): (u64, u64),
    needs: &'static [&'static str],
    bench: &'static dyn Bench,
) -> Experiment {
    Experiment {
        id,
        title,
        paper: "Split and Maat",
        figure: "section 3.2",
        expected_s,
        expected_quick_s,
        needs,
        bench,
    }
}

/// Clients with which a server is measured, and those with which it is recorded.
const CLIENTS: [f64; 3] = [1.0, 8.0, 32.0];
const RECORDED: f64 = 8.0;
