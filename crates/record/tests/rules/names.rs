//! Names of stages: they do not depend on which sleeps were caught.

use crate::made::{FUTEX, arrows, found, named, requests, wakes};
use headworks_record::infer::Architecture;
use headworks_record::trace::{How, Monitor, Stack, Trace, Wait};
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

/// A virtual machine tells whole names, and the kernel 15 characters of those that were just born.
#[test]
fn what_the_kernel_keeps_of_a_name_is_of_the_stage_with_the_whole_name() {
    let mut trace = named(&["seller-12-with-a-name", "seller-##-with-", "seller-##-with"]);
    trace.processes.values_mut().for_each(|process| process.java = true);
    for unit in [3, 4] {
        let name = trace.threads.values().find(|thread| thread.unit == unit).expect("it is there");
        let name = name.names[0].clone();
        trace.threads.retain(|_, thread| thread.unit != unit);
        let own = trace.units.get_mut(&unit).expect("it is there");
        (own.name, own.births, own.named) = (name, 1, true);
    }
    let found = found(&trace);
    assert_eq!(found.stages.of[&2], found.stages.of[&3], "{:?}", found.stages.stages);
    assert_ne!(found.stages.of[&2], found.stages.of[&4], "it is shorter than what is kept");
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

/// As Cassandra's workers, which several pools share. The kernel keeps 15 characters of a name.
#[test]
fn pools_that_share_their_threads_are_one_stage_that_is_likely() {
    const WHOLE: &str = "Native-Transport-Requests-4";
    let mut trace = named(&["a", "b", "c", "d", "e"]);
    let process = trace.processes.get_mut(&1).expect("a process");
    (process.java, process.name) = (true, "java".to_owned());
    let names: [&[&str]; 5] = [
        &[WHOLE, "Native-Transpor", "MutationStage-2"],
        &["MutationStage-7", "Native-Transpor"],
        &["MutationStage-9"],
        // One thread may have been seen with its creator's name.
        &["CompactionExecutor:1", "CompactionExecu", "MutationStage-2"],
        &["GossipStage:1"],
    ];
    for (thread, own) in trace.threads.values_mut().zip(names) {
        thread.names = own.iter().map(|&name| name.to_owned()).collect();
    }
    let found = found(&trace);
    let shared = "mutationstage-native-transport-requests";
    for (unit, name) in [(2, shared), (3, shared), (4, shared), (6, "gossipstage")] {
        assert_eq!(name_of(&found, unit), name);
    }
    let stage = &found.stages.stages[found.stages.of[&2]];
    assert_eq!(stage.sure, Confidence::Likely);
    let gossip = &found.stages.stages[found.stages.of[&6]];
    assert_eq!(gossip.sure, Confidence::Certain);
    let said = "which threads work for which of MutationStage + Native-Transport-Requests";
    assert!(found.unseen.iter().any(|what| what.starts_with(said)), "{:?}", found.unseen);
}

#[test]
fn a_thread_of_three_names_has_none_and_is_named_as_not_seen() {
    let mut trace = named(&["server", "server"]);
    for (thread, own) in trace.threads.values_mut().zip([&["reads", "works", "idle"], &["x"; 3]]) {
        thread.names = own.iter().map(|&name| name.to_owned()).collect();
    }
    sleeps(&mut trace, 2, &[&["start_thread", "execute", "libc.so.6!futex"]]);
    let found = found(&trace);
    assert_eq!((name_of(&found, 2), name_of(&found, 3)), ("execute", "x"));
    assert_eq!(found.stages.stages[found.stages.of[&2]].sure, Confidence::Likely);
    let said = found.unseen.iter().any(|what| what.contains("idle, reads, works"));
    assert!(said, "{:?}", found.unseen);
}

#[test]
fn names_with_several_numbers_tell_requests_and_not_stages() {
    let mut trace = named(&["server", "server"]);
    for (at, thread) in (0..).zip(trace.threads.values_mut()) {
        thread.names = (0..3).map(|number| format!("job-{}", 10 * at + number)).collect();
    }
    sleeps(&mut trace, 2, &[&["start_thread", "reads", "libc.so.6!futex"]]);
    sleeps(&mut trace, 3, &[&["start_thread", "writes", "libc.so.6!futex"]]);
    let of_three = found(&trace);
    assert_eq!((name_of(&of_three, 2), name_of(&of_three, 3)), ("reads", "writes"));
    // One that was born meanwhile had its creator's name first.
    for thread in trace.threads.values_mut() {
        thread.names.truncate(2);
        thread.born = 2;
    }
    assert_eq!(name_of(&found(&trace), 3), "job");
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

/// As HAProxy's: the first thread comes to the loop from `main`, the others from their beginning.
#[test]
fn threads_that_answer_at_one_address_in_one_loop_are_one_stage() {
    let mut trace = named(&["server", "server", "server"]);
    for (unit, begins) in [(2, &["_start", "main"]), (3, &["libc.so.6!88ef0", "server!1a5120"])] {
        requests(&mut trace, unit, 100);
        for way in [&["poll", "wait"], &["poll", "work"]] {
            sleeps(&mut trace, unit, &[begins, &["run_loop"], way]);
        }
    }
    sleeps(&mut trace, 4, &[&["libc.so.6!88ef0", "server!2000"], &["log"]]);
    let found = found(&trace);
    assert_eq!((name_of(&found, 2), name_of(&found, 3)), ("run-loop", "run-loop"));
    assert_eq!(found.stages.of[&2], found.stages.of[&3]);
    assert_eq!(name_of(&found, 4), "log");
}

/// What its first thread runs may be code without tables to unwind it.
#[test]
fn a_first_thread_without_a_whole_stack_is_its_programs() {
    let mut trace = named(&["server", "server"]);
    let thread = trace.threads.remove(&100).expect("a thread");
    trace.threads.insert(1, headworks_record::trace::Thread { tid: 1, ..thread });
    sleeps(&mut trace, 3, &[&["start_thread", "worker", "wait"]]);
    let found = found(&trace);
    assert_eq!((name_of(&found, 2), name_of(&found, 3)), ("server", "worker"));
    let stage = &found.stages.stages[found.stages.of[&2]];
    assert_eq!((stage.null, stage.sure), (false, Confidence::Likely));
}

#[test]
fn threads_of_a_go_program_are_one_stage_and_its_goroutines_are_not_seen() {
    let mut trace = named(&["server", "server"]);
    for (unit, begins) in [(2, "runtime.mcall"), (3, "runtime.mstart1")] {
        sleeps(&mut trace, unit, &[&[begins, "runtime.park_m", "runtime.findRunnable"]]);
    }
    let found = found(&trace);
    assert_eq!((name_of(&found, 2), found.stages.stages.len()), ("goroutines", 1));
    assert_eq!(found.stages.stages[0].sure, Confidence::Likely);
    assert!(found.unseen.iter().any(|what| what.starts_with("goroutines in server")));
}

#[test]
fn what_a_runtime_switches_is_named_as_not_seen() {
    for (thread, wanted) in [
        ("tokio-runtime-w", "tasks of Tokio in server: its runtime"),
        ("2_scheduler", "processes of Erlang in server: its runtime"),
        ("erts_sched_2", "processes of Erlang in server: its runtime"),
    ] {
        let trace = named(&["reader", thread, thread]);
        let found = found(&trace);
        let said = found.unseen.iter().filter(|what| what.starts_with(wanted));
        assert_eq!(said.count(), 1, "{:?}", found.unseen);
    }
}

/// They park as C programs wait for a mutex, and the runtime has such locks, too.
#[test]
fn a_thread_of_go_without_a_goroutine_waits_for_no_lock() {
    for (function, locks) in [("runtime.notesleep", 0), ("runtime.lock2", 1)] {
        let mut trace = named(&["server", "server"]);
        for (waker, unit) in [(3, 2), (2, 3)] {
            sleeps(&mut trace, unit, &[&["runtime.mcall", "runtime.stopm", function]]);
            let stack = trace.stacks.last_mut().expect("a stack");
            (stack.sleep, stack.op, stack.object) = (FUTEX, 128, 0x9000);
            wakes(&mut trace, waker, unit, 0x9000, 50);
            trace.waits.last_mut().expect("a wait").op = 128;
        }
        assert_eq!(found(&trace).locks.len(), locks, "{function}");
    }
}

/// An executor of `java.util.concurrent` gives its threads no name but its number.
#[test]
fn executors_of_java_are_told_apart_by_their_numbers() {
    let names = ["pool-1-thread-1", "pool-1-thread-2", "pool-2-thread-1", "pool-name-thread-1"];
    for (java, wanted) in [(true, ["pool-1", "pool-1", "pool-2"]), (false, ["unknown-threads"; 3])]
    {
        let mut trace = named(&names);
        trace.processes.get_mut(&1).expect("a process").java = java;
        let found = found(&trace);
        assert_eq!([2, 3, 4].map(|unit| name_of(&found, unit)), wanted);
        let sure = found.stages.stages[found.stages.of[&2]].sure;
        assert_eq!(sure == Confidence::Likely, java);
    }
}

/// JDK 25's threads: what runs virtual threads says nothing of their stages.
#[test]
fn carriers_of_virtual_threads_are_one_stage_and_what_passes_between_these_is_not_seen() {
    const OWN: &str = "VirtualThread-unblocker";
    for (names, seen) in [([OWN, "ForkJoinPool-1-worker-1"], false), (["main", "pool-3"], true)] {
        let mut trace = named(&[names[0], names[1], "stage-b-1"]);
        trace.processes.get_mut(&1).expect("a process").java = true;
        if seen {
            sleeps(&mut trace, 3, &[&["void jdk.internal.vm.Continuation.run()", "work"]]);
        }
        requests(&mut trace, 3, 500);
        wakes(&mut trace, 3, 4, 0x1000, 300);
        wakes(&mut trace, 4, 3, 0x2000, 300);
        let found = found(&trace);
        assert_eq!((name_of(&found, 3), name_of(&found, 4)), ("virtual-threads", "stage-b"));
        // Who wakes a carrier may answer a virtual thread, or hand over to one.
        let inside = arrows(&found).into_iter().filter(|arrow| !arrow.contains("clients"));
        assert_eq!(inside.collect::<Vec<_>>(), ["virtual-threads -> stage-b"]);
        let carriers = &found.stages.stages[found.stages.of[&3]];
        assert_eq!((carriers.units.len(), carriers.sure), (1, Confidence::Likely));
        assert!(found.unseen.iter().any(|what| what.contains("virtual threads of server")));
    }
    let mut trace = named(&["main", "ForkJoinPool-1-worker-1"]);
    trace.processes.get_mut(&1).expect("a process").java = true;
    assert!(found(&trace).unseen.iter().all(|what| !what.contains("virtual threads")));
}

/// The kernel keeps fifteen characters of a name, which those of several pools may have in common.
#[test]
fn what_the_kernel_keeps_of_several_names_makes_them_no_stage() {
    let pools = ["regionserver/a.append-pool", "regionserver/a.logRoller", "regionserver/a.Chore"];
    let mut trace = named(&[pools, pools].concat());
    trace.processes.get_mut(&1).expect("a process").java = true;
    for thread in trace.threads.values_mut() {
        thread.names.push("regionserver/a.".to_owned());
    }
    for unit in 2..8 {
        requests(&mut trace, unit, 100);
    }
    let found = found(&trace);
    for (unit, name) in (2..8).zip([pools, pools].concat()) {
        let stage = &found.stages.stages[found.stages.of[&unit]];
        assert_eq!((&*stage.title, stage.threads.len()), (name, 2));
        assert_eq!(stage.sure, Confidence::Certain);
    }
}

/// The kernel's side sees that threads wait in a function, and the virtual machine of which class
/// the lock is.
#[test]
fn a_lock_has_the_class_that_a_virtual_machine_tells() {
    let mut trace = named(&["reader", "worker"]);
    requests(&mut trace, 2, 500);
    wakes(&mut trace, 2, 3, 0x1000, 400);
    let (object, sleep, op) = (0x9000, FUTEX, 137);
    let frames = ["ObjectMonitor::enter(JavaThread*)", "void Shop.order()", "Interpreter"];
    let frames = frames.map(str::to_owned).to_vec();
    let stack = Stack { unit: 3, object, sleep, op, whole: true, frames, n: 9, ..Stack::default() };
    trace.stacks.push(stack);
    let (how, n, off_ns) = (How::Futex, 200, 400_000_000);
    trace.waits.push(Wait {
        waker: 2,
        wakee: 3,
        object,
        sleep,
        op,
        how,
        n,
        off_ns,
        ..Wait::default()
    });
    let lock = |trace: &Trace| found(trace).locks[0].name.clone();
    assert_eq!(lock(&trace), "Shop.order");
    let monitor = |class: &str, by: &str, n| Monitor {
        unit: 3,
        class: class.to_owned(),
        function: "Shop.order".to_owned(),
        by: by.to_owned(),
        n,
        ..Monitor::default()
    };
    trace.monitors = vec![monitor("Shop$Stock", "enter", 30), monitor("ReentrantLock", "park", 2)];
    trace.monitors.push(monitor("Shop$Basket", "wait", 90));
    assert_eq!(lock(&trace), "Shop$Stock in Shop.order");
}
