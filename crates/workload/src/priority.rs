//! Processor priority for a client that stands for a separate machine.

/// As `nice` counts.
const PRIORITY: i32 = -15;

/// Gives this thread priority over others. It is for clients with pauses whose latency is measured.
/// On a separate machine they would never wait for a processor that the server or other clients
/// use. Returns whether that worked. Without privileges it fails, and latencies then include more
/// of the client.
pub fn go_ahead() -> bool {
    // On Linux, only for the calling thread.
    rustix::process::setpriority_process(None, PRIORITY).is_ok()
}
