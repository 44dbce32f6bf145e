//! The processor's priority of a client that stands for a machine of its own.

/// As `nice` counts.
const PRIORITY: i32 = -15;

/// Puts this thread ahead of others: clients with pauses, whose latency is measured, would on their
/// own machine never wait for a processor that the server or the other clients have. Returns
/// whether that is so; refused to who is not privileged, whose latencies then have more of the
/// client in them.
pub fn go_ahead() -> bool {
    // Linux: of the calling thread alone.
    rustix::process::setpriority_process(None, PRIORITY).is_ok()
}
