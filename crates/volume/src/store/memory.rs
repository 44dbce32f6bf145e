//! A volume in memory: as sparse as its contents, and gone with its process.
//!
//! The bytes lie in chunks of 64 KiB, made at the first write. Chunks are spread over shards, each
//! with its own lock, so a half-done copy of a sector is never seen. A volume's size costs nothing.
//! Stored data cost their chunks, about 0.1 % for the table, and never exceed the limit: writes
//! beyond it get ENOSPC. A chunk in which nothing but zeros is left goes back to the system.

use super::{Extent, Store, push_extent};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Shards: neighbouring chunks lie in different ones.
const SHARDS: u64 = 256;

/// Most extents of one call.
const EXTENTS_MAX: usize = 1024;

type Chunk = Box<[u8]>;
type Table = HashMap<u64, Chunk, BuildHasherDefault<Mix>>;

/// Numbers of chunks are dense, so one multiplication spreads them well enough.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Alone on its cache lines: the lock is written by every access.
#[repr(align(128))]
#[derive(Default)]
struct Shard(RwLock<Table>);

impl Shard {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store in memory.
pub struct Memory {
    size: u64,
    limit_chunks: u64,
    chunks: AtomicU64,
    shards: Vec<Shard>,
    identity: String,
}

/// Frees a chunk, and gives its memory back to the system. The allocator alone would keep it: its
/// heap shrinks only at the end.
#[allow(clippy::boxed_local)] // it is freed here
fn give_back(mut chunk: Chunk) {
    const PAGE: usize = 4096;
    let bytes = &mut chunk[..];
    let before = bytes.as_ptr().align_offset(PAGE).min(bytes.len());
    let inner = &mut bytes[before..];
    let len = inner.len() / PAGE * PAGE;
    // SAFETY: whole pages within memory that only this function has. They read as zeros afterwards,
    // which bytes may be. A refusal changes nothing.
    unsafe { libc::madvise(inner.as_mut_ptr().cast(), len, libc::MADV_DONTNEED) };
}

/// A part of a range that lies in one chunk.
struct Piece {
    chunk: u64,
    /// Where it begins in the chunk.
    at: usize,
    len: usize,
}

/// The pieces of a range, in order.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let (mut next, end) = (offset, offset + len);
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let chunk = next / CHUNK_BYTES;
        let stop = ((chunk + 1) * CHUNK_BYTES).min(end);
        // Both are at most the size of a chunk.
        let piece = Piece { chunk, at: (next % CHUNK_BYTES) as usize, len: (stop - next) as usize };
        next = stop;
        Some(piece)
    })
}

impl Memory {
    /// A store of `size` bytes that takes at most `limit` bytes of memory for data.
    pub fn new(size: u64, limit: u64) -> Memory {
        Memory {
            size,
            limit_chunks: limit.div_ceil(CHUNK_BYTES),
            chunks: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            identity: super::unique(),
        }
    }

    fn shard(&self, chunk: u64) -> &Shard {
        // Below SHARDS.
        &self.shards[(chunk % SHARDS) as usize]
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn reserve(&self) -> io::Result<()> {
        self.chunks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < self.limit_chunks).then_some(count + 1)
            })
            .map(|_| ())
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOSPC))
    }

    /// Zeros a range: whole chunks are given back, parts of them are cleared.
    fn clear(&self, offset: u64, len: u64) {
        // For a range over much of a sparse volume, go through the existing chunks only.
        if len / CHUNK_BYTES > self.chunks.load(Ordering::Relaxed) + SHARDS {
            let (first, last) = (offset.div_ceil(CHUNK_BYTES), (offset + len) / CHUNK_BYTES);
            for shard in &self.shards {
                let mut table = shard.write();
                let gone: Vec<Chunk> = table
                    .extract_if(|chunk, _| (first..last).contains(chunk))
                    .map(|(_, chunk)| chunk)
                    .collect();
                drop(table);
                self.chunks.fetch_sub(gone.len() as u64, Ordering::Relaxed);
                gone.into_iter().for_each(give_back);
            }
            self.clear_pieces(offset, first * CHUNK_BYTES - offset);
            self.clear_pieces(last * CHUNK_BYTES, offset + len - last * CHUNK_BYTES);
        } else {
            self.clear_pieces(offset, len);
        }
    }

    fn clear_pieces(&self, offset: u64, len: u64) {
        for piece in pieces(offset, len) {
            let mut table = self.shard(piece.chunk).write();
            let Some(chunk) = table.get_mut(&piece.chunk) else { continue };
            chunk[piece.at..piece.at + piece.len].fill(0);
            // Small files are discarded piece by piece.
            if chunk.iter().all(|byte| *byte == 0) {
                let gone = table.remove(&piece.chunk);
                drop(table);
                self.chunks.fetch_sub(1, Ordering::Relaxed);
                gone.into_iter().for_each(give_back);
            }
        }
    }
}

