//! Encrypted connections of event loops are held, followed and let go on like any other.

use std::io::Read;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headworks_rig::LoopKind;

use crate::certificate::Certificate;
use crate::common::{Gate, Setup, Wire, command};
use crate::gated::{SOON, state};

/// What must not be counted while everything goes as it should.
const MISHAPS: [&str; 6] =
    ["opaque_tls", "opaque_unknown", "tls_unread", "panic", "hold_limit", "concurrent_use"];

/// A server with TLS and what else it needs.
pub struct Encrypted {
    pub gate: Gate,
    /// Where it expects TLS.
    pub address: SocketAddr,
    pub certificate: Certificate,
}

/// A Redis with TLS on a second port, beside the one without.
pub fn redis(setup: Setup) -> Option<Encrypted> {
    let certificate = Certificate::make()?;
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, headworks_rig::free_port().unwrap()));
    let port = free.port().to_string();
    let gate = setup
        .options(["--tls-port", &port, "--tls-auth-clients", "no"])
        .options(["--tls-cert-file", &certificate.certificate()])
        .options(["--tls-key-file", &certificate.key()])
        .options(["--tls-ca-cert-file", &certificate.certificate()])
        .start()?;
    Some(Encrypted { gate, address: free, certificate })
}

/// A memcached whose only port expects TLS.
fn memcached(parallelism: u32) -> Option<Encrypted> {
    let certificate = Certificate::make()?;
    let options =
        format!("ssl_chain_cert={},ssl_key={}", certificate.certificate(), certificate.key());
    let setup = Setup::places(LoopKind::Memcached, parallelism);
    let gate = setup.options(["-Z", "-o", &options]).start()?;
    let address = gate.server.address();
    Some(Encrypted { gate, address, certificate })
}

/// A client's TLS, by a program between the test and the server.
pub struct Tunnel {
    wire: Wire,
    pub openssl: Child,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.openssl.kill();
        let _ = self.openssl.wait();
    }
}

impl Deref for Tunnel {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Tunnel {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Encrypted {
    /// A connection that has said nothing. `mode` is `-quiet`, for which all bytes are data, or
    /// `-brief`.
    pub fn tunnel(&self, mode: &str) -> Tunnel {
        Tunnel::to(self.address, &[mode])
    }

    /// An encrypted connection with a name, by which the status knows it.
    pub fn user(&self, name: &str) -> Tunnel {
        let mut user = self.tunnel("-quiet");
        user.ask(&["CLIENT", "SETNAME", name], "+OK\r\n");
        user
    }

    #[track_caller]
    pub fn nothing_went_wrong(&self) {
        self.gate.wait_empty();
        let status = self.gate.status();
        for counter in MISHAPS {
            assert_eq!(status.counter(counter), 0, "{counter}");
        }
    }
}

impl Tunnel {
    /// Reads what OpenSSL says of itself until it says this.
    fn says(&mut self, word: &str) {
        let stderr = self.openssl.stderr.as_mut().expect("a pipe");
        let mut said = Vec::new();
        while !said.ends_with(word.as_bytes()) {
            let mut byte = [0];
            stderr.read_exact(&mut byte).unwrap_or_else(|error| {
                panic!("{error}, after {}", String::from_utf8_lossy(&said))
            });
            said.extend(byte);
        }
    }

    /// By way of this address, with these options.
    pub fn to(address: SocketAddr, options: &[&str]) -> Tunnel {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wire = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_nodelay(true).unwrap();
        let (input, output): (OwnedFd, OwnedFd) =
            (theirs.try_clone().unwrap().into(), theirs.into());
        let openssl = Command::new("openssl")
            .args(["s_client", "-connect", &address.to_string()])
            .args(options)
            .stderr(Stdio::piped())
            .stdin(input)
            .stdout(output)
            .spawn()
            .unwrap();
        Tunnel { wire: Wire::over(wire), openssl }
    }
}

#[test]
fn an_encrypted_user_is_held_and_goes_on_in_turn() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut held = it.user("held");
    let connections = it.gate.status().0["connections"].clone();
    assert_eq!(
        (&connections[0]["tls"], &connections[0]["application"]),
        (&"tls".into(), &"held".into())
    );
    let occupant = it.gate.occupy("occupant");
    held.tell(&["SET", "k", "v"]);
    assert!(held.is_silent());
    it.gate.wait_state("held", state::WAITING);
    // More of it, while it waits.
    held.tell(&["GET", "k"]);
    assert!(held.is_silent());
    it.gate.release(occupant);
    held.expect("+OK\r\n$1\r\nv\r\n");
    drop(held);
    it.gate.wait("all are gone", |status| status.number("users") == 0);
    // Without TLS on what was its descriptor.
    it.gate.release(it.gate.occupy("successor"));
    it.nothing_went_wrong();
}

#[test]
fn an_encrypted_transaction_is_never_held_until_it_ends() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    for (begin, end) in [("MULTI", "EXEC"), ("MULTI", "DISCARD"), ("WATCH k", "UNWATCH")] {
        let (mut owner, mut other) = (it.user("owner"), it.user("other"));
        owner.ask(&begin.split(' ').collect::<Vec<_>>(), "+OK\r\n");
        it.gate.wait_state("owner", state::INSIDE);
        other.tell(&["GET", "k"]);
        assert!(other.is_silent(), "{begin}: the place is taken");
        it.gate.wait_state("other", state::WAITING);
        for _ in 0..20 {
            owner.tell(&["SET", "n", "1"]);
            assert_eq!(owner.line(), if begin == "MULTI" { "+QUEUED" } else { "+OK" });
        }
        owner.tell(&[end]);
        let answers = if end == "EXEC" { 21 } else { 1 };
        (0..answers).for_each(|_| drop(owner.line()));
        other.expect("$-1\r\n");
        drop((owner, other));
        it.gate.wait("both are gone", |status| status.number("users") == 0);
    }
    it.nothing_went_wrong();
}

