//! Requests, answers, and who is blocked by whom.
//!
//! Breadth first from the stages at which requests come in: the first object by which a stage is
//! woken is its queue, and what wakes it there feeds it. What wakes it on another object answers
//! it: the stage is blocked until then. So is a stage that receives an answer by a socket.

mod between;
mod by_sockets;
mod itself;

use super::event_loops;
use super::sockets::Sockets;
use super::stages::Stages;
use super::waits::{Kind, Link, Links, Object};
use crate::trace::Trace;
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use by_sockets::socket_arrow;

/// End of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Clients that are not recorded.
    Clients,
    /// A stage.
    Stage(usize),
}

/// What an arrow means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// Requests go from one to the other.
    Data,
    /// The first is blocked until the other answers.
    Blocking,
}

/// An arrow.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrow {
    /// From.
    pub from: End,
    /// To.
    pub to: End,
    /// Meaning.
    pub meaning: Meaning,
    /// How it was seen.
    pub by: By,
    /// Number of events: a lower bound, as who is awake needs no wake-up.
    pub n: u64,
    /// Of the sleeper's wake-ups by others.
    pub share: f64,
    /// Time that the sleeper slept until then.
    pub off_ns: u64,
    /// How sure it is.
    pub sure: Confidence,
    /// Stops of the other stage's threads made the waits longer, or did not.
    pub confirmed: Option<bool>,
}

/// What showed an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Wake-ups on an object of the process.
    Wake,
    /// A pipe or an event descriptor.
    Ready,
    /// A socket.
    Socket,
    /// Creation of threads.
    Birth,
    /// Calls were counted, by an agent or by probes.
    Probe,
    /// The stage answers clients, so requests come to it, although nothing was seen to wake it.
    Answer,
    /// A lock that the other one has, in a program that does nothing.
    Held,
    /// Nothing: it stands for what was not seen.
    Nothing,
}

impl Arrow {
    /// It is how requests come to a stage.
    pub fn feeds(&self, stage: usize) -> bool {
        self.meaning == Meaning::Data && self.to == End::Stage(stage) && self.by != By::Nothing
    }
}

/// Fewer events than this are noise.
pub const EVENTS_MIN: u64 = 3;
/// An arrow of fewer events is a guess.
const LIKELY_MIN: u64 = 10;
/// And a smaller part of a stage's wake-ups.
pub const SHARE_MIN: f64 = 0.02;

/// A stage answers another if it was handed at least one request for so many of its wake-ups.
const HANDED: u64 = 10;
/// A stage's waits are for answers if its waits for requests last so many times as long.
const SHORT: f64 = 3.0;

/// The queues of a stage.
#[derive(Clone, Debug, Default)]
pub struct Home(BTreeSet<Way>);

impl Home {
    /// Whether an object is a queue of the stage.
    pub fn contains(&self, kind: Kind, object: Object) -> bool {
        self.0.contains(&Way::Object(kind, object))
    }
}

/// How a stage's queue is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Object(Kind, Object),
    Socket,
    Birth,
}

struct Search<'l> {
    stages: &'l Stages,
    links: Vec<&'l Link>,
    /// Wake-ups of each stage by others.
    woken: Vec<u64>,
    /// Wake-ups by waker and sleeper: on what outlives a request, and all.
    pairs: BTreeMap<(usize, usize), (u64, u64)>,
    home: Vec<Home>,
    seen: Vec<bool>,
    parent: Vec<Option<usize>>,
    queue: VecDeque<usize>,
    data: BTreeMap<(usize, usize, By), (u64, u64, bool)>,
    blocking: BTreeMap<(usize, usize, By), (u64, u64, bool)>,
    born: BTreeMap<(usize, usize), u64>,
    /// Event loops: they are blocked by nothing.
    loops: BTreeSet<usize>,
}

/// Finds arrows, and each stage's queues.
pub fn find(
    trace: &Trace,
    stages: &Stages,
    links: &Links,
    sockets: &Sockets,
) -> (Vec<Arrow>, Vec<Home>) {
    let count = stages.stages.len();
    let between = between::links(stages, links, sockets);
    let mut woken = vec![0; count];
    for link in links.all.iter().filter(|link| matters(link.kind)) {
        woken[link.wakee] += link.n;
    }
    let mut search = Search {
        stages,
        pairs: between::pairs(&between),
        links: between,
        woken,
        home: vec![Home::default(); count],
        seen: vec![false; count],
        parent: vec![None; count],
        queue: VecDeque::new(),
        data: BTreeMap::new(),
        blocking: BTreeMap::new(),
        born: births(trace, stages),
        loops: event_loops::find(trace, stages),
    };
    search.visit_roots(links, sockets);
    search.rest(links, sockets);
    let mut arrows = search.arrows(sockets);
    arrows.extend(search.wait_for_themselves());
    by_sockets::add(stages, sockets, &search.loops, &mut arrows);
    by_sockets::outside_wakes(stages, links, &mut arrows);
    (arrows, search.home)
}

