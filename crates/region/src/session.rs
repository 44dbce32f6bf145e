//! One slot for each session: its state, what it holds, and what it was served.
//!
//! The thread that serves the connection writes its slot. Other threads write only a few words.
//! `state` and `permit` are written by a thread that grants a permit, and by the daemon that lends
//! a dead thread's. `closing` is written by a thread that shuts the socket down, `class` and
//! `flags` by a reload. Counters have a single writer, so plain loads and stores suffice.

use crate::text::SharedText;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The slot is not in use.
    Free = 0,
    /// Connected; its client has not sent a request.
    Idle = 1,
    /// Its request is queued. The slot's futex word has this value meanwhile.
    Queued = 2,
    /// It runs and has a permit, or counts as if it had one while the gate only observes.
    Running = 3,
    /// It runs without a permit and is owed the next one: it owns a transaction and none was free,
    /// or it was admitted beyond P.
    Owed = 4,
    /// It runs without a permit and is owed none: it passed.
    Passing = 5,
    /// It is blocked, or its client thinks inside a transaction, and its permit is lent: see
    /// [`Pause`].
    Lent = 6,
    /// Its socket was shut down while it was queued.
    Cancelled = 7,
    /// It has run for many times the usual length, without a permit, and is owed none.
    Long = 8,
}

impl State {
    /// From the word in memory; a word that is no state counts as free.
    pub fn from_word(word: u32) -> State {
        match word {
            1 => State::Idle,
            2 => State::Queued,
            3 => State::Running,
            4 => State::Owed,
            5 => State::Passing,
            6 => State::Lent,
            7 => State::Cancelled,
            8 => State::Long,
            _ => State::Free,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Idle => "idle",
            State::Queued => "waiting",
            State::Running => "inside",
            State::Owed => "inside, owed a permit",
            State::Passing => "passing",
            State::Lent => "paused, permit lent",
            State::Cancelled => "cancelled",
            State::Long => "inside, long",
        }
    }
}

/// Why a session does not work although it has a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Pause {
    /// It works.
    #[default]
    None = 0,
    /// Its client has not sent the next statement of its transaction yet.
    Thinking = 1,
    /// It waits for a row, or for the transaction that has locked it.
    RowLock = 2,
    /// It waits for the definition of a table.
    MetadataLock = 3,
    /// It waits for a table.
    TableLock = 4,
    /// It waits for the lock on everything.
    GlobalLock = 5,
    /// It waits for a lock that clients name: GET_LOCK, an advisory lock.
    UserLock = 6,
    /// It waits for another lock.
    Lock = 7,
    /// It was told to sleep.
    Sleep = 8,
    /// Its client does not read its answer, or does not send what belongs to its request.
    Client = 9,
    /// It waits for another process: a replica, a worker.
    Process = 10,
    /// Its thread sleeps for an unknown reason.
    Asleep = 11,
    /// It waits for an answer by another connection, perhaps to another session here.
    Elsewhere = 12,
}

impl Pause {
    const ALL: [Pause; 13] = [
        Pause::None,
        Pause::Thinking,
        Pause::RowLock,
        Pause::MetadataLock,
        Pause::TableLock,
        Pause::GlobalLock,
        Pause::UserLock,
        Pause::Lock,
        Pause::Sleep,
        Pause::Client,
        Pause::Process,
        Pause::Asleep,
        Pause::Elsewhere,
    ];

    /// From the word in memory; an unknown one is none.
    pub fn from_word(word: u32) -> Pause {
        Pause::ALL.get(word as usize).copied().unwrap_or_default()
    }

    /// Whether a request is under way that waits for something.
    pub fn is_blocked(self) -> bool {
        !matches!(self, Pause::None | Pause::Thinking)
    }

    /// What it waits for, for people.
    pub fn name(self) -> &'static str {
        match self {
            Pause::None => "",
            Pause::Thinking => "its client's next statement",
            Pause::RowLock => "a row lock",
            // A server may take named locks (GET_LOCK) for locks of metadata.
            Pause::MetadataLock => "a metadata or named lock",
            Pause::TableLock => "a table lock",
            Pause::GlobalLock => "the global lock",
            Pause::UserLock => "a user lock",
            Pause::Lock => "a lock",
            Pause::Sleep => "the end of a sleep",
            Pause::Client => "its client",
            Pause::Process => "another process",
            Pause::Asleep => "something unknown",
            Pause::Elsewhere => "an answer from elsewhere",
        }
    }
}

