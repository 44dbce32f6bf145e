//! From a recording to an architecture, by pure rules.
//!
//! 1. [`stages`]: threads that do the same. A name that a thread was given is trusted; else its
//!    loop function; else what it waits on.
//! 2. [`waits`]: what each sleep is: for a queue, an answer, a lock, a device or a time.
//! 3. [`arrows`]: from where requests come in, breadth first. The first object by which a stage is
//!    woken is its queue. Other objects are answers, for which the stage is blocked.
//! 4. [`locks`]: resources, which no annotation declared.
//!
//! Each stage and arrow says how sure it is. "Certain" follows from what was seen; "likely" rests
//! on
//! a rule that may err; "guess" rests on too little.

pub mod arrows;
mod carriers;
mod doors;
mod draft;
mod event_loops;
mod evidence;
mod executor;
pub(crate) mod frames;
pub mod locks;
mod monitors;
pub mod names;
mod newborn;
pub mod past;
mod paused;
mod pollers;
mod renames;
mod sites;
pub mod sockets;
pub mod stages;
mod trie;
pub mod waits;

use crate::hints::Hints;
use crate::trace::Trace;
use arrows::{Arrow, By, End, Meaning};
use locks::{Lock, Permits};
use past::Past;
use stages::Stages;
use waits::Kind;

pub use sockets::Pace;

/// Stages, and what passes between them.
#[derive(Clone, Debug, Default)]
pub struct Architecture {
    /// Stages.
    pub stages: Stages,
    /// Requests, answers and what threads are blocked by.
    pub arrows: Vec<Arrow>,
    /// Ways past queues.
    pub past: Vec<Past>,
    /// Locks that threads waited for.
    pub locks: Vec<Lock>,
    /// What threads of one stage waited for until another of them gave it back.
    pub permits: Vec<Permits>,
    /// What each stage did and used.
    pub facts: Vec<Facts>,
    /// Requests that came from outside, and where: messages by stage.
    pub requests: Vec<(usize, u64)>,
    /// Connections of clients that are not recorded, by stage.
    pub connections: std::collections::BTreeMap<usize, usize>,
    /// Stages whose clients have several requests of a connection under way.
    pub several: std::collections::BTreeSet<usize>,
    /// Times between transfers, by stage at which clients come in: of answers, and of clients from
    /// an answer to the next request. Number and sum.
    pub paces: std::collections::BTreeMap<usize, Pace>,
    /// Answers of servers that are not recorded, by the stage that waits for them: number and time.
    pub asked: std::collections::BTreeMap<usize, (u64, u64)>,
    /// Part of the time for which a virtual machine stopped its program's threads, by place.
    pub paused: std::collections::BTreeMap<usize, f64>,
    /// Messages that were sent to the clients of a stage, by whichever stage.
    pub answered: std::collections::BTreeMap<usize, u64>,
    /// Stages of which several threads read one connection.
    pub roaming: std::collections::BTreeSet<usize>,
    /// Clients that waited on average until a stage accepted them.
    pub backlog: std::collections::BTreeMap<usize, f64>,
    /// Stages that read the requests for which others wait, by these.
    pub readers: std::collections::BTreeMap<usize, usize>,
    /// What could not be seen, in words.
    pub unseen: Vec<String>,
}

/// What a stage did and used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Processor time in the counted time.
    pub cpu_ns: u64,
    /// Sleeps by kind, in the order of [`Kind::ALL`].
    pub sleeps: [u64; Kind::ALL.len()],
    /// Time of these.
    pub asleep_ns: [u64; Kind::ALL.len()],
    /// Time in which its threads were ready, and no processor was free.
    pub queued_ns: u64,
    /// Waits of its threads for one another, not at its queue: number and time.
    pub own: (u64, u64),
    /// Waits for answers of other stages: number and time.
    pub answers: (u64, u64),
    /// Wake-ups by others, and the time from these until the threads ran.
    pub wakes: (u64, u64),
    /// Time of its shortest waits for a device: the first quarter. The others waited for one
    /// another, too.
    pub device_ns: u64,
    /// Requests to block devices and their bytes.
    pub bios: u64,
    /// See there.
    pub bio_bytes: u64,
    /// Bytes read and written by calls, page cache or not, over the whole recording.
    pub file_chars: u64,
    /// Bytes to and from other machines and recorded or other processes.
    pub socket_bytes: u64,
    /// Bytes to and from other processes that are not recorded.
    pub outside_bytes: u64,
}

