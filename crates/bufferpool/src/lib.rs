//! A database buffer manager without I/O serialization.
//!
//! Pages of a fixed size live in frames of memory. A missing page is read, and another is evicted
//! for it. On flash, where a write takes ten times as long as a read, the usual eviction loses most
//! of the device's speed. If a reader finds only dirty pages at the end of the LRU list, it waits
//! for a write (a *read stall*). And all threads wait for the list's mutex. LRU-C (Lee, An, Lee:
//! *LRU-C: Parallelizing Database I/Os for Flash SSDs*, PVLDB 16(9), 2023) keeps a pointer to the
//! least recently used *clean* page. The flusher writes all pages behind it, and two mutexes guard
//! the two regions.
//!
//! [`BufferPool`] is the pool; [`StrategyKind`] chooses LRU-C, its versions or its rivals. Pages
//! come as guards ([`PagePin`], [`ReadGuard`], [`WriteGuard`]), storage behind
//! [`storage::Storage`], the log behind [`Wal`].
//!
//! Guarantees, whatever fails:
//! - A page is not written before the log is durable up to its LSN.
//! - A page leaves the pool only when storage has it; a failed write leaves it dirty.
//! - A pinned page stays where it is; its bytes change only under the exclusive latch.
//! - Bytes that fail their checksum are never returned.

pub mod attribution;
mod config;
mod core;
mod doublewrite;
mod error;
mod flusher;
mod frames;
mod guard;
mod ids;
mod instance;
#[cfg(all(test, loom))]
mod loom_tests;
mod lru;
mod memory;
mod page;
mod pool;
mod prefetch;
mod stats;
pub mod storage;
mod strategy;
mod sync;
mod sync_state;
mod table;
mod wal;
mod write;

pub use attribution::CauseSource;
pub use config::{PoolConfig, StrategyKind};
pub use core::BadPage;
pub use doublewrite::Doublewrite;
pub use error::{PoolError, StorageError, WalError};
pub use guard::{PagePin, ReadGuard, WriteGuard};
pub use ids::{Lsn, PageId};
pub use memory::AlignedBuffer;
pub use page::{HeadworksFormat, PAGE_HEADER_BYTES, PageFormat, page_lsn};
pub use pool::{BufferPool, Builder, CloseError};
pub use stats::PoolStats;
pub use strategy::own::{Slots, Strategy, Taken};
pub use wal::{NoWal, Wal};
