//! A small server with one planted bottleneck.
//!
//! Its words are `KIND [fixed] [PEER]`. A request is a byte and its answer is a byte. `fixed` makes
//! the bottleneck half as narrow. `PEER` is the port of another server, for the kind `peer`. It
//! prints `ready PORT`.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A queue; with a bound, those that push wait while it is full.
struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    more: Condvar,
    room: Condvar,
    bound: usize,
}

impl<T> Queue<T> {
    fn new(bound: usize) -> Arc<Queue<T>> {
        let items = Mutex::new(VecDeque::new());
        Arc::new(Queue { items, more: Condvar::new(), room: Condvar::new(), bound })
    }

    fn push(&self, item: T) {
        let mut items = self.items.lock().expect("no panic");
        while items.len() >= self.bound {
            items = self.room.wait(items).expect("no panic");
        }
        items.push_back(item);
        drop(items);
        self.more.notify_one();
    }

    fn pop(&self) -> T {
        let mut items = self.items.lock().expect("no panic");
        loop {
            if let Some(item) = items.pop_front() {
                drop(items);
                self.room.notify_one();
                return item;
            }
            items = self.more.wait(items).expect("no panic");
        }
    }
}

/// A semaphore.
struct Permits {
    left: Mutex<u32>,
    freed: Condvar,
}

impl Permits {
    fn with(&self, work: impl FnOnce()) {
        let mut left = self.left.lock().expect("no panic");
        while *left == 0 {
            left = self.freed.wait(left).expect("no panic");
        }
        *left -= 1;
        drop(left);
        work();
        *self.left.lock().expect("no panic") += 1;
        self.freed.notify_one();
    }
}

fn burn(time: Duration) {
    let begun = cpu();
    while cpu() - begun < time {}
}

fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sleeps of this thread end as soon as their time is over, not up to 50 us later.
fn sleep_exactly() {
    // SAFETY: it takes a number, and changes the calling thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).expect("a thread");
}

fn answer(client: &TcpStream) {
    let mut client = client;
    let _ = client.write_all(b"y");
}

/// Each connection's thread does this for each request.
type Handler = Box<dyn Fn(&TcpStream) + Send + Sync>;

static NUMBER: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn narrow_lock(lock: &Mutex<()>, held: Duration) {
    let guard = lock.lock().expect("no panic");
    pause(held);
    drop(guard);
}

#[inline(never)]
fn wide_lock(lock: &Mutex<u64>) {
    for _ in 0..4 {
        let mut guard = lock.lock().expect("no panic");
        *guard += 1;
        drop(guard);
    }
}

#[inline(never)]
fn take_permit(permits: &Permits, held: Duration) {
    permits.with(|| pause(held));
}

/// A record of a log, and who waits for it.
struct Record {
    done: Arc<(Mutex<bool>, Condvar)>,
}

fn handler(kind: &'static str, fixed: bool, peer: Option<u16>) -> Handler {
    let scale = if fixed { 2 } else { 1 };
    match kind {
        "lock" | "locks" | "waits" => {
            let locks: Vec<Mutex<()>> = (0..scale).map(|_| Mutex::new(())).collect();
            let (wide, both) = (Mutex::new(0), kind == "locks");
            let held = if kind == "waits" { us(150) } else { us(300) };
            Box::new(move |client| {
                burn(us(if kind == "waits" { 0 } else { 20 }));
                if both {
                    wide_lock(&wide);
                }
                let number = NUMBER.fetch_add(1, Ordering::Relaxed) as usize;
                narrow_lock(&locks[number % locks.len()], held);
                answer(client);
            })
        }
        "permits" => {
            let permits = Permits { left: Mutex::new(2 * scale as u32), freed: Condvar::new() };
            Box::new(move |client| {
                burn(us(20));
                take_permit(&permits, us(1_000));
                answer(client);
            })
        }
        "cpu" => Box::new(move |client| {
            burn(us(1_000 / scale as u64));
            answer(client);
        }),
        "disk" => {
            let file = scratch();
            Box::new(move |client| {
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                burn(us(20));
                // Half as many writes are a disk twice as fast.
                if number.is_multiple_of(scale as u64) {
                    file.write_all_at(&[7; 4096], number % 512 * 4096).expect("a write");
                    file.sync_data().expect("a sync");
                }
                answer(client);
            })
        }
        "peer" => ask_peer(peer.expect("a port")),
        "pool" => pool(scale),
        "full" => full_queue(scale),
        "log" => log_order(scale),
        "group" => group_commit(scale as u64),
        other => panic!("no kind {other}"),
    }
}

/// A file that is gone when the program ends.
fn scratch() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("bottleneck-{}", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    let _ = std::fs::remove_file(&path);
    file
}

/// Asks another server.
fn ask_peer(port: u16) -> Handler {
    let idle: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());
    Box::new(move |client| {
        let kept = idle.lock().expect("no panic").pop();
        let mut server = kept.unwrap_or_else(|| {
            let server = TcpStream::connect(("127.0.0.1", port)).expect("the peer");
            server.set_nodelay(true).expect("an option");
            server
        });
        let _ = server.write_all(b"x");
        let _ = server.read_exact(&mut [0]);
        idle.lock().expect("no panic").push(server);
        answer(client);
    })
}

