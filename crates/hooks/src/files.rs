//! File operations: what comes before and after each of them.
//!
//! # Problem
//! A call on a file may have to wait for its turn, and its scheduler must learn what it made dirty.
//! The call itself must stay the same: result and errno are the kernel's, and the descriptor's
//! state is not touched. A program without a scheduler pays next to nothing.
//!
//! # The primitive
//! An operation before the call ([`before_write`], [`before_fsync`], …) returns what the operation
//! after it needs, or nothing if the file is not governed. A governed file is a regular file on a
//! file system with storage. This is determined once for each descriptor.
//!
//! # What must never happen here
//! * Opening or closing a descriptor of a governed file: closing one drops all POSIX locks of the
//!   process on that file.
//! * Waiting by `sync_file_range` or `fsync`: it would consume the error that the database's own
//!   `fsync` must report. Whether pages were written is read by `cachestat`.
//! * Taking early writeback for a durable write: the database's `fsync` always runs, and runs after
//!   it.

pub mod batch;
pub mod entries;
pub mod mapped;
mod names;
mod places;
mod status;
pub mod unseen;

use crate::conn::DESCRIPTORS;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, SMALL_BYTES, SplitKind, Urgency};
use headworks_region::clock;
use headworks_region::io::{CallKind, IoRegion, Order, Piece, Ticket, Written};
use headworks_region::lock::thread_id;
use headworks_region::thread::{self, keeping_errno};
use libc::c_int;

/// A read that takes longer may have come from the device: the kernel is asked.
const DEVICE_READ: Nanos = Nanos::from_micros(60);

/// Pieces of one call that can be in flight.
const IN_FLIGHT: usize = 128;

/// How often to check whether a piece was written: at first, and at most.
const POLL_MIN: Nanos = Nanos::from_micros(50);
const POLL_MAX: Nanos = Nanos::from_millis(1);

/// After this time a piece is no longer waited for.
const PIECE_TIMEOUT: Nanos = Nanos::from_millis(5_000);

/// Null while this process has no scheduler.
static REGION: AtomicPtr<IoRegion> = AtomicPtr::new(core::ptr::null_mut());

/// What is known of each descriptor: nothing (0), that it is not governed (1), or the slot and
/// generation of its file, and whether its last read missed the cache.
static FILES: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

const NOT_GOVERNED: u64 = 1;
const GOVERNED: u64 = 2;
const MISSED: u64 = 4;
/// Opened with `O_DIRECT`: its writes leave no dirty pages.
const DIRECT: u64 = 8;
/// Of a governed file: opened with `O_DSYNC` or `O_SYNC`. Its writes are durable when they return.
const COMMITS: u64 = 16;
/// The kernel reads ahead of it.
const STREAMS: u64 = 32;
/// Counts what a stream has read since the device last read for it, in units of `QUICK_BYTES`: the
/// kernel reads ahead by less than 16 MiB.
const QUICK: u64 = 64;
const QUICK_MAX: u64 = 1023 * QUICK;
const QUICK_BYTES: u64 = 16 << 10;
/// A directory on storage: only its `fsync` is governed.
const DIRECTORY: u64 = 16 | NOT_GOVERNED;

/// Where each descriptor's next read would be in sequence, in pages.
static NEXT_READ: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// Attaches this process to a region. Called once, from the library's constructor or by a test.
pub fn attach(region: &'static IoRegion) {
    // This program may have taken the place of another one, whose main thread was held.
    region.begins_anew(thread_id());
    REGION.store(core::ptr::from_ref(region).cast_mut(), Release);
}

/// Lets all calls of this process pass from now on.
pub fn disable() {
    if let Some(region) = region() {
        region.control.panics.fetch_add(1, Relaxed);
    }
    REGION.store(core::ptr::null_mut(), Release);
}

pub(crate) fn region() -> Option<&'static IoRegion> {
    // SAFETY: null, or a reference that `attach` stored and that lives as long as the process.
    unsafe { REGION.load(Acquire).as_ref() }
}

/// Whether any file is governed.
#[inline]
pub fn is_on() -> bool {
    region().is_some_and(|region| region.control.is_on())
}

