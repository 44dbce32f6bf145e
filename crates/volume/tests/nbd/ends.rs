//! Clients that leave, die, stall or do not read; servers that stop.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headworks_volume::Buffer;
use headworks_volume::nbd::export::Mode;
use headworks_volume::nbd::wire::command as cmd;
use headworks_volume::nbd::{Export, Limits};

use crate::raw::{Client, MODES, hello, request};
use crate::served::{Asked, MIB, Served, Ticket, held, impatient, is_gone, memory, wait_until};

/// A whole conversation, without waiting for answers.
fn conversation(mode: Mode) -> Vec<u8> {
    let mut bytes = hello(mode, "data");
    bytes.extend(request(mode, cmd::WRITE, 0, 1, 0, 1024));
    bytes.extend([7; 1024]);
    bytes.extend(request(mode, cmd::READ, 0, 2, 0, 65536));
    bytes.extend(request(mode, cmd::FLUSH, 0, 3, 0, 0));
    bytes.extend(request(mode, cmd::WRITE_ZEROES, 0, 4, 0, 512));
    if mode != Mode::Simple {
        bytes.extend(request(mode, cmd::BLOCK_STATUS, 0, 5, 0, 65536));
    }
    bytes.extend(request(mode, cmd::DISC, 0, 6, 0, 0));
    bytes
}

#[test]
fn a_client_may_die_after_any_byte() {
    let served = Served::memory(MIB);
    let mut clients = 0;
    for mode in MODES {
        let bytes = conversation(mode);
        for len in 0..=bytes.len() {
            let mut socket = Client::mute(&served.path);
            socket.write_all(&bytes[..len]).unwrap();
            if len % 2 == 0 {
                // Half of them listen to the end, the others go at once.
                socket.shutdown(Shutdown::Write).unwrap();
                socket.read_to_end(&mut Vec::new()).unwrap();
            }
            drop(socket);
            clients += 1;
            if clients % 30 == 0 {
                served.wait_empty();
            }
        }
    }
    // The last one may still be in the listener's queue.
    wait_until(|| served.counts().accepted == clients, || format!("{:?}", served.counts()));
    served.wait_empty();
    assert_eq!(served.counts().turned_away, 0);
    assert_eq!(Client::new(&served.path, Mode::Simple, "data").read(512, 512), [7; 512]);
}

#[test]
fn what_a_dead_client_asked_for_ends_without_it() {
    let (served, held) = held(Limits::default());
    for mode in MODES {
        let bytes = conversation(mode);
        let whole = bytes.len() - request(mode, cmd::DISC, 0, 0, 0, 0).len();
        let mut socket = Client::mute(&served.path);
        socket.write_all(&bytes[..whole]).unwrap();
        let taken = held.take(4);
        drop(socket);
        assert!(served.counts().requests >= 4);
        for (at, (_, data, ticket)) in taken.into_iter().enumerate() {
            // A ticket that is dropped counts as well as one that is done.
            if at % 2 == 0 {
                (ticket.done)(Ok(data));
            }
        }
        served.wait_empty();
    }
}

#[test]
fn a_client_that_leaves_gets_its_answers_first() {
    let (served, held) = held(Limits::default());
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        client.send(cmd::READ, 0, 0, 65536, &[]);
        client.send(cmd::DISC, 0, 0, 0, &[]);
        let (_, mut data, ticket) = held.take(1).remove(0);
        data.fill(4);
        // The server has time to make a mistake.
        std::thread::sleep(Duration::from_millis(20));
        (ticket.done)(Ok(data));
        assert_eq!(client.answer(65536).data, [4; 65536]);
        assert!(client.is_over());
    }
    served.wait_empty();
}

#[test]
fn a_client_that_closes_its_sending_side_gets_its_answers() {
    let served = Served::memory(64 * MIB);
    let mut client = Client::new(&served.path, Mode::Structured, "data");
    for at in 0..20 {
        client.send(cmd::READ, 0, at * MIB, MIB, &[]);
    }
    client.socket.shutdown(Shutdown::Write).unwrap();
    for _ in 0..20 {
        assert_eq!(client.answer(MIB).data.len() as u64, MIB);
    }
    assert!(client.is_over());
}

#[test]
fn a_broken_stream_ends_the_connection_after_its_answers() {
    let served = Served::memory(MIB);
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        client.send(cmd::READ, 0, 0, 512, &[]);
        client.socket.write_all(&[0x55; 64]).unwrap();
        assert_eq!(client.answer(512).data, [0; 512]);
        assert!(client.is_over());
    }
    served.wait_empty();
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let served = Served::with(vec![Export::new("data", memory(MIB))], limits);
    let bytes = hello(Mode::Extended, "data");
    for len in [0, 3, 4, 20, bytes.len() - 1] {
        let began = Instant::now();
        let mut socket = Client::mute(&served.path);
        socket.write_all(&bytes[..len]).unwrap();
        socket.read_to_end(&mut Vec::new()).unwrap();
        assert!(began.elapsed() > Duration::from_millis(200), "it had its time");
    }
    // One that trickles has no more time than one that is silent.
    let mut socket = Client::mute(&served.path);
    let trickled = std::iter::repeat_n(0, 1000).take_while(|byte| {
        std::thread::sleep(Duration::from_millis(20));
        socket.write_all(&[*byte]).is_ok()
    });
    assert!(trickled.count() < 900);
    served.wait_empty();
}

