//! The five transactions (clauses 2.4.2 to 2.8.2), with the statements of tpcc-mysql.
//!
//! Rows that will be changed are always read `FOR UPDATE`. At MariaDB's REPEATABLE READ a plain
//! read sees the snapshot of the transaction's first read, a locking read the latest data. So a
//! Delivery could lock an order younger than its snapshot and then not find it. A Payment could
//! write back a customer's data without the payment before.

use super::input::{Input, OrderLine, Selector};
use super::population::DISTRICTS;
use crate::db::{DbError, Dialect, ErrorKind, Row, Session, Value};

/// How a transaction ended, if not with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Committed.
    Committed,
    /// Rolled back because an item does not exist, as the input intends (clause 2.4.1.4).
    RolledBack,
    /// A Delivery committed, and this many districts had nothing to deliver (clause 2.7.4.2).
    Skipped(u32),
}

/// Customers' data longer than this is cut (clause 2.5.2.2).
const DATA_CHARACTERS_MAX: usize = 500;

/// Carries out one transaction. After an error the caller has to roll back.
pub(super) fn execute(session: &mut dyn Session, input: &Input) -> Result<Ending, DbError> {
    session.begin()?;
    let ending = match input {
        Input::NewOrder { warehouse, district, customer, lines, rolls_back } => {
            let ending = new_order(session, [*warehouse, *district, *customer], lines)?;
            if (ending == Ending::RolledBack) != *rolls_back {
                return Err(DbError::data("an item is missing, or one exists that should not"));
            }
            ending
        }
        Input::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer,
            amount_cents,
        } => payment(
            session,
            [*warehouse, *district],
            [*customer_warehouse, *customer_district],
            customer,
            *amount_cents,
        )?,
        Input::OrderStatus { warehouse, district, customer } => {
            order_status(session, [*warehouse, *district], customer)?
        }
        Input::Delivery { warehouse, carrier } => delivery(session, *warehouse, *carrier)?,
        Input::StockLevel { warehouse, district, threshold } => {
            stock_level(session, [*warehouse, *district], *threshold)?
        }
    };
    match ending {
        Ending::RolledBack => session.rollback()?,
        Ending::Committed | Ending::Skipped(_) => session.commit()?,
    }
    Ok(ending)
}

/// The only row, or an error naming what is missing.
fn one(rows: Vec<Row>, what: &str) -> Result<Row, DbError> {
    rows.into_iter().next().ok_or_else(|| DbError::data(format!("there is no such {what}")))
}

fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().map(|&value| Value::Int(value)).collect()
}

fn new_order(
    session: &mut dyn Session,
    [w, d, c]: [i64; 3],
    lines: &[OrderLine],
) -> Result<Ending, DbError> {
    let rows = session.query(
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
         WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?",
        &ints(&[w, d, c]),
    )?;
    one(rows, "customer")?;
    let rows = session.query(
        "SELECT d_next_o_id, d_tax FROM district WHERE d_id = ? AND d_w_id = ? FOR UPDATE",
        &ints(&[d, w]),
    )?;
    let o = one(rows, "district")?.int(0)?;
    session.change(
        "UPDATE district SET d_next_o_id = ? WHERE d_id = ? AND d_w_id = ?",
        &ints(&[o + 1, d, w]),
    )?;
    let all_local = i64::from(lines.iter().all(|line| line.supply_warehouse == w));
    session.change(
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
         VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP, ?, ?)",
        &ints(&[o, d, w, c, lines.len() as i64, all_local]),
    )?;
    session.change(
        "INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)",
        &ints(&[o, d, w]),
    )?;
    for (number, line) in (1..).zip(lines) {
        let items = session.query(
            "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?",
            &ints(&[line.item]),
        )?;
        let Some(item) = items.first() else {
            return Ok(Ending::RolledBack);
        };
        let amount_cents = item.cents(0)? * line.quantity;
        let dist_info = take_from_stock(session, [w, d], line)?;
        let mut values = ints(&[o, d, w, number, line.item, line.supply_warehouse, line.quantity]);
        values.extend([Value::Cents(amount_cents), Value::Text(dist_info)]);
        session.change(
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
             ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &values,
        )?;
    }
    Ok(Ending::Committed)
}

