//! What each stage consumed, as a simulation needs it: sums over the counted time.
//!
//! Processor time, bytes and sleeps are counted. Two things are not, and follow from how long
//! threads wait: the part of the time for which a lock is held, and the time that a device takes
//! without its queue. Both are those of a server with as many customers as the stage has threads
//! (M/M/1//N), in which as many wait as were seen to.

use super::batch::{self, Batches};
use crate::infer::Architecture;
use crate::infer::stages::MACHINE;
use crate::infer::waits::Kind;
use crate::trace::Trace;

/// What a stage consumed in the counted time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Processor time.
    pub cpu_ns: u64,
    /// Time of a device, without its queue.
    pub device_ns: u64,
    /// Processor time that passes while a virtual machine stops its threads.
    pub paused_ns: u64,
    /// Bytes to and from what is not recorded.
    pub network_bytes: u64,
    /// Time for which servers that are not recorded were waited for.
    pub asked_ns: u64,
    /// Time that passes and uses nothing: sleeps by the clock, and waits of its threads for one
    /// another.
    pub time_ns: u64,
    /// Wake-ups, and the time from these until threads ran.
    pub wakes: (u64, u64),
    /// Time for which locks and permits are held, by their number in [`Fit::held`].
    pub held_ns: Vec<(usize, u64)>,
}

/// Something that few threads have at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Name.
    pub name: String,
    /// Index of its box.
    pub place: usize,
    /// How many have it at a time.
    pub parallelism: u32,
    /// Threads that waited for it on average.
    pub waiting: f64,
    /// Stages, each with its part.
    pub users: Vec<(usize, f64)>,
    /// Part of the time for which each of it is held.
    pub utilization: f64,
}

/// A device, all stages together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disk {
    /// Bytes a second that one access at a time gets.
    pub rate_per_s: f64,
    /// Accesses at a time.
    pub parallelism: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    /// By stage.
    pub stages: Vec<Totals>,
    /// Locks and permits, those with the longest waits first.
    pub held: Vec<Held>,
    /// By box's machine: the first of its places.
    pub disk: Disk,
    /// By stage.
    pub batches: Vec<Option<Batches>>,
}

/// Locks and permits that are looked at.
const HELD_MAX: usize = 8;
/// More accesses at a time are as good as any number.
const SERVERS_MAX: u32 = 64;
/// A rate for a device of which no bytes were seen.
const NOMINAL_PER_S: f64 = 1e8;
/// More sleeps by the clock for a request are a stage that looks for work.
const POLLS: u64 = 5;

fn kind(of: Kind) -> usize {
    Kind::ALL.iter().position(|kind| *kind == of).unwrap_or(0)
}

/// Fits.
pub fn fit(trace: &Trace, found: &Architecture) -> Fit {
    let counted_ns = (trace.head.counted_s * 1e9).max(1.0);
    let (disk, alone) = disk(found, counted_ns);
    // A stage that is never asleep shows no visits.
    let come = found.requests.iter().map(|(_, n)| *n).max().unwrap_or(0);
    let mut stages: Vec<Totals> = (0..found.facts.len())
        .map(|id| {
            let facts = &found.facts[id];
            let sleeps = facts.sleeps[kind(Kind::Timer)];
            let polls = sleeps > POLLS * super::visits(found, id).max(come).max(1);
            let timed_ns = if polls { 0 } else { facts.asleep_ns[kind(Kind::Timer)] };
            Totals {
                cpu_ns: facts.cpu_ns,
                paused_ns: paused_ns(trace, found, id, counted_ns),
                device_ns: (super::disk(found, id) as f64 * alone[id]) as u64,
                network_bytes: facts.outside_bytes,
                asked_ns: found.asked.get(&id).map_or(0, |(_, ns)| *ns),
                time_ns: timed_ns + facts.own.1,
                wakes: facts.wakes,
                held_ns: Vec::new(),
            }
        })
        .collect();
    // Waits for permits are waits within a stage: the queue before them is simulated. Those for the
    // gate's, which have no address, are waits for locks.
    for permits in found.permits.iter().filter(|permits| permits.address > 0) {
        let stage = &mut stages[permits.stage];
        stage.time_ns = stage.time_ns.saturating_sub(permits.off_ns);
    }
    let held = held(found, counted_ns);
    for (at, each) in held.iter().enumerate() {
        let all_ns = each.utilization * f64::from(each.parallelism) * counted_ns;
        for &(stage, part) in &each.users {
            let ns = (all_ns * part) as u64;
            let stage = &mut stages[stage];
            stage.held_ns.push((at, ns));
            // What passes while it is held is not to be counted twice.
            stage.time_ns = stage.time_ns.saturating_sub(ns);
        }
    }
    let batches = (0..stages.len()).map(|id| batch::find(trace, found, id)).collect();
    Fit { stages, held, disk, batches }
}

