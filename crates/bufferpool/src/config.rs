//! Settings of a pool.

use crate::error::PoolError;
use std::time::Duration;

/// Which page is evicted for a missing one, and which thread writes dirty pages when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StrategyKind {
    /// InnoDB's way: the free list; else a clean page among the last `scan_depth` of the LRU list;
    /// else the page at the tail is written while the reader waits (a read stall). In every round
    /// the flusher works through the last `flush_batch` pages.
    Vanilla,
    /// As Vanilla, with InnoDB 5.6's further steps to a frame. With doublewrite, a miss waits for
    /// the end of the flusher's batch. Any thread may take a frame that a stall has freed, and
    /// repeated attempts sleep.
    InnoDb56,
    /// Clean-first LRU (Park et al., CASES 2006): as Vanilla, with a separate window for the search
    /// and the flusher, as the LRU-C paper emulates it (section 5.2.3).
    CfLru {
        /// Pages from the tail in which a clean page is evicted before a dirty one.
        window: usize,
    },
    /// Write after read (An et al., SIGMOD 2022): as Vanilla, but a dirty victim is copied to a
    /// temporary write buffer, and the frame is used at once. Readers wait while the buffer is
    /// full.
    War {
        /// Pages of the buffer, per instance.
        buffer_pages: usize,
    },
    /// The LRU-C pointer (LRU-C paper, section 4).
    LruC {
        /// The flusher writes all pages behind the pointer, not `flush_batch` of them.
        dynamic_batch: bool,
        /// A second mutex guards the pages behind the pointer.
        dirty_mutex: bool,
        /// Not in the paper. The flusher is woken as soon as an eighth of the frames lies behind
        /// the pointer. A miss that finds no clean page while the flusher writes waits for one of
        /// its frames, instead of queueing its own write behind the flusher's.
        eager: bool,
    },
}

impl StrategyKind {
    /// LRU-C without its optimizations.
    pub const LRU_C_BASIC: Self =
        Self::LruC { dynamic_batch: false, dirty_mutex: false, eager: false };
    /// LRU-C with dynamic batch writes.
    pub const LRU_C_DYNAMIC: Self =
        Self::LruC { dynamic_batch: true, dirty_mutex: false, eager: false };
    /// The full method: dynamic batch writes and the LRU-D mutex.
    pub const LRU_C: Self = Self::LruC { dynamic_batch: true, dirty_mutex: true, eager: false };
    /// The full method with an eager flusher.
    pub const LRU_C_EAGER: Self =
        Self::LruC { dynamic_batch: true, dirty_mutex: true, eager: true };
    /// Clean-first with the window that the LRU-C paper found best at a buffer of 10 % (Table 4).
    pub const CF_LRU: Self = Self::CfLru { window: 4096 };
    /// Write after read with a buffer of 512 pages (8 MiB at 16 KiB).
    pub const WAR: Self = Self::War { buffer_pages: 512 };
}

