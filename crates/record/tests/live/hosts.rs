//! Several machines, here network namespaces, recorded as one system.

use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{End, Meaning};
use headworks_record::infer::infer;
use headworks_record::trace::Trace;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two network namespaces with a link between them.
struct Network {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.213.7.1", "10.213.7.2"];

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

impl Network {
    fn new() -> Option<Network> {
        let names = ["one", "two"].map(|name| format!("hwr{}{name}", std::process::id()));
        let network = Network { names };
        let [one, two] = &network.names;
        let links = ["l", "r"].map(|end| format!("hwr{}{end}", std::process::id()));
        let made = network.names.iter().all(|name| ip(&format!("netns add {name}")))
            && ip(&format!(
                "link add {} netns {one} type veth peer name {} netns {two}",
                links[0], links[1]
            ))
            && network.names.iter().zip(&links).zip(ADDRESSES).all(|((name, link), address)| {
                ip(&format!("-n {name} addr add {address}/24 dev {link}"))
                    && ip(&format!("-n {name} link set {link} up"))
            });
        made.then_some(network)
    }

    fn python(&self, at: usize, script: &str) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &self.names[at], "python3", "-c", script])
            .spawn()
            .expect("python3")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client in the first, and the server that it asks in the second.
fn programs(network: &Network) -> (Running, Running) {
    let address = ADDRESSES[1];
    let base = Running(network.python(
        1,
        &format!(
            "import socket\ns = socket.create_server(('{address}', 7001))\nc, _ = s.accept()\n\
             while c.recv(100): c.sendall(b'x' * 50)"
        ),
    ));
    let web = Running(network.python(
        0,
        &format!(
            "import socket, time\n\
             def connect():\n  while True:\n    try: return socket.create_connection(('{address}', 7001))\n    \
             except OSError: time.sleep(0.05)\n\
             s = connect()\nwhile True:\n  s.sendall(b'q' * 20)\n  s.recv(100)\n  time.sleep(0.002)"
        ),
    ));
    (web, base)
}

/// A `PATH` with what `ssh HOST headworks tad record …` would start there.
fn with_headworks() -> String {
    let bin = scratch("hosts-bin");
    std::fs::create_dir_all(&bin).expect("a directory");
    let program = bin.join("headworks");
    let recorder_path = env!("CARGO_BIN_EXE_headworks-record");
    std::fs::write(&program, format!("#!/bin/sh\nshift\nexec {recorder_path} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// Requests' arrows, by the hosts of their ends.
fn between_hosts(trace: &Trace) -> Vec<(String, String)> {
    let found = infer(trace, &Hints::default());
    let host = |stage: usize| found.stages.places[found.stages.stages[stage].place].host.clone();
    let data = found.arrows.iter().filter(|arrow| arrow.meaning == Meaning::Data);
    data.filter_map(|arrow| match (arrow.from, arrow.to) {
        (End::Stage(from), End::Stage(to)) => Some((host(from), host(to))),
        _ => None,
    })
    .collect()
}

#[test]
fn two_hosts_are_recorded_as_one_system() {
    if !can_record() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: python3 is missing");
    }
    let Some(network) = Network::new() else {
        return println!("skipped: no network namespaces can be made here");
    };
    let (web, base) = programs(&network);
    let path = with_headworks();
    let [one, two] = &network.names;
    let hosts = format!("{one}:{},{two}:{}", web.0.id(), base.0.id());
    let (file, raw) = (scratch("hosts.toml"), scratch("hosts.ndjson"));
    let record = |shell: &str| {
        recorder()
            .env("PATH", &path)
            .args(["record", "--hosts", &hosts, "--shell", shell, "--for", "2s", "--budget", "50%"])
            .args(["--raw".as_ref(), raw.as_os_str(), "-o".as_ref(), file.as_os_str()])
            .output()
            .expect("the recorder")
    };
    let began = Instant::now();
    let output = record("ip netns exec");
    let said_well = said(&output);
    assert!(output.status.success(), "{said_well}");
    assert!(began.elapsed() < Duration::from_secs(60), "at the same time");
    let diagram = std::fs::read_to_string(&file).expect("a diagram");
    assert!(diagram.contains(one.as_str()) && diagram.contains(two.as_str()), "{diagram}");
    let bytes = std::fs::read(&raw).expect("a recording");
    let trace = Trace::read(&bytes[..]).expect("a recording");
    let between = between_hosts(&trace);
    assert!(between.contains(&(one.clone(), two.clone())), "{between:?}\n{said_well}");

    let output = record("false");
    let said = said(&output);
    assert!(!output.status.success());
    assert!(said.contains(&format!("cannot record on {one}")), "{said}");
}
