//! A random system of `headworks_tad::complete` as a real program. It is given a seed and a dress,
//! and prints the truth as JSON, threads' stages as they come, and `ready`. Dresses:
//!
//! * `named`: each thread has its stage's name
//! * `loops`: each stage has its loop function, and no name
//! * `executor`: one loop function runs all stages, without names
//!
//! Queues are those of C programs: a condition, a semaphore, a pipe, or an event descriptor with
//! epoll; of glibc, as most servers use it. A request is a byte and its answer is a byte.

use super::plan::{THREADS_MAX, Use, used, uses};
use super::queue::{Condition, Kind, Queue};
use headworks_tad::complete::random;
use headworks_tad::model::{StageId, StepId, Tad, Threads};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What makes it hard to see.
#[derive(Clone, Copy, PartialEq)]
enum Trick {
    None,
    Polls,
    Spins,
    Batches,
    Renames,
    Ring,
}

#[derive(Clone, Copy, PartialEq)]
enum Dress {
    Named,
    Loops,
    Executor,
}

struct Item {
    request: Arc<Request>,
    step: StepId,
}

struct Request {
    kind: usize,
    client: Arc<TcpStream>,
    left: AtomicUsize,
    done: Vec<AtomicUsize>,
    waits: Vec<Condition>,
}

struct System {
    tad: Tad,
    stages: Vec<Queue<Item>>,
    trick: Trick,
    dress: Dress,
    disk: std::fs::File,
}

static SYSTEM: OnceLock<System> = OnceLock::new();

fn system() -> &'static System {
    SYSTEM.get().expect("set in main")
}

fn burn(ns: u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut now = || {
        // SAFETY: a valid place.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let end = now() + ns;
    while now() < end {}
}

fn use_up(stage: StageId, request: usize, step: StepId) {
    let system = system();
    for used in uses(&system.tad, request, &system.tad.requests[request].steps[step]) {
        match used {
            Use::Cpu(ns) => burn(ns),
            Use::Write => {
                let bytes = vec![0u8; 4096];
                std::os::unix::fs::FileExt::write_all_at(&system.disk, &bytes, stage as u64 * 4096)
                    .expect("a write");
                system.disk.sync_data().expect("a sync");
            }
        }
    }
}

#[inline(never)]
fn work(stage: StageId, item: &Item) {
    let system = system();
    if system.trick == Trick::Renames {
        static JOBS: AtomicUsize = AtomicUsize::new(0);
        rename(&format!("job-{}", JOBS.fetch_add(1, Ordering::Relaxed)));
    }
    let request = &item.request;
    let step = &system.tad.requests[request.kind].steps[item.step];
    use_up(stage, request.kind, item.step);
    for &next in &step.submits {
        submit(request, next);
    }
    for &other in &step.waits {
        request.waits[other]
            .wait(|| (request.done[other].load(Ordering::Acquire) > 0).then_some(()));
    }
    request.waits[item.step].signal(|| request.done[item.step].store(1, Ordering::Release));
    for &next in &step.then {
        submit(request, next);
    }
    if request.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        let _ = (&*request.client).write_all(b"y");
    }
}

fn submit(request: &Arc<Request>, step: StepId) {
    let system = system();
    let stage = system.tad.requests[request.kind].steps[step].stage;
    let item = Item { request: request.clone(), step };
    if system.tad.stages[stage].threads == Threads::OnDemand {
        let _ = begin(stage, Some(item));
    } else {
        system.stages[stage].push(item);
    }
}