/// Whether reads and writes of a descriptor may be governed; false once they are known not to be.
#[inline]
pub fn may_be_governed(fd: c_int) -> bool {
    let word = usize::try_from(fd).ok().and_then(|fd| FILES.get(fd));
    word.is_some_and(|word| word.load(Relaxed) & NOT_GOVERNED == 0) && is_on()
}

/// Whether the current scheduler needs to know of reads.
#[inline]
pub fn watches_reads() -> bool {
    region().is_some_and(|region| kind_of_read(region).is_some())
}

fn kind_of_read(region: &IoRegion) -> Option<CallKind> {
    [CallKind::ReadCall, CallKind::Read].into_iter().find(|kind| region.holds(*kind))
}

/// A descriptor was opened or closed: what was known of it no longer holds.
#[inline]
pub fn forget(fd: c_int) {
    if let Some(word) = usize::try_from(fd).ok().and_then(|fd| FILES.get(fd))
        && word.load(Relaxed) != 0
    {
        word.store(0, Relaxed);
    }
}

/// Descriptors from `first` to `last` were closed.
pub fn forget_range(first: c_int, last: c_int) {
    let first = usize::try_from(first).unwrap_or(0).min(DESCRIPTORS);
    let last = usize::try_from(last).map_or(0, |last| last.saturating_add(1)).min(DESCRIPTORS);
    for word in &FILES[first..last.max(first)] {
        word.store(0, Relaxed);
    }
}

/// A governed file of this process.
#[derive(Clone, Copy, Debug)]
struct File {
    region: &'static IoRegion,
    slot: u16,
    word: &'static AtomicU64,
    missed: bool,
    streams: bool,
    /// Its writes leave no dirty pages.
    direct: bool,
    /// They are commits.
    commits: bool,
}

impl File {
    /// From what is known of its descriptor.
    fn of(region: &'static IoRegion, word: &'static AtomicU64, known: u64) -> Self {
        let has = |bit| known & bit != 0;
        let (missed, streams, commits) = (has(MISSED), has(STREAMS), has(COMMITS));
        let direct = commits || has(DIRECT);
        File { region, slot: slot_of(known).0, word, missed, streams, direct, commits }
    }
}

/// Slot and generation of a governed file.
fn slot_of(known: u64) -> (u16, u32) {
    ((known >> 16) as u16, (known >> 32) as u32)
}

#[inline]
fn governed(fd: c_int) -> Option<File> {
    let region = region().filter(|region| region.control.is_on())?;
    let word = FILES.get(usize::try_from(fd).ok()?)?;
    let known = word.load(Relaxed);
    if known & NOT_GOVERNED != 0 {
        return None;
    }
    let (slot, generation) = slot_of(known);
    if known & GOVERNED != 0 && region.is_current(slot, generation) {
        return Some(File::of(region, word, known));
    }
    keeping_errno(|| find_out(region, fd, word))
}

/// As [`governed`], but what is known is checked: `fopen` and `fclose` are not seen, so that the
/// descriptor may be another file's by now.
fn governed_after_check(fd: c_int) -> Option<File> {
    let region = region().filter(|region| region.control.is_on())?;
    let word = FILES.get(usize::try_from(fd).ok()?)?;
    keeping_errno(|| find_out(region, fd, word))
}

/// File systems without storage behind them (their magic numbers are in `linux/magic.h`).
const MEMORY_ONLY: [i64; 6] =
    [0x0102_1994, 0x9fa0, 0x6265_6572, 0x8584_58f6, 0x9584_58f6, 0x0010_27e5];