fn matters(kind: Kind) -> bool {
    matches!(kind, Kind::Handover | Kind::Ready | Kind::Socket | Kind::Signal)
}

/// Threads that a stage creates while it is recorded: one for each request or connection.
fn births(trace: &Trace, stages: &Stages) -> BTreeMap<(usize, usize), u64> {
    let mut born = BTreeMap::new();
    let mut add = |creator: u32, unit: u32, n: u64| {
        if let (Some(&from), Some(&to)) = (stages.of.get(&creator), stages.of.get(&unit))
            && from != to
            && stages.stages[to].on_demand
        {
            *born.entry((from, to)).or_default() += n;
        }
    };
    for unit in trace.units.values().filter(|unit| unit.births > 0) {
        add(unit.creator, unit.unit, unit.births);
    }
    born
}

/// How sure an arrow is: by its number, its part, what was seen, and its ends.
fn judge(n: u64, share: f64, seen: bool, ends: &[Confidence]) -> Confidence {
    let own = if n >= 30 && share >= 0.05 && seen {
        Confidence::Certain
    } else if n >= LIKELY_MIN {
        Confidence::Likely
    } else {
        Confidence::Guess
    };
    ends.iter().fold(own, |least, end| least.min(*end))
}

impl<'l> Search<'l> {
    fn visit_roots(&mut self, links: &Links, sockets: &Sockets) {
        let from_outside = links
            .all
            .iter()
            .filter(|link| link.outside && link.kind == Kind::Socket && link.n >= EVENTS_MIN)
            .map(|link| link.wakee);
        let roots: Vec<usize> =
            sockets.requests.iter().map(|(stage, _)| *stage).chain(from_outside).collect();
        // A stage that reads an answer of a server that is not recorded is no root.
        let servers: BTreeSet<usize> = sockets.servers.keys().map(|(stage, _)| *stage).collect();
        for root in roots {
            let accepts = sockets.requests.iter().any(|(stage, _)| *stage == root);
            if !self.seen[root] && (accepts || !servers.contains(&root)) {
                self.home[root].0.insert(Way::Socket);
                self.come_to(root, None);
            }
        }
        for (&(from, to), &n) in &self.born.clone() {
            self.home[to].0.insert(Way::Birth);
            self.add_data(from, to, By::Birth, n, 0, true);
        }
        self.visit_all(sockets);
    }

    /// Stages that no request of a client reaches: those that act on their own first. A stage that
    /// is woken on what lasts has a queue; one that is woken on what is made for each request has
    /// answers, and others have requests of it. Of two that wake each other, the one that answers
    /// clients is the last: it makes room in a queue that is full.
    fn rest(&mut self, links: &Links, sockets: &Sockets) {
        let makes_room = |search: &Self, stage: usize| {
            let mut others = (0..search.seen.len()).filter(|other| !search.seen[*other]);
            let each_other = |other: usize| {
                search.queues(stage, other).min(search.queues(other, stage)) >= EVENTS_MIN
            };
            sockets.replies.contains_key(&stage)
                && others.any(|other| other != stage && each_other(other))
        };
        while let Some(link) = self.seldom_idle(makes_room) {
            let from = link.waker.unwrap_or(link.wakee);
            self.follow(from, link.wakee, link);
            self.visit_all(sockets);
            if !self.seen[link.wakee] {
                break;
            }
        }
        let mut alone: Vec<(bool, u64, u64, usize)> = (0..self.seen.len())
            .map(|stage| {
                let own = |link: &&Link| link.wakee == stage && !matters(link.kind);
                let sleeps: u64 = links.all.iter().filter(own).map(|link| link.n).sum();
                let lasts = |link: &&&Link| link.wakee == stage && link.object != Object::Many;
                let queued: u64 = self.links.iter().filter(lasts).map(|link| link.n).sum();
                let part = |n: u64| n * 1_000 / (self.woken[stage] + sleeps).max(1);
                (makes_room(self, stage), part(queued), part(self.woken[stage]), stage)
            })
            .collect();
        alone.sort_unstable();
        for (.., stage) in alone {
            if !self.seen[stage] {
                self.come_to(stage, None);
                self.visit_all(sockets);
            }
        }
    }

