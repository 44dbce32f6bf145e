//! Stages that send only some of their answers to clients themselves, and hand the others to a
//! stage that sends them. Their queue cannot tell which of its requests will use the network.

use crate::infer::Architecture;
use crate::infer::arrows::{End, SHARE_MIN};

/// Whether a stage does so. One that receives clients' requests uses the network for each of them.
pub(super) fn only_some(found: &Architecture, stage: usize) -> bool {
    let receives = found.requests.iter().any(|(at, _)| *at == stage);
    let mut past = found.past.iter().filter(|past| (past.from, past.to) == (stage, End::Clients));
    !receives && past.any(|past| past.share() <= 1.0 - SHARE_MIN)
}
