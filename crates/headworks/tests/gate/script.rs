//! A command-line client that is given one statement after the other.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long an answer may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// How long nothing must come for a client to count as held.
const HELD: Duration = Duration::from_millis(300);

/// The client. Killed when dropped.
pub struct Script {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Script {
    /// `command` reads statements and writes each answer as soon as it has come.
    pub fn start(mut command: Command) -> Script {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Script { stdin: child.stdin.take().unwrap(), child, lines }
    }

    pub fn send(&mut self, sql: &str) {
        writeln!(self.stdin, "{sql}").unwrap();
        self.stdin.flush().unwrap();
    }

    /// The next line of an answer.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("an answer")
    }

    /// Runs a statement with one value.
    pub fn value(&mut self, sql: &str) -> String {
        self.send(sql);
        self.line()
    }

    /// Whether no answer comes for a while.
    pub fn is_silent(&self) -> bool {
        self.lines.recv_timeout(HELD).is_err()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
