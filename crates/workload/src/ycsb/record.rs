//! Records: a key, and ten fields of 100 bytes.

use crate::db::DbError;
use crate::random::{Random, scramble};

/// Fields of a record.
pub const FIELDS: usize = 10;

/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;

/// The names of the fields, in their order.
pub const FIELD_NAMES: [&str; FIELDS] = [
    "field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8",
    "field9",
];

/// Stream numbers of the loaded data, separate from those of users.
const STREAM_RECORDS: u64 = 1 << 62;

/// A record's key.
///
/// Record numbers are consecutive, keys are not: as YCSB does ("hashed" insert order), this
/// scrambles the number, so that young records are not neighbours. Two numbers never have the same
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of record `number`.
    pub fn of(number: u64) -> Self {
        Self(scramble(number))
    }

    /// The key as text. Padded, so that texts sort like keys.
    pub fn text(self) -> String {
        format!("user{:020}", self.0)
    }

    /// A number in the same order for stores that sort by numbers: 53 bits, which a floating-point
    /// number holds. Neighbours may have the same.
    pub fn score(self) -> u64 {
        self.0 >> 11
    }
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(pub [Vec<u8>; FIELDS]);

impl Record {
    /// The initial contents of record `number`; the same for the same seed.
    pub fn loaded(seed: u64, number: u64) -> Self {
        let mut random = Random::stream(seed, STREAM_RECORDS ^ number);
        Self::random(&mut random)
    }

    /// A record from its fields with their names, in any order. All of them must be there.
    pub(super) fn from_fields(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Self, DbError> {
        let mut record = Self(Default::default());
        let mut missing = FIELDS;
        for (name, value) in fields {
            if let Some(at) = FIELD_NAMES.iter().position(|own| own.as_bytes() == name) {
                record.0[at] = value;
                missing = missing.saturating_sub(1);
            }
        }
        if missing > 0 {
            return Err(DbError::data(format!("a record lacks {missing} of its {FIELDS} fields")));
        }
        Ok(record)
    }

    /// Any record.
    pub fn random(random: &mut Random) -> Self {
        Self(std::array::from_fn(|_| value(random)))
    }
}

/// The contents of a field: printable characters without structure, which hardly compress.
pub fn value(random: &mut Random) -> Vec<u8> {
    const CHARACTERS: &[u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut value = Vec::with_capacity(FIELD_BYTES + 10);
    while value.len() < FIELD_BYTES {
        let bits = random.bits();
        // Six bits each choose one of 64.
        value.extend((0..10).map(|at| CHARACTERS[(bits >> (6 * at)) as usize & 63]));
    }
    value.truncate(FIELD_BYTES);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_scores_are_in_the_order_of_keys() {
        let mut keys: Vec<Key> = (0..1_000).map(Key::of).collect();
        keys.sort();
        assert!(keys.windows(2).all(|pair| pair[0].text() < pair[1].text()));
        assert!(keys.windows(2).all(|pair| pair[0].score() <= pair[1].score()));
        assert!(keys.iter().all(|key| key.score() as f64 as u64 == key.score()));
        keys.dedup();
        assert_eq!(keys.len(), 1_000);
    }

    #[test]
    fn what_is_loaded_repeats() {
        let record = Record::loaded(7, 12);
        assert_eq!(record, Record::loaded(7, 12));
        assert_ne!(record, Record::loaded(7, 13));
        assert_ne!(record, Record::loaded(8, 12));
        for field in &record.0 {
            assert_eq!(field.len(), FIELD_BYTES);
            assert!(field.iter().all(u8::is_ascii_graphic));
        }
        assert_ne!(record.0[0], record.0[1]);
    }
}
