//! A pool with a strategy that an engine brings.

use headworks_bufferpool::storage::MemStorage;
use headworks_bufferpool::{
    BufferPool, Lsn, PageId, PoolConfig, PoolError, Slots, Strategy, Taken,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGES: u64 = 500;

/// Takes slots in turn, whatever is in them, and notes which pages it asked for.
#[derive(Default)]
struct InTurn {
    next: AtomicU32,
    evicted: Arc<Mutex<Vec<PageId>>>,
}

impl Strategy for InTurn {
    fn victim<'p>(&self, slots: &Slots<'p>, _: u32) -> Result<Option<Taken<'p>>, PoolError> {
        for _ in 0..slots.count() {
            let slot = self.next.fetch_add(1, Ordering::Relaxed) % slots.count();
            let page = slots.page(slot);
            let taken = match slots.take(slot) {
                None => slots.write_and_take(slot)?,
                taken => taken,
            };
            if let Some(taken) = taken {
                assert_eq!(taken.slot(), slot);
                self.evicted.lock().unwrap().extend(page);
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    fn round(&self, slots: &Slots<'_>) -> Result<(), PoolError> {
        let all: Vec<u32> = (0..slots.count()).collect();
        slots.write(&all)
    }
}

fn config() -> PoolConfig {
    PoolConfig {
        frames: 32,
        page_size: 4096,
        exhausted_after: Duration::from_millis(200),
        background: false,
        ..PoolConfig::default()
    }
}

fn pool(evicted: &Arc<Mutex<Vec<PageId>>>) -> BufferPool {
    let storage = Arc::new(MemStorage::new(4096, PAGES));
    let evicted = Arc::clone(evicted);
    let make = move |slots| -> Box<dyn Strategy> {
        assert_eq!(slots, 32);
        Box::new(InTurn { evicted: Arc::clone(&evicted), ..InTurn::default() })
    };
    BufferPool::builder(config(), storage).strategy(make).build().unwrap()
}

#[test]
fn it_chooses_what_is_evicted() {
    let evicted = Arc::default();
    let pool = pool(&evicted);
    for page in 0..40 {
        pool.create(PageId(page), Lsn(1)).unwrap();
    }
    // The pool fills its slots in turn, so the first pages leave first, however often they are hit.
    let expected: Vec<PageId> = (0..8).map(PageId).collect();
    assert_eq!(*evicted.lock().unwrap(), expected);
    assert!(!pool.contains(PageId(0)) && pool.contains(PageId(8)));
    assert_eq!(pool.stats().read_stalls, 8, "all were dirty");
}

#[test]
fn no_change_is_lost_whatever_it_chooses() {
    let pool = pool(&Arc::default());
    let mut model: HashMap<u64, u8> = HashMap::new();
    let mut state = 7_u64;
    for step in 0..20_000_u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let page = state % PAGES;
        match model.get(&page) {
            Some(&byte) if state & (1 << 40) != 0 => {
                assert_eq!(pool.read(PageId(page)).unwrap()[100], byte, "step {step}");
            }
            _ => {
                let byte = (state >> 48) as u8;
                let mut guard = pool.write_or_zero(PageId(page)).unwrap();
                guard.change(Lsn(1))[100] = byte;
                model.insert(page, byte);
            }
        }
        if step % 1_000 == 0 {
            pool.flush_round().unwrap();
            assert_eq!(pool.stats().dirty_pages, 0);
        }
    }
    pool.close().unwrap();
}

#[test]
fn a_pinned_page_stays_and_a_miss_without_a_slot_fails() {
    let pool = pool(&Arc::default());
    let held: Vec<_> = (0..32).map(|page| pool.create(PageId(page), Lsn(1)).unwrap()).collect();
    assert!(matches!(pool.create(PageId(100), Lsn(1)), Err(PoolError::Exhausted { .. })));
    drop(held);
    pool.create(PageId(100), Lsn(1)).unwrap();
}
