//! Names of stages: they do not depend on which sleeps were caught.

use crate::made::{found, named, requests};
use headworks_record::infer::Architecture;
use headworks_record::trace::{Stack, Trace};
use headworks_tad::model::Confidence;

/// A stack, given from the thread's beginning.
fn sleeps(trace: &mut Trace, unit: u32, ways: &[&[&str]]) {
    let frames = ways.concat().iter().rev().map(|&function| function.to_owned()).collect();
    trace.stacks.push(Stack { unit, whole: true, frames, n: 9, ..Stack::default() });
}

fn name_of(found: &Architecture, unit: u32) -> &str {
    &found.stages.stages[found.stages.of[&unit]].name
}

/// MariaDB without symbols: a thread for each connection.
const BEGIN: &[&str] = &["libc.so.6!1098e1", "libc.so.6!88ef0", "mariadbd!c7f450"];
const CONNECTION: &[&str] = &[
    "handle_one_connection",
    "do_handle_one_connection(CONNECT*, bool)",
    "do_command(THD*, bool)",
];
const READS: &[&str] = &["my_net_read_packet", "vio_read", "libc.so.6!recv"];
const COMMITS: &[&str] = &["dispatch_command(enum_server_command)", "trans_commit(THD*)"];

#[test]
fn threads_of_connections_are_one_stage_of_one_name_whichever_sleeps_were_caught() {
    let caught: [[&[&[&str]]; 2]; 5] = [
        [&[READS], &[READS]],
        [&[READS], &[COMMITS]],
        [&[COMMITS], &[COMMITS]],
        [&[READS, COMMITS], &[READS]],
        [&[READS, COMMITS], &[READS, COMMITS]],
    ];
    for others in [false, true] {
        for sleepers in &caught {
            let mut trace = named(&["server", "server", "server"]);
            for (unit, own) in [2, 3].into_iter().zip(sleepers) {
                requests(&mut trace, unit, 100);
                own.iter().for_each(|way| sleeps(&mut trace, unit, &[BEGIN, CONNECTION, way]));
            }
            if others {
                sleeps(&mut trace, 4, &[BEGIN, &["handle_manager", "my_cond_timedwait"]]);
            }
            let found = found(&trace);
            for unit in [2, 3] {
                assert_eq!(name_of(&found, unit), "handle-one-connection", "{sleepers:?}");
            }
            if others {
                assert_eq!(name_of(&found, 4), "handle-manager", "{sleepers:?}");
            }
        }
    }
}

#[test]
fn main_is_the_name_of_no_stage() {
    for (title, wanted) in [("server: worker process", "worker-process"), ("server", "server")] {
        let mut trace = named(&["server", "server"]);
        trace.processes.get_mut(&1).expect("a process").title = title.to_owned();
        for unit in [2, 3] {
            for way in [&["cycle", "wait"], &["cycle", "work"]] {
                sleeps(&mut trace, unit, &[&["_start", "main"], way]);
            }
        }
        assert_eq!(name_of(&found(&trace), 2), wanted);
    }
}

/// As Cassandra's workers, which several pools share.
#[test]
fn threads_that_change_their_names_are_at_most_likely_and_named() {
    let whole = "Native-Transport-Requests-4";
    for (names, changes) in [
        (&[whole, "Native-Transpor", "MutationStage-2", "ReadStage-1"][..], true),
        (&[whole, "Native-Transpor", "MutationStage-2"], false),
        (&["ReadStage-1", "MutationStage-2", "GossipStage-1"], true),
        // The first one is that of its creator.
        (&["main", "MutationStage-2"], false),
    ] {
        let mut trace = named(&["first", "second"]);
        let process = trace.processes.get_mut(&1).expect("a process");
        (process.java, process.name) = (true, "java".to_owned());
        let own = names.iter().map(|&name| name.to_owned()).collect();
        trace.threads.get_mut(&100).expect("a thread").names = own;
        sleeps(&mut trace, 2, &[&["start_thread", "SEPWorker.run", "LockSupport.park"]]);
        let found = found(&trace);
        let stage = &found.stages.stages[found.stages.of[&2]];
        assert_eq!(stage.sure == Confidence::Likely, changes, "{names:?}: {stage:?}");
        let said = found.unseen.iter().any(|what| what.contains("change them at work"));
        assert_eq!(said, changes, "{names:?}: {:?}", found.unseen);
    }
}

/// The closure around a thread's loop has the name of the function that starts the thread.
#[test]
fn a_closure_gives_its_loops_name() {
    let mut trace = named(&["server", "server"]);
    for unit in [2, 3] {
        for way in [["serve", "read"], ["serve", "work"]] {
            sleeps(&mut trace, unit, &[&["start_thread", "server::main::{{closure}}"], &way]);
        }
    }
    assert_eq!(name_of(&found(&trace), 2), "serve");
}
