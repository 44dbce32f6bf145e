//! A volatile write cache, and the power cut that loses it.

use super::{IoTag, Storage, check_range};
use crate::error::StorageError;
use crate::ids::PageId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Power fails between two sectors, never within one.
const SECTOR: usize = 512;

#[derive(Default)]
struct Cache {
    /// For each page the writes since the last sync, oldest first.
    pages: BTreeMap<PageId, Vec<Box<[u8]>>>,
    dead: bool,
}

/// A storage behind a write cache that only [`Storage::sync`] empties.
///
/// Reads see the cache. [`PowerCutStorage::cut`] decides for each cached write, by a seed, whether
/// it is kept, lost, or torn between two sectors. From then on every operation fails until
/// [`PowerCutStorage::restore`].
pub struct PowerCutStorage {
    inner: Arc<dyn Storage>,
    cache: Mutex<Cache>,
}

impl PowerCutStorage {
    /// With an empty cache.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, cache: Mutex::default() }
    }

    /// Cuts the power. Returns how many cached writes were (kept, lost, torn).
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn cut(&self, seed: u64) -> Result<(usize, usize, usize), StorageError> {
        let mut cache = self.cache.lock();
        cache.dead = true;
        let mut random = seed | 1;
        let mut next = move || {
            // xorshift64: a few of its bits decide the fate of a write.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random >> 16
        };
        let mut fates = (0, 0, 0);
        let mut image = vec![0; self.inner.page_size()];
        for (page, writes) in std::mem::take(&mut cache.pages) {
            self.inner.read(page, &mut image, IoTag::of(super::IoKind::Other))?;
            for bytes in writes {
                match next() % 4 {
                    0 => {
                        image.copy_from_slice(&bytes);
                        fates.0 += 1;
                    }
                    1 => {
                        let sectors = (image.len() / SECTOR) as u64;
                        let torn = (1 + next() % (sectors - 1).max(1)) as usize * SECTOR;
                        if next() % 2 == 0 {
                            image[..torn].copy_from_slice(&bytes[..torn]);
                        } else {
                            image[torn..].copy_from_slice(&bytes[torn..]);
                        }
                        fates.2 += 1;
                    }
                    _ => fates.1 += 1,
                }
            }
            self.inner.write(page, &image, IoTag::of(super::IoKind::Other))?;
        }
        Ok(fates)
    }

    /// Switches the power on again.
    pub fn restore(&self) {
        self.cache.lock().dead = false;
    }

    fn alive(cache: &Cache, operation: &'static str, page: PageId) -> Result<(), StorageError> {
        if cache.dead {
            return Err(StorageError::Io {
                operation,
                page,
                errno: None,
                message: "the power is cut".into(),
            });
        }
        Ok(())
    }
}

impl Storage for PowerCutStorage {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        let cache = self.cache.lock();
        Self::alive(&cache, "read", page)?;
        if let Some(last) = cache.pages.get(&page).and_then(|writes| writes.last()) {
            bytes.copy_from_slice(last);
            return Ok(());
        }
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, page, 1)?;
        let mut cache = self.cache.lock();
        Self::alive(&cache, "write", page)?;
        cache.pages.entry(page).or_default().push(bytes.into());
        Ok(())
    }

    fn sync(&self) -> Result<(), StorageError> {
        let mut cache = self.cache.lock();
        Self::alive(&cache, "sync", PageId::NONE)?;
        for (page, writes) in std::mem::take(&mut cache.pages) {
            if let Some(last) = writes.last() {
                self.inner.write(page, last, IoTag::of(super::IoKind::Other))?;
            }
        }
        self.inner.sync()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{IoKind, MemStorage};
    use super::*;

    #[test]
    fn a_cut_spares_what_was_synced_and_damages_the_rest() {
        let tag = IoTag::of(IoKind::Other);
        let mut damaged = 0;
        for seed in 1..50 {
            let storage = PowerCutStorage::new(Arc::new(MemStorage::new(4096, 8)));
            storage.write(PageId(1), &[1; 4096], tag).unwrap();
            storage.sync().unwrap();
            storage.write(PageId(2), &[2; 4096], tag).unwrap();
            storage.cut(seed * 0x9e37_79b9).unwrap();
            assert!(storage.sync().is_err());
            storage.restore();
            let mut bytes = [0; 4096];
            storage.read(PageId(1), &mut bytes, tag).unwrap();
            assert_eq!(bytes, [1; 4096]);
            storage.read(PageId(2), &mut bytes, tag).unwrap();
            damaged += u32::from(bytes != [2; 4096]);
        }
        assert!((20..49).contains(&damaged), "{damaged} of 49");
    }
}
