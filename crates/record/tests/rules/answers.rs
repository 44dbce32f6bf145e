//! Stages that send only some answers themselves.

use crate::made::{arrows, found, named, requests, wakes};
use headworks_record::draw;
use headworks_record::infer::arrows::End;
use headworks_record::trace::{Process, Socket, Trace};
use headworks_tad::check;
use headworks_tad::remedy::Problem;

/// A worker that hands so many of its answers to a responder, and sends the others.
fn server(handed: u64) -> Trace {
    let mut trace = named(&["reader", "worker", "responder"]);
    requests(&mut trace, 2, 500);
    trace.sockets.retain(|socket| !socket.sends);
    wakes(&mut trace, 2, 3, 0x1000, 450);
    wakes(&mut trace, 3, 4, 0x2000, handed);
    for (unit, n) in [(3, 500 - handed), (4, handed)] {
        let (local, remote) = ("127.0.0.1:80".to_owned(), "127.0.0.1:40000".to_owned());
        let sends = true;
        trace.sockets.push(Socket { unit, sends, local, remote, n, bytes: n, ..Socket::default() });
    }
    trace
}

/// A worker that sends each answer in two parts, of which the second begins none.
fn in_parts() -> Trace {
    let mut trace = server(0);
    let sends = trace.sockets.iter_mut().filter(|socket| socket.sends && socket.n > 0);
    sends.for_each(|socket| (socket.n, socket.turns) = (2 * socket.n, socket.n));
    trace
}

#[test]
fn an_answer_in_two_parts_is_one_request() {
    let per_s = |trace: &Trace| {
        let drawn = draw::draw(trace, &found(trace), "server");
        drawn.loads[0].per_s * trace.head.counted_s
    };
    assert!((per_s(&in_parts()) - 500.0).abs() < 1.0, "{}", per_s(&in_parts()));
    let answers = |trace: &Trace| {
        let found = found(trace);
        let mut replies = found.arrows.iter().filter(|arrow| arrow.to == End::Clients);
        replies.next().expect("an arrow").n
    };
    assert_eq!(answers(&in_parts()), 500);
    // An older recording does not tell: each transfer is an answer.
    let mut older = in_parts();
    older.sockets.iter_mut().filter(|socket| socket.sends).for_each(|socket| socket.turns = 0);
    assert_eq!(answers(&older), 1_000);
    // Nothing comes back on the connection: each send is a message.
    let mut stream = in_parts();
    stream.sockets.retain(|socket| socket.sends);
    stream.sockets.iter_mut().for_each(|socket| socket.turns = socket.turns.min(1));
    assert_eq!(answers(&stream), 1_000);
}

/// Clients have several requests under way on one connection. The worker sends each answer for
/// itself, four before it is asked again. One call reads several requests.
#[test]
fn requests_that_are_under_way_at_the_same_time_are_counted() {
    let counted = |read: (u64, u64), sent: (u64, u64)| {
        let mut trace = server(0);
        for socket in trace.sockets.iter_mut().filter(|socket| socket.n > 0) {
            let (turns, messages) = if socket.sends { sent } else { read };
            (socket.n, socket.turns, socket.messages) = (messages, turns, messages);
        }
        let found = found(&trace);
        let n = |from: bool| {
            let own = |arrow: &&headworks_record::infer::arrows::Arrow| {
                (if from { arrow.from } else { arrow.to }) == End::Clients
            };
            found.arrows.iter().find(own).expect("an arrow").n
        };
        (n(true), n(false), found.several.len())
    };
    assert_eq!(counted((500, 700), (500, 2_000)), (2_000, 2_000, 1));
    assert_eq!(counted((500, 700), (600, 2_000)), (2_000, 2_000, 1), "two threads answer");
    assert_eq!(counted((500, 500), (500, 2_000)), (500, 500, 0), "a large answer in parts");
    assert_eq!(counted((500, 2_000), (500, 510)), (500, 500, 0), "a large request in parts");
}

fn unknown(trace: &Trace) -> Vec<(String, String)> {
    let drawn = draw::draw(trace, &found(trace), "server");
    let all = check::check(&drawn.tad).into_iter();
    let unknown = all.filter(|finding| finding.problem == Problem::UnknownUsage);
    unknown.map(|finding| (finding.stages[0].clone(), finding.resources[0].clone())).collect()
}

#[test]
fn who_sends_only_some_answers_may_use_the_network() {
    assert_eq!(unknown(&server(100)), [("worker".to_owned(), "network".to_owned())]);
    assert_eq!(unknown(&server(0)), [], "it sends all of them");
    assert_eq!(unknown(&server(500)), [], "it sends none");
    assert_eq!(unknown(&server(499)), [], "it sends hardly any");
}

/// Each request comes by another connection.
#[test]
fn connections_that_come_and_go_are_as_many_clients_as_were_open_at_a_time() {
    for (open, clients) in [(0, 40), (3, 3), (90, 40)] {
        let mut trace = named(&["reader"]);
        requests(&mut trace, 2, 500);
        let one = trace.sockets.clone();
        trace.sockets = (0..40)
            .flat_map(|port| {
                let remote = format!("127.0.0.1:{}", 40_000 + port);
                one.iter().map(move |socket| Socket { remote: remote.clone(), ..socket.clone() })
            })
            .collect();
        trace.processes.get_mut(&1).expect("the server").open = open;
        let found = found(&trace);
        assert_eq!(found.connections[&found.stages.of[&2]], clients, "{open}");
        // A request for each, and none was open at a look.
        let more = (0..60).map(|port| Socket {
            remote: format!("127.0.0.1:{}", 40_000 + port),
            turns: 1,
            ..one[0].clone()
        });
        trace.sockets = more.collect();
        let found = crate::made::found(&trace);
        let wanted = if open == 0 { 1 } else { open.min(60) };
        assert_eq!(found.connections[&found.stages.of[&2]], wanted, "{open}");
    }
}

