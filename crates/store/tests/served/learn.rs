//! Targets on the real stack: what is posted moves shares.

use crate::load::Load;
use crate::ours::client;
use crate::rig::{Rig, until};
use headworks_store::control::{self, Request};
use std::time::{Duration, Instant};

/// Fifteen disks, an application with a target beside two of best effort.
pub fn store(target: &str) -> Rig {
    let mut text = "[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n".to_owned();
    for name in ["db", "batch1", "batch2"] {
        text += &format!("[[volume]]\nname = \"{name}\"\npath = \"memory\"\nsize = \"256MiB\"\n");
    }
    Rig::start(&format!("{text}[[application]]\nname = \"orders\"\nvolume = \"db\"\n{target}\n"))
}

/// Posts what `load` achieves each second, for so long. A transaction is one read.
pub fn run(rig: &Rig, load: &Load, seconds: u32, mut each: impl FnMut(f64)) {
    let socket = rig.dir.join("socket.control");
    let (mut before, mut then) = (load.done(), Instant::now());
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1).saturating_sub(then.elapsed()));
        let (done, passed) = (load.done(), then.elapsed());
        then = Instant::now();
        let rate = (done - before) as f64 / passed.as_secs_f64();
        before = done;
        let post = Request::Post {
            application: "orders".into(),
            achieved: Some(rate),
            offered: None,
            age_ms: 0,
        };
        control::ask(&socket, &post).unwrap();
        each(rate);
    }
}

#[test]
fn a_target_is_met_and_best_effort_has_the_rest() {
    let rig = store("target = 300");
    let (orders, batch) =
        (client(&rig, "db", 32), [client(&rig, "batch1", 32), client(&rig, "batch2", 32)]);
    let mut rates = Vec::new();
    run(&rig, &orders, 25, |rate| rates.push(rate));
    let late = &rates[15..];
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    println!("{rates:.0?}");
    assert!((270.0..345.0).contains(&mean), "{rates:.0?}");
    assert!(batch.iter().all(|batch| batch.done() > 1_000), "best effort has the rest");
    let explained = rig.ok(&["explain", "orders"]);
    assert!(explained.contains("needs") && explained.contains("is granted"), "{explained}");
    let picture = rig.dir.join("orders.svg");
    rig.ok(&["draw", "orders", "--output", picture.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&picture).unwrap().contains("<svg"));
    let dry = rig.ok(&["dry-run", "--need", "orders=0.99"]);
    assert!(dry.contains("supposed") && dry.contains("90.0 %"), "{dry}");
}

#[test]
fn another_controller_can_have_its_place() {
    let mut rig = store("target = 300");
    let text = std::fs::read_to_string(rig.dir.join("store.toml")).unwrap();
    rig.configure(&text.replace("[device]", "controller = \"log-pi\"\n[device]"));
    let refused = crate::rig::text(&rig.ask(&["reload"]));
    assert!(refused.contains("`controller` cannot change"), "{refused}");
    rig.stop();
    rig.serve();
    let (orders, _batch) = (client(&rig, "db", 32), client(&rig, "batch1", 32));
    run(&rig, &orders, 3, |_| ());
    // Its third of the store is more than the target needs, and is taken from it step by step. Need
    // and lag would have asked for it at once.
    let share = || rig.app("orders")["share"].as_f64().unwrap();
    let first = share();
    assert!((first - 1.0 / 3.0).abs() < 0.02, "{first}");
    run(&rig, &orders, 15, |_| ());
    assert!(share() < 0.9 * first, "{first} {}", share());
}

#[test]
fn a_target_that_cannot_be_met_is_said_within_a_minute() {
    let rig = store("target = 3000");
    let (orders, _batch) = (client(&rig, "db", 32), client(&rig, "batch1", 32));
    let mut said = false;
    let begun = Instant::now();
    while !said && begun.elapsed() < Duration::from_secs(60) {
        run(&rig, &orders, 1, |_| ());
        said = rig.app("orders")["fares"]["is"] == "no-room";
    }
    assert!(said, "{}", rig.app("orders"));
    assert!(rig.ok(&["status"]).contains("NO ROOM"));
}

#[test]
fn a_load_that_is_served_is_not_behind_and_missing_posts_are_said() {
    let rig = store("target = 300");
    let orders = client(&rig, "db", 4);
    for _ in 0..9 {
        rig.ok(&["post", "orders", "--achieved", "150", "--offered", "152"]);
        std::thread::sleep(Duration::from_secs(1));
    }
    let status = rig.ok(&["status"]);
    assert!(status.contains("no demand for more") && status.contains("device"), "{status}");
    assert!(rig.ok(&["explain", "orders"]).contains("all that is asked of it is served"));
    until("missing posts are said", || rig.ok(&["status"]).contains("NO POSTS"));
    assert!(rig.status()["said"].to_string().contains("nothing is posted"));
    drop(orders);
}

/// A full device is busy, and what it does is learned.
#[test]
fn a_full_device_is_busy_and_is_learned() {
    let rig = store("share = 0.3");
    let _loads = ["db", "batch1", "batch2"].map(|name| client(&rig, name, 64));
    let device = || rig.status()["device"].clone();
    until("it is learned", || device()["learned"][0] == true);
    until("it is busy", || device()["busy"].as_f64() > Some(0.9));
    // Fifteen disks do some hundreds to three thousand reads a second.
    let price_us = device()["price_us"][0].as_f64().unwrap();
    assert!((200.0..5_000.0).contains(&price_us), "{price_us}");
}

