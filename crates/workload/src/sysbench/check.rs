//! Consistency conditions of the tables, which must hold after any run.

use super::tables::{C_CHARACTERS, PAD_CHARACTERS, Tables};
use crate::condition::{Condition, examine};
use crate::db::{DbError, Session};

/// Checks that all rows exist and have valid contents. A row's delete and insert are one
/// transaction. The database must be at rest.
pub fn check(session: &mut dyn Session, tables: &Tables) -> Result<Vec<Condition>, DbError> {
    let rows = tables.rows;
    let mut ids = (0, 0);
    let mut contents = (0, 0);
    for table in tables.numbers() {
        // Ids are unique, so the right number between the first and the last means that all exist.
        let one = examine(
            session,
            &format!(
                "SELECT 1, CASE WHEN COUNT(*) = {rows} AND MIN(id) = 1 AND MAX(id) = {rows} THEN 0 ELSE 1 END \
                 FROM sbtest{table}"
            ),
        )?;
        ids = (ids.0 + one.0, ids.1 + one.1);
        let one = examine(
            session,
            &format!(
                "SELECT COUNT(*), SUM(CASE WHEN k >= 1 AND LENGTH(c) = {C_CHARACTERS} \
                 AND LENGTH(pad) = {PAD_CHARACTERS} THEN 0 ELSE 1 END) FROM sbtest{table}"
            ),
        )?;
        contents = (contents.0 + one.0, contents.1 + one.1);
    }
    Ok(vec![
        Condition::new(1, "each table has the rows 1 to its size", ids.0, ids.1),
        Condition::new(2, "each row has its k, c and pad", contents.0, contents.1),
    ])
}
