//! The schedulers of `headworks-policy` in front of a buffer pool: they order its misses, flushes,
//! checkpoint writes and log syncs, and know for whom each is.

use headworks_bufferpool::storage::{IoId, IoKind, IoNext, IoRequest, IoScheduler, IoTag};
use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, IoClass, Operation, REQUESTS, Request,
};

/// What the scheduler is told of a request beside its position: class, level (0 to 7, 0 is highest)
/// and whether a thread waits for it.
pub(crate) type Rank = Box<dyn Fn(IoTag) -> (IoClass, u8, bool) + Send>;

/// Requests with a waiting thread come first: misses, stalls and the log before the flusher, and
/// the flusher before checkpoints.
pub(crate) fn foreground_first(tag: IoTag) -> (IoClass, u8, bool) {
    match tag.kind {
        IoKind::Miss | IoKind::StallFlush | IoKind::Log => (IoClass::RealTime, 0, true),
        IoKind::LruFlush | IoKind::Doublewrite => (IoClass::BestEffort, 4, false),
        // Prefetches, checkpoints and others.
        _ => (IoClass::Idle, 7, false),
    }
}

/// Every user gets the share of the device that its class weighs, whatever it does there: its
/// misses, and writes of pages that it dirtied. For
/// [`SchedulerKind::Afq`](headworks_policy::block::SchedulerKind::Afq).
///
/// The log, for which all users wait, goes first. So do batches of doublewrite copies, which are
/// for many users at once. Each user pays for its copies with the writes in place that follow
/// ([`PolicyQueue::charging_writes`] with the cost of both).
pub(crate) fn by_user(
    level: impl Fn(u32) -> u8 + Send + 'static,
) -> impl Fn(IoTag) -> (IoClass, u8, bool) + Send {
    move |tag| match tag.kind {
        IoKind::Log | IoKind::Doublewrite => (IoClass::RealTime, 0, true),
        IoKind::Miss | IoKind::StallFlush => (IoClass::BestEffort, level(tag.cause), true),
        // Prefetches, the flusher's writes, checkpoints and others.
        _ => (IoClass::BestEffort, level(tag.cause), false),
    }
}

/// A block scheduler as the order of a pool's requests.
///
/// Pages are spaced apart so that the scheduler never merges requests: a pool writes page by page.
pub(crate) struct PolicyQueue {
    scheduler: Box<dyn BlockScheduler>,
    rank: Rank,
    page_sectors: u32,
    /// Reads that a write of a page is charged as.
    write_cost: u32,
}

impl PolicyQueue {
    /// `page_sectors` is a page's length in sectors.
    pub(crate) fn new(
        scheduler: Box<dyn BlockScheduler>,
        rank: impl Fn(IoTag) -> (IoClass, u8, bool) + Send + 'static,
        page_sectors: u32,
    ) -> Self {
        Self { scheduler, rank: Box::new(rank), page_sectors, write_cost: 1 }
    }

    /// Charges a written page as so many read ones, at least 1: on flash it keeps the device that
    /// much longer. A scheduler that charges by length sees writes so much longer.
    pub(crate) fn charging_writes(self, reads: u32) -> Self {
        Self { write_cost: reads.max(1), ..self }
    }
}

/// Ids are below [`REQUESTS`], so they fit an index.
fn index(id: IoId) -> Index {
    id as Index
}

impl IoScheduler for PolicyQueue {
    fn capacity(&self) -> usize {
        REQUESTS
    }

    fn add(&mut self, now_ns: u64, id: IoId, request: &IoRequest) {
        let (class, level, sync) = (self.rank)(request.tag);
        let cost = if request.write { self.write_cost } else { 1 };
        // Far enough apart for the longest.
        let with_gap = self.page_sectors * self.write_cost + 1;
        let described = Request {
            operation: if request.write { Operation::Write } else { Operation::Read },
            sector: request.first.0 * u64::from(with_gap),
            // A log's request has no pages: a sector is the least that there is.
            sectors: (request.pages * self.page_sectors * cost).max(1),
            fua: false,
            sync,
            cause: request.tag.cause,
            class,
            level,
            deadline: None,
            continues: false,
        };
        let added = self.scheduler.add(Nanos(now_ns), index(id), &described);
        assert_eq!(added, Added::Queued, "neighbours with a gap between them were joined");
    }

    fn next(&mut self, now_ns: u64) -> IoNext {
        match self.scheduler.dispatch(Nanos(now_ns)) {
            Dispatch::Request(index) => {
                self.scheduler.activated(Nanos(now_ns), index);
                IoNext::Go(IoId::from(index))
            }
            Dispatch::Wait(until) => IoNext::Wait(until.0),
            Dispatch::Idle => IoNext::Idle,
        }
    }