    /// Number of times that a stage wakes another.
    fn wakes(&self, from: usize, to: usize) -> u64 {
        self.pairs.get(&(from, to)).map_or(0, |pair| pair.1)
    }

    /// The same, on what outlives a request: its queue, perhaps.
    fn queues(&self, from: usize, to: usize) -> u64 {
        self.pairs.get(&(from, to)).map_or(0, |pair| pair.0)
    }

    /// How requests come to a stage that is seldom idle: most of its wake-ups are answers of stages
    /// that it wakes, and those of its queue are less than [`SHARE_MIN`].
    fn seldom_idle(&self, makes_room: impl Fn(&Self, usize) -> bool) -> Option<&'l Link> {
        let unreached = |stage: &usize| !self.seen[*stage];
        let answered = |stage: usize| {
            let others = (0..self.seen.len()).filter(|other| *other != stage).filter(unreached);
            let answer = others.filter(|other| self.queues(stage, *other) >= EVENTS_MIN);
            let answers: u64 = answer.map(|other| self.wakes(other, stage)).sum();
            answers * 2 > self.woken[stage]
        };
        let apart = |link: &Link| {
            let same = |other: &&&Link| {
                (other.wakee, other.object) == (link.wakee, link.object)
                    && other.waker != Some(link.wakee)
                    && other.n >= EVENTS_MIN
            };
            let mut wakers = self.links.iter().filter(same).filter_map(|other| other.waker);
            wakers.all(|waker| self.seen[waker])
        };
        let ways = self.links.iter().copied().filter(|link| {
            matches!(link.object, Object::Shared(_))
                && link.n >= EVENTS_MIN
                && unreached(&link.wakee)
                && self.home[link.wakee].0.is_empty()
                && !link.waker.as_ref().is_none_or(unreached)
                && answered(link.wakee)
                && (link.n >= LIKELY_MIN || !makes_room(self, link.wakee))
                && apart(link)
        });
        ways.max_by_key(|link| link.n)
    }

    fn come_to(&mut self, stage: usize, parent: Option<usize>) {
        if !self.seen[stage] {
            self.seen[stage] = true;
            self.parent[stage] = parent;
            self.queue.push_back(stage);
        }
    }

    fn visit_all(&mut self, sockets: &Sockets) {
        while let Some(stage) = self.queue.pop_front() {
            self.visit(stage, sockets);
        }
    }

    fn visit(&mut self, from: usize, sockets: &Sockets) {
        let mut out: Vec<&Link> =
            self.links.iter().copied().filter(|link| link.waker == Some(from)).collect();
        // A queue is an object that lasts: those made for each request come last.
        out.sort_by_key(|link| {
            (
                link.object == Object::Many,
                !matches!(link.object, Object::Shared(_)),
                std::cmp::Reverse(link.n),
            )
        });
        for link in out {
            let to = link.wakee;
            let part = |n: u64| n as f64 / self.woken[to].max(1) as f64;
            let noise = || part(link.n) < SHARE_MIN && part(self.alike(from, link)) < SHARE_MIN;
            if to == from || link.n < EVENTS_MIN || noise() {
                continue;
            }
            self.follow(from, to, link);
        }
        for (a, b) in self.born.keys().copied().collect::<Vec<_>>() {
            if a == from {
                self.come_to(b, Some(a));
            }
        }
        for (&(a, b), sent) in &sockets.passed {
            if a == from && sent.calls >= EVENTS_MIN {
                self.home[b].0.insert(Way::Socket);
                self.come_to(b, Some(a));
            }
        }
    }

    /// Wake-ups that mean the same as a link's: one object made for each request has a small part
    /// of a stage's answers.
    fn alike(&self, from: usize, link: &Link) -> u64 {
        let queue = |link: &Link| self.home[link.wakee].contains(link.kind, link.object);
        if !self.seen[link.wakee] || queue(link) {
            return link.n;
        }
        let same = |other: &&&Link| {
            (other.waker, other.wakee, other.kind) == (Some(from), link.wakee, link.kind)
        };
        self.links.iter().filter(same).filter(|other| !queue(other)).map(|other| other.n).sum()
    }

    fn follow(&mut self, from: usize, to: usize, link: &Link) {
        let home = Way::Object(link.kind, link.object);
        let by = if link.kind == Kind::Ready { By::Ready } else { By::Wake };
        let first = !self.seen[to] && self.home[to].0.is_empty();
        if first && link.object != Object::Many {
            self.home[to].0.insert(home);
            self.come_to(to, Some(from));
            self.add_data(from, to, by, link.n, link.off_ns, link.seen);
        } else if by == By::Ready && self.loops.contains(&to)
            || self.home[to].0.contains(&home)
                && !self.descends(from, to)
                && !self.answers(from, to, link)
        {
            self.come_to(to, Some(from));
            self.add_data(from, to, by, link.n, link.off_ns, link.seen);
        } else {
            let entry = self.blocking.entry((to, from, by)).or_default();
            entry.0 += link.n;
            entry.1 += link.off_ns;
            entry.2 |= link.seen;
        }
    }

    fn add_data(&mut self, from: usize, to: usize, by: By, n: u64, off_ns: u64, seen: bool) {
        let entry = self.data.entry((from, to, by)).or_default();
        entry.0 += n;
        entry.1 += off_ns;
        entry.2 |= seen;
    }

    /// Whether a stage answers another that hands over to it. A thread of a virtual machine parks
    /// on one address, for its next request as for an answer. Where both stages do, a wait for an
    /// answer is much shorter than one for a request.
    fn answers(&self, from: usize, to: usize, link: &Link) -> bool {
        let handed = |shared: bool| -> u64 {
            let all = self.links.iter().filter(|other| {
                (other.waker, other.wakee) == (Some(to), from)
                    && other.object != Object::Many
                    && (!shared || matches!(other.object, Object::Shared(_)))
            });
            all.map(|other| other.n).sum()
        };
        matches!(link.object, Object::Own(_))
            && (handed(true) * HANDED >= link.n
                || handed(false) * HANDED >= link.n && self.is_short(link))
    }

    /// Whether waits are much shorter than those on the same object that others end.
    fn is_short(&self, link: &Link) -> bool {
        let same = |other: &&&Link| {
            (other.wakee, other.kind, other.object) == (link.wakee, link.kind, link.object)
                && other.waker != link.waker
        };
        let others = self.links.iter().filter(same);
        let (n, off_ns) = others.fold((0, 0), |sum, other| (sum.0 + other.n, sum.1 + other.off_ns));
        let mean = |n: u64, off_ns: u64| off_ns as f64 / n.max(1) as f64;
        n * HANDED >= link.n && mean(link.n, link.off_ns) * SHORT < mean(n, off_ns)
    }

    /// Whether requests came to `stage` by way of `from`.
    fn descends(&self, stage: usize, from: usize) -> bool {
        let mut at = stage;
        for _ in 0..self.parent.len() {
            match self.parent[at] {
                Some(parent) if parent == from => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    /// Whether requests of a stage come to another one, by whichever way.
    fn asks(&self, from: usize, to: usize, sockets: &Sockets) -> bool {
        let inside = self.data.keys().map(|&(from, to, _)| (from, to));
        let passed = sockets.passed.keys().copied();
        let answered = sockets.answers.keys().map(|&(waits, answers)| (answers, waits));
        let ways: BTreeSet<(usize, usize)> = inside.chain(passed).chain(answered).collect();
        let mut reached = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &(_, next) in ways.iter().filter(|(sender, _)| *sender == at) {
                if next == to {
                    return true;
                }
                if reached.insert(next) {
                    queue.push_back(next);
                }
            }
        }
        false
    }

    fn arrows(&self, sockets: &Sockets) -> Vec<Arrow> {
        let kinds = [(&self.data, Meaning::Data), (&self.blocking, Meaning::Blocking)];
        let mut arrows = Vec::new();
        for (of, meaning) in kinds {
            for (&(from, to, by), &(n, off_ns, seen)) in of {
                let sleeper = if meaning == Meaning::Data { to } else { from };
                let share = match by {
                    By::Birth => 1.0,
                    _ => n as f64 / self.woken[sleeper].max(1) as f64,
                };
                let ends = [self.stages.stages[from].sure, self.stages.stages[to].sure];
                let mut sure = judge(n, share, seen, &ends);
                // Who was never seen to ask may wait for something else than an answer.
                if meaning == Meaning::Blocking && !self.asks(from, to, sockets) {
                    sure = sure.min(Confidence::Likely);
                }
                arrows.push(Arrow {
                    from: End::Stage(from),
                    to: End::Stage(to),
                    meaning,
                    by,
                    n,
                    share,
                    off_ns,
                    sure,
                    confirmed: None,
                });
            }
        }
        arrows
    }
}
