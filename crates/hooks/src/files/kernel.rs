//! Questions to the kernel, and its writeback. Each is a system call that changes nothing of the
//! descriptor, and none takes an error that the program is to see.

use crate::room::Room;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use headworks_policy::Nanos;
use headworks_region::thread::keeping_errno;
use libc::c_int;

/// The answer of `cachestat(2)` for a range (linux/mman.h).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct CacheState {
    pub nr_cache: u64,
    pub nr_dirty: u64,
    pub nr_writeback: u64,
    pub nr_evicted: u64,
    pub nr_recently_evicted: u64,
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
#[inline(never)] // its answer is gone from the stack when it returns
pub(super) fn cache_state(fd: c_int, offset: u64, bytes: u64) -> Option<CacheState> {
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
pub(super) fn is_cached(fd: c_int, offset: Option<i64>, bytes: usize) -> bool {
    keeping_errno(|| {
        let offset = offset.unwrap_or_else(|| position(fd));
        let Ok(offset) = u64::try_from(offset) else { return true };
        if bytes == 0 {
            return true;
        }
        let (first, last) = (offset / 4096, (offset + bytes as u64 - 1) / 4096);
        cache_state(fd, offset, bytes as u64).is_none_or(|cache| cache.nr_cache > last - first)
    })
}

/// Begins to write a range back, and does not wait. The kernel keeps an error for the database's
/// own `fsync`.
pub(super) fn begin_writeback(fd: c_int, offset: u64, bytes: u64) {
    let how = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: no memory is touched; the descriptor is the caller's.
    unsafe { libc::syscall(libc::SYS_sync_file_range, fd, offset, bytes, how) };
}

/// The file's own position; negative where it has none.
pub(super) fn position(fd: c_int) -> i64 {
    // SAFETY: asks for the position, and changes nothing.
    keeping_errno(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) })
}

/// The flags that the file was opened with. By system call: `fcntl` is a hook of ours.
pub(super) fn open_flags(fd: c_int) -> c_int {
    // SAFETY: asks for flags, and changes nothing.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    c_int::try_from(flags).unwrap_or(0).max(0)
}

/// File systems without storage behind them (their magic numbers are in `linux/magic.h`).
const MEMORY_ONLY: [i64; 6] =
    [0x0102_1994, 0x9fa0, 0x6265_6572, 0x8584_58f6, 0x9584_58f6, 0x0010_27e5];

/// Whether a file has storage behind it. `None` if the kernel does not tell.
#[inline(never)] // its buffer is gone from the stack when it returns
pub(super) fn has_storage(fd: c_int) -> Option<bool> {
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
    let kind = fs.f_type as i64;
    Some(!MEMORY_ONLY.contains(&kind))
}

/// The end of a descriptor's path. Returns its length.
pub(super) fn path_of(fd: c_int, path: &mut [u8; 256]) -> usize {
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
    // SAFETY: the link is a C string, and the buffer has the length that is given.
    let read = |into: &mut [u8]| unsafe {
        let length = libc::readlink(link.as_ptr().cast(), into.as_mut_ptr().cast(), into.len());
        usize::try_from(length).unwrap_or(0)
    };
    let length = read(path);
    if length < path.len() {
        return length;
    }
    // Its end is what rules and reports want.
    let Some(mut whole) = Room::<[u8; libc::PATH_MAX as usize]>::make() else { return 0 };
    let length = read(&mut *whole).min(whole.len());
    let tail = &whole[length.saturating_sub(path.len())..length];
    path[..tail.len()].copy_from_slice(tail);
    tail.len()
}

/// How many blocks devices have read for the calling thread. What the kernel reads ahead counts.
/// `None` if this kernel does not tell.
pub(super) fn blocks_read() -> Option<u32> {
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
        Some(usage.ru_inblock as u32)
    })
}

pub(super) fn sleep(time: Nanos) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.0 as libc::c_long };
    // SAFETY: the timespec is valid; no remainder is asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
}