/// A stage's part of the time for which no thread of its program ran on any processor, by its part
/// of their time otherwise.
fn paused_ns(trace: &Trace, found: &Architecture, id: usize, counted_ns: f64) -> u64 {
    let stages = &found.stages.stages;
    let Some(part) = found.paused.get(&stages[id].place) else { return 0 };
    let cpu_ns = |id: usize| match stages[id].title == MACHINE {
        true => 0.0,
        false => found.facts[id].cpu_ns as f64,
    };
    let all_ns: f64 = (0..stages.len())
        .filter(|other| stages[*other].place == stages[id].place)
        .map(cpu_ns)
        .sum();
    let head = trace.head_of(&found.stages.places[stages[id].place].host);
    let stopped_ns = part * f64::from(head.processors.max(1)) * counted_ns;
    (stopped_ns * cpu_ns(id) / all_ns.max(1.0)) as u64
}

/// All devices as one, and the time of an access of each stage.
fn disk(found: &Architecture, counted_ns: f64) -> (Disk, Vec<f64>) {
    let device = kind(Kind::Device);
    let (mut n, mut alone_ns, mut all_ns, mut bytes, mut users) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let uses = |id: usize| super::disk(found, id) > 0 && found.facts[id].sleeps[device] > 0;
    let threads = |id: usize| found.stages.stages[id].most;
    // One thread alone never waits for another's access: all of its waits are the device's time.
    let single = (0..found.facts.len()).filter(|id| uses(*id)).map(threads).sum::<u32>() == 1;
    let mean_ns = |id: usize| {
        let facts = &found.facts[id];
        let n = if single { super::disk(found, id) } else { facts.sleeps[device] };
        facts.asleep_ns[device] as f64 / n.max(1) as f64
    };
    let alone_of = |id: usize| {
        if single { mean_ns(id) } else { found.facts[id].device_ns as f64 }
    };
    for (id, facts) in found.facts.iter().enumerate() {
        let accesses = super::disk(found, id) as f64;
        if uses(id) {
            n += accesses;
            alone_ns += alone_of(id) * accesses;
            all_ns += mean_ns(id) * accesses;
            users += f64::from(found.stages.stages[id].most);
        }
        bytes += facts.bio_bytes as f64;
    }
    if n == 0.0 {
        let rate_per_s = (bytes / counted_ns * 1e9).max(NOMINAL_PER_S);
        return (Disk { rate_per_s, parallelism: 1 }, vec![0.0; found.facts.len()]);
    }
    let per_ns = n / counted_ns;
    let server = server(per_ns, alone_ns / n, all_ns / n, users);
    let longer = server.0 / (alone_ns / n).max(1.0);
    let alone = (0..found.facts.len()).map(|id| alone_of(id) * longer).collect();
    let rate_per_s = if bytes > 0.0 { bytes / (server.0 * n) * 1e9 } else { NOMINAL_PER_S };
    (Disk { rate_per_s: rate_per_s.max(1.0), parallelism: server.1 }, alone)
}

/// Time of an access and accesses at a time of a device, from the time of an access with and
/// without waiting.
fn server(per_ns: f64, alone_ns: f64, mean_ns: f64, users: f64) -> (f64, u32) {
    let busy = per_ns * alone_ns;
    let waiting = per_ns * (mean_ns - alone_ns).max(0.0);
    let servers = busy.round().clamp(1.0, f64::from(SERVERS_MAX));
    if waiting / servers > 0.5 {
        let part = utilization(waiting / servers, users / servers);
        return ((servers * part / per_ns).max(1.0), servers as u32);
    }
    // It is hardly waited for: then more than one access at a time must be possible if so few waits
    // cannot be explained otherwise.
    let waits = (mean_ns / alone_ns.max(1.0) - 1.0).max(0.0);
    let least = busy.ceil().max(1.0) as u32;
    let enough = (least..SERVERS_MAX).find(|&servers| expected(busy, servers) <= waits + 0.1);
    (alone_ns, enough.unwrap_or(SERVERS_MAX))
}

/// Mean wait, in service times, before some servers (Sakasegawa's approximation), for service times
/// that vary less than exponential ones.
fn expected(busy: f64, servers: u32) -> f64 {
    let servers = f64::from(servers);
    let load = (busy / servers).min(0.999);
    0.5 * load.powf((2.0 * (servers + 1.0)).sqrt()) / (servers * (1.0 - load))
}

/// Part of the time for which a server is busy, if on average `waiting` of its `users` wait for it:
/// that of M/M/1 with so many customers.
pub fn utilization(waiting: f64, users: f64) -> f64 {
    const USERS_MAX: f64 = 512.0;
    let users = users.ceil().max(waiting.floor() + 2.0).min(USERS_MAX) as u32;
    if waiting <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (1e-9f64, 1e4f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if machine_repair(middle, users).1 < waiting {
            low = middle;
        } else {
            high = middle;
        }
    }
    machine_repair(low, users).0
}

/// The time that each of `users` customers of a server spends elsewhere, if the server is busy for
/// this part of the time and takes `service_ns` for each.
pub fn elsewhere_ns(busy: f64, service_ns: f64, users: f64) -> f64 {
    let users = users.ceil().clamp(1.0, 512.0) as u32;
    let (mut low, mut high) = (1e-9f64, 1e4f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if machine_repair(middle, users).0 < busy {
            low = middle;
        } else {
            high = middle;
        }
    }
    service_ns / low
}

