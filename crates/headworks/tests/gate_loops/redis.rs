//! Who is inside, what a turn is, and what passes.

use std::time::{Duration, Instant};

use crate::common::{DEADLINE, Setup, Wire, command};
use crate::gated::state;

/// Users that are held in the test of an idle server.
const MANY: usize = 1000;

#[test]
fn a_held_user_waits_for_its_turn_and_loses_no_byte() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let occupant = gate.occupy("occupant");
    let mut held = gate.user("held");
    held.tell(&["SET", "k", "v"]);
    assert!(held.is_silent());
    gate.wait_state("held", state::WAITING);
    // More of it, while it waits.
    held.tell(&["GET", "k"]);
    assert!(held.is_silent());
    gate.release(occupant);
    held.expect("+OK\r\n$1\r\nv\r\n");
    gate.wait_empty();
}

/// The names of users are set by a command that always passes, so that the status can say who
/// waits.
#[test]
fn who_administers_passes_while_everybody_else_is_held() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let occupant = gate.occupy("occupant");
    let mut held = gate.user("held");
    held.tell(&["GET", "k"]);
    gate.wait_state("held", state::WAITING);
    let mut helper = gate.wire();
    helper.ask(&["PING"], "+PONG\r\n");
    helper.send(b"PING\r\n");
    helper.expect("+PONG\r\n");
    helper.ask(&["CLIENT", "KILL", "TYPE", "pubsub"], ":0\r\n");
    // What passes must not take others along.
    helper.send(&[command(&["PING"]), command(&["GET", "k"])].concat());
    assert!(helper.is_silent());
    gate.release(occupant);
    held.expect("$-1\r\n");
    helper.expect("+PONG\r\n$-1\r\n");
}

#[test]
fn whoever_is_in_a_transaction_or_watches_is_never_held() {
    let Some(gate) = Setup::redis(1).start() else { return };
    for (begin, end, answer, holding) in [
        ("MULTI", "EXEC", "*20\r\n", "transaction"),
        ("MULTI", "DISCARD", "+OK\r\n", "transaction"),
        ("WATCH k", "UNWATCH", "+OK\r\n", "watch"),
    ] {
        let mut owner = gate.user("owner");
        owner.ask(&begin.split(' ').collect::<Vec<_>>(), "+OK\r\n");
        let mut other = gate.user("other");
        other.tell(&["GET", "k"]);
        assert!(other.is_silent(), "{begin}: the place is taken");
        gate.wait_state("other", state::WAITING);
        assert_eq!(gate.status().holding("owner"), holding);
        for _ in 0..20 {
            owner.ask(&["INCR", "n"], if begin == "MULTI" { "+QUEUED\r\n" } else { ":" });
            if begin != "MULTI" {
                owner.line();
            }
        }
        owner.ask(&[end], answer);
        other.expect("$-1\r\n");
        drop((owner, other));
        gate.wait("both are gone", |status| status.number("users") == 0);
    }
}

#[test]
fn words_of_a_profile_take_and_release_a_lock_of_the_session() {
    let setup = Setup::redis(1).locks("enter_batch", "leave_batch");
    let Some(gate) = setup.start() else { return };
    let mut owner = gate.user("owner");
    owner.tell(&["FCALL", "ENTER_BATCH", "0"]);
    owner.expect("-ERR Function not found\r\n");
    let mut other = gate.user("other");
    other.tell(&["GET", "k"]);
    assert!(other.is_silent(), "the lock keeps the place");
    gate.wait_state("other", state::WAITING);
    assert_eq!(gate.status().holding("owner"), "named-lock");
    // Names that only contain the words.
    owner.ask(&["GET", "leave_batches"], "$-1\r\n");
    assert!(other.is_silent());
    // The word has come, the command not yet.
    owner.send(b"*2\r\n$3\r\nGET\r\n$12\r\nleave_batch ");
    assert!(other.is_silent());
    owner.send(b"\r\n");
    owner.expect("$-1\r\n");
    other.expect("$-1\r\n");
    gate.wait_empty();
}

#[test]
fn who_idles_in_a_transaction_lends_its_place_and_goes_on_at_once() {
    let Some(gate) = Setup::redis(1).key("idle_in_transaction_ms", 50).start() else { return };
    let mut owner = gate.user("owner");
    owner.ask(&["MULTI"], "+OK\r\n");
    gate.wait_state("owner", state::THINKING);
    let mut other = gate.user("other");
    other.ask(&["GET", "k"], "$-1\r\n");
    owner.ask(&["SET", "k", "v"], "+QUEUED\r\n");
    owner.ask(&["EXEC"], "*1\r\n+OK\r\n");
    gate.wait_empty();
}

