//! Whether processors are short where the store runs.
//!
//! A thread that could run waits for a processor, and so does the request that it carries. Then no
//! share holds, and the device is not the reason. The kernel counts both for each thread.

use std::fs;

/// Threads that are looked at: workers are among the first.
const THREADS: usize = 64;

/// Part of a second that threads together wait for processors before these are short, and how many
/// times as long as they run.
const WAITED: f64 = 0.5;
const TIMES: f64 = 2.0;

/// See the module.
#[derive(Debug, Default)]
pub struct Processors {
    before: (u64, u64),
    ran: f64,
    waited: f64,
}

impl Processors {
    /// So many seconds have passed since the last call. Says whether processors are short: by the
    /// last ten seconds or so.
    pub fn are_short(&mut self, seconds: f64) -> bool {
        let now = threads();
        let part = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e9 / seconds;
        let first = self.before == (0, 0);
        let (ran, waited) = (part(now.0, self.before.0), part(now.1, self.before.1));
        self.before = now;
        if !first && seconds > 0.0 {
            self.ran += 0.2 * (ran - self.ran);
            self.waited += 0.2 * (waited - self.waited);
        }
        self.waited > WAITED && self.waited > TIMES * self.ran
    }

    /// How many times as long as they run the store's threads wait for a processor.
    pub fn times(&self) -> f64 {
        self.waited / self.ran.max(1e-3)
    }
}

/// Nanoseconds that threads of this process ran, and waited for a processor.
fn threads() -> (u64, u64) {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return (0, 0) };
    let one = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    let all = tasks.flatten().take(THREADS).filter_map(one);
    all.fold((0, 0), |(ran, waited): (u64, u64), (r, w): (u64, u64)| (ran + r, waited + w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_seen_to() {
        let mut processors = Processors::default();
        assert!(!processors.are_short(1.0));
        let mut sum = 0_u64;
        for number in 0..3_000_000_u64 {
            sum = sum.wrapping_add(std::hint::black_box(number));
        }
        std::hint::black_box(sum);
        let (ran, _) = threads();
        assert!(ran > 0 || !std::path::Path::new("/proc/self/schedstat").exists());
        let starved = Processors { before: (1, 1), ran: 0.1, waited: 3.0 };
        assert!(starved.waited > WAITED && starved.times() > 20.0);
    }
}
