//! Settings that cannot be read, fences that begin again, and controllers that stand still.

mod common;

use common::{Dir, Node, Process, Store, ask, own_address, program, serve, text, until};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SETTINGS: &str = "/headworks/controller/main/settings";

fn by_etcd(at: SocketAddr, etcd: SocketAddr) -> String {
    format!("listen = \"{at}\"\nperiod_ms = 200\n[etcd]\nservers = [\"{etcd}\"]\nname = \"main\"\n")
}

fn by_directory(dir: &Dir, at: SocketAddr) -> String {
    let state = dir.0.join(format!("state-{}", at.port()));
    format!("listen = \"{at}\"\nperiod_ms = 200\nstate = \"{}\"\n", state.display())
}

fn in_office(at: SocketAddr) -> bool {
    text(&ask(&[at], &["status"])).starts_with("in office, fence")
}

#[test]
fn what_cannot_be_read_is_never_replaced() {
    let dir = Dir::new("read");
    let (at, client) = (own_address(0), own_address(1));
    let Some(etcd) = Store::start(&dir, client, own_address(2)) else { return };
    let next = |settings: &str, before: Option<Process>| {
        etcd.ctl(&["put", SETTINGS, settings]);
        drop(before);
        etcd.end_leases();
        let process = serve(&dir, "config", &by_etcd(at, client));
        until("it is in office", || in_office(at));
        process
    };
    // What a later version has written.
    let first = next(r#"{"bob":{"weight":3.0,"note":"x"},"eve":{"weight":-1}}"#, None);
    let mut node = Node::come(at, "-");
    node.say("use 0.500 w bob\nuse 0.500 w eve\nreport\n");
    node.hears("weight 3.000 bob");
    node.hears("weight 1.000 eve");
    let set = ask(&[at], &["set", "dave", "--weight", "2"]);
    assert!(set.status.success(), "{}", text(&set));
    let kept = etcd.ctl(&["get", SETTINGS]);
    assert!(kept.contains("note") && kept.contains("dave"), "{kept}");
    // What no version has.
    let damaged = r#"{"bob":{"weight":"three"}}"#;
    let _second = next(damaged, Some(first));
    let status = text(&ask(&[at], &["status"]));
    assert!(status.contains("settings cannot be read"), "{status}");
    let refused = Node::come(at, "-").line();
    assert!(refused.starts_with("error its settings cannot be read"), "{refused}");
    let set = ask(&[at], &["set", "dave", "--weight", "2"]);
    assert!(!set.status.success() && text(&set).contains(SETTINGS), "{}", text(&set));
    assert!(etcd.ctl(&["get", SETTINGS]).contains(damaged));
    // An operator mends it.
    etcd.ctl(&["put", SETTINGS, r#"{"bob":{"weight":4.0}}"#]);
    until("its settings are read", || !text(&ask(&[at], &["status"])).contains("cannot be read"));
    let mut node = Node::come(at, "-");
    node.say("use 0.500 w bob\nreport\n");
    node.hears("weight 4.000 bob");
    // While etcd is silent, `status` does not wait for it, and nodes are told what is the matter.
    etcd.stops();
    until("office is given up", || {
        let begun = Instant::now();
        let status = text(&ask(&[at], &["status"]));
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        status.contains("not in office: etcd does not answer")
    });
    let refused = Node::come(at, "-").line();
    assert!(refused.starts_with("error etcd does not answer"), "{refused}");
}

#[test]
fn numbers_from_outside_are_refused() {
    let dir = Dir::new("numbers");
    let at = own_address(3);
    let _controller = serve(&dir, "config", &by_directory(&dir, at));
    until("it listens", || TcpStream::connect(at).is_ok());
    for wrong in ["nan", "inf", "1e300", "-1", "0", "three"] {
        for option in ["--weight", "--limit", "--target"] {
            let set = ask(&[at], &["set", "bob", option, wrong]);
            assert!(!set.status.success(), "{option} {wrong}: {}", text(&set));
        }
    }
    assert!(text(&ask(&[at], &["set", "bob"])).contains("nothing is to be set"));
    // By another program than ours.
    for json in [
        r#"{"tenant":"bob"}"#,
        r#"{"tenant":"bob","weight":null}"#,
        r#"{"tenant":"bob","weight":-1}"#,
        r#"{"tenant":"bob","target":1e300}"#,
        r#"{"tenant":"a\nfence 9","weight":1}"#,
    ] {
        let stream = TcpStream::connect(at).unwrap();
        (&stream).write_all(format!("set - {json}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.starts_with("error "), "{json}: {answer}");
    }
    let state = dir.0.join(format!("state-{}/settings.json", at.port()));
    assert!(!std::fs::read_to_string(state).unwrap().contains("bob"));
}

#[test]
fn the_one_in_office_goes_beyond_every_fence_that_was_heard() {
    let dir = Dir::new("fence");
    let (at, client) = (own_address(4), own_address(5));
    // A state directory that was lost.
    let config = by_directory(&dir, at);
    let first = serve(&dir, "config", &config);
    until("it listens", || TcpStream::connect(at).is_ok());
    until("it goes beyond what a node says", || Node::heard(at, 46).fence() == 47);
    assert_eq!(Node::come(at, "-").fence(), 47);
    drop(first);
    let second = serve(&dir, "config", &config);
    until("it listens again", || TcpStream::connect(at).is_ok());
    assert_eq!(Node::come(at, "-").fence(), 48, "it is kept");
    let raised = ask(&[at], &["raise", "100"]);
    assert!(raised.status.success() && text(&raised).contains("101"), "{}", text(&raised));
    assert_eq!(Node::come(at, "-").fence(), 101);
    let mut node = Node::heard(at, u64::MAX);
    assert_eq!(node.fence(), 101);
    node.hears("beat");
    assert_eq!(Node::come(at, "-").fence(), 101, "a number that leaves no room is no fence");
    drop(second);
    // An etcd that counts from the beginning.
    let Some(mut etcd) = Store::start(&dir, client, own_address(6)) else { return };
    let config = by_etcd(at, client);
    let third = serve(&dir, "config", &config);
    until("it is in office", || in_office(at));
    until("it goes beyond", || Node::heard(at, 101).fence() == 102);
    drop(third);
    etcd.end_leases();
    let _fourth = serve(&dir, "config", &config);
    until("the next is in office", || in_office(at));
    assert_eq!(Node::come(at, "-").fence(), 103, "who comes next is larger");
    etcd.is_emptied();
    until("it goes beyond again", || {
        TcpStream::connect(at).is_ok() && in_office(at) && Node::heard(at, 103).fence() == 104
    });
}

/// A gate that has one class, and notes the weights that it is told.
fn gate(dir: &Dir, weight: &Arc<Mutex<f64>>) -> std::path::PathBuf {
    let socket = dir.0.join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let weight = Arc::clone(weight);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let question: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(told) = question["weights"]["alice"].as_f64() {
                *weight.lock().unwrap() = told;
            }
            let classes = r#"[{"name": "alice", "inside": 1, "waiting": 1}]"#;
            let answer =
                format!("{{\"status\": {{\"parallelism\": 2, \"classes\": {classes}}}}}\n");
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    socket
}

#[test]
fn a_gate_leaves_a_controller_that_stands_still() {
    let dir = Dir::new("still");
    let at = [own_address(7), own_address(8)];
    // The second one has a smaller fence than the first.
    for _ in 0..2 {
        let _before = serve(&dir, "one", &by_directory(&dir, at[0]));
        until("it listens", || TcpStream::connect(at[0]).is_ok());
    }
    let one = serve(&dir, "one", &by_directory(&dir, at[0]));
    let _two = serve(&dir, "two", &by_directory(&dir, at[1]));
    for at in at {
        until("it listens", || TcpStream::connect(at).is_ok());
    }
    assert!(ask(&at[..1], &["set", "alice", "--weight", "3"]).status.success());
    assert!(ask(&at[1..], &["set", "alice", "--weight", "5"]).status.success());
    let weight = Arc::new(Mutex::new(0.0));
    let socket = gate(&dir, &weight);
    let mut command = program();
    command.args(["attach", "--gate", socket.to_str().unwrap(), "--node", "g"]);
    for at in at {
        command.args(["--controller", &at.to_string()]);
    }
    let _attached = Process(command.stderr(Stdio::null()).spawn().unwrap());
    until("the first one's weight", || *weight.lock().unwrap() == 3.0);
    let pid = one.0.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    until("the other one's weight", || *weight.lock().unwrap() == 5.0);
}
