//! Links of which arrows are made.

use super::EVENTS_MIN;
use crate::infer::sockets::Sockets;
use crate::infer::stages::{self, Stages};
use crate::infer::waits::{Kind, Link, Links, Object};
use std::collections::BTreeMap;

/// Those by which one thread hands over to another or answers it, as far as that can be told.
pub(super) fn links<'l>(stages: &Stages, links: &'l Links, sockets: &Sockets) -> Vec<&'l Link> {
    links
        .all
        .iter()
        .filter(|link| matches!(link.kind, Kind::Handover | Kind::Ready) && link.waker.is_some())
        .filter(|link| !machine(stages, link) && !carried(stages, link))
        .filter(|link| !bystander(links, sockets, link))
        .collect()
}

/// Wake-ups by waker and sleeper: on what outlives a request, and all.
pub(super) fn pairs(links: &[&Link]) -> BTreeMap<(usize, usize), (u64, u64)> {
    let mut pairs: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    for link in links.iter().filter(|link| link.n >= EVENTS_MIN) {
        let Some(waker) = link.waker else { continue };
        let pair = pairs.entry((waker, link.wakee)).or_default();
        pair.0 += if matches!(link.object, Object::Shared(_)) { link.n } else { 0 };
        pair.1 += link.n;
    }
    pairs
}

/// Collectors and compilers of a virtual machine are woken by each thread that allocates: that is
/// no request.
pub(super) fn machine(stages: &Stages, link: &Link) -> bool {
    let is = |stage: usize| stages.stages[stage].title == stages::MACHINE;
    is(link.wakee) || link.waker.is_some_and(is)
}

/// Who wakes a carrier of virtual threads may hand over a request or an answer.
fn carried(stages: &Stages, link: &Link) -> bool {
    stages.stages[link.wakee].title == crate::infer::carriers::VIRTUAL
}

/// Whether the waker only was at hand: while it sends, the kernel takes in what clients sent to the
/// sleeper.
fn bystander(links: &Links, sockets: &Sockets, link: &Link) -> bool {
    let from_outside: u64 = links
        .all
        .iter()
        .filter(|other| other.kind == Kind::Socket && other.wakee == link.wakee)
        .filter(|other| other.address == link.address)
        .map(|other| other.n)
        .sum();
    let sends = link.waker.is_some_and(|waker| sockets.sends.contains(&waker));
    link.kind == Kind::Ready && sends && from_outside >= 2 * link.n
}