impl Facts {
    /// Sleeps of one kind.
    fn sleeps_of(&self, kind: Kind) -> u64 {
        Kind::ALL.iter().zip(self.sleeps).find(|(known, _)| **known == kind).map_or(0, |(_, n)| n)
    }

    /// It looks for its work itself: it sleeps by the clock, or never.
    fn polls(&self, counted_s: f64) -> bool {
        self.polls_by_the_clock() || self.never_sleeps(counted_s)
    }

    fn polls_by_the_clock(&self) -> bool {
        let polls = self.sleeps_of(Kind::Timer);
        polls >= 50 && polls * 3 > self.sleeps.iter().sum()
    }

    fn never_sleeps(&self, counted_s: f64) -> bool {
        let counted_ns = counted_s * 1e9;
        self.sleeps.iter().sum::<u64>() < 3
            && counted_ns > 0.0
            && self.cpu_ns as f64 > 0.2 * counted_ns
    }
}

impl Architecture {
    /// Whether a stage answers or passes requests on, not by the clock, and nothing shows where
    /// they come from.
    fn works_unfed(&self, stage: usize) -> bool {
        let fed = self.arrows.iter().any(|arrow| arrow.feeds(stage));
        let works = self.arrows.iter().filter(|arrow| match arrow.meaning {
            // One that asks other processes acts on its own.
            Meaning::Data => {
                arrow.from == End::Stage(stage)
                    && arrow.by != By::Birth
                    && (arrow.by != By::Socket || arrow.to == End::Clients)
            }
            // A lock that it has is no answer.
            Meaning::Blocking => arrow.to == End::Stage(stage) && arrow.by != By::Held,
        });
        let times: u64 = works.map(|arrow| arrow.n).sum();
        !fed && times > 2 * self.facts[stage].sleeps_of(Kind::Timer)
    }

    /// Whether a stage looks for its work itself, and nothing shows where that comes from.
    pub fn polls_unfed(&self, trace: &Trace, stage: usize) -> bool {
        // Without eBPF, sleeps are seen only now and then.
        trace.head.mode != "proc"
            && self.facts[stage].polls(trace.head.counted_s)
            && !self.arrows.iter().any(|arrow| arrow.feeds(stage) && arrow.by != By::Answer)
    }
}

/// What the recording shows.
pub fn infer(trace: &Trace, hints: &Hints) -> Architecture {
    let stages = stages::find(trace, hints);
    let sites = waits::Sites::of(trace);
    let links = waits::links(trace, &stages, &sites);
    let mut sockets = sockets::links(trace, &stages, &links);
    pollers::entrust(trace, &stages, &links, &mut sockets);
    let (mut arrows, homes) = arrows::find(trace, &stages, &links, &sockets);
    let mut facts = facts(trace, &stages, &links, &sockets);
    evidence::polled(trace, &stages, &facts, &mut arrows);
    evidence::add(trace, &stages, &sockets, &mut arrows);
    arrows.sort_by_key(|arrow| (arrow.meaning, std::cmp::Reverse(arrow.n), arrow.from, arrow.to));
    let mut locks = locks::find(trace, &stages, &links, &sites);
    monitors::name(trace, &stages, &mut locks);
    own_waits(&links, &homes, &mut facts);
    let permits = locks::permits(trace, &stages, &links, &homes, &sites);
    devices(trace, &stages, &sites, &mut facts);
    let mut architecture = Architecture {
        unseen: trace.head.missing.clone(),
        requests: sockets.requests.clone(),
        connections: sockets.clients.clone(),
        several: sockets.several.clone(),
        paces: sockets.paces.clone(),
        asked: sockets.asked.clone(),
        answered: sockets.answered.clone(),
        roaming: sockets.roaming.clone(),
        backlog: sockets.backlog.clone(),
        readers: sockets.readers.clone(),
        paused: paused::find(trace, &stages),
        past: past::find(&arrows),
        stages,
        arrows,
        locks,
        permits,
        facts,
    };
    unseen(trace, &mut architecture);
    architecture
}

