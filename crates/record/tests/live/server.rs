//! A random server and its clients.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a server is.
#[derive(Debug, Default)]
pub struct Truth {
    /// Used stages with their queues.
    pub stages: BTreeMap<usize, String>,
    /// From, to, and whether the first is blocked until the other is done.
    pub arrows: BTreeSet<(usize, usize, bool)>,
}

pub struct Server {
    child: Child,
    pub truth: Truth,
    pub port: u16,
    /// Stage of each thread.
    pub threads: Arc<Mutex<BTreeMap<u32, usize>>>,
    _reader: JoinHandle<()>,
}

impl Server {
    pub fn start(seed: u64, words: &[&str]) -> Server {
        Server::start_program(&program(), seed, words)
    }

    pub fn start_program(program: &Path, seed: u64, words: &[&str]) -> Server {
        let mut child = Command::new(program)
            .arg(seed.to_string())
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let threads = Arc::new(Mutex::new(BTreeMap::new()));
        let mut truth = Truth::default();
        let mut port = 0;
        while port == 0 {
            let line = lines.next().expect("a line").expect("text");
            match line.split_once(' ').expect("two words") {
                ("truth", json) => truth = read(json),
                ("ready", number) => port = number.parse().expect("a port"),
                (tid, stage) => note(&threads, tid, stage),
            }
        }
        let into = threads.clone();
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((tid, stage)) = line.split_once(' ') {
                    note(&into, tid, stage);
                }
            }
        });
        Server { child, truth, port, threads, _reader: reader }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn note(threads: &Mutex<BTreeMap<u32, usize>>, tid: &str, stage: &str) {
    let (tid, stage) = (tid.parse().expect("a number"), stage.parse().expect("a number"));
    threads.lock().expect("no panic").insert(tid, stage);
}

pub fn read(json: &str) -> Truth {
    let value: Value = serde_json::from_str(json).expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let list = |key: &str| value[key].as_array().expect("a list").clone();
    Truth {
        stages: list("stages")
            .iter()
            .map(|pair| (number(&pair[0]), pair[1].as_str().expect("text").to_owned()))
            .collect(),
        arrows: list("arrows")
            .iter()
            .map(|arrow| {
                let blocks = arrow[2].as_bool().expect("yes or no");
                (number(&arrow[0]), number(&arrow[1]), blocks)
            })
            .collect(),
    }
}

/// The example beside this test's program.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let deps = own.parent().expect("a folder");
    deps.parent().expect("a folder").join("examples/random_server")
}

/// Clients that send one request after another.
pub struct Clients {
    stop: Arc<AtomicBool>,
    pub answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub fn start(port: u16, count: usize, pause: Duration) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let threads = (0..count)
            .map(|client| {
                let (stop, answered) = (stop.clone(), answered.clone());
                std::thread::spawn(move || {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).expect("a server");
                    server.set_nodelay(true).expect("an option");
                    let patience = Some(Duration::from_secs(5));
                    server.set_read_timeout(patience).expect("an option");
                    let mut byte = [client as u8];
                    while !stop.load(Ordering::Relaxed) {
                        byte[0] = byte[0].wrapping_add(1);
                        if server.write_all(&byte).is_err() || server.read_exact(&mut [0]).is_err()
                        {
                            return;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(pause);
                    }
                })
            })
            .collect();
        Clients { stop, answered, threads }
    }

    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
