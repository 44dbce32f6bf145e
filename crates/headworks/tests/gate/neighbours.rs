//! Programs that leave a server few of the processors, and what the server's own clock says of how
//! many statements ran at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// How long sessions ask.
pub const DURATION: Duration = Duration::from_secs(4);

/// Threads that want a processor all the time: four for each. They stop with the value.
pub struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbours {
    pub fn start() -> Neighbours {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..4 * cores).map(spin).collect();
        Neighbours { stop, threads }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// When statements began and ended, by the server's clock.
#[derive(Clone, Default)]
pub struct Ran(Arc<Mutex<Vec<(f64, f64)>>>);

impl Ran {
    /// Asks for [`DURATION`]. An answer has the time before the work and the time after it, with
    /// anything between them.
    pub fn ask(&self, mut ask: impl FnMut() -> String) {
        let until = Instant::now() + DURATION;
        let mut ran = Vec::new();
        while Instant::now() < until {
            let answer = ask();
            let mut words = answer.split(' ');
            let mut time = || words.next().unwrap().parse().unwrap();
            let (began, _, ended): (f64, f64, f64) = (time(), time(), time());
            ran.push((began, ended));
        }
        self.0.lock().unwrap().extend(ran);
    }

    /// How many statements ran, and of the moments at which one began, in the median, how many ran.
    pub fn count(&self) -> (usize, usize) {
        let ran = self.0.lock().unwrap();
        let beside = |&(began, _): &(f64, f64)| {
            ran.iter().filter(|other| other.0 <= began && began < other.1).count()
        };
        let mut beside: Vec<usize> = ran.iter().map(beside).collect();
        beside.sort_unstable();
        (ran.len(), beside.get(beside.len() / 2).copied().unwrap_or(0))
    }
}