fn facts(
    trace: &Trace,
    stages: &Stages,
    links: &waits::Links,
    sockets: &sockets::Sockets,
) -> Vec<Facts> {
    let mut facts = vec![Facts::default(); stages.stages.len()];
    for unit in trace.units.values() {
        let Some(&stage) = stages.of.get(&unit.unit) else { continue };
        facts[stage].cpu_ns += unit.run_ns;
        facts[stage].queued_ns += unit.queued_ns;
        facts[stage].bios += unit.bios[0] + unit.bios[2];
        facts[stage].bio_bytes += unit.bios[1] + unit.bios[3];
    }
    for thread in trace.threads.values() {
        if let Some(&stage) = stages.of.get(&thread.unit) {
            facts[stage].file_chars += thread.read_chars + thread.written_chars;
        }
    }
    for link in &links.all {
        let at = Kind::ALL.iter().position(|kind| *kind == link.kind).unwrap_or(0);
        facts[link.wakee].sleeps[at] += link.n;
        facts[link.wakee].asleep_ns[at] += link.off_ns;
    }
    for (stage, (all, outside)) in sockets.bytes.iter().enumerate() {
        facts[stage].socket_bytes = *all;
        facts[stage].outside_bytes = *outside;
    }
    facts
}

/// Waits within a stage, and how long its threads wait for a processor once they are woken.
fn own_waits(links: &waits::Links, homes: &[arrows::Home], facts: &mut [Facts]) {
    for link in &links.all {
        let facts = &mut facts[link.wakee];
        match link.kind {
            Kind::Handover | Kind::Ready | Kind::Socket => {
                facts.wakes.0 += link.n;
                facts.wakes.1 += link.queued_ns;
            }
            _ => {}
        }
        let within = link.waker == Some(link.wakee);
        let home = homes[link.wakee].contains(link.kind, link.object);
        if home || link.waker.is_none() {
            continue;
        }
        let sum = match link.kind {
            Kind::Handover | Kind::Signal if within => &mut facts.own,
            Kind::Handover | Kind::Ready | Kind::Signal if !within => &mut facts.answers,
            _ => continue,
        };
        sum.0 += link.n;
        sum.1 += link.off_ns;
    }
}

/// The time of a device alone: that of the shortest waits for it.
fn devices(trace: &Trace, stages: &Stages, sites: &waits::Sites, facts: &mut [Facts]) {
    let mut histograms: Vec<Vec<u64>> = vec![Vec::new(); facts.len()];
    for wait in &trace.waits {
        let Some(&stage) = stages.of.get(&wait.wakee) else { continue };
        if waits::kind(trace, sites, wait) == Kind::Device {
            let sum = &mut histograms[stage];
            sum.resize(sum.len().max(wait.histogram.len()), 0);
            sum.iter_mut().zip(&wait.histogram).for_each(|(sum, n)| *sum += u64::from(*n));
        }
    }
    let device = Kind::ALL.iter().position(|kind| *kind == Kind::Device).unwrap_or(0);
    for (facts, histogram) in facts.iter_mut().zip(histograms) {
        let mean = facts.asleep_ns[device].checked_div(facts.sleeps[device]).unwrap_or(0);
        facts.device_ns = quantile(&histogram, 0.25).map_or(mean, |ns| ns.min(mean));
    }
}

/// A quantile of a histogram by powers of two of 1,024 ns, within its bucket by proportion.
fn quantile(histogram: &[u64], part: f64) -> Option<u64> {
    let all: u64 = histogram.iter().sum();
    let mut before = 0.0;
    for (at, &n) in histogram.iter().enumerate() {
        let wanted = part * all as f64;
        if n > 0 && before + n as f64 >= wanted {
            let within = ((wanted - before) / n as f64).clamp(0.0, 1.0);
            let low = if at == 0 { 0.0 } else { 1_024.0 * f64::from(1u32 << at) };
            let high = 1_024.0 * f64::from(2u32 << at);
            return Some((low + within * (high - low)) as u64);
        }
        before += n as f64;
    }
    None
}

