//! Many users at once, most of which come, go, vanish and are killed at any moment.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use headworks_rig::wire::{command, packet};
use headworks_rig::{Client, ClientError, Server};

use crate::common::{DEADLINE, Gate, Setup, wait_until};
use crate::conversation::Random;
use crate::load::Load;
use crate::owner::leave;

const PLACES: u32 = 4;
const STEADY: usize = 20;
const RESTLESS: usize = 130;
const ACCOUNTS: u64 = 400;
const DURATION: Duration = Duration::from_secs(8);
const SEED: u64 = 4711;

/// Connection ids of the restless users; 0 for none.
static CONNECTIONS: [AtomicU32; RESTLESS] = [const { AtomicU32::new(0) }; RESTLESS];

/// Moves money from one account to another, which changes no sum.
fn transfer(client: &mut Client, random: &mut Random) -> Result<(), ClientError> {
    let amount = random.below(100);
    client.query("BEGIN")?;
    for sign in ["-", "+"] {
        let account = random.below(ACCOUNTS);
        client.query(&format!(
            "UPDATE account SET money = money {sign} {amount} WHERE id = {account}"
        ))?;
    }
    client.query("COMMIT").map(|_| ())
}

/// One thing that a restless user does; `false` when its connection is over.
fn act(client: &mut Client, random: &mut Random) -> Result<bool, ClientError> {
    match random.below(20) {
        0..10 => transfer(client, random).map(|()| true),
        10..14 => client.query("SELECT COUNT(*) FROM account").map(|_| true),
        14 => {
            let victim =
                CONNECTIONS[random.below(RESTLESS as u64) as usize].load(Ordering::Relaxed);
            let what = ["QUERY", "CONNECTION"][random.below(2) as usize];
            client.query(&format!("KILL {what} {victim}")).map(|_| true)
        }
        15 => {
            client.query("DO GET_LOCK('crowd', 0)")?;
            client.query("DO RELEASE_ALL_LOCKS()").map(|_| true)
        }
        // It vanishes: in a transaction, with half a statement, with a statement under way.
        16 => {
            client.query("BEGIN")?;
            client.query("UPDATE account SET money = money - 1 WHERE id = 1")?;
            Ok(false)
        }
        17 => {
            client.send_raw(&packet(command::QUERY, b"SELECT 'half'")[..9])?;
            Ok(false)
        }
        18 => {
            client.send_query("SELECT SLEEP(0.01)")?;
            Ok(false)
        }
        _ => {
            client.send_command(command::QUIT, &[])?;
            Ok(false)
        }
    }
}

/// Connects again and again. Errors are part of the life of who is killed or in a deadlock.
fn restless(server: &Server, number: usize, stop: &AtomicBool) {
    let mut random = Random::new(SEED + number as u64);
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = server.connect() else {
            continue;
        };
        CONNECTIONS[number].store(client.connection_id(), Ordering::Relaxed);
        while !stop.load(Ordering::Relaxed) {
            match act(&mut client, &mut random) {
                Ok(true) => {}
                Ok(false) => break,
                Err(ClientError::Server { .. }) if client.query("ROLLBACK").is_ok() => {}
                Err(_) => break,
            }
        }
        CONNECTIONS[number].store(0, Ordering::Relaxed);
    }
}

/// Exactly as many users as there are places get in, and the next one is held.
fn has_all_its_places(gate: &Gate) {
    let occupants: Vec<_> = (0..PLACES).map(|_| gate.occupy()).collect();
    let mut next = gate.user("next");
    next.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&next));
    assert_eq!(gate.status().number("inside"), u64::from(PLACES));
    for occupant in occupants {
        gate.release(occupant);
    }
    assert_eq!(next.value(), "7");
    next.quit();
    gate.wait_empty();
}

#[test]
fn a_restless_crowd_leaves_every_place_behind_and_steady_users_are_served_alike() {
    let Some(gate) = Setup::places(PLACES).lending().start() else {
        return;
    };
    gate.sql("CREATE TABLE rig.account (id INT PRIMARY KEY, money BIGINT) ENGINE=InnoDB");
    gate.sql("INSERT INTO rig.account SELECT seq, 1000 FROM rig.seq_0_to_399");
    gate.sql("CREATE TABLE rig.own (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB");
    gate.sql("INSERT INTO rig.own SELECT seq, 0 FROM rig.seq_0_to_19");

    let stop = AtomicBool::new(false);
    let (steady, lead, trail) = thread::scope(|scope| {
        for number in 0..RESTLESS {
            let (server, stop) = (&gate.server, &stop);
            scope.spawn(move || restless(server, number, stop));
        }
        let users: Vec<_> = (0..STEADY).map(|_| gate.user("steady")).collect();
        let load = Load::start(users, |user, number| {
            user.run("BEGIN");
            user.run(&format!("UPDATE own SET n = n + 1 WHERE id = {number}"));
            user.run("COMMIT");
        });
        // They do not begin at the same moment.
        wait_until("all of them are at work", DEADLINE, || !load.counts().contains(&0));
        let before = load.counts();
        thread::sleep(DURATION);
        let counts: Vec<u64> =
            load.counts().iter().zip(before).map(|(after, before)| after - before).collect();
        stop.store(true, Ordering::Relaxed);
        let (lead, trail) = (*counts.iter().max().unwrap(), *counts.iter().min().unwrap());
        println!("transactions of the steady users: {counts:?}");
        (load.stop(), lead, trail)
    });
    gate.wait("the restless are gone", |status| status.number("users") == STEADY as u64);
    gate.wait_empty();
    assert!(trail > 20, "they got on: at least {trail} transactions each");
    assert!(lead - trail <= 6, "{trail} to {lead} transactions");
    leave(steady.into_iter().map(|(user, _)| user));

    let money = gate.server.sql("SELECT SUM(money) FROM rig.account").unwrap();
    assert_eq!(money.value(), Some("400000"), "each transfer happened once or not at all");
    has_all_its_places(&gate);
    let status = gate.status();
    for counter in
        ["panic", "lock_busy", "lock_inherited", "concurrent_use", "opaque_unknown", "hold_limit"]
    {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
}
