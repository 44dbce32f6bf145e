//! The hooks of locks, conditions and semaphores. Without the scheduler `rcp` they are the
//! functions of the C library, after a few loads.

use crate::real;
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::locks::{self, Blocker};
use headworks_hooks::served;
use headworks_region::thread::keeping_errno;
use libc::{
    c_int, c_long, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, sembuf,
    size_t, timespec,
};

/// Runs a wait for what lies at an address, between the notes of who waits for whom. The wait may
/// be cancelled: nothing here has a destructor.
#[cold]
#[inline(never)]
fn waiting<T>(on: Blocker, address: usize, owner: u32, wait: impl FnOnce() -> T) -> T {
    guarded_under_io(|| locks::blocks(on, address, owner));
    let result = wait();
    guarded_under_io(locks::unblocks);
    result
}

/// The thread that the C library notes beside a lock, at so many bytes from its begin.
///
/// # Safety
/// `lock` is an initialized lock of at least `offset` + 4 bytes.
unsafe fn owner<T>(lock: *const T, offset: usize) -> u32 {
    const { assert!(align_of::<T>() >= 4) };
    if cfg!(not(all(target_env = "gnu", target_pointer_width = "64"))) {
        return 0;
    }
    // SAFETY: the caller's duty. Others write the word at any time: read as an atomic.
    unsafe {
        let word = lock.cast::<core::sync::atomic::AtomicU32>().byte_add(offset);
        (*word).load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// `__owner` of a mutex (glibc, struct __pthread_mutex_s).
const MUTEX_OWNER: usize = 8;
/// `__cur_writer` of a lock (glibc, struct __pthread_rwlock_arch_t, 64 bits).
const RWLOCK_WRITER: usize = 24;

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: here and below, the arguments are the caller's.
    unsafe {
        if !locks::wanted() {
            return real::pthread_mutex_lock(mutex);
        }
        // Except for "busy", it answers what the lock itself would: held before by a thread that
        // died, not usable any more, taken again by its owner.
        match real::pthread_mutex_trylock(mutex) {
            libc::EBUSY => {}
            result => return result,
        }
        let owner = owner(mutex, MUTEX_OWNER);
        waiting(Blocker::Mutex, mutex as usize, owner, || real::pthread_mutex_lock(mutex))
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let lock = || real::pthread_mutex_timedlock(mutex, until);
        if !locks::wanted() {
            return lock();
        }
        match real::pthread_mutex_trylock(mutex) {
            libc::EBUSY => {}
            result => return result,
        }
        waiting(Blocker::Mutex, mutex as usize, owner(mutex, MUTEX_OWNER), lock)
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        if !locks::wanted() {
            return real::pthread_rwlock_rdlock(lock);
        }
        match real::pthread_rwlock_tryrdlock(lock) {
            libc::EBUSY => {}
            result => return result,
        }
        let owner = owner(lock, RWLOCK_WRITER);
        waiting(Blocker::RwLock, lock as usize, owner, || real::pthread_rwlock_rdlock(lock))
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        if !locks::wanted() {
            return real::pthread_rwlock_wrlock(lock);
        }
        match real::pthread_rwlock_trywrlock(lock) {
            libc::EBUSY => {}
            result => return result,
        }
        let owner = owner(lock, RWLOCK_WRITER);
        waiting(Blocker::RwLock, lock as usize, owner, || real::pthread_rwlock_wrlock(lock))
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    if locks::wanted() {
        guarded_under_io(|| locks::signals(condition as usize));
    }
    // SAFETY: the arguments are the caller's.
    unsafe { real::pthread_cond_signal(condition) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    if locks::wanted() {
        guarded_under_io(|| locks::signals(condition as usize));
    }
    // SAFETY: the arguments are the caller's.
    unsafe { real::pthread_cond_broadcast(condition) }
}

/// A wait on a condition, which the gate wants to hear of as well.
#[inline]
fn sleeping(condition: *mut pthread_cond_t, wait: impl FnOnce() -> c_int) -> c_int {
    let wait = || crate::waits::sleeping(wait);
    if locks::wanted() {
        return waiting(Blocker::Condition, condition as usize, 0, wait);
    }
    wait()
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(condition, || unsafe { real::pthread_cond_wait(condition, mutex) })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(condition, || unsafe { real::pthread_cond_timedwait(condition, mutex, until) })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(condition, || unsafe { real::pthread_cond_clockwait(condition, mutex, clock, until) })
}

unsafe extern "C-unwind" {
    safe fn pthread_testcancel();
}

/// A wait for a semaphore.
///
/// # Safety
/// `semaphore` is an initialized semaphore.
unsafe fn down(semaphore: *mut sem_t, wait: impl FnOnce() -> c_int) -> c_int {
    if !locks::wanted() {
        return wait();
    }
    // `sem_wait` ends a cancelled thread even if the semaphore is free, and `sem_trywait` does not.
    // No value here has a destructor.
    pthread_testcancel();
    // SAFETY: the caller's duty.
    if keeping_errno(|| unsafe { real::sem_trywait(semaphore) }) == 0 {
        return 0;
    }
    waiting(Blocker::Semaphore, semaphore as usize, 0, wait)
}

/// A wait for a semaphore until a time. If the time is invalid, the C library refuses the call even
/// if the semaphore is free.
///
/// # Safety
/// As [`down`], and as the C library's function for `until`.
unsafe fn down_until(
    semaphore: *mut sem_t,
    until: *const timespec,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's duty.
    unsafe {
        if until.is_null() || !(0..1_000_000_000).contains(&(*until).tv_nsec) {
            return wait();
        }
        down(semaphore, wait)
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { down(semaphore, || real::sem_wait(semaphore)) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(
    semaphore: *mut sem_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { down_until(semaphore, until, || real::sem_timedwait(semaphore, until)) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: core::ffi::c_uint,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let wait = || real::sem_clockwait(semaphore, clock, until);
        if clock > libc::CLOCK_MONOTONIC.unsigned_abs() {
            return wait();
        }
        down_until(semaphore, until, wait)
    }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_post(semaphore: *mut sem_t) -> c_int {
    // Async-signal-safe, as the function itself is: loads and stores only.
    if locks::wanted() {
        guarded_under_io(|| locks::signals(semaphore as usize));
    }
    // SAFETY: the arguments are the caller's.
    unsafe { real::sem_post(semaphore) }
}

/// Stands for a set of semaphores: its id is below all addresses.
fn set_address(set: c_int) -> usize {
    (set.unsigned_abs() as usize) << 4
}

/// Operations on a set of semaphores: whether one of them may wait, and whether one posts.
///
/// # Safety
/// `operations` points to `count` operations, or to what the kernel will refuse as well.
unsafe fn kinds(operations: *const sembuf, count: size_t) -> (bool, bool) {
    if operations.is_null() || count > 64 {
        return (false, false);
    }
    // SAFETY: the caller's duty.
    let all = unsafe { core::slice::from_raw_parts(operations, count) };
    let waits = |operation: &sembuf| {
        operation.sem_op <= 0 && c_int::from(operation.sem_flg) & libc::IPC_NOWAIT == 0
    };
    (all.iter().any(waits), all.iter().any(|operation| operation.sem_op > 0))
}

/// # Safety
/// As [`kinds`].
unsafe fn operate(
    set: c_int,
    operations: *const sembuf,
    count: size_t,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if !locks::wanted() {
        return real();
    }
    // SAFETY: the caller's duty.
    let (waits, posts) = unsafe { kinds(operations, count) };
    if posts {
        guarded_under_io(|| locks::signals(set_address(set)));
    }
    if waits { waiting(Blocker::Semaphore, set_address(set), 0, real) } else { real() }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn semop(set: c_int, operations: *mut sembuf, count: size_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { operate(set, operations, count, || real::semop(set, operations, count)) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn semtimedop(
    set: c_int,
    operations: *mut sembuf,
    count: size_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { operate(set, operations, count, || real::semtimedop(set, operations, count, time)) }
}

/// A program's own wait or wake-up by a futex: locks of InnoDB and of other languages' libraries.
/// Where the call is inlined it is not seen.
pub(crate) fn futex(address: usize, operation: c_int, real: impl FnOnce() -> c_long) -> c_long {
    if !locks::wanted() {
        return real();
    }
    match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => waiting(Blocker::Futex, address, 0, real),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            guarded_under_io(|| locks::signals(address));
            real()
        }
        _ => real(),
    }
}

/// What the program says of the calling thread (`headworks.h`): not zero if clients wait for what
/// it does from now on.
#[unsafe(no_mangle)]
pub extern "C" fn headworks_foreground(foreground: c_int) {
    served::says_foreground(foreground != 0);
}
