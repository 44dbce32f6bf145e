//! Amounts, rates and times in a file.

use super::error::Report;
use super::section::{Section, Text};
use crate::units::{self, Dimension, UnitError};

/// The value of a quantity, or a report of why it is none.
pub(super) fn quantity<T>(
    report: &mut Report,
    text: &Text,
    value: Result<T, UnitError>,
    example: &str,
) -> Option<T> {
    match value {
        Ok(value) => Some(value),
        Err(error) => {
            report.error(
                &text.at,
                error.to_string(),
                format!("Write, for instance, \"{example}\"."),
            );
            None
        }
    }
}

/// An example of an amount.
pub(super) fn example(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Cycles => "100 us",
        Dimension::Bytes => "64 KB",
        Dimension::Time => "100 us",
        Dimension::Operations => "1 op",
    }
}

/// A span of time that may be missing, in nanoseconds.
pub(super) fn time(
    section: &mut Section,
    report: &mut Report,
    key: &'static str,
    default_ns: u64,
) -> u64 {
    let Some(text) = section.text(report, key) else { return default_ns };
    quantity(report, &text, units::time(&text.text), "100 ms").unwrap_or(default_ns)
}

/// A span of time that must not be zero, in nanoseconds.
pub(super) fn some_time(
    section: &mut Section,
    report: &mut Report,
    key: &'static str,
    default_ns: u64,
) -> u64 {
    let time_ns = time(section, report, key, default_ns);
    if time_ns == 0 {
        report.error(
            &section.at(key),
            format!("`{key}` is zero: simulated time would stand still"),
            "Write a time of at least \"1 ns\".",
        );
        return default_ns.max(1);
    }
    time_ns
}
