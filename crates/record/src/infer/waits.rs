//! What each sleep was for.

use super::sites::{FUTEX, WAIT_PRIVATE};
pub use super::sites::{Kind, Sites, kind};
use super::stages::Stages;
use crate::trace::{How, MANY, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// A mutex this near to a queue's condition belongs to the queue.
pub const NEAR: u64 = 128;

/// An object of waits, as a stage sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// Several threads wait on it, or the only thread of a stage does.
    Shared(u64),
    /// Each thread has its own. In a Java virtual machine a park has another than a monitor.
    Own(bool),
    /// Made for each request.
    Many,
}

/// Sleeps of one kind between two stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Stage that ended the sleep, if it is known.
    pub waker: Option<usize>,
    /// A process that is not recorded ended it.
    pub outside: bool,
    /// Stage that slept.
    pub wakee: usize,
    /// Kind.
    pub kind: Kind,
    /// Object, as the sleeper sees it.
    pub object: Object,
    /// Address or descriptor.
    pub address: u64,
    /// Number of sleeps.
    pub n: u64,
    /// Time asleep.
    pub off_ns: u64,
    /// Part of that in which the sleeper was ready, and waited for a processor.
    pub queued_ns: u64,
    /// Longest sleep.
    pub max_ns: u64,
    /// The sleeper's functions are known.
    pub seen: bool,
    /// It sleeps as glibc's mutexes do.
    pub mutex: bool,
}

/// All links.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// See [`Link`].
    pub all: Vec<Link>,
}

/// Links between stages.
pub fn links(trace: &Trace, stages: &Stages, sites: &Sites) -> Links {
    let shared = Sharing::of(trace, stages);
    let parks = parks(trace, stages, sites);
    let mut all: BTreeMap<_, Link> = BTreeMap::new();
    for wait in &trace.waits {
        let Some(&wakee) = stages.of.get(&wait.wakee) else { continue };
        let waker = stages.of.get(&wait.waker).copied();
        let kind = kind(trace, sites, wait);
        let own = (wait.wakee, wait.object);
        let park = match parks.get(&(wakee, wait.sleep, wait.op)) {
            // As others of its stage.
            Some([parks, all]) if !sites.seen.contains(&own) => parks * 2 > *all,
            _ => sites.park.contains(&own),
        };
        let object = shared.object(wakee, wait.object, park);
        let exact = (wait.wakee, wait.object, wait.sleep, wait.op);
        let seen = sites.exact.contains_key(&exact) || wait.how == How::Futex;
        let outside = wait.waker == crate::trace::OUTSIDE;
        let address = if kind == Kind::Lock { wait.object } else { 0 };
        let link = all.entry((wakee, waker, kind, object, address, outside)).or_insert(Link {
            waker,
            outside,
            wakee,
            kind,
            object,
            address: wait.object,
            n: 0,
            off_ns: 0,
            queued_ns: 0,
            max_ns: 0,
            seen: false,
            mutex: wait.sleep == FUTEX && wait.op == WAIT_PRIVATE,
        });
        link.n += wait.n;
        link.off_ns += wait.off_ns;
        link.queued_ns += wait.queued_ns;
        link.max_ns = link.max_ns.max(wait.max_ns);
        link.seen |= seen;
    }
    Links { all: all.into_values().collect() }
}

/// Sleeps of each stage where their functions were seen, by how it sleeps: parks, and all.
fn parks(trace: &Trace, stages: &Stages, sites: &Sites) -> BTreeMap<(usize, i16, u16), [u64; 2]> {
    let mut parks: BTreeMap<_, [u64; 2]> = BTreeMap::new();
    for wait in &trace.waits {
        let own = (wait.wakee, wait.object);
        if let (Some(&stage), true) = (stages.of.get(&wait.wakee), sites.seen.contains(&own)) {
            let sum = parks.entry((stage, wait.sleep, wait.op)).or_default();
            sum[0] += if sites.park.contains(&own) { wait.n } else { 0 };
            sum[1] += wait.n;
        }
    }
    parks
}

