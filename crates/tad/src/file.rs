//! Reading a system file into a [`Tad`] and a scenario file into a [`Scenario`].
//!
//! Both are TOML. References are by name. Every mistake is reported with its line, why it is one
//! and what would fix it, and all of them at once: first those of single entries, and once these
//! are gone, those of the diagram as a whole (a stage that nothing feeds, a deadlock).
//!
//! # A system
//!
//! | key | meaning |
//! | --- | --- |
//! | `name`, `version`, `about`, `source` | the system and where its facts come from |
//! | `[[node]]` `name`, `title`, `count` (1) | a kind of machine |
//! | `[[node.resource]]` `name`, `title`, `kind` (its name), `rate`, `parallelism` (1), `quantum`, `seek` | `kind` is cpu, io, network, lock or custom; a lock has no rate; `quantum = "1 ms"` serves in turns; `seek = ["4 ms", "12 ms"]` is a disk with an arm |
//! | `[[process]]` `name`, `title`, `node` | an address space |
//! | `[[stage]]` `name`, `title`, `process`, `threads`, `threads-label`, `queue`, `uses`, `instances` (1), `asynchronous` | `threads = 30` or `"on-demand"`; `queue = { explicit, pluggable, ordered = true or "per-client", policy }`; `uses = ["cpu", "io?"]`, with `?` for square brackets |
//! | `[[flow]]` `from`, `to`, `kind` (data), `label`, `remote` | an arrow; `clients` or a stage at its ends; `kind` is data, blocking (`from` waits for `to`) or information |
//! | `[[request]]` `name`, `about`, `parameters`, `first` (the first step), `answered-by` | `parameters = { reply = "10 KB" }` with defaults; what one counts follows from where it is used |
//! | `[[request.step]]` `name`, `stage`, `at` (same), `uses`, `cache`, `submits`, `waits`, `calls`, `uses-after`, `then` | `at` is same, any, other, partition, origin or `node 3`; `uses = ["cpu 100 us", "network $reply"]` or a table; `calls` is `submits` and `waits` in one; `cache = { name = "c", entries = 1000, keys = 10000, skips = ["io"] }` looks for one of its client's keys, drawn as the load's `keys` says, and a hit saves those uses |
//! | `[[shared-queue]]` `name`, `stages`, `concurrency`, `policy` (drf) | stages that pull from one scheduler |
//! | `[[control]]` `do`, … | control logic: a remedy that leaves the architecture as it is |
//! | `[remedy.<problem>.<letter>]` `about`, `remedies`, `cost` | `cost` is what all of it costs to build, for `fix`; `remedies = [{ do = "unblock", stage = "worker" }]`; the keys are those of [`crate::remedy::Remedy`], with `period = "1 s"` for times |
//!
//! # A scenario
//!
//! | key | meaning |
//! | --- | --- |
//! | `name`, `about`, `duration` (60 s), `warmup` (0 s), `sample` (1 s), `policy`, `switch-cost` (0 s) | the whole |
//! | `[[client]]` `name`, `weight` (1) | whoever is served by weight |
//! | `[[client.load]]` `request`, `name` (the request's), `threads` with `think` or `rate` or `burst`, `parameters`, `entry` (any), `keys` (uniform) | `rate = 100` is requests a second; `burst = { count = 80, every = "1 s" }`; `entry` is any, partition, each or `node 1`; `keys` is uniform, `{ zipf = 0.9 }` or `{ partition = 3 }` |
//! | `[[change]]` `at`, and `client` with `[[change.load]]` or `node`, `resource`, `rate` | what changes on the way |

mod amounts;
mod error;
mod remedies;
mod request;
mod resource;
mod scenario;
mod section;
mod step;
mod system;
#[cfg(test)]
mod tests;
mod whole;
mod write;

pub use error::{FileError, FileErrors};
pub use write::{write_scenario, write_tad};

use crate::model::Tad;
use crate::remedy::Remedy;
use crate::scenario::Scenario;
use error::{Report, Span};
use section::Section;
use toml::Spanned;
use toml::de::DeTable;

/// What was read, and what is odd about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// What was read.
    pub value: T,
    /// What is probably not meant so, though it can be.
    pub warnings: Vec<FileError>,
}

/// Where things of a system file are, for mistakes that show only in the whole.
#[derive(Debug, Default)]
struct Marks {
    /// Of each stage.
    stages: Vec<Span>,
    /// Of each item of `uses`, of each stage.
    uses: Vec<Vec<Span>>,
    /// Of each request.
    requests: Vec<Span>,
    /// Of each step, of each request.
    steps: Vec<Vec<Span>>,
}

/// Reads a system. `file` is its name in messages.
pub fn read_tad(file: &str, text: &str) -> Result<Loaded<Tad>, FileErrors> {
    let mut report = Report::new(file, text);
    let root = parse(&mut report, text);
    if !report.clean() {
        return report.finish(None);
    }
    let mut marks = Marks::default();
    let mut section = Section::new(root.get_ref(), 0..0, "the system");
    let tad = system::read(&mut section, &mut report, &mut marks);
    section.finish(&mut report);
    if report.clean() {
        whole::check(&tad, &marks, &mut report);
    }
    report.finish(Some(tad))
}

/// Reads a scenario for a system. `file` is its name in messages.
pub fn read_scenario(file: &str, text: &str, tad: &Tad) -> Result<Loaded<Scenario>, FileErrors> {
    let mut report = Report::new(file, text);
    let root = parse(&mut report, text);
    if !report.clean() {
        return report.finish(None);
    }
    let mut section = Section::new(root.get_ref(), 0..0, "the scenario");
    let scenario = scenario::read(&mut section, &mut report, tad);
    section.finish(&mut report);
    report.finish(Some(scenario))
}

/// Reads `remedies = [{ do = "…" }, …]` for a system, as a `[remedy.…]` has it.
pub fn read_remedies(file: &str, text: &str, tad: &Tad) -> Result<Vec<Remedy>, FileErrors> {
    let mut report = Report::new(file, text);
    let root = parse(&mut report, text);
    if !report.clean() {
        return report.finish(None).map(|loaded| loaded.value);
    }
    let mut section = Section::new(root.get_ref(), 0..0, "the list of remedies");
    let remedies = remedies::read_alone(&mut section, &mut report, tad);
    section.finish(&mut report);
    report.finish(Some(remedies)).map(|loaded| loaded.value)
}

/// Parses the TOML, with an error for every mistake in it.
fn parse<'i>(report: &mut Report, text: &'i str) -> Spanned<DeTable<'i>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        report.error(
            &error.span().unwrap_or(0..0),
            format!("this is no TOML: {}", error.message()),
            "See https://toml.io for the notation; a text stands in \"quotes\".",
        );
    }
    root
}
