//! Restarts, kills, and volumes that come and go.

use crate::raw::Raw;
use crate::rig::{Rig, until};

fn volumes(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("[[volume]]\nname = \"{name}\"\npath = \"DIR/{name}\"\n"))
        .collect()
}

#[test]
fn what_was_flushed_is_there_after_kill_9() {
    let mut rig = Rig::new(&volumes(&["a"]));
    rig.file("a", 1 << 20);
    for round in 1..20_u8 {
        rig.serve();
        let mut raw = Raw::open(&rig.socket(), "a");
        let at = 4096 * u64::from(round);
        assert_eq!(raw.read(at - 4096), round - 1, "of the round before");
        raw.write(at, round);
        raw.flush();
        rig.kill();
        assert!(raw.try_answer().is_err());
    }
}

#[test]
fn volumes_come_and_go_while_others_are_served() {
    let mut rig = Rig::new(&volumes(&["a", "b"]));
    for name in ["a", "b", "c"] {
        rig.file(name, 1 << 20);
    }
    rig.serve();
    let (mut a, mut b) = (Raw::open(&rig.socket(), "a"), Raw::open(&rig.socket(), "b"));
    a.write(0, 1);
    b.write(0, 2);
    rig.configure(&volumes(&["a", "c"]));
    let said = rig.ok(&["reload"]);
    assert!(said.contains("2 volumes are served, 1 opened, 1 closed"), "{said}");
    assert_eq!(a.read(0), 1, "the same connection goes on");
    assert!(b.try_answer().is_err(), "its volume is gone");
    assert!(Raw::try_open(&rig.socket(), "b").is_err());
    let mut c = Raw::open(&rig.socket(), "c");
    c.write(0, 3);
    // What was answered is in the file, which is free for others.
    assert_eq!(std::fs::read(rig.dir.join("b")).unwrap()[..4096], [2; 4096]);
    let other = Rig::start(&format!(
        "[[volume]]\nname = \"b\"\npath = \"{}\"\n",
        rig.dir.join("b").display()
    ));
    assert_eq!(Raw::open(&other.socket(), "b").read(0), 2);
    rig.configure(&volumes(&["a", "b", "c"]));
    let busy = crate::rig::text(&rig.ask(&["reload"]));
    assert!(busy.contains("in use"), "{busy}");
    assert_eq!((a.read(0), c.read(0)), (1, 3));
}

#[test]
fn two_stores_do_not_share_a_file_or_a_socket() {
    let mut rig = Rig::new(&volumes(&["a"]));
    rig.file("a", 1 << 20);
    rig.serve();
    let second = crate::rig::text(&rig.ask(&["serve"]));
    assert!(second.contains("in use") || second.contains("a server is there"), "{second}");
    rig.stop();
    assert!(!rig.socket().exists() && !rig.dir.join("socket.control").exists());
    rig.serve();
    until("it serves again", || Raw::try_open(&rig.socket(), "a").is_ok());
}

#[test]
fn clients_that_are_killed_leave_nothing_behind() {
    let rig = Rig::start("[[volume]]\nname = \"m\"\npath = \"memory\"\nsize = \"1MiB\"\n");
    for round in 0..200 {
        let mut raw = Raw::open(&rig.socket(), "m");
        raw.send(crate::raw::WRITE, 0, 4096, &[round as u8; 2048]);
        drop(raw);
    }
    until("all are gone", || rig.status()["connections"] == 0);
    assert_eq!(rig.app("m")["requests"], 0);
}