#[cold]
fn find_out(region: &'static IoRegion, fd: c_int, word: &'static AtomicU64) -> Option<File> {
    let Some(file) = status::of(fd) else {
        word.store(0, Relaxed);
        return None;
    };
    // SAFETY: all zero bytes are a valid buffer; the call only writes to it.
    let fs = unsafe {
        let mut fs: libc::statfs = core::mem::zeroed();
        if libc::fstatfs(fd, &raw mut fs) != 0 {
            return None;
        }
        fs
    };
    // The type of the field differs between C libraries.
    #[allow(clippy::unnecessary_cast)]
    let in_memory = MEMORY_ONLY.contains(&(fs.f_type as i64));
    if !file.is_regular() || in_memory {
        let directory = file.kind == libc::S_IFDIR && !in_memory;
        word.store(if directory { DIRECTORY } else { NOT_GOVERNED }, Relaxed);
        return None;
    }
    let found = region.file(file.device, file.inode, |path| path_of(fd, path));
    let Some((slot, generation)) = found else {
        word.store(NOT_GOVERNED, Relaxed);
        return None;
    };
    let mut known = word.load(Relaxed);
    if known & (GOVERNED | NOT_GOVERNED) != GOVERNED || slot_of(known) != (slot, generation) {
        // By system call: `fcntl` is a hook of ours.
        // SAFETY: asks for flags, and changes nothing.
        let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
        let has = |flag: c_int| flags > 0 && flags & libc::c_long::from(flag) != 0;
        known = u64::from(generation) << 32 | u64::from(slot) << 16 | GOVERNED;
        // A program may read each of many files once: the first read asks whether it is a hit.
        known |= MISSED | if has(libc::O_DIRECT) { DIRECT } else { 0 };
        // `O_SYNC` contains it.
        known |= if has(libc::O_DSYNC) { COMMITS } else { 0 };
        word.store(known, Relaxed);
    }
    Some(File::of(region, word, known))
}

/// The end of a descriptor's path. Returns its length.
fn path_of(fd: c_int, path: &mut [u8; 256]) -> usize {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut digits, mut rest, mut at) = ([0u8; 10], fd.unsigned_abs(), 0);
    loop {
        digits[at] = b'0' + (rest % 10) as u8;
        (rest, at) = (rest / 10, at + 1);
        if rest == 0 {
            break;
        }
    }
    for (to, digit) in link[14..].iter_mut().zip(digits[..at].iter().rev()) {
        *to = *digit;
    }
    let mut whole = [0u8; 4096];
    // SAFETY: the link is a C string, and the buffer has the length that is given.
    let length =
        unsafe { libc::readlink(link.as_ptr().cast(), whole.as_mut_ptr().cast(), whole.len()) };
    let whole = &whole[..usize::try_from(length).unwrap_or(0).min(4096)];
    let tail = &whole[whole.len().saturating_sub(path.len())..];
    path[..tail.len()].copy_from_slice(tail);
    tail.len()
}

/// The calling thread's account.
pub(crate) fn account(region: &IoRegion) -> Account {
    region.account(|| keeping_errno(|| names::of_this_thread(region)))
}

/// A call for which an operation after it follows.
#[derive(Debug)]
#[must_use]
pub struct Call {
    file: Option<File>,
    region: &'static IoRegion,
    account: Account,
    ticket: Option<Ticket>,
    flushed: Option<headworks_region::io::tally::Unmarked>,
    began: Nanos,
    bytes: u64,
}

impl Call {
    fn of(file: File) -> Self {
        Call { file: Some(file), ..Call::without_file(file.region) }
    }

    fn without_file(region: &'static IoRegion) -> Self {
        Call { account: account(region), ..Call::of_nobody(region) }
    }

    /// A call whose account has not been read yet.
    fn of_nobody(region: &'static IoRegion) -> Self {
        Call {
            file: None,
            region,
            account: 0,
            ticket: None,
            flushed: None,
            began: Nanos(0),
            bytes: 0,
        }
    }

    /// Waits until the call may run.
    fn enter(&mut self, kind: CallKind, fd: c_int, bytes: u64) {
        let slot = self.file.map_or(u16::MAX, |file| file.slot);
        let mut ticket = self.region.enter(kind, self.account, slot, bytes);
        if !self.region.is_admitted(&ticket) {
            keeping_errno(|| wait(self.region, &ticket, fd, slot));
            self.region.admitted(&mut ticket);
        }
        self.ticket = Some(ticket);
    }
}

