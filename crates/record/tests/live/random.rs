//! Random systems with known truth, in three dresses.

use crate::server::{Clients, Server, Truth};
use headworks_record::capture::{self, Options};
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{By, End, Meaning};
use headworks_record::infer::{Architecture, infer};
use headworks_record::trace::Trace;
use headworks_tad::model::Confidence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Arrows between stages.
type Pairs = BTreeSet<(usize, usize)>;

/// Found and right, found, and true.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    right: usize,
    found: usize,
    truth: usize,
}

impl Count {
    fn add(&mut self, found: &Pairs, truth: &Pairs) {
        self.right += found.intersection(truth).count();
        self.found += found.len();
        self.truth += truth.len();
    }

    fn precision(&self) -> f64 {
        self.right as f64 / self.found.max(1) as f64
    }

    fn recall(&self) -> f64 {
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

#[derive(Debug, Default)]
struct Score {
    stages: Count,
    arrows: Count,
    blocking: Count,
    certain_wrong: usize,
}

pub fn can_record() -> bool {
    if let Some(why) = capture::refusal() {
        println!("skipped: eBPF cannot be used here: {why}");
        return false;
    }
    true
}

fn record(pid: u32, length: Duration) -> Trace {
    let stop = AtomicBool::new(false);
    let options = Options {
        pids: vec![pid],
        follow: false,
        cgroup: None,
        length,
        budget: 1.0,
        attach: false,
        agent: None,
        plain: false,
        inject: false,
        timeline: None,
        stop: &stop,
    };
    capture::record(&options, &mut |_| {}).expect("a recording")
}

/// Records one system and compares.
fn compare(seed: u64, words: &[&str], score: &mut Score) -> bool {
    let server = Server::start(seed, words);
    let clients = Clients::start(server.port, 4, Duration::from_micros(500));
    std::thread::sleep(Duration::from_millis(100));
    let trace = record(server.pid(), Duration::from_millis(2_500));
    let answered = clients.answered.load(Ordering::Relaxed);
    clients.end();
    let found = infer(&trace, &Hints::default());
    let threads = server.threads.lock().expect("no panic").clone();
    if let Ok(folder) = std::env::var("HEADWORKS_RECORDINGS") {
        let file = format!("{folder}/{seed}-{}.ndjson", words.join("-"));
        trace.write(&mut std::fs::File::create(file).expect("a file"), u64::MAX).expect("written");
        let file = format!("{folder}/{seed}-{}.truth", words.join("-"));
        std::fs::write(file, truth_of(&server.truth, &threads)).expect("written");
    }
    if answered < 100 {
        println!("seed {seed} {words:?}: {answered} requests are too few to judge");
        return false;
    }
    count(seed, words, &trace, &found, &server.truth, &threads, score);
    true
}

fn truth_of(truth: &Truth, threads: &BTreeMap<u32, usize>) -> String {
    let stages: Vec<_> = truth.stages.iter().collect();
    serde_json::json!({ "stages": stages, "arrows": truth.arrows, "threads": threads }).to_string()
}

/// Scores recordings that `HEADWORKS_RECORDINGS` kept earlier: rules can be tried without recording
/// again. `HEADWORKS_KEPT=folder cargo test -p headworks-record --test live -- --ignored
/// --nocapture kept_systems`.
#[test]
#[ignore = "needs kept recordings: an experiment"]
fn kept_systems() {
    let folder = std::env::var("HEADWORKS_KEPT").expect("HEADWORKS_KEPT names a folder");
    let mut scores: BTreeMap<String, (usize, Score)> = BTreeMap::new();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "truth")) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let (seed, dress) = name.split_once('-').expect("SEED-DRESS");
        let text = std::fs::read_to_string(path).expect("a truth");
        let file = std::fs::File::open(path.with_extension("ndjson")).expect("a recording");
        let trace = Trace::read(std::io::BufReader::new(file)).expect("a recording");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let threads: BTreeMap<u32, usize> =
            serde_json::from_value(json["threads"].clone()).expect("threads");
        let found = infer(&trace, &Hints::default());
        let (judged, score) = scores.entry(dress.to_owned()).or_default();
        *judged += 1;
        let words: Vec<&str> = dress.split('-').collect();
        let seed = seed.parse().expect("a number");
        count(seed, &words, &trace, &found, &crate::server::read(&text), &threads, score);
    }
    for (dress, (judged, score)) in &scores {
        tell(&format!("{dress}, {judged} systems"), score);
    }
}

