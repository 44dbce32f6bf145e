//! A terminal's requests: the inputs of clauses 2.4.1 to 2.8.1, a function of the seed and the
//! terminal's number.
//!
//! Inputs are separate from the transactions that use them, so that a retry repeats the same
//! request and a test can compare two runs without a database.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::deck::{Deck, MixHandle, Transaction};
use super::names::{NuRand, last_name, run_constant};
use super::population::{DISTRICTS, Population};
use crate::random::Random;

/// Streams of the constants of a run, the same for all terminals.
const STREAM_CONSTANTS: u64 = 1 << 50;

/// Streams of pauses, separate from those of inputs, so that a run makes the same requests at any
/// pace.
const STREAM_PAUSES: u64 = 1 << 51;

/// Which warehouse a terminal works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Always the same (clause 2.4.1.1): terminals are dealt to warehouses in turn, then to their
    /// districts.
    #[default]
    Fixed,
    /// A random one for each transaction, as tpcc-mysql does it.
    Any,
}

/// How a customer is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// By number.
    Id(i64),
    /// By last name: the middle one with that name.
    LastName(String),
}

/// One line of a New-Order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderLine {
    /// The supplying warehouse; another one than the home in 1 % (clause 2.4.1.5).
    pub supply_warehouse: i64,
    /// The item.
    pub item: i64,
    /// 1 to 10.
    pub quantity: i64,
}

/// The input of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Clause 2.4.1.
    NewOrder {
        /// Home warehouse.
        warehouse: i64,
        /// 1 to 10.
        district: i64,
        /// The customer's number.
        customer: i64,
        /// 5 to 15 lines. In 1 % of orders the last line's item does not exist, and the transaction
        /// rolls back.
        lines: Vec<OrderLine>,
        /// Whether this is such an order.
        rolls_back: bool,
    },
    /// Clause 2.5.1.
    Payment {
        /// Home warehouse.
        warehouse: i64,
        /// 1 to 10.
        district: i64,
        /// The customer's warehouse; another one in 15 %.
        customer_warehouse: i64,
        /// The customer's district.
        customer_district: i64,
        /// 60 % by last name.
        customer: Selector,
        /// 1.00 to 5,000.00, in cents.
        amount_cents: i64,
    },
    /// Clause 2.6.1.
    OrderStatus {
        /// Home warehouse.
        warehouse: i64,
        /// 1 to 10.
        district: i64,
        /// 60 % by last name.
        customer: Selector,
    },
    /// Clause 2.7.1.
    Delivery {
        /// Home warehouse.
        warehouse: i64,
        /// 1 to 10.
        carrier: i64,
    },
    /// Clause 2.8.1.
    StockLevel {
        /// Home warehouse.
        warehouse: i64,
        /// The terminal's own district.
        district: i64,
        /// 10 to 20.
        threshold: i64,
    },
}

impl Input {
    /// Its transaction.
    pub fn transaction(&self) -> Transaction {
        match self {
            Self::NewOrder { .. } => Transaction::NewOrder,
            Self::Payment { .. } => Transaction::Payment,
            Self::OrderStatus { .. } => Transaction::OrderStatus,
            Self::Delivery { .. } => Transaction::Delivery,
            Self::StockLevel { .. } => Transaction::StockLevel,
        }
    }
}

/// The endless inputs of one terminal.
#[derive(Debug, Clone)]
pub struct Inputs {
    population: Population,
    random: Random,
    patience: Random,
    deck: Deck,
    home: Home,
    home_warehouse: i64,
    home_district: i64,
    customers: NuRand,
    items: NuRand,
    names: NuRand,
}

impl Inputs {
    /// The inputs of terminal number `terminal`, counted from 0.
    pub fn new(
        population: &Population,
        home: Home,
        mix: MixHandle,
        seed: u64,
        terminal: usize,
    ) -> Self {
        let mut constants = Random::stream(seed, STREAM_CONSTANTS);
        let name_constant = run_constant(population.name_constant(), &mut constants);
        let place = terminal as i64;
        Self {
            population: *population,
            random: Random::stream(seed, terminal as u64),
            patience: Random::stream(seed, STREAM_PAUSES + terminal as u64),
            deck: Deck::new(mix),
            home,
            home_warehouse: place % population.warehouses + 1,
            home_district: place / population.warehouses % DISTRICTS + 1,
            customers: population.customer(&mut constants),
            items: population.item(&mut constants),
            names: population.name_choice(name_constant),
        }
    }

