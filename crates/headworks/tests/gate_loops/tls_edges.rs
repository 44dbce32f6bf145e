//! Encrypted connections where TLS and the event loop's readiness do not agree. Records come in
//! pieces, writes wait, connections end at every byte, and many users come at once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headworks_rig::{LoopKind, LoopServer, find_program};

use crate::common::{DEADLINE, Setup, Stop, Wire, command};
use crate::gated::state;
use crate::tls::{Tunnel, redis};

const MANY: u64 = 1_000;

/// How a relayed connection is cut.
#[derive(Clone, Copy, Debug)]
enum End {
    Orderly,
    Reset,
}

/// Stands between one encrypted client and the server.
struct Relay {
    address: SocketAddr,
    to_server: std::sync::mpsc::Receiver<TcpStream>,
}

impl Relay {
    /// Passes the client's bytes on in pieces of this size, and cuts the connection after so many.
    fn start(server: SocketAddr, piece: usize, cut: Option<(usize, End)>) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (give, to_server) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut client = listener.accept().unwrap().0;
            let mut server = TcpStream::connect(server).unwrap();
            server.set_nodelay(true).unwrap();
            let _ = give.send(server.try_clone().unwrap());
            let (mut back_from, mut back_to) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(Shutdown::Both);
            });
            let (mut bytes, mut passed) = (vec![0; piece], 0);
            let limit = cut.map_or(usize::MAX, |(limit, _)| limit);
            while passed < limit
                && let Ok(count @ 1..) = client.read(&mut bytes)
            {
                let count = count.min(limit - passed);
                if server.write_all(&bytes[..count]).is_err() {
                    break;
                }
                passed += count;
            }
            end(&server, cut.map_or(End::Orderly, |(_, end)| end));
        });
        Relay { address, to_server }
    }

    fn tunnel(&self) -> Tunnel {
        Tunnel::to(self.address, &["-quiet"])
    }

    /// Cuts the connection.
    fn cut(&self, how: End) {
        end(&self.to_server.recv_timeout(DEADLINE).unwrap(), how);
    }
}

fn end(stream: &TcpStream, how: End) {
    match how {
        End::Orderly => drop(stream.shutdown(Shutdown::Both)),
        End::Reset => {
            // SAFETY: all zero bytes are an address; it is read, and no longer than told. To
            // connect to none resets.
            unsafe {
                let mut none: libc::sockaddr = std::mem::zeroed();
                none.sa_family = libc::AF_UNSPEC as u16;
                libc::connect(stream.as_raw_fd(), &raw const none, size_of_val(&none) as u32);
            }
        }
    }
}

/// Kills a program whatever becomes of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn records_that_come_in_pieces_lose_nothing_and_stop_nobody() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    std::thread::scope(|scope| {
        for (number, piece) in [1, 2, 3, 4, 5, 6, 7, 21, 1_400].into_iter().enumerate() {
            let it = &it;
            scope.spawn(move || {
                let relay = Relay::start(it.address, piece, None);
                let (mut user, mut other) = (relay.tunnel(), it.tunnel("-quiet"));
                let (key, beside) = (format!("k{number}"), format!("b{number}"));
                let mut expected = 0;
                for round in 1..=40 {
                    user.send(&command(&["INCR", &key]).repeat(round % 7 + 1));
                    other.ask(&["INCR", &beside], &format!(":{round}\r\n"));
                    for _ in 0..round % 7 + 1 {
                        expected += 1;
                        user.expect(&format!(":{expected}\r\n"));
                    }
                }
                // Larger than the server's buffer, and than one record.
                let value = "y".repeat(20_000);
                user.ask(&["SET", &key, &value], "+OK\r\n");
                user.ask(&["GET", &key], &format!("$20000\r\n{value}\r\n"));
            });
        }
    });
    it.nothing_went_wrong();
}

