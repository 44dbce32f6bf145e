//! The three problems beyond the dissertation's: the gaps that the search found, and for each rule
//! the change that ends it.

use super::*;
use crate::remedy::apply;

/// The gaps that the search found while five problems were known.
const GAPS: [(&str, &str); 4] = [
    ("22", include_str!("../../../../../docs/results/tad-gaps/gap-22.toml")),
    ("34", include_str!("../../../../../docs/results/tad-gaps/gap-34.toml")),
    ("44", include_str!("../../../../../docs/results/tad-gaps/gap-44.toml")),
    ("1068", include_str!("../../../../../docs/results/tad-gaps/gap-1068.toml")),
];

fn gap(number: &str) -> Tad {
    let (_, text) = GAPS.iter().find(|(known, _)| *known == number).unwrap();
    read_tad(number, text).unwrap_or_else(|errors| panic!("{errors}")).value
}

#[test]
fn no_gap_of_the_search_is_called_clean() {
    for (number, letters) in [("22", "SE"), ("34", "E"), ("44", "EH"), ("1068", "SE")] {
        assert_eq!(report(&gap(number)).problems, letters, "gap {number}");
    }
}

#[test]
fn as_many_threads_as_servers_are_no_surplus() {
    let mut tad = gap("22");
    assert_eq!(places(&tad, Problem::SurplusThreads), ["s6: cpu"]);
    let mut more = tad.clone();
    more.resources[0].parallelism = 2;
    assert_eq!(places(&more, Problem::SurplusThreads), [""; 0]);
    stage(&mut tad, "s6").threads = Threads::Bounded(1);
    assert_eq!(places(&tad, Problem::SurplusThreads), [""; 0]);
}

#[test]
fn a_shared_queue_bounds_what_is_in_service() {
    let mut tad = gap("22");
    let queue = |concurrency| {
        vec![SharedQueue { name: "q".into(), stages: vec![0], concurrency, policy: Policy::Drf }]
    };
    tad.shared_queues = queue(2);
    assert_eq!(places(&tad, Problem::SurplusThreads), ["s6: cpu"]);
    tad.shared_queues = queue(1);
    assert_eq!(places(&tad, Problem::SurplusThreads), [""; 0]);
}

#[test]
fn turns_end_service_to_the_end_if_they_are_short() {
    let mut tad = gap("34");
    assert_eq!(places(&tad, Problem::ServiceToEnd), ["s2: network"]);
    // A request takes 1.5 ms.
    let turn = |turn_ns| Remedy::ServeInTurns { stage: "s2".into(), turn_ns };
    apply(&mut tad, &turn(1_000_000)).unwrap();
    assert_eq!(places(&tad, Problem::ServiceToEnd), ["s2: network"]);
    apply(&mut tad, &turn(300_000)).unwrap();
    assert_eq!(places(&tad, Problem::ServiceToEnd), [""; 0]);
    assert_eq!(tad.controls, [turn(300_000)], "the second turn replaces the first");
}

#[test]
fn requests_of_one_length_need_no_turns() {
    let mut tad = gap("34");
    tad.requests[0].steps[0].uses[0].amount = crate::model::Quantity::Fixed(191_815);
    tad.requests[0].parameters.clear();
    assert_eq!(places(&tad, Problem::ServiceToEnd), [""; 0]);
    let mut longer = tad.requests[0].clone();
    longer.name = "long".into();
    longer.steps[0].uses[0].amount = crate::model::Quantity::Fixed(400_000);
    tad.requests.push(longer);
    assert_eq!(places(&tad, Problem::ServiceToEnd), ["s2: network"]);
}

#[test]
fn threads_are_held_on_a_single_path_unless_they_are_free_or_shared() {
    let tad = gap("44");
    assert_eq!(places(&tad, Problem::HeldThreads), ["s2: "]);
    let mut free = tad.clone();
    apply(&mut free, &Remedy::Unblock { stage: "s2".into() }).unwrap();
    assert_eq!(of(&free, Problem::HeldThreads), []);
    let mut shared = tad.clone();
    apply(&mut shared, &Remedy::ScheduleThreads { stage: "s2".into() }).unwrap();
    assert!(of(&shared, Problem::HeldThreads)[0].mitigated());
}

#[test]
fn a_stage_with_two_resources_has_too_many_threads_or_too_few() {
    let mut tad = gap("1068");
    assert_eq!(places(&tad, Problem::SurplusThreads), ["s0: io"]);
    assert_eq!(places(&tad, Problem::HeldThreads), [""; 0]);
    stage(&mut tad, "s0").threads = Threads::Bounded(1);
    assert_eq!(places(&tad, Problem::SurplusThreads), [""; 0]);
    assert_eq!(places(&tad, Problem::HeldThreads), ["s0: cpu io"]);
}

#[test]
fn what_the_checks_advise_ends_what_they_found() {
    for (number, _) in GAPS {
        let mut tad = gap(number);
        assert!(crate::complete::mend(&mut tad), "gap {number}");
        assert_eq!(report(&tad).problems, "", "gap {number}");
    }
}
