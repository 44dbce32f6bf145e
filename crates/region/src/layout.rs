//! Layout of the region.
//!
//! All zero bytes are a valid, empty region, so a new file needs only its header. A process that
//! maps a region checks magic, version and size first. Builds with different layouts never touch
//! each other's memory.

use crate::control::{Control, Heartbeat, PERMITS};
use crate::declared_locks::DeclaredLockTable;
use crate::held::HeldRing;
use crate::histograms::Histograms;
use crate::known_servers::KnownServers;
use crate::lock::RobustLock;
use crate::rules::RuleTable;
use crate::session::SessionSlot;
use crate::text::SharedText;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use headworks_policy::counterfactual::ObservedTurn;
use headworks_policy::gate::Gate;
use headworks_policy::layout::{Layout, mix};
use headworks_policy::ramp::Ramp;
use headworks_policy::{CLASSES, Nanos, SESSIONS};

/// First bytes of every region.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hdwrks\x00\x01");

/// Raise it when a field changes its meaning but not its position.
const MEANING: u64 = 11;

/// Computed from the layout ([`headworks_policy::layout`]) and from the meaning of its fields.
pub const VERSION: u32 = {
    let hash = mix(<Region as Layout>::HASH, MEANING);
    (hash ^ (hash >> 32)) as u32
};

/// Turns that the ring of a dry run keeps.
pub const RING: usize = 1 << 15;

/// The third panic within this time opens the gate.
const PANICS_WITHIN: Nanos = Nanos::from_millis(60_000);

/// Who made the region.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) protocol: AtomicU32,
    pub(crate) bytes: AtomicU64,
    pub(crate) created_ns: AtomicU64,
    pub(crate) pooled: AtomicU32,
    /// PID namespace of the process that made it, as [`crate::map::own_pid_ns`] has it.
    pub(crate) pid_ns: AtomicU64,
}

/// Events and reasons that are counted for the whole gate. They are rare, or happen only while
/// sessions are queued. So a shared counter costs nothing on the path below P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)] // the texts are in COUNTERS
pub enum Counter {
    SlotTableFull,
    HoldLimit,
    Stale,
    GateOpen,
    LockBusy,
    LockInherited,
    Cancelled,
    Lent,
    LentBlocked,
    Outgrown,
    Overdraft,
    Ahead,
    Stalls,
    Reaped,
    Reclaimed,
    OpaqueTls,
    TlsUnread,
    OpaqueCompressed,
    OpaqueUnknown,
    Administrator,
    Replication,
    FdTooLarge,
    ConcurrentUse,
    Foreign,
    SharedThreads,
    UnseenAnswers,
    UnseenReads,
    Panic,
    PanicOpened,
}

