//! Where a database's processes wait in the kernel (RCP, Table 2, which has them by LatencyTOP).
//!
//! `wchan` of a process names the function of the kernel in which it sleeps. It is read every few
//! milliseconds, with the number of times that the process went to sleep. Waits that are shorter
//! are seen by chance only, and the longest one is known to within twice that time.

use super::figure::Numbers;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(10);

/// New processes are looked for so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many functions are reported: those with the longest waits.
const SHOWN: usize = 8;

/// In these a process waits for its client, or for nothing.
const IDLE: [&str; 3] = ["0", "do_epoll_wait", "ep_poll"];

#[derive(Default)]
struct Wait {
    count: u64,
    total: Duration,
    longest: Duration,
}

/// Reads until it is ended.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BTreeMap<String, Wait>>>,
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

impl Sampler {
    /// Of the children of a process whose title has this text, from so long after now.
    pub(super) fn start(parent: u32, title: &'static str, after: Duration) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            sleep(after);
            sample(parent, title, &stopped)
        });
        Sampler { stop, thread: Some(thread) }
    }

    /// The longest and the mean wait in each function, in milliseconds.
    pub(super) fn end(mut self) -> Numbers {
        self.stop.store(true, Relaxed);
        let waits = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let mut waits: Vec<(String, Wait)> = waits.into_iter().collect();
        waits.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.longest));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let numbers = waits.into_iter().take(SHOWN).flat_map(|(name, wait)| {
            let mean = ms(wait.total) / wait.count.max(1) as f64;
            [(format!("{name}_max_ms"), ms(wait.longest)), (format!("{name}_mean_ms"), mean)]
        });
        numbers.collect()
    }
}

/// What a process waits in, how often it has gone to sleep, and since when.
type Sleep = (String, String, Instant);

fn sample(parent: u32, title: &str, stop: &AtomicBool) -> BTreeMap<String, Wait> {
    let mut waits: BTreeMap<String, Wait> = BTreeMap::new();
    let mut end = |(function, _, since): Sleep| {
        if !function.is_empty() && !IDLE.contains(&function.as_str()) {
            let (wait, took) = (waits.entry(function).or_default(), since.elapsed());
            wait.count += 1;
            wait.total += took;
            wait.longest = wait.longest.max(took);
        }
    };
    let mut sleeps: BTreeMap<u32, Sleep> = BTreeMap::new();
    let (mut processes, mut looked) = (Vec::new(), None);
    while !stop.load(Relaxed) {
        let now = Instant::now();
        if looked.is_none_or(|at| now - at >= LOOK_EVERY) {
            (processes, looked) = (children(parent, title), Some(now));
        }
        for process in &processes {
            let read = |file| fs::read_to_string(format!("/proc/{process}/{file}"));
            let (function, status) =
                (read("wchan").unwrap_or_default(), read("status").unwrap_or_default());
            let times = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
            let times = times.unwrap_or_default();
            let goes_on = |(before, slept, _): &Sleep| *before == function && slept == times;
            if !sleeps.get(process).is_some_and(goes_on)
                && let Some(over) = sleeps.insert(*process, (function, times.to_owned(), now))
            {
                end(over);
            }
        }
        sleep(EVERY);
    }
    sleeps.into_values().for_each(&mut end);
    waits
}

fn children(parent: u32, title: &str) -> Vec<u32> {
    let all = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let all = all.unwrap_or_default();
    let fits = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/cmdline"))
            .is_ok_and(|text| text.contains(title))
    };
    all.split_whitespace().filter_map(|word| word.parse().ok()).filter(fits).collect()
}