/// A client's library may give up on a server that does not answer it, long before its user has
/// asked for anything.
#[test]
fn nobody_is_held_in_a_handshake() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let occupant = it.gate.occupy("occupant");
    let mut waiting = it.gate.user("waiting");
    waiting.tell(&["GET", "k"]);
    it.gate.wait_state("waiting", state::WAITING);
    // The client of TLS 1.3 has its end of the handshake before the server has.
    for version in ["-tls1_3", "-tls1_2"] {
        // Ends after the handshake, as it has nothing to send.
        let mut client = Command::new("timeout");
        client.args(["-k1", "20", "openssl", "s_client", "-brief", version]);
        client.args(["-connect", &it.address.to_string()]).stdin(Stdio::null());
        let output = client.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("CONNECTION ESTABLISHED"), "{said}");
    }
    it.gate.release(occupant);
    waiting.expect("$-1\r\n");
    it.nothing_went_wrong();
}

/// Sizes around those of records and of the server's buffers, in both directions. What the server
/// leaves in the TLS library raises no event.
#[test]
fn large_values_and_pipelines_go_through_whole_and_are_counted() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut user = it.user("large");
    let mut requests = 0;
    for size in [1, 16_000, 16_383, 16_384, 16_385, 32_767, 65_536, 1_000_003, 5_000_000] {
        let value = "x".repeat(size);
        user.ask(&["SET", "k", &value], "+OK\r\n");
        user.tell(&["GET", "k"]);
        user.expect(&format!("${size}\r\n{value}\r\n"));
        // The end of the value and what comes behind it are in one record.
        let behind = command(&["STRLEN", "k"]).repeat(40);
        user.send(&[command(&["SET", "k", &value]), behind].concat());
        user.expect("+OK\r\n");
        user.expect(&format!(":{size}\r\n").repeat(40));
        requests += 43;
    }
    let batch: Vec<u8> = (0..2_000).flat_map(|n| command(&["SET", "k", &n.to_string()])).collect();
    user.send(&batch);
    user.expect(&"+OK\r\n".repeat(2_000));
    requests += 2_000;
    it.gate.wait("each of them is counted", |status| {
        status.0["connections"].as_array().unwrap().iter().any(|one| one["requests"] == requests)
    });
    it.nothing_went_wrong();
}

/// While the only place is taken, a value comes whose end is in one record with a transaction's
/// beginning.
#[test]
fn what_the_tls_library_kept_back_is_read_without_an_event() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let value = "x".repeat(100_000);
    for round in 0..20 {
        // A command that would give its name from outside TLS waits for a place inside.
        let (mut owner, mut other) = (it.user("owner"), it.user("other"));
        let rest = [command(&["MULTI"]), command(&["INCR", "n"])].concat();
        owner.send(&[command(&["SET", "k", &value]), rest].concat());
        owner.expect("+OK\r\n+OK\r\n+QUEUED\r\n");
        it.gate.wait_state("owner", state::INSIDE);
        assert_eq!(it.gate.status().holding("owner"), "transaction");
        other.tell(&["GET", "n"]);
        assert!(other.is_silent());
        // So is its end.
        let rest = [command(&["EXEC"]), command(&["PING"])].concat();
        owner.send(&[command(&["SET", "k", &value]), rest].concat());
        owner.expect(&format!("+QUEUED\r\n*2\r\n:{}\r\n+OK\r\n+PONG\r\n", round + 1));
        assert_eq!(other.line(), format!("${}", (round + 1).to_string().len()));
        drop((owner, other));
        it.gate.wait("both are gone", |status| status.number("users") == 0);
    }
    it.nothing_went_wrong();
}