macro_rules! loops {
    ($($name:ident $once:ident $run:ident $number:literal),*) => {
        $(
            /// Its own start routine, as a program has that creates threads for functions.
            #[inline(never)]
            extern "C" fn $run(argument: *mut libc::c_void) -> *mut libc::c_void {
                // Else a compiler would make one function of all of them.
                std::hint::black_box($number);
                std::hint::black_box(run(argument))
            }
            #[inline(never)]
            extern "C" fn $name() {
                loop {
                    let item = system().stages[$number].pop();
                    work($number, &item);
                }
            }
            #[inline(never)]
            extern "C" fn $once(item: &Item) {
                work($number, item);
                std::hint::black_box(item);
            }
        )*
        static LOOPS: [extern "C" fn(); 10] = [$($name),*];
        static ONCES: [extern "C" fn(&Item); 10] = [$($once),*];
        static RUNS: [Run; 10] = [$($run),*];
    };
}
loops!(stage_0 once_0 run_0 0, stage_1 once_1 run_1 1, stage_2 once_2 run_2 2,
    stage_3 once_3 run_3 3, stage_4 once_4 run_4 4, stage_5 once_5 run_5 5,
    stage_6 once_6 run_6 6, stage_7 once_7 run_7 7, stage_8 once_8 run_8 8, stage_9 once_9 run_9 9);

type Run = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

#[inline(never)]
extern "C" fn execute(stage: StageId) {
    loop {
        let item = system().stages[stage].pop();
        work(stage, &item);
    }
}

#[inline(never)]
extern "C" fn execute_once(stage: StageId, item: &Item) {
    work(stage, item);
    std::hint::black_box(item);
}

/// Tells the test which stage this thread is of.
fn tell(stage: StageId) {
    // SAFETY: it has no preconditions.
    let own = unsafe { libc::syscall(libc::SYS_gettid) };
    let line = format!("{own} {stage}\n");
    // One call, and no lock of the standard library: that would be an arrow of the test's making.
    // SAFETY: bytes of a valid text.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
}

struct Begin {
    stage: StageId,
    item: Option<Item>,
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `begin` made it of a box, once.
    let begin = unsafe { Box::from_raw(argument.cast::<Begin>()) };
    tell(begin.stage);
    if system().dress == Dress::Named {
        rename(&format!("stage-{}", letter(begin.stage)));
    }
    match (&begin.item, system().dress) {
        (None, Dress::Loops) => LOOPS[begin.stage](),
        (Some(item), Dress::Loops) => ONCES[begin.stage](item),
        (None, _) => execute(begin.stage),
        (Some(item), _) => execute_once(begin.stage, item),
    }
    std::ptr::null_mut()
}

/// Names the calling thread, by 15 bytes at most.
fn rename(name: &str) {
    let name = format!("{name}\0");
    // SAFETY: a short text that ends in zero.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
}

/// Names with digits would be taken for one pool.
fn letter(stage: StageId) -> char {
    char::from(b'a' + stage as u8)
}

fn begin(stage: StageId, item: Option<Item>) -> Result<(), i32> {
    let argument = Box::into_raw(Box::new(Begin { stage, item }));
    let mut thread = 0;
    let start = if system().dress == Dress::Loops { RUNS[stage] } else { run };
    // SAFETY: `start` takes what `argument` is, and frees it.
    let error = unsafe {
        let error = libc::pthread_create(&raw mut thread, std::ptr::null(), start, argument.cast());
        if error == 0 {
            libc::pthread_detach(thread);
        }
        error
    };
    if error == 0 { Ok(()) } else { Err(error) }
}

/// Reads requests of one client, and does the first step: stage 0 is at the sockets.
#[inline(never)]
fn serve_client(client: TcpStream) {
    let system = system();
    tell(0);
    if system.dress == Dress::Named {
        rename(&format!("stage-{}", letter(0)));
    }
    let client = Arc::new(client);
    let mut byte = [0u8; 1];
    while (&*client).read_exact(&mut byte).is_ok() {
        let kind = usize::from(byte[0]) % system.tad.requests.len();
        let steps = system.tad.requests[kind].steps.len();
        let request = Arc::new(Request {
            kind,
            client: client.clone(),
            left: AtomicUsize::new(steps),
            done: (0..steps).map(|_| AtomicUsize::new(0)).collect(),
            waits: (0..steps).map(|_| Condition::new()).collect(),
        });
        let step = system.tad.requests[kind].first;
        work(0, &Item { request, step });
    }
}

