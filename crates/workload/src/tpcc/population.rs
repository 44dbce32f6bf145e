//! The size of the data (clause 4.3), and a note of it in the database.

use serde::{Deserialize, Serialize};

use super::names::NuRand;
use crate::db::{DbError, Session, Value};
use crate::random::Random;

/// Districts of a warehouse (clause 1.2).
pub(crate) const DISTRICTS: i64 = 10;

/// The table that keeps the [`Population`], so that a run can find out what was loaded.
pub(crate) const NOTE: &str = "tpcc_population";

/// Size, scale and constants of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Population {
    /// W, the number of warehouses.
    pub warehouses: i64,
    /// Divides customers, orders and items. 1 is TPC-C; anything else is for tests and is not
    /// TPC-C.
    pub scale: i64,
    /// The seed of all random values.
    pub seed: u64,
}

impl Population {
    /// Data for `warehouses` (1 to 1,000,000) with `scale` (1 to 100).
    pub fn new(warehouses: i64, scale: i64, seed: u64) -> Result<Self, DbError> {
        if !(1..=1_000_000).contains(&warehouses) {
            return Err(DbError::usage(format!(
                "the number of warehouses must be between 1 and 1,000,000, not {warehouses}"
            )));
        }
        if !(1..=100).contains(&scale) {
            return Err(DbError::usage(format!(
                "the scale must be between 1 and 100, not {scale}"
            )));
        }
        // The note keeps the seed in a signed column.
        Ok(Self { warehouses, scale, seed: seed & i64::MAX as u64 })
    }

    /// Its name: only an unscaled population is TPC-C's.
    pub fn name(&self) -> String {
        match self.scale {
            1 => "TPC-C population".to_owned(),
            scale => format!("reduced population after TPC-C (customers, orders, items / {scale})"),
        }
    }

    /// Customers of a district, and its initial orders: 3,000.
    pub fn customers(&self) -> i64 {
        3_000 / self.scale
    }

    /// Items, and stocks of a warehouse: 100,000.
    pub fn items(&self) -> i64 {
        100_000 / self.scale
    }

    /// The last initial order of a district that is delivered: 2,100.
    pub fn delivered(&self) -> i64 {
        self.customers() * 7 / 10
    }

    /// Different last names in a district: 1,000.
    pub fn names(&self) -> i64 {
        self.customers().min(1_000)
    }

    /// Rows that [`load`](super::load) writes, with 10 order lines to an order, their mean.
    pub fn rows(&self) -> u64 {
        let district =
            1 + self.customers() * (1 + 1 + 1 + 10) + self.customers() - self.delivered();
        (self.items() + self.warehouses * (1 + self.items() + DISTRICTS * district)) as u64
    }

    /// C-Load of last names (clause 2.1.6.1).
    pub(crate) fn name_constant(&self) -> i64 {
        Random::stream(self.seed, u64::MAX).within(0, 255)
    }

    /// The specification's spread A, scaled down: it stays one less than a power of two.
    fn spread(&self, a: i64) -> i64 {
        let wanted = ((a + 1) / self.scale).max(2) as u64;
        (wanted.next_power_of_two() - 1) as i64
    }

    /// How a run chooses customers: NURand(1023, 1, 3000).
    pub(crate) fn customer(&self, random: &mut Random) -> NuRand {
        let a = self.spread(1023);
        NuRand { a, x: 1, y: self.customers(), c: random.within(0, a) }
    }

    /// How a run chooses items: NURand(8191, 1, 100000).
    pub(crate) fn item(&self, random: &mut Random) -> NuRand {
        let a = self.spread(8191);
        NuRand { a, x: 1, y: self.items(), c: random.within(0, a) }
    }

    /// How last names are chosen: NURand(255, 0, 999).
    pub(crate) fn name_choice(&self, c: i64) -> NuRand {
        NuRand { a: 255, x: 0, y: self.names() - 1, c }
    }

    /// Writes the note into the database.
    pub(crate) fn leave_note(&self, session: &mut dyn Session) -> Result<(), DbError> {
        let seed = i64::try_from(self.seed).unwrap_or(i64::MAX);
        session.run(&format!(
            "INSERT INTO {NOTE} (warehouses, scale, seed) VALUES ({}, {}, {seed})",
            self.warehouses, self.scale
        ))
    }

    /// Reads the note that [`load`](super::load) has written.
    pub fn discover(session: &mut dyn Session) -> Result<Self, DbError> {
        let rows = session
            .query("SELECT warehouses, scale, seed FROM tpcc_population", &[] as &[Value])
            .map_err(|error| {
                DbError::new(
                    error.kind,
                    format!("the database holds no TPC-C population (run `load` first): {error}"),
                )
            })?;
        let row = rows.first().ok_or_else(|| {
            DbError::data("the population was not loaded to its end (run `load` again)")
        })?;
        Self::new(row.int(0)?, row.int(1)?, row.int(2)?.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unscaled_population_has_the_specified_sizes() {
        let full = Population::new(1, 1, 0).unwrap();
        assert_eq!((full.customers(), full.items()), (3_000, 100_000));
        assert_eq!((full.delivered(), full.names()), (2_100, 1_000));
        // 100,000 items, 1 + 100,000 stocks, and per district 1 + 3,000 × (customer, history,
        // order, 10 lines) + 900.
        assert_eq!(full.rows(), 100_000 + 1 + 100_000 + 10 * (1 + 39_000 + 900));
        assert_eq!(full.spread(1023), 1023);
        assert_eq!(full.spread(8191), 8191);
    }

    #[test]
    fn a_reduced_one_is_smaller_everywhere_and_says_so() {
        let small = Population::new(2, 100, 0).unwrap();
        assert_eq!((small.customers(), small.items()), (30, 1_000));
        assert_eq!((small.delivered(), small.names()), (21, 30));
        // 8,192 / 100 = 81, up to 128.
        assert_eq!(small.spread(8191), 127);
        assert!(!small.name().starts_with("TPC-C"));
        assert!(Population::new(0, 1, 0).is_err());
        assert!(Population::new(1, 101, 0).is_err());
    }
}
