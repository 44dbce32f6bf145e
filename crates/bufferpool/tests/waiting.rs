//! Who waits for whose writes: WAR for its buffer, InnoDB 5.6 for the flusher's batch, an eager
//! flusher for none.

use headworks_bufferpool::storage::{IoKind, IoTag, MemStorage, PageWrite, Storage};
use headworks_bufferpool::{
    BufferPool, Doublewrite, Lsn, NoWal, PageId, PoolConfig, StorageError, StrategyKind,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PAGE_SIZE: usize = 4096;
const FRAMES: u64 = 16;
const BUFFER: u64 = 8;

/// Lets no write of the flusher or the buffer end before it is opened.
struct Gate {
    inner: MemStorage,
    open: Mutex<bool>,
    opened: Condvar,
    /// Writes that have come to the gate since it was shut.
    came: AtomicUsize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn shut(&self) {
        *self.open.lock().unwrap() = false;
        self.came.store(0, Ordering::SeqCst);
    }

    /// Waits until a write has come, and a moment for those that come with it.
    fn wait_for_a_write(&self) {
        let begun = Instant::now();
        while self.came.load(Ordering::SeqCst) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "no write came");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(200));
    }

    fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }
}

impl Storage for Gate {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        assert_ne!(tag.kind, IoKind::StallFlush, "a miss writes page {page} itself");
        self.pass();
        self.inner.write(page, bytes, tag)
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        self.pass();
        self.inner.write_batch(writes, done);
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}

/// Opens the gate when a test ends, also when it fails: a pool waits for its threads.
struct OpenAtEnd(Arc<Gate>);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn gate(open: bool) -> Arc<Gate> {
    let inner = MemStorage::new(PAGE_SIZE, 1000);
    Arc::new(Gate {
        inner,
        open: Mutex::new(open),
        opened: Condvar::new(),
        came: AtomicUsize::new(0),
    })
}

fn put(pool: &BufferPool, page: u64, value: u8) {
    pool.create(PageId(page), Lsn(1)).unwrap().change(Lsn(1))[100] = value;
}

/// A pool full of the dirty pages 0 to 15 before a gate that is shut.
fn full() -> (Arc<Gate>, BufferPool) {
    let gate = gate(false);
    let config = PoolConfig {
        // Less than usize on every machine.
        frames: FRAMES as usize,
        page_size: PAGE_SIZE,
        strategy: StrategyKind::War { buffer_pages: BUFFER as usize },
        flush_interval: Duration::from_secs(3600),
        exhausted_after: Duration::from_secs(60),
        ..PoolConfig::default()
    };
    let pool = BufferPool::new(config, gate.clone(), Arc::new(NoWal), None).unwrap();
    (0..FRAMES).for_each(|page| put(&pool, page, page as u8));
    (gate, pool)
}

fn waits(ended: &Receiver<()>) {
    let still = ended.recv_timeout(Duration::from_millis(100));
    assert_eq!(still, Err(RecvTimeoutError::Timeout), "it did not wait");
}

/// Eight misses take frames of dirty pages while no write ends: none stalls. The ninth finds the
/// buffer full and waits. Its woken flusher is shut out as well.
#[test]
fn a_miss_waits_only_while_the_buffer_is_full() {
    let (gate, pool) = full();
    let _open = OpenAtEnd(Arc::clone(&gate));
    (100..100 + BUFFER).for_each(|page| put(&pool, page, page as u8));
    let stats = pool.stats();
    assert_eq!((stats.read_stalls, stats.buffer_waits, stats.pages_written()), (0, 0, 0));
    std::thread::scope(|scope| {
        let (send, ended) = channel();
        let pool = &pool;
        scope.spawn(move || {
            put(pool, 200, 200);
            send.send(()).unwrap();
        });
        waits(&ended);
        gate.open();
        ended.recv().unwrap();
    });
    assert!(pool.stats().buffer_waits > 0);
    assert_eq!(pool.stats().read_stalls, 0);
    for page in (0..FRAMES).chain(100..100 + BUFFER).chain([200]) {
        assert_eq!(pool.read(PageId(page)).unwrap()[100], page as u8, "page {page}");
    }
    pool.close().unwrap();
}