/// A write of `bytes` is about to be made. It `commits` if the call itself asks for a durable write
/// (`RWF_DSYNC`).
#[inline]
pub fn before_write(fd: c_int, bytes: usize, commits: bool) -> Option<Call> {
    let mut file = governed(fd)?;
    file.commits |= commits;
    file.direct |= commits;
    let mut call = Call::of(file);
    let kind = match file.direct {
        true if file.commits && bytes as u64 <= SMALL_BYTES => CallKind::Commit,
        true => CallKind::WriteDirect,
        false => CallKind::Write,
    };
    if file.region.holds(kind) {
        call.enter(kind, fd, bytes as u64);
    }
    Some(call)
}

/// The write has returned. Without an `offset` it was made at the file's own position.
pub fn after_write(call: Call, fd: c_int, offset: Option<i64>, count: isize) {
    if let (Ok(count @ 1..), Some(file)) = (u64::try_from(count), call.file) {
        let offset = match offset {
            Some(offset) => offset,
            // SAFETY: asks for the position, and changes nothing.
            None => keeping_errno(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) } - count as i64),
        };
        match call.ticket {
            Some(ticket) if !file.direct => {
                let offset = u64::try_from(offset).unwrap_or(0);
                if file.region.wrote_and_left(ticket, offset, count) {
                    places::note(file, call.account, fd, offset, count);
                }
                return;
            }
            ticket => {
                wrote(file, call.account, fd, offset, count);
                return leave(Call { ticket, ..call });
            }
        }
    }
    leave(call);
}

fn wrote(file: File, account: Account, fd: c_int, offset: i64, bytes: u64) {
    let offset = u64::try_from(offset).unwrap_or(0);
    if file.direct {
        file.region.wrote_through(account, file.slot, offset, bytes);
    } else if file.region.wrote(account, file.slot, offset, bytes) {
        places::note(file, account, fd, offset, bytes);
    }
}

/// An `fsync` or one of its like is about to be made.
pub fn before_fsync(fd: c_int) -> Option<Call> {
    let Some(file) = governed_after_check(fd) else {
        let known = FILES.get(usize::try_from(fd).ok()?)?.load(Relaxed);
        return if known == DIRECTORY { before_sync() } else { None };
    };
    let mut call = Call::of(file);
    keeping_errno(|| unseen::before_sync_of(file, call.account, fd, (0, u64::MAX)));
    call.enter(CallKind::Fsync, fd, 0);
    call.flushed = call.ticket.as_ref().map(|ticket| file.region.begins_flush(ticket));
    Some(call)
}

/// A thread is about to begin the writeback of a range. If the scheduler wants it, the call waits
/// like an `fsync` until the file's dirty pieces are written back in their turn.
pub fn before_writeback(fd: c_int, offset: i64, bytes: i64) -> Option<Call> {
    let region = region().filter(|region| region.holds(CallKind::WriteRange))?;
    let file = governed_after_check(fd)?;
    let mut call = Call::of(file);
    if region.control.kind() == SplitKind::Rcp && !is_background(region, call.account) {
        return None;
    }
    keeping_errno(|| unseen::before_sync_of(file, call.account, fd, range(offset, bytes)));
    call.enter(CallKind::WriteRange, fd, 0);
    Some(call)
}

fn is_background(region: &IoRegion, account: Account) -> bool {
    region.urgency(account) == Urgency::Background
}

/// The journal, or all of a file system, is about to be made durable.
pub fn before_sync() -> Option<Call> {
    let region = region().filter(|region| region.control.is_on())?;
    let mut call = Call::without_file(region);
    call.enter(CallKind::Fsync, -1, 0);
    Some(call)
}

/// The program has begun to write a range of a file back by itself.
pub fn wrote_back(fd: c_int, offset: i64, bytes: i64) {
    if let Some(file) = governed(fd) {
        let (from, to) = range(offset, bytes);
        file.region.wrote_back(file.slot, from, to);
    }
}

/// A range of a file was given up: its dirty pages will not be written. `bytes` of zero means up to
/// the end.
pub fn freed(fd: c_int, offset: i64, bytes: i64) {
    if let Some(file) = governed(fd) {
        let (from, to) = range(offset, bytes);
        file.region.freed(file.slot, from, to);
    }
}

fn range(offset: i64, bytes: i64) -> (u64, u64) {
    let from = u64::try_from(offset).unwrap_or(0);
    let to = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    (from, to.map_or(u64::MAX, |bytes| from.saturating_add(bytes)))
}