/// Adds to a counter that only this thread writes.
pub fn bump(counter: &AtomicU32, by: u32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

fn bump64(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

fn add_float(cell: &AtomicU64, by: f64) {
    let sum = f64::from_bits(cell.load(Ordering::Relaxed)) + by;
    cell.store(sum.to_bits(), Ordering::Relaxed);
}

/// What a session has been served. All times are in nanoseconds, squares in milliseconds squared.
#[derive(Debug)]
#[repr(C)]
pub struct Served {
    // What every request writes comes first.
    /// Requests answered.
    pub requests: AtomicU64,
    /// Sum of the times inside.
    pub run_ns: AtomicU64,
    latency_ms2: AtomicU64,
    /// Longest latency (wait and time inside).
    pub latency_ns_max: AtomicU64,
    /// Turns ended: transactions, or single requests outside one.
    pub turns: AtomicU64,
    /// Sum of the waits.
    pub wait_ns: AtomicU64,
    /// Longest wait.
    pub wait_ns_max: AtomicU64,
    /// Requests that had to wait for a permit.
    pub queued: AtomicU64,
    /// Requests that the gate let pass without a permit, for whatever reason.
    pub passed: AtomicU64,
    /// Sum of the times that requests were blocked inside.
    pub blocked_ns: AtomicU64,
}

impl Served {
    /// Counts requests that waited together and were answered together. Their latency also
    /// belongs into a histogram: `Region::record` does both.
    pub(crate) fn record(&self, wait: Nanos, run: Nanos, requests: u32) {
        let latency = wait + run;
        let times = u64::from(requests);
        bump64(&self.requests, times);
        bump64(&self.run_ns, run.0.wrapping_mul(times));
        if latency.0 > self.latency_ns_max.load(Ordering::Relaxed) {
            self.latency_ns_max.store(latency.0, Ordering::Relaxed);
        }
        let ms = latency.0 as f64 * 1e-6;
        add_float(&self.latency_ms2, ms * ms * f64::from(requests));
        if wait.0 > 0 {
            self.record_wait(wait, requests);
        }
    }

    #[cold]
    fn record_wait(&self, wait: Nanos, requests: u32) {
        bump64(&self.wait_ns, wait.0.wrapping_mul(u64::from(requests)));
        if wait.0 > self.wait_ns_max.load(Ordering::Relaxed) {
            self.wait_ns_max.store(wait.0, Ordering::Relaxed);
        }
    }

    /// Counts the end of a turn.
    pub fn turn_ended(&self) {
        bump64(&self.turns, 1);
    }

    /// Counts time that a request was blocked.
    pub(crate) fn was_blocked(&self, time: Nanos) {
        bump64(&self.blocked_ns, time.0);
    }

    /// Counts a request that waited.
    pub fn was_queued(&self) {
        bump64(&self.queued, 1);
    }

    /// Counts a request that was let pass.
    pub fn was_passed(&self) {
        bump64(&self.passed, 1);
    }

    /// Sum of the latencies in milliseconds, and of their squares.
    pub fn latency_sums(&self) -> (f64, f64) {
        let word = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let sum = Nanos(word(&self.wait_ns).wrapping_add(word(&self.run_ns)));
        (sum.as_millis_f64(), f64::from_bits(word(&self.latency_ms2)))
    }

    fn clear(&self) {
        for counter in [
            &self.requests,
            &self.turns,
            &self.queued,
            &self.passed,
            &self.wait_ns,
            &self.wait_ns_max,
            &self.run_ns,
            &self.latency_ns_max,
            &self.latency_ms2,
            &self.blocked_ns,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Flag of a slot: never held, because a rule says so.
pub const FLAG_BYPASS: u32 = 1;

/// Flag of a slot: never held, because its conversation cannot be followed (encrypted, compressed,
/// a replication stream).
pub const FLAG_UNFOLLOWED: u32 = 2;

/// How a session's bytes are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Encryption {
    /// Not at all.
    #[default]
    None = 0,
    /// By TLS, and followed at the TLS library's functions.
    Read = 1,
    /// By TLS that is part of the server: only the lengths of its records are seen.
    Unread = 2,
    /// In a way that is not followed at all.
    Opaque = 3,
}

impl Encryption {
    /// From the word in a slot; an unknown one is none.
    pub fn from_word(word: u32) -> Encryption {
        match word {
            1 => Encryption::Read,
            2 => Encryption::Unread,
            3 => Encryption::Opaque,
            _ => Encryption::None,
        }
    }

    /// For people; empty for none.
    pub fn name(self) -> &'static str {
        match self {
            Encryption::None => "",
            Encryption::Read => "tls",
            Encryption::Unread => "tls, not read: generic framing",
            Encryption::Opaque => "encrypted, not followed",
        }
    }
}

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SessionSlot {
    /// A [`State`]; also the futex word on which the session's thread sleeps.
    pub state: AtomicU32,
    /// Its permit, plus one; zero for none.
    pub permit: AtomicU32,
    /// The permit that it held last: the one to try first.
    pub last_permit: AtomicU32,
    /// Its socket was shut down: never queue it again.
    pub closing: AtomicU32,
    /// See [`FLAG_BYPASS`].
    pub flags: AtomicU32,
    /// What it holds: transaction and session locks, as bits of the protocol's module.
    pub holding: AtomicU32,
    /// Requests issued in the current turn.
    pub used: AtomicU32,
    /// Requests that the current turn is good for.
    pub quota: AtomicU32,
    /// The current turn was given by the policy, which wants to hear of its end.
    pub accounted: AtomicU32,
    /// Requests that ended with a permit held: what the stall detector watches. Never reset, so
    /// that connections which come and go are no progress.
    pub progress: AtomicU32,
    /// Thread that last served it.
    pub thread: AtomicU32,
    /// Index of its class.
    pub class: AtomicU32,
    /// When the request in hand arrived.
    pub arrived_ns: AtomicU64,
    /// When the request in hand was admitted.
    pub admitted_ns: AtomicU64,
    /// When the turn's first request arrived.
    pub turn_arrived_ns: AtomicU64,
    /// When its latest pause began: its client began to think, or it was blocked.
    pub paused_ns: AtomicU64,
    /// A [`Pause`]: why it does not work, whether or not its permit is lent. After a block it
    /// keeps the reason until the request ends.
    pub pause: AtomicU32,
    /// How long its client usually thinks between two statements of a transaction, in
    /// microseconds (moving average).
    pub gap_us: AtomicU16,
    /// How long its requests usually run, in microseconds (moving average). Requests that were
    /// blocked do not count.
    pub run_us: AtomicU16,
    /// Counters; the first of them end the slot's second cache line, and that is all that most
    /// requests touch beside one bucket.
    pub served: Served,
    /// How long the session has not worked in its turn.
    pub turn_paused_ns: AtomicU64,
    /// Version of the rules by which `class` was found.
    pub class_epoch: AtomicU32,
    /// Number of the reason why it was last let pass, plus one.
    pub pass_reason: AtomicU32,
    /// Process that serves it, or gives back what a dead one held; zero while the slot has no
    /// session.
    pub pid: AtomicU32,
    /// Counts the sessions that had this slot.
    pub generation: AtomicU32,
    /// Local TCP port of the connection; zero on a Unix socket.
    pub local_port: AtomicU32,
    /// Its request in hand was put into the queue, and is to be recorded.
    pub(crate) waits: AtomicU32,
    /// Sessions that waited when its latest held request began to wait.
    pub(crate) ahead: AtomicU32,
    /// Sessions inside then, plus one; zero for none.
    pub(crate) behind: [AtomicU16; crate::held::BEHIND],
    /// How long its thread usually sleeps on a condition, in microseconds (moving average).
    pub asleep_us: AtomicU16,
    /// An [`Encryption`].
    pub encryption: AtomicU32,
    /// When it connected.
    pub connected_ns: AtomicU64,
    /// Database account.
    pub account: SharedText,
    /// Database (schema) named at connection.
    pub database: SharedText,
    /// Application name that the client gave.
    pub application: SharedText,
    /// Client's address, without the port.
    pub address: SharedText,
}

headworks_policy::layout!(Served {
    requests,
    run_ns,
    latency_ms2,
    latency_ns_max,
    turns,
    wait_ns,
    wait_ns_max,
    queued,
    passed,
    blocked_ns,
});
headworks_policy::layout!(SessionSlot {
    state,
    permit,
    last_permit,
    closing,
    flags,
    holding,
    used,
    quota,
    accounted,
    progress,
    thread,
    class,
    arrived_ns,
    admitted_ns,
    turn_arrived_ns,
    paused_ns,
    pause,
    gap_us,
    run_us,
    served,
    turn_paused_ns,
    class_epoch,
    pass_reason,
    pid,
    generation,
    local_port,
    waits,
    ahead,
    behind,
    asleep_us,
    encryption,
    connected_ns,
    account,
    database,
    application,
    address,
});

const _: () = {
    assert!(core::mem::offset_of!(SessionSlot, admitted_ns) + 8 <= 64);
    let hot = core::mem::offset_of!(SessionSlot, served) + core::mem::offset_of!(Served, wait_ns);
    assert!(hot <= 128, "two lines for most requests");
    assert!(
        size_of::<SessionSlot>() <= 512,
        "with its place in the policy, 576 bytes a connection"
    );
};

impl SessionSlot {
    /// The state as it is right now.
    pub fn state(&self) -> State {
        State::from_word(self.state.load(Ordering::Acquire))
    }

    /// Sets the state; only for the thread that serves the session.
    pub fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Moves from one state to another unless another thread has moved it.
    pub fn move_state(&self, from: State, to: State) -> bool {
        self.state
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Makes a claimed slot blank for a new session. Only for its claimer.
    pub fn reset(&self) {
        for word in [
            &self.permit,
            &self.closing,
            &self.class,
            &self.class_epoch,
            &self.flags,
            &self.holding,
            &self.used,
            &self.quota,
            &self.accounted,
            &self.pass_reason,
            &self.local_port,
            &self.encryption,
            &self.ahead,
            &self.waits,
            &self.pause,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for session in &self.behind {
            session.store(0, Ordering::Relaxed);
        }
        for time in [
            &self.arrived_ns,
            &self.admitted_ns,
            &self.turn_arrived_ns,
            &self.paused_ns,
            &self.turn_paused_ns,
        ] {
            time.store(0, Ordering::Relaxed);
        }
        self.gap_us.store(0, Ordering::Relaxed);
        self.asleep_us.store(0, Ordering::Relaxed);
        self.run_us.store(0, Ordering::Relaxed);
        for text in [&self.account, &self.database, &self.application, &self.address] {
            text.set(b"");
        }
        bump(&self.generation, 1);
        self.served.clear();
    }
}
