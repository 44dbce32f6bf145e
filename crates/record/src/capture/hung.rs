//! A program of which no thread does anything: what each of them waits for, and who has the lock
//! that it waits for. No event tells, as nothing happens.

use super::layout::StackHead;
use super::procfs;
use super::registry::Registry;
use super::sampled::copy;
use super::stacks::Stacks;
use crate::trace::{Held, Trace, Unit, Wait};

/// More threads are not looked at.
const THREADS_MAX: usize = 1_000;
/// A program that ran for a smaller part of one processor's time does nothing.
const RUNS: f64 = 0.001;

/// Whether nothing happens.
pub fn is(trace: &Trace) -> bool {
    let run_ns: u64 = trace.units.values().map(|unit| unit.run_ns).sum();
    trace.sockets.is_empty() && (run_ns as f64) < RUNS * trace.head.counted_s * 1e9
}

/// Adds what threads are asleep in.
pub fn add(registry: &Registry, trace: &mut Trace, stacks: &mut Stacks) {
    let asleep_ns = (trace.head.counted_s * 1e9) as u64;
    for (&tid, seen) in registry.threads.iter().take(THREADS_MAX) {
        let (pid, group) = (seen.thread.pid, seen.thread.unit);
        let Some((nr, address, second, sp, ip)) = procfs::asleep_in(pid, tid) else { continue };
        let futex = i64::from(nr) == libc::SYS_futex;
        let (object, op) = if futex { (address & !7, second as u16) } else { (0, 0) };
        let none = Unit { unit: group, pid, alive_max: 1, asleep_ns, ..Unit::default() };
        trace.units.entry(group).or_insert(none);
        if let Some(owner) = futex.then(|| owner(pid, address)).flatten()
            && let Some(owner) = registry.threads.get(&owner)
        {
            trace.held.push(Held { unit: group, owner: owner.thread.unit, object });
        }
        trace.waits.push(Wait {
            wakee: group,
            object,
            sleep: nr,
            op,
            wake: -1,
            n: 1,
            off_ns: asleep_ns,
            max_ns: asleep_ns,
            ..Wait::default()
        });
        let (bp, born, bytes) = (0, 0, 0);
        let tgid = pid;
        copy(&StackHead { tid, tgid, group, nr, op, object, ip, sp, bp, born, bytes }, stacks);
    }
}

/// The thread that has a mutex of glibc, which notes it in the mutex.
fn owner(pid: u32, mutex: u64) -> Option<u32> {
    /// Of `__owner` in `pthread_mutex_t`.
    const OWNER: u64 = 8;
    let mut bytes = [0; 4];
    (procfs::memory(pid, mutex + OWNER, &mut bytes) == bytes.len())
        .then(|| u32::from_le_bytes(bytes))
        .filter(|owner| *owner != 0)
}
