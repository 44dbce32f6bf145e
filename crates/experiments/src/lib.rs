//! Every headline experiment of the papers, as something a command can run.
//!
//! [`list`] names them, [`run`] collects, analyses and draws, and [`report`] does the last two
//! again from an old record. Collecting, analysing and drawing are separate modules of each
//! experiment, and everything that was measured is kept raw in `DIR/ID.json`.

mod apples;
mod demo;
mod everyday;
mod experiment;
mod gate_mariadb;
mod gate_postgres;
mod gate_redis;
mod hbase;
mod html;
mod index;
mod interrupt;
mod learn;
mod lruc;
mod neighbours;
mod progress;
mod record;
mod recorder;
mod registry;
mod running;
mod served;
mod split;
mod sweep;
mod table;
mod tad;
mod work;

pub use experiment::{Experiment, Outcome, RunOptions};
pub use interrupt::Interrupted;
pub use learn::learn_host;
pub use record::{Header, Verdict};
pub use recorder::{planted_server, random_server};
pub use registry::{find, list, report, run};
pub use split::file_load;
