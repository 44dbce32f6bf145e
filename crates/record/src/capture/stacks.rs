//! Copied stacks, unwound while their processes live.

use super::layout::StackHead;
use crate::trace::Stack;
use crate::unwind::Unwind;
use std::collections::{BTreeMap, HashMap};
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
    found: BTreeMap<Stack, u64>,
    pub lost: u64,
    pub whole: u64,
    pub all: u64,
}

impl Stacks {
    /// Names of code that a process's virtual machine compiled.
    pub fn add_compiled(&mut self, pid: u32, map: String) {
        self.compiled.insert(pid, map);
        self.processes.remove(&pid);
    }

    /// The process runs another program: its files are other ones.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
        self.compiled.remove(&pid);
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
        if self.found.len() < STACKS_MAX || self.found.contains_key(&stack) {
            *self.found.entry(stack).or_default() += 1;
        } else {
            self.lost += 1;
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

    /// All of them.
    pub fn all(&self) -> Vec<Stack> {
        self.found.iter().map(|(stack, &n)| Stack { n, ..stack.clone() }).collect()
    }
}