/// Only a part of its record is there when its turn comes.
#[test]
fn half_a_record_is_no_request_and_keeps_no_place() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    // The handshake, and then some.
    for cut in [600, 800, 1_000, 1_200] {
        let stopped = AtomicBool::new(false);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let (it, stopped) = (&it, &stopped);
            scope.spawn(move || {
                let mut client = listener.accept().unwrap().0;
                let mut server = TcpStream::connect(it.address).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                scope.spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let (mut byte, mut passed) = ([0], 0);
                while let Ok(1) = client.read(&mut byte) {
                    server.write_all(&byte).unwrap();
                    passed += 1;
                    if passed == cut {
                        stopped.store(true, Ordering::Relaxed);
                        let begun = Instant::now();
                        while stopped.load(Ordering::Relaxed) && begun.elapsed() < DEADLINE {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
            let mut slow = Tunnel::to(address, &["-quiet"]);
            slow.send(&command(&["SET", "k", &"z".repeat(1_500)]));
            let begun = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                assert!(begun.elapsed() < DEADLINE, "nothing was sent");
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut other = it.user("other");
            for round in 0..20 {
                other.ask(&["ECHO", &format!("{round:02}")], &format!("$2\r\n{round:02}\r\n"));
            }
            stopped.store(false, Ordering::Relaxed);
            slow.expect("+OK\r\n");
        });
    }
    it.nothing_went_wrong();
}

#[test]
fn a_slow_reader_inside_tls_stops_nobody() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let value = "x".repeat(4_000_000);
    let mut reader = it.user("reader");
    reader.ask(&["SET", "large", &value], "+OK\r\n");
    // The server's writes are to wait: for each side to read the other's.
    reader.send(&command(&["GET", "large"]).repeat(8));
    let mut other = it.user("other");
    for _ in 0..50 {
        other.ask(&["GET", "k"], "$-1\r\n");
    }
    // More of it, while the server waits to write.
    reader.tell(&["STRLEN", "large"]);
    for _ in 0..8 {
        reader.expect(&format!("${}\r\n{value}\r\n", value.len()));
    }
    reader.expect(":4000000\r\n");
    it.nothing_went_wrong();
}

#[test]
fn blocking_commands_and_channels_inside_tls_take_no_place() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut consumer = it.user("consumer");
    consumer.tell(&["BLPOP", "list", "0"]);
    let mut subscriber = it.user("subscriber");
    subscriber.ask(&["SUBSCRIBE", "news"], "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut producer = it.user("producer");
    it.gate.wait("they block outside", |status| {
        status.state("consumer") == state::IDLE && status.number("inside") == 0
    });
    producer.ask(&["RPUSH", "list", "x"], ":1\r\n");
    consumer.expect("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    // What came behind a blocked command is served when it is.
    consumer.tell(&["BLPOP", "list", "0"]);
    consumer.tell(&["GET", "k"]);
    assert!(consumer.is_silent());
    producer.ask(&["RPUSH", "list", "y"], ":1\r\n");
    consumer.expect("*2\r\n$4\r\nlist\r\n$1\r\ny\r\n$-1\r\n");
    // A subscriber is left alone until it has left its channels.
    let mut occupant = it.gate.occupy("occupant");
    subscriber.ask(&["PING"], "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    occupant.ask(&["PUBLISH", "news", "hi"], "+QUEUED\r\n");
    occupant.ask(&["EXEC"], "*1\r\n:1\r\n");
    subscriber.expect("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    subscriber.ask(&["UNSUBSCRIBE"], "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
    let occupant = it.gate.occupy("again");
    subscriber.tell(&["GET", "k"]);
    assert!(subscriber.is_silent());
    it.gate.release(occupant);
    subscriber.expect("$-1\r\n");
    it.nothing_went_wrong();
}

#[test]
fn an_encrypted_client_that_vanishes_gives_back_what_it_had() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    for how in [End::Orderly, End::Reset, End::Orderly, End::Reset] {
        // Who holds the place vanishes, and so does one that waits for it.
        let relays = [(); 2].map(|()| Relay::start(it.address, 4_096, None));
        let [mut owner, mut waiting] = relays.each_ref().map(Relay::tunnel);
        owner.ask(&["CLIENT", "SETNAME", "owner"], "+OK\r\n");
        waiting.ask(&["CLIENT", "SETNAME", "waiting"], "+OK\r\n");
        let mut heir = it.user("heir");
        owner.ask(&["MULTI"], "+OK\r\n");
        it.gate.wait_state("owner", state::INSIDE);
        waiting.tell(&["GET", "k"]);
        it.gate.wait_state("waiting", state::WAITING);
        heir.tell(&["GET", "k"]);
        it.gate.wait_state("heir", state::WAITING);
        relays[1].cut(how);
        relays[0].cut(how);
        heir.expect("$-1\r\n");
        drop(heir);
        it.gate.wait("all are gone", |status| status.number("users") == 0);
    }
    it.gate.release(it.gate.occupy("occupant"));
    it.nothing_went_wrong();
}

/// In the handshake, in a record's header, in its middle, in a transaction.
#[test]
fn encrypted_connections_cut_anywhere_lose_no_place() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let stop = AtomicBool::new(false);
    // The last is so large that no connection is over before it is cut.
    let large = "x".repeat(1_000);
    let words: [&[&str]; 5] =
        [&["SET", "k", "v"], &["MULTI"], &["INCR", "n"], &["EXEC"], &["SET", "k", &large]];
    let talk: Vec<Vec<u8>> = words.iter().map(|words| command(words)).collect();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (it, stop) = (&it, &stop);
            scope.spawn(move || {
                let mut user = it.gate.user(&format!("crowd-{number}"));
                while !stop.load(Ordering::Relaxed) {
                    user.ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
                }
            });
        }
        let _stop = Stop(&stop);
        // The handshake takes about 400 bytes, and each of the commands a record of about 50.
        for (round, at) in (0..760).step_by(8).enumerate() {
            let how = if round % 2 == 0 { End::Orderly } else { End::Reset };
            let relay = Relay::start(it.address, 4_096, Some((at, how)));
            let mut user = relay.tunnel();
            for request in &talk {
                // By then it may be over.
                let _ = user.stream().write_all(request);
                std::thread::sleep(Duration::from_millis(2));
            }
            assert!(user.is_closed(), "cut after {at}");
        }
    });
    it.gate.wait("all are gone", |status| status.number("users") == 0);
    it.gate.release(it.gate.occupy("occupant"));
    it.nothing_went_wrong();
}

