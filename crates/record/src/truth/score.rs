//! What a recording shows of a random system, compared with the truth.

use super::running::{Threads, Truth};
use crate::infer::Architecture;
use crate::infer::arrows::{Arrow, By, End, Meaning};
use crate::trace::Trace;
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet};

/// Arrows between stages.
type Pairs = BTreeSet<(usize, usize)>;
/// Of each found stage, the threads of each true one.
type Members = BTreeMap<usize, BTreeMap<usize, BTreeSet<u32>>>;

/// Found and right, found, and true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "said above")]
pub struct Count {
    pub right: usize,
    pub found: usize,
    pub truth: usize,
}

impl Count {
    fn add(&mut self, found: &Pairs, truth: &Pairs) {
        self.right += found.intersection(truth).count();
        self.found += found.len();
        self.truth += truth.len();
    }

    /// Right of those that were found.
    pub fn precision(&self) -> f64 {
        self.right as f64 / self.found.max(1) as f64
    }

    /// Right of those that there are.
    pub fn recall(&self) -> f64 {
        self.right as f64 / self.truth.max(1) as f64
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} right of {} found and {} true: precision {:.3}, recall {:.3}",
            self.right,
            self.found,
            self.truth,
            self.precision(),
            self.recall()
        )
    }
}

/// Of one system, or of several.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Stages. One is right if it has all threads of a true one that ran, and no others.
    pub stages: Count,
    /// Arrows along which requests go.
    pub arrows: Count,
    /// Who is blocked by whom.
    pub blocking: Count,
    /// Stages and arrows that are called certain.
    pub certain: usize,
    /// Arrows of these that are wrong.
    pub certain_wrong: usize,
    /// Requests' arrows that were missed.
    pub missed: usize,
    /// Those of them to stages of which the recording does not say that it cannot see what feeds
    /// them.
    pub silent: usize,
    /// What was missed or is wrong, in words.
    pub notes: Vec<String>,
}

impl Score {
    /// Adds one system.
    pub fn add(&mut self, trace: &Trace, found: &Architecture, truth: &Truth, threads: &Threads) {
        let mut of = Members::new();
        let mut ran: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for (&tid, &stage) in threads {
            // Threads that never ran while they were recorded cannot be seen.
            let Some(thread) = trace.threads.get(&tid) else { continue };
            let Some(unit) = trace.units.get(&thread.unit) else { continue };
            let Some(&known) = found.stages.of.get(&unit.unit) else { continue };
            of.entry(known).or_default().entry(stage).or_default().insert(tid);
            ran.entry(stage).or_default().insert(tid);
        }
        self.add_stages(found, &of, &ran);
        self.add_hidden(found, truth.hidden);
        let on_demand: Vec<usize> = truth
            .stages
            .iter()
            .filter(|(_, queue)| *queue == "on-demand")
            .map(|(stage, _)| *stage)
            .collect();
        let name = names(found, truth, &of, &on_demand);
        let seen = |stage: &usize| ran.contains_key(stage) || on_demand.contains(stage);
        let pick = |meaning: Meaning| -> Pairs {
            let arrows = truth.arrows.iter().filter(|(a, b, _)| seen(a) && seen(b));
            let blocking = meaning == Meaning::Blocking;
            arrows.filter(|arrow| arrow.2 || !blocking).map(|arrow| (arrow.0, arrow.1)).collect()
        };
        for meaning in [Meaning::Data, Meaning::Blocking] {
            let wanted = pick(meaning);
            let drawn = self.drawn(found, &name, meaning, &wanted);
            for pair in wanted.difference(&drawn) {
                if meaning == Meaning::Data {
                    self.missed += 1;
                    self.silent += usize::from(!is_named(found, &name, pair.1));
                }
                let queue = truth.stages.get(&pair.1);
                self.notes.push(format!("missed {meaning:?} {pair:?}, queue {queue:?}"));
            }
            let count =
                if meaning == Meaning::Data { &mut self.arrows } else { &mut self.blocking };
            count.add(&drawn, &wanted);
        }
    }

    /// Arrows that no thread of the kernel shows: the report is to say so.
    fn add_hidden(&mut self, found: &Architecture, hidden: usize) {
        let named = found.unseen.iter().any(|text| text.contains("virtual threads"));
        self.arrows.truth += hidden;
        self.missed += hidden;
        self.silent += if named { 0 } else { hidden };
    }

