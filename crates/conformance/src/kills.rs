//! Daemons, backends and clients killed in a loop, under load. Afterwards no client is stuck, no
//! permit is lost, and no answer was wrong.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::asker::Asker;
use crate::database::Database;
use crate::gate::{self, DEADLINE, Gated};
use crate::running::Running;
use crate::worker::{self, ACCOUNTS};

/// Arguments of `kills`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only this database
    #[arg(long)]
    database: Vec<Database>,
    /// Kills of each database
    #[arg(long, default_value_t = 1000)]
    rounds: u32,
    /// Clients
    #[arg(long, default_value_t = 24)]
    clients: u32,
    /// Places of the gate
    #[arg(long, default_value_t = 4)]
    places: u32,
    /// Scheduler of the database's files
    #[arg(long, default_value = "noop")]
    io: String,
    /// Seed of what is killed when
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What each account has.
const AMOUNT: u32 = 1000;

/// Long holds would hide a lost permit. A held request passes after ten seconds, and each pass is
/// reported.
const SETTINGS: &str = "hold_ms_max = 10000\n";

/// A daemon, a backend, a client: how often each.
#[derive(Debug, Default)]
struct Kills {
    daemons: u32,
    backends: u32,
    clients: u32,
}

/// Runs the loop on each database; says whether all invariants held.
pub fn run(options: &Options) -> Result<bool> {
    let mut good = true;
    for database in Database::ALL {
        let wanted = options.database.is_empty() || options.database.contains(&database);
        if wanted && database.is_here() {
            good &= on(database, options).with_context(|| database.name())?;
        }
    }
    Ok(good)
}

struct Worker {
    child: Child,
    number: u32,
    rounds: Arc<AtomicU64>,
}

