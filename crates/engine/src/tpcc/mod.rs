//! TPC-C's five transactions on trees and a heap file of the engine (TPC-C standard, revision 5.11,
//! clauses 1.3 and 2.4 to 2.8). No SQL, no terminals, no think times; the mix is that of clause
//! 5.2.3.
//!
//! Rows have the fields that the standard's transactions read or write, with their lengths. The
//! scale of a warehouse is a parameter. A smaller one keeps the number of warehouses, and so the
//! conflicts between users, at a fraction of the data.

mod check;
mod load;
mod run;

pub use check::{CheckError, check, lost, orders};
pub use load::load;
pub use run::{Client, Kind, Mix, Receipt};

use crate::store::TableId;

pub(crate) const WAREHOUSE: TableId = TableId(0);
pub(crate) const DISTRICT: TableId = TableId(1);
pub(crate) const CUSTOMER: TableId = TableId(2);
pub(crate) const CUSTOMER_NAME: TableId = TableId(3);
pub(crate) const HISTORY: TableId = TableId(4);
pub(crate) const NEW_ORDER: TableId = TableId(5);
pub(crate) const ORDERS: TableId = TableId(6);
pub(crate) const ORDER_CUSTOMER: TableId = TableId(7);
pub(crate) const ORDER_LINE: TableId = TableId(8);
pub(crate) const ITEM: TableId = TableId(9);
pub(crate) const STOCK: TableId = TableId(10);

/// Which tables are heap files, for [`crate::Engine::create`].
pub const HEAPS: [bool; 11] =
    [false, false, false, false, true, false, false, false, false, false, false];

pub(crate) const DISTRICTS: u32 = 10;

/// How much data there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses: 1 and up.
    pub warehouses: u32,
    /// Customers of a district, and orders at first: the standard has 3,000.
    pub customers: u32,
    /// Items, and stock rows of a warehouse: the standard has 100,000.
    pub items: u32,
}

impl Scale {
    /// The standard's.
    #[must_use]
    pub fn full(warehouses: u32) -> Self {
        Self { warehouses, customers: 3_000, items: 100_000 }
    }

    /// A tenth of the standard's data for each warehouse.
    #[must_use]
    pub fn tenth(warehouses: u32) -> Self {
        Self { warehouses, customers: 300, items: 10_000 }
    }
}

/// Offsets within rows. Money is in cents.
pub(crate) mod field {
    pub(crate) const YTD: usize = 0;
    pub(crate) const TAX: usize = 8;
    pub(crate) const NEXT_ORDER: usize = 12;
    pub(crate) const WAREHOUSE_BYTES: usize = 89;
    pub(crate) const DISTRICT_BYTES: usize = 95;

    pub(crate) const BALANCE: usize = 0;
    pub(crate) const PAID: usize = 8;
    pub(crate) const PAYMENTS: usize = 16;
    pub(crate) const DELIVERIES: usize = 20;
    pub(crate) const DISCOUNT: usize = 24;
    pub(crate) const BAD_CREDIT: usize = 28;
    pub(crate) const NAME: usize = 32;
    pub(crate) const DATA: usize = 155;
    pub(crate) const CUSTOMER_BYTES: usize = 655;

    pub(crate) const ORDER_CUSTOMER: usize = 0;
    pub(crate) const CARRIER: usize = 4;
    pub(crate) const LINES: usize = 8;
    pub(crate) const ORDER_BYTES: usize = 24;

    pub(crate) const LINE_ITEM: usize = 0;
    pub(crate) const LINE_SUPPLIER: usize = 4;
    pub(crate) const LINE_QUANTITY: usize = 8;
    pub(crate) const LINE_DELIVERED: usize = 12;
    pub(crate) const LINE_AMOUNT: usize = 16;
    pub(crate) const LINE_BYTES: usize = 54;

    pub(crate) const PRICE: usize = 0;
    pub(crate) const ITEM_BYTES: usize = 82;

    pub(crate) const QUANTITY: usize = 0;
    pub(crate) const STOCK_YTD: usize = 4;
    pub(crate) const STOCK_ORDERS: usize = 8;
    pub(crate) const STOCK_REMOTE: usize = 12;
    pub(crate) const STOCK_BYTES: usize = 306;

    pub(crate) const HISTORY_AMOUNT: usize = 0;
    /// Not in the standard: distinguishes payments.
    pub(crate) const HISTORY_NUMBER: usize = 8;
    pub(crate) const HISTORY_BYTES: usize = 46;
}

/// The hash of a customer's last name: the standard makes it from a number from 0 to 999.
pub(crate) fn last_name(customer: u32) -> u32 {
    if customer <= 1000 { customer - 1 } else { customer.wrapping_mul(2_654_435_761) % 1000 }
}