/// Busy part and mean number waiting of M/M/1 with `users` customers, whose service takes `ratio`
/// of the time that they spend elsewhere.
fn machine_repair(ratio: f64, users: u32) -> (f64, f64) {
    // From the most likely number on, terms are computed relative to the largest so far.
    let (mut sum, mut number, mut term, mut idle) = (1.0, 0.0, 1.0f64, 1.0f64);
    for at in 1..=users {
        term *= f64::from(users - at + 1) * ratio;
        sum += term;
        number += term * f64::from(at);
        if term > 1e200 {
            (sum, number, idle) = (sum / term, number / term, idle / term);
            term = 1.0;
        }
    }
    let busy = 1.0 - idle / sum;
    (busy, number / sum - busy)
}

fn held(found: &Architecture, counted_ns: f64) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    for lock in &found.locks {
        let n = lock.n().max(1) as f64;
        let users: Vec<(usize, f64)> =
            lock.waits.iter().map(|(stage, (waits, _))| (*stage, *waits as f64 / n)).collect();
        let waiting = lock.off_ns().saturating_sub(lock.ready_ns) as f64 / counted_ns;
        let threads: f64 = users.iter().map(|(s, _)| f64::from(found.stages.stages[*s].most)).sum();
        let count = lock.count.clamp(1, 1_000) as f64;
        held.push(Held {
            name: lock.name.clone(),
            place: lock.place,
            parallelism: count as u32,
            waiting,
            users,
            utilization: utilization(waiting / count, threads / count),
        });
    }
    for permits in &found.permits {
        let (stage, waiting) = (permits.stage, permits.off_ns as f64 / counted_ns);
        // Threads at work: those that have a permit, if permits are scarce.
        let count = (working(found, stage, counted_ns) - waiting - 0.2).ceil().max(1.0);
        let threads = f64::from(found.stages.stages[stage].most);
        held.push(Held {
            name: permits.name.clone(),
            place: found.stages.stages[stage].place,
            parallelism: count as u32,
            waiting,
            users: vec![(stage, 1.0)],
            utilization: utilization(waiting / count, threads / count),
        });
    }
    held.retain(|each| each.waiting > 1e-4);
    held.sort_by(|a, b| b.waiting.total_cmp(&a.waiting));
    held.truncate(HELD_MAX);
    held
}

/// Threads of a stage that work or wait for something that is not their next request.
pub fn working(found: &Architecture, stage: usize, counted_ns: f64) -> f64 {
    let facts = &found.facts[stage];
    let asleep: u64 =
        [Kind::Lock, Kind::Device, Kind::Timer].iter().map(|of| facts.asleep_ns[kind(*of)]).sum();
    let asked = found.asked.get(&stage).map_or(0, |(_, ns)| *ns);
    let all = facts.cpu_ns + facts.queued_ns + asleep + facts.own.1 + facts.answers.1 + asked;
    all as f64 / counted_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lock_for_which_nearly_all_wait_is_always_held() {
        assert!(utilization(6.9, 8.0) > 0.99);
        assert_eq!(utilization(0.0, 8.0), 0.0);
        // Half of the time, by M/M/1 with very many customers: 0.5 wait.
        assert!((utilization(0.5, 500.0) - 0.5).abs() < 0.01, "{}", utilization(0.5, 500.0));
    }

    #[test]
    fn who_waits_for_a_busy_server_does_not_spend_the_time_elsewhere() {
        // One customer, half of the time at the server: the other half elsewhere.
        assert!((elsewhere_ns(0.5, 1e6, 1.0) / 1e6 - 1.0).abs() < 0.01);
        assert!(elsewhere_ns(0.999, 1e6, 16.0) < 10e6);
    }

    #[test]
    fn a_device_with_a_queue_is_busy_and_one_without_has_room() {
        // 1,000 a second of 2 ms each, of which 1 ms is the device's own: always busy.
        let (alone_ns, servers) = server(1e-6, 1e6, 5e6, 8.0);
        assert_eq!(servers, 1);
        assert!((0.8e6..1.01e6).contains(&alone_ns), "{alone_ns}");
        // Nine tenths busy, and nothing waits: there is more than one.
        assert!(server(0.9e-6, 1e6, 1.02e6, 8.0).1 > 1);
    }

    proptest! {
        #[test]
        fn the_part_of_the_time_is_one(waiting in 0.0..600.0f64, users in 1.0..2_000.0f64) {
            let part = utilization(waiting, users);
            prop_assert!((0.0..=1.0).contains(&part), "{part}");
        }

        #[test]
        fn more_that_wait_are_a_lock_that_is_held_longer(waiting in 0.01..6.0f64) {
            prop_assert!(utilization(waiting * 1.1, 9.0) >= utilization(waiting, 9.0));
        }
    }
}