/// Settings of a pool. `Default` is InnoDB's, with the full LRU-C method, an eager flusher and one
/// instance.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Page frames of all instances together: at least 16 per instance.
    pub frames: usize,
    /// Bytes of a page: a power of two from 4096 on, default 16384. It is the storage's.
    pub page_size: usize,
    /// Instances with their own lists and mutexes, default 1. More instances mean less contention
    /// and worse eviction.
    pub instances: usize,
    /// Default: [`StrategyKind::LRU_C_EAGER`], which was the best or as good as the best in every
    /// measurement. [`StrategyKind::LRU_C`] is the paper's.
    pub strategy: StrategyKind,
    /// Pages that a miss scans from the tail, default 1,024 (`innodb_lru_scan_depth`).
    pub scan_depth: usize,
    /// Pages of a flusher's round, default 1,024.
    pub flush_batch: usize,
    /// Time between the flusher's rounds, default 1 s. A miss that gets no frame wakes it earlier.
    pub flush_interval: Duration,
    /// Insert read pages at 3/8 from the tail, not at the head; default no.
    pub midpoint: bool,
    /// Keep pages that are used often, not those that were used last: a page that was just read is
    /// on probation in the last eighth of the list until it is hit, unless it was evicted lately.
    /// It takes the place of the midpoint, in instances of 512 frames and more. Default no.
    pub frequency: bool,
    /// Find pages by an array with four bytes for each page of the storage, not by a hash table.
    /// A hit is then a tenth cheaper. For storage that is not much larger than the pool. Default
    /// no.
    pub by_number: bool,
    /// Pages that are copied and written in one batch, default 256. Each flusher needs this much
    /// memory.
    pub io_batch: usize,
    /// If the log from the oldest change on is longer than this, the flusher also writes old pages
    /// from the mixed region. Default 1 GiB.
    pub checkpoint_age_bytes: u64,
    /// Sync storage after the write of a read stall, default yes, as InnoDB does.
    pub sync_stall_flush: bool,
    /// How long a miss tries to get a frame before [`PoolError::Exhausted`]; default 10 s.
    pub exhausted_after: Duration,
    /// Run the flushers' threads, default yes. Without them call
    /// [`crate::BufferPool::flush_round`].
    pub background: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            frames: 8192,
            page_size: 16 * 1024,
            instances: 1,
            strategy: StrategyKind::LRU_C_EAGER,
            scan_depth: 1024,
            flush_batch: 1024,
            flush_interval: Duration::from_secs(1),
            midpoint: false,
            frequency: false,
            by_number: false,
            io_batch: 256,
            checkpoint_age_bytes: 1 << 30,
            sync_stall_flush: true,
            exhausted_after: Duration::from_secs(10),
            background: true,
        }
    }
}

/// Bytes of a frame's metadata, roughly: state, latch, list and table links, causes.
const FRAME_BYTES: u64 = 256;

impl PoolConfig {
    /// Bytes of all frames with their metadata, of the pages that a strategy holds beside them, and
    /// of a batch of copies for each instance.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let beside = match self.strategy {
            StrategyKind::War { buffer_pages } => buffer_pages.saturating_mul(self.instances),
            _ => 0,
        };
        let copies = self.io_batch.min(self.frames).saturating_mul(self.instances);
        let pages = self.frames.saturating_add(beside).saturating_add(copies) as u64;
        let noted = (self.frames as u64).saturating_mul(FRAME_BYTES);
        pages.saturating_mul(self.page_size as u64).saturating_add(noted)
    }

    pub(crate) fn check(&self, storage_page_size: usize) -> Result<(), PoolError> {
        let wrong = |setting, reason: String| Err(PoolError::Config { setting, reason });
        if self.page_size != storage_page_size {
            let reason = format!("{} here, {storage_page_size} in the storage", self.page_size);
            return wrong("page_size", reason);
        }
        if !self.page_size.is_power_of_two() || self.page_size < 4096 {
            return wrong(
                "page_size",
                format!("{} is no power of two from 4096 on", self.page_size),
            );
        }
        if self.instances == 0 || self.frames / self.instances < 16 {
            let reason = format!(
                "{} frames give {} instances less than 16 each",
                self.frames, self.instances
            );
            return wrong("frames", reason);
        }
        if self.frames > (1 << 31) {
            return wrong("frames", format!("{} are more than 2^31", self.frames));
        }
        if self.io_batch == 0 || self.flush_batch == 0 || self.scan_depth == 0 {
            return wrong("io_batch, flush_batch, scan_depth", "each is at least 1".into());
        }
        match self.strategy {
            StrategyKind::CfLru { window: 0 } => wrong("window", "it is at least 1".into()),
            StrategyKind::War { buffer_pages: 0 } => {
                wrong("buffer_pages", "it is at least 1".into())
            }
            _ => Ok(()),
        }
    }
}
