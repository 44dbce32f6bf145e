//! The standard workloads: the operations of a request.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An operation of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads `c` of a row.
    PointSelect,
    /// Reads `c` of 100 consecutive rows.
    SimpleRange,
    /// Adds up their `k`.
    SumRange,
    /// Reads their `c` in the order of `c`.
    OrderRange,
    /// The same without duplicates.
    DistinctRange,
    /// Adds one to `k`, which has an index.
    IndexUpdate,
    /// Writes `c`, which has none.
    NonIndexUpdate,
    /// Deletes a row and inserts another one with its id.
    DeleteInsert,
}

/// One of the standard workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oltp {
    /// Reads one row.
    PointSelect,
    /// A transaction that reads: ten rows, and a range in each of four ways.
    ReadOnly,
    /// The operations of both the reading and the writing transaction.
    ReadWrite,
    /// A transaction that writes: both updates, and a row that is replaced.
    WriteOnly,
    /// Changes a column with an index.
    UpdateIndex,
    /// Changes a column without one.
    UpdateNonIndex,
}

impl Oltp {
    /// All six.
    pub const ALL: [Self; 6] = [
        Self::PointSelect,
        Self::ReadOnly,
        Self::ReadWrite,
        Self::WriteOnly,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
    ];

    /// The name of sysbench's script.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PointSelect => "oltp_point_select",
            Self::ReadOnly => "oltp_read_only",
            Self::ReadWrite => "oltp_read_write",
            Self::WriteOnly => "oltp_write_only",
            Self::UpdateIndex => "oltp_update_index",
            Self::UpdateNonIndex => "oltp_update_non_index",
        }
    }

    /// The operations of a request in order, and how many of each (sysbench's defaults).
    pub const fn operations(self) -> &'static [(Operation, usize)] {
        use Operation::{
            DeleteInsert, DistinctRange, IndexUpdate, NonIndexUpdate, OrderRange, PointSelect,
            SimpleRange, SumRange,
        };
        match self {
            Self::PointSelect => &[(PointSelect, 1)],
            Self::ReadOnly => &[
                (PointSelect, 10),
                (SimpleRange, 1),
                (SumRange, 1),
                (OrderRange, 1),
                (DistinctRange, 1),
            ],
            Self::ReadWrite => &[
                (PointSelect, 10),
                (SimpleRange, 1),
                (SumRange, 1),
                (OrderRange, 1),
                (DistinctRange, 1),
                (IndexUpdate, 1),
                (NonIndexUpdate, 1),
                (DeleteInsert, 1),
            ],
            Self::WriteOnly => &[(IndexUpdate, 1), (NonIndexUpdate, 1), (DeleteInsert, 1)],
            Self::UpdateIndex => &[(IndexUpdate, 1)],
            Self::UpdateNonIndex => &[(NonIndexUpdate, 1)],
        }
    }

    /// Whether a request is a transaction with begin and end. Other requests are one statement,
    /// which commits itself.
    pub const fn is_transaction(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadWrite | Self::WriteOnly)
    }
}

impl fmt::Display for Oltp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_several_statements_is_a_transaction() {
        for workload in Oltp::ALL {
            let statements: usize = workload
                .operations()
                .iter()
                .map(|&(operation, count)| match operation {
                    Operation::DeleteInsert => 2 * count,
                    _ => count,
                })
                .sum();
            assert_eq!(workload.is_transaction(), statements > 1, "{workload}: {statements}");
            let expected = match workload {
                Oltp::ReadOnly => 14,
                Oltp::ReadWrite => 18,
                Oltp::WriteOnly => 4,
                _ => 1,
            };
            assert_eq!(statements, expected, "{workload}");
        }
    }
}