impl Worker {
    fn start(database: Database, port: u16, number: u32) -> Result<Worker> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", "--database", database.name()])
            .args(["--port", &port.to_string(), "--number", &number.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let rounds = Arc::new(AtomicU64::new(0));
        let (seen, out) = (Arc::clone(&rounds), child.stdout.take().context("no output")?);
        spawn(move || {
            for _ in BufReader::new(out).lines().map_while(Result::ok) {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Worker { child, number, rounds })
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// xorshift64*, so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

fn on(database: Database, options: &Options) -> Result<bool> {
    let settings = format!("{SETTINGS}[io]\nscheduler = \"{}\"\n", options.io);
    let mut gated = gate::start(database, options.places, &settings, 400, None)?;
    let port = gated.server.port();
    worker::prepare(database, &mut Asker::connect(database, port, "setup")?, AMOUNT)?;
    let mut workers = Vec::new();
    for number in 0..options.clients {
        workers.push(Worker::start(database, port, number)?);
    }
    let mut random = Random(options.seed.max(1));
    let (mut kills, begun) = (Kills::default(), Instant::now());
    let mut done = 0;
    while done < options.rounds {
        sleep(Duration::from_millis(20 + random.below(60)));
        match random.below(3) {
            0 => {
                kill_daemon(&gated, &mut random)?;
                kills.daemons += 1;
            }
            // While a server recovers there may be none.
            1 if !kill_backend(database, &gated, &mut random)? => continue,
            1 => kills.backends += 1,
            _ => {
                let at = random.below(workers.len() as u64) as usize;
                let number = workers[at].number;
                workers[at] = Worker::start(database, port, number)?;
                kills.clients += 1;
            }
        }
        ensure!(gated.server.is_running(), "the server ended:\n{}", gated.server.log_tail());
        done += 1;
        if done % 50 == 0 || done == options.rounds {
            everybody_moves(&mut workers).with_context(|| format!("after {done} kills"))?;
            let so_far = begun.elapsed().as_secs_f64();
            eprint!("\r{database}: {done} of {} kills, {so_far:.0} s ", options.rounds);
        }
    }
    eprintln!();
    let rounds: u64 = workers.iter().map(|worker| worker.rounds.load(Ordering::Relaxed)).sum();
    drop(workers);
    finish(database, &gated, options)?;
    println!(
        "{database}: {} daemons, {} backends and {} clients killed in {:.0} s under {} clients ({rounds} rounds by \
         those that lived): none stuck, no place lost, no wrong answer",
        kills.daemons,
        kills.backends,
        kills.clients,
        begun.elapsed().as_secs_f64(),
        options.clients
    );
    Ok(true)
}

/// Kills the daemon. All requests pass until it is started again, which happens at once or with the
/// next kill.
fn kill_daemon(gated: &Gated, random: &mut Random) -> Result<()> {
    let daemon = gated.status()?.number("daemon_pid") as libc::pid_t;
    ensure!(daemon > 0, "there is no daemon");
    // SAFETY: a number of a process that was the daemon's a moment ago.
    unsafe { libc::kill(daemon, libc::SIGKILL) };
    sleep(Duration::from_millis(random.below(1500)));
    let output = gated.headworks(&["daemon"])?;
    ensure!(output.status.success(), "the daemon cannot be started again: {output:?}");
    Ok(())
}

/// Kills a random connection's backend: for PostgreSQL by SIGKILL, upon which it ends all sessions
/// and recovers; where connections are not processes, the connection. `false` if there was none, or
/// the server has no command for that.
fn kill_backend(database: Database, gated: &Gated, random: &mut Random) -> Result<bool> {
    match &gated.server {
        Running::MariaDb(server) => {
            let Ok(mut admin) = Asker::connect(database, server.port(), "killer") else {
                return Ok(false);
            };
            let found = admin.ask(
                "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND \
                 USER = 'app' ORDER BY RAND() LIMIT 1",
            );
            let Ok(id) = found else { return Ok(false) };
            let _ = admin.ask(&format!("KILL CONNECTION {id}"));
        }
        Running::EventLoops { .. } if database != Database::Redis => return Ok(false),
        Running::EventLoops { server, .. } => {
            let Ok(mut admin) = Asker::connect(database, server.port(), "killer") else {
                return Ok(false);
            };
            let list = admin.ask("CLIENT LIST TYPE normal")?;
            let workers: Vec<&str> = list
                .lines()
                .filter(|line| line.contains(" name=worker "))
                .filter_map(|line| line.strip_prefix("id=")?.split_whitespace().next())
                .collect();
            if workers.is_empty() {
                return Ok(false);
            }
            let victim = workers[random.below(workers.len() as u64) as usize];
            let _ = admin.ask(&format!("CLIENT KILL ID {victim}"));
        }
        Running::PostgreSql(server) => {
            let children = children_of(server.pid());
            let backends: Vec<i32> = children.into_iter().filter(|&pid| is_backend(pid)).collect();
            if backends.is_empty() {
                return Ok(false);
            }
            let victim = backends[random.below(backends.len() as u64) as usize];
            // SAFETY: a child of the postmaster a moment ago.
            unsafe { libc::kill(victim, libc::SIGKILL) };
        }
    }
    Ok(true)
}

fn children_of(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn is_backend(pid: i32) -> bool {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&title).contains(": app postgres 127.0.0.1")
}

/// Every client finishes another round.
fn everybody_moves(workers: &mut [Worker]) -> Result<()> {
    let before: Vec<u64> =
        workers.iter().map(|worker| worker.rounds.load(Ordering::Relaxed)).collect();
    let begun = Instant::now();
    for (worker, before) in workers.iter_mut().zip(before) {
        while worker.rounds.load(Ordering::Relaxed) == before {
            if let Some(status) = worker.child.try_wait()? {
                bail!("client {} ended unasked: {status}", worker.number);
            }
            ensure!(begun.elapsed() < DEADLINE, "client {} is stuck", worker.number);
            sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// All are gone: no session is left in the region, all permits are free, the sum is what it was.
fn finish(database: Database, gated: &Gated, options: &Options) -> Result<()> {
    gated.wait("no session is left", DEADLINE, |status| status.number("users") == 0)?;
    let status = gated.status()?;
    for (name, most) in [("hold_limit", 0), ("panic", 0)] {
        let count = status.counter(name);
        ensure!(count <= most, "the counter {name} is {count}, not 0: {:#}", status.0);
    }
    if database.keeps_places() {
        free_places(database, gated, options.places)?;
    }
    gated.wait("all places are free", DEADLINE, |status| status.number("inside") == 0)?;
    if options.io != "noop" {
        let told: serde_json::Value =
            serde_json::from_slice(&gated.headworks(&["io", "top", "--json"])?.stdout)?;
        for name in ["waiting", "panics"] {
            ensure!(told[name] == 0, "of calls on files, {name} is {}: {told:#}", told[name]);
        }
    }
    let mut asker = Asker::connect(database, gated.server.port(), "checker")?;
    if let Some(sum) = worker::sum(database, &mut asker)? {
        ensure!(sum == i64::from(ACCOUNTS * AMOUNT), "the accounts' sum is wrong: {sum}");
    }
    Ok(())
}

/// As many users as there are places are inside at the same time, and one more is not.
pub fn free_places(database: Database, gated: &Gated, places: u32) -> Result<()> {
    // Those that stay do not work, and would lend their permits. Nothing to change is no error
    // here.
    gated.headworks(&["set", "--count", "admitted"])?;
    let port = gated.server.port();
    let users: Vec<_> = (0..=places)
        .map(|number| {
            let mut asker = Asker::connect(database, port, &format!("place-{number}"))?;
            Ok(spawn(move || asker.stay(Duration::from_secs(3))))
        })
        .collect::<Result<_>>()?;
    let seen = gated.wait("all permits are taken, and one session is queued", DEADLINE, |status| {
        status.number("inside") == u64::from(places) && status.number("waiting") == 1
    });
    for user in users {
        match user.join() {
            Ok(done) => done?,
            Err(_) => bail!("a user panicked"),
        }
    }
    seen.map(drop).context("a permit was lost")
}
