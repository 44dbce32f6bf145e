//! Clients that take much, and what the operator hears of those that are not served.

use crate::raw::{READ, Raw};
use crate::rig::{Rig, own_address, resident_mib, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn memory(name: &str, mib: u64) -> String {
    format!("[[volume]]\nname = \"{name}\"\npath = \"memory\"\nsize = \"{mib}MiB\"\n")
}

/// How long this takes.
fn time<T>(act: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed()
}

#[test]
fn clients_that_do_not_receive_take_no_memory_and_hold_up_no_other() {
    for device in ["", "[device]\nmodel = \"flash\"\n"] {
        let rig = Rig::start(&format!("{device}{}{}", memory("v", 64), memory("w", 1)));
        Raw::open(&rig.socket(), "v").write(0, 1);
        let before = resident_mib(rig.pid());
        let mut deaf: Vec<Raw> = (0..32).map(|_| Raw::open(&rig.socket(), "v")).collect();
        for raw in &mut deaf {
            raw.send(READ, 0, 32 << 20, &[]);
        }
        // Also by many small ones: each connection has 2 MiB of answers that it does not take.
        let mut deep: Vec<Raw> = (0..32).map(|_| Raw::open(&rig.socket(), "v")).collect();
        for raw in &mut deep {
            for at in 0..64 {
                raw.send(READ, 32_768 * at, 32_768, &[]);
            }
        }
        let mut most = 0;
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            for volume in ["v", "w"] {
                let took = time(|| Raw::open(&rig.socket(), volume).read(0));
                assert!(took < Duration::from_secs(2), "{volume}: {took:?}");
            }
            most = most.max(resident_mib(rig.pid()).saturating_sub(before));
        }
        println!("{device:?}: {most} MiB more");
        // One of 32 MiB, 16 MiB of others, and 256 KiB for each connection.
        assert!(most <= 32 + 16 + 16 + 32, "{most} MiB");
    }
}

#[test]
fn one_place_cannot_take_all_connections() {
    let address = own_address();
    let rig = Rig::start(&format!(
        "listen = [\"unix:DIR/socket\", \"tcp:{address}\"]\nconnections = 8\n{}",
        memory("v", 1)
    ));
    let open: Vec<Raw> = (0..8).map(|_| Raw::tcp(address, "v")).collect();
    let mut none = TcpStream::connect(address).unwrap();
    assert_eq!(none.read(&mut [0; 18]).unwrap_or(0), 0, "a ninth from there");
    // Another place gets in.
    Raw::open(&rig.socket(), "v").read(0);
    let shown = rig.ok(&["status"]);
    assert!(shown.contains("of 8 connections") && shown.contains("1 full"), "{shown}");
    let log = rig.log();
    assert!(log.contains("all 8 connections are taken") && log.contains("has 8 of them"), "{log}");
    drop(open);
    until("there is room again", || {
        let mut hello = [0; 18];
        TcpStream::connect(address).unwrap().read_exact(&mut hello).is_ok()
    });
}

