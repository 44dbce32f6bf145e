//! How a system shares as it is. A finding says where no policy could share. A system without one
//! can be scheduled, and still does not share where a queue has a policy that does not.

use super::queues::{Source, sources};
use super::words::{join, plural};
use crate::model::{Policy, Tad};

/// What keeps clients from sharing as the system is, in words; empty if nothing is known.
pub(super) fn notes(tad: &Tad) -> Vec<String> {
    let contended: Vec<Source> =
        sources(tad).into_iter().filter(|source| !source.resources(tad).is_empty()).collect();
    let of = |policy| by_policy(tad, &contended, policy);
    [Policy::Fifo, Policy::Priority, Policy::Stride].into_iter().filter_map(of).collect()
}

fn by_policy(tad: &Tad, contended: &[Source], policy: Policy) -> Option<String> {
    let effect = match policy {
        Policy::Fifo => "in order of arrival: a client that sends more gets more",
        Policy::Priority => {
            "by priority: a client of a higher weight can leave nothing for the others"
        }
        Policy::Stride => "by number of requests: a client with larger ones gets more",
        Policy::Drf | Policy::Drr => return None,
    };
    let (mut names, mut fixed) = (Vec::new(), Vec::new());
    for source in contended {
        let first = &tad.stages[source.stages[0]];
        let of_queue = source.shared.map_or(first.queue.policy, |queue| queue.policy);
        // That its order must be kept is a finding.
        if of_queue != policy || first.queue.ordered {
            continue;
        }
        names.push(source.shared.map_or(first.name.as_str(), |queue| queue.name.as_str()));
        if source.shared.is_none() && !first.queue.pluggable {
            fixed.push(first.name.as_str());
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut text = format!(
        "the {} of {} {} {effect} (policy \"{}\"; \"drf\" shares)",
        plural(names.len(), "queue", "queues"),
        join(&names),
        plural(names.len(), "serves", "serve"),
        policy.name(),
    );
    if !fixed.is_empty() {
        let takes = plural(fixed.len(), "takes", "take");
        text += &format!("; {} {takes} no other policy before make-pluggable", join(&fixed));
    }
    Some(text)
}
