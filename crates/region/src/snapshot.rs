//! A copy of the region, for `status`, `top` and the daemon.
//!
//! Taken without stopping any thread: each number is exact for some moment during the copying, but
//! not all for the same one.

use crate::control::Settings;
use crate::entered::PassReason;
use crate::layout::{COUNTERS, Region};
use crate::protocol::Protocol;
use crate::session::{Encryption, Pause, SessionSlot, State};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;
use headworks_policy::histogram::BUCKETS;

/// One session.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Index of its slot.
    pub session: u32,
    /// Which session of this slot it is.
    pub generation: u32,
    /// What it does.
    pub state: State,
    /// Index of its class.
    pub class: u32,
    /// Version of the rules by which the class was found.
    pub class_epoch: u32,
    /// It is never held.
    pub bypass: bool,
    /// Open transaction and session locks, as bits of the protocol's module.
    pub holding: u32,
    /// Requests issued in the current turn.
    pub used: u32,
    /// Why it last passed.
    pub pass_reason: Option<PassReason>,
    /// Process and thread that serve it.
    pub thread: (u32, u32),
    /// Account, database, application name, client address.
    pub identity: [String; 4],
    /// Local TCP port; zero on a Unix socket.
    pub local_port: u32,
    /// Behind whom its latest held request waits or waited, and how many waited beside it.
    pub behind: ([Option<u32>; crate::held::BEHIND], u32),
    /// How its bytes are encrypted.
    pub encryption: Encryption,
    /// When it connected.
    pub connected: Nanos,
    /// When the current request arrived.
    pub arrived: Nanos,
    /// When the current request was admitted.
    pub admitted: Nanos,
    /// Why it does not work at the moment, and since when.
    pub pause: (Pause, Nanos),
    /// Counters; latencies in milliseconds in `latency_ms` (sum, sum of squares).
    pub totals: Totals,
    /// Sum of the latencies in milliseconds, and of their squares.
    pub latency_ms: (f64, f64),
    /// Longest wait.
    pub wait_max: Nanos,
    /// Longest latency.
    pub latency_max: Nanos,
}

/// Counters of a session or a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests answered.
    pub requests: u64,
    /// Turns ended.
    pub turns: u64,
    /// Requests that waited.
    pub queued: u64,
    /// Requests that passed without a permit.
    pub passed: u64,
    /// Sum of the waits.
    pub wait: Nanos,
    /// Sum of the times inside.
    pub run: Nanos,
    /// The part of it that requests were blocked.
    pub blocked: Nanos,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.requests += other.requests;
        self.turns += other.turns;
        self.queued += other.queued;
        self.passed += other.passed;
        self.wait += other.wait;
        self.run += other.run;
        self.blocked += other.blocked;
    }
}

/// One class: its sessions, and totals that include those that ended.
#[derive(Clone, Debug)]
pub struct ClassView {
    /// Its index.
    pub class: u32,
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// Its sessions share the weight.
    pub shared: bool,
    /// Fraction of its requests that may take so long at most, if it has a target.
    pub target: Option<(f64, Nanos)>,
    /// Its connected sessions.
    pub sessions: u32,
    /// Of them, inside.
    pub inside: u32,
    /// Of them, waiting.
    pub waiting: u32,
    /// Counters.
    pub totals: Totals,
    /// Waits, by bucket of `headworks_policy::histogram`.
    pub wait: Box<[u64; BUCKETS]>,
    /// Latencies, likewise.
    pub latency: Box<[u64; BUCKETS]>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub now: Nanos,
    /// The settings.
    pub settings: Settings,
    /// What the server speaks.
    pub protocol: Protocol,
    /// Sessions that the stall detector admits beyond P.
    pub bonus: u32,
    /// The daemon sends no heartbeat.
    pub stale: bool,
    /// Process of the daemon; zero if there never was one.
    pub daemon: u32,
    /// Process of the database.
    pub server: u32,
    /// That process uses the region of another version: see
    /// [`crate::control::Heartbeat::ungoverned`].
    pub ungoverned: bool,
    /// All connected sessions.
    pub sessions: Vec<SessionView>,
    /// Every class that has a name.
    pub classes: Vec<ClassView>,
    /// Name, meaning and value.
    pub counters: Vec<(&'static str, &'static str, u64)>,
}

impl Region {
    /// Copies everything out.
    pub fn snapshot(&self, now: Nanos) -> Snapshot {
        let mut snapshot = self.figures(now);
        for view in &mut snapshot.sessions {
            let Some(slot) = self.session(view.session) else { break };
            // Unless it belongs to another session by now.
            if word(&slot.generation) != view.generation {
                continue;
            }
            view.identity = [&slot.account, &slot.database, &slot.application, &slot.address]
                .map(|text| text.get().to_display());
        }
        snapshot
    }

