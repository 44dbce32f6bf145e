//! Owners, posts, hosts and networks that fail: control goes on, and no request is lost.

use crate::learn::{run, store};
use crate::load::Load;
use crate::ours::client;
use crate::rig::{Rig, own_address, times};
use headworks_store::control::{self, Request};
use headworks_volume::store::Store;
use headworks_volume::store::nbd::{Address, Nbd};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn post(rig: &Rig, achieved: Option<f64>, age_ms: u64) {
    let post = Request::Post { application: "orders".into(), achieved, offered: None, age_ms };
    control::ask(&rig.dir.join("socket.control"), &post).unwrap();
}

/// Shares of all are within bounds.
fn check(rig: &Rig) {
    let status = rig.status();
    let apps = status["applications"].as_array().unwrap();
    let shares: Vec<f64> = apps.iter().map(|app| app["share"].as_f64().unwrap()).collect();
    assert!(shares.iter().sum::<f64>() < 1.0 + 1e-6, "{shares:?}");
    for (app, share) in apps.iter().zip(&shares) {
        assert!((0.0..=app["limit"].as_f64().unwrap() + 1e-9).contains(share), "{status}");
    }
}

/// What `load` does in a second, for so many seconds.
fn rates(load: &Load, seconds: u32, mut each: impl FnMut(f64)) -> Vec<f64> {
    (0..seconds)
        .map(|_| {
            let (before, then) = (load.done(), Instant::now());
            std::thread::sleep(Duration::from_secs(1));
            let rate = (load.done() - before) as f64 / then.elapsed().as_secs_f64();
            each(rate);
            rate
        })
        .collect()
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

/// A target of 300, beside two of best effort.
fn loaded(rig: &Rig) -> (Load, [Load; 2]) {
    (client(rig, "db", 32), [client(rig, "batch1", 32), client(rig, "batch2", 32)])
}

#[test]
fn the_owner_of_a_target_dies_and_comes_back() {
    let rig = store("target = 300");
    let (orders, batch) = loaded(&rig);
    run(&rig, &orders, 12, |_| ());
    let share = rig.app("orders")["share"].as_f64().unwrap();
    let before = batch[0].done();
    // Its lease is 40 s.
    let alone = rates(&orders, times("HEADWORKS_STORE_PAUSE_S", 8) as u32, |_| check(&rig));
    let kept = rig.app("orders")["share"].as_f64().unwrap();
    if alone.len() < 40 {
        assert!((kept / share - 1.0).abs() < 0.1, "{share} {kept}");
        assert!(mean(&alone) > 200.0, "{alone:.0?}");
    }
    assert!(batch[0].done() > before + 100, "best effort goes on");
    let mut after = Vec::new();
    run(&rig, &orders, 15, |rate| after.push(rate));
    let met = mean(&after[5..]);
    assert!((255.0..360.0).contains(&met), "{after:.0?}");
}

#[test]
fn a_dft_that_is_late_or_half_lost_still_leads_to_the_target() {
    for (late, lost) in [(5, false), (0, true)] {
        let rig = store("target = 300");
        let (orders, batch) = loaded(&rig);
        let mut all: Vec<f64> = Vec::new();
        rates(&orders, 28, |rate| {
            all.push(rate);
            check(&rig);
            let number = all.len();
            let is_lost = lost && number.is_multiple_of(2);
            if let Some(old) = number.checked_sub(1 + late)
                && !is_lost
            {
                post(&rig, Some(all[old]), 1_000 * late as u64);
            }
        });
        let met = mean(&all[18..]);
        assert!((255.0..360.0).contains(&met), "late {late}, lost {lost}: {all:.0?}");
        assert!(batch[1].done() > 1_000);
    }
}

#[test]
fn two_owners_of_one_target_do_no_harm() {
    let rig = store("target = 300");
    let (orders, batch) = loaded(&rig);
    let all = rates(&orders, 20, |rate| {
        // One of them sees half, and says so.
        post(&rig, Some(rate), 0);
        post(&rig, Some(rate / 2.0), 300);
        check(&rig);
    });
    assert!(mean(&all[10..]) > 250.0, "at least what the better informed one asks for: {all:.0?}");
    let before = batch[0].done();
    let one = rates(&orders, 15, |rate| {
        post(&rig, Some(rate), 0);
        check(&rig);
    });
    assert!(batch[0].done() > before + 500, "best effort is not starved");
    assert!((250.0..400.0).contains(&mean(&one[8..])), "{one:.0?}");
}

/// A network between clients and a store, which can be cut: nothing goes through, and neither
/// side hears of it.
struct Network {
    cut: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Network {
    fn before(store: SocketAddr) -> Network {
        let (cut, address) = (Arc::new(AtomicBool::new(false)), own_address());
        let listener = TcpListener::bind(address).unwrap();
        let own = Arc::clone(&cut);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let cut = Arc::clone(&own);
                std::thread::spawn(move || {
                    wait(&cut);
                    let Ok(server) = TcpStream::connect(store) else { return };
                    let both = [(&client, &server), (&server, &client)];
                    std::thread::scope(|scope| {
                        for (from, to) in both {
                            let cut = &cut;
                            scope.spawn(move || pass(cut, from, to));
                        }
                    });
                });
            }
        });
        Network { cut, address }
    }
}

