//! File operations: what comes before and after each of them.
//!
//! # Problem
//! A call on a file may have to wait for its turn, and its scheduler must learn what it made dirty.
//! The call itself must stay the same: result and errno are the kernel's, and the descriptor's
//! state is not touched. A program without a scheduler pays next to nothing.
//!
//! # The primitive
//! An operation before the call ([`before_write`], [`before_fsync`], …) returns what the operation
//! after it needs, or nothing if the file is not governed. That is determined once for each
//! descriptor ([`descriptors`]). A call that waits meanwhile writes its file's dirty pages back, if
//! the scheduler orders that ([`writeback`]).
//!
//! # What must never happen here
//! * Opening or closing a descriptor of a governed file: closing one drops all POSIX locks of the
//!   process on that file.
//! * Waiting by `sync_file_range` or `fsync`: it would consume the error that the database's own
//!   `fsync` must report. Whether pages were written is read by `cachestat`.
//! * Taking early writeback for a durable write: the database's `fsync` always runs, and runs after
//!   it.

pub mod batch;
mod descriptors;
pub mod file_names;
mod kernel;
pub mod mapped;
mod places;
mod status;
mod streams;
mod thread_names;
pub mod unseen;
mod writeback;

pub use descriptors::{forget, forget_range, may_be_governed, passed};
pub use kernel::{SYS_CACHESTAT, avoid_cachestat};

use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use descriptors::{File, governed, governed_after_check};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, SMALL_BYTES};
use headworks_region::clock;
use headworks_region::io::{CallKind, IoRegion, Ticket};
use headworks_region::lock::thread_id;
use headworks_region::thread::keeping_errno;
use libc::c_int;

/// Null while this process has no scheduler.
static REGION: AtomicPtr<IoRegion> = AtomicPtr::new(core::ptr::null_mut());

/// Attaches this process to a region. Called once, from the library's constructor or by a test.
pub fn attach(region: &'static IoRegion) {
    // This program may have taken the place of another one, whose main thread was held.
    region.program_begins(thread_id());
    REGION.store(core::ptr::from_ref(region).cast_mut(), Release);
}

/// Lets all calls of this process pass from now on.
pub fn disable() {
    if let Some(region) = region() {
        region.control.panics.fetch_add(1, Relaxed);
    }
    stand_aside();
}

