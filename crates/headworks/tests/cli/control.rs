//! The control socket against clients that misbehave.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headworks_policy::wrr::{ClassShare, Sharing};

use crate::support::{RunDir, lives, signal, wait_until};

const NAME: &str = "control";

/// What one client may cost the others (2 s), and what a slow machine adds.
const ONE_CLIENT: Duration = Duration::from_secs(20);

struct Instance {
    run: RunDir,
    database: Child,
}

impl Instance {
    fn start() -> Instance {
        Instance::with("")
    }

    /// With this configuration.
    fn with(config: &str) -> Instance {
        let run = RunDir::new();
        let config = Some(config).filter(|config| !config.is_empty());
        let config = config.map(|config| run.file("toml", config));
        let database = run
            .headworks(["run", "--name", NAME])
            .args(config.iter().flat_map(|file| ["--config".into(), file.clone()]))
            .args(["--", "sleep", "600"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("it listens", || run.listens(NAME));
        wait_until("its daemon serves", || run.daemons().len() == 1);
        Instance { run, database }
    }

    /// Kills the daemon, does something meanwhile, and starts another one.
    fn next_daemon(&self, meanwhile: impl FnOnce()) {
        let daemon = self.run.daemon(NAME);
        signal(daemon, libc::SIGKILL);
        wait_until("the daemon is gone", || !lives(daemon));
        meanwhile();
        self.run.ok(["daemon", "--name", NAME]);
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

#[test]
fn what_each_daemon_decided_is_in_a_file_that_the_status_names() {
    let instance = Instance::start();
    let path = instance.run.status(NAME)["log"].as_str().unwrap().to_owned();
    assert_eq!(path, instance.run.instance(NAME).join("daemon.log").display().to_string());
    let says = |part: &str| std::fs::read_to_string(&path).unwrap().matches(part).count();
    let switch = |mode: &str| {
        instance.run.ok(["set", "--name", NAME, "--mode", mode]);
        let said = format!("the gate is on, mode {mode}");
        wait_until(&said, || says(&said) == 1);
    };
    switch("dry-run");
    // One that is started by hand has let go of its standard error.
    instance.next_daemon(|| {});
    switch("enforce");
    assert_eq!((says("begins"), says("mode dry-run")), (2, 1));
    let text = instance.run.ok(["status", "--name", NAME]);
    assert!(text.contains(&path), "{text}");
}

#[test]
fn a_daemon_that_takes_over_knows_what_a_class_with_a_target_weighs_by_itself() {
    let class = |weight| {
        format!("[[class]]\nname = \"checkout\"\nweight = {weight}\nlatency_ms_max = 60\n")
    };
    let instance = Instance::with(&class("2.0"));
    let weight = || instance.run.status(NAME)["targets"][0]["weight"].as_f64();
    wait_until("the target is known", || weight() == Some(2.0));
    instance.next_daemon(|| {
        // As if the one before had found that so little is enough.
        let region = instance.run.instance(NAME).join("region");
        let path = std::ffi::CString::new(region.to_str().unwrap()).unwrap();
        let region = headworks_region::Mapping::open(&path).unwrap();
        let classes = region.snapshot(headworks_region::clock::now()).classes;
        let found = classes.iter().find(|class| class.name == "checkout").unwrap();
        let share = ClassShare::new(10, Sharing::PerUser);
        region.set_class(found.class as usize, "checkout", 10, share, false);
    });
    wait_until("a quarter of what the file says", || weight() == Some(0.5));
    instance.run.file("toml", &class("8.0"));
    instance.run.ok(["reload", "--name", NAME]);
    wait_until("a quarter of what the file says by now", || weight() == Some(2.0));
}
