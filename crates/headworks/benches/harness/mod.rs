//! What the measurements of hooks share: functions past every preloaded library, and a comparison
//! that whatever disturbs the machine disturbs on both sides.

use core::ffi::{CStr, c_void};
use std::process::Command;
use std::time::Instant;

/// A function of the C library itself, past every preloaded one.
pub fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the names are C strings; the C library is loaded already.
    let found = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// Medians of the times of a call, hooked and direct, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub hooked: f64,
    pub direct: f64,
}

pub fn median(mut list: Vec<f64>) -> f64 {
    list.sort_by(f64::total_cmp);
    list[list.len() / 2]
}

/// Makes the calls hooked and direct in turn, in so many batches of so many calls.
pub fn compare<C>(
    hooked: &C,
    direct: &C,
    (batches, calls): (usize, usize),
    mut work: impl FnMut(&C, usize),
) -> Pair {
    let both = [hooked, direct];
    let mut times = [Vec::new(), Vec::new()];
    for batch in 0..batches {
        let mut pair = [0.0; 2];
        for turn in 0..2 {
            // Each goes first as often as the other.
            let way = (turn + batch) % 2;
            let begun = Instant::now();
            for at in 0..calls {
                work(both[way], batch * calls + at);
            }
            pair[way] = begun.elapsed().as_nanos() as f64 / calls as f64;
        }
        // The first ones find out what is governed, and fill the caches.
        if batch >= batches / 10 {
            times[0].push(pair[0]);
            times[1].push(pair[1]);
        }
    }
    let [hooked, direct] = times.map(median);
    Pair { hooked, direct }
}

/// This program again, behind the library: with this I/O scheduler, or without any.
pub fn behind(scheduler: Option<&str>, arguments: &[&str]) -> Again {
    let own = std::env::current_exe().unwrap();
    let scratch = std::env::temp_dir().join(format!("headworks-bench-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_headworks"));
    command.args(["run", "--name", "bench", "--profile", "generic"]);
    if let Some(scheduler) = scheduler {
        command.args(["--io", scheduler]);
    }
    command.arg("--").arg(own).args(arguments).env("HEADWORKS_RUN_DIR", &scratch);
    Again { command, scratch }
}

/// See [`behind`].
#[derive(Debug)]
pub struct Again {
    pub command: Command,
    scratch: std::path::PathBuf,
}

impl Drop for Again {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}
