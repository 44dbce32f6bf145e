//! The hooks around epoll sets.

use crate::start::client_can_come;
use crate::{processes, real};
use headworks_hooks::backend;
use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::eventloop::{self, Sleep};
use headworks_policy::Nanos;
use headworks_region::clock;
use headworks_region::thread::keeping_errno;
use libc::{c_int, epoll_event, sigset_t, timespec};

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: takes a number.
    let set = unsafe { real::epoll_create(size) };
    if set >= 0 {
        client_can_come();
        guarded_keeping_errno(Of::Process, || eventloop::created(set));
    }
    set
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: takes a number.
    let set = unsafe { real::epoll_create1(flags) };
    if set >= 0 {
        client_can_come();
        guarded_keeping_errno(Of::Process, || eventloop::created(set));
    }
    set
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller passes null or a readable event.
    let asked = unsafe { event.as_ref() }.map(|event| (event.events, event.u64));
    let mut registration = None;
    let whose = eventloop::client(fd).map_or(Of::Process, Of::Loop);
    // Also while we stand aside: what the kernel has of ours must not outlive us there.
    keeping_errno(|| guarded(whose, || registration = eventloop::prepare(set, op, fd, asked)));
    let mut ours = registration
        .and_then(|registration| registration.real)
        .map(|(events, u64)| epoll_event { events, u64 });
    let event = ours.as_mut().map_or(event, core::ptr::from_mut);
    // SAFETY: the arguments are the caller's, or an event of ours that lives as long as the call.
    let result = unsafe { real::epoll_ctl(set, op, fd, event) };
    if let Some(registration) = registration {
        keeping_errno(|| guarded(whose, || eventloop::settled(registration, result == 0)));
    } else if result == 0 && op == libc::EPOLL_CTL_ADD {
        backend::watches(set, fd);
    }
    result
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    if backend::has_client() {
        // SAFETY: the arguments are the caller's.
        return unsafe { processes::epoll_wait(set, events, count, timeout_ms) };
    }
    if eventloop::has_clients(set) && count > 0 && !events.is_null() {
        let timeout = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
        // SAFETY: the array is the caller's.
        return unsafe { wait(set, events, count, timeout, core::ptr::null()) };
    }
    eventloop::waits(set);
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::epoll_wait(set, events, count, timeout_ms) };
    if ready <= 0 || !eventloop::has_clients(set) {
        return ready;
    }
    let timeout = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
    // SAFETY: the array is the caller's.
    unsafe { overtaken(set, events, count, ready, timeout, core::ptr::null()) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    if eventloop::has_clients(set) && count > 0 && !events.is_null() {
        let timeout = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
        // SAFETY: the array and the mask are the caller's.
        return unsafe { wait(set, events, count, timeout, mask) };
    }
    eventloop::waits(set);
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::epoll_pwait(set, events, count, timeout_ms, mask) };
    if ready <= 0 || !eventloop::has_clients(set) {
        return ready;
    }
    let timeout = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
    // SAFETY: the array and the mask are the caller's.
    unsafe { overtaken(set, events, count, ready, timeout, mask) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller passes null or a readable time.
    let time = unsafe { timeout.as_ref() };
    let valid =
        time.is_none_or(|time| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    // Not negative, if valid.
    let nanos = |time: &timespec| {
        (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
    };
    let total = time.filter(|_| valid).map(|time| Nanos(nanos(time)));
    if eventloop::has_clients(set) && count > 0 && !events.is_null() && valid {
        // SAFETY: the array and the mask are the caller's.
        return unsafe { wait(set, events, count, total, mask) };
    }
    eventloop::waits(set);
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::epoll_pwait2(set, events, count, timeout, mask) };
    if ready <= 0 || !eventloop::has_clients(set) {
        return ready;
    }
    // SAFETY: the array and the mask are the caller's.
    unsafe { overtaken(set, events, count, ready, total, mask) }
}

/// While this thread waited, another one put the first client into the set. If its event is not to
/// be told, the wait begins again: that happens once in the life of a set.
///
/// # Safety
/// There is room for `count` events, of which the kernel has written `ready`; the mask is null or
/// readable.
unsafe fn overtaken(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    ready: c_int,
    timeout: Option<Nanos>,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's duty.
    match unsafe { pass_on(set, events, count, ready) } {
        // SAFETY: the caller's duty.
        0 => unsafe { wait(set, events, count, timeout, mask) },
        passed_on => passed_on,
    }
}

/// Leaves those of the kernel's events that the server is to hear of, and adds others; says how
/// many there are.
///
/// # Safety
/// There is room for `count` events, of which the kernel has written `ready`.
unsafe fn pass_on(set: c_int, events: *mut epoll_event, count: c_int, ready: c_int) -> c_int {
    // SAFETY: the caller's duty; what the kernel has not written is only written here. An event is
    // two numbers, valid whatever is there.
    let room = unsafe { core::slice::from_raw_parts_mut(events, count as usize) };
    let mut passed_on = None;
    keeping_errno(|| {
        guarded(Of::Process, || passed_on = Some(eventloop::after_wait(set, room, ready as usize)));
        if passed_on.is_none() {
            passed_on = Some(eventloop::pass_through(room, ready as usize));
        }
    });
    // At most `count`.
    passed_on.unwrap_or(0) as c_int
}

/// Waits until there is an event that the server is to hear of; in between, the thread may wake for
/// those that it is not.
///
/// # Safety
/// There is room for `count` events; the mask is null or readable.
unsafe fn wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: Option<Nanos>,
    mask: *const sigset_t,
) -> c_int {
    let mut begun: Option<Nanos> = None;
    loop {
        let mut sleep = Sleep::Freely;
        let mut now = None;
        keeping_errno(|| {
            guarded(Of::Process, || {
                let time = clock::now();
                sleep = eventloop::before_wait(set, time);
                now = Some(time);
            });
        });
        let left = match (timeout, begun) {
            (Some(timeout), Some(begun)) => {
                let now = now.unwrap_or_else(clock::now);
                Some(Nanos(timeout.0.saturating_sub(now.since(begun).0)))
            }
            (timeout, _) => timeout,
        };
        begun = begun.or(now);
        let (time, last) = match sleep {
            Sleep::None => (Some(Nanos(0)), left == Some(Nanos(0))),
            Sleep::AtMost(most) if left.is_none_or(|left| left > most) => (Some(most), false),
            Sleep::AtMost(_) | Sleep::Freely => (left, true),
        };
        // Rounded up, as a wait never returns early.
        let time_ms = time
            .map_or(-1, |time| c_int::try_from(time.0.div_ceil(1_000_000)).unwrap_or(c_int::MAX));
        let ready = if mask.is_null() {
            // SAFETY: the array is the caller's.
            unsafe { real::epoll_wait(set, events, count, time_ms) }
        } else {
            // SAFETY: the array and the mask are the caller's.
            unsafe { real::epoll_pwait(set, events, count, time_ms, mask) }
        };
        if ready < 0 {
            return ready;
        }
        // SAFETY: the caller gives room for `count` events, of which the kernel has written
        // `ready`.
        match unsafe { pass_on(set, events, count, ready) } {
            passed_on if passed_on > 0 => return passed_on,
            _ if last && (ready == 0 || timeout == Some(Nanos(0))) => return 0,
            _ => {}
        }
    }
}
