//! `echo.c` behind the gate, and clients of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::compile::Workshop;
use crate::support::RunDir;

/// Name of the instance.
pub const NAME: &str = "echo";

/// How long a client must have got no answer to count as held.
const HELD: Duration = Duration::from_millis(300);

/// One permit, and no request passes after some time.
pub const PATIENT: &str = "[gate]\nparallelism = 1\ncount = \"admitted\"\nhold_ms_max = 3600000\nstall_ms = 3000000\n\
     idle_in_transaction_ms = 3000000\n";

/// The server. Killed when dropped.
pub struct Echo {
    pub run: RunDir,
    pub said: std::sync::Arc<std::sync::Mutex<String>>,
    child: Child,
    port: u16,
    go: PathBuf,
    _workshop: Workshop,
}

impl Echo {
    /// `None`, with a printed reason, if there is no C compiler.
    pub fn start(mode: &str, config: &str, options: &[&str]) -> Option<Echo> {
        Echo::with(mode, config, options, &[])
    }

    /// The same with these variables. After `--` among the options comes what starts the server.
    pub fn with(
        mode: &str,
        config: &str,
        options: &[&str],
        environment: &[(&str, &std::ffi::OsStr)],
    ) -> Option<Echo> {
        let workshop = Workshop::open()?;
        let program = workshop.compile("echo.c", &[]);
        let run = RunDir::new();
        let config = run.file("toml", config);
        let go = run.path().with_extension("go");
        let mut child = run
            .headworks(["run", "--name", NAME, "--config"])
            .arg(config)
            .args(options)
            .args((!options.contains(&"--")).then_some("--"))
            .arg(program)
            .arg(mode)
            .arg(&go)
            // It takes any free port and says which: the profiles' own may belong to real servers.
            .arg("--port=0")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let mut errors = child.stderr.take().unwrap();
        let heard = said.clone();
        std::thread::spawn(move || {
            let mut part = [0; 512];
            while let Ok(count @ 1..) = errors.read(&mut part) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.strip_prefix("port ").and_then(|port| port.trim().parse().ok());
        let port = port.unwrap_or_else(|| panic!("{line}: {}", said.lock().unwrap()));
        Some(Echo { run, said, child, port, go, _workshop: workshop })
    }

    pub fn client(&self) -> Line {
        self.client_from(Ipv4Addr::LOCALHOST.into())
    }

    pub fn client_from(&self, address: IpAddr) -> Line {
        let stream = TcpStream::connect((address, self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Line(stream)
    }

    /// Requests called `wait` are answered from here on.
    pub fn go(&self) {
        std::fs::write(&self.go, "").unwrap();
    }

    /// And from here on, not any more.
    pub fn go_no_more(&self) {
        std::fs::remove_file(&self.go).unwrap();
    }
}

/// The server alone, with these environment variables, and its port. Killed when dropped.
pub struct Alone {
    pub child: Child,
    pub port: u16,
}

impl Alone {
    pub fn start(program: &std::path::Path, go: &std::path::Path, env: &[(&str, String)]) -> Alone {
        let mut child = std::process::Command::new(program)
            .arg("threads")
            .arg(go)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Alone { child, port: line.strip_prefix("port ").unwrap().trim().parse().unwrap() }
    }

    pub fn client(&self) -> Line {
        Line(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A shell may have started the server.
        let id = self.child.id();
        let below = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for child in below.unwrap_or_default().split_whitespace() {
            crate::support::signal(child.parse().unwrap(), libc::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.go);
    }
}

/// A client.
pub struct Line(pub TcpStream);

impl Line {
    pub fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn answer(&mut self) -> String {
        self.0.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
        let mut line = String::new();
        let mut byte = [0];
        while self.0.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line
    }

    /// Whether no answer comes for a while.
    pub fn is_silent(&self) -> bool {
        self.0.set_read_timeout(Some(HELD)).unwrap();
        self.0.peek(&mut [0]).is_err()
    }
}
