//! The volumes of a store as one space: all of them share one queue, and one device.
//!
//! Each volume has a *place*, a range of the space that no other has. Places come and go while
//! requests are in flight: a request to a place that is gone fails with ENXIO.

use headworks_volume::store::{Extent, Store};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// Places begin at multiples of this, in bytes.
const ALIGN_BYTES: u64 = 1 << 20;

struct Place {
    start: u64,
    store: Arc<dyn Store>,
}

/// See the module.
pub struct Pool {
    /// In order.
    places: RwLock<Vec<Place>>,
    fast: bool,
}

impl Pool {
    /// Without volumes. A `fast` one takes only volumes whose calls return at once.
    pub fn new(fast: bool) -> Pool {
        Pool { places: RwLock::default(), fast }
    }

    /// Gives a volume a place, and says where it begins: the first gap that is large enough.
    pub fn add(&self, store: Arc<dyn Store>) -> u64 {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let (mut start, mut at) = (0, 0);
        for place in places.iter() {
            if place.start - start >= store.size_bytes() {
                break;
            }
            start = (place.start + place.store.size_bytes()).next_multiple_of(ALIGN_BYTES);
            at += 1;
        }
        places.insert(at, Place { start, store });
        start
    }

    /// Takes the place that begins at `start` away.
    pub fn remove(&self, start: u64) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place| place.start != start);
    }

    /// The volume that has all of the range, and where it begins there.
    fn find(&self, offset: u64, len: u64) -> io::Result<(Arc<dyn Store>, u64)> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let behind = places.partition_point(|place| place.start <= offset);
        let place = behind.checked_sub(1).map(|at| &places[at]);
        let found = place.filter(|place| offset - place.start + len <= place.store.size_bytes());
        let place = found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENXIO))?;
        Ok((Arc::clone(&place.store), offset - place.start))
    }
}

impl Store for Pool {
    /// Places may come anywhere.
    fn size_bytes(&self) -> u64 {
        1 << 62
    }

    fn is_fast(&self) -> bool {
        self.fast
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let (store, at) = self.find(offset, into.len() as u64)?;
        store.read(at, into)
    }

    fn write(&self, offset: u64, from: &[u8], fua: bool) -> io::Result<()> {
        let (store, at) = self.find(offset, from.len() as u64)?;
        store.write(at, from, fua)
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let (store, at) = self.find(offset, into.len() as u64)?;
        store.try_read(at, into)
    }

    fn try_write(&self, offset: u64, from: &[u8]) -> io::Result<bool> {
        let (store, at) = self.find(offset, from.len() as u64)?;
        store.try_write(at, from)
    }

    fn flush(&self) -> io::Result<()> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let stores: Vec<_> = places.iter().map(|place| Arc::clone(&place.store)).collect();
        drop(places);
        stores.iter().try_for_each(|store| store.flush())
    }

    fn flush_at(&self, offset: u64) -> io::Result<()> {
        self.find(offset, 0)?.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let (store, at) = self.find(offset, len)?;
        store.discard(at, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()> {
        let (store, at) = self.find(offset, len)?;
        store.write_zeroes(at, len, fua, unmap)
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        let (store, at) = self.find(offset, len)?;
        let mut extents = store.extents(at, len)?;
        for extent in &mut extents {
            extent.offset += offset - at;
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_volume::store::Memory;

    const MIB: u64 = 1 << 20;

    fn memory(mib: u64) -> Arc<dyn Store> {
        Arc::new(Memory::new(mib * MIB, mib * MIB))
    }

    #[test]
    fn volumes_have_places_apart_and_gaps_are_used_again() {
        let pool = Pool::new(true);
        let starts: Vec<u64> = [2, 3, 1].map(|mib| pool.add(memory(mib))).to_vec();
        assert_eq!(starts, [0, 2 * MIB, 5 * MIB]);
        pool.write(2 * MIB, &[7; 512], false).unwrap();
        let mut read = [0; 512];
        pool.read(0, &mut read).unwrap();
        assert_eq!(read, [0; 512], "another volume");
        assert!(pool.read(2 * MIB - 512, &mut [0; 1024]).is_err(), "across a border");
        pool.remove(2 * MIB);
        let gone = pool.read(2 * MIB, &mut read).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENXIO));
        assert_eq!(pool.add(memory(4)), 6 * MIB);
        assert_eq!(pool.add(memory(3)), 2 * MIB);
        pool.read(2 * MIB, &mut read).unwrap();
        assert_eq!(read, [0; 512], "not the bytes of the one before");
    }
}
