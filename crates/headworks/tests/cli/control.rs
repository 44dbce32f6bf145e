//! The control socket against clients that misbehave.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{RunDir, wait_until};

const NAME: &str = "control";

/// What one client may cost the others, and what a slow machine adds.
const ONE_CLIENT: Duration = Duration::from_secs(6);

struct Instance {
    run: RunDir,
    database: Child,
}

impl Instance {
    fn start() -> Instance {
        let run = RunDir::new();
        let database = run
            .headworks(["run", "--name", NAME, "--", "sleep", "600"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("it listens", || run.instance(NAME).join("control.sock").exists());
        wait_until("its daemon serves", || run.daemons().len() == 1);
        Instance { run, database }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.run.instance(NAME).join("control.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes, says that there are no more, and returns the answer.
    fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The daemon need not read all of a request that is too long.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn assert_serves(&self, daemon: u32) {
        let begun = Instant::now();
        while !self.ask(b"{\"command\":\"status\"}\n").starts_with("{\"status\":") {
            assert!(begun.elapsed() < ONE_CLIENT, "it does not answer any more");
        }
        assert_eq!(self.run.daemons(), [daemon]);
        assert_eq!(self.run.status(NAME)["gate"], "closed");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.database.kill();
        let _ = self.database.wait();
    }
}

#[test]
fn requests_that_are_none_are_refused_in_words() {
    let instance = Instance::start();
    let daemon = instance.run.daemon(NAME);
    let deep = "[".repeat(50_000);
    let huge = format!("{{\"command\":\"{}\"}}\n", "x".repeat(1 << 20));
    for bytes in [
        &b"\n"[..],
        b"",
        b"\0\xff\xfe\n",
        b"{\"command\":\"status\"",
        b"{\"command\":\"format-disk\"}\n",
        b"GET / HTTP/1.1\r\n\r\n",
        deep.as_bytes(),
        huge.as_bytes(),
    ] {
        let answer = instance.ask(bytes);
        // A request that is too long may cost the client its answer, too.
        let refused = answer.contains("cannot read the request") || bytes.len() > 65_536;
        assert!(refused, "{:?}: {answer}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }
    let refusal = instance.run.refused(["reload", "--name", NAME]);
    assert!(refusal.contains("without a configuration file"), "{refusal}");
    instance.assert_serves(daemon);
}

#[test]
fn clients_that_go_before_their_answer_end_nobody() {
    let instance = Instance::start();
    let daemon = instance.run.daemon(NAME);
    for _ in 0..50 {
        let mut stream = instance.connect();
        stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
        drop(stream);
        drop(instance.connect());
    }
    instance.assert_serves(daemon);
}

#[test]
fn clients_that_never_speak_or_never_listen_are_given_up() {
    let instance = Instance::start();
    let daemon = instance.run.daemon(NAME);
    let silent = instance.connect();
    let begun = Instant::now();
    instance.assert_serves(daemon);
    assert!(begun.elapsed() < ONE_CLIENT, "{:?}", begun.elapsed());
    drop(silent);
    let mut deaf = instance.connect();
    deaf.write_all(b"{\"command\":\"status\"}\n").unwrap();
    instance.assert_serves(daemon);
    drop(deaf);
    // One byte at a time is no way to keep the daemon for oneself.
    let mut slow = instance.connect();
    let begun = Instant::now();
    while slow.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < ONE_CLIENT, "it still reads");
        std::thread::sleep(Duration::from_millis(100));
    }
    instance.assert_serves(daemon);
}
