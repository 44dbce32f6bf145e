//! What a program's runtime switches on a few threads of the kernel. What these do for which of it
//! is not told apart.
//!
//! Virtual threads of Java are switched on their carriers, which are found here.

use super::names::{normalised, word};
use crate::trace::Trace;
use std::collections::BTreeSet;

/// Stage of the carriers of a program.
pub const VIRTUAL: &str = "virtual threads";

/// Stage of the threads of a Go program.
pub const GOROUTINES: &str = "goroutines";

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

/// Names of threads on which a runtime switches, and what.
const SWITCHES: [(&str, &str); 4] = [
    ("tokio-runtime-w", "tasks of Tokio"),
    ("tokio-rt-worker", "tasks of Tokio"),
    ("#_scheduler", "processes of Erlang"),
    ("erts_sched_#", "processes of Erlang"),
];

/// Processes whose threads run what Go's runtime gives them.
pub fn go_programs(trace: &Trace) -> BTreeSet<u32> {
    const LOOPS: [&str; 3] = ["runtime.mcall", "runtime.mstart1", "runtime.goexit"];
    let runs = |frame: &String| LOOPS.iter().any(|known| frame.starts_with(known));
    let stacks = trace.stacks.iter().filter(|stack| stack.frames.iter().any(runs));
    stacks.map(|stack| trace.pid_of(stack.unit)).collect()
}

/// What is not told apart, in words.
pub fn unseen(trace: &Trace) -> Vec<String> {
    let goroutines = go_programs(trace).into_iter().map(|pid| (pid, "goroutines"));
    let mut switched: BTreeSet<(u32, &str)> = goroutines.collect();
    for thread in trace.threads.values() {
        let name = thread.names.last().map(|name| normalised(name)).unwrap_or_default();
        let known = SWITCHES.iter().find(|(of, _)| name.starts_with(of));
        switched.extend(known.map(|(_, what)| (thread.pid, *what)));
    }
    let programs: BTreeSet<u32> = find(trace).iter().map(|unit| trace.pid_of(*unit)).collect();
    let program = |pid: &u32| trace.processes.get(pid).map_or("", |process| &*process.program);
    let switched = switched.iter().map(|(pid, what)| {
        format!(
            "{what} in {}: its runtime switches them, and the kernel sees only its threads",
            program(pid)
        )
    });
    let programs = programs.iter().map(|pid| {
        format!(
            "what passes to and between virtual threads of {} ({} here): the virtual machine \
             switches them, and the kernel sees their carriers alone; who wakes these may hand \
             over a request or an answer (--agent counts hand-overs)",
            program(pid),
            word(VIRTUAL)
        )
    });
    switched.chain(programs).collect()
}