/// Requests of each of these users, with pipelines of these lengths, that were answered within a
/// while.
fn share(it: &Encrypted, users: &[usize], time: Duration) -> Vec<u64> {
    let stop = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = users.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (number, (&pipeline, count)) in users.iter().zip(&counts).enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let mut user = it.user(&format!("user-{number}"));
                // So long for the server that it matters little when a client is late.
                let work = "for i = 1, 200000 do end return 1";
                let batch = command(&["EVAL", work, "0"]).repeat(pipeline);
                while !stop.load(Ordering::Relaxed) {
                    user.send(&batch);
                    for _ in 0..pipeline {
                        user.expect(":1\r\n");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        crate::gated::counted(&counts, time, &stop)
    })
}

#[test]
fn encrypted_users_share_fairly_with_one_that_has_sixteen_requests_under_way() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let users = [16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let counts = share(&it, &users, Duration::from_secs(3));
    let (pipeline, singles) = counts.split_first().unwrap();
    let mean = singles.iter().sum::<u64>() as f64 / singles.len() as f64;
    let ratio = *pipeline as f64 / mean;
    // Without the gate it is 16. A single whose client is late gives its turn away, so it may be
    // more than 1.
    assert!(ratio < 4.0, "{ratio}: {counts:?}");
    assert!(singles.iter().all(|&count| count > 0), "{counts:?}");
    it.nothing_went_wrong();
}

#[test]
fn when_the_daemon_is_killed_encrypted_users_pass() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut held: Vec<Tunnel> = (0..20).map(|number| it.user(&format!("held-{number}"))).collect();
    let _occupant = it.gate.occupy("occupant");
    for user in &mut held {
        user.tell(&["ECHO", "hi"]);
    }
    it.gate.wait("all are held", |status| status.number("waiting") == 20);
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::kill(it.gate.daemon(), libc::SIGKILL) }, 0);
    let begun = Instant::now();
    for user in &mut held {
        user.expect("$2\r\nhi\r\n");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let mut late = it.user("late");
    late.ask(&["ECHO", "hi"], "$2\r\nhi\r\n");
}

#[test]
fn garbage_half_a_handshake_and_half_a_connection_disturb_nobody() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut user = it.user("user");
    for garbage in [&b"PING\r\n"[..], &[0; 64], b"\x16\x03\x01\x00\x05hello"] {
        let mut client = Wire::over(TcpStream::connect(it.address).unwrap());
        client.send(garbage);
        assert!(client.is_closed(), "{garbage:?}");
    }
    // It begins like a client, and says no more.
    let mut silent = Wire::over(TcpStream::connect(it.address).unwrap());
    silent.send(b"\x16\x03\x01\x02\x00\x01");
    for round in 1..=50 {
        user.ask(&["INCR", "n"], &format!(":{round}\r\n"));
    }
    drop(silent);
    // The end of a client that has still something to read.
    let mut last = it.tunnel("-brief");
    last.tell(&["INCR", "n"]);
    last.stream().shutdown(Shutdown::Write).unwrap();
    assert!(last.is_closed());
    drop(last);
    it.gate.wait("only one is left", |status| status.number("users") == 1);
    it.nothing_went_wrong();
}

#[test]
fn fresh_keys_are_no_requests() {
    let Some(it) = redis(Setup::redis(1)) else { return };
    let mut user = it.tunnel("-brief");
    user.ask(&["CLIENT", "SETNAME", "user"], "+OK\r\n");
    for round in 1..=5 {
        // What `s_client` takes for the command to send a KeyUpdate, asking for another.
        user.send(b"k\n");
        user.says("KEYUPDATE");
        user.ask(&["INCR", "n"], &format!(":{round}\r\n"));
    }
    assert_eq!(it.gate.status().0["connections"][0]["requests"], 5);
    it.nothing_went_wrong();
}

/// With one permit and four loops, a turn is nearly always granted by another thread. And the first
/// command comes by the same call as the end of the handshake.
#[test]
fn encrypted_users_of_memcached_are_followed_too() {
    let Some(it) = memcached(1) else { return };
    let value = "x".repeat(700_000);
    std::thread::scope(|scope| {
        for name in 0..8 {
            let (it, value) = (&it, &value);
            scope.spawn(move || {
                let mut user = it.tunnel("-quiet");
                for round in 0..100 {
                    user.send(
                        format!("set k{name} 0 0 5\r\n{round:05}\r\nget k{name}\r\n").as_bytes(),
                    );
                    user.expect(&format!("STORED\r\nVALUE k{name} 0 5\r\n{round:05}\r\nEND\r\n"));
                }
                user.send(format!("set l{name} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes());
                user.expect("STORED\r\n");
                user.send(format!("get l{name}\r\n").as_bytes());
                user.expect(&format!("VALUE l{name} 0 {}\r\n{value}\r\nEND\r\n", value.len()));
                it.gate.wait("all is counted", |status| {
                    let all = status.0["connections"].as_array().unwrap();
                    all.iter().any(|one| one["requests"] == 202 && one["tls"] == "tls")
                });
            });
        }
    });
    it.gate.wait("all are gone", |status| status.number("users") == 0);
    assert_eq!(it.gate.status().class("default")["requests"], 8 * 202);
    it.nothing_went_wrong();
}
