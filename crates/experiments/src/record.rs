//! What every experiment's record has in common, and how records are written.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use headworks_rig::machine::Machine;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The head of every `ID.json`: what was run, when and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    /// The experiment's id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The paper whose claim it tests.
    pub paper: String,
    /// The figure or section of that paper.
    pub figure: String,
    /// When the run began, in seconds since 1970.
    pub recorded_at_unix_s: u64,
    /// Whether this was a quick run, which shows that everything works but measures nothing well.
    pub quick: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// Where it ran.
    pub machine: Machine,
}

/// One claim held against what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What should be true.
    pub statement: String,
    /// What the paper reports.
    pub paper: String,
    /// What was measured; `None` when the arms it needs did not run.
    pub ours: Option<f64>,
    /// The unit of `ours`.
    pub unit: String,
    /// Whether the statement is true of what was measured: whether the trend is the paper's.
    pub holds: bool,
    /// `ours` in parts of the paper's number, if it gives one: a trend may be right and far off.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Numbers in the paper's own units, ours and the paper's.
    #[serde(default)]
    pub absolute: String,
    /// What to keep in mind.
    pub note: String,
}

/// What the index needs of any record.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    pub(crate) header: Header,
    pub(crate) verdicts: Vec<Verdict>,
}

/// Seconds since 1970.
pub(crate) fn unix_now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `2026-02-28 13:05 UTC` (the calendar after Hinnant's days-to-civil).
pub(crate) fn utc(unix_s: u64) -> String {
    let days = (unix_s / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let minutes = unix_s % 86_400 / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Writes JSON that people can read: objects over several lines, lists of numbers on one.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let mut bytes = Vec::new();
    let mut serializer =
        Serializer::with_formatter(&mut bytes, Readable(PrettyFormatter::with_indent(b" ")));
    value.serialize(&mut serializer)?;
    bytes.push(b'\n');
    write_file(path, &bytes)
}

/// Writes a file whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let staged = path.with_extension("partial");
    fs::write(&staged, bytes)
        .and_then(|()| fs::rename(&staged, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a record back.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let bytes =
        fs::read(path).with_context(|| format!("cannot read the record {}", path.display()))?;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is not a record of this experiment", path.display()))
}

struct Readable(PrettyFormatter<'static>);

impl Formatter for Readable {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_out_right() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        // 2024 has a leap day: 19 782 days after 1970 it is the 29th of February.
        assert_eq!(utc(19_782 * 86_400 + 13 * 3600 + 5 * 60), "2024-02-29 13:05 UTC");
        assert_eq!(utc(19_783 * 86_400), "2024-03-01 00:00 UTC");
    }

    #[test]
    fn lists_of_numbers_stay_on_one_line() {
        let path =
            std::env::temp_dir().join(format!("headworks-record-{}.json", std::process::id()));
        let value = serde_json::json!({"a": [1, 2, 3], "b": [{"c": 1.5}]});
        write_json(&path, &value).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("[1,2,3]"), "{text}");
        assert_eq!(read_json::<serde_json::Value>(&path).unwrap(), value);
        fs::remove_file(&path).unwrap();
    }
}
