//! The initial population (clause 4.3).

use super::{
    CUSTOMER, CUSTOMER_NAME, DISTRICT, DISTRICTS, HISTORY, ITEM, NEW_ORDER, ORDER_CUSTOMER,
    ORDER_LINE, ORDERS, STOCK, Scale, WAREHOUSE, field, last_name,
};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::random::Random;
use crate::row::{key, put32, put64};

/// Fills an empty database, with two threads, and flushes it.
///
/// # Errors
/// Those of pool and log.
pub fn load(engine: &Engine, scale: Scale, seed: u64) -> Result<(), EngineError> {
    let mut random = Random::new(seed);
    for item in 1..=scale.items {
        let mut row = vec![b'i'; field::ITEM_BYTES];
        put32(&mut row, field::PRICE, random.within(100, 10_000));
        engine.load(ITEM, &key(&[item]), &row)?;
    }
    std::thread::scope(|scope| {
        let half = scale.warehouses / 2;
        let range =
            |from, to| move || (from..=to).try_for_each(|w| warehouse(engine, scale, w, seed));
        let other = scope.spawn(range(1, half));
        range(half + 1, scale.warehouses)()?;
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    engine.flush()
}

fn warehouse(engine: &Engine, scale: Scale, w: u32, seed: u64) -> Result<(), EngineError> {
    let mut random = Random::new(seed ^ (u64::from(w) << 32));
    let mut row = vec![b'w'; field::WAREHOUSE_BYTES];
    put64(&mut row, field::YTD, 30_000_000);
    put32(&mut row, field::TAX, random.within(0, 2000));
    engine.load(WAREHOUSE, &key(&[w]), &row)?;
    for item in 1..=scale.items {
        let mut row = vec![b's'; field::STOCK_BYTES];
        put32(&mut row, field::QUANTITY, random.within(10, 100));
        for at in [field::STOCK_YTD, field::STOCK_ORDERS, field::STOCK_REMOTE] {
            put32(&mut row, at, 0);
        }
        engine.load(STOCK, &key(&[w, item]), &row)?;
    }
    (1..=DISTRICTS).try_for_each(|d| district(engine, scale, w, d, &mut random))
}

fn district(
    engine: &Engine,
    scale: Scale,
    w: u32,
    d: u32,
    random: &mut Random,
) -> Result<(), EngineError> {
    let mut row = vec![b'd'; field::DISTRICT_BYTES];
    put64(&mut row, field::YTD, 3_000_000);
    put32(&mut row, field::TAX, random.within(0, 2000));
    put32(&mut row, field::NEXT_ORDER, scale.customers + 1);
    engine.load(DISTRICT, &key(&[w, d]), &row)?;
    for c in 1..=scale.customers {
        let mut row = vec![b'c'; field::CUSTOMER_BYTES];
        put64(&mut row, field::BALANCE, -1000);
        put64(&mut row, field::PAID, 1000);
        put32(&mut row, field::PAYMENTS, 1);
        put32(&mut row, field::DELIVERIES, 0);
        put32(&mut row, field::DISCOUNT, random.within(0, 5000));
        row[field::BAD_CREDIT] = u8::from(random.within(1, 10) == 1);
        put32(&mut row, field::NAME, last_name(c));
        engine.load(CUSTOMER, &key(&[w, d, c]), &row)?;
        engine.load(CUSTOMER_NAME, &key(&[w, d, last_name(c), c]), &[])?;
        engine.load_append(HISTORY, &[b'h'; field::HISTORY_BYTES])?;
    }
    orders(engine, scale, w, d, random)
}

/// One order of each customer, in a random order; the last 30 % are not delivered.
fn orders(
    engine: &Engine,
    scale: Scale,
    w: u32,
    d: u32,
    random: &mut Random,
) -> Result<(), EngineError> {
    let mut customers: Vec<u32> = (1..=scale.customers).collect();
    for at in (1..customers.len()).rev() {
        // The index is below the number of customers.
        customers.swap(at, random.within(0, at as u32) as usize);
    }
    for (order, c) in (1..).zip(customers) {
        let open = order > scale.customers * 7 / 10;
        let lines = random.within(5, 15);
        let mut row = vec![b'o'; field::ORDER_BYTES];
        put32(&mut row, field::ORDER_CUSTOMER, c);
        put32(&mut row, field::CARRIER, if open { 0 } else { random.within(1, 10) });
        put32(&mut row, field::LINES, lines);
        engine.load(ORDERS, &key(&[w, d, order]), &row)?;
        engine.load(ORDER_CUSTOMER, &key(&[w, d, c, order]), &[])?;
        if open {
            engine.load(NEW_ORDER, &key(&[w, d, order]), &[])?;
        }
        for line in 1..=lines {
            let mut row = vec![b'l'; field::LINE_BYTES];
            put32(&mut row, field::LINE_ITEM, random.within(1, scale.items));
            put32(&mut row, field::LINE_SUPPLIER, w);
            put32(&mut row, field::LINE_QUANTITY, 5);
            put32(&mut row, field::LINE_DELIVERED, u32::from(!open));
            let amount = if open { random.within(1, 999_999) } else { 0 };
            put64(&mut row, field::LINE_AMOUNT, i64::from(amount));
            engine.load(ORDER_LINE, &key(&[w, d, order, line]), &row)?;
        }
    }
    Ok(())
}
