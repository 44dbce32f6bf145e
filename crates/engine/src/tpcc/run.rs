//! The five transactions.

use super::{
    CUSTOMER, CUSTOMER_NAME, DISTRICT, DISTRICTS, HISTORY, ITEM, NEW_ORDER, ORDER_CUSTOMER,
    ORDER_LINE, ORDERS, STOCK, Scale, WAREHOUSE, field, last_name,
};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::random::Random;
use crate::row::{get32, get64, key, part, put32, put64};
use crate::txn::Transaction;

/// Which transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// 45 %: one in a hundred is rolled back, as the standard requires.
    NewOrder,
    /// 43 %.
    Payment,
    /// 4 %.
    OrderStatus,
    /// 4 %.
    Delivery,
    /// 4 %.
    StockLevel,
}

/// Percentages of the transactions; the rest up to 100 are stock-level transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// New-order.
    pub new_order: u32,
    /// Payment.
    pub payment: u32,
    /// Order-status.
    pub order_status: u32,
    /// Delivery.
    pub delivery: u32,
}

impl Mix {
    /// The standard's: 45, 43, 4, 4 and 4.
    pub const STANDARD: Self = Self { new_order: 45, payment: 43, order_status: 4, delivery: 4 };

    /// The transaction for the number `draw`, from 1 to 100.
    fn kind(self, draw: u32) -> Kind {
        let mut limit = 0;
        let shares = [
            (self.new_order, Kind::NewOrder),
            (self.payment, Kind::Payment),
            (self.order_status, Kind::OrderStatus),
            (self.delivery, Kind::Delivery),
        ];
        for (share, kind) in shares {
            limit += share;
            if draw <= limit {
                return kind;
            }
        }
        Kind::StockLevel
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// A user: the home warehouse is drawn for each transaction, as in tpcc-mysql. (The standard's
/// terminals stay at one warehouse. With fewer users than warehouses, most of the database would
/// then be idle.)
pub struct Client<'e> {
    engine: &'e Engine,
    scale: Scale,
    home: u32,
    mix: Mix,
    random: Random,
    /// Number of the next payment: the user's seed in the upper half.
    next_payment: u64,
    receipt: Option<Receipt>,
}

/// What a committed transaction must have left in the database, for [`super::lost`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// Warehouse, district and number of a new order.
    Order([u32; 3]),
    /// The number that the payment's history row carries.
    Payment(u64),
    /// The orders that were delivered, as in [`Receipt::Order`].
    Delivery(Vec<[u32; 3]>),
}

fn want(row: Option<Vec<u8>>, what: &str) -> Result<Vec<u8>, EngineError> {
    row.ok_or_else(|| EngineError::Damaged { what: format!("a row of {what}") })
}

impl<'e> Client<'e> {
    /// A user whose actions are determined by `seed`.
    #[must_use]
    pub fn new(engine: &'e Engine, scale: Scale, seed: u64) -> Self {
        Self {
            engine,
            scale,
            home: 1,
            mix: Mix::STANDARD,
            random: Random::new(seed),
            next_payment: seed << 32,
            receipt: None,
        }
    }

    /// The receipt of the last transaction, if it was acknowledged and changed something.
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    /// The same user with another mix of transactions.
    #[must_use]
    pub fn with_mix(self, mix: Mix) -> Self {
        Self { mix, ..self }
    }

    /// Runs one transaction of the mix.
    ///
    /// # Errors
    /// The transaction's kind with its error. After [`EngineError::LockTimeout`] and
    /// [`EngineError::Rollback`] it had no effect and the user may go on.
    pub fn step(&mut self) -> Result<Kind, (Kind, EngineError)> {
        self.receipt = None;
        self.home = self.random.within(1, self.scale.warehouses);
        let kind = self.mix.kind(self.random.within(1, 100));
        let done = match kind {
            Kind::NewOrder => self.new_order(),
            Kind::Payment => self.payment(),
            Kind::OrderStatus => self.order_status(),
            Kind::Delivery => self.delivery(),
            Kind::StockLevel => self.stock_level(),
        };
        done.map(|()| kind).map_err(|error| (kind, error))
    }

    /// The standard's non-uniform random number (clause 2.1.6).
    fn skewed(&mut self, a: u32, limit: u32) -> u32 {
        let mix = self.random.within(0, a) | self.random.within(1, limit);
        mix % limit + 1
    }

    fn customer(&mut self) -> u32 {
        let limit = self.scale.customers;
        self.skewed(if limit > 1023 { 1023 } else { limit / 3 }, limit)
    }

    fn item(&mut self) -> u32 {
        let limit = self.scale.items;
        self.skewed(if limit > 8191 { 8191 } else { limit / 12 }, limit)
    }

    fn elsewhere(&mut self) -> u32 {
        if self.scale.warehouses == 1 {
            return self.home;
        }
        let other = self.random.within(1, self.scale.warehouses - 1);
        if other >= self.home { other + 1 } else { other }
    }

