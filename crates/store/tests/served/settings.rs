//! Settings that change while the store runs.

use crate::load::Load;
use crate::ours::client;
use crate::rig::{Rig, has, own_address, run, text, until};
use headworks_store::apps::Key;
use headworks_store::control::{self, Request, Response};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const CONFIG: &str = "\
[device]
kind = \"array\"
disks = 15
model = \"disks\"
[[volume]]
name = \"a\"
path = \"memory\"
size = \"256MiB\"
[[volume]]
name = \"b\"
path = \"memory\"
size = \"256MiB\"
[[application]]
name = \"a-app\"
volume = \"a\"
share = 0.5
[[application]]
name = \"b-app\"
volume = \"b\"
share = 0.5
";

fn set(rig: &Rig, application: &str, key: Key, number: f64) -> Response {
    let request = Request::Set { application: application.into(), key, number };
    control::ask(&rig.dir.join("socket.control"), &request).unwrap()
}

/// Changes a share a thousand times a second; the times that it took to be in force, in order.
fn changes(rig: &Rig, count: u32) -> Vec<Duration> {
    let begun = Instant::now();
    let mut times = Vec::new();
    for number in 0..count {
        let due = begun + Duration::from_millis(number.into());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let share = 0.1 + f64::from(number % 80) / 100.0;
        let asked = Instant::now();
        assert!(matches!(set(rig, "a-app", Key::Share, share), Response::Done(_)));
        if number % 50 == 0 {
            let b = set(rig, "b-app", Key::Share, 1.0 - share);
            assert!(matches!(b, Response::Done(_)));
            let goal = format!("{:.0} % by hand", 100.0 * share);
            let Response::Status(status) =
                control::ask(&rig.dir.join("socket.control"), &Request::Status).unwrap()
            else {
                panic!("no status");
            };
            assert_eq!(status.applications[0].goal, goal);
            if status.applications.iter().all(|app| app.last.demand) {
                assert!((status.applications[0].share - share).abs() < 0.01, "{status:?}");
            }
        }
        times.push(asked.elapsed());
    }
    times.sort();
    times
}

#[test]
fn a_share_that_is_set_a_thousand_times_a_second_is_in_force_each_time() {
    let rig = Rig::start(CONFIG);
    let idle = changes(&rig, 1_000);
    let loads = ["a", "b"].map(|name| client(&rig, name, 100));
    std::thread::sleep(Duration::from_secs(2));
    let busy = changes(&rig, 2_000);
    for times in [&idle, &busy] {
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("median {median:?}, longest {longest:?}");
        // Each is in force when it is answered. The rest is for a machine that is busy.
        assert!(median < Duration::from_millis(100) && longest < Duration::from_secs(2));
    }
    // The device follows from the next request on.
    for part in [0.8, 0.3] {
        set(&rig, "a-app", Key::Share, part);
        set(&rig, "b-app", Key::Share, 1.0 - part);
        std::thread::sleep(Duration::from_millis(200));
        let before = loads.each_ref().map(Load::done);
        std::thread::sleep(Duration::from_secs(2));
        let [a, b] = [0, 1].map(|at| (loads[at].done() - before[at]) as f64);
        assert!((a / (a + b) - part).abs() < 0.08, "{part}: {a} {b}");
    }
}

#[test]
fn what_is_set_lasts_until_the_configuration_is_read_again() {
    let rig = Rig::start(CONFIG);
    let said = rig.ok(&["set", "a-app", "target", "40"]);
    assert!(said.contains("a-app: target 40"), "{said}");
    let app = rig.app("a-app");
    assert_eq!((app["goal"].as_str(), app["limit"].as_f64()), (Some("40/s"), Some(0.9)));
    rig.ok(&["set", "a-app", "limit", "0.4"]);
    assert_eq!(rig.app("a-app")["limit"], 0.4);
    for (words, said) in [
        (["set", "a-app", "share", "1.5"], "1.5 cannot be: write a number from 0.0001 to 1"),
        (["set", "a-app", "weight", "0"], "from 0.001 to 1e6"),
        (["set", "a-app", "weight", "1e300"], "1e300 cannot be"),
        (["set", "a-app", "target", "nan"], "NaN cannot be"),
        (["set", "a-app", "limit", "inf"], "inf cannot be"),
        (["set", "nothing", "weight", "1"], "no application `nothing`"),
        (["set", "a-app", "speed", "1"], "latency_ms"),
    ] {
        let output = rig.ask(&words);
        assert!(!output.status.success() && text(&output).contains(said), "{}", text(&output));
    }
    assert_eq!(rig.app("a-app")["limit"], 0.4);
    rig.ok(&["reload"]);
    assert_eq!(rig.app("a-app")["goal"], "50 % by hand");
}