/// Hands requests to a small pool.
fn pool(scale: usize) -> Handler {
    let queue: Arc<Queue<TcpStream>> = Queue::new(usize::MAX);
    for _ in 0..2 * scale {
        let queue = queue.clone();
        named("worker", move || {
            loop {
                let client = queue.pop();
                pause(us(1_000));
                answer(&client);
            }
        });
    }
    Box::new(move |client| queue.push(client.try_clone().expect("a socket")))
}

/// Hands requests to parsers, and these to sinks behind a short queue.
fn full_queue(scale: usize) -> Handler {
    let (first, second) = (Queue::new(usize::MAX), Queue::new(2));
    for _ in 0..4 {
        let (first, second): (Arc<Queue<TcpStream>>, Arc<Queue<TcpStream>>) =
            (first.clone(), second.clone());
        named("parser", move || {
            loop {
                let client = first.pop();
                burn(us(20));
                second.push(client);
            }
        });
    }
    for _ in 0..3 * scale {
        let second = second.clone();
        named("sink", move || {
            loop {
                let client = second.pop();
                pause(us(1_000));
                answer(&client);
            }
        });
    }
    Box::new(move |client| first.push(client.try_clone().expect("a socket")))
}

impl Record {
    fn written(&self) {
        *self.done.0.lock().expect("no panic") = true;
        self.done.1.notify_one();
    }
}

/// Waits for the thread that writes a log.
fn log_order(scale: usize) -> Handler {
    let queue: Arc<Queue<Record>> = Queue::new(usize::MAX);
    for _ in 0..scale {
        let queue = queue.clone();
        named("log-writer", move || {
            loop {
                let record = queue.pop();
                pause(us(400));
                record.written();
            }
        });
    }
    logged(queue)
}

/// Waits for the thread that writes all that came meanwhile, with one sync of the disk.
fn group_commit(scale: u64) -> Handler {
    let queue: Arc<Queue<Record>> = Queue::new(usize::MAX);
    // So much that the disk is slower than the processors.
    let bytes = vec![7; 512 << 10];
    let (file, own) = (scratch(), queue.clone());
    named("log-writer", move || {
        for number in 0.. {
            let mut records = vec![own.pop()];
            records.extend(own.items.lock().expect("no panic").drain(..));
            // Half as many syncs are a disk twice as fast.
            if number % scale == 0 {
                file.write_all_at(&bytes, number % 16 * bytes.len() as u64).expect("a write");
                file.sync_data().expect("a sync");
            }
            records.iter().for_each(Record::written);
        }
    });
    logged(queue)
}

/// Hands a record to a log's thread, and waits until it is written.
fn logged(queue: Arc<Queue<Record>>) -> Handler {
    Box::new(move |client| {
        burn(us(20));
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        queue.push(Record { done: done.clone() });
        let mut written = done.0.lock().expect("no panic");
        while !*written {
            written = done.1.wait(written).expect("no panic");
        }
        drop(written);
        answer(client);
    })
}

/// Event loops: each thread serves all of its connections.
fn loops(listener: &TcpListener, count: usize) {
    let waiting: Vec<Arc<Mutex<Vec<TcpStream>>>> = (0..count).map(|_| Arc::default()).collect();
    for mine in &waiting {
        let mine = mine.clone();
        named("event-loop", move || {
            let mut clients: Vec<TcpStream> = Vec::new();
            loop {
                clients.append(&mut mine.lock().expect("no panic"));
                let mut polled: Vec<libc::pollfd> = clients
                    .iter()
                    .map(|client| libc::pollfd {
                        fd: client.as_raw_fd(),
                        events: libc::POLLIN,
                        revents: 0,
                    })
                    .collect();
                // SAFETY: as many entries as the vector has.
                unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as u64, 10) };
                for (client, _) in clients.iter_mut().zip(&polled).filter(|(_, p)| p.revents != 0) {
                    if client.read_exact(&mut [0]).is_ok() {
                        burn(us(300));
                        answer(client);
                    }
                }
            }
        });
    }
    for (at, client) in listener.incoming().flatten().enumerate() {
        client.set_nodelay(true).expect("an option");
        waiting[at % count].lock().expect("no panic").push(client);
    }
}

/// Serves until it is killed. For its words see the module.
///
/// # Panics
/// The words are others, or the machine refuses threads or files.
pub fn serve(words: &[String]) {
    let kind: &'static str = words[0].clone().leak();
    let fixed = words.iter().any(|word| word == "fixed");
    let peer = words.iter().find_map(|word| word.parse().ok());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("ready {}", listener.local_addr().expect("an address").port());
    std::io::stdout().flush().expect("a pipe");
    // It sleeps long and limits nothing.
    named("sleeper", || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3_600) {
            pause(Duration::from_secs(10));
        }
    });
    if kind == "loop" {
        return loops(&listener, if fixed { 2 } else { 1 });
    }
    let handler = Arc::new(handler(kind, fixed, peer));
    for client in listener.incoming().flatten() {
        client.set_nodelay(true).expect("an option");
        let handler = handler.clone();
        named("connection", move || {
            sleep_exactly();
            let mut byte = [0];
            while (&client).read_exact(&mut byte).is_ok() {
                handler(&client);
            }
        });
    }
}