    fn add_stages(
        &mut self,
        found: &Architecture,
        of: &Members,
        ran: &BTreeMap<usize, BTreeSet<u32>>,
    ) {
        let right = |known: &&usize| {
            let mut own = of[known].iter();
            matches!((own.next(), own.next()), (Some((stage, set)), None) if ran[stage] == *set)
        };
        let right = of.keys().filter(right).count();
        self.stages.right += right;
        self.stages.found += of.len();
        self.stages.truth += ran.len();
        let certain = |stage: &&usize| found.stages.stages[**stage].sure == Confidence::Certain;
        self.certain += of.keys().filter(certain).count();
        if right < of.len() || right < ran.len() {
            let made: Vec<_> =
                of.iter().map(|(at, own)| (&found.stages.stages[*at].title, own)).collect();
            self.notes.push(format!("found stages with the threads of true ones: {made:?}"));
        }
    }

    /// Arrows that were found, by true stages.
    fn drawn(
        &mut self,
        found: &Architecture,
        name: &BTreeMap<usize, usize>,
        meaning: Meaning,
        wanted: &Pairs,
    ) -> Pairs {
        const UNKNOWN: usize = 1_000;
        let named = |stage: usize| name.get(&stage).copied().unwrap_or(UNKNOWN + stage);
        let mut drawn = Pairs::new();
        for arrow in &found.arrows {
            let Some((a, b)) = between(arrow).filter(|_| arrow.meaning == meaning) else {
                continue;
            };
            let pair = (named(a), named(b));
            let certain = arrow.sure == Confidence::Certain;
            self.certain += usize::from(certain);
            drawn.insert(pair);
            if !wanted.contains(&pair) {
                self.certain_wrong += usize::from(certain);
                self.notes.push(format!("wrong {pair:?} {arrow:?}"));
            }
        }
        drawn
    }
}

/// Whether the recording names a true stage among what it could not see.
fn is_named(found: &Architecture, name: &BTreeMap<usize, usize>, stage: usize) -> bool {
    let known = name.iter().filter(|(_, own)| **own == stage).map(|(known, _)| *known);
    let mut names = known.map(|known| found.stages.stages[known].name.as_str());
    names.any(|name| found.unseen.iter().any(|text| text.contains(name)))
}

/// The stages that an arrow connects, if it was seen.
fn between(arrow: &Arrow) -> Option<(usize, usize)> {
    match (arrow.from, arrow.to) {
        (End::Stage(a), End::Stage(b)) if arrow.by != By::Nothing => Some((a, b)),
        _ => None,
    }
}

/// The true stage of each found one: that of most of its threads. Short-lived threads are known by
/// their unit alone: by the one stage that makes such threads.
fn names(
    found: &Architecture,
    truth: &Truth,
    of: &Members,
    on_demand: &[usize],
) -> BTreeMap<usize, usize> {
    let most = |count: &BTreeMap<usize, BTreeSet<u32>>| {
        count.iter().max_by_key(|(_, threads)| threads.len()).map(|(stage, _)| *stage)
    };
    let mut name: BTreeMap<usize, usize> =
        of.iter().filter_map(|(known, count)| Some((*known, most(count)?))).collect();
    for (known, stage) in found.stages.stages.iter().enumerate() {
        let named = on_demand.iter().find(|true_stage| {
            let letter = char::from(b'a' + **true_stage as u8);
            ["once", "run"]
                .iter()
                .any(|word| stage.title.ends_with(&format!("{word}_{true_stage}")))
                || stage.title.contains(&format!("stage-{letter}"))
        });
        if let (true, Some(&named)) = (stage.births > 0, named) {
            name.entry(known).or_insert(named);
        }
    }
    // Without a name: the only stage of that kind that its creator has.
    for arrow in found.arrows.iter().filter(|arrow| arrow.by == By::Birth) {
        let Some((a, b)) = between(arrow) else { continue };
        let children: Vec<usize> = on_demand
            .iter()
            .copied()
            .filter(|to| truth.arrows.iter().any(|(x, y, _)| Some(x) == name.get(&a) && y == to))
            .collect();
        if let (false, [only]) = (name.contains_key(&b), &children[..]) {
            name.insert(b, *only);
        }
    }
    name
}
