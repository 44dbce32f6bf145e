//! A random system that runs, and its clients.

use super::plan::Arrows;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a system is.
#[derive(Debug, Default)]
pub struct Truth {
    /// Used stages with their queues.
    pub stages: BTreeMap<usize, String>,
    /// From, to, and whether the first is blocked until the other is done.
    pub arrows: Arrows,
    /// More arrows, between stages whose threads are not the kernel's.
    pub hidden: usize,
}

/// Stage of each thread.
pub type Threads = BTreeMap<u32, usize>;

/// A system that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// What it is.
    pub truth: Truth,
    /// Where it listens.
    pub port: u16,
    threads: Arc<Mutex<Threads>>,
}

impl Server {
    /// Starts a program that calls [`super::serve`].
    ///
    /// # Errors
    /// It cannot be started, or says something else.
    pub fn start(mut command: Command) -> Result<Server> {
        let name = command.get_program().display().to_string();
        let started = command.stdout(Stdio::piped()).spawn();
        let mut child = started.with_context(|| format!("cannot start {name}"))?;
        let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let threads: Arc<Mutex<Threads>> = Arc::default();
        let mut server = Server { child, truth: Truth::default(), port: 0, threads };
        while server.port == 0 {
            let line = lines.next().with_context(|| format!("{name} ended at once"))??;
            match line.split_once(' ') {
                Some(("truth", json)) => server.truth = read(json)?,
                Some(("ready", number)) => server.port = number.parse()?,
                Some((tid, stage)) => note(&server.threads, tid, stage),
                None => bail!("{name} said: {line}"),
            }
        }
        let into = server.threads.clone();
        // It ends with the program's output.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((tid, stage)) = line.split_once(' ') {
                    note(&into, tid, stage);
                }
            }
        });
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Threads that have begun until now.
    pub fn threads(&self) -> Threads {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn note(threads: &Mutex<Threads>, tid: &str, stage: &str) {
    if let (Ok(tid), Ok(stage)) = (tid.parse(), stage.parse()) {
        threads.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, stage);
    }
}

/// Reads what a system says of itself.
///
/// # Errors
/// It is something else.
pub fn read(json: &str) -> Result<Truth> {
    let value: Value = serde_json::from_str(json)?;
    let stages: Vec<(usize, String)> = serde_json::from_value(value["stages"].clone())?;
    let arrows = serde_json::from_value(value["arrows"].clone())?;
    let hidden = value["hidden"].as_u64().unwrap_or(0) as usize;
    Ok(Truth { stages: stages.into_iter().collect(), arrows, hidden })
}

/// Clients that send one request after another.
#[derive(Debug)]
pub struct Clients {
    stop: Arc<AtomicBool>,
    /// Requests that were answered.
    pub answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts so many, which pause after each answer.
    pub fn start(port: u16, count: usize, pause: Duration) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let threads = (0..count)
            .map(|client| {
                let (stop, answered) = (stop.clone(), answered.clone());
                std::thread::spawn(move || {
                    // A server that is gone ends its clients.
                    let _ = requests(port, client as u8, pause, &stop, &answered);
                })
            })
            .collect();
        Clients { stop, answered, threads }
    }

    /// Ends them after their last answers.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn requests(
    port: u16,
    first: u8,
    pause: Duration,
    stop: &AtomicBool,
    answered: &AtomicU64,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.set_nodelay(true)?;
    server.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut byte = [first];
    while !stop.load(Ordering::Relaxed) {
        byte[0] = byte[0].wrapping_add(1);
        server.write_all(&byte)?;
        server.read_exact(&mut [0])?;
        answered.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(pause);
    }
    Ok(())
}