/// Takes one line's quantity from the stock and returns the district's S_DIST_xx.
fn take_from_stock(
    session: &mut dyn Session,
    [w, d]: [i64; 2],
    line: &OrderLine,
) -> Result<String, DbError> {
    let place = ints(&[line.item, line.supply_warehouse]);
    let rows = session.query(
        "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, \
         s_dist_08, s_dist_09, s_dist_10 FROM stock WHERE s_i_id = ? AND s_w_id = ? FOR UPDATE",
        &place,
    )?;
    let stock = one(rows, "stock")?;
    let left = stock.int(0)? - line.quantity;
    // Stock that falls below ten is refilled by 91 (clause 2.4.2.2).
    let quantity = if left >= 10 { left } else { left + 91 };
    let remote = i64::from(line.supply_warehouse != w);
    session.change(
        "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?",
        &ints(&[quantity, line.quantity, remote, line.item, line.supply_warehouse]),
    )?;
    stock.text(1 + d.clamp(1, DISTRICTS) as usize)
}

/// The number of the requested customer. Of those with a last name, ordered by first name, it is
/// the one at position n/2 rounded up (clause 2.5.2.2).
fn find_customer(
    session: &mut dyn Session,
    [w, d]: [i64; 2],
    customer: &Selector,
) -> Result<i64, DbError> {
    let last = match customer {
        Selector::Id(id) => return Ok(*id),
        Selector::LastName(last) => last,
    };
    let namesakes = session.query(
        "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
        &[w.into(), d.into(), last.as_str().into()],
    )?;
    match namesakes.get(namesakes.len().saturating_sub(1) / 2) {
        Some(row) => row.int(0),
        None => Err(DbError::data(format!("no customer of district {w}/{d} is called {last}"))),
    }
}

fn payment(
    session: &mut dyn Session,
    [w, d]: [i64; 2],
    [cw, cd]: [i64; 2],
    customer: &Selector,
    amount_cents: i64,
) -> Result<Ending, DbError> {
    let amount = Value::Cents(amount_cents);
    // The casts keep a prepared amount a decimal in MariaDB, which would add a string as a
    // floating-point number.
    session.change(
        "UPDATE warehouse SET w_ytd = w_ytd + CAST(? AS DECIMAL(12,2)) WHERE w_id = ?",
        &[amount.clone(), w.into()],
    )?;
    let rows = session.query(
        "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = ?",
        &ints(&[w]),
    )?;
    let warehouse = one(rows, "warehouse")?.text(5)?;
    session.change(
        "UPDATE district SET d_ytd = d_ytd + CAST(? AS DECIMAL(12,2)) WHERE d_w_id = ? AND d_id = ?",
        &[amount.clone(), w.into(), d.into()],
    )?;
    let rows = session.query(
        "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = ? AND d_id = ?",
        &ints(&[w, d]),
    )?;
    let district = one(rows, "district")?.text(5)?;

    let c = find_customer(session, [cw, cd], customer)?;
    let rows = session.query(
        "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, \
         c_credit_lim, c_discount, c_balance, c_since FROM customer \
         WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
        &ints(&[cw, cd, c]),
    )?;
    if one(rows, "customer")?.text(9)? == "BC" {
        let rows = session.query(
            "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            &ints(&[cw, cd, c]),
        )?;
        let old = one(rows, "customer")?.text(0)?;
        let (whole, fraction) = (amount_cents / 100, amount_cents % 100);
        let data: String = format!("{c} {cd} {cw} {d} {w} {whole}.{fraction:02} | {old}")
            .chars()
            .take(DATA_CHARACTERS_MAX)
            .collect();
        session.change(
            "UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)), \
             c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)), c_payment_cnt = c_payment_cnt + 1, c_data = ? \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[amount.clone(), amount.clone(), data.into(), cw.into(), cd.into(), c.into()],
        )?;
    } else {
        session.change(
            "UPDATE customer SET c_balance = c_balance - CAST(? AS DECIMAL(12,2)), \
             c_ytd_payment = c_ytd_payment + CAST(? AS DECIMAL(12,2)), c_payment_cnt = c_payment_cnt + 1 \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[amount.clone(), amount.clone(), cw.into(), cd.into(), c.into()],
        )?;
    }
    let mut values = ints(&[cd, cw, c, d, w]);
    values.extend([amount, Value::Text(format!("{warehouse}    {district}"))]);
    session.change(
        "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP, ?, ?)",
        &values,
    )?;
    Ok(Ending::Committed)
}

