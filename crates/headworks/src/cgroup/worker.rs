//! Carries out the plan, twice a second, and says how it went.

use super::groups::Groups;
use super::hierarchy::{Refusal, locate};
use super::plan::{Wanted, moves, wanted};
use super::{CgroupStatus, GroupStatus};
use headworks_policy::Nanos;
use headworks_region::{Mapping, clock};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Time between two looks.
const EVERY: Nanos = Nanos::from_millis(500);

/// Looks that may fail one after the other before it gives up: what fails may be on its way out.
const FAILURES_MAX: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct Worker {
    instance: String,
    /// The server whose threads are placed, and its groups.
    of: Option<(u32, Groups)>,
    weights: BTreeMap<u32, u32>,
    looked: Nanos,
    failures: u32,
    status: CgroupStatus,
}

impl Worker {
    /// For an instance; nothing happens before the first look.
    pub fn new(instance: &str) -> Worker {
        Worker {
            instance: instance.to_owned(),
            of: None,
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

    /// Looks, as often as one likes.
    pub fn tick(&mut self, region: &Mapping) {
        let now = clock::now();
        if now.since(self.looked) < EVERY || self.failures > FAILURES_MAX {
            return;
        }
        self.looked = now;
        let snapshot = region.snapshot(now);
        if self.of.as_ref().is_some_and(|(server, _)| *server != snapshot.server) {
            self.end();
        }
        if snapshot.server == 0 {
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

    /// Puts threads back and removes the groups.
    pub fn end(&mut self) {
        if let Some((_, mut groups)) = self.of.take() {
            groups.remove();
        }
        self.weights.clear();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a thread is one of the server's, or its process a child of the server that runs as the same user. Numbers of
/// threads come out of a region that the server can write, and whoever moves threads may be root.
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
}