/// Which objects several threads of a stage wait on.
struct Sharing {
    shared: BTreeSet<(usize, u64)>,
    many: BTreeSet<(usize, u64)>,
    single: BTreeSet<usize>,
}

/// Waits of a stage on one object, by unit, and by the stage that ended them.
#[derive(Default)]
struct Waiters {
    units: BTreeMap<u32, u64>,
    wakers: BTreeMap<Option<usize>, u64>,
}

impl Waiters {
    /// Which stage ended most of them.
    fn waker(&self) -> Option<usize> {
        self.wakers.iter().max_by_key(|(_, n)| **n).and_then(|(waker, _)| *waker)
    }
}

impl Sharing {
    fn of(trace: &Trace, stages: &Stages) -> Sharing {
        // Futexes and descriptors are counted apart: threads may each have a descriptor that lasts,
        // beside futexes that are made for requests.
        let mut waiters: BTreeMap<(usize, How, u64), Waiters> = BTreeMap::new();
        for wait in trace.handovers() {
            if let Some(&stage) = stages.of.get(&wait.wakee)
                && wait.object > MANY
            {
                let of = waiters.entry((stage, wait.how, wait.object)).or_default();
                *of.units.entry(wait.wakee).or_default() += wait.n;
                *of.wakers.entry(stages.of.get(&wait.waker).copied()).or_default() += wait.n;
            }
        }
        let mut all: BTreeMap<(usize, How), (u64, usize)> = BTreeMap::new();
        let mut alike: BTreeMap<(usize, How, Option<usize>), u64> = BTreeMap::new();
        for ((stage, how, _), of) in &waiters {
            let n: u64 = of.units.values().sum();
            let sum = all.entry((*stage, *how)).or_default();
            sum.0 += n;
            sum.1 += 1;
            *alike.entry((*stage, *how, of.waker())).or_default() += n;
        }
        let mut found =
            Sharing { shared: BTreeSet::new(), many: BTreeSet::new(), single: BTreeSet::new() };
        for (id, stage) in stages.stages.iter().enumerate() {
            if stage.most <= 1 && !stage.on_demand {
                found.single.insert(id);
            }
        }
        let mut later: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for thread in trace.threads.values().filter(|thread| thread.unit != thread.born) {
            later.entry(thread.born).or_default().insert(thread.unit);
        }
        for ((stage, how, object), of) in &waiters {
            let units = &of.units;
            let n: u64 = units.values().sum();
            let (sum, objects) = all[&(*stage, *how)];
            // A queue may have a small part of all, but not of what its feeder wakes.
            let few = n * 10 < alike[&(*stage, *how, of.waker())];
            let threads = stages.stages[*stage].most.max(1) as usize;
            // A thread that is born has the unit of its creator's births first.
            let waits = |unit: &u32| units.contains_key(unit);
            let newborn = |unit| later.get(&unit).is_some_and(|later| later.iter().any(waits));
            let often = units.iter().filter(|(_, n)| **n >= 3);
            let several = often.filter(|(unit, _)| !newborn(**unit)).count() > 1;
            // A unit of many threads does not say which of them waited: each has a small part of
            // the waits if each has its own object.
            let common = units.len() == 1 && threads > 1 && n * threads as u64 > 2 * sum;
            if objects > 4 * threads + 4 && few {
                found.many.insert((*stage, *object));
            } else if several || common {
                found.shared.insert((*stage, *object));
            }
        }
        found
    }

    fn object(&self, stage: usize, object: u64, park: bool) -> Object {
        if object == MANY || self.many.contains(&(stage, object)) {
            Object::Many
        } else if self.single.contains(&stage) || self.shared.contains(&(stage, object)) {
            Object::Shared(object)
        } else {
            Object::Own(park)
        }
    }
}
