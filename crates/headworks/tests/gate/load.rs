//! Users that do the same again and again, each on its own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};

use crate::common::User;

/// Running users.
pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<User>>,
}

impl Load {
    /// Each user repeats `work`, which gets the number of the user.
    pub fn start(
        users: impl IntoIterator<Item = User>,
        work: impl Fn(&mut User, usize) + Clone + Send + 'static,
    ) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Load { stop, counts: Vec::new(), threads: Vec::new() };
        for (number, mut user) in users.into_iter().enumerate() {
            let count = Arc::new(AtomicU64::new(0));
            load.counts.push(Arc::clone(&count));
            let (stop, work) = (Arc::clone(&load.stop), work.clone());
            load.threads.push(spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work(&mut user, number);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                user
            }));
        }
        load
    }

    /// How often each user has done its work so far.
    pub fn counts(&self) -> Vec<u64> {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Stops all users and returns them with their counts; panics if one of them has.
    pub fn stop(self) -> Vec<(User, u64)> {
        let counts = self.counts();
        self.stop.store(true, Ordering::Relaxed);
        let users = self
            .threads
            .into_iter()
            .map(|thread| thread.join().expect("a user of the load met an error"));
        users.zip(counts).collect()
    }
}
