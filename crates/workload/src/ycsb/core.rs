//! The six standard workloads (Cooper and others 2010, table 2; YCSB's core workloads).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::db::DbError;
use crate::random::Random;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads all fields of a record.
    Read,
    /// Writes one field of a record.
    Update,
    /// Adds a record.
    Insert,
    /// Reads up to 100 consecutive records.
    Scan,
    /// Reads a record and writes one of its fields.
    ReadModifyWrite,
}

impl Operation {
    /// Every operation, in the order of its number.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 5] = ["read", "update", "insert", "scan", "read-modify-write"];
}

/// Which records are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Popularity {
    /// Some are popular, by Zipf's law, at any position.
    Zipfian,
    /// The younger, the more popular, by Zipf's law.
    Latest,
    /// All alike.
    Uniform,
}

/// One of the standard workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Core {
    /// Half reads, half updates: a store of sessions.
    A,
    /// 95 % reads, 5 % updates: tags of photographs.
    B,
    /// Only reads: a cache of profiles.
    C,
    /// 95 % reads of young records, 5 % inserts: status messages.
    D,
    /// 95 % short scans, 5 % inserts: conversations.
    E,
    /// Half reads, half reads with a write of the same record.
    F,
}

impl Core {
    /// All six.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Per cent of each operation, in the order of [`Operation::ALL`].
    pub const fn mix(self) -> [u8; 5] {
        match self {
            Self::A => [50, 50, 0, 0, 0],
            Self::B => [95, 5, 0, 0, 0],
            Self::C => [100, 0, 0, 0, 0],
            Self::D => [95, 0, 5, 0, 0],
            Self::E => [0, 0, 5, 95, 0],
            Self::F => [50, 0, 0, 0, 50],
        }
    }

    /// Which records are requested by default.
    pub const fn popularity(self) -> Popularity {
        match self {
            Self::D => Popularity::Latest,
            _ => Popularity::Zipfian,
        }
    }

    /// Draws an operation. By dice, as YCSB does it.
    pub(super) fn draw(self, random: &mut Random) -> Operation {
        let mut left = random.within(0, 99);
        for (operation, per_cent) in Operation::ALL.into_iter().zip(self.mix()) {
            left -= i64::from(per_cent);
            if left < 0 {
                return operation;
            }
        }
        Operation::Read
    }
}

impl fmt::Display for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl FromStr for Core {
    type Err = DbError;

    /// A letter from A to F.
    fn from_str(text: &str) -> Result<Self, DbError> {
        Self::ALL
            .into_iter()
            .find(|core| core.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| DbError::usage(format!("YCSB has workloads A to F, but no `{text}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_drawn_in_their_shares() {
        const DRAWS: f64 = 100_000.0;
        for core in Core::ALL {
            assert_eq!(core.mix().iter().map(|&share| u32::from(share)).sum::<u32>(), 100);
            let mut random = Random::stream(3, 0);
            let mut counts = [0.0; 5];
            for _ in 0..DRAWS as u32 {
                counts[core.draw(&mut random) as usize] += 1.0;
            }
            for (count, share) in counts.iter().zip(core.mix()) {
                let p = f64::from(share) / 100.0;
                // Binomial: five standard deviations, which are none where the share is 0 or 1.
                let bound = 5.0 * (DRAWS * p * (1.0 - p)).sqrt();
                assert!((count - DRAWS * p).abs() <= bound, "{core}: {counts:?}");
            }
        }
    }

    #[test]
    fn letters_name_workloads() {
        for core in Core::ALL {
            assert_eq!(core.to_string().parse::<Core>().unwrap(), core);
        }
        assert_eq!("f".parse::<Core>().unwrap(), Core::F);
        assert!("G".parse::<Core>().is_err());
    }

    #[test]
    fn operations_are_at_their_numbers() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }
}
