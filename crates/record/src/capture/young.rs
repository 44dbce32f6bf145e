//! Processes that were just started: they have not loaded their libraries yet, listen on no port,
//! and have few of their threads. They are looked at again.

use super::procfs;
use std::collections::BTreeMap;
use std::time::Duration;

/// From this age on, a process is not looked at again.
const GROWN_UP: Duration = Duration::from_secs(60);
/// The second look comes no sooner than this after the start.
const SOON: Duration = Duration::from_millis(250);

/// Ages at which processes were looked at.
#[derive(Debug, Default)]
pub struct Young(BTreeMap<u32, Look>);

/// Ages of a process: at the last look, and when it became the program that it is.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    last: Duration,
    begun: Duration,
}

impl Young {
    /// Whether to look at a process now: at the first time, and as long as it is young whenever it
    /// is twice as old as at the last one.
    pub fn due(&mut self, pid: u32, started: u64) -> bool {
        let never_again = |look: &Look| (look.last - look.begun) * 2 >= GROWN_UP;
        if self.0.get(&pid).is_some_and(never_again) {
            return false;
        }
        self.due_at(pid, procfs::age(started).unwrap_or(GROWN_UP))
    }

    /// It has become another program, and is young again.
    pub fn restart(&mut self, pid: u32, started: u64) {
        self.restart_at(pid, procfs::age(started).unwrap_or(GROWN_UP));
    }

    fn restart_at(&mut self, pid: u32, age: Duration) {
        self.0.insert(pid, Look { last: age, begun: age });
    }

    fn due_at(&mut self, pid: u32, age: Duration) -> bool {
        let again = |look: &Look| {
            let (own, last) = (age.saturating_sub(look.begun), look.last - look.begun);
            own < GROWN_UP && own >= (last * 2).max(SOON)
        };
        let due = self.0.get(&pid).is_none_or(again);
        if due {
            self.0.entry(pid).or_default().last = age;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_young_process_is_looked_at_again_and_one_that_has_run_for_long_is_not() {
        let mut young = Young::default();
        let ages =
            (0..200_000).step_by(10).filter(|ms| young.due_at(1, Duration::from_millis(*ms)));
        let ages: Vec<u64> = ages.collect();
        assert_eq!(ages, [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000]);
        assert!(young.due_at(2, GROWN_UP) && !young.due_at(2, GROWN_UP * 3));
        // It becomes another program.
        young.restart_at(2, GROWN_UP * 3);
        assert!(!young.due_at(2, GROWN_UP * 3) && young.due_at(2, GROWN_UP * 3 + SOON));
    }

    #[test]
    fn this_process_has_an_age() {
        let age = procfs::started(std::process::id()).and_then(procfs::age).expect("it runs");
        assert!(age < Duration::from_secs(36_000), "{age:?}");
    }
}
