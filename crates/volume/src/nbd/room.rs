//! Room for a request: at the device, and for its answer until that has gone out.

use super::backend::{Room, Rooms};
use super::link::Link;
use super::request::{Ask, Job};
use std::sync::Arc;

/// What a connection may have open without room for its answers.
const ANSWERS_FREE_BYTES: u64 = 256 << 10;

/// Waits for room for a request. Replies go out meanwhile.
pub(super) fn admit(link: &Arc<Link>, stalled: &mut bool, bytes: u64) -> Option<Room> {
    link.terms.volume.admit(bytes, &mut || send_elsewhere(link, stalled))
}

/// Replies are sent by another thread while this one waits.
fn send_elsewhere(link: &Arc<Link>, stalled: &mut bool) {
    if std::mem::take(stalled) {
        link.pass_turn();
    } else {
        link.flush_elsewhere();
    }
}

/// Waits for the room that a request needs, if it has none at the device yet. That of an answer
/// comes first: who waits for it must hold up no one at the device.
pub(super) fn rooms(
    link: &Arc<Link>,
    stalled: &mut bool,
    job: &Job,
    device: Option<Room>,
) -> Rooms {
    let mut answer = None;
    if job.ask == Ask::Read && link.load().bytes + job.len > ANSWERS_FREE_BYTES {
        answer = link.terms.volume.reserve(job.len, &mut || send_elsewhere(link, stalled));
    }
    let device = device.or_else(|| match job.ask {
        Ask::Note | Ask::Cache | Ask::BlockStatus { .. } => None,
        Ask::Read | Ask::Write => admit(link, stalled, job.len),
        _ => admit(link, stalled, 0),
    });
    Rooms { device, answer }
}
