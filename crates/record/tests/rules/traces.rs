//! Recordings of any kind: what is written is read, and no rule panics.

use headworks_record::hints::Hints;
use headworks_record::trace::{
    Activity, Head, How, Monitor, Process, SCHEMA, Socket, Stack, Thread, Trace, TraceError, Unit,
    Wait,
};
use headworks_record::{draw, infer, report};
use headworks_tad::check;
use headworks_tad::file::{read_tad, write_tad};
use proptest::prelude::*;

fn head() -> Head {
    Head {
        schema: SCHEMA.to_owned(),
        host: "box".to_owned(),
        mode: "ebpf".to_owned(),
        seconds: 2.0,
        counted_s: 1.0,
        processors: 2,
        ..Head::default()
    }
}

/// A recording with numbers that need not fit together.
fn any_trace() -> impl Strategy<Value = Trace> {
    let wait = (0u32..14, 0u32..14, 0u64..40, -1i16..300, 0u16..400, 0usize..7, 0u64..5_000);
    let socket = (0u32..14, any::<bool>(), 0u16..6, 0u16..6, 0u64..2_000);
    let stack = (0u32..14, 0u64..40, any::<bool>(), proptest::collection::vec(0usize..9, 0..7));
    (
        proptest::collection::vec((1u32..4, "[a-z#]{0,6}", 0u32..14), 1..14),
        proptest::collection::vec(wait, 0..60),
        proptest::collection::vec(socket, 0..20),
        proptest::collection::vec(stack, 0..40),
    )
        .prop_map(|(threads, waits, sockets, stacks)| {
            let mut trace = Trace { head: head(), ..Trace::default() };
            for pid in 1..4 {
                trace.processes.insert(
                    pid,
                    Process {
                        pid,
                        parent: pid / 2,
                        program: ["", "server", "server", "java"][pid as usize].to_owned(),
                        name: "server".to_owned(),
                        java: pid == 3,
                        listens: vec![pid as u16],
                        ..Process::default()
                    },
                );
            }
            for (at, (pid, name, unit)) in threads.into_iter().enumerate() {
                let tid = 100 + at as u32;
                let births = u64::from(unit % 5 == 0) * 7;
                trace.units.insert(
                    unit,
                    Unit { unit, pid, births, alive_max: 1, run_ns: 1_000_000, ..Unit::default() },
                );
                let names = vec![name];
                trace.threads.insert(tid, Thread { tid, pid, unit, names, ..Thread::default() });
            }
            trace.waits = waits.into_iter().map(wait_of).collect();
            for (unit, sends, a, b, n) in sockets {
                let (local, remote) = (format!("127.0.0.1:{a}"), format!("127.0.0.1:{b}"));
                let (after, after_ns) = (n / 2, n * 50_000);
                let bytes = n * 10;
                let (turns, messages) = (n, n * (1 + n % 3));
                trace.sockets.push(Socket {
                    unit,
                    sends,
                    local,
                    remote,
                    n,
                    bytes,
                    turns,
                    messages,
                    after,
                    after_ns,
                });
            }
            trace.stacks = stacks.into_iter().map(stack_of).collect();
            // Of units that there are and of others, with more and fewer moments.
            trace.head.moments_ms = vec![0, 5, 9];
            for unit in [2, 7, 99] {
                let (alive, active) = (vec![unit; 2], vec![0.5; unit as usize % 5]);
                trace.activity.push(Activity { unit, alive, active });
                let (class, function) = ("Basket".to_owned(), "work".to_owned());
                let (waker, by) = (unit + 1, "enter".to_owned());
                let monitor =
                    Monitor { unit, waker, class, function, by, n: 3, ..Monitor::default() };
                trace.monitors.push(monitor);
            }
            trace
        })
}

fn wait_of(
    (waker, wakee, object, sleep, op, how, n): (u32, u32, u64, i16, u16, usize, u64),
) -> Wait {
    const HOWS: [How; 7] =
        [How::None, How::Futex, How::Ready, How::Signal, How::Exit, How::Device, How::Timer];
    let (how, off_ns) = (HOWS[how], n * 1_000);
    Wait { waker, wakee, object, sleep, op, how, n, off_ns, ..Wait::default() }
}

fn stack_of((unit, object, whole, frames): (u32, u64, bool, Vec<usize>)) -> Stack {
    const NAMES: [&str; 9] = [
        "start_thread",
        "serve",
        "work",
        "pthread_mutex_lock",
        "pthread_cond_wait",
        "spawn",
        "a!1f",
        "Parker::park",
        "?",
    ];
    let frames = frames.into_iter().map(|at| NAMES[at].to_owned()).collect();
    Stack { unit, object, whole, frames, n: 1, ..Stack::default() }
}

proptest! {
    #[test]
    fn what_is_written_is_read(trace in any_trace()) {
        let mut bytes = Vec::new();
        trace.write(&mut bytes, u64::MAX).unwrap();
        let read = Trace::read(&bytes[..]).unwrap();
        prop_assert_eq!(read, trace);
    }

    /// Whatever was recorded becomes a diagram that can be read, checked and reported.
    #[test]
    fn each_recording_becomes_a_diagram(trace in any_trace()) {
        let found = infer::infer(&trace, &Hints::default());
        for stage in found.stages.of.values() {
            prop_assert!(*stage < found.stages.stages.len());
        }
        let drawn = draw::draw(&trace, &found, "any");
        let _ = report::report(&trace, &found, &drawn);
        if !drawn.tad.stages.is_empty() {
            let text = write_tad(&drawn.tad);
            let read = read_tad("any", &text);
            prop_assert!(read.is_ok(), "{}\n{text}", read.err().map(|e| e.to_string()).unwrap_or_default());
            let read = read.unwrap().value;
            prop_assert_eq!(&read, &drawn.tad);
            let _ = check::report(&read);
        }
    }
}

#[test]
fn a_file_that_is_cut_is_read_up_to_the_cut() {
    let mut trace = Trace { head: head(), ..Trace::default() };
    trace.waits = vec![Wait { n: 1, ..Wait::default() }, Wait { n: 2, ..Wait::default() }];
    let mut bytes = Vec::new();
    trace.write(&mut bytes, u64::MAX).unwrap();
    let read = Trace::read(&bytes[..bytes.len() - 5]).unwrap();
    assert_eq!(read.waits.len(), 1);
    assert!(read.losses.iter().any(|loss| loss.what.contains("was cut")), "{:?}", read.losses);
}

#[test]
fn what_is_no_recording_is_refused_with_the_line() {
    let wrong = Trace::read(&b"name = \"x\"\n"[..]).unwrap_err();
    assert!(matches!(wrong, TraceError::Line { line: 1, .. }), "{wrong}");
    let other = Trace::read(&br#"{"kind":"head","schema":"headworks-recording/9","host":"","kernel":"","mode":"","started_s":0,"seconds":0.0,"counted_s":0.0,"processors":1,"budget":0.0,"taken":0.0,"own":0.0,"switches_per_s":0.0,"missing":[]}"#[..]);
    assert!(matches!(other, Err(TraceError::Schema { .. })), "{other:?}");
    assert!(Trace::read(&b""[..]).is_err());
}

#[test]
fn a_file_has_a_bound() {
    let trace = Trace { head: head(), ..Trace::default() };
    let mut bytes = Vec::new();
    let refused = trace.write(&mut bytes, 20);
    assert!(matches!(refused, Err(TraceError::Large { limit: 20 })), "{refused:?}");
    assert!(bytes.is_empty());
}