/// The same, for a process that is not to be governed.
fn stand_aside() {
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

/// Whether the current scheduler needs to know of reads.
#[inline]
pub fn watches_reads() -> bool {
    region().is_some_and(|region| kind_of_read(region).is_some())
}

fn kind_of_read(region: &IoRegion) -> Option<CallKind> {
    [CallKind::ReadCall, CallKind::Read].into_iter().find(|kind| region.control.hears(*kind))
}

/// The calling thread's account.
pub(crate) fn account(region: &IoRegion) -> Account {
    region.account(|names| keeping_errno(|| thread_names::of_this_thread(region, names)))
}

/// A call for which an operation after it follows. Operations before a call put it into a place of
/// their caller's: what is returned would be copied, and stacks may be small.
#[derive(Debug)]
pub struct Call {
    file: Option<File>,
    region: &'static IoRegion,
    account: Account,
    ticket: Option<Ticket>,
    began: Nanos,
    bytes: u64,
}

impl Call {
    fn of(file: File) -> Self {
        Call { file: Some(file), ..Call::without_file(file.region) }
    }

    fn without_file(region: &'static IoRegion) -> Self {
        Call { account: account(region), ..Call::unaccounted(region) }
    }

    /// A call whose account has not been read yet.
    fn unaccounted(region: &'static IoRegion) -> Self {
        Call { file: None, region, account: 0, ticket: None, began: Nanos(0), bytes: 0 }
    }

    /// Waits until the call may run.
    fn enter(&mut self, kind: CallKind, fd: c_int, bytes: u64) {
        let slot = self.file.map_or(u16::MAX, |file| file.slot);
        let ticket = self.ticket.insert(self.region.enter(kind, self.account, slot, bytes));
        admit(self.region, ticket, fd, slot);
    }
}

/// Waits until the call of a ticket may run.
fn admit(region: &IoRegion, ticket: &mut Ticket, fd: c_int, slot: u16) {
    if !region.is_admitted(ticket) {
        keeping_errno(|| writeback::wait(region, ticket, fd, slot));
        region.admitted(ticket);
    }
}

/// A write of `bytes` is about to be made. It `commits` if the call itself asks for a durable write
/// (`RWF_DSYNC`).
#[inline]
pub fn before_write(fd: c_int, bytes: usize, commits: bool, place: &mut Option<Call>) {
    let Some(mut file) = governed(fd) else { return };
    file.commits |= commits;
    file.direct |= commits;
    let call = place.insert(Call::of(file));
    let kind = match file.direct {
        true if file.commits && bytes as u64 <= SMALL_BYTES => CallKind::Commit,
        true => CallKind::WriteDirect,
        false => CallKind::Write,
    };
    if file.region.control.hears(kind) {
        call.enter(kind, fd, bytes as u64);
    }
}

/// The write has returned. Without an `offset` it was made at the file's own position.
pub fn after_write(call: &mut Call, fd: c_int, offset: Option<i64>, count: isize) {
    descriptors::used(fd, count);
    if let (Ok(count @ 1..), Some(file)) = (u64::try_from(count), call.file) {
        let offset = match offset {
            Some(offset) => offset,
            None => kernel::position(fd) - count as i64,
        };
        match call.ticket.take_if(|_| !file.direct) {
            Some(ticket) => {
                let offset = u64::try_from(offset).unwrap_or(0);
                if file.region.wrote_and_left(ticket, offset, count) {
                    places::note(file, call.account, fd, offset, count);
                }
                return;
            }
            None => wrote(file, call.account, fd, offset, count),
        }
    }
    leave(call);
}

fn wrote(file: File, account: Account, fd: c_int, offset: i64, bytes: u64) {
    let offset = u64::try_from(offset).unwrap_or(0);
    if file.direct {
        if !file.region.control.kind().puts_clients_first() {
            // For the next time: a database writes its pages again and again in the same places.
            // Where clients go first, a write of unknown owner is one that they wait for.
            places::note(file, account, fd, offset, bytes);
        }
        file.region.wrote_through(account, file.slot, offset, bytes);
    } else if file.region.wrote(account, file.slot, offset, bytes) {
        places::note(file, account, fd, offset, bytes);
    }
}

/// An `fsync` or one of its like is about to be made.
pub fn before_fsync(fd: c_int, place: &mut Option<Call>) {
    let Some((file, found)) = governed_after_check(fd) else {
        if descriptors::is_directory(fd) {
            before_sync(place);
        }
        return;
    };
    let call = place.insert(Call::of(file));
    keeping_errno(|| unseen::before_sync_of(file, &found, call.account, fd, (0, u64::MAX)));
    let ticket = call.ticket.insert(file.region.enter_fsync(call.account, file.slot));
    admit(file.region, ticket, fd, file.slot);
    file.region.begins_flush(ticket);
}

/// A thread is about to begin the writeback of a range. If the scheduler wants it, the call waits
/// like an `fsync` until the file's dirty pieces are written back in their turn.
pub fn before_writeback(fd: c_int, offset: i64, bytes: i64, place: &mut Option<Call>) {
    let region = region().filter(|region| region.control.hears(CallKind::WriteRange));
    let Some(region) = region else { return };
    let Some((file, found)) = governed_after_check(fd) else { return };
    if region.control.kind().puts_clients_first() && !region.is_background(account(region)) {
        return;
    }
    let call = place.insert(Call::of(file));
    keeping_errno(|| unseen::before_sync_of(file, &found, call.account, fd, range(offset, bytes)));
    call.enter(CallKind::WriteRange, fd, 0);
}

/// The journal, or all of a file system, is about to be made durable.
pub fn before_sync(place: &mut Option<Call>) {
    if let Some(region) = region().filter(|region| region.control.is_on()) {
        place.insert(Call::without_file(region)).enter(CallKind::Fsync, -1, 0);
    }
}

/// The program itself has begun to write a range of a file back.
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
pub fn before_metadata(directory: bool, place: &mut Option<Call>) {
    let kind = if directory { CallKind::MakeDirectory } else { CallKind::Create };
    if let Some(region) = region().filter(|region| region.control.hears(kind)) {
        place.insert(Call::without_file(region)).enter(kind, -1, 0);
    }
}

/// A read is about to be made; without an `offset` at the file's own position.
#[inline]
pub fn before_read(fd: c_int, offset: Option<i64>, bytes: usize, place: &mut Option<Call>) {
    let Some(kind) = region().and_then(kind_of_read) else { return };
    let Some(file) = governed(fd) else { return };
    let asks = || {
        // Streams of clients never wait, and each question would set the background back.
        !file.region.control.kind().puts_clients_first()
            || file.region.is_background(account(file.region))
    };
    let kind = match kind {
        CallKind::Read
            if file.streams && file.region.control.hears(CallKind::ReadStream) && asks() =>
        {
            CallKind::ReadStream
        }
        kind => kind,
    };
    let is_hit = || !file.missed || kernel::is_cached(fd, offset, bytes);
    // A read after a cache hit is probably a hit too. It is charged afterwards if it is not.
    if kind == CallKind::Read && is_hit() {
        let began = clock::now();
        *place = Some(Call { file: Some(file), began, ..Call::unaccounted(file.region) });
        return;
    }
    let call = place.insert(Call::of(file));
    if let Some(offset) = offset.and_then(|offset| u64::try_from(offset).ok()) {
        // The device will read for it.
        places::note(file, call.account, fd, offset, bytes as u64);
    }
    call.enter(kind, fd, bytes as u64);
    call.began = clock::now();
}

/// It has returned.
pub fn after_read(call: &mut Call, fd: c_int, offset: Option<i64>, count: isize) {
    descriptors::used(fd, count);
    if let Some(file) = call.file {
        let bytes = u64::try_from(count).unwrap_or(0);
        let took = clock::now().since(call.began);
        if streams::note(file, fd, offset, bytes, took) && call.ticket.is_none() {
            call.region.read_unasked(account(call.region), bytes, took);
        }
    }
    leave(call);
}

/// Completes the call, however it ended.
pub fn leave(call: &mut Call) {
    if let Some(ticket) = call.ticket.take() {
        call.region.leave(ticket);
    }
}
