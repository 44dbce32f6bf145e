//! The dissertation's table, and for each rule one change that adds or removes a finding.

mod further;

use super::*;
use crate::file::read_tad;
use crate::model::{Alternative, Policy, Problem, Remedy, SharedQueue, StageId, Threads};
use crate::systems;

fn system(name: &str) -> Tad {
    read_tad(name, systems::text(name).unwrap()).unwrap_or_else(|errors| panic!("{errors}")).value
}

fn of(tad: &Tad, problem: Problem) -> Vec<Finding> {
    check(tad).into_iter().filter(|finding| finding.problem == problem).collect()
}

/// The unmitigated findings of a problem, as stages and resources.
fn places(tad: &Tad, problem: Problem) -> Vec<String> {
    let open = of(tad, problem).into_iter().filter(|finding| !finding.mitigated());
    open.map(|finding| format!("{}: {}", finding.stages.join(" "), finding.resources.join(" ")))
        .collect()
}

fn stage<'a>(tad: &'a mut Tad, name: &str) -> &'a mut crate::model::Stage {
    let id = tad.stage(name).unwrap();
    &mut tad.stages[id]
}

/// Adds the control logic of a remedy that the system's file names.
fn control(tad: &mut Tad, problem: Problem, letter: &str) {
    let of = &tad.remedies[&problem];
    let Alternative { remedies, .. } = of.iter().find(|a| a.letter == letter).unwrap().clone();
    assert!(remedies.iter().all(Remedy::is_control), "{letter} changes more than controls");
    tad.controls.extend(remedies);
}

#[test]
fn the_table_over_the_four_systems_is_the_dissertations() {
    // Table 4.5.
    for (name, letters) in
        [("hbase", "NUCBO"), ("mongodb", "UCB"), ("cassandra", "UCB"), ("riak", "NUC")]
    {
        let report = report(&system(name));
        assert_eq!(five(&report.problems), letters, "{name}");
        assert_eq!(report.mitigated, "", "{name}");
    }
}

/// Of some letters those of Table 4.5.
fn five(letters: &str) -> String {
    let known = Problem::ALL[..Problem::OF_THE_PAPER].iter().map(|problem| problem.letter());
    known.filter(|letter| letters.contains(*letter)).collect()
}

#[test]
fn the_three_further_problems_are_found_in_the_four_systems() {
    for (name, letters) in
        [("hbase", "SEH"), ("mongodb", "SEH"), ("cassandra", "SEH"), ("riak", "SE")]
    {
        let report = report(&system(name));
        assert_eq!(report.problems.replace(&five(&report.problems), ""), letters, "{name}");
    }
    // The threads that section 4.3.4 dismisses, as all their requests take one path.
    let held = places(&system("hbase"), Problem::HeldThreads);
    assert!(held.starts_with(&["log-sync: ".to_owned(), "mem-flush: ".to_owned()]), "{held:?}");
}

#[test]
fn the_remedied_hbase_is_left_with_contention_that_its_controller_does_not_see() {
    let tad = system("hbase-maat");
    let report = report(&tad);
    assert_eq!((five(&report.problems).as_str(), five(&report.mitigated).as_str()), ("C", "UBO"));
    // Section 4.4.1 gives Mem Flush, which uses the CPU, no scheduler. The controller covers the
    // disk and the network.
    let open = places(&tad, Problem::HiddenContention);
    assert_eq!(
        open,
        ["rpc-read rpc-handle rpc-respond log-append mem-flush data-stream data-xceive: cpu"]
    );
    assert_eq!(of(&tad, Problem::HiddenContention).len(), 3);
}

#[test]
fn each_problem_is_found_where_the_dissertation_sees_it() {
    let tad = system("hbase");
    // Sections 4.3.1 to 4.3.5.
    assert_eq!(
        places(&tad, Problem::NoScheduling),
        ["data-stream: cpu network", "data-xceive: cpu io network"]
    );
    assert_eq!(places(&tad, Problem::UnknownUsage), ["rpc-handle: io", "rpc-handle: network"]);
    let contention = places(&tad, Problem::HiddenContention);
    assert!(contention.contains(&"rpc-handle data-xceive: io".to_owned()), "{contention:?}");
    assert!(
        contention.contains(
            &"rpc-read rpc-handle rpc-respond data-stream data-xceive: network".to_owned()
        )
    );
    // Mem Flush and LOG Sync block too, but all their requests do.
    assert_eq!(places(&tad, Problem::Blocking), ["rpc-handle: "]);
    assert_eq!(places(&tad, Problem::OrderingConstraint), ["log-append: "]);
    // Section 4.5.1.1: the lock of a MongoDB secondary.
    let contention = places(&system("mongodb"), Problem::HiddenContention);
    assert!(contention.contains(&"secondary-worker oplog-writer: db-lock".to_owned()));
    // Section 4.5.3.1: the partitions of a Riak node.
    let contention = places(&system("riak"), Problem::HiddenContention);
    assert!(contention.contains(&"cmd-handle: io".to_owned()), "{contention:?}");
}

