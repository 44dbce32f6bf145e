//! How an admission ended, and why a request passes.

/// How an admission ended. In every case the request may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A permit was free.
    AtOnce,
    /// It was queued, and got one.
    Waited,
    /// It passed without a permit, for this reason.
    Passed(PassReason),
}

/// Why a request passes without a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PassReason {
    /// The gate only observes, or is off.
    NotEnforcing = 1,
    /// The connection bypasses the gate.
    Bypass = 2,
    /// The daemon sent no heartbeat.
    Stale = 3,
    /// It was queued for the longest hold.
    HoldLimit = 4,
    /// The gate was opened.
    GateOpened = 5,
    /// The connection was shut down.
    Cancelled = 6,
    /// The region's lock was busy for too long.
    LockBusy = 7,
    /// The statement is one that always passes.
    Statement = 8,
    /// It owns a transaction or a lock.
    Owner = 9,
    /// Its thread serves other sessions, too.
    SharedThread = 10,
}

impl PassReason {
    /// From the word in a slot.
    pub fn from_word(word: u32) -> Option<PassReason> {
        Some(match word {
            1 => PassReason::NotEnforcing,
            2 => PassReason::Bypass,
            3 => PassReason::Stale,
            4 => PassReason::HoldLimit,
            5 => PassReason::GateOpened,
            6 => PassReason::Cancelled,
            7 => PassReason::LockBusy,
            8 => PassReason::Statement,
            9 => PassReason::Owner,
            10 => PassReason::SharedThread,
            _ => return None,
        })
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            PassReason::NotEnforcing => "the gate's mode holds no request",
            PassReason::Bypass => "this connection is never held",
            PassReason::Stale => "the daemon sent no heartbeat",
            PassReason::HoldLimit => "it was held for the longest time allowed",
            PassReason::GateOpened => "the gate was opened",
            PassReason::Cancelled => "its connection was shut down",
            PassReason::LockBusy => "the region's lock was busy for too long",
            PassReason::Statement => "its statement always passes",
            PassReason::Owner => "it owns a transaction or a lock",
            PassReason::SharedThread => "its thread serves others, too, who would be held with it",
        }
    }
}