fn order_status(
    session: &mut dyn Session,
    [w, d]: [i64; 2],
    customer: &Selector,
) -> Result<Ending, DbError> {
    let c = find_customer(session, [w, d], customer)?;
    let rows = session.query(
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        &ints(&[w, d, c]),
    )?;
    one(rows, "customer")?;
    let rows = session.query(
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
         ORDER BY o_id DESC LIMIT 1",
        &ints(&[w, d, c]),
    )?;
    let o = one(rows, "order")?.int(0)?;
    session.query(
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
         WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
        &ints(&[w, d, o]),
    )?;
    Ok(Ending::Committed)
}

/// The oldest undelivered order of a district, locked.
fn oldest_order(session: &mut dyn Session, w: i64, d: i64) -> Result<Option<i64>, DbError> {
    let rows = session.query(
        "SELECT no_o_id FROM new_orders WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE",
        &ints(&[w, d]),
    )?;
    rows.first().map(|row| row.int(0)).transpose()
}

fn delivery(session: &mut dyn Session, w: i64, carrier: i64) -> Result<Ending, DbError> {
    let mut skipped = 0;
    for d in 1..=DISTRICTS {
        let mut oldest = oldest_order(session, w, d)?;
        // At READ COMMITTED, PostgreSQL waits for another Delivery's lock, then finds that row
        // gone, and returns none. A second query finds the next one.
        if oldest.is_none() && session.dialect() == Dialect::PostgreSql {
            oldest = oldest_order(session, w, d)?;
        }
        let Some(o) = oldest else {
            skipped += 1;
            continue;
        };
        let deleted = session.change(
            "DELETE FROM new_orders WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
            &ints(&[w, d, o]),
        )?;
        if deleted != 1 {
            // Another terminal has delivered it since.
            return Err(DbError::new(ErrorKind::Serialization, "the order has been delivered"));
        }
        let rows = session.query(
            "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE",
            &ints(&[w, d, o]),
        )?;
        let c = one(rows, "order")?.int(0)?;
        session.change(
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            &ints(&[carrier, w, d, o]),
        )?;
        session.change(
            "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &ints(&[w, d, o]),
        )?;
        let rows = session.query(
            "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &ints(&[w, d, o]),
        )?;
        let total = Value::Cents(one(rows, "order line")?.cents(0)?);
        session.change(
            "UPDATE customer SET c_balance = c_balance + CAST(? AS DECIMAL(12,2)), \
             c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[total, w.into(), d.into(), c.into()],
        )?;
    }
    Ok(if skipped == 0 { Ending::Committed } else { Ending::Skipped(skipped) })
}

fn stock_level(
    session: &mut dyn Session,
    [w, d]: [i64; 2],
    threshold: i64,
) -> Result<Ending, DbError> {
    let rows = session
        .query("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", &ints(&[w, d]))?;
    let next = one(rows, "district")?.int(0)?;
    session.query(
        "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ? \
         AND ol_o_id >= ? AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?",
        &ints(&[w, d, next, next - 20, w, threshold]),
    )?;
    Ok(Ending::Committed)
}
