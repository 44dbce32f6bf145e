//! One user's requests, drawn from its own stream of random numbers. They are separate from the
//! statements that use them, so that a retry repeats the same request.

use super::oltp::{Oltp, Operation};
use super::popularity::Popularity;
use super::tables::{Tables, c, pad};
use crate::random::Random;

/// Rows of a range (sysbench's `--range-size`).
pub const RANGE: i64 = 100;

/// One operation of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The table's number, from 1 on.
    pub table: usize,
    /// The row, or the first one of a range.
    pub id: i64,
    /// What is done with it.
    pub action: Action,
}

/// An operation with the values that it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// [`Operation::PointSelect`].
    PointSelect,
    /// [`Operation::SimpleRange`].
    SimpleRange,
    /// [`Operation::SumRange`].
    SumRange,
    /// [`Operation::OrderRange`].
    OrderRange,
    /// [`Operation::DistinctRange`].
    DistinctRange,
    /// [`Operation::IndexUpdate`].
    IndexUpdate,
    /// [`Operation::NonIndexUpdate`].
    NonIndexUpdate {
        /// What `c` is to hold.
        c: String,
    },
    /// [`Operation::DeleteInsert`].
    DeleteInsert {
        /// Of the new row.
        k: i64,
        /// Of the new row.
        c: String,
        /// Of the new row.
        pad: String,
    },
}

/// The stream of one user's requests.
#[derive(Debug, Clone)]
pub struct Inputs {
    workload: Oltp,
    popularity: Popularity,
    tables: Tables,
    random: Random,
}

impl Inputs {
    /// The requests of user `number`.
    pub fn new(
        workload: Oltp,
        popularity: Popularity,
        tables: Tables,
        seed: u64,
        number: usize,
    ) -> Self {
        Self { workload, popularity, tables, random: Random::stream(seed, number as u64) }
    }

    /// The next request. All operations of one kind are on one table, as in sysbench, and each kind
    /// draws its own.
    pub fn draw(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for &(operation, count) in self.workload.operations() {
            // At most 64 tables.
            let table = self.random.within(1, self.tables.count as i64) as usize;
            for _ in 0..count {
                let id = self.id();
                steps.push(Step { table, id, action: self.action(operation) });
            }
        }
        steps
    }

    fn id(&mut self) -> i64 {
        self.popularity.draw(self.tables.rows, &mut self.random)
    }

    fn action(&mut self, operation: Operation) -> Action {
        match operation {
            Operation::PointSelect => Action::PointSelect,
            Operation::SimpleRange => Action::SimpleRange,
            Operation::SumRange => Action::SumRange,
            Operation::OrderRange => Action::OrderRange,
            Operation::DistinctRange => Action::DistinctRange,
            Operation::IndexUpdate => Action::IndexUpdate,
            Operation::NonIndexUpdate => Action::NonIndexUpdate { c: c(&mut self.random) },
            Operation::DeleteInsert => Action::DeleteInsert {
                k: self.id(),
                c: c(&mut self.random),
                pad: pad(&mut self.random),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn inputs(workload: Oltp, seed: u64, number: usize) -> Inputs {
        let tables = Tables::new(4, 1_000, 1).unwrap();
        Inputs::new(workload, Popularity::default(), tables, seed, number)
    }

    #[test]
    fn a_user_repeats_from_its_seed_and_differs_from_others() {
        let draw = |seed, number| {
            let mut inputs = inputs(Oltp::ReadWrite, seed, number);
            (0..50).map(|_| inputs.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    fn name(action: &Action) -> &'static str {
        match action {
            Action::PointSelect => "point",
            Action::SimpleRange => "simple",
            Action::SumRange => "sum",
            Action::OrderRange => "order",
            Action::DistinctRange => "distinct",
            Action::IndexUpdate => "index",
            Action::NonIndexUpdate { .. } => "non-index",
            Action::DeleteInsert { .. } => "delete-insert",
        }
    }

    #[test]
    fn a_request_has_its_operations_in_their_order() {
        let reads = "point point point point point point point point point point simple sum order \
                     distinct";
        let writes = "index non-index delete-insert";
        for (workload, expected) in [
            (Oltp::PointSelect, "point".to_owned()),
            (Oltp::ReadOnly, reads.to_owned()),
            (Oltp::ReadWrite, format!("{reads} {writes}")),
            (Oltp::WriteOnly, writes.to_owned()),
            (Oltp::UpdateIndex, "index".to_owned()),
            (Oltp::UpdateNonIndex, "non-index".to_owned()),
        ] {
            let mut inputs = inputs(workload, 3, 0);
            for _ in 0..100 {
                let steps = inputs.draw();
                let names: Vec<&str> = steps.iter().map(|step| name(&step.action)).collect();
                assert_eq!(names.join(" "), expected, "{workload}");
                assert!(steps.iter().all(|step| (1..=1_000).contains(&step.id)));
                let points = steps.iter().filter(|step| step.action == Action::PointSelect);
                let tables: Vec<usize> = points.map(|step| step.table).collect();
                assert!(tables.windows(2).all(|pair| pair[0] == pair[1]), "one table for all ten");
            }
        }
    }

    #[test]
    fn tables_are_drawn_alike() {
        let mut counts: BTreeMap<usize, i32> = BTreeMap::new();
        let mut inputs = inputs(Oltp::WriteOnly, 3, 0);
        for _ in 0..10_000 {
            for step in inputs.draw() {
                *counts.entry(step.table).or_default() += 1;
            }
        }
        // 30,000 draws, a quarter each: standard deviation 75; five of them.
        assert!(
            counts.len() == 4 && counts.values().all(|n| n.abs_diff(7_500) < 375),
            "{counts:?}"
        );
    }
}
