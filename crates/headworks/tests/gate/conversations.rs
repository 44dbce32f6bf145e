//! The gate delays, and does nothing else: no error, no other order, no byte lost or doubled.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use headworks_rig::wire::capability;
use headworks_rig::{Server, mariadb_or_skip};

use crate::common::Setup;
use crate::conversation::{Conversation, STEPS};
use crate::relay::Relay;

/// Without cached threads each connection counts its prepared statements from one.
const OPTIONS: [&str; 3] =
    ["--local-infile=1", "--max-allowed-packet=64M", "--thread-cache-size=0"];

const CLIENTS: u64 = 24;
const CLIENT_STEPS: usize = 25;

/// Printed with every failure by the test's name; another seed is another set of conversations.
const SEED: u64 = 20_240_917;

#[test]
fn random_conversations_of_many_clients_get_the_right_answers() {
    let setup = Setup::places(3).lending().options(OPTIONS);
    let Some(gate) = setup.start() else {
        return;
    };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let server = &gate.server;
            scope.spawn(move || {
                let extra = if number.is_multiple_of(2) { capability::DEPRECATE_EOF } else { 0 };
                let options = server
                    .options()
                    .capabilities(capability::MULTI_STATEMENTS | capability::LOCAL_FILES | extra)
                    .read_timeout(Duration::from_secs(100));
                let client = options.connect().unwrap();
                let mut conversation =
                    Conversation::begin(client, &format!("t{number}"), SEED + number);
                for _ in 0..CLIENT_STEPS {
                    conversation.step();
                }
                if number == 0 {
                    conversation.sends_a_huge_value();
                }
                conversation.end();
            });
        }
    });
    gate.wait_empty();
    let status = gate.status();
    for counter in ["opaque_unknown", "concurrent_use", "lock_busy", "panic", "hold_limit"] {
        assert_eq!(status.counter(counter), 0, "{counter}");
    }
    assert!(
        status.class("default")["queued"].as_u64().unwrap() > CLIENTS,
        "the conversations were held now and then"
    );
}

/// One conversation with every kind of step; returns what the server said after the login.
fn recorded(server: &Server, flags: u32) -> Vec<u8> {
    let relay = Relay::new(server, Ipv4Addr::LOCALHOST);
    let flags = flags | capability::MULTI_STATEMENTS | capability::LOCAL_FILES;
    let client = relay.options().capabilities(flags).connect().unwrap();
    // The greeting holds random bytes and the connection's id.
    let greeting = relay.recorded().len();
    let mut conversation = Conversation::begin(client, "t", SEED);
    for step in STEPS {
        step(&mut conversation);
    }
    if flags & capability::DEPRECATE_EOF == 0 {
        conversation.fetches_from_a_cursor();
    }
    for _ in 0..20 {
        conversation.step();
    }
    conversation.sends_a_huge_value();
    conversation.end();
    server.sql("DROP TABLE rig.t").unwrap();
    relay.recorded().split_off(greeting)
}

#[test]
fn the_server_says_the_same_bytes_with_and_without_the_gate() {
    if !mariadb_or_skip() {
        return;
    }
    let plain = Server::builder().options(OPTIONS).start().unwrap();
    let setup = Setup::places(1).lending().options(OPTIONS);
    let gate = setup.start().unwrap();
    for flags in [0, capability::DEPRECATE_EOF] {
        // Others compete for the only place meanwhile.
        let load = crate::load::Load::start([gate.user("other"), gate.user("other")], |user, _| {
            user.run("DO SLEEP(0.002)");
        });
        let gated = recorded(&gate.server, flags);
        for (user, count) in load.stop() {
            assert!(count > 0);
            user.quit();
        }
        let ungated = recorded(&plain, flags);
        assert_eq!(gated.len(), ungated.len());
        let difference = gated.iter().zip(&ungated).position(|(one, other)| one != other);
        assert_eq!(difference, None, "the first byte that differs, of {}", gated.len());
    }
}