/// Names what the rules cannot see, so that it is not silently absent.
fn unseen(trace: &Trace, found: &mut Architecture) {
    for (id, stage) in found.stages.stages.iter().enumerate() {
        let facts = &found.facts[id];
        if found.works_unfed(id) && !found.polls_unfed(trace, id) {
            let why = if by_ring(trace, &found.stages, id) {
                "it waits by io_uring, for what is not said"
            } else {
                "nothing was seen to wake it for what it does"
            };
            found.unseen.push(format!("what feeds {}: {why}", stage.name));
        }
        if !found.polls_unfed(trace, id) {
            continue;
        }
        found.unseen.push(if facts.polls_by_the_clock() {
            format!(
                "what feeds {}: it looks for work itself ({} sleeps by the clock)",
                stage.name,
                facts.sleeps_of(Kind::Timer)
            )
        } else {
            format!("what feeds {}: it never sleeps, so nothing wakes it", stage.name)
        });
    }
    found.unseen.extend(renames::Renames::of(trace).unseen());
    found.unseen.extend(carriers::unseen(trace));
    if let Some(asleep) = asleep(trace, &found.stages) {
        found.unseen.push(asleep);
    }
    found.unseen.extend(unaccounted(trace, &found.stages));
    for call in &trace.head.missing {
        debug_assert!(found.unseen.contains(call));
    }
    let mut incomplete: Vec<&str> = Vec::new();
    for stage in &found.stages.stages {
        let lost = |unit: &u32| trace.units.get(unit).is_some_and(|unit| unit.lost > 0);
        if stage.units.iter().any(lost) {
            incomplete.push(&stage.name);
        }
    }
    if !incomplete.is_empty() {
        let names = incomplete.join(", ");
        found.unseen.push(format!("all of {names}: a table was full, and they are incomplete"));
    }
    for loss in &trace.losses {
        found.unseen.push(format!("{} of {}", loss.n, loss.what));
    }
}

/// Most of a stage's sleeps are in `io_uring_enter`.
fn by_ring(trace: &Trace, stages: &Stages, stage: usize) -> bool {
    let own = trace.waits.iter().filter(|wait| stages.of.get(&wait.wakee) == Some(&stage));
    let (mut all, mut ring) = (0, 0);
    for wait in own {
        all += wait.n;
        ring += if i64::from(wait.sleep) == libc::SYS_io_uring_enter { wait.n } else { 0 };
    }
    ring * 2 > all
}

/// Stages whose threads' times do not add up to what was counted.
fn unaccounted(trace: &Trace, stages: &Stages) -> Vec<String> {
    const PART: f64 = 0.02;
    let counted_ns = trace.head.counted_s * 1e9;
    let mut threads: std::collections::BTreeMap<u32, usize> = Default::default();
    for thread in trace.threads.values() {
        *threads.entry(thread.unit).or_default() += 1;
    }
    let mut words = Vec::new();
    for stage in &stages.stages {
        let own = || stage.units.iter().filter_map(|unit| trace.units.get(unit));
        let all_ns: u64 = own().map(|unit| unit.run_ns + unit.queued_ns + unit.asleep_ns).sum();
        let number: usize = stage.units.iter().filter_map(|unit| threads.get(unit)).sum();
        let wanted_ns = counted_ns * number as f64;
        let stays = own().all(|unit| unit.births + unit.deaths == 0);
        // Recordings that do not tell of sleeps have nothing to add up.
        let told = own().any(|unit| unit.asleep_ns > 0);
        let part = all_ns as f64 / wanted_ns.max(1.0);
        if stays && told && (part - 1.0).abs() > PART {
            words.push(format!(
                "{:.0} % of the time of {}: its threads' times add up to {:.2} of it",
                (1.0 - part).abs() * 100.0,
                stage.name,
                part
            ));
        }
    }
    words
}

/// Threads that never ran while events were counted: of what they do nothing is known.
fn asleep(trace: &Trace, stages: &Stages) -> Option<String> {
    const SHOWN: usize = 12;
    let mut names: std::collections::BTreeMap<String, usize> = Default::default();
    for thread in trace.threads.values().filter(|each| !stages.of.contains_key(&each.unit)) {
        let process = trace.processes.get(&thread.pid)?;
        let own = thread.names.last().filter(|name| **name != process.name);
        let title = process.title.split_once(": ").map(|(_, title)| title.to_owned());
        let name = own.cloned().or(title).unwrap_or_else(|| process.name.clone());
        *names.entry(names::normalised(&name)).or_default() += 1;
    }
    let all: usize = names.values().sum();
    let shown: Vec<&str> = names.keys().take(SHOWN).map(String::as_str).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    (all > 0).then(|| format!("{all} threads that slept all the time: {}{more}", shown.join(", ")))
}
