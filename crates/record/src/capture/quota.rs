//! How much of the processors control groups leave to recorded processes.
//!
//! A group that has used up its time is stopped until its period ends. Its threads look ready
//! meanwhile, and processors may be idle: no count of the machine shows it.

use crate::trace::Quota;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bounds that were seen: processors, and what was counted when they were first and last seen.
#[derive(Default)]
pub struct Quotas {
    known: BTreeMap<PathBuf, (f64, Stopped, Stopped)>,
    /// Processes without one.
    unbounded: usize,
}

/// Periods, those in which the group was stopped, and for how long, from `cpu.stat`.
#[derive(Clone, Copy, Default)]
struct Stopped {
    periods: u64,
    stopped: u64,
    ns: u64,
}

impl Quotas {
    /// Looks at the groups of these processes.
    pub fn look(&mut self, pids: &[u32]) {
        let mounts = mounts();
        self.unbounded = 0;
        let mut groups: BTreeMap<String, bool> = BTreeMap::new();
        for &pid in pids {
            let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
            let bounded = *groups.entry(text).or_insert_with_key(|text| self.take(text, &mounts));
            self.unbounded += usize::from(!bounded);
        }
    }

    /// Notes the bound of a process whose `/proc/PID/cgroup` this is.
    fn take(&mut self, text: &str, mounts: &[Mount]) -> bool {
        let bounds = mounts.iter().filter_map(|mount| mount.folder(text));
        let bounds = bounds.flat_map(|(folder, top)| bounds_of(&folder, &top));
        let Some((folder, processors)) = bounds.min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return false;
        };
        let now = stopped(&folder);
        self.known.entry(folder).or_insert((processors, now, now)).2 = now;
        true
    }

    /// What bounded all of the recorded processes, if anything did.
    pub fn bound(&self) -> Option<Quota> {
        if self.unbounded > 0 || self.known.is_empty() {
            return None;
        }
        let names: Vec<String> = self.known.keys().map(|path| path.display().to_string()).collect();
        let mut quota = Quota { group: names.join(", "), ..Quota::default() };
        for (processors, first, last) in self.known.values() {
            quota.processors += processors;
            quota.periods += last.periods.saturating_sub(first.periods);
            quota.stopped += last.stopped.saturating_sub(first.stopped);
            quota.stopped_s += last.ns.saturating_sub(first.ns) as f64 / 1e9;
        }
        Some(quota)
    }

    /// A bound that only some of the processes have, in words.
    pub fn of_some(&self) -> Option<String> {
        let (folder, (processors, ..)) = self.known.first_key_value()?;
        (self.unbounded > 0).then(|| {
            format!(
                "in the diagram, a quota of {processors:.2} processors that only some of the \
                 processes have ({})",
                folder.display()
            )
        })
    }
}

/// A hierarchy that has processors.
struct Mount {
    /// The group that is shown there, and where.
    root: String,
    at: PathBuf,
    second: bool,
}

impl Mount {
    /// The folder of a process's group, and of the topmost group.
    fn folder(&self, text: &str) -> Option<(PathBuf, PathBuf)> {
        let own = text.lines().find_map(|line| {
            let mut words = line.splitn(3, ':').skip(1);
            let (controllers, path) = (words.next()?, words.next()?);
            let first = controllers.split(',').any(|one| one == "cpu");
            (if self.second { controllers.is_empty() } else { first }).then_some(path)
        })?;
        let below = own.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(own);
        Some((self.at.join(below.trim_start_matches('/')), self.at.clone()))
    }
}

fn mounts() -> Vec<Mount> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let one = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, at) = (left.next()?.to_owned(), PathBuf::from(left.next()?));
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.next_back()?);
        let first = kind == "cgroup" && options.split(',').any(|option| option == "cpu");
        (first || kind == "cgroup2").then_some(Mount { root, at, second: kind == "cgroup2" })
    };
    text.lines().filter_map(one).collect()
}

/// Bounds of a group and of those above it.
fn bounds_of(folder: &Path, top: &Path) -> Vec<(PathBuf, f64)> {
    let all = folder.ancestors().take_while(|at| at.starts_with(top));
    all.filter_map(|at| Some((at.to_owned(), processors(at)?))).collect()
}

/// Processors that a group may use. A processor's time is divided into periods.
fn processors(folder: &Path) -> Option<f64> {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    let [quota, period] = [quota, period].map(|text| text.trim().parse::<f64>().ok());
    let processors = quota.filter(|quota| *quota > 0.0)? / period?;
    processors.is_finite().then_some(processors)
}

fn stopped(folder: &Path) -> Stopped {
    let text = std::fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default();
    let of = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name).and_then(|(_, n)| n.trim().parse::<u64>().ok())
    };
    Stopped {
        periods: of("nr_periods").unwrap_or(0),
        stopped: of("nr_throttled").unwrap_or(0),
        ns: of("throttled_time").or(of("throttled_usec").map(|us| us * 1_000)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tightest of a group and those above it counts, in both versions.
    #[test]
    fn a_bound_of_a_group_above_counts() {
        let top = std::env::temp_dir().join(format!("headworks quota {}", std::process::id()));
        let own = top.join("a/b");
        std::fs::create_dir_all(&own).expect("folders");
        let put = |at: &Path, file: &str, text: &str| {
            std::fs::write(at.join(file), text).expect("a file");
        };
        put(&own, "cpu.max", "max 100000\n");
        put(&top.join("a"), "cpu.max", "30000 100000\n");
        put(&top.join("a"), "cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_usec 5000\n");
        let mount = |second| Mount { root: "/".to_owned(), at: top.clone(), second };
        let mut quotas = Quotas::default();
        assert!(quotas.take("0::/a/b\n", &[mount(true)]));
        put(&top.join("a"), "cpu.stat", "nr_periods 30\nnr_throttled 14\nthrottled_usec 105000\n");
        assert!(quotas.take("0::/a/b\n", &[mount(true)]));
        let bound = quotas.bound().expect("a bound");
        assert_eq!((bound.processors, bound.periods, bound.stopped), (0.3, 20, 10));
        assert!((bound.stopped_s - 0.1).abs() < 1e-9, "{bound:?}");
        std::fs::remove_file(top.join("a/cpu.max")).expect("a file");
        put(&top, "cpu.cfs_quota_us", "150000\n");
        put(&top, "cpu.cfs_period_us", "100000\n");
        std::fs::remove_file(own.join("cpu.max")).expect("a file");
        put(&own, "cpu.cfs_quota_us", "-1\n");
        put(&own, "cpu.cfs_period_us", "100000\n");
        let text = "4:memory:/\n3:cpu,cpuacct:/docker/a/b\n";
        let root = Mount { root: "/docker".to_owned(), at: top.clone(), second: false };
        let mut quotas = Quotas::default();
        assert!(quotas.take(text, &[root]));
        assert_eq!(quotas.bound().map(|bound| bound.processors), Some(1.5));
        std::fs::remove_file(top.join("cpu.cfs_quota_us")).expect("a file");
        assert!(!Quotas::default().take("0::/\n", &[mount(true)]));
        std::fs::remove_dir_all(&top).expect("folders");
    }
}
