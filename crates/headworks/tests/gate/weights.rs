//! Weights decide who is served how often, and change without a dropped connection.

use std::thread::sleep;
use std::time::Duration;

use headworks_rig::{ConnectOptions, DATABASE};

use crate::common::{Gate, Setup, User};
use crate::load::Load;
use crate::owner::leave;

const USERS: usize = 12;
const WINDOW: Duration = Duration::from_secs(2);

fn gold(weight: u32) -> String {
    format!(
        "[[class]]\nname = \"gold\"\nweight = {weight}\n\
         [[rule]]\naccount = \"gold\"\nclass = \"gold\"\n"
    )
}

/// Windows that are looked at, at most.
const WINDOWS: u32 = 30;

/// Work done per user in one window, gold against default. In some windows a busy machine keeps the
/// daemon from its heartbeat. Then all requests pass, as is right, so the window says nothing, and
/// another is taken.
fn ratio(gate: &Gate, load: &Load) -> f64 {
    for _ in 0..WINDOWS {
        let passed = gate.status().counter("stale");
        let before = load.counts();
        sleep(WINDOW);
        let now = load.counts();
        if gate.status().counter("stale") != passed {
            continue;
        }
        let served: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        let (gold, default) = served.split_at(USERS);
        assert!(default.iter().all(|count| *count > 0), "no user starves: {served:?}");
        let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
        return sum(gold) / sum(default);
    }
    panic!(
        "the daemon was starved in each of {WINDOWS} windows: the machine is too busy for this test"
    );
}

/// A server that knows the account of the gold users.
fn start(setup: Setup) -> Option<Gate> {
    let gate = setup.start()?;
    gate.sql("CREATE USER gold");
    gate.sql("GRANT ALL ON rig.* TO gold");
    Some(gate)
}

/// The gold users first, then as many others.
fn users(gate: &Gate) -> Vec<User> {
    let gold = ConnectOptions::new(gate.server.tcp(), "gold").database(DATABASE);
    let gold = (0..USERS).map(|_| gate.user_with("gold", gold.clone()));
    gold.chain((0..USERS).map(|_| gate.user("plain"))).collect()
}

#[test]
fn service_follows_the_weights_and_a_reload_changes_them_under_the_same_connections() {
    let Some(mut gate) = start(Setup::places(2).sections(&gold(3))) else {
        return;
    };
    let load = Load::start(users(&gate), |user, _| user.run("DO SLEEP(0.001)"));
    gate.wait("all compete", |status| status.number("waiting") > 15);
    let three = ratio(&gate, &load);
    assert!((2.2..=4.0).contains(&three), "weight 3 to 1: {three}");

    gate.rewrite_config(&gold(1));
    assert_eq!(gate.status().class("gold")["weight"], 3.0, "not before the reload");
    gate.order(&["reload"]);
    assert_eq!(gate.status().class("gold")["weight"], 1.0);
    let even = ratio(&gate, &load);
    assert!((0.8..=1.25).contains(&even), "weight 1 to 1: {even}");

    gate.rewrite_config("[[class]]\nname = \"gold\"\nweihgt = 5\n");
    let refused = gate.headworks(&["reload"]);
    assert!(!refused.status.success());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("weihgt") && message.contains("`weight`"), "{message}");
    let status = gate.status();
    assert_eq!(status.class("gold")["weight"], 1.0, "what was in force stays");
    assert!(status.0["config_error"].as_str().unwrap().contains("weihgt"));

    gate.rewrite_config(&gold(2));
    gate.order(&["reload"]);
    assert!(gate.status().0["config_error"].is_null());
    assert_eq!(gate.status().class("gold")["users"], USERS);
    // A connection that had been dropped would have stopped its user with an error.
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn a_class_that_shares_its_weight_gets_as_much_as_one_user_of_the_others() {
    let shared = gold(1).replace("weight = 1", "weight = 1\nweight_of = \"class\"");
    let Some(gate) = start(Setup::places(2).sections(&shared)) else {
        return;
    };
    let load = Load::start(users(&gate), |user, _| user.run("DO SLEEP(0.001)"));
    gate.wait("all compete", |status| status.number("waiting") > 15);
    let twelfth = ratio(&gate, &load);
    assert!((0.04..=0.17).contains(&twelfth), "1/12 for the class: {twelfth}");
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn a_long_transaction_is_no_way_to_get_more_requests_served() {
    let Some(gate) = start(Setup::places(2)) else {
        return;
    };
    const STATEMENTS: f64 = 10.0;
    let load = Load::start(users(&gate), |user, number| {
        if number >= USERS {
            return user.run("DO SLEEP(0.001)");
        }
        user.run("BEGIN");
        for _ in 0..8 {
            user.run("DO SLEEP(0.001)");
        }
        user.run("COMMIT");
    });
    gate.wait("all compete", |status| status.number("waiting") > 15);
    let requests = STATEMENTS * ratio(&gate, &load);
    assert!((0.7..=1.4).contains(&requests), "long against short transactions: {requests}");
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.wait_empty();
}

#[test]
fn nobody_waits_while_there_are_places_for_everybody() {
    let Some(gate) = start(Setup::places(2 * USERS as u32)) else {
        return;
    };
    let load = Load::start(users(&gate), |user, _| user.run("DO SLEEP(0.001)"));
    let even = ratio(&gate, &load);
    assert!((0.5..=2.0).contains(&even), "{even}");
    leave(load.stop().into_iter().map(|(user, _)| user));
    let status = gate.status();
    for class in status.0["classes"].as_array().unwrap() {
        assert_eq!(class["queued"], 0, "{class:#}");
    }
}

#[test]
fn a_reload_decides_anew_who_is_never_held() {
    let Some(mut gate) = start(Setup::places(1)) else {
        return;
    };
    let mut gold = gate.user_with("gold", ConnectOptions::new(gate.server.tcp(), "gold"));
    let occupant = gate.occupy();
    gold.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&gold));
    let mut late = gate.user("late");
    gate.rewrite_config("[[rule]]\naccount = \"app\"\nbypass = true\n");
    gate.order(&["reload"]);
    late.run("SELECT 1");
    assert!(gate.waits(&gold), "no rule speaks of this one");
    gate.release(occupant);
    assert_eq!(gold.value(), "7");
    leave([gold, late]);
    gate.wait_empty();
}
