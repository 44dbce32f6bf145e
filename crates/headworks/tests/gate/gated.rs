//! A server behind the gate, as all suites start it and ask it. What must not fail, panics.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headworks_rig::gated::{Gated, Instance};
pub use headworks_rig::gated::{Status, state};
use headworks_rig::{Builder, Kind, Process};

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Far less than any limit of a hold here. What has this limit takes about a second where the
/// machine is not starved.
pub const SOON: Duration = Duration::from_secs(20);

/// How long a session must have got no answer to count as held.
pub const HELD: Duration = Duration::from_millis(300);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Name of the instance; each has its own run directory.
pub const NAME: &str = "gate";

/// Waits until `condition` holds; panics, saying `what` did not happen, when it takes too long.
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < deadline, "not within {deadline:?}: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// What each of some users has counted in this time, from when all of them are at work. Stops them
/// then.
pub fn counted(counts: &[AtomicU64], time: Duration, stop: &AtomicBool) -> Vec<u64> {
    let now = || -> Vec<u64> { counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
    // Not longer: the test may be about a user that gets nothing.
    let begun = Instant::now();
    while now().contains(&0) && begun.elapsed() < SOON {
        std::thread::sleep(POLL_INTERVAL);
    }
    let before = now();
    std::thread::sleep(time);
    let after = now();
    stop.store(true, Ordering::Relaxed);
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

/// How a gated server is to be started.
pub struct Setup<K> {
    pub builder: Builder<K>,
    keys: BTreeMap<&'static str, String>,
    sections: String,
    profile: Option<String>,
    own_profile: Option<String>,
    bypassing: Option<&'static str>,
}

impl<K: Kind> Setup<K> {
    /// P permits. The limits on holds, stalls and idling are out of reach of a test. A session that
    /// sleeps or idles keeps its permit.
    pub fn new(builder: Builder<K>, parallelism: u32) -> Self {
        let setup = Setup {
            builder,
            keys: BTreeMap::new(),
            sections: String::new(),
            profile: None,
            own_profile: None,
            bypassing: None,
        };
        setup
            .key("parallelism", parallelism)
            .key("hold_ms_max", 900_000)
            .key("idle_in_transaction_ms", 600_000)
            .key("stall_ms", 600_000)
            .key("count", "\"admitted\"")
    }

    /// A key of the section `[gate]`.
    pub fn key(mut self, key: &'static str, value: impl Display) -> Self {
        self.keys.insert(key, value.to_string());
        self
    }

    /// As by default: sessions that do not work lend their permit.
    pub fn working(self) -> Self {
        self.key("count", "\"working\"")
    }

    /// Classes and rules.
    pub fn sections(mut self, text: &str) -> Self {
        text.clone_into(&mut self.sections);
        self
    }

    /// The server's profile, by its name.
    pub fn profile(mut self, profile: &str) -> Self {
        self.profile = Some(profile.to_owned());
        self
    }

    /// The text of a profile of the server's own.
    pub fn own_profile(mut self, text: String) -> Self {
        self.own_profile = Some(text);
        self
    }

    /// An account that is never held: the administrator of the tests.
    pub fn bypassing(mut self, account: &'static str) -> Self {
        self.bypassing = Some(account);
        self
    }

    /// More about how the server itself is started.
    pub fn server(mut self, more: impl FnOnce(Builder<K>) -> Builder<K>) -> Self {
        self.builder = more(self.builder);
        self
    }

    /// Options of the server.
    pub fn options<T: AsRef<str>>(self, options: impl IntoIterator<Item = T>) -> Self {
        let options: Vec<String> = options.into_iter().map(|it| it.as_ref().to_owned()).collect();
        self.server(|builder| builder.options(options))
    }

    fn text(&self) -> String {
        let mut text = "[gate]\n".to_owned();
        for (key, value) in &self.keys {
            text += &format!("{key} = {value}\n");
        }
        text += &self.sections;
        if let Some(account) = self.bypassing {
            text += &format!("\n[[rule]]\naccount = \"{account}\"\nbypass = true\n");
        }
        text
    }

    /// Starts the server.
    pub fn launch(self) -> Gate<K> {
        let headworks = Path::new(env!("CARGO_BIN_EXE_headworks"));
        assert!(
            std::env::var_os("HEADWORKS_SHIM").is_some()
                || headworks.with_file_name("libheadworks.so").exists(),
            "no libheadworks.so beside {}: run `cargo build --workspace` first",
            headworks.display()
        );
        let instance = Instance::private(headworks, NAME).unwrap();
        let write = |name: &str, text: &str| {
            let path = instance.directory().unwrap().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let config = write("headworks.toml", &self.text());
        let own = self.own_profile.as_ref().map(|text| write("own.toml", text));
        let own = own.map(|path| path.display().to_string());
        let mut options = vec!["--config".to_owned(), config.display().to_string()];
        if let Some(profile) = own.or_else(|| self.profile.clone()) {
            options.extend(["--profile".to_owned(), profile]);
        }
        let Gated { server, instance } =
            Gated::start(instance, self.builder.clone(), options).unwrap();
        Gate { server, instance, config, setup: self, users: AtomicU32::new(0), kept: None }
    }
}

/// A server behind the gate.
pub struct Gate<K: Kind> {
    // Dropped first: the server stops while its instance is still there.
    pub server: Process<K>,
    instance: Instance,
    config: PathBuf,
    setup: Setup<K>,
    users: AtomicU32,
    /// What has to live as long.
    pub kept: Option<Box<dyn Any + Send + Sync>>,
}

impl<K: Kind> Gate<K> {
    /// A name that no other session has.
    pub fn fresh_name(&self, role: &str) -> String {
        format!("{role}-{}", self.users.fetch_add(1, Ordering::Relaxed))
    }

    /// A directory for the test's own files.
    pub fn scratch(&self) -> PathBuf {
        self.instance.directory().unwrap().to_owned()
    }

    /// Runs a command of headworks for this instance.
    pub fn headworks(&self, arguments: &[&str]) -> Output {
        self.instance.headworks(arguments).unwrap()
    }

    /// Runs a command of headworks that has to succeed.
    pub fn order(&self, arguments: &[&str]) -> String {
        self.instance.order(arguments).unwrap()
    }

    /// The same for a command that is to fail; returns what it says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.headworks(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Says a line to the daemon's control socket; what it answers.
    pub fn tell(&self, line: &str) -> serde_json::Value {
        use std::io::{BufRead, Write};
        let socket = self.scratch().join(NAME).join("control.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::BufReader::new(stream).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Writes the configuration again, with other classes and rules.
    pub fn rewrite_config(&mut self, sections: &str) {
        sections.clone_into(&mut self.setup.sections);
        fs::write(&self.config, self.setup.text()).unwrap();
    }

    /// What the gate says of itself.
    pub fn status(&self) -> Status {
        self.instance.status().unwrap()
    }

    /// Process id of the daemon.
    pub fn daemon(&self) -> i32 {
        self.status().number("daemon_pid") as i32
    }

    /// Waits until the status is as wanted.
    pub fn wait(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        self.instance.wait(what, DEADLINE, condition).unwrap();
    }

    /// Waits until a session is in this state.
    pub fn wait_state(&self, user: impl AsRef<str>, state: &str) {
        let name = user.as_ref();
        self.wait(&format!("{name} is `{state}`"), |status| status.state(name) == state);
    }

    /// Waits until no session is inside and none waits.
    pub fn wait_empty(&self) {
        self.wait("no session is inside and none waits", Status::is_empty);
    }

    /// Waits until the rig's own first connection is gone.
    pub fn wait_for_nobody(&self) {
        self.wait("the first connection is gone", |status| status.number("users") == 0);
    }
}
