//! What each sleep was for, by how it ended and the functions that it was in.

use super::frames::{self, Site, site};
use crate::trace::{How, MANY, Trace, Wait};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FUTEX: i16 = libc::SYS_futex as i16;
/// `FUTEX_WAIT` with `FUTEX_PRIVATE_FLAG`: what glibc's mutexes wait with.
pub(super) const WAIT_PRIVATE: u16 = 128;
/// Kind of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something was handed over, or an answer came.
    Handover,
    /// A pipe, an event descriptor or a socket inside the process became ready.
    Ready,
    /// A socket's other end, in another process.
    Socket,
    /// A lock.
    Lock,
    /// A signal.
    Signal,
    /// A thread was waited for to its end.
    Join,
    /// A device.
    Device,
    /// A time.
    Timer,
    /// Nothing that is known.
    Idle,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Handover,
        Kind::Ready,
        Kind::Socket,
        Kind::Lock,
        Kind::Signal,
        Kind::Join,
        Kind::Device,
        Kind::Timer,
        Kind::Idle,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Handover => "handed over",
            Kind::Ready => "made ready",
            Kind::Socket => "socket",
            Kind::Lock => "lock",
            Kind::Signal => "signal",
            Kind::Join => "end of a thread",
            Kind::Device => "device",
            Kind::Timer => "time",
            Kind::Idle => "unknown",
        }
    }
}

/// Kinds and functions of the stacks of one wait.
type Seen = Vec<(Site, String)>;

/// Where threads sleep, by what they sleep on.
#[derive(Debug, Default)]
pub struct Sites {
    pub(super) exact: BTreeMap<(u32, u64, i16, u16), Seen>,
    process: BTreeMap<(u32, u64), Seen>,
    pub(super) park: BTreeSet<(u32, u64)>,
    pub(super) seen: BTreeSet<(u32, u64)>,
    own: BTreeSet<(u32, u64)>,
    /// Processes with musl's C library.
    musl: BTreeSet<u32>,
    /// Objects of Python's lock of its interpreter, by process.
    interpreter: BTreeSet<(u32, u64)>,
    /// Stacks by unit and how it sleeps: those of a virtual machine's own work, and all.
    machine: BTreeMap<(u32, i16, u16), [u64; 2]>,
}

impl Sites {
    /// From the stacks.
    pub fn of(trace: &Trace) -> Sites {
        let mut sites = Sites { own: own_words(trace), ..Sites::default() };
        for stack in &trace.stacks {
            if frames::is_musl(&stack.frames) {
                sites.musl.insert(trace.pid_of(stack.unit));
            }
            let Some(site) = site(&stack.frames) else { continue };
            sites.seen.insert((stack.unit, stack.object));
            let sum = sites.machine.entry((stack.unit, stack.sleep, stack.op)).or_default();
            sum[0] += if site == Site::Machine { stack.n } else { 0 };
            sum[1] += stack.n;
            if frames::is_interpreter(&stack.frames) && stack.object > MANY {
                sites.interpreter.insert((trace.pid_of(stack.unit), stack.object));
            }
            let waiting = frames::waiting(&stack.frames).unwrap_or("?").to_owned();
            let key = (stack.unit, stack.object, stack.sleep, stack.op);
            sites.exact.entry(key).or_default().push((site, waiting.clone()));
            let key = (trace.pid_of(stack.unit), stack.object);
            sites.process.entry(key).or_default().push((site, waiting));
            if stack.frames.iter().take(6).any(|frame| frame.contains("Parker::park")) {
                sites.park.insert((stack.unit, stack.object));
            }
        }
        sites
    }

    /// Whether an object is a part of Python's lock. It has two conditions side by side: for the
    /// lock, and for the thread that had it to see that another one has it now.
    fn of_interpreter(&self, pid: u32, object: u64) -> bool {
        /// Bytes of the lock.
        const NEAR: u64 = 256;
        let near = object.saturating_sub(NEAR)..object.saturating_add(NEAR);
        object > MANY && self.interpreter.range((pid, near.start)..(pid, near.end)).next().is_some()
    }

    /// What a wait is for, if a stack of it was seen.
    fn site(&self, trace: &Trace, wait: &Wait) -> Option<Site> {
        if self.of_interpreter(trace.pid_of(wait.wakee), wait.object) {
            return Some(Site::Lock);
        }
        let exact = self.exact.get(&(wait.wakee, wait.object, wait.sleep, wait.op));
        let process = || self.process.get(&(trace.pid_of(wait.wakee), wait.object));
        let Some(found) = exact.or_else(|| (wait.object > MANY).then(process)?) else {
            // Each birth has another address. What lasts was seen.
            let [own, all] = self.machine.get(&(wait.wakee, wait.sleep, wait.op))?;
            return (own * 2 > *all).then_some(Site::Machine);
        };
        // A lock is believed only if it is what the object is mostly used for.
        let locks = found.iter().filter(|(site, _)| *site == Site::Lock).count();
        if locks * 2 > found.len() {
            return Some(Site::Lock);
        }
        found.iter().map(|(site, _)| *site).find(|site| *site != Site::Lock)
    }