    fn done(&mut self, now_ns: u64, id: IoId, service_ns: u64) {
        self.scheduler.completed(Nanos(now_ns), index(id), Nanos(service_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_bufferpool::storage::{
        DeviceModel, Fifo, IoQueue, MemStorage, QueuedStorage, SimDevice, Storage,
    };
    use headworks_bufferpool::{
        BufferPool, CauseSource, Lsn, NoWal, PageId, PoolConfig, StorageError, StrategyKind,
        attribution,
    };
    use headworks_engine::{LogDevice, MemLog, QueuedLog};
    use headworks_policy::block::SchedulerKind;
    use headworks_region::cause::Causes;
    use headworks_region::lock::thread_id;
    use headworks_region::{Mapping, clock};
    use parking_lot::Mutex;
    use std::cell::Cell;
    use std::ffi::CString;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const PAGE_BYTES: usize = 4096;
    const PAGES: u64 = 2000;
    const READ_MS: u64 = 2;
    const WRITE_MS: u64 = 8;
    /// Of those who read and write.
    const WRITER: usize = usize::MAX;

    /// Notes the order in which requests come to the device.
    struct Noted {
        inner: Arc<dyn Storage>,
        order: Mutex<Vec<(IoTag, PageId)>>,
    }

    impl Storage for Noted {
        fn page_size(&self) -> usize {
            self.inner.page_size()
        }
        fn pages(&self) -> u64 {
            self.inner.pages()
        }
        fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
            self.order.lock().push((tag, page));
            self.inner.read(page, bytes, tag)
        }
        fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
            self.order.lock().push((tag, page));
            self.inner.write(page, bytes, tag)
        }
        fn sync(&self) -> Result<(), StorageError> {
            self.inner.sync()
        }
    }

    fn config(frames: usize) -> PoolConfig {
        PoolConfig {
            frames,
            page_size: PAGE_BYTES,
            strategy: StrategyKind::LRU_C,
            background: false,
            ..PoolConfig::default()
        }
    }

    /// A pool behind a queue of one place before a device that does one thing at a time: a read in
    /// 2 ms, a write in 8.
    fn slow(scheduler: Box<dyn IoScheduler>) -> (BufferPool, Arc<Noted>) {
        slow_for(scheduler, None)
    }

    /// As [`slow`], with a table of which user each thread works for.
    fn slow_for(
        scheduler: Box<dyn IoScheduler>,
        causes: Option<Arc<dyn CauseSource>>,
    ) -> (BufferPool, Arc<Noted>) {
        let storage: Arc<dyn Storage> = Arc::new(MemStorage::new(PAGE_BYTES, PAGES));
        let causes = causes.unwrap_or_else(|| Arc::new(|| 0));
        let pool = |frames, storage| {
            let (config, wal, causes) = (config(frames), Arc::new(NoWal), Arc::clone(&causes));
            BufferPool::with_causes(config, storage, wal, None, causes).unwrap()
        };
        let filling = pool(2100, Arc::clone(&storage));
        for page in 0..PAGES {
            drop(filling.create(PageId(page), Lsn(1)).unwrap());
        }
        filling.close().unwrap();
        let model = DeviceModel {
            units: 1,
            read_ns: READ_MS * 1_000_000,
            write_ns: WRITE_MS * 1_000_000,
            ..DeviceModel::ssd_a()
        };
        let device = Arc::new(SimDevice::new(storage, model));
        let noted = Arc::new(Noted { inner: device, order: Mutex::default() });
        let queue = Arc::new(IoQueue::new(scheduler, 1));
        (pool(500, Arc::new(QueuedStorage::new(Arc::clone(&noted) as _, queue))), noted)
    }

    /// The device works in real time, and threads of a busy machine may come too late: one of ten
    /// runs has to be as it should be.
    fn one_of_ten<F: std::fmt::Debug>(run: impl Fn() -> F, right: impl Fn(&F) -> bool) {
        let mut found = Vec::new();
        while found.len() < 10 {
            found.push(run());
            if found.last().is_some_and(&right) {
                return;
            }
        }
        panic!("{found:?}");
    }

    fn ranked(
        rank: impl Fn(IoTag) -> (IoClass, u8, bool) + Send + 'static,
    ) -> Box<dyn IoScheduler> {
        Box::new(PolicyQueue::new(SchedulerKind::Cfq.build_for(false), rank, 8))
    }

    /// Pins a page when so many requests have been begun; answers how many others went before it
    /// since.
    fn overtaken(pool: &BufferPool, noted: &Noted, page: PageId, after: usize) -> usize {
        while noted.order.lock().len() < after {
            std::thread::yield_now();
        }
        let before = noted.order.lock().len();
        drop(pool.pin(page).unwrap());
        let order = noted.order.lock();
        order.iter().position(|&(_, other)| other == page).unwrap() - before
    }

    /// How many writes of a checkpoint go before a miss that comes in its middle.
    fn writes_before_a_miss(scheduler: Box<dyn IoScheduler>) -> usize {
        let (pool, noted) = slow(scheduler);
        for page in 0..60 {
            pool.write(PageId(page)).unwrap().change(Lsn(1))[40] = 1;
        }
        let begun = noted.order.lock().len();
        std::thread::scope(|scope| {
            scope.spawn(|| pool.flush_all().unwrap());
            overtaken(&pool, &noted, PageId(1000), begun + 10)
        })
    }

    /// Sixteen writes wait in the queue beside the one under way. In the order of arrival a miss
    /// waits for them; ranked first, it is the next (or the one after, if a write went while it
    /// came).
    #[test]
    fn a_ranked_queue_lets_a_miss_go_before_a_checkpoint() {
        one_of_ten(|| writes_before_a_miss(Box::<Fifo>::default()), |&writes| writes >= 10);
        one_of_ten(|| writes_before_a_miss(ranked(foreground_first)), |&writes| writes <= 3);
    }

    /// Misses carry their user: one user's can go before all others'.
    #[test]
    fn a_users_misses_go_before_others() {
        fn favour_seven(tag: IoTag) -> (IoClass, u8, bool) {
            let class = if tag.cause == 7 { IoClass::RealTime } else { IoClass::BestEffort };
            (class, 4, true)
        }
        let misses_before = |scheduler: Box<dyn IoScheduler>| {
            let (pool, noted) = slow(scheduler);
            std::thread::scope(|scope| {
                for user in 0..12 {
                    let pool = &pool;
                    scope.spawn(move || {
                        attribution::with(1, || {
                            for page in 0..10 {
                                drop(pool.pin(PageId(100 * user + page)).unwrap());
                            }
                        });
                    });
                }
                attribution::with(7, || overtaken(&pool, &noted, PageId(1999), 30))
            })
        };
        one_of_ten(|| misses_before(Box::<Fifo>::default()), |&misses| misses >= 6);
        one_of_ten(|| misses_before(ranked(favour_seven)), |&misses| misses <= 3);
    }

    /// Device time while the writer's pages are written, in ms: what others were given, and what
    /// the writer was.
    ///
    /// `others` threads miss all the time, and so do `own` of the writer's, each for whom `enter`
    /// makes it. The writer's pages are dirtied on one more thread, and written by another that
    /// works for no user.
    fn shares_ms(
        scheduler: Box<dyn IoScheduler>,
        causes: Option<Arc<dyn CauseSource>>,
        (others, own): (usize, usize),
        enter: &(dyn Fn(usize) + Sync),
    ) -> (u64, u64) {
        const WRITES: u64 = 24;
        let (pool, noted) = slow_for(scheduler, causes);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                enter(WRITER);
                for page in 0..WRITES {
                    pool.write(PageId(page)).unwrap().change(Lsn(1))[40] = 1;
                }
            });
        });
        noted.order.lock().clear();
        let done = AtomicBool::new(false);
        let reader_of = |page: u64| page as usize % (others + own);
        std::thread::scope(|scope| {
            let (pool, done, reader_of) = (&pool, &done, &reader_of);
            for reader in 0..others + own {
                scope.spawn(move || {
                    enter(if reader < others { reader } else { WRITER });
                    for page in (500..PAGES).filter(|&page| reader_of(page) == reader) {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        drop(pool.pin(PageId(page)).unwrap());
                    }
                });
            }
            // Readers wait when the writes come.
            while noted.order.lock().len() < 2 * (others + own) {
                std::thread::yield_now();
            }
            pool.flush_all().unwrap();
            done.store(true, Ordering::Relaxed);
        });
        let order = noted.order.lock();
        let is_write = |at: &usize| order[*at].0.kind == IoKind::CheckpointFlush;
        let writes: Vec<usize> = (0..order.len()).filter(is_write).collect();
        assert_eq!(writes.len() as u64, WRITES);
        // The page tells which thread made the request, whatever the tags say.
        let between = &order[writes[0]..=writes[writes.len() - 1]];
        let reads = between.iter().filter(|(tag, _)| tag.kind == IoKind::Miss);
        let (of_others, of_writer): (Vec<_>, Vec<_>) =
            reads.partition(|(_, page)| reader_of(page.0) < others);
        let reads_ms = |reads: &[&(IoTag, PageId)]| reads.len() as u64 * READ_MS;
        (reads_ms(&of_others), reads_ms(&of_writer) + WRITES * WRITE_MS)
    }

    fn afq(level: impl Fn(u32) -> u8 + Send + 'static) -> Box<dyn IoScheduler> {
        let afq = SchedulerKind::Afq.build_for(false);
        let queue = PolicyQueue::new(afq, by_user(level), 8);
        Box::new(queue.charging_writes((WRITE_MS / READ_MS) as u32))
    }

    thread_local! {
        static SERVES: Cell<u32> = const { Cell::new(0) };
    }

    /// The users that threads of an engine report: the writer is 2, all others are 1.
    fn say(reader: usize) {
        SERVES.set(if reader == WRITER { 2 } else { 1 });
    }

    /// Looks up what [`say`] reported.
    fn told() -> Option<Arc<dyn CauseSource>> {
        Some(Arc::new(|| SERVES.get()))
    }

    /// User 1 misses with eight threads. User 2 misses with four, and 24 pages that it dirtied are
    /// written back; a write takes 8 ms, a read 2.
    ///
    /// Weights are equal. User 1 gets as much as the writer: 192 ms of its writes, and its misses
    /// between them. AFQ's bound without a quantum allows a difference of the longest request of
    /// each at either end. Weights 8 and 4: twice as much. Without causes the pool is one user, and
    /// its requests go as they come. 8 misses of user 1 wait beside 17 writes. So for each write of
    /// 8 ms there is half a read of 2 ms.
    #[test]
    fn users_share_the_device_by_their_weights_whoever_writes_their_pages() {
        let (bound_ms, late_ms) = (2 * (READ_MS + WRITE_MS), 6 * READ_MS);
        let near = |&(others_ms, writer_ms): &(u64, u64), times: u64| {
            others_ms.abs_diff(times * writer_ms) <= times * bound_ms + late_ms
        };
        let weighted = || afq(|user| if user == 1 { 0 } else { 4 });
        one_of_ten(|| shares_ms(afq(|_| 0), told(), (8, 4), &say), |shares| near(shares, 1));
        one_of_ten(|| shares_ms(weighted(), told(), (8, 4), &say), |shares| near(shares, 2));
        one_of_ten(
            || shares_ms(afq(|_| 0), None, (8, 4), &say),
            |&(others_ms, writer_ms)| 2 * others_ms < writer_ms,
        );
    }

    /// The same with four users of a region's file. The writer's pages are charged to it although
    /// the thread that dirtied them is gone. With its misses it gets a quarter of the device.
    #[test]
    fn a_regions_users_share_the_device() {
        let path = format!("/dev/shm/headworks-pool-test-{}", std::process::id());
        let c_path = CString::new(path.as_str()).unwrap();
        let region = Mapping::create(&c_path, None).unwrap().region();
        std::fs::remove_file(&path).unwrap();
        let causes = Causes::new(region);
        let users: Vec<u32> = (0..4)
            .map(|_| region.register(std::process::id(), clock::now()).expect("a fresh region"))
            .collect();
        // As the gate's hooks do it for a request; the last user is the writer.
        let enter = |reader: usize| {
            let user = users[reader.min(3)];
            let slot = region.session(user).expect("registered");
            slot.thread.store(thread_id(), Ordering::Relaxed);
            region.enter(user, clock::now());
        };
        // Each reader has one request at a time: when it is late its turn is another's, so some is
        // lost.
        let share = || {
            let source: Option<Arc<dyn CauseSource>> = Some(Arc::new(move || causes.current()));
            let queue = afq(move |cause| causes.level(cause));
            let (others_ms, writer_ms) = shares_ms(queue, source, (3, 1), &enter);
            writer_ms as f64 / (others_ms + writer_ms) as f64
        };
        one_of_ten(share, |share| (0.22..0.32).contains(share));
    }

    /// A log's sync has no page and goes with the others.
    #[test]
    fn a_log_enters_the_same_queue() {
        let queue = Arc::new(IoQueue::new(ranked(foreground_first), 4));
        let log = QueuedLog::new(Arc::new(MemLog::default()), Arc::clone(&queue));
        log.append(b"record").unwrap();
        log.sync().unwrap();
        assert_eq!(log.read_from(0).unwrap(), b"record");
    }
}