/// Name and meaning of each [`Counter`], in order: read by status, metrics and documentation.
pub const COUNTERS: &[(Counter, &str, &str)] = &[
    (
        Counter::SlotTableFull,
        "slot_table_full",
        "connections that pass because the table of sessions is full",
    ),
    (
        Counter::HoldLimit,
        "hold_limit",
        "requests that passed because they were queued for the longest hold",
    ),
    (Counter::Stale, "stale", "requests that passed because the daemon sent no heartbeat"),
    (Counter::GateOpen, "gate_open", "queued requests that passed because the gate was opened"),
    (
        Counter::LockBusy,
        "lock_busy",
        "requests that passed because the region's lock was busy for too long",
    ),
    (
        Counter::LockInherited,
        "lock_inherited",
        "times the region's lock was taken over from a dead thread",
    ),
    (
        Counter::Cancelled,
        "cancelled",
        "queued requests released because their connection was shut down",
    ),
    (
        Counter::Lent,
        "lent",
        "permits lent because the session's client was thinking inside a transaction",
    ),
    (
        Counter::LentBlocked,
        "lent_blocked",
        "permits lent because the session was blocked, by a lock for example",
    ),
    (
        Counter::Outgrown,
        "outgrown",
        "turns that ran for many times the usual length and gave up their permit",
    ),
    (
        Counter::Overdraft,
        "overdraft",
        "transactions that went on above P because no permit was free",
    ),
    (Counter::Ahead, "ahead", "sessions admitted above P because their class had none running"),
    (
        Counter::Stalls,
        "stalls",
        "times nothing completed although sessions were queued, so that one more was admitted",
    ),
    (
        Counter::Reaped,
        "reaped",
        "sessions whose thread or process ended without closing the connection",
    ),
    (
        Counter::Reclaimed,
        "reclaimed",
        "permits recovered after a thread was killed while it granted them",
    ),
    (Counter::OpaqueTls, "opaque_tls", "connections that pass because they are encrypted"),
    (
        Counter::TlsUnread,
        "tls_unread",
        "encrypted connections followed by the lengths of TLS records alone, because the TLS library is part of the server",
    ),
    (
        Counter::OpaqueCompressed,
        "opaque_compressed",
        "connections that pass because the protocol is compressed",
    ),
    (
        Counter::OpaqueUnknown,
        "opaque_unknown",
        "connections that pass because their bytes fit no known protocol",
    ),
    (Counter::Administrator, "administrator", "connections that pass because a rule says so"),
    (
        Counter::Replication,
        "replication",
        "connections that pass because they stream a replication log",
    ),
    (
        Counter::FdTooLarge,
        "fd_too_large",
        "connections that pass because their descriptor is too large for the table",
    ),
    (
        Counter::ConcurrentUse,
        "concurrent_use",
        "calls passed through because two threads used a connection at once",
    ),
    (
        Counter::Foreign,
        "foreign",
        "calls passed through in a child process that does not serve the connection",
    ),
    (
        Counter::SharedThreads,
        "shared_threads",
        "times a thread served several connections at once, so that no request is queued any more (generic framing)",
    ),
    (
        Counter::UnseenAnswers,
        "unseen_answers",
        "connections whose server answers by calls that are not hooked (generic framing)",
    ),
    (
        Counter::UnseenReads,
        "unseen_reads",
        "connections that pass because their server reads by calls that are not hooked (generic framing)",
    ),
    (
        Counter::Panic,
        "panic",
        "errors inside the library; the connection or process with the error passes from then on",
    ),
    (
        Counter::PanicOpened,
        "panic_opened",
        "times the gate was opened for all because errors inside the library repeated",
    ),
];

/// A free or held permit, on its own cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Permit {
    pub(crate) word: AtomicU32,
}

/// The word that every session reads: how many permits are needed, by queued sessions, by owed
/// ones, and for those beyond P. Nothing else is on its cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Pending {
    pub(crate) count: AtomicU32,
}

/// An upper bound of the slots in use. Written by connections that begin or end, so it does not
/// share a cache line with what sessions read.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Extent {
    pub(crate) high_water: AtomicU32,
    /// Panics that were caught.
    pub(crate) panics: AtomicU32,
    /// When the last two were.
    pub(crate) panicked_ns: [AtomicU64; 2],
    /// How long sleeps on a condition last, by the latest session that has learnt otherwise, in
    /// microseconds. For sessions that have not slept yet.
    pub(crate) asleep_us: AtomicU16,
}

/// Which slots are taken, one bit each: read by newcomers instead of the slots. Only a hint, as a
/// slot's own words decide; the daemon corrects it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Taken(pub(crate) [AtomicU64; SESSIONS / 64]);

/// Sums of the sessions that left a class, written under the lock.
#[derive(Debug)]
#[repr(C)]
pub struct Departed {
    /// Sessions.
    pub sessions: AtomicU64,
    /// As in `Served`.
    pub requests: AtomicU64,
    /// As in `Served`.
    pub turns: AtomicU64,
    /// As in `Served`.
    pub queued: AtomicU64,
    /// As in `Served`.
    pub passed: AtomicU64,
    /// As in `Served`.
    pub wait_ns: AtomicU64,
    /// As in `Served`.
    pub run_ns: AtomicU64,
    /// As in `Served`.
    pub blocked_ns: AtomicU64,
}

/// One class of sessions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ClassSlot {
    /// Name; empty for a class that does not exist.
    pub name: SharedText,
    /// Weight in thousandths.
    pub weight: AtomicU32,
    /// Not zero: its sessions share the weight.
    pub shared: AtomicU32,
    /// Latency that a percentile of its requests may have, in microseconds; zero for no target.
    pub target_us: AtomicU32,
    /// That percentile, in millionths.
    pub target_ppm: AtomicU32,
    /// Not zero: no client waits for its sessions' I/O (the scheduler `rcp`).
    pub background: AtomicU32,
    /// Of sessions that left.
    pub departed: Departed,
}

#[derive(Debug)]
#[repr(C)]
struct RingEntry {
    session: AtomicU32,
    class: AtomicU32,
    requests: AtomicU32,
    /// Low half of the position, plus one: tells a reader whether the entry is the one it wants.
    stamp: AtomicU32,
    arrived_ns: AtomicU64,
    ended_ns: AtomicU64,
    paused_ns: AtomicU64,
}