#[test]
fn a_new_connection_waits_once_for_all_busy_ones_of_its_address() {
    let address = own_address();
    let _rig = Rig::start(&format!(
        "listen = [\"unix:DIR/socket\", \"tcp:{address}\"]\n{}",
        memory("v", 1)
    ));
    let ends = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..5).map(|_| Raw::tcp(address, "v")).collect();
    let threads: Vec<_> = busy
        .into_iter()
        .map(|mut raw| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    raw.read(0);
                }
            })
        })
        .collect();
    let took = time(|| Raw::tcp(address, "v").read(0));
    ends.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // 3 s for each of them before.
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[test]
fn clients_that_are_not_served_and_requests_that_fail_are_said_and_counted() {
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    let metrics = own_address();
    let rig = Rig::new(&format!(
        "metrics = \"{metrics}\"\n[[client]]\nname = \"me\"\nuid = {own}\n\
         [[volume]]\nname = \"f\"\npath = \"DIR/f\"\n"
    ));
    let mut rig = rig;
    let file = rig.file("f", 1 << 20);
    rig.serve();
    let mut garbage = UnixStream::connect(rig.socket()).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let _ = garbage.read_to_end(&mut Vec::new());
    assert!(Raw::try_open(&rig.socket(), "nothing").is_err());
    // A connection that closes without a byte, as of a port scan, is not counted.
    drop(UnixStream::connect(rig.socket()).unwrap());
    let mut raw = Raw::open(&rig.socket(), "f");
    std::fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    for _ in 0..3 {
        raw.send(READ, 0, 4096, &[]);
        assert_ne!(raw.answer().1, 0);
    }
    until("both are counted", || rig.status()["refused"]["handshake"] == 2);
    let status = rig.status();
    assert_eq!(status["failed"][0]["count"], 3, "{status}");
    let log = rig.log();
    for said in ["user", "is not served", "a read of volume `f` has failed"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert_eq!(log.matches("has failed").count(), 1, "{log}");
    let mut scrape = TcpStream::connect(metrics).unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    scrape.read_to_string(&mut text).unwrap();
    assert!(text.contains("headworks_store_refused_total{reason=\"handshake\"} 2"), "{text}");
    assert!(text.contains("headworks_store_failed_requests_total{volume=\"f\","), "{text}");
    // No client of the configuration.
    rig.configure(&format!(
        "metrics = \"{metrics}\"\n[[client]]\nname = \"me\"\nuid = {}\n\
         [[volume]]\nname = \"f\"\npath = \"DIR/f\"\nsize = 4096\n",
        own + 1
    ));
    std::fs::File::options().write(true).open(&file).unwrap().set_len(1 << 20).unwrap();
    rig.ok(&["reload"]);
    assert!(Raw::try_open(&rig.socket(), "f").is_err());
    until("a stranger is counted", || rig.status()["refused"]["stranger"] == 1);
    assert!(rig.log().contains("no [[client]]"), "{}", rig.log());
}

#[test]
fn a_reload_grows_and_renames_volumes_that_are_in_use() {
    let mut rig = Rig::new("[[volume]]\nname = \"v\"\npath = \"DIR/f\"\n");
    let file = rig.file("f", 1 << 20);
    rig.serve();
    let ours = crate::ours::open(&rig, "v", 1 << 20);
    headworks_volume::store::Store::write(&ours, 0, &[7; 4096], false).unwrap();
    let size = |rig: &Rig, name: &str| {
        let status = rig.status();
        let all = status["volumes"].as_array().unwrap().clone();
        all.iter().find(|volume| volume["name"] == name).map(|found| found["size_bytes"].clone())
    };
    let grow = |mib: u64| {
        std::fs::File::options().write(true).open(&file).unwrap().set_len(mib << 20).unwrap();
    };
    grow(2);
    let said = rig.ok(&["reload"]);
    assert!(said.contains("v has 2097152 bytes") && said.contains("connect again"), "{said}");
    assert_eq!(size(&rig, "v").unwrap(), 2 << 20);
    // Our own client goes on, also with what it has not flushed.
    let mut found = [0; 4096];
    headworks_volume::store::Store::read(&ours, 0, &mut found).unwrap();
    assert_eq!(found, [7; 4096]);
    let mut raw = Raw::open(&rig.socket(), "v");
    raw.write((2 << 20) - 4096, 9);
    // By its size in the configuration.
    grow(4);
    rig.configure("[[volume]]\nname = \"v\"\npath = \"DIR/f\"\nsize = \"3MiB\"\n");
    rig.ok(&["reload"]);
    assert_eq!(size(&rig, "v").unwrap(), 3 << 20);
    rig.configure("[[volume]]\nname = \"v\"\npath = \"DIR/f\"\nsize = \"8MiB\"\n");
    let refused = crate::rig::text(&rig.ask(&["reload"]));
    assert!(refused.contains("needs 8388608"), "{refused}");
    assert_eq!(Raw::open(&rig.socket(), "v").read((2 << 20) - 4096), 9);
    // By another name.
    rig.configure("[[volume]]\nname = \"w\"\npath = \"DIR/f\"\n");
    rig.ok(&["reload"]);
    assert!(Raw::try_open(&rig.socket(), "v").is_err());
    let mut raw = Raw::open(&rig.socket(), "w");
    assert_eq!(raw.read((2 << 20) - 4096), 9);
    raw.write(4096, 3);
    // Names that change places.
    rig.file("g", 1 << 20);
    let two = |first: &str, second: &str| {
        format!(
            "[[volume]]\nname = \"{first}\"\npath = \"DIR/f\"\n[[volume]]\nname = \"{second}\"\npath = \"DIR/g\"\n"
        )
    };
    rig.configure(&two("w", "x"));
    rig.ok(&["reload"]);
    rig.configure(&two("x", "w"));
    rig.ok(&["reload"]);
    assert_eq!(Raw::open(&rig.socket(), "x").read(4096), 3);
    assert_eq!(Raw::open(&rig.socket(), "w").read(4096), 0);
    // A file that has shrunk is a mistake.
    grow(1);
    let refused = crate::rig::text(&rig.ask(&["reload"]));
    assert!(refused.contains("has shrunk"), "{refused}");
}

#[test]
fn a_user_that_the_configuration_names_can_come() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 || !crate::rig::has("setpriv") || !crate::rig::has("nbdinfo")
    {
        return;
    }
    let client = "[[client]]\nname = \"other\"\nuid = 65534\n";
    let rig = Rig::start(&(client.to_owned() + &memory("v", 1)));
    let uri = rig.uri("v");
    let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups", "nbdinfo", "--size"];
    words.push(&uri);
    assert!(crate::rig::run("setpriv", &words).contains("1048576"));
    let mode = || {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(rig.socket()).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o666);
    // Without any client, every process that reaches it may open all.
    rig.configure(&memory("v", 1));
    rig.ok(&["reload"]);
    assert_eq!(mode(), 0o600);
    rig.configure(&(client.to_owned() + &memory("v", 1)));
    rig.ok(&["reload"]);
    assert_eq!(mode(), 0o666);
}

#[test]
fn a_missing_state_directory_is_made_or_said() {
    let mut rig = Rig::start(&("state = \"DIR/some/state\"\n".to_owned() + &memory("v", 1)));
    assert!(rig.dir.join("some/state").is_dir());
    rig.stop();
    std::fs::write(rig.dir.join("file"), "").unwrap();
    rig.configure(&("state = \"DIR/file/state\"\n".to_owned() + &memory("v", 1)));
    rig.serve();
    assert!(rig.log().contains("forgotten at a restart"), "{}", rig.log());
    assert!(rig.ok(&["unit"]).contains("useradd --system"));
}