fn truth(system: &System) -> String {
    let (used, arrows) = used(&system.tad);
    let queue = |stage: &StageId| match system.tad.stages[*stage].threads {
        _ if *stage == 0 => "sockets".to_owned(),
        Threads::OnDemand => "on-demand".to_owned(),
        Threads::Bounded(threads) => {
            format!("{:?} x {}", system.stages[*stage].kind, threads.min(THREADS_MAX))
        }
    };
    let stages: Vec<(StageId, String)> = used.iter().map(|stage| (*stage, queue(stage))).collect();
    serde_json::json!({ "stages": stages, "arrows": arrows }).to_string()
}

/// What passes requests to a stage: the last one's consumer looks for them itself, if told to.
fn kind(seed: u64, number: usize, last: bool, trick: Trick) -> Kind {
    const KINDS: [Kind; 5] =
        [Kind::Condition, Kind::Condition, Kind::Semaphore, Kind::Pipe, Kind::Event];
    match trick {
        Trick::Polls if last => Kind::Poll,
        Trick::Spins if last => Kind::Spin,
        Trick::Batches => Kind::Batch,
        Trick::Ring => Kind::Ring,
        _ => KINDS[(seed as usize * 7 + number * 3) % KINDS.len()],
    }
}

/// Serves until it is killed. The words are the seed, the dress, and what makes it hard to see:
///
/// * `polls`: the last stage sleeps for a while and looks for its work
/// * `spins`: the last stage looks all the time
/// * `batches`: one wake-up for all items that a stage has
/// * `renames`: threads take another name with each request, and the same names in all stages
/// * `ring`: stages wait by io_uring
///
/// # Panics
/// The words are others, or the machine refuses threads or files.
pub fn serve(words: &[String]) {
    let seed: u64 = words[0].parse().expect("a seed");
    let dress = match words[1].as_str() {
        "named" => Dress::Named,
        "loops" => Dress::Loops,
        "executor" => Dress::Executor,
        other => panic!("no dress {other}"),
    };
    let trick = match words.get(2).map(String::as_str) {
        None => Trick::None,
        Some("polls") => Trick::Polls,
        Some("spins") => Trick::Spins,
        Some("batches") => Trick::Batches,
        Some("renames") => Trick::Renames,
        Some("ring") => Trick::Ring,
        Some(other) => panic!("no way to be hard to see is {other}"),
    };
    let case = random(seed);
    let stages = case.tad.stages.len();
    let file = format!("random-server-{}.data", std::process::id());
    let path = std::env::temp_dir().join(file);
    let disk = std::fs::File::create(&path).expect("a file");
    let _ = std::fs::remove_file(&path);
    let built = System {
        stages: (0..stages).map(|at| Queue::new(kind(seed, at, at == stages - 1, trick))).collect(),
        trick,
        tad: case.tad,
        dress,
        disk,
    };
    let _ = SYSTEM.set(built);
    let system = system();
    println!("truth {}", truth(system));
    for (stage, each) in system.tad.stages.iter().enumerate() {
        if let (Threads::Bounded(threads), true) = (each.threads, stage > 0) {
            // One that looks all the time takes a processor.
            let most = if system.stages[stage].kind == Kind::Spin { 1 } else { THREADS_MAX };
            for _ in 0..threads.min(most) {
                begin(stage, None).expect("a thread");
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("ready {}", listener.local_addr().expect("an address").port());
    std::io::stdout().flush().expect("a pipe");
    for client in listener.incoming().flatten() {
        client.set_nodelay(true).expect("an option");
        let _ = client.as_raw_fd();
        std::thread::spawn(move || serve_client(client));
    }
}
