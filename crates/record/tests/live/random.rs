//! Random systems with known truth. The experiment with many of them is `headworks bench run
//! record-truth`.

use crate::conserve::example;
use crate::server::command;
use headworks_record::capture;
use headworks_record::truth::java::{Dress, Java};
use headworks_record::truth::{SATURATED, Score, USUAL, WARM, judge, judge_kept};
use std::collections::BTreeMap;

pub fn can_record() -> bool {
    if let Some(why) = capture::refusal() {
        println!("skipped: eBPF cannot be used here: {why}");
        return false;
    }
    true
}

#[test]
fn stages_and_arrows_of_small_systems_are_found() {
    if !can_record() {
        return;
    }
    for dress in ["named", "loops"] {
        let mut score = Score::default();
        // Seeds of systems with three and more stages.
        for seed in [6, 8] {
            let command = command(&example("random_server"), seed, &[dress]);
            judge(command, USUAL, &mut score, None).expect("a recording");
        }
        assert!(score.stages.recall() >= 0.75, "{score:?}");
        assert!(score.arrows.precision() >= 0.75, "{score:?}");
    }
}

#[test]
fn what_makes_a_system_hard_to_see_makes_no_wrong_arrow_certain() {
    if !can_record() {
        return;
    }
    let mut score = Score::default();
    for trick in ["polls", "spins", "batches", "renames", "ring"] {
        let command = command(&example("random_server"), 6, &["loops", trick]);
        judge(command, USUAL, &mut score, None).expect("a recording");
    }
    let saturated = command(&example("random_server"), 6, &["named"]);
    judge(saturated, SATURATED, &mut score, None).expect("a recording");
    assert_eq!(score.certain_wrong, 0, "{score:?}");
    assert!(score.arrows.precision() >= 0.75, "{score:?}");
}

/// The program of random systems in Java, where it can be recorded.
fn compiled() -> Option<Java> {
    if !can_record() {
        return None;
    }
    Java::compile().map_err(|why| println!("skipped: {why:#}")).ok()
}

#[test]
fn stages_and_arrows_of_systems_in_java_are_found() {
    let Some(java) = compiled() else { return };
    let mut score = Score::default();
    for seed in [6, 8] {
        let command = java.command(seed, Dress::Named).expect("a plan");
        judge(command, WARM, &mut score, None).expect("a recording");
    }
    assert!(score.stages.recall() >= 0.75, "{score:?}");
    assert!(score.arrows.precision() >= 0.75 && score.arrows.recall() >= 0.75, "{score:?}");
}

/// What passes between virtual threads cannot be seen. The report says so, and claims nothing.
#[test]
fn virtual_threads_are_named_as_not_seen_and_make_no_wrong_arrow_certain() {
    let Some(java) = compiled() else { return };
    let mut score = Score::default();
    for seed in [6, 8] {
        let command = match java.command(seed, Dress::Virtual) {
            Ok(command) => command,
            Err(why) => return println!("skipped: {why:#}"),
        };
        judge(command, WARM, &mut score, None).expect("a recording");
    }
    assert_eq!((score.certain_wrong, score.silent), (0, 0), "{score:?}");
}

/// Scores recordings that the experiment kept: rules can be tried without recording again.
/// `HEADWORKS_KEPT=out/bench/record-truth cargo test -p headworks-record --test live -- --ignored
/// --nocapture kept_systems`.
#[test]
#[ignore = "needs kept recordings: an experiment"]
fn kept_systems() {
    let folder = std::env::var("HEADWORKS_KEPT").expect("HEADWORKS_KEPT names a folder");
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "truth")) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let (seed, dress) = name.split_once('-').expect("SEED-DRESS");
        let score = scores.entry(dress.to_owned()).or_default();
        judge_kept(path, score).expect("a recording");
        for note in std::mem::take(&mut score.notes) {
            println!("seed {seed} {dress}: {note}");
        }
    }
    for (dress, score) in &scores {
        println!("{dress}: stages {}", score.stages);
        println!("{dress}: arrows {}", score.arrows);
        println!("{dress}: blocking {}", score.blocking);
        println!("{dress}: {} certain, {} wrong ones", score.certain, score.certain_wrong);
    }
}
