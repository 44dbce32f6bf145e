//! Copied stacks, unwound while their processes live.

use super::layout::StackHead;
use crate::trace::{Copied, Maps, Stack, Trace};
use crate::unwind::Unwind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Different stacks that are kept; further ones are counted as lost.
const STACKS_MAX: usize = 50_000;
/// How often a process's files may be read again because an address is in none.
const REREAD: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub struct Stacks {
    processes: HashMap<u32, (Unwind, Instant)>,
    compiled: HashMap<u32, String>,
    found: BTreeMap<Stack, Seen>,
    /// Copies are kept, and so many bytes of them still fit.
    keep: bool,
    room: u64,
    /// Copies that found no room.
    uncopied: u64,
    pub lost: u64,
    pub whole: u64,
    pub all: u64,
}

/// How often a stack was seen, and its first copy if it is kept.
#[derive(Default)]
struct Seen {
    n: u64,
    copied: Option<Copied>,
}

impl Stacks {
    /// Keeps copies, of so many bytes at most.
    pub fn keeping(bytes: u64) -> Stacks {
        Stacks { keep: bytes > 0, room: bytes, ..Stacks::default() }
    }

    /// Names of code that a process's virtual machine compiled.
    pub fn add_compiled(&mut self, pid: u32, map: String) {
        self.compiled.insert(pid, map);
        self.processes.remove(&pid);
    }

    /// The process runs another program: its files are other ones.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.compiled.remove(&pid);
        // Copies of its former program cannot be unwound by the files of the later one.
        for seen in self.found.values_mut() {
            seen.copied.take_if(|copied| copied.pid == pid);
        }
    }

    fn process(&mut self, pid: u32, address: u64) -> &mut Unwind {
        let now = Instant::now();
        let stale = match self.processes.get(&pid) {
            None => true,
            Some((unwind, read)) => {
                !unwind.knows(address)
                    && unwind.name(address).is_none()
                    && now.duration_since(*read) > REREAD
            }
        };
        if stale {
            let mut unwind = Unwind::of(pid);
            if let Some(map) = self.compiled.get(&pid) {
                unwind.add_compiled(map);
            }
            self.processes.insert(pid, (unwind, now));
        }
        let entry = self.processes.entry(pid);
        &mut entry.or_insert_with(|| (Unwind::of(pid), now)).0
    }

    /// Takes one stack.
    pub fn add(&mut self, head: &StackHead, bytes: &[u8]) {
        let unwind = self.process(head.tgid, head.ip);
        let frames = unwind.frames(head.ip, head.sp, head.bp, bytes);
        self.all += 1;
        self.whole += u64::from(frames.whole);
        let stack = Stack {
            tid: head.tid,
            unit: head.group,
            object: head.object,
            sleep: head.nr,
            op: head.op,
            whole: frames.whole,
            frames: frames.names,
            n: 0,
        };
        if self.found.len() >= STACKS_MAX && !self.found.contains_key(&stack) {
            self.lost += 1;
            return;
        }
        let seen = self.found.entry(stack).or_default();
        seen.n += 1;
        if seen.n > 1 || !self.keep {
            return;
        }
        match self.room.checked_sub(bytes.len() as u64) {
            Some(rest) => {
                self.room = rest;
                let registers = [head.ip, head.sp, head.bp];
                let (stack, bytes) = (0, bytes.to_vec());
                seen.copied = Some(Copied { stack, pid: head.tgid, registers, bytes });
            }
            None => self.uncopied += 1,
        }
    }

    /// Name of a function of a process.
    pub fn function(&mut self, pid: u32, address: u64) -> Option<String> {
        (address != 0).then(|| self.process(pid, address).name(address))?
    }

    /// Name of data of a process.
    pub fn datum(&mut self, pid: u32, address: u64) -> Option<String> {
        (address != 0).then(|| self.process(pid, address).datum(address))?
    }

    /// All of them, and their copies with what is needed to unwind these again.
    pub fn give(&self, trace: &mut Trace) {
        // What a thread did when it lost its processor tells its stage only if it never sleeps.
        let sleep: BTreeSet<u32> =
            self.found.keys().filter(|stack| stack.sleep >= 0).map(|stack| stack.tid).collect();
        let tells = |stack: &Stack| stack.sleep >= 0 || !sleep.contains(&stack.tid);
        let found = self.found.iter().filter(|(stack, _)| tells(stack));
        for (at, (stack, seen)) in found.enumerate() {
            trace.stacks.push(Stack { n: seen.n, ..stack.clone() });
            let copied = seen.copied.iter().cloned();
            trace.copied.extend(copied.map(|copied| Copied { stack: at, ..copied }));
        }
        if self.lost > 0 {
            trace.lose("stacks (too many different ones)", self.lost);
        }
        if self.uncopied > 0 {
            trace.lose("copies of stacks (the file would be too large)", self.uncopied);
        }
        let pids: BTreeSet<u32> = trace.copied.iter().map(|copied| copied.pid).collect();
        trace.maps.extend(pids.into_iter().filter_map(|pid| {
            let (maps, files) = self.processes.get(&pid)?.0.maps();
            let compiled = self.compiled.get(&pid).cloned().unwrap_or_default();
            Some(Maps { pid, maps: maps.to_owned(), files: files.clone(), compiled })
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_kept_only_if_that_was_asked_for_and_as_long_as_they_fit() {
        let pid = std::process::id();
        for (room, kept, lost) in [(0, 0, 0), (100, 1, 1), (1_000, 2, 0)] {
            let mut stacks = Stacks::keeping(room);
            for tid in [1, 2, 2] {
                let (ip, sp, bp) = (0, 0x1000, 0);
                let (tgid, group, nr, op, object, born, bytes) = (pid, 2, 202, 0, 0, 0, 64);
                let head = StackHead { tid, tgid, group, nr, op, object, ip, sp, bp, born, bytes };
                stacks.add(&head, &[7; 64]);
            }
            let mut trace = Trace::default();
            stacks.give(&mut trace);
            assert_eq!(trace.stacks.len(), 2);
            let lost_n: u64 = trace.losses.iter().map(|loss| loss.n).sum();
            assert_eq!((trace.copied.len(), lost_n), (kept, lost), "{room}");
            assert_eq!(trace.maps.len(), usize::from(kept > 0));
        }
    }
}
