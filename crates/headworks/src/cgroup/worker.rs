//! Carries out the plan, twice a second, and reports the result.
//!
//! A service's sidecar sees several servers, one after the other. Each starts fresh, with its own
//! process and perhaps its own group. So its threads go into new groups, and an earlier failure
//! does not count.

use super::groups::Groups;
use super::hierarchy::{Refusal, locate};
use super::plan::{Wanted, moves, wanted};
use super::{CgroupStatus, GroupStatus};
use headworks_policy::Nanos;
use headworks_region::{Mapping, clock};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

/// Time between two looks.
const UPDATE_INTERVAL: Nanos = Nanos::from_millis(500);

/// Failures in a row before it gives up: what fails may be about to end.
const FAILURES_MAX: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct Worker {
    instance: String,
    /// Process of the server, as the region has it; zero while there is none.
    server: u32,
    /// The server whose threads are governed, and its groups.
    of: Option<(u32, Groups)>,
    /// Groups of earlier servers that could not be removed yet: a thread may still be ending in
    /// them.
    left: Vec<Groups>,
    weights: BTreeMap<u32, u32>,
    looked: Nanos,
    failures: u32,
    status: CgroupStatus,
}

impl Worker {
    /// For an instance; nothing happens before the first tick.
    pub fn new(instance: &str) -> Worker {
        Worker {
            instance: instance.to_owned(),
            server: 0,
            of: None,
            left: Vec::new(),
            weights: BTreeMap::new(),
            looked: Nanos(0),
            failures: 0,
            status: CgroupStatus { state: "starting".to_owned(), ..CgroupStatus::default() },
        }
    }

    /// How it stands.
    pub fn status(&self) -> &CgroupStatus {
        &self.status
    }

    /// Does the work that is due. May be called at any rate.
    pub fn tick(&mut self, region: &Mapping) {
        let server = region.heartbeat.server.load(Ordering::Relaxed);
        if server != self.server {
            self.change_server(server);
        }
        let now = clock::now();
        if now.since(self.looked) < UPDATE_INTERVAL {
            return;
        }
        self.looked = now;
        self.left.retain_mut(|groups| !groups.remove());
        if server == 0 || self.failures > FAILURES_MAX {
            return;
        }
        let snapshot = region.snapshot(now);
        if snapshot.server != server {
            return;
        }
        if region.pooled() {
            self.give_up(&Refusal::new(
                "its threads serve many clients each, so none belongs to a class",
                None,
            ));
            return;
        }
        if self.of.is_none() {
            match locate(snapshot.server) {
                Ok(place) => {
                    let groups = Groups::new(place, &self.instance, snapshot.server);
                    self.of = Some((snapshot.server, groups));
                }
                Err(refusal) => return self.give_up(&refusal),
            }
        }
        let groups = wanted(&snapshot);
        match self.carry_out(&groups) {
            Ok(()) => self.failures = 0,
            Err((what, error)) => {
                self.failures += 1;
                if self.failures > FAILURES_MAX {
                    self.give_up(&Refusal::new(format!("cannot {what}: {error}"), mend_of(&error)));
                }
            }
        }
    }

    /// The server has left, another one has come, or both.
    fn change_server(&mut self, server: u32) {
        self.end();
        (self.server, self.failures, self.looked) = (server, 0, Nanos(0));
        self.status = match server {
            0 => CgroupStatus {
                state: "waiting".to_owned(),
                reason: Some("there is no server".to_owned()),
                ..CgroupStatus::default()
            },
            _ => CgroupStatus { state: "starting".to_owned(), ..CgroupStatus::default() },
        };
    }

