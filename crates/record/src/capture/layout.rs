//! What the recorder's two sides share: `bpf/recorder.h` in Rust.

use aya::Pod;

/// Numbers of units from which the kernel's side gives them to newborn threads.
pub const BORN_FIRST: u32 = 6144;
/// Units.
pub const UNITS: u32 = 8192;
/// Bytes of a copied stack.
pub const STACK_BYTES: usize = 16384;
/// What the kernel's side counts as lost, in its order.
pub const LOSSES: [&str; 8] = [
    "kinds of waits (the table was full)",
    "stacks (the ring was full)",
    "sleeps of threads without state (no memory)",
    "connections (the table was full)",
    "objects of waits (counted as many)",
    "births of threads (the table was full)",
    "entries of the time line (the ring was full)",
    "locks that were looked at (the table was full)",
];

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    pub on: u32,
    pub epoch: u32,
    pub generation: u32,
    pub stacks: u32,
    pub follow: u32,
    pub start_offset: u32,
    pub events: u32,
    pub pad: u32,
    pub opened: u64,
    pub counted: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EdgeKey {
    pub waker: u32,
    pub wakee: u32,
    pub object: u64,
    pub sleep_nr: i16,
    pub wake_nr: i16,
    pub sleep_op: u16,
    pub how: u8,
    pub all: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Edge {
    pub n: u64,
    pub off_ns: u64,
    pub queued_ns: u64,
    pub max_ns: u64,
    pub histogram: [u32; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    pub run_ns: u64,
    pub queued_ns: u64,
    pub asleep_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub births: u64,
    pub deaths: u64,
    pub dead_cpu_ns: u64,
    pub dead_rchar: u64,
    pub dead_wchar: u64,
    pub dead_read: u64,
    pub dead_write: u64,
    pub read_bios: u64,
    pub read_bio_bytes: u64,
    pub write_bios: u64,
    pub write_bio_bytes: u64,
    pub cache_misses: u64,
    pub objects: u64,
    pub creator: u32,
    pub pid: u32,
    pub start: u64,
    pub vtable: u64,
    pub name: [u8; 16],
    pub began: [u8; 16],
    pub parent: u32,
    pub names: u32,
    pub lost: u64,
    pub idle_wakes: u64,
    pub idle_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketKey {
    pub group: u32,
    pub local: u32,
    pub remote: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub own: u64,
    pub peer: u64,
    pub family: u16,
    pub sends: u16,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub n: u64,
    pub bytes: u64,
    pub turns: u64,
    pub after: u64,
    pub after_ns: u64,
    pub sizes: [u32; 16],
    pub starts: [u32; 16],
}

/// A thread that runs again, and what it did before.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    pub off: u64,
    pub woken: u64,
    pub on: u64,
    pub object: u64,
    pub tid: u32,
    pub tgid: u32,
    pub group: u32,
    pub waker: u32,
    pub waker_tid: u32,
    pub cpu: u32,
    pub sleep_nr: i16,
    pub wake_nr: i16,
    pub sleep_op: u16,
    pub how: u8,
    pub blocked: u8,
}

/// Calls that took a lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    pub group: u32,
    pub pad: u32,
    pub object: u64,
}

/// A copied stack without its bytes, which follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StackHead {
    pub tid: u32,
    pub tgid: u32,
    pub group: u32,
    pub nr: i16,
    pub op: u16,
    pub object: u64,
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    pub born: u32,
    pub bytes: u32,
}

// SAFETY: plain numbers in the C layout without padding: each field is aligned by those before it.
unsafe impl Pod for Control {}
// SAFETY: as above.
unsafe impl Pod for EdgeKey {}
// SAFETY: as above.
unsafe impl Pod for Edge {}
// SAFETY: as above.
unsafe impl Pod for Group {}
// SAFETY: as above.
unsafe impl Pod for SocketKey {}
// SAFETY: as above.
unsafe impl Pod for Traffic {}
// SAFETY: as above.
unsafe impl Pod for CallKey {}
// SAFETY: as above.
unsafe impl Pod for StackHead {}
// SAFETY: as above.
unsafe impl Pod for Event {}

impl Event {
    /// A record of the ring of events.
    pub fn of(record: &[u8]) -> Option<Event> {
        let bytes = record.get(..size_of::<Event>())?;
        // SAFETY: `bytes` has as many bytes as an Event, for which all bytes are valid; the read
        // needs no alignment.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<Event>()) })
    }
}

impl StackHead {
    /// The head and the copied bytes of a record of the ring.
    pub fn split(record: &[u8]) -> Option<(StackHead, &[u8])> {
        let size = size_of::<StackHead>();
        let head = record.get(..size)?;
        // SAFETY: `head` has as many bytes as a StackHead, for which all bytes are valid; the read
        // needs no alignment.
        let head = unsafe { std::ptr::read_unaligned(head.as_ptr().cast::<StackHead>()) };
        let bytes = (head.bytes as usize).min(STACK_BYTES);
        Some((head, record.get(size..size + bytes)?))
    }
}
