//! Groups as directories: made, weighed, filled, emptied, removed.

use super::hierarchy::{Place, Version};
use headworks_policy::cpu_weight::cpu_shares;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The groups of one instance, below the group of its server.
#[derive(Debug)]
pub(super) struct Groups {
    place: Place,
    /// Prefix of their names; the class's number follows.
    prefix: String,
    /// The controller was switched on for the groups below (version 2), and has to be switched off
    /// again.
    enabled: bool,
}

impl Groups {
    /// The groups of a server. Groups of servers that are gone, and whose daemon was killed with
    /// them, are removed.
    pub(super) fn new(place: Place, instance: &str, server: u32) -> Groups {
        remove_orphans(&place.dir);
        Groups { place, prefix: format!("headworks.{instance}.{server}."), enabled: false }
    }

    pub(super) fn version(&self) -> Version {
        self.place.version
    }

    /// Directory of a class's group.
    pub(super) fn dir(&self, class: u32) -> PathBuf {
        self.place.dir.join(format!("{}{class}", self.prefix))
    }

    /// File with the threads of a group.
    fn threads_file(&self) -> &'static str {
        match self.place.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }

    /// Makes the group of a class, unless it is there.
    pub(super) fn make(&mut self, class: u32) -> io::Result<()> {
        let dir = self.dir(class);
        match std::fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match self.place.version {
            // Where `cpuset` shares the hierarchy, a group without processors accepts no thread.
            Version::V1 => {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    if dir.join(file).exists() {
                        let above = std::fs::read_to_string(self.place.dir.join(file))?;
                        write(&dir.join(file), above.trim())?;
                    }
                }
                Ok(())
            }
            Version::V2 => {
                let kind = dir.join("cgroup.type");
                if std::fs::read_to_string(&kind)?.trim() != "threaded" {
                    write(&kind, "threaded")?;
                }
                self.enable()
            }
        }
    }

    /// Version 2: lets the groups below have weights.
    fn enable(&mut self) -> io::Result<()> {
        let control = self.place.dir.join("cgroup.subtree_control");
        let on = std::fs::read_to_string(&control)?;
        if !on.split_whitespace().any(|name| name == "cpu") {
            write(&control, "+cpu")?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Gives a group a weight, where one ordinary thread is 100.
    pub(super) fn weigh(&self, class: u32, weight: u32) -> io::Result<()> {
        let dir = self.dir(class);
        match self.place.version {
            Version::V1 => write(&dir.join("cpu.shares"), &cpu_shares(weight).to_string()),
            Version::V2 => write(&dir.join("cpu.weight"), &weight.to_string()),
        }
    }

    /// Puts a thread into a group.
    pub(super) fn put(&self, thread: u32, class: u32) -> io::Result<()> {
        write(&self.dir(class).join(self.threads_file()), &thread.to_string())
    }

    /// Which thread is in which group.
    pub(super) fn inside(&self) -> BTreeMap<u32, u32> {
        let threads = |class: u32| {
            let text = std::fs::read_to_string(self.dir(class).join(self.threads_file()));
            let threads = text.unwrap_or_default();
            threads.lines().filter_map(|line| line.trim().parse().ok()).collect::<Vec<u32>>()
        };
        let classes = self.existing();
        classes
            .into_iter()
            .flat_map(|class| threads(class).into_iter().map(move |t| (t, class)))
            .collect()
    }

    /// Classes that have a group, also those that an earlier process made.
    pub(super) fn existing(&self) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(&self.place.dir) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| {
                entry.file_name().to_str()?.strip_prefix(&self.prefix)?.parse().ok()
            })
            .collect()
    }

    /// Moves every thread back to the server's group, and removes the groups. Returns `false` if
    /// some could not be removed; they do no harm.
    pub(super) fn remove(&mut self) -> bool {
        let back = self.place.dir.join(self.threads_file());
        for thread in self.inside().into_keys() {
            // It may have ended.
            let _ = write(&back, &thread.to_string());
        }
        for class in self.existing() {
            let _ = std::fs::remove_dir(self.dir(class));
        }
        let all = self.existing().is_empty();
        if self.enabled && all {
            let _ = write(&self.place.dir.join("cgroup.subtree_control"), "-cpu");
            self.enabled = false;
        }
        all
    }
}

