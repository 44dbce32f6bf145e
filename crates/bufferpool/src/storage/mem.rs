//! Pages in memory.

use super::{IoTag, Storage, check_range};
use crate::error::StorageError;
use crate::ids::PageId;
use parking_lot::Mutex;

/// Pages per allocation and lock: neighbours share one, distant pages do not.
const CHUNK: u64 = 16;

/// Adjacent pages, once one of them was written.
type Chunk = Option<Box<[u8]>>;

/// Pages in memory. A chunk of 16 takes memory once one of its pages is written.
pub struct MemStorage {
    page_size: usize,
    pages: u64,
    chunks: Box<[Mutex<Chunk>]>,
}

impl MemStorage {
    /// `pages` pages of `page_size` bytes, all zero.
    #[must_use]
    pub fn new(page_size: usize, pages: u64) -> Self {
        let chunks = (0..pages.div_ceil(CHUNK)).map(|_| Mutex::new(None)).collect();
        Self { page_size, pages, chunks }
    }

    fn place(&self, page: PageId) -> (usize, usize) {
        // `check_range` was called before: both fit.
        ((page.0 / CHUNK) as usize, (page.0 % CHUNK) as usize * self.page_size)
    }
}

impl Storage for MemStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: PageId, bytes: &mut [u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, page, 1)?;
        let (chunk, at) = self.place(page);
        match &*self.chunks[chunk].lock() {
            Some(chunk) => bytes.copy_from_slice(&chunk[at..at + self.page_size]),
            None => bytes.fill(0),
        }
        Ok(())
    }

    fn write(&self, page: PageId, bytes: &[u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, page, 1)?;
        let (chunk, at) = self.place(page);
        let empty = || vec![0; CHUNK as usize * self.page_size].into_boxed_slice();
        let mut chunk = self.chunks[chunk].lock();
        chunk.get_or_insert_with(empty)[at..at + self.page_size].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