    fn new_order(&mut self) -> Result<(), EngineError> {
        let (w, d, c) = (self.home, self.random.within(1, DISTRICTS), self.customer());
        let mut items: Vec<(u32, u32, u32)> = (0..self.random.within(5, 15))
            .map(|_| {
                let supplier = if self.random.within(1, 100) == 1 { self.elsewhere() } else { w };
                (supplier, self.item(), self.random.within(1, 10))
            })
            .collect();
        // All transactions lock in the same order.
        items.sort_unstable();
        let rolled_back = self.random.within(1, 100) == 1;
        let mut tx = self.engine.begin();
        want(tx.get(WAREHOUSE, &key(&[w]))?, "warehouse")?;
        want(tx.get(CUSTOMER, &key(&[w, d, c]))?, "customer")?;
        let mut district = want(tx.get_for_update(DISTRICT, &key(&[w, d]))?, "district")?;
        let order = get32(&district, field::NEXT_ORDER);
        put32(&mut district, field::NEXT_ORDER, order + 1);
        tx.put(DISTRICT, &key(&[w, d]), &district)?;
        let mut row = vec![b'o'; field::ORDER_BYTES];
        put32(&mut row, field::ORDER_CUSTOMER, c);
        put32(&mut row, field::CARRIER, 0);
        put32(&mut row, field::LINES, items.len() as u32);
        tx.put(ORDERS, &key(&[w, d, order]), &row)?;
        tx.put(ORDER_CUSTOMER, &key(&[w, d, c, order]), &[])?;
        tx.put(NEW_ORDER, &key(&[w, d, order]), &[])?;
        for (line, (supplier, item, quantity)) in (1..).zip(items) {
            let price = get32(&want(tx.get(ITEM, &key(&[item]))?, "item")?, field::PRICE);
            self.take_stock(&mut tx, supplier, item, quantity)?;
            let mut row = vec![b'l'; field::LINE_BYTES];
            put32(&mut row, field::LINE_ITEM, item);
            put32(&mut row, field::LINE_SUPPLIER, supplier);
            put32(&mut row, field::LINE_QUANTITY, quantity);
            put32(&mut row, field::LINE_DELIVERED, 0);
            put64(&mut row, field::LINE_AMOUNT, i64::from(price * quantity));
            tx.put(ORDER_LINE, &key(&[w, d, order, line]), &row)?;
        }
        if rolled_back {
            return Err(EngineError::Rollback("an item that does not exist"));
        }
        tx.commit()?;
        self.receipt = Some(Receipt::Order([w, d, order]));
        Ok(())
    }

    fn take_stock(
        &self,
        tx: &mut Transaction<'_>,
        supplier: u32,
        item: u32,
        quantity: u32,
    ) -> Result<(), EngineError> {
        let at = key(&[supplier, item]);
        let mut stock = want(tx.get_for_update(STOCK, &at)?, "stock")?;
        let left = get32(&stock, field::QUANTITY);
        let left = if left >= quantity + 10 { left - quantity } else { left + 91 - quantity };
        put32(&mut stock, field::QUANTITY, left);
        for (field, by) in [
            (field::STOCK_YTD, quantity),
            (field::STOCK_ORDERS, 1),
            (field::STOCK_REMOTE, u32::from(supplier != self.home)),
        ] {
            let sum = get32(&stock, field) + by;
            put32(&mut stock, field, sum);
        }
        tx.put(STOCK, &at, &stock)
    }

    /// 60 % of customers are found by last name: the middle one with that name.
    fn find_customer(&mut self, tx: &Transaction<'_>, w: u32, d: u32) -> Result<u32, EngineError> {
        let c = self.customer();
        if self.random.within(1, 100) > 60 {
            return Ok(c);
        }
        let name = last_name(c);
        let mut found = Vec::new();
        let (from, to) = (key(&[w, d, name]), key(&[w, d, name + 1]));
        tx.scan(CUSTOMER_NAME, &from, &to, &mut |key, _| {
            found.push(part(key, 3));
            true
        })?;
        Ok(found.get(found.len() / 2).copied().unwrap_or(c))
    }

    fn payment(&mut self) -> Result<(), EngineError> {
        let (w, d) = (self.home, self.random.within(1, DISTRICTS));
        let amount = i64::from(self.random.within(100, 500_000));
        let remote = self.random.within(1, 100) > 85;
        let cw = if remote { self.elsewhere() } else { w };
        let cd = if remote { self.random.within(1, DISTRICTS) } else { d };
        let mut tx = self.engine.begin();
        let c = self.find_customer(&tx, cw, cd)?;
        // The row without contention comes first: the others are then locked for a shorter time.
        let at = key(&[cw, cd, c]);
        let mut customer = want(tx.get_for_update(CUSTOMER, &at)?, "customer")?;
        add(&mut customer, field::BALANCE, -amount);
        add(&mut customer, field::PAID, amount);
        let payments = get32(&customer, field::PAYMENTS) + 1;
        put32(&mut customer, field::PAYMENTS, payments);
        if customer[field::BAD_CREDIT] == 1 {
            customer.copy_within(field::DATA..field::CUSTOMER_BYTES - 20, field::DATA + 20);
        }
        tx.put(CUSTOMER, &at, &customer)?;
        for (table, at) in [(DISTRICT, key(&[w, d])), (WAREHOUSE, key(&[w]))] {
            let mut row = want(tx.get_for_update(table, &at)?, "warehouse or district")?;
            add(&mut row, field::YTD, amount);
            tx.put(table, &at, &row)?;
        }
        let mut history = vec![b'h'; field::HISTORY_BYTES];
        put64(&mut history, field::HISTORY_AMOUNT, amount);
        let payment = self.next_payment;
        self.next_payment += 1;
        // The same bits.
        put64(&mut history, field::HISTORY_NUMBER, payment as i64);
        tx.append(HISTORY, &history)?;
        tx.commit()?;
        self.receipt = Some(Receipt::Payment(payment));
        Ok(())
    }

