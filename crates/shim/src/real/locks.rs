//! The functions that wait for other threads: locks, conditions, semaphores. No system call does
//! their work, so a call that comes before the library's constructor looks its function up itself.

use super::Real;
use core::ffi::{CStr, c_uint, c_void};
use libc::{
    ENOSYS, c_int, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, sembuf,
    size_t, timespec,
};

// One that does not exist cannot have been called.
late_functions! {
    pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int, or ENOSYS;
    pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int, or ENOSYS;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int,
        or ENOSYS;
    pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int, or ENOSYS;
    pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int, or ENOSYS;
    pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int, or ENOSYS;
    pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int, or ENOSYS;
    pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int, or ENOSYS;
    pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int, or ENOSYS;
    pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int,
        or ENOSYS;
    pthread_cond_timedwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec
    ) -> c_int, or ENOSYS;
    pthread_cond_clockwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t,
        until: *const timespec
    ) -> c_int, or ENOSYS;
    sem_wait(semaphore: *mut sem_t) -> c_int, or ENOSYS;
    sem_trywait(semaphore: *mut sem_t) -> c_int, or ENOSYS;
    sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int, or ENOSYS;
    sem_clockwait(semaphore: *mut sem_t, clock: c_uint, until: *const timespec) -> c_int, or ENOSYS;
    sem_post(semaphore: *mut sem_t) -> c_int, or ENOSYS;
    semop(set: c_int, operations: *mut sembuf, count: size_t) -> c_int, or ENOSYS;
    semtimedop(
        set: c_int, operations: *mut sembuf, count: size_t, time: *const timespec
    ) -> c_int, or ENOSYS;
}
