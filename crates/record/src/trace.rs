//! A recording: what was seen, as sums. One JSON object a line, each with its `kind`.
//!
//! It holds names of threads, functions and system calls, addresses of locks, ports and counts. It
//! holds no statement, key or argument of a request, except in copies of stacks ([`Copied`]), which
//! are kept only if that was asked for. [`SCHEMA`] changes when a field's meaning does.

mod activity;
mod copied;
mod error;
mod join;
mod lines;
mod monitor;
mod probes;
mod quota;
mod scheduled;

pub use activity::Activity;
pub use copied::{Copied, Maps};
pub use error::TraceError;
pub use monitor::Monitor;
pub use probes::{Call, Handed, Held, Injection};
pub use quota::Quota;
pub use scheduled::Scheduled;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// First line of each file.
pub const SCHEMA: &str = "headworks-recording/1";

/// The unit of a thread that is not known, or of no thread.
pub const UNKNOWN: u32 = 0;
/// The unit of processes that are not recorded.
pub const OUTSIDE: u32 = 1;
/// The object that stands for many, each made for one request.
pub const MANY: u64 = 1;

/// Where, when and how it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the machine.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `ebpf` or `proc`.
    pub mode: String,
    /// Start, seconds since 1970.
    pub started_s: u64,
    /// Length of the recording.
    pub seconds: f64,
    /// Seconds of that in which events were counted.
    pub counted_s: f64,
    /// Processors of the machine.
    pub processors: u32,
    /// Fraction of the processors that recording may take.
    pub budget: f64,
    /// Fraction that the kernel's side took, from the kernel's own statistics.
    pub taken: f64,
    /// Fraction that this program took.
    pub own: f64,
    /// Context switches of the machine a second, while events were counted.
    pub switches_per_s: f64,
    /// Processors that programs of this machine took which are not recorded and send to those that
    /// are: clients.
    #[serde(default)]
    pub clients_cpu: f64,
    /// Threads of these that waited for a processor, on average.
    #[serde(default)]
    pub clients_waiting: f64,
    /// Processors that were idle on average, if it is known.
    #[serde(default)]
    pub idle: Option<f64>,
    /// What control groups bounded the processes to, if all of them were bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Seconds in which calls of locks were counted ([`Call`]).
    #[serde(default)]
    pub probed_s: f64,
    /// When [`Activity`] was noted, from the start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments_ms: Vec<u64>,
    /// What could not be seen, in words.
    pub missing: Vec<String>,
}

/// An address space.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process number.
    pub pid: u32,
    /// Of its parent.
    pub parent: u32,
    /// When it began, in the kernel's ticks: another process may get its number later.
    #[serde(default)]
    pub started: u64,
    /// Base name of its program.
    pub program: String,
    /// Name of its first thread.
    pub name: String,
    /// Title (first word of the command line, or all of a title that the process wrote).
    pub title: String,
    /// It runs a Java virtual machine.
    pub java: bool,
    /// TCP ports on which it listens.
    pub listens: Vec<u16>,
    /// Most connections to these ports that were seen open at one time. Zero: not known.
    #[serde(default)]
    pub open: usize,
    /// Connections to these ports that were not accepted yet, on average.
    #[serde(default)]
    pub backlog: f64,
    /// It listens on a Unix socket.
    #[serde(default)]
    pub listens_unix: bool,
    /// Most connections to these that were open at a look.
    #[serde(default)]
    pub open_unix: usize,
    /// Its machine, if several were recorded ([`Trace::host_of`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// A thread that was seen alive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Thread number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// The unit under which its events are counted.
    pub unit: u32,
    /// The unit in which it was born, while the recorder watched.
    #[serde(default)]
    pub born: u32,
    /// Names that it had.
    pub names: Vec<String>,
    /// Processor time, bytes read and written, and device reads and writes during the recording.
    pub cpu_ns: u64,
    /// Bytes that it read, from the page cache or not.
    pub read_chars: u64,
    /// Bytes that it wrote.
    pub written_chars: u64,
    /// Bytes that came from a device.
    pub device_read: u64,
    /// Bytes that it made dirty.
    pub device_written: u64,
    /// When it began, as [`Process::started`]. Zero: not known.
    #[serde(default)]
    pub started: u64,
    /// How often it fell asleep during the recording. Zero: not known.
    #[serde(default)]
    pub sleeps: u64,
}

/// Threads whose events are counted together: one thread, or threads known to do the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Number.
    pub unit: u32,
    /// Process of the first of them.
    pub pid: u32,
    /// Time running, ready and asleep, in the counted time.
    pub run_ns: u64,
    /// See there.
    pub queued_ns: u64,
    /// See there.
    pub asleep_ns: u64,
    /// Sleeps, and switches that were none.
    pub sleeps: u64,
    /// See there.
    pub preempted: u64,
    /// Threads that were born into it and that ended.
    pub births: u64,
    /// See there.
    pub deaths: u64,
    /// Most threads at one time.
    pub alive_max: u32,
    /// Processor time of threads that ended.
    pub dead_cpu_ns: u64,
    /// Requests to block devices in its threads' own context: reads, their bytes, writes.
    pub bios: [u64; 4],
    /// Pages read into the page cache.
    pub cache_misses: u64,
    /// The unit whose threads create these.
    pub creator: u32,
    /// Function that its threads begin with.
    pub start: Option<String>,
    /// What the start function was given: a type, if that is known.
    pub argument: Option<String>,
    /// Name of a thread of it that ended.
    pub name: String,
    /// All its threads have that name.
    #[serde(default)]
    pub named: bool,
    /// Sleeps and transfers of it that were lost.
    #[serde(default)]
    pub lost: u64,
    /// Wake-ups onto an idle processor, and the time from these until threads ran.
    #[serde(default)]
    pub idle_wakes: (u64, u64),
}