    fn carry_out(&mut self, wanted: &[Wanted]) -> Result<(), (String, io::Error)> {
        let Some((server, groups)) = &mut self.of else { return Ok(()) };
        for group in wanted {
            let shown = groups.dir(group.class).display().to_string();
            if self.weights.get(&group.class) == Some(&group.cpu_weight) {
                continue;
            }
            if !self.weights.contains_key(&group.class) {
                groups
                    .make(group.class)
                    .map_err(|error| (format!("make the group {shown}"), error))?;
            }
            groups
                .weigh(group.class, group.cpu_weight)
                .map_err(|error| (format!("weigh the group {shown}"), error))?;
            self.weights.insert(group.class, group.cpu_weight);
        }
        let inside = groups.inside();
        for (thread, class) in moves(wanted, &inside) {
            if !belongs(thread, *server) {
                continue;
            }
            match groups.put(thread, class) {
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    let dir = groups.dir(class);
                    return Err((format!("put thread {thread} into {}", dir.display()), error));
                }
                Ok(()) => {}
            }
        }
        let inside = groups.inside();
        let group = |wanted: &Wanted| GroupStatus {
            class: wanted.name.clone(),
            directory: groups.dir(wanted.class).display().to_string(),
            cpu_weight: wanted.cpu_weight,
            // There are at most 16,384 users.
            threads: inside.values().filter(|class| **class == wanted.class).count() as u32,
        };
        self.status = CgroupStatus {
            state: "active".to_owned(),
            version: groups.version().number(),
            groups: wanted.iter().map(group).collect(),
            ..CgroupStatus::default()
        };
        Ok(())
    }

    fn give_up(&mut self, refusal: &Refusal) {
        crate::log::line(&format!("no CPU weights: {}; everything else goes on", refusal.reason));
        self.end();
        self.failures = FAILURES_MAX + 1;
        self.status = CgroupStatus::off(refusal);
    }

    /// Moves threads back and removes the groups.
    pub fn end(&mut self) {
        if let Some((_, mut groups)) = self.of.take()
            && !groups.remove()
        {
            self.left.push(groups);
        }
        self.weights.clear();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
        self.left.iter_mut().for_each(|groups| {
            groups.remove();
        });
    }
}

/// Whether a thread belongs to the server, or to a child of it that runs as the same user. The
/// numbers come from a region that the server can write, and this process may be root.
fn belongs(thread: u32, server: u32) -> bool {
    let proc = |rest: String| std::path::Path::new("/proc").join(rest);
    if proc(format!("{server}/task/{thread}")).exists() {
        return true;
    }
    let owner = |pid: u32| proc(pid.to_string()).metadata().map(|meta| meta.uid()).ok();
    parent(thread) == Some(server) && owner(thread).is_some() && owner(thread) == owner(server)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

fn mend_of(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            Some("sudo headworks run --cgroups …   # or give the service `Delegate=cpu`")
        }
        Some(libc::EBUSY | libc::EOPNOTSUPP | libc::EINVAL) => Some(
            "systemd-run --scope -p Delegate=cpu headworks run --cgroups …   # a group of the server's own",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Place;
    use crate::cgroup::hierarchy::Version;

    #[test]
    fn a_thread_belongs_to_its_process_and_a_child_to_its_parent() {
        let own = std::process::id();
        let (tell, told) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid has no preconditions.
            tell.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = wait.recv();
        });
        let number = told.recv().unwrap();
        assert!(belongs(number, own));
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        assert!(belongs(child.id(), own));
        // Neither init, nor a thread of ours if we are not the server.
        assert!(!belongs(1, own) && !belongs(number, child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(go);
        thread.join().unwrap();
    }

    /// A process that does nothing, as a server. Killed when dropped.
    struct Server(std::process::Child);

    impl Server {
        fn start(region: &Mapping) -> Server {
            let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            region.heartbeat.server.store(child.id(), Ordering::Relaxed);
            Server(child)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn what_failed_for_one_server_is_tried_anew_for_the_next() {
        let region = crate::views::region();
        let mut worker = Worker::new("next");
        worker.tick(&region);
        assert_eq!(worker.status().state, "starting");
        region.set_pooled(true);
        let first = Server::start(&region);
        worker.tick(&region);
        let off = worker.status().clone();
        assert_eq!(off.state, "off");
        drop(first);
        region.heartbeat.server.store(0, Ordering::Relaxed);
        worker.tick(&region);
        assert_eq!(worker.status().state, "waiting");
        region.set_pooled(false);
        let _second = Server::start(&region);
        worker.tick(&region);
        // It has groups, or its own failure, but not the first server's failure.
        let status = worker.status();
        assert!(status.state == "active" || status.state == "off", "{status:?}");
        assert_ne!(status.reason, off.reason);
    }

    #[test]
    fn groups_of_a_server_that_left_are_removed_also_if_that_takes_a_while() {
        let dir = std::env::temp_dir().join(format!("headworks-left-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let region = crate::views::region();
        let mut worker = Worker::new("left");
        let server = Server::start(&region);
        worker.change_server(server.0.id());
        let place = Place { version: Version::V1, dir: dir.clone() };
        let mut groups = Groups::new(place, "left", server.0.id());
        groups.make(3).unwrap();
        let own = groups.dir(3);
        // While something is in it, it cannot be removed.
        let thread = own.join("thread");
        std::fs::write(&thread, "").unwrap();
        worker.of = Some((server.0.id(), groups));
        drop(server);
        region.heartbeat.server.store(0, Ordering::Relaxed);
        worker.tick(&region);
        assert!(own.exists());
        std::fs::remove_file(&thread).unwrap();
        worker.looked = Nanos(0);
        worker.tick(&region);
        assert!(!own.exists() && worker.left.is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