#[test]
fn a_client_rests_between_requests_but_not_within_one() {
    let served = Served::with(vec![Export::new("data", memory(MIB))], impatient());
    let mut rests = Client::new(&served.path, Mode::Simple, "data");
    for len in [1, 27, 28, 28 + 511] {
        let mut stalls = Client::new(&served.path, Mode::Simple, "data");
        let mut bytes = request(Mode::Simple, cmd::WRITE, 0, 1, 0, 512);
        bytes.extend([1; 511]);
        stalls.socket.write_all(&bytes[..len]).unwrap();
        assert!(stalls.is_over(), "{len}");
    }
    assert_eq!(rests.read(0, 512), [0; 512]);
}

#[test]
fn a_client_that_does_not_read_is_bounded_and_then_hung_up() {
    // It has sent all before the server has lost its patience.
    let limits = Limits { patience: Duration::from_secs(2), ..Limits::default() };
    let served = Served::with(vec![Export::new("data", memory(64 * MIB))], limits);
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    for at in 0..60 {
        client.send(cmd::READ, 0, at * MIB, MIB, &[]);
    }
    let seen = AtomicU64::new(0);
    wait_until(
        || {
            let counts = served.counts();
            assert!(counts.bytes <= 33 * MIB, "held for a client that does not read: {counts:?}");
            seen.fetch_max(counts.bytes, Ordering::Relaxed);
            counts.connections == 0
        },
        || "it is still connected".to_owned(),
    );
    assert!(seen.into_inner() > MIB, "there was something to hold");
    // What is in the socket is still there, then it is over.
    let got = client.socket.read_to_end(&mut Vec::new()).map_or(0, |count| count as u64);
    assert!(got < 60 * MIB);
}

#[test]
fn a_client_that_does_not_read_is_hung_up_when_the_engine_answers_later_too() {
    let (served, held) = held(impatient());
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    for at in 0..8 {
        client.send(cmd::READ, 0, at * MIB, MIB, &[]);
    }
    for (_, data, ticket) in held.take(8) {
        (ticket.done)(Ok(data));
    }
    served.wait_empty();
    drop(client);
}

/// Has the requests that wait answered.
fn complete(taken: Vec<(Asked, Buffer, Ticket)>) {
    for (_, data, ticket) in taken {
        (ticket.done)(Ok(data));
    }
}

#[test]
fn no_more_requests_are_taken_in_than_allowed() {
    let (served, held) = held(Limits { requests: 4, ..Limits::default() });
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    for at in 0..12 {
        client.send(cmd::READ, 0, at * 512, 512, &[]);
    }
    for _ in 0..3 {
        let taken = held.take(4);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((taken.len(), held.asked().len(), served.counts().requests), (4, 0, 4));
        complete(taken);
    }
    for _ in 0..12 {
        client.answer(512);
    }
}

#[test]
fn no_more_bytes_are_taken_in_than_allowed() {
    let (served, held) = held(Limits::default());
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    for _ in 0..4 {
        client.send(cmd::READ, 0, 0, 20 * MIB, &[]);
    }
    for _ in 0..2 {
        // 20 MiB are below 32, 40 are not.
        let taken = held.take(2);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((taken.len(), held.asked().len()), (2, 0));
        complete(taken);
        client.answer(20 * MIB);
        client.answer(20 * MIB);
    }
}

#[test]
fn a_server_that_stops_answers_what_it_took_in() {
    let (mut served, held) = held(Limits::default());
    let path = served.path.clone();
    let mut busy = Client::new(&path, Mode::Structured, "data");
    let mut idle = Client::new(&path, Mode::Simple, "data");
    let mut shaking = Client::mute(&path);
    busy.send(cmd::READ, 0, 0, MIB, &[]);
    let taken = held.take(1);
    wait_until(|| served.counts().connections == 3, || format!("{:?}", served.counts()));
    served.stop.stop();
    assert!(idle.is_over());
    shaking.read_to_end(&mut Vec::new()).unwrap();
    complete(taken);
    assert_eq!(busy.answer(MIB).data.len() as u64, MIB);
    assert!(busy.is_over());
    served.end();
    assert!(is_gone(&path));
}

#[test]
fn a_server_that_stops_does_not_wait_for_ever_for_a_client_that_does_not_read() {
    let limits = Limits { patience: Duration::from_millis(300), ..Limits::default() };
    let mut served = Served::with(vec![Export::new("data", memory(64 * MIB))], limits);
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    for at in 0..10 {
        client.send(cmd::READ, 0, at * MIB, MIB, &[]);
    }
    let began = Instant::now();
    served.end();
    assert!(began.elapsed() < Duration::from_secs(20));
}