/// Ended turns, for the replay of a dry run. Lossy: a reader that is too slow misses some.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ring {
    head: AtomicU64,
    entries: [RingEntry; RING],
}

impl Ring {
    /// Appends a turn.
    pub fn push(&self, turn: &ObservedTurn) {
        let at = self.head.fetch_add(1, Ordering::Relaxed);
        let entry = &self.entries[at as usize % RING];
        entry.stamp.store(0, Ordering::Release);
        entry.session.store(turn.session, Ordering::Relaxed);
        entry.class.store(turn.class, Ordering::Relaxed);
        entry.requests.store(turn.requests, Ordering::Relaxed);
        entry.arrived_ns.store(turn.arrived.0, Ordering::Relaxed);
        entry.ended_ns.store(turn.ended.0, Ordering::Relaxed);
        entry.paused_ns.store(turn.paused.0, Ordering::Relaxed);
        entry.stamp.store((at as u32).wrapping_add(1), Ordering::Release);
    }

    /// Hands the turns since position `from` to `take` and returns the next position.
    pub fn drain(&self, from: u64, mut take: impl FnMut(ObservedTurn)) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        let from = from.max(head.saturating_sub(RING as u64)).min(head);
        for at in from..head {
            let entry = &self.entries[at as usize % RING];
            let wanted = (at as u32).wrapping_add(1);
            if entry.stamp.load(Ordering::Acquire) != wanted {
                continue;
            }
            let turn = ObservedTurn {
                session: entry.session.load(Ordering::Relaxed),
                class: entry.class.load(Ordering::Relaxed),
                requests: entry.requests.load(Ordering::Relaxed),
                arrived: Nanos(entry.arrived_ns.load(Ordering::Relaxed)),
                ended: Nanos(entry.ended_ns.load(Ordering::Relaxed)),
                paused: Nanos(entry.paused_ns.load(Ordering::Relaxed)),
            };
            if entry.stamp.load(Ordering::Acquire) == wanted {
                take(turn);
            }
        }
        head
    }
}

/// The region. See the module.
#[derive(Debug)]
#[repr(C)]
pub struct Region {
    pub(crate) header: Header,
    /// Settings.
    pub control: Control,
    /// The daemon's heartbeat.
    pub heartbeat: Heartbeat,
    pub(crate) pending: Pending,
    pub(crate) lock: LockLine,
    pub(crate) extent: Extent,
    counters: Counters,
    /// Rules that map connections to classes.
    pub rules: RuleTable,
    /// Locks that the profile declares.
    pub declared_locks: DeclaredLockTable,
    /// Servers one of which is to be started.
    pub known_servers: KnownServers,
    /// Classes.
    pub classes: [ClassSlot; CLASSES],
    pub(crate) permits: [Permit; PERMITS],
    pub(crate) gate: GateCell,
    /// Turns for the replay of a dry run.
    pub ring: Ring,
    pub(crate) held: HeldRing,
    pub(crate) taken: Taken,
    pub(crate) sessions: [SessionSlot; SESSIONS],
    pub(crate) histograms: Histograms,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Counters([AtomicU64; COUNTERS.len()]);

/// The lock, on a line that only those use who take it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LockLine {
    pub(crate) lock: RobustLock,
    /// Busy permits beyond P, after P was lowered; read and written under the lock.
    pub(crate) excess: AtomicU32,
    /// No permit beyond P and below this one is busy, or it is being given back.
    pub(crate) excess_from: AtomicU32,
    /// A [`Ramp`]: how those leave who wait when the gate opens.
    ramp: AtomicU64,
}

/// The policy's state, only touched under the lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct GateCell(pub(crate) UnsafeCell<Gate>);

headworks_policy::layout!(Header { magic, version, protocol, bytes, created_ns, pooled, pid_ns });
headworks_policy::layout!(Permit { word });
headworks_policy::layout!(Taken { 0 });
headworks_policy::layout!(Pending { count });
headworks_policy::layout!(Extent { high_water, panics, panicked_ns, asleep_us });
headworks_policy::layout!(Departed {
    sessions,
    requests,
    turns,
    queued,
    passed,
    wait_ns,
    run_ns,
    blocked_ns,
});
headworks_policy::layout!(ClassSlot {
    name,
    weight,
    shared,
    target_us,
    target_ppm,
    background,
    departed
});
headworks_policy::layout!(RingEntry {
    session,
    class,
    requests,
    stamp,
    arrived_ns,
    ended_ns,
    paused_ns,
});
headworks_policy::layout!(Ring { head, entries });
headworks_policy::layout!(Counters { 0 });
headworks_policy::layout!(LockLine { lock, excess, excess_from, ramp });
headworks_policy::layout!(GateCell { 0 });
headworks_policy::layout!(Region {
    header,
    control,
    heartbeat,
    pending,
    lock,
    extent,
    counters,
    rules,
    declared_locks,
    known_servers,
    classes,
    permits,
    gate,
    ring,
    held,
    taken,
    sessions,
    histograms,
});