#[test]
fn a_blocking_command_takes_no_place_while_it_blocks() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut consumer = gate.user("consumer");
    consumer.tell(&["BLPOP", "list", "0"]);
    let mut stream = gate.user("stream");
    stream.tell(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
    gate.wait("both block outside", |status| {
        status.state("consumer") == state::IDLE && status.state("stream") == state::IDLE
    });
    let mut producer = gate.user("producer");
    producer.ask(&["RPUSH", "list", "x"], ":1\r\n");
    consumer.expect("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    // What came behind a blocked command is served when it is.
    consumer.tell(&["BLPOP", "list", "0"]);
    consumer.tell(&["GET", "k"]);
    assert!(consumer.is_silent());
    producer.ask(&["RPUSH", "list", "y"], ":1\r\n");
    consumer.expect("*2\r\n$4\r\nlist\r\n$1\r\ny\r\n$-1\r\n");
    gate.wait_empty();
}

#[test]
fn a_pipeline_is_one_turn_of_many_requests_and_is_never_cut() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let occupant = gate.occupy("occupant");
    let mut user = gate.user("ahead");
    let batch: Vec<u8> = (0..200).flat_map(|n| command(&["SET", "k", &n.to_string()])).collect();
    for cut in [1, 17, batch.len() / 2, batch.len()] {
        user.send(&batch[..cut]);
        std::thread::sleep(Duration::from_millis(30));
        user.send(&batch[cut..]);
    }
    user.tell(&["GET", "k"]);
    assert!(user.is_silent());
    gate.release(occupant);
    user.expect(&"+OK\r\n".repeat(800));
    user.expect("$3\r\n199\r\n");
    gate.wait("each of them is counted", |status| {
        let connections = status.0["connections"].as_array().unwrap();
        connections.iter().any(|one| one["application"] == "ahead" && one["requests"] == 801)
    });
    gate.wait_empty();
}

/// Sizes around the server's buffers, in both directions: what it does not read at once has to be
/// told again.
#[test]
fn large_values_go_through_whole() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut user = gate.user("large");
    for size in [1, 16_000, 16_383, 16_384, 16_385, 32_767, 65_536, 1_000_003, 20_000_000] {
        let value = "x".repeat(size);
        user.ask(&["SET", "k", &value], "+OK\r\n");
        user.tell(&["GET", "k"]);
        user.expect(&format!("${size}\r\n{value}\r\n"));
        // The same, a byte more than fits behind it.
        user.send(&[command(&["SET", "k", &value]), command(&["STRLEN", "k"])].concat());
        user.expect(&format!("+OK\r\n:{size}\r\n"));
    }
    gate.wait_empty();
}

#[test]
fn a_slow_sender_and_a_slow_reader_stop_nobody() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut slow = gate.user("slow");
    slow.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab");
    let mut reader = gate.user("reader");
    let value = "x".repeat(4_000_000);
    reader.ask(&["SET", "large", &value], "+OK\r\n");
    for _ in 0..8 {
        reader.tell(&["GET", "large"]);
    }
    let mut other = gate.user("other");
    for _ in 0..50 {
        other.ask(&["GET", "k"], "$-1\r\n");
    }
    slow.send(b"cde\r\n");
    slow.expect("+OK\r\n");
    for _ in 0..8 {
        reader.expect(&format!("${}\r\n{value}\r\n", value.len()));
    }
    gate.wait_empty();
}

