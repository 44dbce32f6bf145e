//! Threads that end in the middle of something: what they held comes back.

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};
use crate::support::wait_until;

#[test]
fn a_thread_that_ends_inside_gives_its_place_to_others() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut occupant = server.occupant();
    let mut held = server.held(2);
    // The thread ends without an answer, and the connection stays open.
    occupant.send_query("exit").unwrap();
    for client in &mut held {
        client.read_answer().unwrap();
    }
    wait_until("the thread is reaped", || server.counter("reaped") >= 1);
}

#[test]
fn a_thread_can_be_cancelled_in_every_sleep() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    // One sleeps between requests, with nothing in hand.
    let idle = server.connect();
    // One sleeps inside a transaction, in a poll that the library has cut in two.
    let occupant = server.occupant();
    let mut held = server.held(1);
    let mut admin = held.pop().unwrap();
    wait_until("three users", || server.figure("users") == 3);
    // The canceller is held by the very transaction that it is to end, so it waits its turn first.
    signal_out_of(&server, &occupant, &mut admin);
    for victim in [&idle, &occupant] {
        admin.query(&format!("cancel {}", victim.connection_id())).unwrap();
        assert!(victim.readable_within(crate::support::PATIENCE).unwrap());
    }
    wait_until("both slots are free", || server.figure("users") == 1);
    // No session is left inside: a newcomer gets the permit.
    let mut next = server.connect();
    next.query("BEGIN").unwrap();
    next.query("COMMIT").unwrap();
    assert_eq!(server.counter("panic"), 0);
}

/// Lets the held canceller in while the transaction keeps its place.
fn signal_out_of(
    server: &MiniServer,
    occupant: &headworks_rig::Client,
    admin: &mut headworks_rig::Client,
) {
    assert!(!occupant.readable_within(std::time::Duration::ZERO).unwrap());
    server.run.ok(["set", "--name", crate::miniserver::NAME, "--parallelism", "2"]);
    admin.read_answer().unwrap();
}

#[test]
fn a_held_thread_is_released_when_its_socket_is_shut_down() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut occupant = server.occupant();
    let held = server.held(4);
    // By another thread of the server, as MariaDB does for KILL and for its own end.
    for client in &held {
        occupant.query(&format!("shutdown {}", client.connection_id())).unwrap();
    }
    wait_until("no session waits", || server.figure("waiting") == 0);
    wait_until("the slots are free", || server.figure("users") == 1);
    assert_eq!(server.counter("cancelled"), 4);
}

#[test]
fn what_another_thread_sends_to_a_held_client_is_no_answer_to_its_request() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut occupant = server.occupant();
    let mut held = server.held(1);
    let client = &mut held[0];
    occupant.query(&format!("push {}", client.connection_id())).unwrap();
    client.read_answer().unwrap();
    assert!(!client.readable_within(std::time::Duration::from_millis(300)).unwrap());
    let figures = ["users", "inside", "waiting"].map(|key| server.figure(key));
    assert_eq!(figures, [2, 1, 1]);
    occupant.query("COMMIT").unwrap();
    client.read_answer().unwrap();
    // It is followed as before: its transaction has the place.
    assert!(client.query("BEGIN").unwrap().in_transaction());
    occupant.send_query("SELECT 1").unwrap();
    server.run.wait_for_held(crate::miniserver::NAME, 1);
    client.query("COMMIT").unwrap();
    occupant.read_answer().unwrap();
    wait_until("all places are free", || server.figure("inside") == 0);
    assert_eq!(server.counter("concurrent_use"), 1, "it was noticed");
    assert_eq!((server.counter("opaque_unknown"), server.counter("panic")), (0, 0));
}

#[test]
fn a_request_that_sleeps_on_a_condition_lends_its_permit_although_its_server_tells_nothing() {
    let Some(workshop) = Workshop::open() else { return };
    let config = "[gate]\nparallelism = 1\nhold_ms_max = 3600000\nstall_ms = 3000000\n";
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), config, &[]);
    let (mut waiter, mut cancelled) = (server.connect(), server.connect());
    waiter.send_query("wait").unwrap();
    cancelled.send_query("wait").unwrap();
    let mut other = server.connect();
    // Permits are lent while a session is queued for them.
    wait_until("both are blocked", || {
        other.query("nothing").unwrap();
        server.figure("blocked") == 2
    });
    // A thread that is cancelled there gives its slot back.
    other.query(&format!("cancel {}", cancelled.connection_id())).unwrap();
    wait_until("one is gone", || server.figure("users") == 2);
    other.query("wake").unwrap();
    waiter.read_answer().unwrap();
    wait_until("no session is blocked", || server.figure("blocked") == 0);
    assert_eq!((server.counter("stalls"), server.counter("panic")), (0, 0));
}