    /// The functions that wait for a lock on an object of these units, each with its part.
    pub fn functions(&self, pids: &BTreeSet<u32>, object: u64) -> Vec<(String, f64)> {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        if pids.iter().any(|pid| self.of_interpreter(*pid, object)) {
            return vec![(frames::INTERPRETER[0].to_owned(), 1.0)];
        }
        let of = |pid: &u32| self.process.get(&(*pid, object)).into_iter().flatten();
        let mutex = |site: &Site| *site == Site::Lock;
        let all: Vec<&(Site, String)> = pids.iter().flat_map(of).collect();
        let any = all.iter().any(|(site, _)| mutex(site));
        for (_, function) in all.iter().filter(|(site, _)| mutex(site) || !any) {
            *count.entry(function).or_default() += 1;
        }
        let sum: usize = count.values().sum();
        let part = |n: usize| n as f64 / sum.max(1) as f64;
        count.into_iter().map(|(name, n)| (name.to_owned(), part(n))).collect()
    }
}

/// Semaphores of single threads. They look like mutexes, but one thread alone ever waits on each,
/// and other threads of the process have theirs at the same offset in a page. The thread waits
/// until another one has done something, as the followers of a group commit do.
fn own_words(trace: &Trace) -> BTreeSet<(u32, u64)> {
    /// Fewer waits may be those of a lock for which others did not happen to wait.
    const WAITS_MIN: u64 = 10;
    const PAGE: u64 = 4_096;
    let mut waits: BTreeMap<(u32, u64), BTreeMap<u32, u64>> = BTreeMap::new();
    let mutex = |wait: &&Wait| {
        wait.how == How::Futex && (wait.sleep, wait.op) == (FUTEX, WAIT_PRIVATE) && !wait.all
    };
    for wait in trace.waits.iter().filter(mutex).filter(|wait| wait.object > MANY) {
        let of = waits.entry((trace.pid_of(wait.wakee), wait.object)).or_default();
        *of.entry(wait.wakee).or_default() += wait.n;
    }
    let one = |unit: u32| trace.units.get(&unit).is_some_and(|unit| unit.alive_max <= 1);
    let mut alike: BTreeMap<(u32, u64), BTreeMap<u32, u64>> = BTreeMap::new();
    for ((pid, object), units) in waits {
        if let (1, Some((&unit, &n))) = (units.len(), units.first_key_value())
            && n >= WAITS_MIN
            && one(unit)
        {
            alike.entry((pid, object % PAGE)).or_default().insert(unit, object);
        }
    }
    let several = alike.into_iter().filter(|(_, units)| units.len() > 1);
    several.flat_map(|((pid, _), units)| units.into_values().map(move |at| (pid, at))).collect()
}

/// System calls that sleep for a device alone.
const FILE_CALLS: [i64; 12] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_rename,
    libc::SYS_unlink,
];

/// The kind of a wait.
pub fn kind(trace: &Trace, sites: &Sites, wait: &Wait) -> Kind {
    match wait.how {
        How::Futex => {
            // glibc's mutexes: also inside pthread_cond_wait, whose functions are around them then.
            // musl's conditions and semaphores wait as its mutexes do.
            let musl = sites.musl.contains(&trace.pid_of(wait.wakee));
            let mutex = wait.sleep == FUTEX && wait.op == WAIT_PRIVATE && !musl;
            let own = mutex && sites.own.contains(&(trace.pid_of(wait.wakee), wait.object));
            match (mutex && !own, wait.all, sites.site(trace, wait)) {
                (true, false, Some(Site::Machine)) => Kind::Idle,
                (true, false, _) => Kind::Lock,
                // Inside pthread_cond_signal: no resource.
                (true, true, _) => Kind::Idle,
                (false, _, Some(Site::Lock)) => Kind::Lock,
                (false, _, Some(Site::Time)) => Kind::Timer,
                (false, _, Some(Site::Machine)) => Kind::Idle,
                (false, ..) => Kind::Handover,
            }
        }
        How::Ready if trace.pid_of(wait.waker) == trace.pid_of(wait.wakee) => Kind::Ready,
        How::Ready => Kind::Socket,
        How::Signal => match sites.site(trace, wait) {
            Some(Site::Lock) => Kind::Lock,
            _ => Kind::Signal,
        },
        How::Exit => Kind::Join,
        How::Device => Kind::Device,
        How::Timer => Kind::Timer,
        // A journal's thread ends it, which is of the kernel.
        How::None if FILE_CALLS.contains(&i64::from(wait.sleep)) => Kind::Device,
        How::None => match sites.site(trace, wait) {
            Some(Site::Time) => Kind::Timer,
            _ => Kind::Idle,
        },
    }
}
