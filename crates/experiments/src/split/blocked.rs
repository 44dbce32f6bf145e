//! Where a database's processes wait in the kernel (RCP, Table 2, which has them by LatencyTOP).
//!
//! `wchan` of a process names the function of the kernel in which it sleeps. It is read every few
//! milliseconds: waits that are shorter are seen by chance only, and the longest one is known to
//! within that time.

use super::figure::Numbers;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(5);

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
    thread: JoinHandle<BTreeMap<String, Wait>>,
}

impl Sampler {
    /// Of the children of a process whose title has this text.
    pub(super) fn start(parent: u32, title: &'static str) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Sampler { stop, thread: spawn(move || sample(parent, title, &stopped)) }
    }

    /// The longest and the mean wait in each function, in milliseconds.
    pub(super) fn end(self) -> Numbers {
        self.stop.store(true, Relaxed);
        let Ok(waits) = self.thread.join() else { return Numbers::new() };
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

fn sample(parent: u32, title: &str, stop: &AtomicBool) -> BTreeMap<String, Wait> {
    let mut waits: BTreeMap<String, Wait> = BTreeMap::new();
    // What each one waits in, and since when.
    let mut now_in: BTreeMap<u32, (String, Instant)> = BTreeMap::new();
    let (mut processes, mut looked) = (Vec::new(), None);
    while !stop.load(Relaxed) {
        let now = Instant::now();
        if looked.is_none_or(|at| now - at >= LOOK_EVERY) {
            (processes, looked) = (children(parent, title), Some(now));
        }
        for process in &processes {
            let function = fs::read_to_string(format!("/proc/{process}/wchan")).unwrap_or_default();
            let same = now_in.get(process).is_some_and(|(before, _)| *before == function);
            if same {
                continue;
            }
            if let Some((before, since)) = now_in.insert(*process, (function, now))
                && !before.is_empty()
                && !IDLE.contains(&before.as_str())
            {
                let wait = waits.entry(before).or_default();
                let took = now - since;
                wait.count += 1;
                wait.total += took;
                wait.longest = wait.longest.max(took);
            }
        }
        sleep(EVERY);
    }
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
