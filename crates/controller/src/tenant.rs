//! What an operator sets for a tenant, and in which ranges. Numbers come from commands, files and
//! keys that anyone may have written: what is out of range counts as not set, and is told.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Weights that nodes take.
pub const WEIGHTS: RangeInclusive<f64> = 0.001..=1e6;

/// Requests, or transactions, a second.
pub const RATES: RangeInclusive<f64> = 0.001..=1e12;

/// Longest name, in characters.
const NAME_MAX: usize = 256;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its share compared to others. One, if nothing is said.
    #[serde(default = "one")]
    pub weight: f64,
    /// Requests a second on all nodes together.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Transactions a second that stores are to make possible.
    #[serde(default)]
    pub target: Option<f64>,
    /// What a later version has set: it stays.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

fn one() -> f64 {
    1.0
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant { weight: 1.0, limit: None, target: None, more: BTreeMap::new() }
    }
}

/// By name.
pub type Settings = BTreeMap<String, Tenant>;

impl Tenant {
    /// See [`Tenant::weight`].
    pub fn weight(&self) -> f64 {
        if WEIGHTS.contains(&self.weight) { self.weight } else { 1.0 }
    }

    /// See [`Tenant::limit`].
    pub fn limit(&self) -> Option<f64> {
        self.limit.filter(|limit| RATES.contains(limit))
    }

    /// See [`Tenant::target`].
    pub fn target(&self) -> Option<f64> {
        self.target.filter(|target| RATES.contains(target))
    }
}

/// What counts as not set, in words.
pub fn faults(settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    for (name, set) in settings {
        if let Err(error) = name_is_one(name) {
            found.push(format!("{name:?} is left out: {error}"));
        }
        let values = [
            ("weight", Some(set.weight), &WEIGHTS),
            ("limit", set.limit, &RATES),
            ("target", set.target, &RATES),
        ];
        for (what, value, range) in values {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                let (least, most) = (range.start(), range.end());
                found.push(format!(
                    "{name}: the {what} {value} counts as not set: it is not from {least} to {most}"
                ));
            }
        }
    }
    found
}

/// Lines carry names: one must not end a line.
///
/// # Errors
/// It is no name.
pub fn name_is_one(name: &str) -> Result<()> {
    ensure!(!name.trim().is_empty(), "the tenant has no name");
    ensure!(!name.contains(char::is_control), "the tenant's name has control characters");
    ensure!(
        name.chars().count() <= NAME_MAX,
        "the tenant's name has more than {NAME_MAX} characters"
    );
    Ok(())
}

/// Reads a number of a command.
///
/// # Errors
/// The text is no number, or the number is out of range.
pub fn number(text: &str, range: &RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("write a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_counts_as_not_set_and_is_told() {
        for wrong in ["nan", "inf", "-1", "0", "1e300", "three", ""] {
            assert!(number(wrong, &WEIGHTS).is_err(), "{wrong}");
        }
        let text = r#"{"bob": {"weight": -3, "limit": 1e300, "target": 5, "note": "x"},
                       "a\nfence 9": {"weight": 2}}"#;
        let settings: Settings = serde_json::from_str(text).unwrap();
        let bob = &settings["bob"];
        assert_eq!((bob.weight(), bob.limit(), bob.target()), (1.0, None, Some(5.0)));
        let told = faults(&settings).join("\n");
        for words in ["bob: the weight -3", "bob: the limit", "control characters"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(!told.contains("target"), "{told}");
        let again: Settings =
            serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
        assert_eq!(again, settings, "what is not known is kept");
    }
}