/// Nothing that is posted, set or supposed makes the store's answers unreadable.
#[test]
fn numbers_that_cannot_be_are_refused_in_words_everywhere() {
    let rig = Rig::start(&CONFIG.replacen("share = 0.5\n", "target = 50\n", 1));
    for words in [
        vec!["post", "a-app", "--achieved", "nan"],
        vec!["post", "a-app", "--achieved", "inf"],
        vec!["post", "a-app", "--achieved", "1e300"],
        vec!["post", "a-app", "--achieved=-5"],
        vec!["post", "a-app", "--achieved", "5", "--offered", "inf"],
        vec!["post", "a-app", "--achieved", "5", "--age-ms", "18446744073709551615"],
        vec!["dry-run", "--need", "a-app=1.5"],
        vec!["dry-run", "--need", "a-app=nan"],
        vec!["top", "--delay", "nan", "--count", "1"],
    ] {
        let output = rig.ask(&words);
        let said = text(&output);
        assert!(!output.status.success() && said.contains("from"), "{words:?}: {said}");
        assert!(!said.contains("null"), "{words:?}: {said}");
    }
    let said = text(&rig.ask(&["dry-run", "--need", "b-app=0.5"]));
    assert!(said.contains("has its share by hand"), "{said}");
    // The socket is anyone's who may open it.
    let post = |number: &str| {
        let mut socket = UnixStream::connect(rig.dir.join("socket.control")).unwrap();
        let line = format!("{{\"command\":\"post\",\"application\":\"a-app\",{number}}}\n");
        socket.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    for number in ["\"achieved\":1e300", "\"achieved\":-1", "\"age_ms\":18446744073709551615"] {
        let answer = post(number);
        assert!(answer.contains("error") && answer.contains("cannot be"), "{answer}");
    }
    assert!(post("\"achieved\":0").contains("noted"));
    rig.ok(&["status"]);
    rig.ok(&["explain"]);
}

#[test]
fn what_a_reload_cannot_change_is_refused_in_words() {
    let volume = |more: &str| format!("[[volume]]\nname = \"v\"\npath = \"DIR/v\"\n{more}");
    let mut rig = Rig::new(&volume(""));
    rig.file("v", 1 << 20);
    rig.serve();
    for (bad, said) in [
        (format!("metrics = \"{}\"\n{}", own_address(), volume("")), "`metrics`"),
        (format!("connections = 7\n{}", volume("")), "`connections`"),
        (format!("[etcd]\nservers = [\"127.0.0.1:1\"]\nname = \"x\"\n{}", volume("")), "[etcd]"),
        (format!("[device]\ndisks = 3\n{}", volume("")), "[device]"),
        (volume("cache = \"page\"\n"), "`cache`"),
    ] {
        rig.configure(&bad);
        let output = rig.ask(&["reload"]);
        let words = text(&output);
        assert!(!output.status.success() && words.contains(said), "{said}: {words}");
        assert!(words.contains("restart"), "{words}");
    }
    // What can change does.
    rig.configure(&format!("[device]\nmemory_mib = 3\n{}", volume("read_only = true\n")));
    rig.ok(&["reload"]);
    let mut raw = crate::raw::Raw::open(&rig.socket(), "v");
    raw.send(crate::raw::WRITE, 0, 4096, &[1; 4096]);
    assert_ne!(raw.answer().1, 0);
}

#[test]
fn a_file_in_the_page_cache_has_what_was_flushed_after_kill_9() {
    let mut rig = Rig::new("[[volume]]\nname = \"v\"\npath = \"DIR/v\"\ncache = \"page\"\n");
    rig.file("v", 8 << 20);
    for round in 1..6_u8 {
        rig.serve();
        let mut raw = crate::raw::Raw::open(&rig.socket(), "v");
        let blocks: Vec<u64> = (0..100).map(|block| 4096 * block).collect();
        assert!(raw.read_all(&blocks).iter().all(|byte| *byte == round - 1));
        blocks.iter().for_each(|at| raw.write(*at, round));
        raw.flush();
        rig.kill();
    }
    rig.serve();
    if has("qemu-io") {
        let uri = rig.uri("v");
        let read = ["-f", "raw", &uri, "-c", "read -P 5 0 400k", "-c", "write -z 0 4k"];
        assert!(!run("qemu-io", &read).contains("failed"));
    }
    until("it is written", || rig.app("v")["ios"][3].as_u64() >= Some(1) || !has("qemu-io"));
}
