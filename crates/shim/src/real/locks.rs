//! The functions that wait for others. No system call does their work, so a call that comes before
//! the library's constructor looks its function up itself.

use super::Real;
use core::ffi::c_uint;
use libc::{
    c_int, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, sembuf, size_t,
    timespec,
};

/// Declares callers of real functions. One that does not exist cannot have been called.
macro_rules! locks {
    ($($real:ident $symbol:literal $name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            static $real: Real = Real::new($symbol);

            /// The real function.
            ///
            /// # Safety
            /// As the function of the C library.
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> c_int {
                let found = $real.get().or_else(|| {
                    $real.resolve();
                    $real.get()
                });
                match found {
                    // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
                    Some(function) => unsafe {
                        core::mem::transmute::<
                            *mut core::ffi::c_void,
                            unsafe extern "C-unwind" fn($($type),*) -> c_int,
                        >(function)($($arg),*)
                    },
                    None => libc::ENOSYS,
                }
            }
        )*

        /// Looks all of them up.
        pub(super) fn resolve_all() {
            for real in [$(&$real),*] {
                real.resolve();
            }
        }
    };
}

locks! {
    MUTEX_LOCK c"pthread_mutex_lock" pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    MUTEX_TRYLOCK c"pthread_mutex_trylock" pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    MUTEX_TIMEDLOCK c"pthread_mutex_timedlock"
        pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec);
    RWLOCK_RDLOCK c"pthread_rwlock_rdlock" pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t);
    RWLOCK_TRYRDLOCK c"pthread_rwlock_tryrdlock"
        pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t);
    RWLOCK_WRLOCK c"pthread_rwlock_wrlock" pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t);
    RWLOCK_TRYWRLOCK c"pthread_rwlock_trywrlock"
        pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t);
    COND_SIGNAL c"pthread_cond_signal" pthread_cond_signal(condition: *mut pthread_cond_t);
    COND_BROADCAST c"pthread_cond_broadcast"
        pthread_cond_broadcast(condition: *mut pthread_cond_t);
    COND_WAIT c"pthread_cond_wait"
        pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t);
    COND_TIMEDWAIT c"pthread_cond_timedwait" pthread_cond_timedwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec);
    COND_CLOCKWAIT c"pthread_cond_clockwait" pthread_cond_clockwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t,
        until: *const timespec);
    SEM_WAIT c"sem_wait" sem_wait(semaphore: *mut sem_t);
    SEM_TRYWAIT c"sem_trywait" sem_trywait(semaphore: *mut sem_t);
    SEM_TIMEDWAIT c"sem_timedwait" sem_timedwait(semaphore: *mut sem_t, until: *const timespec);
    SEM_CLOCKWAIT c"sem_clockwait"
        sem_clockwait(semaphore: *mut sem_t, clock: c_uint, until: *const timespec);
    SEM_POST c"sem_post" sem_post(semaphore: *mut sem_t);
    SEMOP c"semop" semop(set: c_int, operations: *mut sembuf, count: size_t);
    SEMTIMEDOP c"semtimedop"
        semtimedop(set: c_int, operations: *mut sembuf, count: size_t, time: *const timespec);
}