/// A file is about to be made, renamed, truncated or removed, or a directory to be made.
pub fn before_metadata(directory: bool) -> Option<Call> {
    let region = region().filter(|region| region.control.is_on())?;
    let kind = if directory { CallKind::MakeDirectory } else { CallKind::Create };
    if !region.holds(kind) {
        return None;
    }
    let mut call = Call::without_file(region);
    call.enter(kind, -1, 0);
    Some(call)
}

/// A read is about to be made; without an `offset` at the file's own position.
#[inline]
pub fn before_read(fd: c_int, offset: Option<i64>, bytes: usize) -> Option<Call> {
    let kind = kind_of_read(region()?)?;
    let file = governed(fd)?;
    let asks = || {
        // Streams of clients never wait, and each question would set the background back.
        file.region.control.kind() != SplitKind::Rcp
            || is_background(file.region, account(file.region))
    };
    let kind = match kind {
        CallKind::Read if file.streams && file.region.holds(CallKind::ReadStream) && asks() => {
            CallKind::ReadStream
        }
        kind => kind,
    };
    let is_hit = || !file.missed || is_cached(fd, offset, bytes);
    // A read after a cache hit is probably a hit too. It is charged afterwards if it is not.
    if kind == CallKind::Read && is_hit() {
        let began = clock::now();
        return Some(Call { file: Some(file), began, ..Call::of_nobody(file.region) });
    }
    let mut call = Call::of(file);
    call.enter(kind, fd, bytes as u64);
    call.began = clock::now();
    Some(call)
}

/// It has returned.
pub fn after_read(call: Call, fd: c_int, offset: Option<i64>, count: isize) {
    if let Some(file) = call.file {
        let bytes = u64::try_from(count).unwrap_or(0);
        let took = clock::now().since(call.began);
        let mut slow = bytes > 0 && took >= DEVICE_READ;
        if slow || file.streams {
            // A slow call without a read of the device was preempted, or copied much. A quick call
            // may have made the kernel read ahead.
            slow = reads_from_device().unwrap_or(slow);
        }
        if slow && call.ticket.is_none() {
            call.region.read_unasked(account(call.region), bytes, took);
        }
        let in_sequence =
            file.region.holds(CallKind::ReadStream) && is_in_sequence(fd, offset, bytes);
        if slow != file.missed || file.streams {
            let note = |word| Some(after_a_read(word, slow, in_sequence, bytes));
            let _ = file.word.fetch_update(Relaxed, Relaxed, note);
        }
    }
    leave(call);
}

/// Whether a device has read anything for the calling thread since the thread last asked. What the
/// kernel reads ahead counts. `None` if this kernel does not tell.
fn reads_from_device() -> Option<bool> {
    const UNKNOWN: u32 = 0;
    const NO: u32 = 1;
    const YES: u32 = 2;
    static COUNTS: AtomicU32 = AtomicU32::new(UNKNOWN);
    keeping_errno(|| {
        if COUNTS.load(Relaxed) == UNKNOWN {
            // The file is there if the kernel counts (CONFIG_TASK_IO_ACCOUNTING).
            // SAFETY: the path is a C string.
            let found = unsafe { libc::access(c"/proc/self/io".as_ptr(), libc::F_OK) } == 0;
            COUNTS.store(if found { YES } else { NO }, Relaxed);
        }
        if COUNTS.load(Relaxed) == NO {
            return None;
        }
        // SAFETY: all zero bytes are a valid buffer; the call only writes to it.
        let usage = unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        let blocks = usage.ru_inblock as u32;
        Some(thread::with(|words| words.blocks_read.replace(blocks)) != blocks)
    })
}

/// Whether a read began where the last one of its descriptor ended. A read at the file's own
/// position is taken for one in sequence.
fn is_in_sequence(fd: c_int, offset: Option<i64>, bytes: u64) -> bool {
    let (Some(offset), Ok(at)) = (offset, usize::try_from(fd)) else { return true };
    let Some(next) = NEXT_READ.get(at) else { return false };
    let offset = u64::try_from(offset).unwrap_or(0);
    // A few bytes more or less are the same page.
    let page = |byte: u64| (byte / 4096) as u32;
    let expected = next.load(Relaxed);
    next.store(page(offset + bytes), Relaxed);
    expected == page(offset)
}