#[test]
fn an_idle_share_is_lent_and_given_back() {
    let rig = store("share = 0.8");
    let batch = client(&rig, "batch1", 32);
    let rate = |load: &Load, seconds| {
        let before = load.done();
        std::thread::sleep(Duration::from_secs(seconds));
        (load.done() - before) as f64 / seconds as f64
    };
    rate(&batch, 2);
    let alone = rate(&batch, 3);
    let orders = client(&rig, "db", 32);
    rate(&batch, 2);
    let beside = rate(&batch, 3);
    assert!(beside < 0.5 * alone, "{alone} {beside}");
    drop(orders);
    until("it is lent again", || rate(&batch, 1) > 0.8 * alone);
}

#[test]
fn what_was_learned_is_there_after_a_restart() {
    let mut rig = Rig::new("");
    let config = "state = \"DIR\"\n[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n\
        [[volume]]\nname = \"db\"\npath = \"memory\"\nsize = \"256MiB\"\n\
        [[application]]\nname = \"orders\"\nvolume = \"db\"\ntarget = 200\n";
    rig.configure(config);
    rig.serve();
    let load = client(&rig, "db", 32);
    run(&rig, &load, 6, |_| ());
    drop(load);
    rig.stop();
    let learned = std::fs::read_to_string(rig.dir.join("learned.json")).unwrap();
    let learned: serde_json::Value = serde_json::from_str(&learned).unwrap();
    let need = learned["orders"]["need"].as_f64().unwrap();
    assert!(need > 0.0);
    // Twice the target needs twice the share.
    rig.configure(&config.replace("200", "400"));
    rig.serve();
    let found = rig.app("orders")["need"].as_f64().unwrap();
    assert!((found / need / 2.0 - 1.0).abs() < 0.01, "{need} {found}");
}

/// When all later windows of 30 s are within 5 % of the target, and the part of them that are, from
/// the fifteenth second on.
fn judged(rates: &[f64], target: f64) -> (Option<usize>, f64) {
    let fine: Vec<bool> = rates
        .windows(30)
        .map(|window| (window.iter().sum::<f64>() / 30.0 / target - 1.0).abs() <= 0.05)
        .collect();
    let settled = fine.iter().rposition(|fine| !fine).map_or(0, |last| last + 1);
    let late = &fine[fine.len().min(15)..];
    let held = late.iter().filter(|fine| **fine).count() as f64 / late.len().max(1) as f64;
    ((settled < fine.len()).then_some(settled), held)
}

/// Figures of one level on the real stack, for `docs/results/store.md`: three minutes a seed.
#[test]
#[ignore = "takes minutes: it prints figures"]
fn figures() {
    let seeds = std::env::var("HEADWORKS_STORE_SEEDS").map_or(1, |text| text.parse().unwrap());
    for seed in 0..seeds {
        let rig = store("target = 1");
        let orders = client(&rig, "db", 64);
        std::thread::sleep(Duration::from_secs(2));
        let before = orders.done();
        std::thread::sleep(Duration::from_secs(5));
        let alone = (orders.done() - before) as f64 / 5.0;
        drop((orders, rig));
        let target = (0.5 * alone).round();
        let rig = store(&format!("target = {target}"));
        let (orders, batch) = (
            client(&rig, "db", 64),
            [client(&rig, "batch1", 100 + seed), client(&rig, "batch2", 100)],
        );
        let rest = || batch.iter().map(Load::done).sum::<u64>();
        let mut rates = Vec::new();
        run(&rig, &orders, 70, |rate| rates.push(rate));
        let before = rest();
        run(&rig, &orders, 10, |rate| rates.push(rate));
        let learned = (rest() - before) as f64 / 10.0;
        let (settled, held) = judged(&rates, target);
        // A step: a transaction needs a quarter more, so that the same rate is more of the target.
        let text = std::fs::read_to_string(rig.dir.join("store.toml")).unwrap();
        let step = (0.8 * target).round();
        rig.configure(&text.replace(&format!("target = {target}"), &format!("target = {step}")));
        rig.ok(&["reload"]);
        let mut after = Vec::new();
        run(&rig, &orders, 45, |rate| after.push(rate));
        let (stepped, _) = judged(&after, step);
        // The same beside a share by hand.
        let need = rig.app("orders")["need"].as_f64().unwrap() * target / step;
        rig.configure(&text.replace(&format!("target = {target}"), &format!("share = {need:.3}")));
        rig.ok(&["reload"]);
        std::thread::sleep(Duration::from_secs(3));
        let (own, others) = (orders.done(), rest());
        std::thread::sleep(Duration::from_secs(10));
        let own = (orders.done() - own) as f64 / 10.0;
        let others = (rest() - others) as f64 / 10.0;
        println!(
            "seed {seed}: alone {alone:.0}/s, target {target}: settled {settled:?} s, held {held:.2}, best \
             effort {learned:.0}/s; target × 0.8: {stepped:?} s; by hand {need:.3}: {own:.0}/s, best effort \
             {others:.0}/s"
        );
    }
}
