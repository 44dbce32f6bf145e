//! Which pages of governed files are dirty, and by whom: our own tally.
//!
//! The kernel tells how many pages of a range are dirty, not whose they are, and asking costs a
//! microsecond. So each governed write marks its pages here. A *chunk* is 64 pages: a word of bits
//! and the accounts that wrote. Chunks lie in a hash table of fixed size.
//!
//! # Invariants
//! A bit says that a page was written since the file's epoch began; an `fsync` begins a new epoch
//! before it runs. The table may forget a page, when it is full and another chunk needs the place.
//! It may be late, when the kernel's flusher wrote a page. What is not known only costs
//! performance.
//!
//! # Memory
//! 32 bytes for each chunk: half a byte for each page of sequential writes, 32 for each page of
//! scattered ones, 2 MiB in all.

use headworks_policy::Nanos;
use headworks_policy::split::{CauseSet, PAGE_BYTES};

/// Pages of a chunk.
pub const CHUNK_PAGES: u64 = 64;

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = CHUNK_PAGES * PAGE_BYTES;

/// Chunks that are known at a time.
const CHUNKS: usize = 1 << 16;

/// Places that a chunk may have.
const WAYS: usize = 8;

/// Chunks that [`Tally::unmark`] looks at: a gigabyte.
const EFFORT: u64 = 1 << 12;

/// Files that are known at a time.
pub const FILES: usize = 4096;

/// Slots that a file may have.
const FILE_WAYS: usize = 16;

/// A file that is dirty keeps its slot for so long after its last use.
const FORGOTTEN: Nanos = Nanos::from_millis(60_000);

/// The kernel's flusher writes data that has been dirty for so long (`dirty_expire_centisecs`).
const EXPIRES_S: u32 = 30;

/// 64 pages of a file. All zero bytes: unused.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Chunk {
    /// File's number plus one, and number of the chunk in the file.
    key: u64,
    bits: u64,
    causes: CauseSet,
    epoch: u32,
    /// Second at which its oldest dirty page was written.
    since: u32,
}

headworks_policy::layout!(Chunk { key, bits, causes, epoch, since });

/// A governed file.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FileState {
    /// Device and inode; zero for an unused slot.
    pub device: u64,
    /// See `device`.
    pub inode: u64,
    /// Time within which an `fsync` of it should be over; zero for no matter.
    pub deadline: Nanos,
    /// Dirty pages of this epoch.
    pub pages: u64,
    /// Pieces that they are in.
    pub pieces: u64,
    /// What was charged for them.
    pub charged: Nanos,
    /// Where the last access ended.
    pub last_end: u64,
    /// Chunks that may have dirty pages: from this one on,
    pub first_chunk: u64,
    /// and before this one.
    pub end_chunk: u64,
    /// When it was last used.
    pub used: Nanos,
    /// Who made the pages dirty.
    pub causes: CauseSet,
    /// Counts `fsync`s.
    pub epoch: u32,
    /// Counts the files that had the slot.
    pub generation: u32,
    /// Not zero: it was mapped, shared and writable.
    pub mapped: u32,
    /// Version of the rules from which its deadline is.
    pub rules: u32,
}

headworks_policy::layout!(FileState {
    device,
    inode,
    deadline,
    pages,
    pieces,
    charged,
    last_end,
    first_chunk,
    end_chunk,
    used,
    causes,
    epoch,
    generation,
    mapped,
    rules
});

/// What a write changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Pages that were clean.
    pub new_pages: u64,
    /// Who had dirtied pages of these chunks.
    pub previous: CauseSet,
}

/// Dirty pages that are not dirty any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmarked {
    /// How many.
    pub pages: u64,
    /// In how many pieces.
    pub pieces: u64,
    /// Who had dirtied them.
    pub causes: CauseSet,
    /// What was charged for them.
    pub charged: Nanos,
}

/// See the module. All zero bytes are an empty tally.
#[derive(Debug)]
#[repr(C)]
pub struct Tally {
    files: [FileState; FILES],
    chunks: [Chunk; CHUNKS],
}

headworks_policy::layout!(Tally { files, chunks });

/// Runs of set bits.
fn pieces(bits: u64) -> u64 {
    u64::from((bits & !(bits << 1)).count_ones())
}

