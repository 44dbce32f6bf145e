//! Numbers that come from outside: by the configuration, a command, a post, a note, a key of etcd,
//! or a file of an earlier run.
//!
//! Each has bounds, and every way in asks here. What is not finite ends in a share that no one can
//! compute with, and in an answer that no command can read.

use serde::de::{Deserialize, Deserializer, Error as _};

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// See [`crate::apps::Key::Target`].
    Target,
    /// See [`crate::apps::Key::LatencyMs`].
    LatencyMs,
    /// See [`crate::apps::Key::Share`].
    Share,
    /// See [`crate::apps::Key::Weight`].
    Weight,
    /// See [`crate::apps::Key::Limit`].
    Limit,
    /// What an application achieved in a second, or what was asked of it.
    Achieved,
    /// A share that a target is supposed to need.
    Need,
    /// A share that an owner at a host asks for: more than there is, if the target needs that.
    Ask,
    /// Megabytes a second of token buckets.
    Rate,
    /// Milliseconds since what was achieved.
    AgeMs,
    /// Seconds between two looks.
    DelayS,
}

impl Number {
    /// Least and most.
    pub const fn bounds(self) -> (f64, f64) {
        match self {
            Number::Target | Number::LatencyMs => (1e-6, 1e12),
            Number::Share | Number::Limit | Number::Need => (1e-4, 1.0),
            Number::Ask => (1e-6, 100.0),
            Number::Weight => (1e-3, 1e6),
            Number::Achieved => (0.0, 1e12),
            Number::Rate => (1e-3, 1e9),
            // Ten minutes: as many windows are kept.
            Number::AgeMs => (0.0, 600_000.0),
            Number::DelayS => (0.1, 3_600.0),
        }
    }

    /// The number, if it can be.
    ///
    /// # Errors
    /// Which numbers can.
    pub fn check(self, number: f64) -> Result<f64, String> {
        let (least, most) = self.bounds();
        // Not a number is in no range.
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(format!("{} cannot be: {}", short(number), self.range()))
    }

    /// The number of a text.
    ///
    /// # Errors
    /// Which numbers can be.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let number = text.trim().parse();
        self.check(number.map_err(|_| format!("`{text}` is no number: {}", self.range()))?)
    }

    fn range(self) -> String {
        let (least, most) = self.bounds();
        format!("write a number from {} to {}", short(least), short(most))
    }
}

/// Without dozens of zeros.
fn short(number: f64) -> String {
    let usual = number == 0.0 || (1e-4..1e6).contains(&number.abs());
    if usual { number.to_string() } else { format!("{number:e}") }
}

fn optional<'de, D: Deserializer<'de>>(number: Number, from: D) -> Result<Option<f64>, D::Error> {
    let found = Option::<f64>::deserialize(from)?;
    found.map(|found| number.check(found).map_err(D::Error::custom)).transpose()
}

/// For `deserialize_with`: what was achieved, if anything.
///
/// # Errors
/// The number cannot be.
pub fn achieved<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    optional(Number::Achieved, from)
}

/// For `deserialize_with`: an ask, if there is one.
///
/// # Errors
/// The number cannot be.
pub fn ask<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    optional(Number::Ask, from)
}

/// For `deserialize_with`: how long ago it was.
///
/// # Errors
/// The number cannot be.
pub fn age_ms<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let age = u64::deserialize(from)?;
    // Far below 2^53.
    Number::AgeMs.check(age as f64).map_err(D::Error::custom)?;
    Ok(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_or_far_off_is_refused_in_words() {
        let all = [
            Number::Target,
            Number::LatencyMs,
            Number::Share,
            Number::Weight,
            Number::Limit,
            Number::Achieved,
            Number::Need,
            Number::Ask,
            Number::Rate,
            Number::AgeMs,
            Number::DelayS,
        ];
        for number in all {
            for text in ["nan", "inf", "-inf", "1e300", "-1", "many", ""] {
                let error = number.parse(text).unwrap_err();
                assert!(error.contains("from") && error.len() < 90, "{number:?} {text}: {error}");
            }
            let (least, most) = number.bounds();
            assert_eq!((number.check(least), number.check(most)), (Ok(least), Ok(most)));
        }
        assert!(Number::Need.parse("1.5").is_err());
        assert_eq!(Number::Target.parse(" 500\n"), Ok(500.0));
    }
}