fn wait(cut: &AtomicBool) {
    while cut.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pass(cut: &AtomicBool, mut from: &TcpStream, mut to: &TcpStream) {
    use std::io::{Read, Write};
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        wait(cut);
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn a_host_that_is_cut_off_goes_on_without_an_error() {
    let listen = own_address();
    let mut rig = Rig::new(&format!(
        "listen = [\"unix:DIR/socket\", \"tcp:{listen}\"]\n\
         [[volume]]\nname = \"v\"\npath = \"DIR/v\"\n\
         [[volume]]\nname = \"w\"\npath = \"memory\"\nsize = \"256MiB\"\n"
    ));
    rig.file("v", 8 * MIB);
    rig.serve();
    let network = Network::before(listen);
    let address = Address::parse(&format!("nbd://{}/v", network.address)).unwrap();
    let host = Nbd::open(address, 8 * MIB, 512).unwrap();
    let other = client(&rig, "w", 4);
    let seconds = times("HEADWORKS_STORE_CUT_S", 4);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|part| {
                let (host, ends) = (&host, &ends);
                scope.spawn(move || {
                    let (mut last, mut count) = ([0_u8; 64], 0_u64);
                    while !ends.load(Ordering::Relaxed) {
                        count += 1;
                        let block = count.wrapping_mul(7) % 64;
                        last[block as usize] = count as u8;
                        let at = part * 2 * MIB + 4096 * block;
                        host.write(at, &[count as u8; 4096], false).unwrap();
                        if count.is_multiple_of(32) {
                            host.flush().unwrap();
                        }
                    }
                    for (block, byte) in last.iter().enumerate() {
                        let mut found = [0; 4096];
                        host.read(part * 2 * MIB + 4096 * block as u64, &mut found).unwrap();
                        assert!(found.iter().all(|found| found == byte), "part {part}, {block}");
                    }
                    count
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        network.cut.store(true, Ordering::Relaxed);
        let before = other.done();
        std::thread::sleep(Duration::from_secs(seconds));
        assert!(other.done() > before + 100, "others are served meanwhile");
        network.cut.store(false, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(2));
        ends.store(true, Ordering::Relaxed);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 10));
    });
    assert_eq!(host.trouble(), None);
}

const NAMES: [&str; 2] = ["orders-app", "carts-app"];

/// Two targets that need 130 % of the store together, the second with twice the weight.
#[test]
fn targets_that_need_more_than_there_is_are_said_and_share_by_weight_without_hunting() {
    let volumes: String = ["orders", "carts", "rest"]
        .map(|name| {
            format!("[[volume]]\nname = \"{name}\"\npath = \"memory\"\nsize = \"256MiB\"\n")
        })
        .concat();
    let device = "[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n";
    let alone = {
        let rig = Rig::start(&format!("{device}{volumes}"));
        let load = client(&rig, "orders", 64);
        mean(&rates(&load, 4, |_| ())[1..])
    };
    let application = |name: &str, weight: u32| {
        format!(
            "[[application]]\nname = \"{name}-app\"\nvolume = \"{name}\"\ntarget = {}\nweight = {weight}\n",
            (0.65 * alone).round()
        )
    };
    let rig = Rig::start(&format!(
        "{device}{volumes}{}{}",
        application("orders", 1),
        application("carts", 2)
    ));
    let loads = ["orders", "carts", "rest"].map(|name| client(&rig, name, 64));
    let socket = rig.dir.join("socket.control");
    let mut shares: Vec<[f64; 2]> = Vec::new();
    let said = |name: &str| rig.app(name)["fares"]["is"] == "no-room";
    let mut both = None;
    while both.is_none_or(|at: usize| shares.len() < at + 20) {
        let (before, then) = (loads.each_ref().map(Load::done), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let passed = then.elapsed().as_secs_f64();
        for at in [0, 1] {
            let achieved = Some((loads[at].done() - before[at]) as f64 / passed);
            let post =
                Request::Post { application: NAMES[at].into(), achieved, offered: None, age_ms: 0 };
            control::ask(&socket, &post).unwrap();
        }
        shares.push(NAMES.map(|name| rig.app(name)["share"].as_f64().unwrap()));
        check(&rig);
        both = both.or_else(|| NAMES.iter().all(|name| said(name)).then_some(shares.len()));
        assert!(both.is_some() || shares.len() < 75, "{}", rig.status());
    }
    println!("said after {both:?} s: {shares:.2?}");
    let late = &shares[shares.len() - 15..];
    for at in [0, 1] {
        let (least, most) = late.iter().fold((1.0_f64, 0.0_f64), |(least, most), shares| {
            (least.min(shares[at]), most.max(shares[at]))
        });
        assert!(most - least < 0.15, "it hunts: {late:.2?}");
        assert!(least > 0.2, "{late:.2?}");
    }
    let sum = |at: usize| late.iter().map(|shares| shares[at]).sum::<f64>();
    assert!(sum(1) > 1.1 * sum(0), "the weight counts: {late:.2?}");
    assert!(loads[2].done() > 200, "best effort keeps its floor");
}
