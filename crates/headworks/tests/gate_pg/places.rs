//! Who is inside, and when a place comes back.

use std::time::{Duration, Instant};

use postgres::SimpleQueryMessage;

use crate::common::{Gate, Setup};
use crate::gated::{SOON, state};
use crate::wire::{Wire, group, query, sync};

#[test]
fn nobody_in_a_transaction_is_held() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut owner = gate.user("owner");
    owner.run("BEGIN");
    owner.run("INSERT INTO t VALUES (1)");
    let mut other = gate.user("other").send("SELECT 7");
    assert!(gate.is_held(&mut other), "the place is taken by a transaction");
    assert_eq!(gate.status().holding(&owner.name), "transaction");
    for _ in 0..20 {
        owner.run("UPDATE t SET a = a + 1");
    }
    assert!(owner.client.simple_query("SELECT 1/0").is_err());
    assert!(gate.is_held(&mut other), "a failed transaction is still one");
    owner.run("ROLLBACK");
    assert_eq!(other.value().1, "7");
    owner.run("SELECT 1");
    gate.wait_empty();
}

/// When a statement ran, by the server's own clock.
const SPAN: &str = "SELECT extract(epoch FROM clock_timestamp())::text, pg_sleep(0.002)::text, \
     extract(epoch FROM clock_timestamp())::text";

/// The most of these spans that overlap at one time.
fn most_at_once(spans: &[(f64, f64)]) -> usize {
    let overlap = |at: f64| spans.iter().filter(|(from, to)| (*from..*to).contains(&at)).count();
    // They are most numerous where one of them begins.
    spans.iter().map(|(from, _)| overlap(*from)).max().unwrap_or(0)
}

#[test]
fn never_more_than_p_execute_and_everybody_is_answered() {
    const P: usize = 3;
    let Some(gate) = Setup::places(P as u32).start() else { return };
    let time = |text: Option<&str>| text.unwrap().parse::<f64>().unwrap();
    let spans: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let users: Vec<_> = (0..24).map(|_| gate.user("crowd")).collect();
        let clients: Vec<_> = users
            .into_iter()
            .enumerate()
            .map(|(number, mut user)| {
                scope.spawn(move || {
                    let mut spans = Vec::new();
                    for _ in 0..20 {
                        if number % 2 == 0 {
                            user.run("BEGIN");
                            let rows = user.client.simple_query(SPAN).unwrap();
                            for message in &rows {
                                if let SimpleQueryMessage::Row(row) = message {
                                    spans.push((time(row.get(0)), time(row.get(2))));
                                }
                            }
                            user.run("COMMIT");
                        } else {
                            let row = user.client.query_one(SPAN, &[]).unwrap();
                            spans.push((time(row.get(0)), time(row.get(2))));
                        }
                    }
                    spans
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(spans.len(), 24 * 20);
    assert!(spans.iter().all(|(from, to)| to - from >= 0.002));
    let most = most_at_once(&spans);
    assert!((2..=P).contains(&most), "{most} at once");
    gate.wait("all are gone", |status| status.number("users") == 0);
    assert_eq!(gate.status().number("inside"), 0);
}

#[test]
fn requests_sent_ahead_are_one_turn_and_all_are_answered() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut wire = Wire::connect(&gate, "ahead");
    let groups =
        ["SELECT 1", "BEGIN", "SELECT 1/0", "ROLLBACK"].map(|sql| [group(sql), sync()].concat());
    let bytes = [groups.concat(), query("SELECT 2"), query("SELECT 3")].concat();
    let occupant = gate.occupy();
    // Cut where it hurts, and everything at once.
    for cut in [1, 5, bytes.len() / 2, bytes.len()] {
        wire.send(&bytes[..cut]);
        std::thread::sleep(Duration::from_millis(50));
        wire.send(&bytes[cut..]);
    }
    gate.wait_state("ahead", state::WAITING);
    gate.release(occupant);
    for _ in 0..4 {
        let statuses: String = (0..6).map(|_| char::from(wire.answer().1)).collect();
        assert_eq!(statuses, "ITEIII");
    }
    gate.wait_empty();
    gate.wait("each of them is counted", |status| {
        let connections = status.0["connections"].as_array().unwrap();
        connections.iter().any(|one| one["application"] == "ahead" && one["requests"] == 24)
    });
}

#[test]
fn a_request_without_its_sync_keeps_its_place_and_a_slow_one_takes_none() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut open = Wire::connect(&gate, "open");
    open.send(&[group("INSERT INTO t VALUES (5)"), crate::wire::message(b'H', &[])].concat());
    gate.wait_state("open", state::INSIDE);
    assert_eq!((open.next().0, open.next().0, open.next().0), (b'1', b'2', b'C'));
    let mut other = gate.user("other").send("SELECT 7");
    assert!(gate.is_held(&mut other), "the server has opened a transaction for the group");
    open.send(&sync());
    assert_eq!(open.answer().1, b'I');
    assert_eq!(other.value().1, "7");

    let mut slow = Wire::connect(&gate, "slow");
    let bytes = query("SELECT 'late'");
    slow.send(&bytes[..9]);
    let occupant = gate.occupy();
    gate.release(occupant);
    slow.send(&bytes[9..]);
    assert_eq!(slow.answer(), ("TDCZ".to_owned(), b'I'));
    gate.wait_empty();
}

#[test]
fn who_idles_in_a_transaction_lends_its_place_and_goes_on_at_once() {
    let Some(gate) = Setup::places(1).key("idle_in_transaction_ms", 50).start() else { return };
    let mut owner = gate.user("owner");
    owner.run("BEGIN");
    gate.wait_state(&owner.name, state::THINKING);
    let occupant = gate.occupy();
    let begun = Instant::now();
    owner.run("INSERT INTO t VALUES (1)");
    assert!(begun.elapsed() < SOON, "it owns a transaction");
    owner.run("COMMIT");
    let mut plain = gate.user("plain").send("SELECT 7");
    assert!(gate.is_held(&mut plain), "the place is still the occupant's");
    gate.release(occupant);
    assert_eq!(plain.value().1, "7");
    gate.wait_empty();
}

#[test]
fn a_place_comes_back_however_its_owner_goes() {
    let Some(gate) = Setup::places(1).start() else { return };
    let comes_back = |what: &str, take: &dyn Fn() -> Box<dyn FnOnce()>| {
        let go = take();
        let mut heir = gate.user("heir").send("SELECT 7");
        assert!(gate.is_held(&mut heir), "{what}: the place is taken");
        go();
        assert_eq!(heir.value().1, "7", "{what}");
        gate.wait("no session is left", |status| status.number("users") == 0);
    };
    let begun = || {
        let mut owner = gate.user("owner");
        owner.run("BEGIN");
        owner
    };
    comes_back("says goodbye in a transaction", &|| {
        let owner = begun();
        Box::new(move || owner.client.close().unwrap())
    });
    comes_back("vanishes in a transaction", &|| {
        let mut wire = Wire::connect(&gate, "owner");
        wire.send(&query("BEGIN"));
        assert_eq!(wire.answer().1, b'T');
        Box::new(move || drop(wire))
    });
    comes_back("is terminated in a transaction", &|| {
        let owner = begun();
        let terminate = format!("SELECT pg_terminate_backend({})", owner.pid);
        let gate: &Gate = &gate;
        let mut boss = gate.boss();
        Box::new(move || {
            boss.run(&terminate);
            drop(owner);
        })
    });
}