#[test]
fn findings_violate_the_conditions_of_the_table() {
    // Table 4.3.
    let conditions = [
        Condition::Completeness,
        Condition::LocalEnforceability,
        Condition::IndependentScheduling,
        Condition::IndependentScheduling,
        Condition::LocalEnforceability,
        // The three that are not in the table.
        Condition::Completeness,
        Condition::LocalEnforceability,
        Condition::IndependentScheduling,
    ];
    assert_eq!(Problem::ALL.map(Problem::condition), conditions);
    for finding in check(&system("hbase")) {
        assert_eq!(finding.condition, finding.problem.condition());
    }
}

#[test]
fn a_pool_with_a_queue_ends_no_scheduling() {
    let mut tad = system("hbase");
    stage(&mut tad, "data-xceive").threads = Threads::Bounded(10);
    assert_eq!(places(&tad, Problem::NoScheduling), ["data-stream: cpu network"]);
    stage(&mut tad, "data-stream").uses.clear();
    assert_eq!(places(&tad, Problem::NoScheduling), [""; 0], "nothing to schedule");
}

#[test]
fn a_stage_without_a_bound_has_no_scheduling() {
    let mut tad = system("cassandra");
    stage(&mut tad, "read").threads = Threads::OnDemand;
    assert_eq!(places(&tad, Problem::NoScheduling), ["read: cpu io"]);
}

#[test]
fn rate_limits_mitigate_no_scheduling_if_no_request_comes_past_them() {
    let mut tad = system("hbase");
    control(&mut tad, Problem::NoScheduling, "i");
    assert_eq!(report(&tad).mitigated, "N");
    // A limit on only some of the ways does not count.
    tad.controls.retain(
        |control| !matches!(control, Remedy::RateLimit { stage, .. } if stage == "rpc-handle"),
    );
    assert_eq!(places(&tad, Problem::NoScheduling).len(), 2);
}

#[test]
fn usage_is_unknown_as_long_as_there_are_brackets_at_a_queue() {
    let mut tad = system("hbase");
    for item in &mut stage(&mut tad, "rpc-handle").uses {
        item.may = false;
    }
    assert_eq!(places(&tad, Problem::UnknownUsage), [""; 0]);
    // Riak's Req Process has brackets and no queue; with a queue it has the problem.
    let mut tad = system("riak");
    assert_eq!(places(&tad, Problem::UnknownUsage), ["cmd-handle: io", "cmd-handle: network"]);
    stage(&mut tad, "req-process").threads = Threads::Bounded(32);
    assert!(places(&tad, Problem::UnknownUsage).contains(&"req-process: network".to_owned()));
}

#[test]
fn speculation_mitigates_unknown_usage() {
    for name in ["hbase", "mongodb", "cassandra"] {
        let mut tad = system(name);
        let before = places(&tad, Problem::UnknownUsage).len();
        control(&mut tad, Problem::UnknownUsage, "i");
        assert!(places(&tad, Problem::UnknownUsage).len() < before, "{name}");
    }
}

#[test]
fn stages_of_one_shared_queue_do_not_contend() {
    let mut tad = system("mongodb");
    let all: Vec<StageId> = (0..tad.stages.len())
        .filter(|&id| tad.nodes[tad.node_of(id)].name == "secondary")
        .collect();
    let queue =
        SharedQueue { name: "all".into(), stages: all, concurrency: 10, policy: Policy::Drf };
    tad.shared_queues.push(queue);
    assert_eq!(places(&tad, Problem::HiddenContention), [""; 0]);
    let out = tad.stage("oplog-writer").unwrap();
    tad.shared_queues[0].stages.retain(|&id| id != out);
    let contention = of(&tad, Problem::HiddenContention);
    assert_eq!(contention.len(), 3, "cpu, io and db-lock");
    assert!(contention[0].reason.contains("one queue"), "{}", contention[0].reason);
}

#[test]
fn instances_of_a_stage_contend_unless_they_share_a_queue() {
    let mut tad = system("riak");
    let io = "cmd-handle: io".to_owned();
    stage(&mut tad, "cmd-handle").instances = 1;
    assert!(!places(&tad, Problem::HiddenContention).contains(&io));
    stage(&mut tad, "cmd-handle").instances = 4;
    assert!(places(&tad, Problem::HiddenContention).contains(&io));
    let stages = vec![tad.stage("cmd-handle").unwrap()];
    let queue =
        SharedQueue { name: "partitions".into(), stages, concurrency: 4, policy: Policy::Drf };
    tad.shared_queues.push(queue);
    assert!(!places(&tad, Problem::HiddenContention).contains(&io));
}

#[test]
fn stages_on_different_machines_do_not_contend() {
    let tad = system("mongodb");
    for finding in of(&tad, Problem::HiddenContention) {
        assert_eq!(finding.node, "secondary", "the one stage of a primary has no rival");
    }
}