#[test]
fn subscribers_monitors_and_replicas_are_left_alone() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut subscriber = gate.user("subscriber");
    subscriber.ask(&["SUBSCRIBE", "news"], "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut monitor = gate.user("monitor");
    monitor.ask(&["MONITOR"], "+OK\r\n");
    let replica = headworks_rig::LoopServer::builder(headworks_rig::LoopKind::Redis)
        .options(["--replicaof", "127.0.0.1", &gate.server.port().to_string()])
        .options(["--repl-diskless-sync-delay", "0"])
        .start()
        .unwrap();
    let mut there = Wire::connect(&replica);
    let begun = Instant::now();
    loop {
        there.tell(&["ROLE"]);
        let lines: Vec<String> = (0..8).map(|_| there.line()).collect();
        if lines.iter().any(|line| line == "connected") {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{lines:?}");
        there = Wire::connect(&replica);
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut occupant = gate.occupy("occupant");
    let mut held = gate.user("held");
    held.tell(&["SET", "k", "held"]);
    gate.wait_state("held", state::WAITING);
    // All of this while the only place is taken.
    subscriber.ask(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    subscriber.ask(&["SUBSCRIBE", "more"], "*3\r\n$9\r\nsubscribe\r\n$4\r\nmore\r\n:2\r\n");
    occupant.ask(&["PUBLISH", "news", "hello"], "+QUEUED\r\n");
    occupant.ask(&["SET", "k", "replicated"], "+QUEUED\r\n");
    occupant.ask(&["EXEC"], "*2\r\n:1\r\n+OK\r\n");
    subscriber.expect("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    held.expect("+OK\r\n");
    assert!(monitor.line().contains("\"MONITOR\"") || gate.status().counter("replication") == 1);
    // A subscriber that has left its channels is a user like any other.
    subscriber.tell(&["UNSUBSCRIBE"]);
    while subscriber.line() != ":0" {}
    let occupant = gate.occupy("again");
    subscriber.tell(&["GET", "k"]);
    assert!(subscriber.is_silent());
    gate.release(occupant);
    subscriber.expect("$4\r\nheld\r\n");
    let begun = Instant::now();
    let mut there = Wire::connect(&replica);
    loop {
        there.tell(&["GET", "k"]);
        there.line();
        if there.line() == "held" {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "the replica has fallen behind");
    }
    gate.wait_empty();
}

#[test]
fn accounts_and_names_choose_the_class_and_lies_do_not() {
    let sections = "[[class]]\nname = \"gold\"\nweight = 3\n[[rule]]\naccount = \"app\"\nclass = \"gold\"\n\
                    [[rule]]\napplication = \"root*\"\nbypass = true\n";
    let Some(gate) = Setup::redis(1).sections(sections).start() else { return };
    let mut boss = gate.user("boss");
    boss.ask(&["ACL", "SETUSER", "app", "on", ">secret", "+@all", "~*", "&*"], "+OK\r\n");
    let mut app = gate.wire();
    app.tell(&["HELLO", "3", "AUTH", "app", "secret", "SETNAME", "golden"]);
    gate.wait("it is gold", |status| status.class("gold")["users"] == 1);
    let mut liar = gate.user("liar");
    liar.tell(&["AUTH", "app", "guess"]);
    assert!(liar.line().starts_with("-WRONGPASS"));
    assert_eq!(gate.status().class("gold")["users"], 1);
    let occupant = gate.occupy("occupant");
    let mut admin = gate.user("rooted");
    admin.ask(&["GET", "k"], "$-1\r\n");
    liar.tell(&["GET", "k"]);
    assert!(liar.is_silent());
    gate.release(occupant);
    liar.expect("$-1\r\n");
}

#[test]
fn a_thousand_held_users_cost_no_processor_time() {
    let Some(gate) = Setup::redis(1).options(["--maxclients", "2000"]).start() else { return };
    let occupant = gate.occupy("occupant");
    let mut held: Vec<Wire> = (0..MANY).map(|_| gate.wire()).collect();
    for wire in &mut held {
        wire.tell(&["INCR", "n"]);
    }
    gate.wait("all are held", |status| status.number("waiting") == MANY as u64);
    let before = gate.server.cpu_ticks().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let used = gate.server.cpu_ticks().unwrap() - before;
    assert!(used <= 40, "{used} hundredths of a second in two seconds");
    gate.release(occupant);
    let mut answers: Vec<u64> =
        held.iter_mut().map(|wire| wire.line()[1..].parse().unwrap()).collect();
    answers.sort_unstable();
    assert_eq!(answers, (1..=MANY as u64).collect::<Vec<_>>());
    gate.wait_empty();
}

#[test]
fn io_threads_read_and_write_past_the_loop() {
    let threads = ["--io-threads", "3", "--io-threads-do-reads", "yes"];
    let Some(gate) = Setup::redis(4).options(threads).start() else { return };
    std::thread::scope(|scope| {
        for name in 0..24 {
            let gate = &gate;
            scope.spawn(move || {
                let mut user = gate.user(&format!("user-{name}"));
                let key = format!("k{name}");
                for round in 1..=100 {
                    user.send(&command(&["INCR", &key]).repeat(3));
                    user.expect(&format!(
                        ":{}\r\n:{}\r\n:{}\r\n",
                        3 * round - 2,
                        3 * round - 1,
                        3 * round
                    ));
                }
            });
        }
    });
    gate.wait_empty();
    assert_eq!(gate.status().counter("concurrent_use"), 0);
}

#[test]
fn an_encrypted_user_is_left_alone_and_the_status_says_so() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut user = gate.wire();
    // How a TLS client begins. A server without TLS waits for the end of the line.
    user.send(b"\x16\x03\x01\x00\x05");
    gate.wait("it is seen", |status| status.counter("opaque_tls") == 1);
    let status = gate.status();
    assert_eq!(status.0["connections"][0]["tls"], "encrypted, not followed");
    drop(user);
    gate.wait_empty();
}
