//! What a recording saw, what it could not see, and how sure it is.

use crate::draw::{Drawn, Match, NULL_SHARE};
use crate::infer::Architecture;
use crate::infer::arrows::{By, End, Meaning};
use crate::infer::waits::Kind;
use crate::trace::Trace;
use crate::verdict;
use headworks_tad::model::{self, Confidence};
use serde::Serialize;

/// See the module. Its JSON is for machines.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What limits the recorded load, in a sentence.
    pub answer: String,
    /// Which figures do not fit, in words.
    pub doubts: Vec<String>,
    /// What else a reader has to know, in words.
    pub notes: Vec<String>,
    /// `ebpf` or `proc`.
    pub mode: String,
    /// Seconds.
    pub seconds: f64,
    /// Seconds in which events were counted.
    pub counted_s: f64,
    /// Fraction of the processors that the kernel's side took.
    pub taken: f64,
    /// Fraction that the recorder took.
    pub own: f64,
    /// Context switches a second, while events were counted.
    pub switches_per_s: f64,
    /// Stages.
    pub stages: Vec<Stage>,
    /// Arrows.
    pub arrows: Vec<Arrow>,
    /// Ways past queues.
    pub past: Vec<Past>,
    /// Locks.
    pub locks: Vec<Lock>,
    /// What threads of virtual machines waited on, as their flight recorders say.
    pub monitors: Vec<Monitor>,
    /// Requests of clients, by stage.
    pub requests: Vec<(String, u64)>,
    /// Loads: as they were recorded, and as they are simulated.
    pub loads: Vec<Match>,
    /// What could not be seen.
    pub unseen: Vec<String>,
    /// Stages that were left out of the diagram, as they did nothing.
    pub left_out: Vec<String>,
    /// Stages whose requests a plug-in puts in order, as it says itself.
    pub scheduled: Vec<String>,
    /// Part of the processor time that no stage explains, if that is much.
    pub null_share: Option<f64>,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "they are explained where they come from")]
pub struct Stage {
    pub name: String,
    pub title: String,
    pub program: String,
    pub threads: u32,
    pub on_demand: bool,
    pub basis: &'static str,
    pub confidence: &'static str,
    pub cpu_ms: f64,
    pub bios: u64,
    pub bio_bytes: u64,
    pub file_bytes: u64,
    pub socket_bytes: u64,
    pub sleeps: Vec<(&'static str, u64, f64)>,
    pub over_time: Option<OverTime>,
}

/// Threads of a stage, at moments of the recording.
#[derive(Clone, Debug, Serialize)]
pub struct OverTime {
    /// From its start on.
    pub at_ms: Vec<u64>,
    /// Threads that were alive.
    pub alive: Vec<u32>,
    /// Threads that ran or were ready to, on average since the moment before.
    pub active: Vec<f64>,
}

impl OverTime {
    /// Fewest and most that were alive.
    pub fn alive(&self) -> (u32, u32) {
        let all = || self.alive.iter().copied();
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    }

    /// Mean of those that were active, over time.
    pub fn active(&self) -> f64 {
        let ends = self.at_ms.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64);
        let (mut sum, mut time) = (0.0, 0.0);
        for (length, active) in ends.zip(self.active.iter().skip(1)) {
            sum += active * length;
            time += length;
        }
        if time > 0.0 { sum / time } else { self.active.first().copied().unwrap_or(0.0) }
    }
}

/// An arrow.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "they are explained where they come from")]
pub struct Arrow {
    pub from: String,
    pub to: String,
    pub blocking: bool,
    pub by: &'static str,
    pub n: u64,
    pub share: f64,
    pub mean_us: f64,
    pub confidence: &'static str,
    pub confirmed: Option<bool>,
}

/// A way past a queue: of the calls of `from` that end at `to`, some go through the stage `queue`.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "they are explained where they come from")]
pub struct Past {
    pub from: String,
    pub queue: String,
    pub to: String,
    pub direct: u64,
    pub through: u64,
    pub share: f64,
    pub confidence: &'static str,
}