/// The pages of a chunk that lie in a range of bytes of the file.
fn mask(chunk: u64, offset: u64, end: u64) -> u64 {
    let start = chunk.saturating_mul(CHUNK_BYTES);
    let first = offset.saturating_sub(start) / PAGE_BYTES;
    let last = (end.saturating_sub(start)).div_ceil(PAGE_BYTES).min(CHUNK_PAGES);
    if first >= last {
        return 0;
    }
    let upto = if last == CHUNK_PAGES { u64::MAX } else { (1 << last) - 1 };
    upto & (u64::MAX << first)
}

fn key_of(file: usize, chunk: u64) -> u64 {
    // Files beyond 2^48 chunks do not exist.
    ((file as u64 + 1) << 48) | (chunk & 0xFFFF_FFFF_FFFF)
}

fn place_of(key: u64) -> usize {
    let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize & (CHUNKS - 1) & !(WAYS - 1)
}

impl Tally {
    /// A file's slot, and whether it was claimed just now. `None` if the slots that it may have are
    /// all those of dirty files.
    pub fn file(&mut self, device: u64, inode: u64, now: Nanos) -> Option<(usize, bool)> {
        if let Some(at) = self.find_file(device, inode) {
            self.files[at].used = now;
            return Some((at, false));
        }
        let place = place_of(device.rotate_left(32) ^ inode) & (FILES - 1) & !(FILE_WAYS - 1);
        // The kernel's flusher has visited a file that was last used so long ago.
        let is_clean = |file: &FileState| file.pages == 0 || now.since(file.used) >= FORGOTTEN;
        let at = (place..place + FILE_WAYS)
            .filter(|at| is_clean(&self.files[*at]))
            .min_by_key(|at| (self.files[*at].pages > 0, self.files[*at].used))?;
        let generation = self.files[at].generation.wrapping_add(1);
        let epoch = self.files[at].epoch.wrapping_add(1);
        self.files[at] =
            FileState { device, inode, used: now, generation, epoch, ..FileState::default() };
        Some((at, true))
    }

    /// The slot of a file that is known.
    pub fn find_file(&self, device: u64, inode: u64) -> Option<usize> {
        let place = place_of(device.rotate_left(32) ^ inode) & (FILES - 1) & !(FILE_WAYS - 1);
        let is_it = |at: &usize| self.files[*at].device == device && self.files[*at].inode == inode;
        (place..place + FILE_WAYS).find(is_it)
    }

    /// The file is removed, and its inode may be used again. Its slot is free from now on. The
    /// caller has taken its dirty pages out before.
    pub fn give_up(&mut self, file: usize) {
        if let Some(state) = self.files.get_mut(file) {
            let generation = state.generation.wrapping_add(1);
            *state = FileState { generation, epoch: state.epoch, ..FileState::default() };
        }
    }

    /// What is known of a file.
    pub fn state(&self, file: usize) -> Option<&FileState> {
        self.files.get(file)
    }

    /// The same, to be changed.
    pub fn state_mut(&mut self, file: usize) -> Option<&mut FileState> {
        self.files.get_mut(file)
    }

    fn find(&self, key: u64) -> Option<usize> {
        let place = place_of(key);
        (place..place + WAYS).find(|at| self.chunks[*at].key == key)
    }

    /// The chunk's place; another chunk of an old epoch, or else any, makes room for it.
    fn claim(&mut self, key: u64) -> usize {
        if let Some(found) = self.find(key) {
            return found;
        }
        let place = place_of(key);
        let at = (place..place + WAYS)
            .min_by_key(|at| {
                let chunk = &self.chunks[*at];
                let file = (chunk.key >> 48).checked_sub(1).map(|file| file as usize);
                let live = file
                    .and_then(|file| self.files.get(file))
                    .is_some_and(|file| chunk.epoch == file.epoch && chunk.bits != 0);
                (live, chunk.bits.count_ones())
            })
            .unwrap_or(place);
        self.forget(at);
        self.chunks[at] = Chunk { key, ..Chunk::default() };
        at
    }

    /// The chunk at this place makes room: its pages are not counted any more.
    fn forget(&mut self, at: usize) {
        let chunk = self.chunks[at];
        let Some(file) = (chunk.key >> 48).checked_sub(1) else { return };
        if let Some(file) = self.files.get_mut(file as usize)
            && file.epoch == chunk.epoch
        {
            let pages = u64::from(chunk.bits.count_ones());
            let part = (file.charged.0 / file.pages.max(1)).saturating_mul(pages);
            file.charged = file.charged - Nanos(part);
            file.pages = file.pages.saturating_sub(pages);
            file.pieces = file.pieces.saturating_sub(pieces(chunk.bits));
        }
    }