/// A descriptor's word after a read: whether the device read for it, and whether it is one of a
/// stream.
fn after_a_read(word: u64, slow: bool, in_sequence: bool, bytes: u64) -> u64 {
    let quick = (word & QUICK_MAX) + (bytes / QUICK_BYTES).clamp(1, QUICK_MAX / QUICK) * QUICK;
    let rest = word & !(MISSED | STREAMS | QUICK_MAX);
    match (in_sequence, slow) {
        (true, true) => rest | MISSED | STREAMS,
        (true, false) if word & STREAMS != 0 && quick <= QUICK_MAX => rest | STREAMS | quick,
        (_, true) => rest | MISSED,
        (_, false) => rest,
    }
}

/// Completes the call, however it ended.
pub fn leave(call: Call) {
    if let Some(ticket) = call.ticket {
        call.region.leave(ticket, call.flushed);
    }
}

/// Carries out the orders for a call until it may run.
fn wait(region: &IoRegion, ticket: &Ticket, fd: c_int, slot: u16) {
    let mut flight = Flight::new();
    let mut cursor = 0;
    loop {
        match region.next_order(ticket, !flight.is_empty()) {
            Order::Go => return flight.leave(region, ticket),
            Order::WriteBack(pieces) => {
                let mut missing = 0;
                for _ in 0..pieces {
                    if flight.is_full() {
                        flight.land(region, ticket, fd);
                    }
                    match next_piece(region, slot, &mut cursor) {
                        Some((offset, bytes, taken)) => {
                            // The kernel keeps an error for the database's own fsync. SAFETY:
                            // begins to write and does not wait; the descriptor is the caller's.
                            unsafe {
                                libc::syscall(
                                    libc::SYS_sync_file_range,
                                    fd,
                                    offset,
                                    bytes,
                                    libc::SYNC_FILE_RANGE_WRITE,
                                )
                            };
                            flight.push(Begun { offset, bytes, taken, since: clock::now() });
                        }
                        None => missing += 1,
                    }
                }
                if missing > 0 {
                    region.cleaned(ticket, &Written { pieces: missing, ..Written::default() });
                }
            }
            Order::Nothing => flight.land(region, ticket, fd),
        }
    }
}

/// The next dirty piece from the cursor on. At the end of the file it starts again.
fn next_piece(
    region: &IoRegion,
    slot: u16,
    cursor: &mut u64,
) -> Option<(u64, u64, headworks_region::io::tally::Unmarked)> {
    // At most two passes over the file: the next order finds pages that are dirtied meanwhile.
    let mut turns = 0;
    loop {
        match region.take_piece(slot, *cursor) {
            Piece::Dirty { offset, bytes, taken } => {
                *cursor = offset + bytes;
                return Some((offset, bytes, taken));
            }
            Piece::Later(next) => *cursor = next,
            Piece::End if turns == 0 && *cursor > 0 => (*cursor, turns) = (0, 1),
            Piece::End => return None,
        }
    }
}

/// A piece whose writeback has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    offset: u64,
    bytes: u64,
    taken: headworks_region::io::tally::Unmarked,
    since: Nanos,
}

/// The pieces of a call in writeback, in the order in which they were begun.
struct Flight {
    pieces: [Begun; IN_FLIGHT],
    first: usize,
    count: usize,
}

