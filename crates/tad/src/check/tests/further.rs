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

/// A system in which nothing is found: one thread for the processor, a fair queue, short turns.
fn clean() -> Tad {
    let mut tad = gap("22");
    stage(&mut tad, "s6").threads = Threads::Bounded(1);
    apply(&mut tad, &Remedy::ServeInTurns { stage: "s6".into(), turn_ns: 1_000 }).unwrap();
    assert_eq!(report(&tad).problems, "");
    tad
}

#[test]
fn a_queue_whose_policy_does_not_share_is_told_also_without_a_finding() {
    let told = |policy, pluggable| {
        let mut tad = clean();
        stage(&mut tad, "s6").queue.policy = policy;
        stage(&mut tad, "s6").queue.pluggable = pluggable;
        let report = report(&tad);
        assert_eq!(report.problems, "");
        report.as_it_is.join("\n")
    };
    for policy in [Policy::Drf, Policy::Drr] {
        assert_eq!(told(policy, true), "");
    }
    for (policy, part) in [
        (Policy::Fifo, "the queue of s6 serves in order of arrival"),
        (Policy::Priority, "can leave nothing for the others"),
        (Policy::Stride, "a client with larger ones gets more"),
    ] {
        assert!(told(policy, true).contains(part), "{}", told(policy, true));
    }
    assert!(!told(Policy::Fifo, true).contains("make-pluggable"));
    assert!(told(Policy::Fifo, false).contains("s6 takes no other policy before make-pluggable"));
}

#[test]
fn a_batch_is_as_many_threads_unless_it_costs_as_much_as_one_request() {
    let mut tad = clean();
    let cpu = tad.stages[0].uses[0].resource;
    let batch = |once| Some(crate::model::Batch { most: 64, once });
    tad.stages[0].batch = batch(vec![cpu]);
    assert_eq!(places(&tad, Problem::SurplusThreads), [""; 0]);
    tad.stages[0].batch = batch(vec![]);
    let found = &of(&tad, Problem::SurplusThreads)[0];
    assert!(found.reason.contains("up to 64 at cpu, which serves 1 at a time"), "{}", found.reason);
    assert_eq!(found.remedies[0].remedies, ["{ do = \"set-batch\", stage = \"s6\", most = 1 }"]);
    assert_eq!(places(&tad, Problem::ServiceToEnd), ["s6: cpu"], "turns do not divide a batch");
    assert!(crate::complete::mend(&mut tad) && tad.stages[0].batch.is_none());
}
