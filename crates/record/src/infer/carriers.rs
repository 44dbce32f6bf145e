//! Virtual threads of Java: the virtual machine switches them on a few threads of the kernel, their
//! carriers. What a carrier does for which of them is not told apart.

use super::names::word;
use crate::trace::Trace;
use std::collections::BTreeSet;

/// Stage of the carriers of a program.
pub const VIRTUAL: &str = "virtual threads";

/// Functions around all that a virtual thread does.
const AROUND: [&str; 2] = ["java.lang.VirtualThread", "jdk.internal.vm.Continuation"];
/// A machine's own threads for virtual ones, and the carriers: the pool that is made with them.
const SERVES: &str = "VirtualThread-";
const CARRIER: &str = "ForkJoinPool-1-";

/// Units of carriers.
pub fn find(trace: &Trace) -> BTreeSet<u32> {
    let around = |frame: &String| AROUND.iter().any(|known| frame.contains(known));
    let seen = trace.stacks.iter().filter(|stack| stack.frames.iter().any(around));
    let mut found: BTreeSet<u32> = seen.map(|stack| stack.unit).collect();
    let named = |thread: &crate::trace::Thread, word: &str| {
        thread.names.iter().any(|name| name.starts_with(word))
    };
    let mut programs: BTreeSet<u32> = found.iter().map(|unit| trace.pid_of(*unit)).collect();
    let serving = trace.threads.values().filter(|thread| named(thread, SERVES));
    programs.extend(serving.map(|thread| thread.pid));
    let carriers = trace
        .threads
        .values()
        .filter(|thread| programs.contains(&thread.pid) && named(thread, CARRIER));
    found.extend(carriers.map(|thread| thread.unit));
    found
}

/// What is not told apart, in words.
pub fn unseen(trace: &Trace) -> Vec<String> {
    let programs: BTreeSet<u32> = find(trace).iter().map(|unit| trace.pid_of(*unit)).collect();
    let program = |pid: &u32| trace.processes.get(pid).map_or("", |process| &*process.program);
    programs
        .iter()
        .map(|pid| {
            format!(
                "what passes to and between virtual threads of {} ({} here): the virtual machine \
                 switches them, and the kernel sees their carriers alone; who wakes these may hand \
                 over a request or an answer (--agent counts hand-overs)",
                program(pid),
                word(VIRTUAL)
            )
        })
        .collect()
}