/// Removes our groups whose server is gone. A group with a thread in it cannot be removed.
fn remove_orphans(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let server = name.to_str().and_then(server_of);
        if server.is_some_and(|server| !Path::new("/proc").join(server.to_string()).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Process of the server that a group was made for: `headworks.INSTANCE.PROCESS.CLASS`.
fn server_of(name: &str) -> Option<u32> {
    let (rest, class) = name.strip_prefix("headworks.")?.rsplit_once('.')?;
    class.parse::<u32>().ok()?;
    rest.rsplit_once('.')?.1.parse().ok()
}

/// Writes by a single `write`, as these files require. The files exist already.
fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::locate;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    fn scratch(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("headworks-groups-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// A directory with the files of a group, which the kernel would make.
    fn group(dir: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(dir).unwrap();
        for (file, text) in files {
            std::fs::write(dir.join(file), text).unwrap();
        }
    }

    #[test]
    fn version_2_makes_threaded_groups_and_enables_the_controller_once() {
        let dir = scratch("v2");
        group(&dir, &[("cgroup.subtree_control", "")]);
        let mut groups = Groups::new(Place { version: Version::V2, dir: dir.clone() }, "db", 42);
        let own = groups.dir(3);
        assert_eq!(own, dir.join("headworks.db.42.3"));
        group(&own, &[("cgroup.type", "domain\n"), ("cgroup.threads", ""), ("cpu.weight", "100")]);
        groups.make(3).unwrap();
        groups.weigh(3, 1234).unwrap();
        groups.put(77, 3).unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(own.join("cgroup.type")), "threaded");
        assert_eq!(read(own.join("cpu.weight")), "1234");
        assert_eq!(read(dir.join("cgroup.subtree_control")), "+cpu");
        assert_eq!(groups.inside(), BTreeMap::from([(77, 3)]));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn groups_of_other_instances_are_not_ours() {
        let dir = scratch("names");
        let own = std::process::id();
        // No process has such a large number.
        let gone = u32::MAX;
        let name = |instance: &str, server: u32, class: u32| {
            format!("headworks.{instance}.{server}.{class}")
        };
        let names = [
            name("a", own, 0),
            name("a", own, 17),
            name("a", 1, 2),
            name("a.1", own, 3),
            name("a", gone, 4),
            "headworks.notes".to_owned(),
        ];
        for name in &names {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        let groups = Groups::new(Place { version: Version::V1, dir: dir.clone() }, "a", own);
        let mut existing = groups.existing();
        existing.sort_unstable();
        assert_eq!(existing, [0, 17]);
        let there = names.map(|name| dir.join(name).exists());
        assert_eq!(
            there,
            [true, true, true, true, false, true],
            "only that of a server that is gone"
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_group_that_cannot_be_made_is_an_error_and_nothing_else() {
        let dir = Path::new("/nowhere/at/all").to_owned();
        let mut groups = Groups::new(Place { version: Version::V1, dir }, "db", 42);
        assert_eq!(groups.make(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(groups.inside().is_empty());
        assert!(groups.remove());
    }

    /// A thread that works, and how much processor time it has had.
    struct Busy {
        thread: u32,
        time_ns: std::sync::Arc<std::sync::atomic::AtomicU64>,
        handle: std::thread::JoinHandle<()>,
    }

    fn busy(stop: &std::sync::Arc<AtomicBool>) -> Busy {
        let time_ns = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (tell, told) = mpsc::channel();
        let (stop, time) = (stop.clone(), time_ns.clone());
        let handle = std::thread::spawn(move || {
            // SAFETY: the set is cleared before it is used, and belongs to this thread.
            unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut only);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
                tell.send(libc::gettid() as u32).unwrap();
            }
            while !stop.load(Ordering::Relaxed) {
                let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: a valid timespec, and a clock that every thread has.
                unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
                time.store(
                    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
                    Ordering::Relaxed,
                );
            }
        });
        Busy { thread: told.recv().unwrap(), time_ns, handle }
    }

    #[test]
    fn threads_in_real_groups_get_time_by_weight() {
        let place = match locate(std::process::id()) {
            Ok(place) => place,
            Err(refusal) => {
                println!("skipped: {refusal}");
                return;
            }
        };
        let mut groups = Groups::new(place, "weights", std::process::id());
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let both = [busy(&stop), busy(&stop)];
        for (class, weight) in [(0, 900), (1, 100)] {
            groups.make(class).unwrap();
            groups.weigh(class, weight).unwrap();
            groups.put(both[class as usize].thread, class).unwrap();
        }
        assert_eq!(groups.inside(), BTreeMap::from([(both[0].thread, 0), (both[1].thread, 1)]));
        let times = || both.each_ref().map(|one| one.time_ns.load(Ordering::Relaxed) as f64);
        let before = times();
        std::thread::sleep(std::time::Duration::from_secs(3));
        let after = times();
        groups.remove();
        let left = groups.existing();
        stop.store(true, Ordering::Relaxed);
        both.into_iter().for_each(|one| one.handle.join().unwrap());
        let ratio = (after[0] - before[0]) / (after[1] - before[1]);
        println!("9 : 1 became {ratio:.2}");
        // Others want the processor too; without the weights it would be about 1.
        assert!((4.0..20.0).contains(&ratio), "{ratio}");
        assert!(left.is_empty(), "{left:?}");
    }

    /// Version 2 beside a CPU controller of version 1: threads can be placed there, without
    /// weights.
    #[test]
    fn threads_go_into_real_threaded_groups_and_back() {
        let dir = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let Some(dir) = dir.into_iter().find(|dir| dir.join("cgroup.threads").exists()) else {
            println!("skipped: no hierarchy of version 2 at its usual places");
            return;
        };
        let place = Place { version: Version::V2, dir: dir.to_owned() };
        let mut groups = Groups::new(place, "threaded", std::process::id());
        match groups.make(0) {
            // The controller belongs to the other version.
            Err(error) if groups.dir(0).exists() => println!("no weights here: {error}"),
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
            Ok(()) => {}
        }
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let one = busy(&stop);
        let put = groups.put(one.thread, 0);
        let inside = groups.inside();
        groups.remove();
        let left = groups.existing();
        stop.store(true, Ordering::Relaxed);
        one.handle.join().unwrap();
        put.unwrap();
        assert_eq!(inside, BTreeMap::from([(one.thread, 0)]));
        assert!(left.is_empty(), "{left:?}");
    }
}