    /// Copies everything but the sessions' names: with thousands of sessions most of the time goes
    /// there.
    pub fn figures(&self, now: Nanos) -> Snapshot {
        let mut classes: Vec<ClassView> = Vec::new();
        for (class, slot) in self.classes.iter().enumerate() {
            let name = slot.name.get();
            if name.bytes().is_empty() {
                continue;
            }
            let departed = &slot.departed;
            let mut view = ClassView {
                class: class as u32,
                name: name.to_display(),
                weight: f64::from(word(&slot.weight)) / 1000.0,
                shared: word(&slot.shared) != 0,
                target: (word(&slot.target_us) > 0).then(|| {
                    let quantile = f64::from(word(&slot.target_ppm).min(1_000_000)) / 1e6;
                    (quantile, Nanos::from_micros(u64::from(word(&slot.target_us))))
                }),
                sessions: 0,
                inside: 0,
                waiting: 0,
                totals: Totals {
                    requests: long(&departed.requests),
                    turns: long(&departed.turns),
                    queued: long(&departed.queued),
                    passed: long(&departed.passed),
                    wait: Nanos(long(&departed.wait_ns)),
                    run: Nanos(long(&departed.run_ns)),
                    blocked: Nanos(long(&departed.blocked_ns)),
                },
                wait: Box::new([0; BUCKETS]),
                latency: Box::new([0; BUCKETS]),
            };
            self.histograms.add_to(class, self.high_water(), &mut view.wait, &mut view.latency);
            classes.push(view);
        }
        let mut sessions = Vec::new();
        for session in 0..self.high_water() {
            let Some(slot) = self.session(session) else { break };
            if slot.state() == State::Free {
                continue;
            }
            let view = session_view(session, slot);
            if let Some(class) = classes.iter_mut().find(|class| class.class == view.class) {
                class.sessions += 1;
                class.inside += u32::from(is_inside(view.state));
                class.waiting += u32::from(view.state == State::Queued);
                class.totals.add(&view.totals);
            }
            sessions.push(view);
        }
        Snapshot {
            now,
            settings: self.control.settings(),
            protocol: self.protocol(),
            bonus: self.control.bonus(),
            stale: self.heartbeat.stale(now),
            daemon: word(&self.heartbeat.daemon),
            server: word(&self.heartbeat.server),
            ungoverned: self.heartbeat.ungoverned(),
            sessions,
            classes,
            counters: COUNTERS
                .iter()
                .map(|(counter, name, help)| (*name, *help, self.counter(*counter)))
                .collect(),
        }
    }

    /// Requests that ended with a permit, over all sessions that ever were: what the stall detector
    /// watches. Sessions that need no permit (administrators) do not show that permits move.
    pub fn completed(&self) -> u64 {
        (0..self.high_water())
            .filter_map(|session| self.session(session))
            .map(|slot| u64::from(word(&slot.progress)))
            .sum()
    }

    /// Turns that ended, requests that were answered and the time that these were inside, over all
    /// sessions that ever were: what the tuner of P watches. A session that leaves may count twice
    /// or not at all for a moment.
    pub fn work(&self) -> Totals {
        let served = (0..self.high_water())
            .filter_map(|session| self.session(session))
            .filter(|slot| slot.state() != State::Free)
            .map(|slot| (&slot.served.turns, &slot.served.requests, &slot.served.run_ns));
        let departed = self.classes.iter().map(|class| &class.departed);
        let departed = departed.map(|gone| (&gone.turns, &gone.requests, &gone.run_ns));
        let mut work = Totals::default();
        for (turns, requests, run_ns) in served.chain(departed) {
            work.turns = work.turns.wrapping_add(long(turns));
            work.requests = work.requests.wrapping_add(long(requests));
            work.run.0 = work.run.0.wrapping_add(long(run_ns));
        }
        work
    }

    /// Sessions with a current request, queued or running.
    pub fn active(&self) -> u32 {
        let active = |session| {
            self.session(session).is_some_and(|slot| {
                matches!(slot.state(), State::Queued | State::Lent) || is_inside(slot.state())
            })
        };
        (0..self.high_water()).filter(|&session| active(session)).count() as u32
    }

    /// Queued sessions.
    pub fn waiting(&self) -> u32 {
        let waiting =
            |session| self.session(session).is_some_and(|slot| slot.state() == State::Queued);
        (0..self.high_water()).filter(|&session| waiting(session)).count() as u32
    }
}

/// Whether a session in this state has been admitted.
pub fn is_inside(state: State) -> bool {
    matches!(state, State::Running | State::Owed | State::Passing | State::Long)
}

fn word(cell: &AtomicU32) -> u32 {
    cell.load(Ordering::Relaxed)
}

fn long(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

fn session_view(session: u32, slot: &SessionSlot) -> SessionView {
    let served = &slot.served;
    SessionView {
        session,
        generation: word(&slot.generation),
        state: slot.state(),
        class: word(&slot.class),
        class_epoch: word(&slot.class_epoch),
        bypass: word(&slot.flags) != 0,
        holding: word(&slot.holding),
        used: word(&slot.used),
        pass_reason: PassReason::from_word(word(&slot.pass_reason)),
        thread: (word(&slot.pid), word(&slot.thread)),
        identity: Default::default(),
        local_port: word(&slot.local_port),
        behind: slot.waits_behind(),
        encryption: Encryption::from_word(word(&slot.encryption)),
        connected: Nanos(long(&slot.connected_ns)),
        arrived: Nanos(long(&slot.arrived_ns)),
        admitted: Nanos(long(&slot.admitted_ns)),
        pause: (slot.pause(), Nanos(long(&slot.paused_ns))),
        totals: Totals {
            requests: long(&served.requests),
            turns: long(&served.turns),
            queued: long(&served.queued),
            passed: long(&served.passed),
            wait: Nanos(long(&served.wait_ns)),
            run: Nanos(long(&served.run_ns)),
            blocked: Nanos(long(&served.blocked_ns)),
        },
        latency_ms: served.latency_sums(),
        wait_max: Nanos(long(&served.wait_ns_max)),
        latency_max: Nanos(long(&served.latency_ns_max)),
    }
}
