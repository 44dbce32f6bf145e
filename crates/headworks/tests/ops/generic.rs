//! Servers that no profile knows.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::wait_until;

#[test]
fn a_request_of_an_unknown_protocol_waits_for_its_turn() {
    let Some(echo) = Echo::start("threads", PATIENT, &[]) else { return };
    let warned = || echo.said.lock().unwrap().contains("warning: no profile knows");
    wait_until("a warning", warned);
    let (mut one, mut two) = (echo.client(), echo.client());
    one.send("hello");
    assert_eq!(one.answer(), "ok hello");
    two.send("four"); // five bytes with the end of line
    assert_eq!(two.answer(), "ok four");
    // Four bytes at once are a request like any other.
    two.send("ask");
    assert_eq!(two.answer(), "ok ask");
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    two.send("next");
    echo.run.wait_for_held(NAME, 1);
    assert!(two.is_silent());
    echo.go();
    assert_eq!(one.answer(), "ok wait");
    assert_eq!(two.answer(), "ok next");
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
    assert_eq!(echo.run.status(NAME)["protocol"], "generic");
    // The daemon killed: all requests pass.
    let daemon = echo.run.daemon(NAME);
    crate::support::signal(daemon, libc::SIGKILL);
    wait_until("the gate is stale", || echo.run.status(NAME)["gate"] == "stale");
    one.send("more");
    two.send("more");
    assert_eq!((one.answer(), two.answer()), ("ok more".to_owned(), "ok more".to_owned()));
}

#[test]
fn who_has_quota_left_and_idles_in_a_read_that_waits_keeps_no_place() {
    let config = format!("{PATIENT}quota_requests = 60\n");
    let Some(echo) = Echo::start("threads", &config, &["--profile", "generic"]) else { return };
    let mut clients: Vec<_> = (0..4).map(|_| echo.client()).collect();
    clients[0].send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    for client in &mut clients[1..] {
        client.send("ask");
    }
    echo.run.wait_for_held(NAME, 3);
    echo.go();
    // Each turn is good for more than one request, and no client sends another.
    assert_eq!(clients[0].answer(), "ok wait");
    for client in &mut clients[1..] {
        assert_eq!(client.answer(), "ok ask");
    }
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
}

#[test]
fn a_session_that_connects_back_is_no_hindrance_to_the_one_that_it_waits_for() {
    let config = PATIENT.replace("\"admitted\"", "\"working\"");
    let Some(echo) = Echo::start("threads", &config, &["--profile", "generic"]) else { return };
    let mut client = echo.client();
    // Its connection needs the only permit.
    client.send("back");
    assert_eq!(client.answer(), "ok back");
    let counted = ["lent_blocked", "outgrown", "stalls"].map(|name| echo.run.counter(NAME, name));
    assert_eq!(counted, [1, 0, 0]);
}

/// One answered client goes on idling, and another one is served all the same.
fn an_idle_client_keeps_nothing(calls: &str) -> Option<Echo> {
    let echo = Echo::start(calls, PATIENT, &["--profile", "generic"])?;
    let (mut one, mut two) = (echo.client(), echo.client());
    for round in 0..3 {
        for client in [&mut one, &mut two] {
            client.send("ask");
            assert_eq!(client.answer(), "ok ask", "{calls}, round {round}");
        }
    }
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
    for unexpected in ["panic", "stalls", "hold_limit", "concurrent_use", "shared_threads"] {
        assert_eq!(echo.run.counter(NAME, unexpected), 0, "{calls}: {unexpected}");
    }
    // It is held like any other server's.
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    two.send("next");
    echo.run.wait_for_held(NAME, 1);
    assert!(two.is_silent(), "{calls}");
    echo.go();
    assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
    Some(echo)
}

#[test]
fn requests_and_answers_are_followed_by_whichever_calls_they_come_and_go() {
    for read in ["recv", "read", "readv", "recvfrom", "recvmsg"] {
        let Some(echo) = an_idle_client_keeps_nothing(&format!("threads:{read}:write")) else {
            return;
        };
        let unseen = ["unseen_answers", "unseen_reads"].map(|name| echo.run.counter(NAME, name));
        assert_eq!(unseen, [0, 0], "{read}");
    }
    for write in ["writev", "sendmsg", "sendto", "sendmmsg", "sendfile", "splice"] {
        let Some(echo) = an_idle_client_keeps_nothing(&format!("threads:recv:{write}")) else {
            return;
        };
        let unseen = ["unseen_answers", "unseen_reads"].map(|name| echo.run.counter(NAME, name));
        assert_eq!(unseen, [0, 0], "{write}");
    }
}