/// How a sleep ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// A timeout, or an event that is not known.
    #[default]
    None,
    /// A wake-up of the same futex.
    Futex,
    /// A write that made a descriptor ready.
    Ready,
    /// A signal.
    Signal,
    /// The end of a thread.
    Exit,
    /// A device.
    Device,
    /// A sleep that the thread asked for.
    Timer,
}

/// Sleeps of one kind, and who ended them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Unit that ended the sleep; [`UNKNOWN`] if nothing that is known did.
    pub waker: u32,
    /// Unit that slept.
    pub wakee: u32,
    /// What it slept on: a futex's address, a descriptor, [`MANY`] or 0.
    pub object: u64,
    /// System call of the sleeper.
    pub sleep: i16,
    /// Operation of its futex.
    pub op: u16,
    /// System call of the waker, or -1.
    pub wake: i16,
    /// How it ended.
    pub how: How,
    /// The waker woke all that wait.
    pub all: bool,
    /// Number.
    pub n: u64,
    /// From falling asleep to running.
    pub off_ns: u64,
    /// Part of that in which the thread was ready.
    pub queued_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// By powers of two of microseconds.
    pub histogram: Vec<u32>,
}

/// Calls that a thread was in when it fell asleep.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// Thread.
    pub tid: u32,
    /// Its unit at that time.
    pub unit: u32,
    /// As in [`Wait`].
    pub object: u64,
    /// As in [`Wait`].
    pub sleep: i16,
    /// As in [`Wait`].
    pub op: u16,
    /// The frames go down to the thread's beginning.
    pub whole: bool,
    /// Functions, the innermost first.
    pub frames: Vec<String>,
    /// How often this was seen.
    pub n: u64,
}

/// What a unit sent or received on one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// Unit.
    pub unit: u32,
    /// It sent (else it received).
    pub sends: bool,
    /// Own and other end: `127.0.0.1:3306`, or the number of a Unix socket.
    pub local: String,
    /// See there.
    pub remote: String,
    /// Calls.
    pub n: u64,
    /// Bytes.
    pub bytes: u64,
    /// Messages that began: receives that followed a send, or were the first; sends that followed a
    /// receive, were the first, or were of another thread than the send before. Of sends, older
    /// recordings have none.
    pub turns: u64,
    /// Messages by the sizes of transfers, where several may be under way at a time. Each part of a
    /// message counts if the parts have the same size, below 8 KiB. Older recordings have none.
    #[serde(default)]
    pub messages: u64,
    /// Changes of direction, and the time since the transfer before. Of sends that is the time
    /// that an answer took, of receives the time that the other end took.
    #[serde(default)]
    pub after: u64,
    /// See there.
    #[serde(default)]
    pub after_ns: u64,
}

/// Events that were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// What of.
    pub what: String,
    /// How many.
    pub n: u64,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is its type")]
pub enum Record {
    Head(Head),
    Process(Process),
    Thread(Thread),
    Unit(Unit),
    Activity(Activity),
    Wait(Wait),
    Stack(Stack),
    Socket(Socket),
    Call(Call),
    Injection(Injection),
    Handed(Handed),
    Held(Held),
    Monitor(Monitor),
    Scheduled(Scheduled),
    Loss(Loss),
    Maps(Maps),
    Copied(Copied),
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// How it was made.
    pub head: Head,
    /// The same of further machines, whose recordings were joined to it.
    pub joined: Vec<Head>,
    /// Address spaces, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Threads, by number.
    pub threads: BTreeMap<u32, Thread>,
    /// Units, by number.
    pub units: BTreeMap<u32, Unit>,
    /// Threads over time.
    pub activity: Vec<Activity>,
    /// Sleeps.
    pub waits: Vec<Wait>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    /// Transfers.
    pub sockets: Vec<Socket>,
    /// Calls of locks.
    pub calls: Vec<Call>,
    /// What stops of threads did.
    pub injections: Vec<Injection>,
    /// Hand-overs that an agent counted.
    pub handed: Vec<Handed>,
    /// Locks for which threads of a program wait that does nothing.
    pub held: Vec<Held>,
    /// Waits that virtual machines' flight recorders tell.
    pub monitors: Vec<Monitor>,
    /// Stages that plug-ins schedule.
    pub scheduled: Vec<Scheduled>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What processes had mapped, if copies of stacks are kept.
    pub maps: Vec<Maps>,
    /// Copies of stacks.
    pub copied: Vec<Copied>,
}

impl Trace {
    /// Notes a loss.
    pub fn lose(&mut self, what: &str, n: u64) {
        self.losses.push(Loss { what: what.to_owned(), n });
    }

    /// Waits that something handed over, or made ready, may have ended. Those of glibc's mutexes
    /// are left out.
    pub fn handovers(&self) -> impl Iterator<Item = &Wait> {
        /// `FUTEX_WAIT` with `FUTEX_PRIVATE_FLAG`, whatever the clock.
        const MUTEX: u16 = 128;
        const REALTIME: u16 = 256;
        self.waits.iter().filter(|wait| match wait.how {
            How::Futex => wait.op & !REALTIME != MUTEX,
            How::Ready => self.units.contains_key(&wait.waker),
            _ => false,
        })
    }

    /// The process of a unit.
    pub fn pid_of(&self, unit: u32) -> u32 {
        self.units.get(&unit).map_or(0, |unit| unit.pid)
    }
}