fn count(
    seed: u64,
    words: &[&str],
    trace: &Trace,
    found: &Architecture,
    truth: &Truth,
    threads: &BTreeMap<u32, usize>,
    score: &mut Score,
) {
    // Members of each found stage, and the true stage that most of them are of.
    let mut members: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut of: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    let mut ran: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for (&tid, &stage) in threads {
        // Threads that never ran while they were recorded cannot be seen.
        let Some(thread) = trace.threads.get(&tid) else { continue };
        let Some(unit) = trace.units.get(&thread.unit) else { continue };
        let Some(&known) = found.stages.of.get(&unit.unit) else { continue };
        members.entry(known).or_default().insert(tid);
        ran.entry(stage).or_default().insert(tid);
        *of.entry(known).or_default().entry(stage).or_default() += 1;
    }
    let on_demand = on_demand(truth);
    let name = names(found, truth, &of, &on_demand);
    let true_sets: BTreeSet<&BTreeSet<u32>> = ran.values().collect();
    let right = members.values().filter(|set| true_sets.contains(set)).count();
    score.stages.right += right;
    score.stages.found += members.len();
    score.stages.truth += ran.len();
    let seen = |stage: &usize| ran.contains_key(stage) || on_demand.contains(stage);
    let pick = |blocking: bool| -> Pairs {
        truth
            .arrows
            .iter()
            .filter(|(a, b, waits)| seen(a) && seen(b) && (*waits || !blocking))
            .map(|(a, b, _)| (*a, *b))
            .collect()
    };
    let (arrows, blocking) = drawn(seed, words, found, &name, &pick, score);
    for pair in pick(false).difference(&arrows) {
        println!("seed {seed} {words:?}: missed {pair:?}, queue {:?}", truth.stages.get(&pair.1));
    }
    for pair in pick(true).difference(&blocking) {
        println!("seed {seed} {words:?}: missed blocking {pair:?}");
    }
    if right < members.len() || right < ran.len() {
        let made: Vec<_> =
            members.iter().map(|(stage, set)| (&found.stages.stages[*stage].title, set)).collect();
        println!("seed {seed} {words:?}: stages {made:?} of {ran:?}");
    }
    score.arrows.add(&arrows, &pick(false));
    score.blocking.add(&blocking, &pick(true));
}

/// Stages whose threads are made for single requests.
fn on_demand(truth: &Truth) -> Vec<usize> {
    truth
        .stages
        .iter()
        .filter(|(_, queue)| *queue == "on-demand")
        .map(|(stage, _)| *stage)
        .collect()
}

/// The true stage of each found one. Short-lived threads are known by their unit alone: by the one
/// stage that makes such threads.
fn names(
    found: &Architecture,
    truth: &Truth,
    of: &BTreeMap<usize, BTreeMap<usize, usize>>,
    on_demand: &[usize],
) -> BTreeMap<usize, usize> {
    let mut name: BTreeMap<usize, usize> = of
        .iter()
        .filter_map(|(known, count)| Some((*known, *count.iter().max_by_key(|(_, n)| **n)?.0)))
        .collect();
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
        let (End::Stage(a), End::Stage(b)) = (arrow.from, arrow.to) else { continue };
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

/// Arrows and blocking that were found, by true stages.
fn drawn(
    seed: u64,
    words: &[&str],
    found: &Architecture,
    name: &BTreeMap<usize, usize>,
    pick: &dyn Fn(bool) -> Pairs,
    score: &mut Score,
) -> (Pairs, Pairs) {
    let mut arrows = BTreeSet::new();
    let mut blocking = BTreeSet::new();
    let unknown = 1_000;
    for arrow in &found.arrows {
        let (End::Stage(a), End::Stage(b)) = (arrow.from, arrow.to) else { continue };
        if arrow.by == By::Nothing {
            continue;
        }
        let named = |stage: usize| name.get(&stage).copied().unwrap_or(unknown + stage);
        let pair = (named(a), named(b));
        let set = if arrow.meaning == Meaning::Data { &mut arrows } else { &mut blocking };
        set.insert(pair);
        let (wanted, what) = (pick(arrow.meaning == Meaning::Blocking), arrow.meaning);
        if !wanted.contains(&pair) {
            score.certain_wrong += usize::from(arrow.sure == Confidence::Certain);
            println!("seed {seed} {words:?}: wrong {what:?} {pair:?} {arrow:?}");
        }
    }
    (arrows, blocking)
}

fn tell(what: &str, score: &Score) {
    println!("{what}: stages {}", score.stages);
    println!("{what}: arrows {}", score.arrows);
    println!("{what}: blocking {}", score.blocking);
    println!("{what}: {} wrong ones were called certain", score.certain_wrong);
}

#[test]
fn stages_and_arrows_of_small_systems_are_found() {
    if !can_record() {
        return;
    }
    for dress in ["named", "loops"] {
        let mut score = Score::default();
        // Seeds of systems with three and more stages.
        for seed in [3, 8] {
            compare(seed, &[dress], &mut score);
        }
        tell(dress, &score);
        assert!(score.stages.recall() >= 0.75, "{score:?}");
        assert!(score.arrows.precision() >= 0.75, "{score:?}");
    }
}

/// The experiment: `HEADWORKS_SEEDS=1..31 cargo test -p headworks-record --test live -- --ignored
/// --nocapture --test-threads 1 random_systems`.
#[test]
#[ignore = "takes minutes: an experiment"]
fn random_systems() {
    if !can_record() {
        return;
    }
    let seeds = std::env::var("HEADWORKS_SEEDS").unwrap_or_else(|_| "1..11".to_owned());
    let (first, last) = seeds.split_once("..").expect("a range");
    let seeds = first.parse::<u64>().expect("a number")..last.parse().expect("a number");
    let dresses = std::env::var("HEADWORKS_DRESSES").unwrap_or("named,loops,executor".to_owned());
    for dress in dresses.split(',') {
        let words: Vec<&str> = dress.split('+').collect();
        let mut score = Score::default();
        let judged = seeds.clone().filter(|seed| compare(*seed, &words, &mut score)).count();
        tell(&format!("{dress}, {judged} systems"), &score);
    }
}
