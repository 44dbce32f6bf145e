//! Random bytes written over a live region: the server must go on serving.
//!
//! The gate may count nonsense, disable itself, or hold a request for the longest time allowed. But
//! no request may crash the server or hang.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headworks_policy::random::Random;
use headworks_rig::Server;

use crate::crowd::{alone, gated};
use crate::support::{RunDir, wait_until};

const NAME: &str = "db";

/// The longest hold allowed by default, and what a slow machine adds.
const ANSWERED_WITHIN: Duration = Duration::from_secs(35);

/// What is overwritten in a round: how many bytes at a time, and how many times, of which part.
struct Scribble {
    name: &'static str,
    run_bytes: usize,
    runs: usize,
    /// The region's first bytes hold settings, lock, permits and the policy's state; the rest
    /// belongs to users.
    first_bytes: u64,
}

const SCRIBBLES: &[Scribble] = &[
    Scribble { name: "single bytes everywhere", run_bytes: 1, runs: 20_000, first_bytes: u64::MAX },
    Scribble { name: "words in settings and lock", run_bytes: 8, runs: 60, first_bytes: 1024 },
    Scribble { name: "words before the users", run_bytes: 4, runs: 2_000, first_bytes: 256 << 10 },
    Scribble { name: "everything", run_bytes: 1 << 16, runs: 400, first_bytes: u64::MAX },
];

#[test]
fn random_bytes_in_the_region_stop_no_request() {
    let Some(_turn) = alone() else { return };
    let seed = std::env::var("HEADWORKS_SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or_else(|| clock().as_nanos() as u64 | 1);
    for (round, scribble) in SCRIBBLES.iter().enumerate() {
        let seed = seed.wrapping_add(round as u64);
        println!("{}: HEADWORKS_SEED={seed}", scribble.name);
        survives(scribble, Random::new(seed));
    }
}

fn survives(scribble: &Scribble, mut random: Random) {
    let run = RunDir::new();
    let config = run.file("toml", "[gate]\nparallelism = 2\n");
    let mut server = gated(&run, NAME, &config).start().unwrap();
    let pid = server.pid();
    let region =
        std::fs::OpenOptions::new().write(true).open(run.instance(NAME).join("region")).unwrap();
    let length = region.metadata().unwrap().len().min(scribble.first_bytes);
    let stop = AtomicBool::new(false);
    let answers: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (at, answers) in answers.iter().enumerate() {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || work(server, at, stop, answers));
        }
        let total = || answers.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        wait_until("work is done", || total() > 200);
        let mut bytes = vec![0; scribble.run_bytes];
        let begun = Instant::now();
        for at in 0..scribble.runs {
            bytes.fill_with(|| random.bits() as u8);
            let place = random.below(length.saturating_sub(scribble.run_bytes as u64));
            region.write_all_at(&bytes, place).unwrap();
            // Over half a second, so that it meets the gate in many states.
            let due = Duration::from_millis(500) * at as u32 / scribble.runs as u32;
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        // Each client gets another answer, however long the gate holds its request.
        let before: Vec<u64> = answers.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let begun = Instant::now();
        let moved =
            || answers.iter().zip(&before).all(|(now, then)| now.load(Ordering::Relaxed) > *then);
        while !moved() && begun.elapsed() < ANSWERED_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        let all_moved = moved();
        println!("{}: all answered after {:?}", scribble.name, begun.elapsed());
        stop.store(true, Ordering::Relaxed);
        assert!(all_moved, "{}: a client hangs", scribble.name);
    });
    assert_eq!(server.pid(), pid);
    assert!(server.is_running(), "{}: the server crashed:\n{}", scribble.name, server.log_tail());
    assert_eq!(server.sql("SELECT 1").unwrap().value(), Some("1"));
    let stopped = server.stop(Duration::from_secs(60)).unwrap();
    assert!(stopped.status.success(), "{}: {stopped:?}\n{}", scribble.name, server.log_tail());
}

/// Statements and transactions until told to stop.
fn work(server: &Server, at: usize, stop: &AtomicBool, answers: &AtomicU64) {
    let options = server.options().read_timeout(ANSWERED_WITHIN + Duration::from_secs(5));
    let mut client = options.connect().unwrap();
    // Each answer counts: each statement may be held for the longest time.
    let mut ask = |sql: &str| {
        let answer = client.query(sql).unwrap();
        answers.fetch_add(1, Ordering::Relaxed);
        answer
    };
    while !stop.load(Ordering::Relaxed) {
        if at.is_multiple_of(2) {
            ask("BEGIN");
            ask("SELECT COUNT(*) FROM mysql.global_priv");
            ask("COMMIT");
        }
        assert_eq!(ask("SELECT 7").value(), Some("7"));
    }
}