#[test]
fn an_answer_that_no_hook_saw_ends_its_request_and_is_reported() {
    let Some(echo) = an_idle_client_keeps_nothing("threads:recv:syscall") else { return };
    wait_until("both are counted", || echo.run.counter(NAME, "unseen_answers") == 2);
}

#[test]
fn an_answer_by_another_thread_ends_its_request() {
    let Some(echo) = Echo::start("threads:recv:worker", PATIENT, &["--profile", "generic"]) else {
        return;
    };
    let (mut one, mut two) = (echo.client(), echo.client());
    for _ in 0..3 {
        for client in [&mut one, &mut two] {
            client.send("ask");
            assert_eq!(client.answer(), "ok ask");
        }
    }
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
    assert_eq!(echo.run.counter(NAME, "unseen_answers"), 0);
}

#[test]
fn a_server_whose_reads_are_not_seen_passes_and_is_reported() {
    let Some(echo) = Echo::start("threads:syscall:send", PATIENT, &["--profile", "generic"]) else {
        return;
    };
    let (mut one, mut two) = (echo.client(), echo.client());
    for client in [&mut one, &mut two] {
        client.send("ask");
        assert_eq!(client.answer(), "ok ask");
    }
    wait_until("both are counted", || echo.run.counter(NAME, "unseen_reads") == 2);
    drop((one, two));
    wait_until("they are counted once", || echo.run.figure(NAME, "users") == 0);
    assert_eq!(echo.run.counter(NAME, "unseen_reads"), 2);
}

#[test]
fn what_another_thread_sends_to_a_held_client_is_no_answer_to_its_request() {
    let Some(echo) = Echo::start("threads", PATIENT, &["--profile", "generic"]) else { return };
    let mut one = echo.client();
    one.send("hello");
    assert_eq!(one.answer(), "ok hello");
    let mut held = echo.client();
    held.send("hello");
    assert_eq!(held.answer(), "ok hello");
    one.send("push 2");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    held.send("ask");
    echo.run.wait_for_held(NAME, 1);
    echo.go();
    assert_eq!(held.answer(), "pushed");
    assert!(held.is_silent());
    let figures = ["users", "inside", "waiting"].map(|name| echo.run.figure(NAME, name));
    assert_eq!(figures, [2, 1, 1]);
    echo.go_no_more();
    assert_eq!((one.answer(), held.answer()), ("ok push 2".to_owned(), "ok ask".to_owned()));
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
    for client in [&mut one, &mut held] {
        client.send("again");
        assert_eq!(client.answer(), "ok again");
    }
    wait_until("all places are free", || echo.run.figure(NAME, "inside") == 0);
    assert_eq!(echo.run.counter(NAME, "concurrent_use"), 1, "it was noticed");
    for unexpected in ["panic", "unseen_answers", "unseen_reads"] {
        assert_eq!(echo.run.counter(NAME, unexpected), 0, "{unexpected}");
    }
}

#[test]
fn a_connection_that_is_closed_by_any_call_gives_its_place_back() {
    let Some(echo) = Echo::start("threads", PATIENT, &["--profile", "generic"]) else { return };
    for how in ["close_range", "closefrom", "dup2", "dup3"] {
        let (mut one, mut two) = (echo.client(), echo.client());
        two.send("hello");
        assert_eq!(two.answer(), "ok hello");
        drop(two);
        one.send(&format!("end {how}"));
        // Its thread lives, and serves no client.
        wait_until(how, || echo.run.figure(NAME, "users") == 0);
        assert_eq!(one.answer(), "", "{how}: the end of the stream");
        // The next ones have the same numbers.
        let (mut next, mut held) = (echo.client(), echo.client());
        next.send("wait");
        wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
        held.send("next");
        echo.run.wait_for_held(NAME, 1);
        assert!(held.is_silent(), "{how}");
        echo.go();
        assert_eq!((next.answer(), held.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
        echo.go_no_more();
        drop((next, held));
        wait_until("all have left", || echo.run.figure(NAME, "users") == 0);
    }
    for unexpected in ["reaped", "panic", "foreign"] {
        assert_eq!(echo.run.counter(NAME, unexpected), 0, "{unexpected}");
    }
}

#[test]
fn nobody_is_held_where_one_thread_serves_all() {
    let Some(echo) = Echo::start("loop", PATIENT, &["--profile", "generic"]) else { return };
    assert!(!echo.said.lock().unwrap().contains("warning"), "it was asked for");
    let mut clients: Vec<_> = (0..8).map(|_| echo.client()).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.send(&format!("round {round}"));
        }
        for client in &mut clients {
            assert_eq!(client.answer(), format!("ok round {round}"));
        }
    }
    assert_eq!(echo.run.counter(NAME, "shared_threads"), 1);
    assert_eq!(echo.run.counter(NAME, "hold_limit"), 0);
}

