//! Which transaction is next: a deck of cards that can be changed during a run (clause 5.2.4.2).
//!
//! Cards keep the mix exact over every deck, where dice would only approach it. A mix shared by all
//! terminals lets an experiment shift the workload during a run. A terminal deals itself a deck of
//! the new mix at its next draw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::db::DbError;
use crate::random::Random;

/// The five transactions (clause 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transaction {
    /// Enters an order of 5 to 15 lines (clause 2.4).
    NewOrder,
    /// Books a customer's payment (clause 2.5).
    Payment,
    /// Reads a customer's last order (clause 2.6).
    OrderStatus,
    /// Delivers the oldest order of each of ten districts (clause 2.7).
    Delivery,
    /// Counts items of recent orders that run short (clause 2.8).
    StockLevel,
}

impl Transaction {
    /// All, in the order of clause 2.
    pub const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 5] =
        ["new-order", "payment", "order-status", "delivery", "stock-level"];
}

/// Cards of each transaction in a deck, in the order of [`Transaction::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix([u16; 5]);

impl Mix {
    /// 45 % New-Order, 43 % Payment, 4 % of each other: the most New-Orders that clause 5.2.3
    /// allows.
    pub const STANDARD: Self = Self([45, 43, 4, 4, 4]);

    /// The deck that clause 5.2.4.2 suggests and tpcc-mysql uses: 10, 10, 1, 1, 1.
    pub const DECK_OF_23: Self = Self([10, 10, 1, 1, 1]);

    /// Mostly Order-Status and Stock-Level: 90 % of transactions only read.
    pub const READ_MOSTLY: Self = Self([5, 4, 45, 1, 45]);

    /// Only the transactions that write.
    pub const WRITE_HEAVY: Self = Self([48, 44, 0, 8, 0]);

    /// Any numbers of cards; at least one must be above zero and none above 1,000.
    pub fn new(cards: [u16; 5]) -> Result<Self, DbError> {
        if cards.iter().all(|&count| count == 0) || cards.iter().any(|&count| count > 1_000) {
            return Err(DbError::usage(
                "a mix needs at least one card, and at most 1,000 of a transaction",
            ));
        }
        Ok(Self(cards))
    }

    /// The cards, in the order of [`Transaction::ALL`].
    pub fn cards(self) -> [u16; 5] {
        self.0
    }

    /// Ten bits for each count, which is why none is above 1,000.
    fn pack(self) -> u64 {
        self.0.iter().fold(0, |packed, &count| packed << 10 | u64::from(count))
    }

    fn unpack(packed: u64) -> Self {
        Self([40, 30, 20, 10, 0].map(|shift| (packed >> shift & 0x3ff) as u16))
    }
}

/// The mix that all terminals share.
#[derive(Debug, Clone)]
pub struct MixHandle(Arc<AtomicU64>);

impl MixHandle {
    /// A handle that starts with `mix`.
    pub fn new(mix: Mix) -> Self {
        Self(Arc::new(AtomicU64::new(mix.pack())))
    }

    /// Shifts the workload: every terminal uses the new mix from its next transaction on.
    pub fn set(&self, mix: Mix) {
        // Nothing else is published with the mix, so no ordering is needed.
        self.0.store(mix.pack(), Ordering::Relaxed);
    }

    /// The mix in use.
    pub fn get(&self) -> Mix {
        Mix::unpack(self.0.load(Ordering::Relaxed))
    }
}

/// One terminal's shuffled cards.
#[derive(Debug, Clone)]
pub struct Deck {
    mix: MixHandle,
    dealt: Mix,
    cards: Vec<Transaction>,
}

impl Deck {
    /// An empty deck of the shared mix; the first draw deals it.
    pub fn new(mix: MixHandle) -> Self {
        let dealt = mix.get();
        Self { mix, dealt, cards: Vec::new() }
    }

    /// The next card.
    pub fn draw(&mut self, random: &mut Random) -> Transaction {
        let mix = self.mix.get();
        if self.cards.is_empty() || mix != self.dealt {
            self.dealt = mix;
            self.cards.clear();
            for (transaction, count) in Transaction::ALL.into_iter().zip(mix.cards()) {
                self.cards.extend(std::iter::repeat_n(transaction, usize::from(count)));
            }
            random.shuffle(&mut self.cards);
        }
        self.cards.pop().unwrap_or(Transaction::NewOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(deck: &mut Deck, random: &mut Random, draws: usize) -> [u16; 5] {
        let mut counts = [0; 5];
        for _ in 0..draws {
            counts[deck.draw(random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn every_deck_has_exactly_its_mix_in_another_order() {
        let mut random = Random::stream(1, 1);
        let mut deck = Deck::new(MixHandle::new(Mix::STANDARD));
        for _ in 0..10 {
            assert_eq!(count(&mut deck, &mut random, 100), [45, 43, 4, 4, 4]);
        }
        let hundred = |deck: &mut Deck, random: &mut Random| {
            (0..100).map(|_| deck.draw(random)).collect::<Vec<_>>()
        };
        assert_ne!(hundred(&mut deck, &mut random), hundred(&mut deck, &mut random));
    }

    #[test]
    fn a_shift_takes_effect_at_the_next_draw() {
        let mut random = Random::stream(1, 1);
        let handle = MixHandle::new(Mix::WRITE_HEAVY);
        let mut deck = Deck::new(handle.clone());
        count(&mut deck, &mut random, 30);
        handle.set(Mix::new([0, 0, 1, 0, 1]).unwrap());
        assert_eq!(count(&mut deck, &mut random, 10), [0, 0, 5, 0, 5]);
    }

    #[test]
    fn a_mix_survives_its_packing() {
        for cards in [[0, 0, 0, 0, 1], [1000, 999, 3, 512, 1000], [45, 43, 4, 4, 4]] {
            let mix = Mix::new(cards).unwrap();
            assert_eq!(MixHandle::new(mix).get(), mix);
        }
        assert!(Mix::new([0; 5]).is_err());
        assert!(Mix::new([1001, 0, 0, 0, 0]).is_err());
    }
}
