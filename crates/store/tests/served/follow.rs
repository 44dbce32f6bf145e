//! `follow`: what a gate says is posted, and what is away comes back.

use crate::ours::client;
use crate::rig::{Rig, until};
use headworks_store::control::{self, Request, Response};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A `follow` that finds a gate of the test's, killed at the end.
struct Follow(Child);

impl Follow {
    fn start(rig: &Rig, words: &[&str]) -> (Follow, String) {
        let program = rig.dir.join("headworks-store");
        std::fs::copy(env!("CARGO_BIN_EXE_headworks-store"), &program).unwrap();
        let gate = rig.dir.join("headworks");
        std::fs::write(&gate, "#!/bin/sh\nexec cat \"$(dirname \"$0\")/gate.json\"\n").unwrap();
        std::fs::set_permissions(&gate, std::fs::Permissions::from_mode(0o755)).unwrap();
        let log = std::fs::File::create(rig.dir.join("follow.log")).unwrap();
        let mut command = Command::new(program);
        command.arg("follow").args(words).arg("--config").arg(rig.dir.join("store.toml"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Follow(child), line)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn says(rig: &Rig, turns_per_s: f64, inside: u64, requests: u64, p50_ms: f64) {
    let figures = serde_json::json!({
        "instance": "shop", "turns_per_s": turns_per_s, "inside": inside, "waiting": 0,
        "latency": { "p50_ms": p50_ms },
        "classes": [{ "name": "checkout", "requests": requests, "inside": inside, "waiting": 0,
            "latency": { "p50_ms": p50_ms } }],
    });
    // In one step: the gate is asked at any time.
    let draft = rig.dir.join("gate.new");
    std::fs::write(&draft, figures.to_string()).unwrap();
    std::fs::rename(draft, rig.dir.join("gate.json")).unwrap();
}

/// The latest deviation from target: a post is of the last window, or of the one before.
fn last_dft(rig: &Rig) -> Option<f64> {
    let ask = Request::Windows { application: "orders".into() };
    let answer = control::ask(&rig.dir.join("socket.control"), &ask).unwrap();
    let Response::Windows(windows) = answer else { panic!("{answer:?}") };
    windows.iter().rev().take(2).find_map(|window| window.dft)
}

fn near(found: Option<f64>, wanted: f64) -> bool {
    found.is_some_and(|found| (found - wanted).abs() < 0.05)
}

#[test]
fn what_a_gate_does_is_posted_and_what_is_away_comes_back() {
    let mut rig = Rig::start(
        "[[volume]]\nname = \"db\"\npath = \"memory\"\nsize = \"256MiB\"\n\
         [[application]]\nname = \"orders\"\nvolume = \"db\"\ntarget = 200\n",
    );
    let load = client(&rig, "db", 4);
    says(&rig, 150.0, 4, 0, 3.0);
    let (follow, line) = Follow::start(&rig, &["orders", "--name", "shop"]);
    assert!(line.contains("orders follows the gate `shop`") && line.contains("turns"), "{line}");
    until("turns are posted", || near(last_dft(&rig), -0.25));
    says(&rig, 300.0, 4, 0, 3.0);
    until("more are", || near(last_dft(&rig), 0.5));
    // Nothing is asked of the gate: that is no shortfall.
    says(&rig, 0.0, 0, 0, 0.0);
    until("without demand there is no dft", || last_dft(&rig).is_none());
    says(&rig, 300.0, 4, 0, 3.0);
    until("there is again", || near(last_dft(&rig), 0.5));
    let log = || std::fs::read_to_string(rig.dir.join("follow.log")).unwrap();
    std::fs::remove_file(rig.dir.join("gate.json")).unwrap();
    until("the gate is away", || log().contains("nothing is posted"));
    says(&rig, 100.0, 4, 0, 3.0);
    until("it is back", || log().contains("posts go on") && near(last_dft(&rig), -0.5));
    drop(load);
    rig.kill();
    let log = || std::fs::read_to_string(rig.dir.join("follow.log")).unwrap();
    until("the store is away", || log().matches("nothing is posted").count() == 2);
    rig.serve();
    let _load = client(&rig, "db", 4);
    until("it goes on", || near(last_dft(&rig), -0.5));
    drop(follow);
}

#[test]
fn a_class_and_its_latency_are_posted() {
    let rig = Rig::start(
        "[[volume]]\nname = \"db\"\npath = \"memory\"\nsize = \"256MiB\"\n\
         [[application]]\nname = \"orders\"\nvolume = \"db\"\nlatency_ms = 6\n",
    );
    let _load = client(&rig, "db", 4);
    says(&rig, 150.0, 4, 10, 3.0);
    let (follow, line) = Follow::start(&rig, &["orders", "--class", "checkout", "--latency"]);
    assert!(line.contains("median latency of class checkout"), "{line}");
    until("its latency is posted", || near(last_dft(&rig), 1.0));
    drop(follow);
    let output = rig.ask(&["follow", "orders", "--class", "stranger"]);
    assert!(!output.status.success(), "there is no such class, or no gate");
}
