//! What many, large or deep requests of one do to others.

use crate::ours::client;
use crate::raw::{READ, Raw, WRITE};
use crate::rig::{Random, Rig, resident_mib};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DISKS: &str = "[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n";
const MIB: u64 = 1 << 20;

fn memory(name: &str, mib: u64) -> String {
    format!("[[volume]]\nname = \"{name}\"\npath = \"memory\"\nsize = \"{mib}MiB\"\n")
}

/// Milliseconds, in order.
pub struct Times(Vec<f64>);

impl Times {
    pub fn of(mut all: Vec<f64>) -> Times {
        all.sort_by(f64::total_cmp);
        Times(all)
    }

    pub fn percentile(&self, percent: f64) -> f64 {
        let at = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0.get(at.min(self.0.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// Does something again and again, in other threads, until it is dropped.
pub struct Background {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    hang_up: Vec<crate::raw::Stream>,
    pub done: Arc<AtomicU64>,
}

impl Background {
    fn new() -> Background {
        Background {
            ends: Arc::default(),
            threads: Vec::new(),
            hang_up: Vec::new(),
            done: Arc::default(),
        }
    }

    /// Keeps so many requests of so many bytes outstanding on one connection.
    pub fn deep(rig: &Rig, volume: &str, command: u16, depth: u32, bytes: u32, span: u64) -> Self {
        let mut own = Background::new();
        let mut raw = Raw::open(&rig.socket(), volume);
        own.hang_up.push(raw.stream.try_clone().unwrap());
        let (ends, done) = (Arc::clone(&own.ends), Arc::clone(&own.done));
        let mut sends = Raw::copy(&raw);
        let (credit, credits) = std::sync::mpsc::channel();
        (0..depth).for_each(|_| credit.send(()).unwrap());
        own.threads.push(std::thread::spawn(move || {
            let mut random = Random(depth.into());
            let payload = vec![7; if command == WRITE { bytes as usize } else { 0 }];
            while credits.recv().is_ok() {
                let offset = u64::from(bytes) * random.below(span / u64::from(bytes));
                if sends.try_send(command, offset, bytes, &payload).is_err() {
                    return;
                }
            }
        }));
        own.threads.push(std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // The sending half knows what was asked for; here all answers are alike.
                let read = if command == READ { bytes } else { 0 };
                if raw.skip_answer(read).is_err() || credit.send(()).is_err() {
                    return;
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
        own
    }

    /// Does `act` again and again.
    fn repeat(&mut self, mut act: impl FnMut() + Send + 'static) {
        let (ends, done) = (Arc::clone(&self.ends), Arc::clone(&self.done));
        self.threads.push(std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                act();
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for stream in &self.hang_up {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Times of what `act` does again and again for so long, in one thread for each of `of`.
fn times<T: Send>(of: Vec<T>, time: Duration, act: impl Fn(&mut T, &mut Random) + Sync) -> Times {
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = of
            .into_iter()
            .enumerate()
            .map(|(number, mut one)| {
                let act = &act;
                scope.spawn(move || {
                    let (mut random, begun) = (Random(number as u64), Instant::now());
                    let mut times = Vec::new();
                    while begun.elapsed() < time {
                        let before = Instant::now();
                        act(&mut one, &mut random);
                        times.push(before.elapsed().as_secs_f64() * 1e3);
                    }
                    times
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    Times::of(all)
}

/// Depth 4,096 at a share of 5 %: memory of the store in MiB, and what a neighbour's p99 is beside
/// depth 64 and beside depth 4,096.
fn deep(time: Duration) -> (u64, f64, f64) {
    let share = |name: &str, share: f64| {
        format!("[[application]]\nname = \"{name}-app\"\nvolume = \"{name}\"\nshare = {share}\n")
    };
    let config = DISKS.to_owned() + &memory("deep", 64) + &memory("n", 64);
    let rig = Rig::start(&(config + &share("deep", 0.05) + &share("n", 0.95)));
    // Eight readers that wait for each answer.
    let neighbours = || {
        let of: Vec<Raw> = (0..8).map(|_| Raw::open(&rig.socket(), "n")).collect();
        times(of, time, |raw, random| {
            raw.read(4096 * random.below(16 << 8));
        })
    };
    let shallow = Background::deep(&rig, "deep", WRITE, 64, 16_384, 64 * MIB);
    std::thread::sleep(Duration::from_secs(2));
    let before = neighbours();
    drop(shallow);
    let mib = resident_mib(rig.pid());
    let _deep = Background::deep(&rig, "deep", WRITE, 4_096, 16_384, 64 * MIB);
    std::thread::sleep(Duration::from_secs(2));
    let beside = neighbours();
    let grown = resident_mib(rig.pid()).saturating_sub(mib);
    (grown, before.percentile(99.0), beside.percentile(99.0))
}

#[test]
fn a_queue_of_4096_costs_the_store_no_memory_and_its_neighbours_nothing() {
    let (grown, before, beside) = deep(Duration::from_secs(4));
    println!("{grown} MiB; p99 {before:.1} ms beside depth 64, {beside:.1} beside 4,096");
    assert!(grown <= 16, "{grown} MiB");
    assert!(beside < 2.0 * before + 5.0, "{before} {beside}");
}

/// Seven volumes append 4 KiB and flush, one after the other; alone, and while the eighth writes
/// 1 MiB at depth 32. Their times, and MiB a second of the eighth alone and beside.
fn appends(device: &str, file: bool, time: Duration) -> (Times, Times, [f64; 2]) {
    let names = ["w", "a1", "a2", "a3", "a4", "a5", "a6", "a7"];
    let one = |name: &&str| match file {
        true => format!("[[volume]]\nname = \"{name}\"\npath = \"DIR/{name}\"\n"),
        false => memory(name, 64),
    };
    let volumes: String = names.iter().map(one).collect();
    let mut rig = Rig::new(&(device.to_owned() + &volumes));
    for name in names {
        let path = rig.file(name, 64 * MIB);
        if file {
            // Space that is there already: what is measured is not the file system's allocation.
            std::fs::write(path, vec![1; 64 << 20]).unwrap();
        }
    }
    rig.serve();
    let measure = || {
        let of: Vec<(Raw, u64)> =
            names[1..].iter().map(|name| (Raw::open(&rig.socket(), name), 0)).collect();
        times(of, time, |(raw, at): &mut (Raw, u64), _| {
            raw.write(4096 * *at, 5);
            raw.flush();
            *at = (*at + 1) % 16_384;
        })
    };
    let alone = measure();
    let rate = |writer: &Background| {
        let (before, begun) = (writer.done.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(time);
        (writer.done.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64()
    };
    let writer = Background::deep(&rig, "w", WRITE, 32, 1 << 20, 64 * MIB);
    std::thread::sleep(Duration::from_secs(1));
    let writes_alone = rate(&writer);
    let before = (writer.done.load(Ordering::Relaxed), Instant::now());
    let beside = measure();
    let writes = (writer.done.load(Ordering::Relaxed) - before.0) as f64;
    (alone, beside, [writes_alone, writes / before.1.elapsed().as_secs_f64()])
}

#[test]
fn appends_with_flushes_go_on_beside_large_writes() {
    let flash = "[device]\nmodel = \"flash\"\n";
    let (alone, beside, _) = appends(flash, false, Duration::from_secs(3));
    let (alone, beside) = (alone.percentile(99.0), beside.percentile(99.0));
    println!("p99 {alone:.2} ms alone, {beside:.2} beside");
    // A queue of 32 MiB before each of two requests would be 60 ms and more.
    assert!(beside < 5.0 * alone + 10.0, "{alone} {beside}");
}

/// Forty-nine tenants that read now and then, and what a scan does to them that has the share of
/// one: it asks for as much as it can get, or for so many times what one of them does.
struct Tenants {
    before: Times,
    beside: Times,
    mib_per_s: f64,
    factor: f64,
}

impl Tenants {
    fn measure(time: Duration, most: Option<f64>) -> Tenants {
        let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
        let volumes: String = names.iter().map(|name| memory(name, 16)).collect();
        let rig = Rig::start(&(DISKS.to_owned() + &volumes));
        let (before, one) = Tenants::read(&rig, &names[1..], time);
        let scan = match most {
            None => Background::deep(&rig, "t0", READ, 16, 1 << 20, 16 * MIB),
            Some(most) => {
                let mut own = Background::new();
                let mut raw = Raw::open(&rig.socket(), "t0");
                let mut next = Instant::now();
                let mut random = Random(1);
                own.repeat(move || {
                    raw.send(READ, MIB * random.below(16), 1 << 20, &[]);
                    raw.skip_answer(1 << 20).unwrap();
                    next += Duration::from_secs_f64(1.0 / (most * one));
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                });
                own
            }
        };
        std::thread::sleep(Duration::from_secs(1));
        let (done, begun) = (scan.done.load(Ordering::Relaxed), Instant::now());
        let (beside, one) = Tenants::read(&rig, &names[1..], time);
        let mib = (scan.done.load(Ordering::Relaxed) - done) as f64;
        let mib_per_s = mib / begun.elapsed().as_secs_f64();
        Tenants { before, beside, mib_per_s, factor: mib_per_s / one }
    }

    /// Times of reads, and how many MiB a second one tenant reads.
    fn read(rig: &Rig, names: &[String], time: Duration) -> (Times, f64) {
        let of: Vec<Raw> = names.iter().map(|name| Raw::open(&rig.socket(), name)).collect();
        let all = std::sync::Mutex::new(Vec::new());
        times(of, time, |raw: &mut Raw, random| {
            let begun = Instant::now();
            raw.read(4096 * random.below(4_000));
            all.lock().unwrap().push(begun.elapsed().as_secs_f64() * 1e3);
            std::thread::sleep(Duration::from_millis(50 + random.below(150)));
        });
        let all = all.into_inner().unwrap();
        let mib = all.len() as f64 * 4096.0 / MIB as f64;
        (Times::of(all), mib / names.len() as f64 / time.as_secs_f64())
    }

    fn say(&self) {
        println!(
            "tenants: p50 {:.1} → {:.1} ms, p99 {:.1} → {:.1} ms; scan {:.1} MiB/s, {:.0} ×",
            self.before.percentile(50.0),
            self.beside.percentile(50.0),
            self.before.percentile(99.0),
            self.beside.percentile(99.0),
            self.mib_per_s,
            self.factor,
        );
    }
}

#[test]
fn fifty_tenants_go_on_beside_one_that_scans() {
    for most in [Some(150.0), None] {
        let tenants = Tenants::measure(Duration::from_secs(4), most);
        tenants.say();
        let [before, beside] = [&tenants.before, &tenants.beside].map(|all| all.percentile(99.0));
        assert!(tenants.factor > 100.0, "{}", tenants.factor);
        let most = if most.is_some() { 2.0 } else { 6.0 };
        assert!(beside < most * before + 20.0, "{before} {beside}");
    }
}

/// For `docs/results/store.md`.
#[test]
#[ignore = "takes minutes: it prints figures"]
fn neighbours_figures() {
    let time = Duration::from_secs(5);
    for _ in 0..3 {
        let (grown, before, beside) = deep(time);
        println!("depth 4,096: {grown} MiB, p99 {before:.1} → {beside:.1} ms");
        for (what, device, file) in [
            ("flash model", "[device]\nmodel = \"flash\"\n", false),
            ("15 disks", DISKS, false),
            ("files here", "", true),
        ] {
            let (alone, beside, writes) = appends(device, file, time);
            println!(
                "appends, {what}: p50 {:.2} → {:.2} ms, p99 {:.2} → {:.2} ms; writer {:.0} → {:.0} MiB/s",
                alone.percentile(50.0),
                beside.percentile(50.0),
                alone.percentile(99.0),
                beside.percentile(99.0),
                writes[0],
                writes[1],
            );
        }
        Tenants::measure(time, Some(150.0)).say();
        Tenants::measure(time, None).say();
    }
}

#[test]
fn foreign_clients_work_beside_ours() {
    if !crate::rig::has("nbdcopy") {
        return;
    }
    let rig = Rig::start(&(memory("ours", 256) + &memory("theirs", 32)));
    let load = client(&rig, "ours", 8);
    let mut own = Background::new();
    let socket = rig.socket();
    own.repeat(move || {
        let mut raw = Raw::open(&socket, "theirs");
        raw.write(4096, 1);
        raw.flush();
    });
    let from = rig.file("from", 32 << 20);
    let uri = rig.uri("theirs");
    for _ in 0..5 {
        crate::rig::run("nbdcopy", &["--connections=4", from.to_str().unwrap(), &uri]);
        crate::rig::run("nbdcopy", &["--connections=4", &uri, from.to_str().unwrap()]);
    }
    assert!(load.done() > 1_000 && own.done.load(Ordering::Relaxed) > 0);
}