#[test]
fn a_controller_that_reaches_all_of_them_mitigates_contention() {
    let mut tad = system("hbase");
    control(&mut tad, Problem::HiddenContention, "i");
    let open = places(&tad, Problem::HiddenContention);
    assert!(open.len() == 1 && open[0].ends_with(": cpu"), "{open:?}");
    for control in &mut tad.controls {
        if let Remedy::CoordinateWeights { stages, .. } = control {
            stages.retain(|stage| stage != "data-xceive");
        }
    }
    assert_eq!(places(&tad, Problem::HiddenContention).len(), 3);
}

#[test]
fn blocking_takes_a_bound_and_more_than_one_path() {
    let mut tad = system("hbase");
    stage(&mut tad, "rpc-handle").asynchronous = true;
    assert_eq!(places(&tad, Problem::Blocking), [""; 0]);
    stage(&mut tad, "rpc-handle").asynchronous = false;
    stage(&mut tad, "rpc-handle").threads = Threads::OnDemand;
    assert_eq!(places(&tad, Problem::Blocking), [""; 0]);
    // One path: every request waits for the log.
    stage(&mut tad, "rpc-handle").threads = Threads::Bounded(30);
    tad.requests.retain(|request| request.name == "put");
    assert_eq!(places(&tad, Problem::Blocking), [""; 0]);
}

#[test]
fn pools_bring_blocking_to_riak() {
    // Section 4.5.4.
    let mut tad = system("riak");
    assert_eq!(places(&tad, Problem::Blocking), [""; 0]);
    stage(&mut tad, "req-process").threads = Threads::Bounded(32);
    assert_eq!(places(&tad, Problem::Blocking), ["req-process: "]);
    // With a single partition all its requests take the same path.
    stage(&mut tad, "cmd-handle").instances = 1;
    assert_eq!(places(&tad, Problem::Blocking), [""; 0]);
}

#[test]
fn both_indirect_remedies_mitigate_blocking() {
    for letter in ["i1", "i2"] {
        let mut tad = system("hbase");
        control(&mut tad, Problem::Blocking, letter);
        assert_eq!(places(&tad, Problem::Blocking), [""; 0], "{letter}");
    }
}

#[test]
fn blocking_is_seen_in_the_arrows_when_no_request_is_described() {
    let mut tad = system("hbase");
    tad.requests.clear();
    assert_eq!(places(&tad, Problem::Blocking), ["rpc-handle: "]);
}

#[test]
fn order_is_a_constraint_unless_it_is_kept_for_each_client_apart() {
    let mut tad = system("hbase");
    stage(&mut tad, "log-append").queue.ordered_per_client = true;
    assert_eq!(places(&tad, Problem::OrderingConstraint), [""; 0]);
    stage(&mut tad, "mem-flush").queue.ordered = true;
    assert_eq!(places(&tad, Problem::OrderingConstraint), ["mem-flush: "]);
}

#[test]
fn what_bounds_an_ordered_queue_mitigates_it() {
    let mut tad = system("hbase");
    let bound = Remedy::BoundDownstream {
        stage: "rpc-handle".into(),
        downstream: "log-append".into(),
        limit: 10,
    };
    tad.controls = vec![bound];
    assert_eq!(places(&tad, Problem::OrderingConstraint), [""; 0]);
    // Shared threads bound it only while they wait for it (section 4.3.5).
    tad.controls = vec![Remedy::ScheduleThreads { stage: "rpc-handle".into() }];
    assert_eq!(places(&tad, Problem::OrderingConstraint), [""; 0]);
    stage(&mut tad, "rpc-handle").asynchronous = true;
    assert_eq!(places(&tad, Problem::OrderingConstraint), ["log-append: "]);
}

#[test]
fn every_finding_has_a_reason_and_a_remedy_that_its_system_can_take() {
    for name in systems::names() {
        let text = systems::text(name).unwrap();
        for finding in check(&system(name)) {
            assert!(!finding.reason.is_empty() && !finding.remedies.is_empty());
            assert!(finding.remedies.is_sorted_by_key(|advice| advice.directness), "{name}");
            for stage in &finding.stages {
                assert!(finding.reason.contains(stage), "{name}: {}", finding.reason);
            }
            for advice in &finding.remedies {
                let remedies = advice.remedies.join(", ");
                let with = format!(
                    "{text}\n[remedy.{}.tried]\nremedies = [{remedies}]\n",
                    finding.problem.name()
                );
                read_tad(name, &with).unwrap_or_else(|errors| panic!("{errors}"));
            }
        }
    }
}

#[test]
fn the_report_is_data() {
    let json = serde_json::to_value(report(&system("hbase"))).unwrap();
    assert_eq!(json["system"], "hbase");
    assert_eq!(json["problems"], "NUCBOSEH");
    let first = &json["findings"][0];
    assert_eq!(first["problem"], "no-scheduling");
    assert_eq!(first["condition"], "completeness");
    assert_eq!(first["remedies"][0]["directness"], "direct");
}
