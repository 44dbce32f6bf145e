//! Threads that wake one another as often as they can, in pairs: what conservation is tested on.
//!
//!     wakers PAIRS [SLEEPERS]
//!
//! Sleepers are threads that do nothing. Its memory has a shared part that may be executed and
//! whose file is `/dev/zero (deleted)`: that file is not to be read. It prints
//! `ready TID TID …`: each two that follow are a pair, and wake one another alone.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

fn wait(word: &AtomicU32, value: u32) {
    const PRIVATE: i32 = 128;
    // SAFETY: the word lives as long as the program, and the kernel only compares it.
    unsafe {
        let at = std::ptr::from_ref(word);
        let (forever, other) = (std::ptr::null::<libc::timespec>(), std::ptr::null::<u32>());
        let call = libc::FUTEX_WAIT_BITSET | PRIVATE;
        libc::syscall(libc::SYS_futex, at, call, value, forever, other, u32::MAX)
    };
}

fn wake(word: &AtomicU32) {
    const PRIVATE: i32 = 128;
    // SAFETY: as above.
    unsafe {
        let at = std::ptr::from_ref(word);
        libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAKE | PRIVATE, 1)
    };
}

/// Waits for its own turn, and gives it to the other.
#[inline(never)]
fn turns(words: &'static [AtomicU32; 2], own: usize) {
    loop {
        while words[own].load(Ordering::Acquire) == 0 {
            wait(&words[own], 0);
        }
        words[own].store(0, Ordering::Release);
        words[1 - own].store(1, Ordering::Release);
        wake(&words[1 - own]);
    }
}

/// PostgreSQL has one of 17 GB.
fn map_zero() {
    // SAFETY: a new mapping, which nothing uses.
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_EXEC;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = libc::mmap(std::ptr::null_mut(), 16 << 30, rights, kind, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
    }
}

fn main() {
    map_zero();
    let sleepers: usize = std::env::args().nth(2).and_then(|word| word.parse().ok()).unwrap_or(0);
    for _ in 0..sleepers {
        let small = std::thread::Builder::new().stack_size(64 << 10);
        small.spawn(std::thread::park).expect("a thread");
    }
    let pairs: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(8);
    let (tell, told) = mpsc::channel();
    let mut line = "ready".to_owned();
    let mut all = Vec::new();
    for _ in 0..pairs {
        let words: &'static [AtomicU32; 2] = Box::leak(Box::default());
        all.push(words);
        for own in 0..2 {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // SAFETY: it has no preconditions.
                tell.send(unsafe { libc::syscall(libc::SYS_gettid) }).expect("main lives");
                turns(words, own);
            });
            line += &format!(" {}", told.recv().expect("a thread"));
        }
    }
    for words in all {
        words[0].store(1, Ordering::Release);
        wake(&words[0]);
    }
    println!("{line}");
    std::io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}