    /// A write of `[offset, end)` by `account`.
    pub fn mark(&mut self, now: Nanos, file: usize, offset: u64, end: u64, account: u16) -> Marked {
        let mut marked = Marked::default();
        let Some(epoch) = self.files.get(file).map(|file| file.epoch) else { return marked };
        if end <= offset {
            return marked;
        }
        let (first, last) = (offset / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
        let second = (now.0 / 1_000_000_000) as u32;
        let (mut more, mut fewer) = (0, 0);
        for number in first..=last {
            let at = self.claim(key_of(file, number));
            let old = second.wrapping_sub(self.chunks[at].since) >= EXPIRES_S;
            if old {
                // The flusher has written its pages: this write makes them dirty again.
                self.forget(at);
            }
            let chunk = &mut self.chunks[at];
            if chunk.epoch != epoch || old {
                chunk.bits = 0;
                chunk.causes = CauseSet::default();
                chunk.epoch = epoch;
            }
            if chunk.bits == 0 {
                chunk.since = second;
            }
            let new = mask(number, offset, end) & !chunk.bits;
            marked.previous.union(chunk.causes);
            fewer += pieces(chunk.bits);
            chunk.bits |= new;
            more += pieces(chunk.bits);
            chunk.causes.insert(account);
            marked.new_pages += u64::from(new.count_ones());
        }
        let state = &mut self.files[file];
        if state.pages == 0 {
            (state.first_chunk, state.end_chunk) = (first, last + 1);
        }
        state.first_chunk = state.first_chunk.min(first);
        state.end_chunk = state.end_chunk.max(last + 1);
        state.pages += marked.new_pages;
        state.pieces = (state.pieces + more).saturating_sub(fewer);
        state.causes.insert(account);
        marked
    }

    /// Everything that is dirty in a file is being written: a new epoch begins.
    pub fn flush(&mut self, file: usize) -> Unmarked {
        let Some(state) = self.files.get_mut(file) else { return Unmarked::default() };
        let flushed = Unmarked {
            pages: state.pages,
            pieces: state.pieces,
            causes: state.causes,
            charged: state.charged,
        };
        state.epoch = state.epoch.wrapping_add(1);
        state.pages = 0;
        state.pieces = 0;
        state.charged = Nanos(0);
        state.causes = CauseSet::default();
        (state.first_chunk, state.end_chunk) = (0, 0);
        flushed
    }

    /// Pages that lie wholly in a range are not dirty any more. Looks at [`EFFORT`] chunks at the
    /// most: the others stay marked, as if it were not known yet.
    pub fn unmark(&mut self, file: usize, from: u64, to: u64) -> Unmarked {
        let mut taken = Unmarked::default();
        let Some(state) = self.files.get(file).copied() else { return taken };
        // A page that is in the range in part stays dirty.
        let (from, to) = (from.div_ceil(PAGE_BYTES) * PAGE_BYTES, to / PAGE_BYTES * PAGE_BYTES);
        let first = (from / CHUNK_BYTES).max(state.first_chunk);
        let last = to.div_ceil(CHUNK_BYTES).min(state.end_chunk);
        let mut pieces_less = 0;
        for number in first..last.min(first.saturating_add(EFFORT)) {
            let Some(at) = self.find(key_of(file, number)) else { continue };
            let chunk = &mut self.chunks[at];
            let bits = chunk.bits & mask(number, from, to);
            if chunk.epoch != state.epoch || bits == 0 {
                continue;
            }
            taken.pages += u64::from(bits.count_ones());
            taken.pieces += pieces(bits);
            taken.causes.union(chunk.causes);
            pieces_less += pieces(chunk.bits) as i64 - pieces(chunk.bits & !bits) as i64;
            chunk.bits &= !bits;
        }
        taken.charged = Nanos((state.charged.0 / state.pages.max(1)).saturating_mul(taken.pages));
        let state = &mut self.files[file];
        state.pages = state.pages.saturating_sub(taken.pages);
        state.pieces = state.pieces.saturating_add_signed(-pieces_less);
        state.charged = state.charged - taken.charged;
        taken
    }

    /// The next contiguous dirty piece of a file at or after `offset`, taken out of the tally.
    /// Looks at `effort` chunks at the most; says where to go on if there was none among these.
    pub fn take_piece(&mut self, file: usize, offset: u64, effort: u64) -> Piece {
        let Some(state) = self.files.get(file) else { return Piece::End };
        if state.pages == 0 {
            return Piece::End;
        }
        let (epoch, end) = (state.epoch, state.end_chunk);
        let first = (offset / CHUNK_BYTES).max(state.first_chunk);
        for number in first..end.min(first.saturating_add(effort)) {
            let Some(at) = self.find(key_of(file, number)) else { continue };
            let chunk = &mut self.chunks[at];
            let bits = chunk.bits & mask(number, offset, u64::MAX);
            if chunk.epoch != epoch || bits == 0 {
                continue;
            }
            let start = bits.trailing_zeros();
            let length = (!(bits >> start)).trailing_zeros();
            let ones = if length == 64 { u64::MAX } else { (1 << length) - 1 };
            chunk.bits &= !(ones << start);
            let causes = chunk.causes;
            let state = &mut self.files[file];
            let pages = u64::from(length);
            let part = (state.charged.0 / state.pages.max(1)).saturating_mul(pages);
            state.charged = state.charged - Nanos(part);
            state.pages = state.pages.saturating_sub(pages);
            state.pieces = state.pieces.saturating_sub(1);
            return Piece::Dirty {
                offset: number * CHUNK_BYTES + u64::from(start) * PAGE_BYTES,
                bytes: pages * PAGE_BYTES,
                taken: Unmarked { pages, pieces: 1, causes, charged: Nanos(part) },
            };
        }
        let next = first.saturating_add(effort);
        if next >= end { Piece::End } else { Piece::Later(next * CHUNK_BYTES) }
    }
}

/// What [`Tally::take_piece`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// This one.
    Dirty {
        /// Its first byte.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// What was known of it.
        taken: Unmarked,
    },
    /// None so far: go on here.
    Later(u64),
    /// None before the end.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Box<Tally> {
        let layout = std::alloc::Layout::new::<Tally>();
        // SAFETY: all zero bytes are a valid tally, and the layout is that of a tally.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Tally>()) }
    }

    fn file(tally: &mut Tally) -> usize {
        tally.file(8, 15, Nanos(1)).expect("there is room").0
    }

    #[test]
    fn pages_are_counted_once_until_they_are_flushed() {
        let mut tally = tally();
        let file = file(&mut tally);
        assert_eq!(tally.mark(Nanos(1), file, 0, 8192, 3).new_pages, 2);
        let again = tally.mark(Nanos(1), file, 4096, 12_288, 4);
        assert_eq!((again.new_pages, again.previous), (1, CauseSet::of(3)));
        assert_eq!(tally.mark(Nanos(1), file, 1 << 30, (1 << 30) + 1, 3).new_pages, 1);
        let state = tally.state(file).unwrap();
        assert_eq!((state.pages, state.pieces), (4, 2));
        let flushed = tally.flush(file);
        assert_eq!((flushed.pages, flushed.pieces, flushed.causes.len()), (4, 2, 2));
        assert_eq!(tally.mark(Nanos(1), file, 0, 4096, 3).new_pages, 1, "clean after the flush");
    }

    #[test]
    fn pieces_are_taken_in_the_order_of_their_offsets() {
        let mut tally = tally();
        let file = file(&mut tally);
        for page in [900u64, 3, 4, 5, 63, 64] {
            tally.mark(Nanos(1), file, page * 4096, page * 4096 + 4096, 1);
        }
        let mut offset = 0;
        let mut found = Vec::new();
        loop {
            match tally.take_piece(file, offset, 2) {
                Piece::Dirty { offset: at, bytes, .. } => {
                    found.push((at / 4096, bytes / 4096));
                    offset = at + bytes;
                }
                Piece::Later(next) => offset = next,
                Piece::End => break,
            }
        }
        assert_eq!(found, [(3, 3), (63, 1), (64, 1), (900, 1)]);
        assert_eq!(tally.state(file).unwrap().pages, 0);
    }

    #[test]
    fn a_range_is_unmarked_by_whole_pages() {
        let mut tally = tally();
        let file = file(&mut tally);
        tally.mark(Nanos(1), file, 0, 100 * 4096, 3);
        let before = tally.state(file).unwrap().pieces;
        assert_eq!((before, tally.unmark(file, 1, 4096).pages), (2, 0));
        let taken = tally.unmark(file, 10 * 4096 - 1, 20 * 4096 + 1);
        assert_eq!((taken.pages, taken.pieces, taken.causes), (10, 1, CauseSet::of(3)));
        let state = tally.state(file).unwrap();
        assert_eq!((state.pages, state.pieces), (90, 3));
        assert_eq!(tally.unmark(file, 50 * 4096, u64::MAX).pages, 50);
        assert_eq!(tally.unmark(file, 0, u64::MAX).pages, 40);
        let state = tally.state(file).unwrap();
        assert_eq!((state.pages, state.pieces), (0, 0));
    }

    #[test]
    fn a_full_table_forgets_and_its_counts_stay_right() {
        let mut tally = tally();
        let file = file(&mut tally);
        let mut marked = 0;
        for number in 0..2 * CHUNKS as u64 {
            marked += tally
                .mark(Nanos(1), file, number * CHUNK_BYTES, number * CHUNK_BYTES + 1, 1)
                .new_pages;
        }
        let state = *tally.state(file).unwrap();
        assert!(state.pages <= CHUNKS as u64 && state.pages > CHUNKS as u64 / 2);
        assert_eq!((state.pages, marked), (state.pieces, 2 * CHUNKS as u64));
        let mut taken = 0;
        let mut offset = 0;
        loop {
            match tally.take_piece(file, offset, 1024) {
                Piece::Dirty { offset: at, bytes, taken: piece } => {
                    taken += piece.pages;
                    offset = at + bytes;
                }
                Piece::Later(next) => offset = next,
                Piece::End => break,
            }
        }
        assert_eq!(taken, state.pages);
    }

    #[test]
    fn files_come_and_go_but_dirty_ones_stay() {
        let mut tally = tally();
        let first = tally.file(1, 1, Nanos(1)).unwrap().0;
        tally.mark(Nanos(1), first, 0, 1, 0);
        for inode in 2..50_000u64 {
            let (at, fresh) = tally.file(1, inode, Nanos(inode)).unwrap();
            assert!(fresh && at != first);
        }
        assert_eq!(tally.file(1, 1, Nanos(9_000)).unwrap(), (first, false));
    }

    #[test]
    fn what_the_flusher_has_written_is_made_dirty_anew() {
        let mut tally = tally();
        let file = file(&mut tally);
        let at = |second: u64| Nanos(second * 1_000_000_000);
        assert_eq!(tally.mark(at(9), file, 0, 8192, 1).new_pages, 2);
        assert_eq!(tally.mark(at(38), file, 0, 8192, 1).new_pages, 0, "still dirty");
        assert_eq!(tally.mark(at(39), file, 0, 4096, 1).new_pages, 1);
        let state = tally.state(file).unwrap();
        assert_eq!((state.pages, state.pieces), (1, 1));
        assert_eq!(tally.mark(at(68), file, 4096, 8192, 1).new_pages, 1);
        assert_eq!(tally.state(file).unwrap().pages, 2);
    }

    #[test]
    fn dirty_files_that_nobody_uses_any_more_make_room() {
        let mut tally = tally();
        // Each is dirty, until all slots that one may have are those of others.
        let refused = |inode: &u64| match tally.file(1, *inode, Nanos(*inode)) {
            Some((at, _)) => tally.mark(Nanos(1), at, 0, 4096, 1).new_pages == u64::MAX,
            None => true,
        };
        let next = (1..50_000).find(refused).expect("there are fewer slots");
        let (at, fresh) = tally.file(1, next, FORGOTTEN + Nanos(next)).unwrap();
        assert!(fresh && tally.state(at).unwrap().pages == 0);
    }

    #[test]
    fn a_chunk_that_makes_room_takes_its_charge_with_it() {
        let mut tally = tally();
        let file = file(&mut tally);
        tally.mark(Nanos(1), file, 0, 4096 * 4, 1);
        tally.state_mut(file).unwrap().charged = Nanos(400);
        let at = tally.find(key_of(file, 0)).unwrap();
        tally.forget(at);
        assert_eq!(tally.flush(file), Unmarked { causes: CauseSet::of(1), ..Unmarked::default() });
    }
}