#[test]
fn clients_of_a_unix_socket_are_not_bounded_by_open_tcp_connections() {
    let mut trace = named(&["reader"]);
    requests(&mut trace, 2, 500);
    let one = trace.sockets.clone();
    trace.sockets = (0..5)
        .flat_map(|number| {
            let [local, remote] = ["a", "b"].map(|end| format!("unix:{end}{number}"));
            one.iter().map(move |socket| Socket {
                local: local.clone(),
                remote: remote.clone(),
                ..socket.clone()
            })
        })
        .collect();
    let server = trace.processes.get_mut(&1).expect("the server");
    (server.open, server.listens_unix) = (1, true);
    let seen = found(&trace);
    assert_eq!(seen.connections[&seen.stages.of[&2]], 5);
    // Where the kernel's side has no room, all of them are one, and that one has no peer.
    for socket in &mut trace.sockets {
        (socket.local, socket.remote) = ("unix:0".to_owned(), "unix:0".to_owned());
    }
    let seen = found(&trace);
    assert_eq!(seen.requests, [(seen.stages.of[&2], 2_500)]);
}

/// PHP alone, recorded as below: each address is at some time the end of a client.
#[test]
fn servers_ends_with_addresses_of_clients_are_no_peers() {
    let mut trace = named(&["pool", "pool"]);
    let process = trace.processes.get_mut(&1).expect("a process");
    (process.listens_unix, process.open_unix) = (true, 2);
    let ends = ["unix:a", "unix:b", "unix:c"];
    for (unit, local, remote) in [(2, 0, 1), (3, 1, 0), (2, 1, 2), (3, 2, 0)] {
        for (sends, bytes) in [(false, 80_000), (true, 2_000_000)] {
            let (local, remote) = (ends[local].to_owned(), ends[remote].to_owned());
            let socket = Socket { unit, sends, local, remote, bytes, ..Socket::default() };
            trace.sockets.push(Socket { n: 100, turns: 100, ..socket });
        }
    }
    let found = found(&trace);
    assert_eq!(arrows(&found), ["clients -> pool", "pool -> clients"]);
    assert_eq!(found.requests, [(0, 400)]);
    assert_eq!(found.connections[&0], 2);
    // What one end sends is what the other reads: a program that connects to itself.
    trace.sockets.iter_mut().for_each(|socket| socket.bytes = 5_000);
    assert!(infer_requests(&trace) < 400);
}

fn infer_requests(trace: &Trace) -> u64 {
    found(trace).requests.iter().map(|(_, n)| n).sum()
}

/// As nginx with PHP: a connection for each request, by Unix sockets. The kernel gives addresses of
/// closed sockets to new ones, so that each was at some time the end of either process.
#[test]
fn addresses_of_unix_sockets_that_are_used_again_tell_no_direction() {
    let mut trace = named(&["proxy", "pool"]);
    requests(&mut trace, 2, 500);
    let pool =
        Process { pid: 2, program: "pool".to_owned(), listens_unix: true, ..Process::default() };
    trace.processes.insert(2, pool);
    trace.units.get_mut(&3).expect("a unit").pid = 2;
    trace.threads.values_mut().filter(|thread| thread.unit == 3).for_each(|thread| thread.pid = 2);
    let ends = ["unix:a", "unix:b", "unix:c"];
    for (local, remote) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
        for (unit, local, remote) in [(2, local, remote), (3, remote, local)] {
            for sends in [false, true] {
                let (local, remote) = (ends[local].to_owned(), ends[remote].to_owned());
                // The proxy reads an answer by several calls.
                let (n, turns) = (if unit == 2 && !sends { 600 } else { 100 }, 100);
                trace.sockets.push(Socket {
                    unit,
                    sends,
                    local,
                    remote,
                    n,
                    turns,
                    ..Socket::default()
                });
            }
        }
    }
    let wanted = ["clients -> proxy", "proxy -> clients", "proxy -> pool", "proxy waits for pool"];
    assert_eq!(arrows(&found(&trace)), wanted);
}

/// A thread that reads each request in two parts and sends each answer in two, as a head and a body
/// of one size. It may hand over each request once.
#[test]
fn parts_of_one_size_are_no_requests() {
    let counted = |parts: (u64, u64), handed: u64, worker: bool| {
        let mut trace = server(0);
        trace.waits.retain(|wait| wait.waker != 2);
        wakes(&mut trace, 2, 3, 0x1000, handed);
        for socket in trace.sockets.iter_mut().filter(|socket| socket.n > 0) {
            let messages = 500 * if socket.sends { parts.1 } else { parts.0 };
            (socket.n, socket.turns, socket.messages) = (messages, 500, messages);
            socket.unit = if socket.sends && worker { 3 } else { 2 };
        }
        let drawn = draw::draw(&trace, &found(&trace), "server");
        drawn.loads[0].per_s * trace.head.counted_s
    };
    let near = |n: f64, wanted: f64| (n / wanted - 1.0).abs() < 0.02;
    assert!(near(counted((2, 2), 0, false), 500.0), "one thread alone");
    assert!(near(counted((2, 3), 490, false), 500.0), "it waits for a worker each time");
    assert!(near(counted((2, 2), 490, true), 500.0), "the worker answers");
    assert!(near(counted((4, 4), 1_900, true), 2_000.0), "each is handed over");
}
