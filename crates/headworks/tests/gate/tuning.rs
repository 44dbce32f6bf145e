//! What the daemon sets without an operator: P, and the weights of classes with a latency target.

use std::time::{Duration, Instant};

use crate::common::{Gate, Setup, User};
use crate::load::Load;
use crate::owner::leave;

/// Sleepers do not disturb each other: the more are inside, the more is done.
fn sleepers(gate: &Gate, role: &str, count: usize, ms: u32) -> Load {
    let sql = format!("DO SLEEP({})", f64::from(ms) / 1e3);
    Load::start((0..count).map(|_| gate.user(role)), move |user: &mut User, _| {
        user.run(&sql);
    })
}

fn wait_long(what: &str, mut met: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !met() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not come true");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// P of the open gate.
const OPEN: u64 = 1024;

#[test]
fn the_gate_stays_open_where_no_p_is_better_and_p_where_an_operator_puts_it() {
    let Some(gate) = Setup::places(1).key("parallelism", "\"auto\"").start() else {
        return;
    };
    let status = gate.status();
    assert_eq!(status.0["parallelism_auto"], true);
    assert_eq!(status.number("parallelism"), OPEN);
    let load = sleepers(&gate, "busy", 100, 20);
    wait_long("the end of a search", || {
        let told = gate.order(&["explain", "parallelism"]);
        told.contains("the gate stays open") && gate.status().number("parallelism") == OPEN
    });
    assert!(gate.order(&["explain", "parallelism"]).contains("measured"));
    // A trial, and back to what was found, which the search still knows.
    let found = gate.order(&["explain", "parallelism"]);
    let settled = |text: &str| text.matches("the gate stays open").count();
    let said = gate.order(&["set", "--parallelism", "3", "--for", "10"]);
    assert!(said.contains("P 3 is in force for 10 s"), "{said}");
    let status = gate.status();
    assert_eq!(status.number("parallelism"), 3);
    let search = status.0["parallelism_search"].as_str().unwrap_or_default();
    assert!(search.starts_with("a trial for another "), "{search}");
    wait_long("the end of the trial", || gate.status().number("parallelism") == OPEN);
    let told = gate.order(&["explain", "parallelism"]);
    assert_eq!(settled(&told), settled(&found), "{told}");
    gate.refused(&["set", "--parallelism", "auto", "--for", "1"]);
    gate.refused(&["set", "--parallelism", "3", "--for", "1", "--quota", "9"]);
    gate.order(&["set", "--parallelism", "5"]);
    // The option that names the instance comes first.
    let told = gate.order(&["explain", "parallelism"]);
    assert!(told.starts_with("P = 5 is "), "{told}");
    std::thread::sleep(Duration::from_secs(2));
    let status = gate.status();
    assert_eq!(
        (status.number("parallelism"), status.0["parallelism_auto"].as_bool()),
        (5, Some(false))
    );
    wait_long("as few inside as fixed", || gate.status().number("inside") <= 5);
    assert!(gate.order(&["explain", "parallelism"]).contains("P = 5 is fixed"));
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn p_stays_while_nobody_has_to_wait() {
    let Some(gate) = Setup::places(1).key("parallelism", "\"auto\"").start() else {
        return;
    };
    let load = sleepers(&gate, "few", 16, 20);
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(gate.status().number("parallelism"), OPEN);
    }
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn a_class_above_its_target_gets_weight_and_one_within_it_is_held() {
    let classes = |target_ms: u32| {
        format!(
            "[[class]]\nname = \"checkout\"\nlatency_ms_max = {target_ms}\npercentile = 80\n\
             [[rule]]\napplication = \"vip-*\"\nclass = \"checkout\"\n"
        )
    };
    let Some(mut gate) = Setup::places(2).sections(&classes(14)).start() else {
        return;
    };
    // Two places of 3 ms each: at most 600 turns a second among 24, a turn each 40 ms.
    let (many, few) = (sleepers(&gate, "many", 22, 3), sleepers(&gate, "vip", 2, 3));
    wait_long("more weight", || {
        let target = gate.status().0["targets"][0].clone();
        target["weight"].as_f64().is_some_and(|weight| weight > 1.2)
    });
    // Without an answer of the daemon, `status` reads the region, where no targets are judged.
    wait_long("the target in the text", || {
        gate.order(&["status"]).contains("Latency targets\n  checkout: p80")
    });
    gate.rewrite_config(&classes(60_000));
    gate.order(&["reload"]);
    wait_long("a target that is held", || gate.status().0["targets"][0]["standing"] == "held");
    leave(many.stop().into_iter().chain(few.stop()).map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn weights_can_be_set_from_outside_all_or_none() {
    let classes = "[[class]]\nname = \"reports\"\nweight = 0.5\n\
                   [[class]]\nname = \"checkout\"\nlatency_ms_max = 50\n";
    let Some(gate) = Setup::places(2).sections(classes).start() else {
        return;
    };
    gate.order(&["set", "--weight", "reports=3", "--weight", "default=0.25"]);
    let status = gate.status();
    assert_eq!(status.class("reports")["weight"], 3.0);
    assert_eq!(status.class("default")["weight"], 0.25);
    for (wrong, why) in [
        (&["--weight", "default=9", "--weight", "raports=1"][..], "no class `raports`"),
        (&["--weight", "default=9", "--weight", "reports=0"], "from 0.001 to 1000"),
        (&["--weight", "checkout=2"], "follows its latency target"),
    ] {
        let refusal = gate.refused(&[&["set"], wrong].concat());
        assert!(refusal.contains(why), "{refusal}");
    }
    assert_eq!(gate.status().class("default")["weight"], 0.25, "nothing of a wrong set counts");
    // Other programs need no program of ours.
    let answer = gate.tell("{\"command\":\"weights\",\"weights\":{\"reports\":7,\"default\":2.5}}");
    assert!(answer["done"].is_string(), "{answer}");
    let status = gate.status();
    assert_eq!(status.class("reports")["weight"], 7.0);
    assert_eq!(status.class("default")["weight"], 2.5);
    let answer = gate.tell("{\"command\":\"weights\",\"weights\":{\"reports\":1,\"raports\":1}}");
    assert!(answer["error"].as_str().is_some_and(|why| why.contains("raports")), "{answer}");
    assert_eq!(gate.status().class("reports")["weight"], 7.0);
}
