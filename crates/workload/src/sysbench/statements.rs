//! The statements, in sysbench's form and order.

use super::inputs::{Action, RANGE, Step};
use super::tables::Tables;
use crate::db::{DbError, ErrorKind, Session, Value};

/// The statements on one table.
pub(super) struct Statements {
    point_select: String,
    simple_range: String,
    sum_range: String,
    order_range: String,
    distinct_range: String,
    index_update: String,
    non_index_update: String,
    delete: String,
    insert: String,
}

impl Statements {
    /// Those of every table, in the order of their numbers.
    pub(super) fn of(tables: &Tables) -> Vec<Self> {
        tables.numbers().map(Self::on).collect()
    }

    fn on(table: usize) -> Self {
        let range = format!("FROM sbtest{table} WHERE id BETWEEN ? AND ?");
        Self {
            point_select: format!("SELECT c FROM sbtest{table} WHERE id = ?"),
            simple_range: format!("SELECT c {range}"),
            sum_range: format!("SELECT SUM(k) {range}"),
            order_range: format!("SELECT c {range} ORDER BY c"),
            distinct_range: format!("SELECT DISTINCT c {range} ORDER BY c"),
            index_update: format!("UPDATE sbtest{table} SET k = k + 1 WHERE id = ?"),
            non_index_update: format!("UPDATE sbtest{table} SET c = ? WHERE id = ?"),
            delete: format!("DELETE FROM sbtest{table} WHERE id = ?"),
            insert: format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
        }
    }
}

/// Carries out one request. After an error the caller has to roll back.
pub(super) fn execute(
    session: &mut dyn Session,
    tables: &[Statements],
    transaction: bool,
    steps: &[Step],
) -> Result<(), DbError> {
    if transaction {
        session.begin()?;
    }
    for step in steps {
        let statements = tables.get(step.table.wrapping_sub(1));
        let statements = statements
            .ok_or_else(|| DbError::usage(format!("there is no table {}", step.table)))?;
        carry_out(session, statements, step)?;
    }
    if transaction { session.commit() } else { Ok(()) }
}

fn carry_out(
    session: &mut dyn Session,
    statements: &Statements,
    step: &Step,
) -> Result<(), DbError> {
    let id = Value::Int(step.id);
    let select = match &step.action {
        Action::PointSelect => return read(session, &statements.point_select, &[id], step),
        // While another transaction replaces a row, PostgreSQL's READ COMMITTED does not see it.
        // sysbench ignores that.
        Action::IndexUpdate => {
            return session.change(&statements.index_update, &[id]).map(drop);
        }
        Action::NonIndexUpdate { c } => {
            let values = [c.as_str().into(), id];
            return session.change(&statements.non_index_update, &values).map(drop);
        }
        Action::DeleteInsert { k, c, pad } => {
            if session.change(&statements.delete, std::slice::from_ref(&id))? != 1 {
                // The same, but an insert would now meet the other transaction's row.
                return Err(DbError::new(ErrorKind::Serialization, "the row has been replaced"));
            }
            let values = [id, (*k).into(), c.as_str().into(), pad.as_str().into()];
            return session.change(&statements.insert, &values).map(drop);
        }
        Action::SimpleRange => &statements.simple_range,
        Action::SumRange => &statements.sum_range,
        Action::OrderRange => &statements.order_range,
        Action::DistinctRange => &statements.distinct_range,
    };
    // Ids at a table's end have fewer rows after them.
    read(session, select, &[id, (step.id + RANGE - 1).into()], step)
}

/// Every requested row always exists, so an empty result is an error.
fn read(
    session: &mut dyn Session,
    sql: &str,
    values: &[Value],
    step: &Step,
) -> Result<(), DbError> {
    let rows = session.query(sql, values)?;
    let there = rows.first().is_some_and(|row| !row.is_null(0));
    let Step { table, id, .. } = step;
    if there { Ok(()) } else { Err(DbError::data(format!("row {id} of sbtest{table} is missing"))) }
}