// SAFETY: the cell is only dereferenced by `admission`, with the region's lock held.
unsafe impl Sync for GateCell {}

impl Region {
    /// Counts an event.
    pub fn count(&self, counter: Counter) {
        self.counters.0[counter as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A panic was caught. Says whether the gate is to be opened for all: it is the third within a
    /// minute.
    pub fn note_panic(&self, now: Nanos) -> bool {
        self.count(Counter::Panic);
        let nth = self.extent.panics.fetch_add(1, Ordering::Relaxed);
        let place = &self.extent.panicked_ns[nth as usize % 2];
        let before = Nanos(place.swap(now.0.max(1), Ordering::Relaxed));
        before > Nanos(0) && now.since(before) < PANICS_WITHIN
    }

    /// Value of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.0[counter as usize].load(Ordering::Relaxed)
    }

    /// The slot of a session; `None` for an index that no region can have.
    pub fn session(&self, session: u32) -> Option<&SessionSlot> {
        self.sessions.get(session as usize)
    }

    /// Slots that were ever used, as an upper bound of where to look.
    pub fn high_water(&self) -> u32 {
        self.extent.high_water.load(Ordering::Relaxed).min(SESSIONS as u32)
    }

    /// How long a session still waits that leaves with all who wait at `now`.
    pub(crate) fn leave_in_turn(&self, now: Nanos) -> Nanos {
        let ramp = &self.lock.ramp;
        let mut word = ramp.load(Ordering::Relaxed);
        loop {
            let before = Ramp::from_word(word);
            let (after, pause) = before.next(now, self.pending(), self.control.limit());
            let order = Ordering::Relaxed;
            match ramp.compare_exchange_weak(word, after.word(), order, order) {
                Ok(_) => return pause,
                Err(other) => word = other,
            }
        }
    }

    /// Permits that are needed: if zero, a free one may be taken at once.
    pub fn pending(&self) -> u32 {
        self.pending.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_described_in_order() {
        for (at, (counter, name, help)) in COUNTERS.iter().enumerate() {
            assert_eq!(*counter as usize, at);
            assert!(!name.is_empty() && !help.is_empty());
        }
    }

    #[test]
    fn the_third_panic_within_a_minute_is_one_too_many() {
        let path =
            std::ffi::CString::new(format!("/dev/shm/headworks-panics-{}", std::process::id()));
        let path = path.unwrap();
        let region = crate::Mapping::create(&path, None).unwrap();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        let at = |seconds: u64| region.note_panic(Nanos::from_millis(1_000 * (1_000 + seconds)));
        let noted = [0, 30, 70, 80, 141, 142, 143].map(at);
        assert_eq!(noted, [false, false, false, true, false, false, true]);
        assert_eq!(region.counter(Counter::Panic), 7);
    }

    #[test]
    fn lines_that_are_written_apart_lie_apart() {
        assert_eq!(size_of::<Permit>(), 64);
        assert_eq!(size_of::<SessionSlot>() % 64, 0);
        let policy = size_of::<Gate>().div_ceil(SESSIONS);
        assert!(size_of::<SessionSlot>() + policy <= 576, "memory for each connection: {policy}");
        let starts = [
            core::mem::offset_of!(Region, heartbeat),
            core::mem::offset_of!(Region, pending),
            core::mem::offset_of!(Region, lock),
            core::mem::offset_of!(Region, extent),
            core::mem::offset_of!(Region, counters),
        ];
        assert!(starts.iter().all(|start| start % 64 == 0), "{starts:?}");
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 64), "{starts:?}");
        // All threads read the first. A thread that connects, or has the lock, writes the others.
        let lines = [
            core::mem::offset_of!(Region, pending.count) / 64,
            core::mem::offset_of!(Region, lock.excess) / 64,
            core::mem::offset_of!(Region, extent.high_water) / 64,
        ];
        assert!(lines[0] < lines[1] && lines[1] < lines[2], "{lines:?}");
    }
}