#[test]
fn rules_see_the_addresses_of_either_family() {
    let config = format!(
        "{PATIENT}[[class]]\nname = \"six\"\n[[class]]\nname = \"four\"\n\
         [[rule]]\naddress = \"::1\"\nclass = \"six\"\n[[rule]]\naddress = \"127.0.0.0/8\"\nclass = \"four\"\n"
    );
    let Some(echo) = Echo::start("threads", &config, &[]) else { return };
    let (mut six, mut four) = (
        echo.client_from(Ipv6Addr::LOCALHOST.into()),
        echo.client_from(Ipv4Addr::LOCALHOST.into()),
    );
    for client in [&mut six, &mut four] {
        client.send("hi");
        assert_eq!(client.answer(), "ok hi");
    }
    let class = |address: &str| {
        let status = echo.run.status(NAME);
        let all = status["connections"].as_array().unwrap().clone();
        let one = all.into_iter().find(|each| each["address"] == address).unwrap();
        one["class"].as_str().unwrap().to_owned()
    };
    wait_until("both are classified", || class("::1") == "six" && class("127.0.0.1") == "four");
}

#[test]
fn tls_that_is_part_of_the_server_is_followed_by_its_records() {
    let Some(echo) = Echo::start("records", PATIENT, &["--profile", "mariadb"]) else { return };
    let connect = || {
        let mut client = echo.client().0;
        client.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
        let mut greeting = [0; 78];
        client.read_exact(&mut greeting).unwrap();
        // The request for TLS: capabilities with SSL and PROTOCOL_41.
        let mut request = vec![32, 0, 0, 1, 0x00, 0x0a, 0, 0];
        request.resize(36, 0);
        client.write_all(&request).unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
        // A record of the handshake, and one of data.
        for kind in [22, 23] {
            client.write_all(&[kind, 3, 3, 0, 3, 1, 2, 3]).unwrap();
            client.read_exact(&mut [0; 7]).unwrap();
        }
        client
    };
    let _one = connect();
    let _two = connect();
    // The record of the handshake is no request.
    let served = || {
        let status = echo.run.status(NAME);
        let all = status["connections"].as_array().unwrap();
        all.iter().map(|user| user["requests"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    wait_until("each has had one request", || served() == [1, 1]);
    let status = echo.run.status(NAME);
    assert_eq!(status["counters"]["tls_unread"], 2);
    assert_eq!(status["connections"][0]["tls"], "tls, not read: generic framing");
    assert!(echo.run.ok(["status", "--name", NAME]).contains("2 (tls, not read: generic framing)"));
    assert_eq!(status["counters"]["opaque_tls"], 0);
}

/// A profile of one's own in a file beside the instances.
fn profile(more: &str) -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("headworks-own-{}-{number}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text =
        format!("name = \"own\"\nframing = \"generic\"\n[programs]\nservers = [\"echo\"]\n{more}");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn words_of_a_profile_take_and_release_a_lock_of_the_session() {
    let file = profile("[locks]\nacquire = [\"take_it\"]\nrelease = [\"give_it\"]\n");
    let echo = Echo::start("threads", PATIENT, &["--profile", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let Some(echo) = echo else { return };
    let (mut owner, mut other) = (echo.client(), echo.client());
    owner.send("call TAKE_IT()");
    assert_eq!(owner.answer(), "ok call TAKE_IT()");
    other.send("hello");
    echo.run.wait_for_held(NAME, 1);
    assert!(other.is_silent(), "the lock keeps the place");
    owner.send("untake_it, and mistake_its: no such words");
    assert!(owner.answer().starts_with("ok"), "the owner of a lock is never held");
    let all = echo.run.status(NAME)["connections"].as_array().unwrap().clone();
    let owning = all.iter().find(|user| user["state"] != "waiting").unwrap();
    assert_eq!(owning["holding"][0], "named-lock");
    assert!(other.is_silent());
    owner.send("give_it");
    assert_eq!(owner.answer(), "ok give_it");
    assert_eq!(other.answer(), "ok hello");
}

#[test]
fn whom_a_profile_never_holds_passes() {
    let file = profile("[[bypass]]\naddress = \"::1\"\nreason = \"the watchdog\"\n");
    let echo = Echo::start("threads", PATIENT, &["--profile", file.to_str().unwrap()]);
    let Some(echo) = echo else { return };
    let mut one = echo.client();
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    let mut watchdog = echo.client_from(Ipv6Addr::LOCALHOST.into());
    watchdog.send("ping");
    assert_eq!(watchdog.answer(), "ok ping");
    let mut plain = echo.client();
    plain.send("next");
    echo.run.wait_for_held(NAME, 1);
    assert!(plain.is_silent());
    std::fs::remove_file(&file).unwrap();
    echo.go();
    assert_eq!((one.answer(), plain.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
}
