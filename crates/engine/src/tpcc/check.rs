//! Consistency conditions 1 to 4 (clause 3.3.2), on a database at rest.

use super::{
    DISTRICT, DISTRICTS, HISTORY, NEW_ORDER, ORDER_LINE, ORDERS, Receipt, Scale, WAREHOUSE, field,
};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::row::{get32, get64, key, part};
use std::collections::HashSet;

/// A condition is violated, or could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A condition is violated.
    #[error("condition {condition} does not hold in warehouse {warehouse}: {found}")]
    Violated {
        /// 1 to 4.
        condition: u32,
        /// Where.
        warehouse: u32,
        /// What was found.
        found: String,
    },
}

/// Checks every warehouse.
///
/// # Errors
/// The first violated condition.
pub fn check(engine: &Engine, scale: Scale) -> Result<(), CheckError> {
    (1..=scale.warehouses).try_for_each(|w| warehouse(engine, w))
}

fn missing(what: &str) -> CheckError {
    CheckError::Engine(EngineError::Damaged { what: what.into() })
}

fn warehouse(engine: &Engine, w: u32) -> Result<(), CheckError> {
    let transaction = engine.begin();
    let row = transaction.get(WAREHOUSE, &key(&[w]))?.ok_or_else(|| missing("a warehouse"))?;
    let violated =
        |condition, found: String| Err(CheckError::Violated { condition, warehouse: w, found });
    let mut paid = 0;
    for d in 1..=DISTRICTS {
        let row = transaction.get(DISTRICT, &key(&[w, d]))?.ok_or_else(|| missing("a district"))?;
        paid += get64(&row, field::YTD);
        let next = get32(&row, field::NEXT_ORDER);
        let (from, to) = (key(&[w, d]), key(&[w, d + 1]));

        let (mut last_order, mut expected_lines) = (0, 0u64);
        transaction.scan(ORDERS, &from, &to, &mut |key, row| {
            last_order = part(key, 2);
            expected_lines += u64::from(get32(row, field::LINES));
            true
        })?;
        let mut open = Vec::new();
        transaction.scan(NEW_ORDER, &from, &to, &mut |key, _| {
            open.push(part(key, 2));
            true
        })?;
        let mut lines = 0u64;
        transaction.scan(ORDER_LINE, &from, &to, &mut |_, _| {
            lines += 1;
            true
        })?;
        if last_order + 1 != next || open.last().is_some_and(|&last| last != last_order) {
            let last_open = open.last();
            return violated(
                2,
                format!("district {d}: next {next}, last {last_order}, open {last_open:?}"),
            );
        }
        if let (Some(first), Some(last)) = (open.first(), open.last())
            && (last - first + 1) as usize != open.len()
        {
            return violated(3, format!("district {d}: open {first} to {last} are {}", open.len()));
        }
        if lines != expected_lines {
            return violated(
                4,
                format!("district {d}: {lines} lines, orders say {expected_lines}"),
            );
        }
    }
    let total = get64(&row, field::YTD);
    if total != paid {
        return violated(1, format!("paid {total}, the districts say {paid}"));
    }
    Ok(())
}

/// All existing orders: those loaded, and those of committed transactions.
///
/// # Errors
/// The pool's.
pub fn orders(engine: &Engine, scale: Scale) -> Result<u64, EngineError> {
    let mut orders = 0;
    let (from, to) = (key(&[1]), key(&[scale.warehouses + 1]));
    engine.begin().scan(ORDERS, &from, &to, &mut |_, _| {
        orders += 1;
        true
    })?;
    Ok(orders)
}

/// Those of `receipts` that are missing in the database: acknowledged commits that were lost.
///
/// # Errors
/// The pool's.
pub fn lost<'r>(engine: &Engine, receipts: &'r [Receipt]) -> Result<Vec<&'r Receipt>, EngineError> {
    let mut payments = HashSet::new();
    engine.scan_heap(HISTORY, &mut |row| {
        // The same bits.
        payments.insert(get64(row, field::HISTORY_NUMBER) as u64);
    })?;
    let tx = engine.begin();
    let mut lost = Vec::new();
    for receipt in receipts {
        let there = match receipt {
            Receipt::Order(order) => tx.get(ORDERS, &key(order))?.is_some(),
            Receipt::Payment(number) => payments.contains(number),
            Receipt::Delivery(orders) => {
                let mut all = true;
                for order in orders {
                    let row = tx.get(ORDERS, &key(order))?;
                    let carried = row.is_some_and(|row| get32(&row, field::CARRIER) != 0);
                    all &= carried && tx.get(NEW_ORDER, &key(order))?.is_none();
                }
                all
            }
        };
        if !there {
            lost.push(receipt);
        }
    }
    Ok(lost)
}
