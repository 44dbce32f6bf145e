//! What locks cost through the hooks while no other thread wants them: hooked and directly, in
//! turn, in one process.
//!
//! Started plainly, it starts itself again: without the library, with it and no I/O scheduler, and
//! with `rcp`, several times in turn. It prints medians. Aim: at most 10 ns more for each pair.

mod harness;

use core::ffi::{CStr, c_int, c_void};
use harness::{Pair, median, symbol};
use libc::{pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t};
use std::process::Command;

const BATCH: usize = 1000;
const BATCHES: usize = 1000;
const ROUNDS: usize = 5;
const AIM_NS: f64 = 10.0;

type Call<T> = unsafe extern "C" fn(*mut T) -> c_int;

struct Calls {
    mutex_lock: Call<pthread_mutex_t>,
    mutex_unlock: Call<pthread_mutex_t>,
    read_lock: Call<pthread_rwlock_t>,
    write_lock: Call<pthread_rwlock_t>,
    rwlock_unlock: Call<pthread_rwlock_t>,
    wait: Call<sem_t>,
    post: Call<sem_t>,
    signal: Call<pthread_cond_t>,
}

const HOOKED: Calls = Calls {
    mutex_lock: libc::pthread_mutex_lock,
    mutex_unlock: libc::pthread_mutex_unlock,
    read_lock: libc::pthread_rwlock_rdlock,
    write_lock: libc::pthread_rwlock_wrlock,
    rwlock_unlock: libc::pthread_rwlock_unlock,
    wait: libc::sem_wait,
    post: libc::sem_post,
    signal: libc::pthread_cond_signal,
};

/// # Safety
/// The C library's function of this name has this type.
unsafe fn function<T>(name: &CStr) -> Call<T> {
    // SAFETY: the caller's duty.
    unsafe { std::mem::transmute::<*mut c_void, Call<T>>(symbol(name)) }
}

fn direct() -> Calls {
    // SAFETY: the C library's functions of these names have these types.
    unsafe {
        Calls {
            mutex_lock: function(c"pthread_mutex_lock"),
            mutex_unlock: function(c"pthread_mutex_unlock"),
            read_lock: function(c"pthread_rwlock_rdlock"),
            write_lock: function(c"pthread_rwlock_wrlock"),
            rwlock_unlock: function(c"pthread_rwlock_unlock"),
            wait: function(c"sem_wait"),
            post: function(c"sem_post"),
            signal: function(c"pthread_cond_signal"),
        }
    }
}

const PAIRS: [&str; 5] = [
    "mutex lock, unlock",
    "rwlock rdlock, unlock",
    "rwlock wrlock, unlock",
    "sem_wait, sem_post",
    "cond_signal, no waiters",
];

/// Prints hooked and direct medians, a line for each pair of calls.
fn measure() {
    // The C library spares a process with one thread the atomic instructions.
    std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    let mut rwlock = libc::PTHREAD_RWLOCK_INITIALIZER;
    let mut condition = libc::PTHREAD_COND_INITIALIZER;
    // SAFETY: zero bytes are a valid `sem_t` to initialize.
    let mut semaphore: sem_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::sem_init(&raw mut semaphore, 0, 1) }, 0);
    let (mutex, rwlock) = (&raw mut mutex, &raw mut rwlock);
    let (semaphore, condition) = (&raw mut semaphore, &raw mut condition);
    let direct = direct();
    let compare = |work: &dyn Fn(&Calls) -> c_int| {
        harness::compare(&HOOKED, &direct, (BATCHES, BATCH), |calls, _| {
            assert_eq!(work(calls), 0);
        })
    };
    // SAFETY: here and below, the objects are initialized, live until the end of this function, and
    // no other code uses them. What is taken is released.
    let pairs = unsafe {
        [
            compare(&|calls| (calls.mutex_lock)(mutex) | (calls.mutex_unlock)(mutex)),
            compare(&|calls| (calls.read_lock)(rwlock) | (calls.rwlock_unlock)(rwlock)),
            compare(&|calls| (calls.write_lock)(rwlock) | (calls.rwlock_unlock)(rwlock)),
            compare(&|calls| (calls.wait)(semaphore) | (calls.post)(semaphore)),
            compare(&|calls| (calls.signal)(condition)),
        ]
    };
    for Pair { hooked, direct } in pairs {
        println!("{hooked} {direct}");
    }
}

/// What one run measured.
fn measured(command: &mut Command) -> Vec<Pair> {
    let output = command.env("HEADWORKS_BENCH_LOCKS", "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let pair = |line: &str| {
        let (hooked, direct) = line.split_once(' ').unwrap();
        Pair { hooked: hooked.parse().unwrap(), direct: direct.parse().unwrap() }
    };
    text.lines().map(pair).collect()
}

fn main() {
    if std::env::var_os("HEADWORKS_BENCH_LOCKS").is_some() {
        return measure();
    }
    let own = std::env::current_exe().unwrap();
    let mut arms = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        arms[0].push(measured(&mut Command::new(&own)));
        arms[1].push(measured(&mut harness::behind(None, &[]).command));
        arms[2].push(measured(&mut harness::behind(Some("rcp"), &[]).command));
    }
    println!("ns for each pair of calls; more than the C library's own call in the same process:");
    println!(
        "{:<24} {:>10} {:>10} {:>12} {:>10}",
        "calls", "C library", "no library", "no scheduler", "rcp"
    );
    for (at, name) in PAIRS.iter().enumerate() {
        let median_of = |rounds: &[Vec<Pair>], figure: &dyn Fn(&Pair) -> f64| {
            median(rounds.iter().map(|round| figure(&round[at])).collect())
        };
        let more = arms.each_ref().map(|arm| median_of(arm, &|pair| pair.hooked - pair.direct));
        let plain = median_of(&arms[0], &|pair| pair.direct);
        let word = if more[2] <= AIM_NS { "" } else { "  above the aim" };
        let [none, idle, rcp] = more;
        println!("{name:<24} {plain:>10.1} {none:>+10.1} {idle:>+12.1} {rcp:>+10.1}{word}");
    }
}
