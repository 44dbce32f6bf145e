//! Consistency conditions that must hold after any run.

use serde::{Deserialize, Serialize};

use crate::db::{DbError, Session};

/// One condition and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its number, from 1 on. For TPC-C: clause 3.3.2.N.
    pub number: u32,
    /// What must be true.
    pub statement: String,
    /// Number of objects checked: warehouses, districts, tables, rows. Zero is a failure.
    pub examined: i64,
    /// Number of violations among them.
    pub violations: i64,
    /// Whether it holds.
    pub holds: bool,
}

impl Condition {
    pub(crate) fn new(number: u32, statement: &str, examined: i64, violations: i64) -> Self {
        let holds = examined > 0 && violations == 0;
        Self { number, statement: statement.to_owned(), examined, violations, holds }
    }
}

/// Runs a query that returns two numbers: objects checked, and violations.
pub(crate) fn examine(session: &mut dyn Session, sql: &str) -> Result<(i64, i64), DbError> {
    let rows = session.query(sql, &[])?;
    let row = rows.first().ok_or_else(|| DbError::data("the server counted nothing"))?;
    // A sum over no rows is NULL.
    let violations = if row.is_null(1) { 0 } else { row.int(1)? };
    Ok((row.int(0)?, violations))
}
