//! Stages that send only some of their answers to clients themselves, and hand the others to a
//! stage that sends them. Their queue cannot tell which of its requests will use the network.

use crate::infer::Architecture;
use crate::infer::arrows::{End, Meaning, SHARE_MIN};
use headworks_tad::model::Confidence;

/// Whether a stage does so. One that receives clients' requests uses the network for each of them.
pub(super) fn only_some(found: &Architecture, stage: usize) -> bool {
    let receives = |stage: usize| found.requests.iter().any(|(at, _)| *at == stage);
    let sent = |stage: usize| -> u64 {
        let ends = (End::Stage(stage), End::Clients);
        let own = found.arrows.iter().filter(|arrow| (arrow.from, arrow.to) == ends);
        own.map(|arrow| arrow.n).sum()
    };
    let own = sent(stage);
    let handed = found.arrows.iter().filter_map(|arrow| match (arrow.from, arrow.to) {
        (End::Stage(from), End::Stage(to)) if from == stage && to != stage => {
            let sure = arrow.meaning == Meaning::Data && arrow.sure > Confidence::Guess;
            (sure && !receives(to)).then_some(to)
        }
        _ => None,
    });
    let others: u64 = handed.map(sent).sum();
    let least = SHARE_MIN * (own + others) as f64;
    own > 0 && others > 0 && !receives(stage) && own.min(others) as f64 >= least
}
