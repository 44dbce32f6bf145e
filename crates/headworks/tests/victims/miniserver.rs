//! The conversing victim behind the gate, and clients of it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;

use headworks_rig::{Address, Client, ConnectOptions};

use crate::support::{RunDir, wait_until};

/// Name of the instance.
pub const NAME: &str = "mini";

/// No request passes because it was held long, unless a test says so.
pub const PATIENT: &str = "[gate]\nparallelism = 1\ncount = \"admitted\"\nhold_ms_max = 3600000\nstall_ms = 3000000\n\
     idle_in_transaction_ms = 3000000\n";

/// `miniserver.c`, running behind the gate. Killed when dropped.
#[derive(Debug)]
pub struct MiniServer {
    pub run: RunDir,
    child: Child,
    port: u16,
    output: Option<JoinHandle<String>>,
}

impl MiniServer {
    pub fn start(program: &Path, config: &str, args: &[&str]) -> MiniServer {
        Self::start_with(program, config, args, &[])
    }

    /// With these environment variables.
    pub fn start_with(
        program: &Path,
        config: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> MiniServer {
        let run = RunDir::new();
        let config = run.file("toml", config);
        let mut child = run
            .headworks(["run", "--name", NAME, "--profile", "mariadb", "--config"])
            .arg(config)
            .arg("--")
            .arg(program)
            .args(args)
            // It takes any free port and says which: MariaDB's own may belong to a real server.
            .arg("--port=0")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command");
        let mut lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let port = line.strip_prefix("port ").and_then(|port| port.trim().parse().ok());
        let output = std::thread::spawn(move || {
            let mut rest = String::new();
            while lines.read_line(&mut rest).is_ok_and(|read| read > 0) {}
            rest
        });
        let port = port.unwrap_or_else(|| panic!("the victim did not listen: {line:?}"));
        MiniServer { run, child, port, output: Some(output) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Client {
        let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
        ConnectOptions::new(address, "victim").connect().expect("a connection")
    }

    /// A figure of the status.
    pub fn figure(&self, key: &str) -> u64 {
        self.run.figure(NAME, key)
    }

    /// A counter of the status.
    pub fn counter(&self, key: &str) -> u64 {
        self.run.counter(NAME, key)
    }

    /// A client inside an open transaction, which has the only place.
    pub fn occupant(&self) -> Client {
        let mut client = self.connect();
        assert!(client.query("BEGIN").expect("an answer").in_transaction());
        wait_until("the transaction has a place", || self.figure("inside") == 1);
        client
    }

    /// Clients whose request is held.
    pub fn held(&self, count: usize) -> Vec<Client> {
        let mut held: Vec<Client> = (0..count).map(|_| self.connect()).collect();
        for client in &mut held {
            client.send_query("SELECT 1").expect("a request");
        }
        self.run.wait_for_held(NAME, count as u64);
        held
    }

    /// Waits for the process, whose end the test has brought about.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("its status");
        let output = self.output.take().map(|output| output.join().expect("its output"));
        (status, output.unwrap_or_default())
    }

    /// Asks it to stop.
    pub fn stop(self) -> (ExitStatus, String) {
        self.connect().send_query("stop").expect("a request");
        self.wait()
    }
}

impl Drop for MiniServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