/// A lock.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "they are explained where they come from")]
pub struct Lock {
    pub name: String,
    pub locks: usize,
    pub stages: Vec<(String, u64, f64)>,
    pub max_ms: f64,
}

/// What threads of a stage waited on in a virtual machine, the longest waits first.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "they are explained where they come from")]
pub struct Monitor {
    pub stage: String,
    pub class: String,
    pub function: String,
    pub by: String,
    pub n: u64,
    pub ms: f64,
    pub max_ms: f64,
    /// Stage whose threads had it, or notified.
    pub waker: Option<String>,
}

/// The same waits of threads of one stage are one.
fn monitors(trace: &Trace, found: &Architecture) -> Vec<Monitor> {
    let name = |unit: &u32| Some(found.stages.stages[*found.stages.of.get(unit)?].name.clone());
    let mut all: Vec<Monitor> = Vec::new();
    for one in &trace.monitors {
        let Some(stage) = name(&one.unit) else { continue };
        let waker = name(&one.waker);
        let (class, function, by) = (one.class.clone(), one.function.clone(), one.by.clone());
        let ms = |ns: u64| ns as f64 / 1e6;
        let same = |known: &&mut Monitor| {
            (&known.stage, &known.class, &known.function, &known.by, &known.waker)
                == (&stage, &class, &function, &by, &waker)
        };
        match all.iter_mut().find(same) {
            Some(known) => {
                known.n += one.n;
                known.ms += ms(one.off_ns);
                known.max_ms = known.max_ms.max(ms(one.max_ns));
            }
            None => all.push(Monitor {
                stage,
                class,
                function,
                by,
                n: one.n,
                ms: ms(one.off_ns),
                max_ms: ms(one.max_ns),
                waker,
            }),
        }
    }
    all.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    all
}

/// Puts it together.
pub fn report(trace: &Trace, found: &Architecture, drawn: &Drawn) -> Report {
    let name = |end: End| match end {
        End::Clients => "clients".to_owned(),
        End::Stage(stage) => found.stages.stages[stage].name.clone(),
    };
    let all_ns: u64 = found.facts.iter().map(|facts| facts.cpu_ns).sum();
    let null_ns: u64 = null_time(found);
    let null_share = null_ns as f64 / all_ns.max(1) as f64;
    Report {
        answer: verdict::answer(trace, found, drawn),
        doubts: drawn.doubts(),
        notes: verdict::notes(trace, found),
        mode: trace.head.mode.clone(),
        seconds: trace.head.seconds,
        counted_s: trace.head.counted_s,
        taken: trace.head.taken,
        own: trace.head.own,
        switches_per_s: trace.head.switches_per_s,
        stages: (0..found.stages.stages.len()).map(|id| stage(trace, found, id)).collect(),
        arrows: found
            .arrows
            .iter()
            .map(|arrow| Arrow {
                from: name(arrow.from),
                to: name(arrow.to),
                blocking: arrow.meaning == Meaning::Blocking,
                by: by(arrow.by),
                n: arrow.n,
                share: arrow.share,
                mean_us: arrow.off_ns as f64 / 1e3 / arrow.n.max(1) as f64,
                confidence: arrow.sure.name(),
                confirmed: arrow.confirmed,
            })
            .chain(unfed(found, drawn))
            .collect(),
        past: past(found, &name),
        locks: locks(found),
        monitors: monitors(trace, found),
        requests: found
            .requests
            .iter()
            .map(|(stage, n)| (found.stages.stages[*stage].name.clone(), *n))
            .collect(),
        loads: drawn.loads.clone(),
        unseen: found.unseen.clone(),
        left_out: drawn.left_out.clone(),
        scheduled: drawn.scheduled.clone(),
        null_share: (null_share > NULL_SHARE).then_some(null_share),
    }
}

