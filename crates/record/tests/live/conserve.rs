//! Nothing is lost and nothing is counted twice, at very many wake-ups a second.

use crate::random::can_record;
use headworks_record::capture::{self, Options};
use headworks_record::trace::{How, Trace};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub struct Wakers {
    child: Child,
    pub tids: Vec<u32>,
}

/// An example beside this test's program.
pub fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let deps = own.parent().expect("a folder");
    deps.parent().expect("a folder").join("examples").join(name)
}

impl Wakers {
    pub fn start(words: &[&str]) -> Wakers {
        let mut child = Command::new(example("wakers"))
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let tids = line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        Wakers { child, tids }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shorter than it takes until threads that do the same are counted together.
fn record(pid: u32) -> Trace {
    let stop = AtomicBool::new(false);
    let options = Options::of(vec![pid], Duration::from_millis(900), 1.0, &stop);
    capture::record(&options, &mut |_| {}).expect("a recording")
}

#[test]
fn times_add_up_and_wakers_are_right_at_very_many_wake_ups() {
    if !can_record() {
        return;
    }
    let wakers = Wakers::start(&["8"]);
    let trace = record(wakers.pid());
    let unit: BTreeMap<u32, u32> =
        wakers.tids.iter().map(|tid| (*tid, trace.threads[tid].unit)).collect();
    let counted_ns = trace.head.counted_s * 1e9;
    let mut all_ns = 0.0;
    for unit in unit.values() {
        let unit = &trace.units[unit];
        let sum = (unit.run_ns + unit.queued_ns + unit.asleep_ns) as f64;
        assert!((sum / counted_ns - 1.0).abs() < 0.02, "{sum} of {counted_ns}: {unit:?}");
        all_ns += sum;
    }
    let part = all_ns / counted_ns / wakers.tids.len() as f64;
    assert!((part - 1.0).abs() < 0.01, "{part}");
    let (mut right, mut wrong, mut unknown) = (0, 0, 0);
    for pair in wakers.tids.chunks(2) {
        for (own, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            for wait in trace.waits.iter().filter(|wait| wait.wakee == unit[&own]) {
                match wait.how {
                    How::Futex if wait.waker == unit[&other] => right += wait.n,
                    How::None => unknown += wait.n,
                    _ => wrong += wait.n,
                }
            }
        }
    }
    let per_s = (right + wrong + unknown) as f64 / trace.head.counted_s;
    println!(
        "{per_s:.0} sleeps/s: times add up to {:.4} of the counted time; wakers: {right} right, \
         {wrong} wrong, {unknown} not known; lost: {:?}",
        part, trace.losses
    );
    assert!(right as f64 >= 0.99 * (right + wrong + unknown) as f64);
    assert!(trace.losses.iter().all(|loss| loss.what.starts_with("stacks")), "{:?}", trace.losses);
}
