//! I/O of an instance that its scheduler cannot hold: rings of `io_uring`, mappings, and what no
//! hook sees.

use super::Instance;
use super::unseen::{self, Unseen};
use crate::process::process_of;
use headworks_region::io::{IoRegion, RULES};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// Rings of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rings {
    process: u32,
    /// Rings whose entries are charged to the submitting thread, and never held.
    charged: u32,
    /// Rings that the scheduler cannot see.
    not_governed: u32,
}

impl Rings {
    fn line(self) -> String {
        let pid = self.process;
        match self.not_governed {
            0 => format!("charged, but not held: io_uring ring of process {pid}"),
            _ => format!("not governed: io_uring ring of process {pid}"),
        }
    }
}

/// Rings among the descriptors of a process; none if access is denied.
fn rings_of(pid: u32) -> u32 {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.as_os_str() == "anon_inode:[io_uring]").count() as u32
}

/// The rings of a program, and of all processes whose files are governed with its own.
pub(super) fn rings(instance: &Instance, region: &IoRegion) -> Vec<Rings> {
    let threads = region.accounts.iter().skip(RULES + 1).map(|slot| slot.tid.load(Relaxed));
    let mut processes: BTreeSet<u32> =
        threads.filter(|tid| *tid != 0).filter_map(process_of).collect();
    processes.extend(instance.note().ok().map(|note| note.server_pid));
    let all = processes.into_iter().map(|process| {
        let charged = region.unheld.rings(process);
        let not_governed = rings_of(process).saturating_sub(charged);
        Rings { process, charged, not_governed }
    });
    all.filter(|rings| rings.charged + rings.not_governed > 0).collect()
}

/// Messages about them, a line each.
pub(super) fn lines(rings: &[Rings], unseen: &[Unseen], mapped_files: u64) -> Vec<String> {
    let mut lines: Vec<String> = rings.iter().map(|rings| rings.line()).collect();
    lines.extend(unseen.iter().map(Unseen::line));
    if mapped_files > 0 {
        lines.push(format!("files written by mapping, and seen at msync only: {mapped_files}"));
    }
    lines
}

/// The same for an instance; nothing if its files are not governed.
pub fn report(instance: &Instance) -> Vec<String> {
    if !instance.io_path().exists() {
        return Vec::new();
    }
    let Ok(region) = instance.open_io() else { return Vec::new() };
    let unseen = unseen::processes(instance, &region);
    lines(&rings(instance, &region), &unseen, region.unheld.mapped_files.load(Relaxed))
}
