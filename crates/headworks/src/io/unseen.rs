//! Processes of an instance whose writes no hook sees: what the kernel counts is compared with
//! what the hooks counted.

use super::Instance;
use crate::preflight::read_elf;
use crate::process::{children_of, process_of};
use headworks_region::io::{IoRegion, RULES};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Less than this is not worth a word.
const MIN_BYTES: u64 = 64 << 10;
/// The same for a program that the hooks could see.
const MIN_BYTES_ATTACHED: u64 = 1 << 20;

/// A process that writes unseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    process: u32,
    name: String,
    /// What its living threads made dirty, as the kernel counts.
    written_bytes: u64,
    /// What of it the hooks saw.
    seen_bytes: u64,
    why: &'static str,
}

impl Unseen {
    pub(super) fn line(&self) -> String {
        let Unseen { process, name, written_bytes, why, .. } = self;
        let megabytes = *written_bytes as f64 / 1e6;
        format!("not governed: process {process} ({name}) {why}; it wrote {megabytes:.1} MB")
    }
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    written: u64,
    seen: u64,
    /// It has mapped the instance's region.
    attached: bool,
    /// The library is loaded.
    preloaded: bool,
    /// Of its program: see [`Elf`](crate::preflight).
    go: bool,
    is_static: bool,
}

/// Why a process is not governed; `None` if it is, or has written nothing that matters.
fn judge(facts: Facts) -> Option<&'static str> {
    let Facts { written, seen, attached, preloaded, go, is_static } = facts;
    // Of a program that is seen otherwise, earlier writes may have come while nothing was governed.
    let hidden = match attached && !go {
        true => written >= MIN_BYTES_ATTACHED && seen == 0,
        false => written >= MIN_BYTES && seen < written / 2,
    };
    match () {
        () if !hidden => None,
        () if go || is_static => Some("makes its own system calls"),
        () if attached => Some("writes by calls that no hook sees"),
        () if preloaded => {
            Some("cannot reach the region: another container, or a kernel without Landlock")
        }
        () => Some("runs without the library: set-user-ID, or an empty environment"),
    }
}

/// Bytes that the living threads of a process made dirty on storage, as the kernel counts. The sum
/// for the process itself includes children that it has waited for.
fn written_by(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(task.join("io")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok())
    };
    tasks.filter_map(|task| of(&task.path())).sum()
}

/// Whether a process has mapped this file, and whether it has loaded the library.
fn maps(pid: u32, inode: u64) -> Option<(bool, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let inode = inode.to_string();
    let has = |line: &str| line.split_ascii_whitespace().nth(4) == Some(&inode);
    Some((text.lines().any(has), text.contains("libheadworks")))
}

/// All such processes: among the program's descendants, and among those that the hooks saw.
pub(super) fn processes(instance: &Instance, region: &IoRegion) -> Vec<Unseen> {
    if !region.control.is_on() {
        return Vec::new();
    }
    let Ok(inode) = std::fs::metadata(instance.io_path()).map(|meta| meta.ino()) else {
        return Vec::new();
    };
    let mut seen = BTreeMap::<u32, u64>::new();
    for slot in region.accounts.iter().skip(RULES + 1) {
        let thread = slot.tid.load(Relaxed);
        if let Some(process) = (thread != 0).then(|| process_of(thread)).flatten() {
            *seen.entry(process).or_default() += slot.written_bytes.load(Relaxed);
        }
    }
    let mut all: BTreeSet<u32> = seen.keys().copied().collect();
    all.extend(instance.note().ok().map(|note| note.server_pid));
    let mut open: Vec<u32> = all.iter().copied().collect();
    while let Some(child) = open.pop().map(children_of) {
        open.extend(child.into_iter().filter(|child| all.insert(*child)));
    }
    let look = |process: u32| {
        let (written, seen) = (written_by(process), seen.get(&process).copied().unwrap_or(0));
        if written < MIN_BYTES || seen >= written / 2 {
            return None;
        }
        let (attached, preloaded) = maps(process, inode)?;
        let elf = read_elf(Path::new(&format!("/proc/{process}/exe"))).ok()?.ok()?;
        let (go, is_static) = (elf.go, elf.interpreter.is_none());
        let why = judge(Facts { written, seen, attached, preloaded, go, is_static })?;
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        let name = name.trim_end().to_owned();
        Some(Unseen { process, name, written_bytes: written, seen_bytes: seen, why })
    };
    all.into_iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_of_by_what_hides_it() {
        let wrote = |written, seen| Facts { written, seen, ..Facts::default() };
        let attached = |facts| Facts { attached: true, preloaded: true, ..facts };
        assert_eq!(judge(wrote(MIN_BYTES - 1, 0)), None);
        assert_eq!(judge(attached(wrote(MIN_BYTES, 0))), None);
        assert_eq!(judge(attached(wrote(9 << 20, 1))), None, "the hooks see it");
        let go = Facts { go: true, ..attached(wrote(MIN_BYTES, 1)) };
        let fixed = Facts { is_static: true, ..wrote(MIN_BYTES, 0) };
        assert_eq!(judge(go), Some("makes its own system calls"));
        assert_eq!(judge(fixed), Some("makes its own system calls"));
        assert!(judge(attached(wrote(9 << 20, 0))).unwrap().contains("no hook sees"));
        assert!(judge(wrote(MIN_BYTES, 0)).unwrap().contains("without the library"));
        let kept_out = Facts { preloaded: true, ..wrote(MIN_BYTES, 0) };
        assert!(judge(kept_out).unwrap().contains("cannot reach the region"));
    }
}