impl Store for Memory {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(offset, into.len() as u64)?;
        let mut rest = into;
        for piece in pieces(offset, rest.len() as u64) {
            let (here, after) = rest.split_at_mut(piece.len);
            match self.shard(piece.chunk).read().get(&piece.chunk) {
                Some(chunk) => here.copy_from_slice(&chunk[piece.at..piece.at + piece.len]),
                None => here.fill(0),
            }
            rest = after;
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8], _fua: bool) -> io::Result<()> {
        self.check(offset, from.len() as u64)?;
        let mut rest = from;
        for piece in pieces(offset, rest.len() as u64) {
            let (here, after) = rest.split_at(piece.len);
            let mut table = self.shard(piece.chunk).write();
            if let Some(chunk) = table.get_mut(&piece.chunk) {
                chunk[piece.at..piece.at + piece.len].copy_from_slice(here);
            } else {
                self.reserve()?;
                let mut chunk = vec![0; CHUNK_BYTES as usize].into_boxed_slice();
                chunk[piece.at..piece.at + piece.len].copy_from_slice(here);
                table.insert(piece.chunk, chunk);
            }
            drop(table);
            rest = after;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len)?;
        self.clear(offset, len);
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, _fua: bool, unmap: bool) -> io::Result<()> {
        self.check(offset, len)?;
        // Without `unmap` the space should stay allocated. Allocating zeros has no use here, as a
        // later write may find the memory full anyway.
        let _ = unmap;
        self.clear(offset, len);
        Ok(())
    }

    fn is_fast(&self) -> bool {
        true
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        self.check(offset, len)?;
        let mut list = Vec::new();
        let mut at = offset;
        for piece in pieces(offset, len) {
            let allocated = self.shard(piece.chunk).read().contains_key(&piece.chunk);
            push_extent(&mut list, Extent { offset: at, len: piece.len as u64, allocated });
            at += piece.len as u64;
            if list.len() > EXTENTS_MAX {
                list.pop();
                break;
            }
        }
        Ok(list)
    }

    /// Memory begins again with each store.
    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn allocated_bytes(&self) -> Option<u64> {
        Some(self.chunks.load(Ordering::Relaxed) * CHUNK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_was_not_written_reads_as_zeros_and_takes_nothing() {
        let store = Memory::new(1 << 40, 64 * MIB);
        let mut bytes = [7; 4096];
        store.read((1 << 40) - 4096, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096]);
        store.write((1 << 40) - 4096, &[9; 4096], false).unwrap();
        store.read((1 << 40) - 4096, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 4096]);
        assert_eq!(store.allocated_bytes(), Some(CHUNK_BYTES));
    }

    #[test]
    fn a_write_over_the_border_of_chunks_lands_on_both_sides() {
        let store = Memory::new(MIB, MIB);
        let data: Vec<u8> = (0..4096u32).map(|n| (n % 251) as u8).collect();
        store.write(CHUNK_BYTES - 1024, &data, false).unwrap();
        let mut back = vec![0; 4096];
        store.read(CHUNK_BYTES - 1024, &mut back).unwrap();
        assert_eq!(back, data);
        assert_eq!(store.allocated_bytes(), Some(2 * CHUNK_BYTES));
    }

    #[test]
    fn beyond_the_limit_there_is_no_space_and_discard_gives_some_back() {
        let store = Memory::new(1 << 30, 2 * CHUNK_BYTES);
        store.write(0, &[1; 512], false).unwrap();
        store.write(CHUNK_BYTES, &[1; 512], false).unwrap();
        let refused = store.write(2 * CHUNK_BYTES, &[1; 512], false).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
        store.discard(0, CHUNK_BYTES).unwrap();
        store.write(2 * CHUNK_BYTES, &[1; 512], false).unwrap();
    }

    #[test]
    fn what_is_discarded_goes_back_to_the_system_also_piece_by_piece() {
        fn resident_bytes() -> u64 {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
        }
        let store = Memory::new(1 << 30, 1 << 30);
        // Its end stays, so the heap cannot shrink there.
        let (len, end) = (256 * MIB, 256 * MIB + CHUNK_BYTES);
        for piece in [len, 24 << 10] {
            for at in (0..end).step_by(1 << 20) {
                store.write(at, &vec![1; (end - at).min(MIB) as usize], false).unwrap();
            }
            let full = resident_bytes();
            for at in (0..len).step_by(piece as usize) {
                store.discard(at, piece.min(len - at)).unwrap();
            }
            assert_eq!(store.allocated_bytes(), Some(CHUNK_BYTES), "pieces of {piece}");
            let left = resident_bytes();
            // Other tests run beside this one.
            assert!(left + len / 2 < full, "pieces of {piece}: {full} became {left}");
        }
    }

    #[test]
    fn zeroing_much_of_a_sparse_volume_leaves_the_edges() {
        let store = Memory::new(1 << 40, 64 * MIB);
        let inside = 5 * MIB;
        for at in [0, 512, inside, (1 << 40) - 512] {
            store.write(at, &[3; 512], false).unwrap();
        }
        store.write_zeroes(512, (1 << 40) - 1024, false, true).unwrap();
        let mut bytes = [0; 512];
        for (at, expected) in [(0, 3), (512, 0), (inside, 0), ((1 << 40) - 512, 3)] {
            store.read(at, &mut bytes).unwrap();
            assert_eq!(bytes, [expected; 512], "{at}");
        }
    }

    #[test]
    fn extents_tell_what_is_there_and_cover_what_was_asked() {
        let store = Memory::new(16 * CHUNK_BYTES, MIB);
        store.write(2 * CHUNK_BYTES, &[1; 512], false).unwrap();
        assert_eq!(
            store.extents(512, 4 * CHUNK_BYTES).unwrap(),
            [
                Extent { offset: 512, len: 2 * CHUNK_BYTES - 512, allocated: false },
                Extent { offset: 2 * CHUNK_BYTES, len: CHUNK_BYTES, allocated: true },
                Extent { offset: 3 * CHUNK_BYTES, len: CHUNK_BYTES + 512, allocated: false },
            ]
        );
    }

    #[test]
    fn a_range_outside_is_refused() {
        let store = Memory::new(MIB, MIB);
        for (offset, len) in [(MIB, 512), (MIB - 512, 1024), (u64::MAX - 511, 512)] {
            let error = store.write(offset, &vec![0; len], false).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
