//! What neighbours do to each other.

use crate::load::Load;
use crate::ours::client;
use crate::raw::{FLUSH, Raw};
use crate::rig::{Rig, until};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const DISKS: &str = "[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n";

fn volumes(names: &[&str]) -> String {
    let one = |name: &&str| {
        format!("[[volume]]\nname = \"{name}\"\npath = \"memory\"\nsize = \"256MiB\"\n")
    };
    names.iter().map(one).collect()
}

fn share(name: &str, share: f64) -> String {
    format!("[[application]]\nname = \"{name}-app\"\nvolume = \"{name}\"\nshare = {share}\n")
}

#[test]
fn endless_flushes_of_one_do_not_hold_up_a_small_share() {
    let rig = Rig::start(&(DISKS.to_owned() + &volumes(&["a", "c"]) + &share("c", 0.02)));
    let mut flushes = Raw::open(&rig.socket(), "a");
    let ends = flushes.stream.try_clone().unwrap();
    let mut answers = flushes.stream.try_clone().unwrap();
    let sends = std::thread::spawn(move || {
        for cookie in 0..u64::MAX {
            let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
            bytes.extend(0_u16.to_be_bytes());
            bytes.extend(FLUSH.to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            bytes.extend([0; 12]);
            if flushes.stream.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    let reads = std::thread::spawn(move || while answers.read_exact(&mut [0; 16]).is_ok() {});
    std::thread::sleep(Duration::from_secs(1));
    let mut small = Raw::open(&rig.socket(), "c");
    for _ in 0..10 {
        let begun = Instant::now();
        small.read(0);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    assert!(rig.app("a")["ios"][2].as_u64().unwrap() > 10, "flushes go on");
    ends.shutdown(std::net::Shutdown::Both).unwrap();
    sends.join().unwrap();
    reads.join().unwrap();
}

#[test]
fn more_than_all_is_shared_so_that_each_gives_up_a_part() {
    let config =
        DISKS.to_owned() + &volumes(&["a", "b", "rest"]) + &share("a", 0.7) + &share("b", 0.6);
    let rig = Rig::start(&config);
    let loads = ["a", "b", "rest"].map(|name| client(&rig, name, 100));
    let granted = |name: &str| rig.app(name)["share"].as_f64().unwrap();
    // Equation 3 of the paper: see `policy::learn::allocate`.
    until("shares settle", || (granted("a-app") - 0.498).abs() < 0.01);
    assert!((granted("b-app") - 0.452).abs() < 0.01 && (granted("rest") - 0.05).abs() < 0.01);
    // On a machine that is busy with others, applications do not ask at all times.
    let mut tries = 0;
    until("use is as granted", || {
        let before = loads.each_ref().map(Load::done);
        std::thread::sleep(Duration::from_secs(3));
        let done: Vec<f64> =
            loads.iter().zip(before).map(|(load, before)| (load.done() - before) as f64).collect();
        let all: f64 = done.iter().sum();
        tries += 1;
        println!("{done:?}");
        let is = |(done, share): (&f64, f64)| (done / all / share - 1.0).abs() < 0.2;
        tries > 1 && done.iter().zip([0.498, 0.452, 0.05]).all(is)
    });
}

#[test]
fn a_changed_share_is_in_force_at_once() {
    let config =
        |a: f64| DISKS.to_owned() + &volumes(&["a", "b"]) + &share("a", a) + &share("b", 1.0 - a);
    let rig = Rig::start(&config(0.5));
    let loads = ["a", "b"].map(|name| client(&rig, name, 100));
    for part in [0.8, 0.2, 0.6] {
        rig.configure(&config(part));
        rig.ok(&["reload"]);
        // A second for the governor, and one for what was with the device.
        std::thread::sleep(Duration::from_secs(2));
        let before = loads.each_ref().map(Load::done);
        std::thread::sleep(Duration::from_secs(2));
        let [a, b] = [0, 1].map(|at| (loads[at].done() - before[at]) as f64);
        assert!((a / (a + b) - part).abs() < 0.08, "{part}: {a} {b}");
    }
}