    fn order_status(&mut self) -> Result<(), EngineError> {
        let (w, d) = (self.home, self.random.within(1, DISTRICTS));
        let tx = self.engine.begin();
        let c = self.find_customer(&tx, w, d)?;
        want(tx.get(CUSTOMER, &key(&[w, d, c]))?, "customer")?;
        let mut last = None;
        let (from, to) = (key(&[w, d, c]), key(&[w, d, c + 1]));
        tx.scan(ORDER_CUSTOMER, &from, &to, &mut |key, _| {
            last = Some(part(key, 3));
            true
        })?;
        if let Some(order) = last {
            tx.get(ORDERS, &key(&[w, d, order]))?;
            let (from, to) = (key(&[w, d, order]), key(&[w, d, order + 1]));
            tx.scan(ORDER_LINE, &from, &to, &mut |_, _| true)?;
        }
        tx.commit()
    }

    fn delivery(&mut self) -> Result<(), EngineError> {
        let (w, carrier) = (self.home, self.random.within(1, 10));
        let mut tx = self.engine.begin();
        let mut delivered = Vec::new();
        for d in 1..=DISTRICTS {
            let mut oldest = None;
            tx.scan(NEW_ORDER, &key(&[w, d]), &key(&[w, d + 1]), &mut |key, _| {
                oldest = Some(part(key, 2));
                false
            })?;
            let Some(order) = oldest else { continue };
            let at = key(&[w, d, order]);
            // Another transaction may have delivered it since.
            if tx.get_for_update(NEW_ORDER, &at)?.is_none() {
                continue;
            }
            tx.delete(NEW_ORDER, &at)?;
            delivered.push([w, d, order]);
            let mut row = want(tx.get_for_update(ORDERS, &at)?, "orders")?;
            put32(&mut row, field::CARRIER, carrier);
            tx.put(ORDERS, &at, &row)?;
            let mut lines = Vec::new();
            let (from, to) = (at, key(&[w, d, order + 1]));
            tx.scan(ORDER_LINE, &from, &to, &mut |key, row| {
                lines.push((key.to_vec(), row.to_vec()));
                true
            })?;
            let mut amount = 0;
            for (at, mut line) in lines {
                amount += get64(&line, field::LINE_AMOUNT);
                put32(&mut line, field::LINE_DELIVERED, 1);
                tx.put(ORDER_LINE, &at, &line)?;
            }
            let at = key(&[w, d, get32(&row, field::ORDER_CUSTOMER)]);
            let mut customer = want(tx.get_for_update(CUSTOMER, &at)?, "customer")?;
            add(&mut customer, field::BALANCE, amount);
            let deliveries = get32(&customer, field::DELIVERIES) + 1;
            put32(&mut customer, field::DELIVERIES, deliveries);
            tx.put(CUSTOMER, &at, &customer)?;
        }
        tx.commit()?;
        self.receipt = Some(Receipt::Delivery(delivered));
        Ok(())
    }

    fn stock_level(&mut self) -> Result<(), EngineError> {
        let (w, d) = (self.home, self.random.within(1, DISTRICTS));
        let limit = self.random.within(10, 20);
        let tx = self.engine.begin();
        let district = want(tx.get(DISTRICT, &key(&[w, d]))?, "district")?;
        let next = get32(&district, field::NEXT_ORDER);
        let mut items = Vec::new();
        let (from, to) = (key(&[w, d, next.saturating_sub(20)]), key(&[w, d, next]));
        tx.scan(ORDER_LINE, &from, &to, &mut |_, row| {
            items.push(get32(row, field::LINE_ITEM));
            true
        })?;
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            let stock = want(tx.get(STOCK, &key(&[w, item]))?, "stock")?;
            low += u32::from(get32(&stock, field::QUANTITY) < limit);
        }
        std::hint::black_box(low);
        tx.commit()
    }
}

fn add(row: &mut [u8], at: usize, amount: i64) {
    let sum = get64(row, at) + amount;
    put64(row, at, sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_mix_is_the_standards() {
        let of = |kind| (1..=100).filter(|&draw| Mix::STANDARD.kind(draw) == kind).count();
        let kinds =
            [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];
        assert_eq!(kinds.map(of), [45, 43, 4, 4, 4]);
    }
}