/// A page whose former self is on its way to storage is neither read nor made again before that has
/// arrived: the write of the old content would end after one of the new.
#[test]
fn a_page_comes_back_only_when_its_old_copy_has_arrived() {
    for made in [false, true] {
        let (gate, pool) = full();
        let _open = OpenAtEnd(Arc::clone(&gate));
        put(&pool, 100, 100);
        assert!(!pool.contains(PageId(0)), "the page at the tail was set aside");
        // The buffer's writer takes it at once.
        gate.wait_for_a_write();
        std::thread::scope(|scope| {
            let (send, ended) = channel();
            let pool = &pool;
            scope.spawn(move || {
                if made {
                    put(pool, 0, 77);
                } else {
                    pool.write(PageId(0)).unwrap().change(Lsn(1))[100] = 77;
                }
                send.send(()).unwrap();
            });
            waits(&ended);
            gate.open();
            ended.recv().unwrap();
        });
        pool.close().unwrap();
        let mut bytes = vec![0; PAGE_SIZE];
        gate.read(PageId(0), &mut bytes, IoTag::of(IoKind::Other)).unwrap();
        assert_eq!(bytes[100], 77, "made: {made}");
    }
}

/// While the flusher writes a batch a miss of InnoDB 5.6 waits for its end, though there are clean
/// pages to take; that of Vanilla does not.
#[test]
fn a_miss_of_innodb_56_waits_for_the_flushers_batch() {
    for (strategy, does_wait) in [(StrategyKind::Vanilla, false), (StrategyKind::InnoDb56, true)] {
        let gate = gate(true);
        let area = Arc::new(MemStorage::new(PAGE_SIZE, Doublewrite::AREA_PAGES));
        let config = PoolConfig {
            frames: FRAMES as usize,
            page_size: PAGE_SIZE,
            strategy,
            flush_batch: 4,
            background: false,
            ..PoolConfig::default()
        };
        let area = Some(Arc::new(Doublewrite::new(area).unwrap()));
        let pool = BufferPool::new(config, gate.clone(), Arc::new(NoWal), area).unwrap();
        let _open = OpenAtEnd(Arc::clone(&gate));
        (0..FRAMES).for_each(|page| put(&pool, page, page as u8));
        pool.flush_all().unwrap();
        (0..8).for_each(|page| pool.write(PageId(page)).unwrap().change(Lsn(1))[100] += 1);
        gate.shut();
        std::thread::scope(|scope| {
            let (send, ended) = channel();
            let pool = &pool;
            scope.spawn(|| pool.flush_round().unwrap());
            // The batch's copies are written before it comes to the gate.
            while pool.stats().rounds == 0 {
                std::thread::yield_now();
            }
            gate.wait_for_a_write();
            scope.spawn(move || {
                put(pool, 100, 100);
                send.send(()).unwrap();
            });
            if does_wait {
                waits(&ended);
                gate.open();
            }
            ended.recv_timeout(Duration::from_secs(20)).unwrap();
            gate.open();
        });
        assert_eq!(pool.stats().buffer_waits, u64::from(does_wait), "{strategy:?}");
    }
}

/// An eager flusher begins as soon as an eighth of the frames is behind the pointer, the paper's
/// with its next round.
#[test]
fn an_eager_flusher_does_not_wait_for_its_round() {
    for (strategy, eager) in [(StrategyKind::LRU_C, false), (StrategyKind::LRU_C_EAGER, true)] {
        let config = PoolConfig {
            frames: 64,
            page_size: PAGE_SIZE,
            strategy,
            flush_interval: Duration::from_secs(3600),
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, gate(true), Arc::new(NoWal), None).unwrap();
        (0..64).for_each(|page| put(&pool, page, page as u8));
        pool.flush_all().unwrap();
        let change = |page: u64| pool.write(PageId(page)).unwrap().change(Lsn(1))[100] = 1;
        let rounds_in = |limit: Duration| {
            let end = Instant::now() + limit;
            while pool.stats().rounds == 0 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            pool.stats().rounds
        };
        (0..8).for_each(change);
        drop(pool.write_or_zero(PageId(100)).unwrap());
        assert!(!pool.contains(PageId(8)), "the oldest clean page");
        assert_eq!(
            rounds_in(Duration::from_millis(200)),
            0,
            "an eighth is not more than an eighth"
        );
        change(9);
        drop(pool.write_or_zero(PageId(101)).unwrap());
        if eager {
            assert!(rounds_in(Duration::from_secs(20)) > 0);
        } else {
            assert_eq!(rounds_in(Duration::from_millis(200)), 0);
        }
    }
}