    /// The next input.
    pub fn draw(&mut self) -> Input {
        let transaction = self.deck.draw(&mut self.random);
        let warehouse = match self.home {
            Home::Fixed => self.home_warehouse,
            Home::Any => self.random.within(1, self.population.warehouses),
        };
        match transaction {
            Transaction::NewOrder => self.new_order(warehouse),
            Transaction::Payment => self.payment(warehouse),
            Transaction::OrderStatus => Input::OrderStatus {
                warehouse,
                district: self.random.within(1, DISTRICTS),
                customer: self.customer(),
            },
            Transaction::Delivery => {
                Input::Delivery { warehouse, carrier: self.random.within(1, 10) }
            }
            Transaction::StockLevel => Input::StockLevel {
                warehouse,
                district: self.home_district,
                threshold: self.random.within(10, 20),
            },
        }
    }

    /// Keying and thinking times of the terminal's user (clauses 5.2.5.2 and 5.2.5.4), at real
    /// pace: fixed seconds, and exponentially distributed seconds cut off at ten times their mean.
    pub fn pauses(&mut self, transaction: Transaction) -> (Duration, Duration) {
        let (keying_s, mean_s) = match transaction {
            Transaction::NewOrder => (18.0, 12.0),
            Transaction::Payment => (3.0, 12.0),
            Transaction::OrderStatus => (2.0, 10.0),
            Transaction::Delivery | Transaction::StockLevel => (2.0, 5.0),
        };
        let thinking_s = self.patience.exponential(mean_s).min(10.0 * mean_s);
        (Duration::from_secs_f64(keying_s), Duration::from_secs_f64(thinking_s))
    }

    /// Another warehouse than `home`, or `home` when there is no other.
    fn elsewhere(&mut self, home: i64) -> i64 {
        if self.population.warehouses < 2 {
            return home;
        }
        let other = self.random.within(1, self.population.warehouses - 1);
        if other >= home { other + 1 } else { other }
    }

    fn customer(&mut self) -> Selector {
        if self.random.within(1, 100) <= 60 {
            Selector::LastName(last_name(self.names.draw(&mut self.random)))
        } else {
            Selector::Id(self.customers.draw(&mut self.random))
        }
    }

    fn new_order(&mut self, warehouse: i64) -> Input {
        let district = self.random.within(1, DISTRICTS);
        let customer = self.customers.draw(&mut self.random);
        let count = self.random.within(5, 15);
        let rolls_back = self.random.one_in(100);
        let mut lines: Vec<OrderLine> = (0..count)
            .map(|_| {
                let item = self.items.draw(&mut self.random);
                let supply_warehouse =
                    if self.random.one_in(100) { self.elsewhere(warehouse) } else { warehouse };
                OrderLine { supply_warehouse, item, quantity: self.random.within(1, 10) }
            })
            .collect();
        // Locks on stock are taken in the order of its key, as in tpcc-mysql: otherwise deadlocks
        // would be common.
        lines.sort_unstable();
        if rolls_back && let Some(last) = lines.last_mut() {
            last.item = self.population.items() + 1;
        }
        Input::NewOrder { warehouse, district, customer, lines, rolls_back }
    }

    fn payment(&mut self, warehouse: i64) -> Input {
        let district = self.random.within(1, DISTRICTS);
        let at_home = self.random.within(1, 100) <= 85 || self.population.warehouses < 2;
        let (customer_warehouse, customer_district) = if at_home {
            (warehouse, district)
        } else {
            (self.elsewhere(warehouse), self.random.within(1, DISTRICTS))
        };
        Input::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount_cents: self.random.within(100, 500_000),
        }
    }
}

#[cfg(test)]
mod tests;