impl Flight {
    fn new() -> Self {
        Flight { pieces: [Begun::default(); IN_FLIGHT], first: 0, count: 0 }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_full(&self) -> bool {
        self.count == IN_FLIGHT
    }

    fn push(&mut self, piece: Begun) {
        self.pieces[(self.first + self.count) % IN_FLIGHT] = piece;
        self.count += 1;
    }

    /// Reports the pieces that are left as written: nobody waits for them any more.
    fn leave(&mut self, region: &IoRegion, ticket: &Ticket) {
        while self.count > 0 {
            self.report(region, ticket);
        }
    }

    fn report(&mut self, region: &IoRegion, ticket: &Ticket) {
        let taken = self.pieces[self.first].taken;
        self.first = (self.first + 1) % IN_FLIGHT;
        self.count -= 1;
        region.cleaned(ticket, &Written { pieces: 1, taken });
    }

    /// Waits until the oldest piece is written or the call may go on, and reports the piece.
    fn land(&mut self, region: &IoRegion, ticket: &Ticket, fd: c_int) {
        if self.count == 0 {
            return;
        }
        let piece = self.pieces[self.first];
        let mut poll = POLL_MIN;
        while cache_state(fd, piece.offset, piece.bytes).is_some_and(|cache| cache.nr_writeback > 0)
            && clock::now().since(piece.since) < PIECE_TIMEOUT
            && !region.is_admitted(ticket)
        {
            sleep(poll);
            poll = Nanos(poll.0 * 3 / 2).min(POLL_MAX);
        }
        self.report(region, ticket);
    }
}

fn sleep(time: Nanos) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.0 as libc::c_long };
    // SAFETY: the timespec is valid; no remainder is asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
}

/// The answer of `cachestat(2)` for a range (linux/mman.h).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct CacheState {
    nr_cache: u64,
    nr_dirty: u64,
    nr_writeback: u64,
    nr_evicted: u64,
    nr_recently_evicted: u64,
}

/// Number of `cachestat(2)`, the same on all architectures.
pub const SYS_CACHESTAT: libc::c_long = 451;

/// The process would be killed for the call.
static CACHESTAT_IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// From here on `cachestat` is not called.
pub fn avoid_cachestat() {
    CACHESTAT_IS_FORBIDDEN.store(true, Relaxed);
}

/// `None` where the kernel does not answer (before 6.5, or for a file of another user).
fn cache_state(fd: c_int, offset: u64, bytes: u64) -> Option<CacheState> {
    if CACHESTAT_IS_FORBIDDEN.load(Relaxed) {
        return None;
    }
    let range = [offset, bytes];
    let mut state = CacheState::default();
    // SAFETY: the range is two words, as the call wants it, and it writes no more than a state.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, fd, range.as_ptr(), &raw mut state, 0) };
    (result == 0).then_some(state)
}

/// Whether the whole range is in the page cache.
fn is_cached(fd: c_int, offset: Option<i64>, bytes: usize) -> bool {
    keeping_errno(|| {
        // SAFETY: asks for the position, and changes nothing.
        let offset = offset.unwrap_or_else(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) });
        let Ok(offset) = u64::try_from(offset) else { return true };
        if bytes == 0 {
            return true;
        }
        let (first, last) = (offset / 4096, (offset + bytes as u64 - 1) / 4096);
        cache_state(fd, offset, bytes as u64).is_none_or(|cache| cache.nr_cache > last - first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_sequence_for_which_the_device_reads_now_and_then() {
        let own = 7 << 32 | 3 << 16 | GOVERNED;
        let stream = after_a_read(own, true, true, 8192);
        assert_eq!(stream, own | MISSED | STREAMS);
        let mut word = stream;
        for _ in 0..1_000 {
            word = after_a_read(word, false, true, 8192);
            assert!(
                word & STREAMS != 0 && word & MISSED == 0 && word & !QUICK_MAX & !STREAMS == own
            );
        }
        assert_eq!(after_a_read(word, true, true, 8192), stream, "it goes on");
        assert_eq!(after_a_read(word, false, false, 8192), own, "somewhere else");
        assert_eq!(after_a_read(word, true, false, 8192), own | MISSED);
        for _ in 0..64 {
            word = after_a_read(word, false, true, 256 << 10);
        }
        assert_eq!(word, own, "16 MiB without the device: it is all in the cache");
    }

    #[test]
    fn a_read_is_in_sequence_where_the_last_one_ended() {
        let fd = DESCRIPTORS as c_int - 1;
        assert!(!is_in_sequence(fd, Some(8 << 20), 8192));
        assert!(is_in_sequence(fd, Some((8 << 20) + 8192), 100));
        assert!(is_in_sequence(fd, Some((8 << 20) + 8292), 100), "the same page");
        assert!(!is_in_sequence(fd, Some(0), 100));
        assert!(is_in_sequence(fd, None, 100), "at the file's own position");
    }
}
