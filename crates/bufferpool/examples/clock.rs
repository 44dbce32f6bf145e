//! A strategy of one's own: CLOCK. A hand goes round the slots. One that was hit since the hand's
//! last visit is spared, another is taken if it is clean. The flusher writes what lies before the
//! hand.
//!
//! It is compared with the pool's own strategy: the misses of a skewed load, with writes.
//!
//!     cargo run --release -p headworks-bufferpool --example clock

use headworks_bufferpool::storage::MemStorage;
use headworks_bufferpool::{
    BufferPool, Lsn, PageId, PoolConfig, PoolError, Slots, Strategy, Taken,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A part of the slots before the hand is kept clean: one in so many.
const CLEAN_PART: u32 = 8;

struct Clock {
    hand: AtomicU32,
    /// Hits of each slot at the hand's last visit.
    seen: Box<[AtomicU32]>,
}

impl Clock {
    fn new(slots: u32) -> Clock {
        Clock { hand: AtomicU32::new(0), seen: (0..slots).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Whether a slot was hit since the hand's last visit.
    fn was_hit(&self, slots: &Slots<'_>, slot: u32) -> bool {
        self.seen[slot as usize].load(Ordering::Relaxed) != slots.hits(slot)
    }
}

impl Strategy for Clock {
    fn victim<'p>(&self, slots: &Slots<'p>, attempt: u32) -> Result<Option<Taken<'p>>, PoolError> {
        let count = slots.count();
        // In two rounds the hand meets every slot a second time.
        for _ in 0..2 * count {
            let slot = self.hand.fetch_add(1, Ordering::Relaxed) % count;
            if self.was_hit(slots, slot) {
                self.seen[slot as usize].store(slots.hits(slot), Ordering::Relaxed);
            } else if let Some(taken) = slots.take(slot) {
                return Ok(Some(taken));
            }
        }
        if attempt == 0 {
            // The flusher cleans some. The miss waits for that.
            return Ok(None);
        }
        let slot = self.hand.fetch_add(1, Ordering::Relaxed) % count;
        slots.write_and_take(slot)
    }

    fn round(&self, slots: &Slots<'_>) -> Result<(), PoolError> {
        let (count, hand) = (slots.count(), self.hand.load(Ordering::Relaxed));
        let before_it = (0..count / CLEAN_PART).map(|step| (hand.wrapping_add(step)) % count);
        let due: Vec<u32> =
            before_it.filter(|&slot| slots.is_dirty(slot) && !self.was_hit(slots, slot)).collect();
        slots.write(&due)
    }
}

const PAGES: u64 = 10_000;
const REQUESTS: u64 = 400_000;

/// The part of requests that missed.
fn misses(pool: &BufferPool) -> Result<f64, PoolError> {
    let mut state = 1_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The upper half as a part of one.
        (state >> 32) as f64 / f64::from(u32::MAX)
    };
    let missed = |pool: &BufferPool| pool.stats().misses;
    for page in 0..PAGES {
        pool.create(PageId(page), Lsn(1))?;
    }
    let before = missed(pool);
    for _ in 0..REQUESTS {
        // A third of the pages gets most requests. Below PAGES.
        let page = PageId((draw().powi(3) * PAGES as f64) as u64 % PAGES);
        if draw() < 0.2 {
            pool.write(page)?.change(Lsn(1))[64] ^= 1;
        } else {
            std::hint::black_box(pool.read(page)?[64]);
        }
    }
    Ok((missed(pool) - before) as f64 / REQUESTS as f64)
}

fn main() -> Result<(), PoolError> {
    let storage = || Arc::new(MemStorage::new(4096, PAGES));
    let config = PoolConfig { frames: 1000, page_size: 4096, ..PoolConfig::default() };
    let usual = BufferPool::builder(config, storage()).build()?;
    println!("the pool's own strategy: {:.3} of the requests missed", misses(&usual)?);
    usual.close()?;
    let config = PoolConfig { frequency: true, ..config };
    let clock = BufferPool::builder(config, storage())
        .strategy(|slots| Box::new(Clock::new(slots)))
        .build()?;
    println!("CLOCK: {:.3} of the requests missed", misses(&clock)?);
    clock.close()?;
    Ok(())
}