/// Arrows that the diagram has so that each stage is fed, and that nothing showed.
fn unfed(found: &Architecture, drawn: &Drawn) -> Vec<Arrow> {
    let fed = |name: &str| {
        found.arrows.iter().any(|arrow| match arrow.to {
            End::Stage(to) => {
                arrow.meaning == Meaning::Data && found.stages.stages[to].name == name
            }
            End::Clients => false,
        })
    };
    let from_clients = drawn.tad.flows.iter().filter(|flow| flow.from == model::End::Clients);
    let stages = from_clients.filter_map(|flow| match flow.to {
        model::End::Stage(stage) => Some(drawn.tad.stages[stage].name.clone()),
        model::End::Clients => None,
    });
    let known = |name: &String| found.stages.stages.iter().any(|stage| stage.name == *name);
    let unfed = stages.filter(|name| known(name) && !fed(name));
    unfed
        .map(|to| Arrow {
            from: "clients".to_owned(),
            to,
            blocking: false,
            by: by(By::Nothing),
            n: 0,
            share: 0.0,
            mean_us: 0.0,
            confidence: Confidence::Guess.name(),
            confirmed: None,
        })
        .collect()
}

fn past(found: &Architecture, name: &dyn Fn(End) -> String) -> Vec<Past> {
    found
        .past
        .iter()
        .map(|past| Past {
            from: name(End::Stage(past.from)),
            queue: name(End::Stage(past.queue)),
            to: name(past.to),
            direct: past.direct,
            through: past.through,
            share: past.share(),
            confidence: past.sure.name(),
        })
        .collect()
}

/// Locks and permits, those with the longest waits first.
fn locks(found: &Architecture) -> Vec<Lock> {
    let by = |(stage, n, ns): (usize, u64, u64)| {
        (found.stages.stages[stage].name.clone(), n, ns as f64 / 1e6)
    };
    let locks = found.locks.iter().map(|lock| Lock {
        name: lock.name.clone(),
        locks: lock.count,
        stages: lock.waits.iter().map(|(stage, (n, ns))| by((*stage, *n, *ns))).collect(),
        max_ms: lock.max_ns as f64 / 1e6,
    });
    let permits = found.permits.iter().map(|permits| Lock {
        name: permits.name.clone(),
        locks: 1,
        stages: vec![by((permits.stage, permits.n, permits.off_ns))],
        max_ms: permits.max_ns as f64 / 1e6,
    });
    let mut all: Vec<Lock> = locks.chain(permits).collect();
    let ms = |lock: &Lock| lock.stages.iter().map(|(.., ms)| ms).sum::<f64>();
    all.sort_by(|a, b| ms(b).total_cmp(&ms(a)));
    all
}

fn null_time(found: &Architecture) -> u64 {
    let stages = found.stages.stages.iter().zip(&found.facts);
    stages.filter(|(stage, _)| stage.null).map(|(_, facts)| facts.cpu_ns).sum()
}

fn stage(trace: &Trace, found: &Architecture, id: usize) -> Stage {
    let (stage, facts) = (&found.stages.stages[id], &found.facts[id]);
    Stage {
        name: stage.name.clone(),
        title: stage.title.clone(),
        program: found.stages.places[stage.place].program.clone(),
        threads: stage.most,
        on_demand: stage.on_demand,
        basis: stage.basis.words(),
        confidence: stage.sure.name(),
        cpu_ms: facts.cpu_ns as f64 / 1e6,
        bios: facts.bios,
        bio_bytes: facts.bio_bytes,
        file_bytes: facts.file_chars,
        socket_bytes: facts.socket_bytes,
        sleeps: Kind::ALL
            .iter()
            .enumerate()
            .filter(|(at, _)| facts.sleeps[*at] > 0)
            .map(|(at, kind)| (kind.name(), facts.sleeps[at], facts.asleep_ns[at] as f64 / 1e6))
            .collect(),
        over_time: trace.activity_of(&stage.units).map(|activity| OverTime {
            at_ms: trace.head_of(trace.host_of(trace.pid_of(activity.unit))).moments_ms.clone(),
            alive: activity.alive,
            active: activity.active,
        }),
    }
}

fn by(by: By) -> &'static str {
    match by {
        By::Wake => "wake-ups",
        By::Ready => "pipe or event descriptor",
        By::Socket => "socket",
        By::Birth => "births of threads",
        By::Probe => "counted calls",
        By::Answer => "answers",
        By::Held => "a lock that it has",
        By::Nothing => "nothing",
    }
}
