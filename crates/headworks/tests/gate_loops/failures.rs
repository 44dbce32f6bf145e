//! What happens when something fails, and when an operator opens or closes the gate.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Gate, Setup, Stop, Wire, command};
use crate::gated::{DEADLINE, SOON, state, wait_until};

/// Users that wait, and the occupant that they wait for.
fn crowd(gate: &Gate, count: usize) -> (Wire, Vec<Wire>) {
    let occupant = gate.occupy("occupant");
    let mut held: Vec<Wire> = (0..count).map(|_| gate.wire()).collect();
    for wire in &mut held {
        wire.tell(&["ECHO", "hi"]);
    }
    gate.wait("all are held", |status| status.number("waiting") == count as u64);
    (occupant, held)
}

fn all_answered(held: &mut [Wire]) -> Duration {
    let begun = Instant::now();
    for wire in held {
        wire.expect("$2\r\nhi\r\n");
    }
    begun.elapsed()
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn when_the_daemon_is_killed_everybody_passes() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let (_occupant, mut held) = crowd(&gate, 200);
    kill(gate.daemon(), libc::SIGKILL);
    let took = all_answered(&mut held);
    assert!(took < SOON, "{took:?}");
    // New requests pass at once.
    let begun = Instant::now();
    gate.wire().ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn off_lets_everybody_pass_and_on_holds_again() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let (occupant, mut held) = crowd(&gate, 50);
    assert!(gate.headworks(&["off"]).status.success());
    let took = all_answered(&mut held);
    assert!(took < SOON, "{took:?}");
    assert!(gate.headworks(&["on"]).status.success());
    held[0].tell(&["ECHO", "hi"]);
    assert!(held[0].is_silent());
    gate.release(occupant);
    held[0].expect("$2\r\nhi\r\n");
    gate.wait_empty();
}

#[test]
fn nobody_is_held_for_longer_than_the_longest_hold() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut occupant = gate.occupy("occupant");
    gate.order(&["set", "--hold-ms-max", "1000"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                occupant.ask(&["GET", "k"], "+QUEUED\r\n");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _stop = Stop(&stop);
        let mut held = gate.user("held");
        let begun = Instant::now();
        held.ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(900), "{took:?}");
    });
    assert_eq!(gate.status().counter("hold_limit"), 1);
}

#[test]
fn more_places_let_more_in() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let (_occupant, mut held) = crowd(&gate, 5);
    assert!(gate.headworks(&["set", "--parallelism", "2"]).status.success());
    all_answered(&mut held);
}

/// The connection ends as that of a client which is killed with unread bytes: by a reset.
fn closes_by_reset(wire: &Wire) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the structure and its size belong together.
    unsafe {
        libc::setsockopt(
            wire.stream().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as u32,
        );
    }
}

#[test]
fn a_client_whose_connection_is_reset_while_others_wait_is_gone_at_once() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let mut idle = gate.wire();
    idle.tell(&["GET", "k"]);
    idle.expect("$-1\r\n");
    let (_occupant, held) = crowd(&gate, 2);
    closes_by_reset(&idle);
    drop(idle);
    gate.wait("it is gone", |status| (status.number("users"), status.number("waiting")) == (3, 2));
    drop(held);
}

#[test]
fn a_client_that_vanishes_gives_back_what_it_had() {
    let Some(gate) = Setup::redis(1).start() else { return };
    for round in 0..20 {
        let owner = gate.occupy("owner");
        let mut waiting = gate.user("waiting");
        waiting.tell(&["GET", "k"]);
        gate.wait_state("waiting", state::WAITING);
        let mut heir = gate.user("heir");
        heir.tell(&["GET", "k"]);
        gate.wait_state("heir", state::WAITING);
        if round % 2 == 0 {
            closes_by_reset(&waiting);
        }
        drop(waiting);
        drop(owner);
        heir.expect("$-1\r\n");
        drop(heir);
        gate.wait("all are gone", |status| status.number("users") == 0);
    }
    gate.wait_empty();
}

#[test]
fn client_kill_ends_a_held_user() {
    let Some(gate) = Setup::redis(1).start() else { return };
    let (_occupant, mut held) = crowd(&gate, 10);
    let mut helper = gate.wire();
    // Itself is spared.
    helper.tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_eq!(helper.line(), ":11");
    for wire in &mut held {
        assert!(wire.is_closed());
    }
    gate.wait("only the helper is left", |status| status.number("users") == 1);
    gate.wait_empty();
}

#[test]
fn sigterm_with_five_hundred_held_users_ends_as_without_the_gate() {
    let Some(mut gate) = Setup::redis(1).start() else { return };
    let (_occupant, mut held) = crowd(&gate, 500);
    let stopped = gate.server.end(libc::SIGTERM, 2 * SOON).unwrap();
    assert!(stopped.status.success(), "{:?}", stopped.status);
    assert!(stopped.took < SOON, "{:?}", stopped.took);
    assert!(gate.server.log().contains("bye bye"));
    assert!(held[0].is_closed());
}

/// Children of `fork` have the loop's own epoll set, and must leave it alone.
#[test]
fn saving_in_the_background_under_load_disturbs_nobody() {
    let arguments = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
    let Some(gate) = Setup::redis(4).options(arguments).start() else { return };
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for name in 0..32 {
            let (gate, stop, done) = (&gate, &stop, &done);
            scope.spawn(move || {
                let mut user = gate.user(&format!("user-{name}"));
                let key = format!("k{name}");
                for round in 1u64.. {
                    user.ask(&["INCR", &key], &format!(":{round}\r\n"));
                    done.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        let mut boss = gate.user("boss");
        for save in ["BGSAVE SCHEDULE", "BGREWRITEAOF", "BGSAVE SCHEDULE", "BGREWRITEAOF"] {
            let before = done.load(Ordering::Relaxed);
            boss.tell(&save.split(' ').collect::<Vec<_>>());
            let said = boss.line();
            // Refused while the one before is under way.
            assert!(
                said.starts_with('+') || said.contains("already in progress"),
                "{save}: {said}"
            );
            wait_until(save, DEADLINE, || done.load(Ordering::Relaxed) > before + 100);
        }
    });
    gate.wait_empty();
    wait_until("all is saved", DEADLINE, || {
        let log = gate.server.log();
        log.contains("DB saved on disk") && log.contains("AOF rewrite")
    });
}

/// A client is killed and the daemon too, again and again, under load: no client is stuck and no
/// answer is wrong.
#[test]
fn killing_under_load_leaves_nobody_stuck() {
    let Some(gate) = Setup::redis(2).start() else { return };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in 0..16 {
            let (gate, stop) = (&gate, &stop);
            scope.spawn(move || {
                let key = format!("k{name}");
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut user = gate.wire();
                    for _ in 0..20 {
                        count += 1;
                        user.ask(&["INCR", &key], &format!(":{count}\r\n"));
                    }
                    // It goes in the middle of a transaction, or of a command.
                    let last = if count % 40 == 0 {
                        command(&["MULTI"])
                    } else {
                        b"*2\r\n$3\r\nGE".to_vec()
                    };
                    user.send(&last);
                }
            });
        }
        let _stop = Stop(&stop);
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            kill(gate.daemon(), libc::SIGKILL);
            std::thread::sleep(Duration::from_millis(300));
            assert!(gate.headworks(&["daemon"]).status.success());
        }
    });
    gate.wait("all are gone", |status| status.number("users") == 0);
    gate.wait_empty();
    let mut user = gate.user("after");
    user.ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
}
