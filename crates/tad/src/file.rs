//! Reading a system file into a [`Tad`] and a scenario file into a [`Scenario`].
//!
//! Both are TOML. References are by name. Every mistake is reported with its line, why it is one
//! and what would fix it, and all of them at once: first those of single entries, and once these
//! are gone, those of the diagram as a whole (a stage that nothing feeds, a deadlock).
//!
//! All keys, with an example: docs/diagram-files.md.

mod amounts;
mod arrows;
mod error;
mod law;
mod marks;
mod names;
mod policy;
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

pub use error::{FileError, FileErrors, Loaded};
pub use write::{write_scenario, write_tad};

use crate::model::Tad;
use crate::remedy::Remedy;
use crate::scenario::Scenario;
use error::Report;
use marks::Marks;
use section::Section;
use toml::Spanned;
use toml::de::DeTable;

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
