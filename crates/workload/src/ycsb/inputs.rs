//! One user's requests, drawn from its own stream of random numbers.

use super::core::{Core, Operation, Popularity};
use super::record::{FIELDS, Key, Record, value};
use super::records::Records;
use super::zipf::Zipf;
use crate::random::{Random, scramble};

/// Most records of a scan (YCSB's `maxscanlength`).
pub const SCAN_MAX: usize = 100;

/// Ranks of the popular records, as in YCSB. There are many more than records, so that the law
/// stays the same when records are added. A rank's scrambled number selects its record. So a record
/// has the popularity of a rank, and an even share of that of the very many unpopular ranks.
const RANKS: u64 = 10_000_000_000;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Read this record.
    Read(Key),
    /// Write one of its fields.
    Update(Key, Change),
    /// Add record `number`.
    Insert(u64, Box<Record>),
    /// Read this many records, from this one on.
    Scan(Key, usize),
    /// Read this record, then write one of its fields.
    ReadModifyWrite(Key, Change),
}

/// A field and its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The field's number, below [`FIELDS`].
    pub field: usize,
    /// What it is to hold.
    pub value: Vec<u8>,
}

impl Input {
    /// Its operation.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Read(_) => Operation::Read,
            Self::Update(..) => Operation::Update,
            Self::Insert(..) => Operation::Insert,
            Self::Scan(..) => Operation::Scan,
            Self::ReadModifyWrite(..) => Operation::ReadModifyWrite,
        }
    }
}

/// The stream of one user's requests.
#[derive(Debug)]
pub struct Inputs {
    core: Core,
    popularity: Popularity,
    records: Records,
    zipf: Zipf,
    random: Random,
    /// A number that was claimed and not yet acknowledged.
    claimed: Option<u64>,
}

impl Inputs {
    /// The requests of user `number`.
    pub fn new(
        core: Core,
        popularity: Popularity,
        records: Records,
        seed: u64,
        number: usize,
    ) -> Self {
        let random = Random::stream(seed, number as u64);
        Self { core, popularity, records, zipf: Zipf::new(Zipf::YCSB), random, claimed: None }
    }

    /// The next request.
    pub fn draw(&mut self) -> Input {
        match self.core.draw(&mut self.random) {
            Operation::Read => Input::Read(self.key()),
            Operation::Update => Input::Update(self.key(), self.change()),
            Operation::Insert => {
                // If an insert was given up, its number is used again: otherwise it would be a gap
                // for ever.
                let number = *self.claimed.get_or_insert_with(|| self.records.claim());
                Input::Insert(number, Box::new(Record::random(&mut self.random)))
            }
            Operation::Scan => {
                let key = self.key();
                // At least one and at most SCAN_MAX, which is small.
                Input::Scan(key, self.random.within(1, SCAN_MAX as i64) as usize)
            }
            Operation::ReadModifyWrite => Input::ReadModifyWrite(self.key(), self.change()),
        }
    }

    /// The last record to be inserted exists now.
    pub fn inserted(&mut self) {
        if let Some(number) = self.claimed.take() {
            self.records.acknowledge(number);
        }
    }

    fn key(&mut self) -> Key {
        Key::of(self.number())
    }

    /// The number of an existing record.
    pub(super) fn number(&mut self) -> u64 {
        let there = self.records.there();
        match self.popularity {
            // Record numbers are far below 2^63.
            Popularity::Uniform => self.random.within(0, there as i64 - 1) as u64,
            Popularity::Latest => there - self.zipf.draw(there, &mut self.random),
            Popularity::Zipfian => self.popular(there),
        }
    }

    /// The record of a popular rank. Where records are added there is room for twice the initial
    /// number, so that none moves when they come; a missing one is drawn again.
    fn popular(&mut self, there: u64) -> u64 {
        let loaded = self.records.in_the_beginning();
        let adds = self.core.mix()[Operation::Insert as usize] > 0;
        let room = if adds { 2 * loaded } else { loaded };
        loop {
            let number = scramble(self.zipf.draw(RANKS, &mut self.random)) % room;
            if number < there {
                return number;
            }
        }
    }

    fn change(&mut self) -> Change {
        // A number below FIELDS.
        let field = self.random.within(0, FIELDS as i64 - 1) as usize;
        Change { field, value: value(&mut self.random) }
    }
}

#[cfg(test)]
mod tests;