#[test]
fn a_thousand_held_encrypted_users_cost_no_processor_time() {
    let Some(benchmark) = find_program("redis-benchmark") else {
        println!("skipped: no redis-benchmark on this machine (apt-get install redis-tools)");
        return;
    };
    let Some(it) = redis(Setup::redis(1).options(["--maxclients", "2000"])) else { return };
    let requests = 60_000;
    let child = Command::new(benchmark)
        .args(["-p", &it.address.port().to_string(), "--tls"])
        .args(["--cacert", &it.certificate.certificate(), "-c", &MANY.to_string()])
        .args(["-n", &requests.to_string(), "-P", "4", "INCR", "n"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    it.gate.wait("it has begun", |status| status.number("users") > 10);
    let occupant = it.gate.occupy("occupant");
    it.gate.wait("all are held", |status| status.number("waiting") == MANY);
    let before = it.gate.server.cpu_ticks().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let used = it.gate.server.cpu_ticks().unwrap() - before;
    println!("{used} hundredths of a second of processor time in two seconds");
    // A server that polls for them uses all of a processor.
    assert!(used <= 40, "{used} hundredths of a second in two seconds");
    it.gate.release(occupant);
    assert!(child.0.wait().unwrap().success());
    it.gate.wire().ask(&["GET", "n"], &format!("$5\r\n{requests}\r\n"));
    it.gate.wait("all are gone", |status| status.number("users") == 0);
    it.nothing_went_wrong();
}

#[test]
fn off_lets_encrypted_users_pass_and_on_holds_them_again() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut held: Vec<Tunnel> = (0..8).map(|number| it.user(&format!("held-{number}"))).collect();
    let occupant = it.gate.occupy("occupant");
    held.iter_mut().for_each(|user| user.tell(&["ECHO", "hi"]));
    it.gate.wait("all are held", |status| status.number("waiting") == 8);
    assert!(it.gate.headworks(&["off"]).status.success());
    held.iter_mut().for_each(|user| user.expect("$2\r\nhi\r\n"));
    // A value whose end comes with another command, with the gate open.
    let value = "x".repeat(100_000);
    held[0].send(&[command(&["SET", "k", &value]), command(&["ECHO", "hi"])].concat());
    held[0].expect("+OK\r\n$2\r\nhi\r\n");
    assert!(it.gate.headworks(&["on"]).status.success());
    held[0].tell(&["ECHO", "hi"]);
    assert!(held[0].is_silent());
    it.gate.release(occupant);
    held[0].expect("$2\r\nhi\r\n");
    it.nothing_went_wrong();
}

#[test]
fn threads_that_write_records_are_followed() {
    let Some(it) = redis(Setup::redis(4).options(["--io-threads", "3"])) else { return };
    std::thread::scope(|scope| {
        for name in 0..12 {
            let it = &it;
            scope.spawn(move || {
                let mut user = it.user(&format!("user-{name}"));
                let key = format!("k{name}");
                for round in 1..=100 {
                    user.send(&command(&["INCR", &key]).repeat(2));
                    user.expect(&format!(":{}\r\n:{}\r\n", 2 * round - 1, 2 * round));
                }
            });
        }
    });
    it.nothing_went_wrong();
}

#[test]
fn a_replica_by_tls_is_left_alone() {
    let Some(it) = redis(Setup::redis(1).options(["--tls-replication", "yes"])) else { return };
    it.gate.wire().ask(&["SET", "k", &"v".repeat(300_000)], "+OK\r\n");
    let replica = LoopServer::builder(LoopKind::Redis)
        .options(["--replicaof", "127.0.0.1", &it.address.port().to_string()])
        .options(["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"])
        .options(["--tls-cert-file", &it.certificate.certificate()])
        .options(["--tls-key-file", &it.certificate.key()])
        .options(["--tls-ca-cert-file", &it.certificate.certificate()])
        .start()
        .unwrap();
    let wait = |words: &[&str], answer: &str| {
        let begun = Instant::now();
        loop {
            let mut there = Wire::connect(&replica);
            there.tell(words);
            if there.line() == answer {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "{words:?}: not {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&["STRLEN", "k"], ":300000");
    it.gate.wait("it is known", |status| status.counter("replication") == 1);
    // It hears of a transaction whose owner keeps all others held.
    let mut occupant = it.gate.occupy("occupant");
    occupant.ask(&["INCR", "n"], "+QUEUED\r\n");
    it.gate.release_with(occupant, "*1\r\n:1\r\n");
    wait(&["STRLEN", "n"], ":1");
    drop(replica);
    it.gate.wait("it is gone", |status| status.number("users") == 0);
    it.nothing_went_wrong();
}

/// The gate cannot look into its TLS record. But a server that polls within a script has come back
/// from its user, whose turn is over.
#[test]
fn a_script_without_an_end_can_be_ended_by_an_encrypted_client() {
    let Some(it) = redis(Setup::redis(1).options(["--busy-reply-threshold", "200"])) else {
        return;
    };
    let (mut busy, mut admin) = (it.gate.user("busy"), it.user("admin"));
    busy.tell(&["EVAL", "while true do end", "0"]);
    it.gate.wait_state("busy", state::INSIDE);
    admin.ask(&["SCRIPT", "KILL"], "+OK\r\n");
    let answer = busy.line();
    assert!(answer.contains("killed by user"), "{answer}");
    it.nothing_went_wrong();
}

/// OpenSSL 3 answers that it does not want to.
#[test]
fn a_client_of_tls_1_2_that_asks_for_new_keys_disturbs_nobody() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut other = it.user("other");
    for round in 1..=3 {
        let mut user = Tunnel::to(it.address, &["-tls1_2", "-brief"]);
        user.ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
        // What `s_client` takes for the command to negotiate again.
        user.send(b"R\n");
        user.tell(&["ECHO", "hi"]);
        other.ask(&["INCR", "n"], &format!(":{round}\r\n"));
        drop(user);
    }
    drop(other);
    it.gate.wait("all are gone", |status| status.number("users") == 0);
    it.nothing_went_wrong();
}
