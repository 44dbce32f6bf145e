//! A random system of `headworks_tad::complete` as a real program. It is given a seed and a dress,
//! and prints the truth as JSON, threads' stages as they come, and `ready`. Dresses:
//!
//! * `named`: each thread has its stage's name
//! * `loops`: each stage has its loop function, and no name
//! * `executor`: one loop function runs all stages, without names
//!
//! Queues are those of C programs: a condition, a semaphore, a pipe, or an event descriptor with
//! epoll; of glibc, as most servers use it. A request is a byte and its answer is a byte.

use headworks_tad::complete::random;
use headworks_tad::model::{Quantity, ResourceKind, StageId, StepId, Tad, Threads};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Amounts are this much smaller than in the generator, so that many requests fit into a second.
const SMALLER: u64 = 20;
/// No stage has more threads than this here.
const THREADS_MAX: u32 = 6;

#[derive(Clone, Copy, PartialEq)]
enum Dress {
    Named,
    Loops,
    Executor,
}

/// What passes requests to a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Condition,
    Semaphore,
    Pipe,
    Event,
    Poll,
}

/// glibc's condition with its mutex: the futexes of C programs.
struct Condition {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    condition: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: all of it is used through glibc's functions, which are made for several threads.
unsafe impl Send for Condition {}
// SAFETY: as above.
unsafe impl Sync for Condition {}

impl Condition {
    fn new() -> Condition {
        Condition {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
        }
    }

    /// Runs `change` under the mutex, and wakes one.
    fn signal(&self, change: impl FnOnce()) {
        // SAFETY: both live as long as `self`, and are initialised.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            change();
            libc::pthread_cond_signal(self.condition.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }

    /// Waits until `ready` has something.
    fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        // SAFETY: as above.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            loop {
                if let Some(found) = ready() {
                    libc::pthread_mutex_unlock(self.mutex.get());
                    return found;
                }
                libc::pthread_cond_wait(self.condition.get(), self.mutex.get());
            }
        }
    }
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

struct Stage {
    kind: Kind,
    items: UnsafeCell<VecDeque<Item>>,
    queue: Condition,
    semaphore: UnsafeCell<libc::sem_t>,
    pipe: [i32; 2],
    event: i32,
    poll: i32,
}

// SAFETY: `items` is used under the queue's mutex alone, the rest is made for several threads.
unsafe impl Send for Stage {}
// SAFETY: as above.
unsafe impl Sync for Stage {}

struct System {
    tad: Tad,
    stages: Vec<Stage>,
    dress: Dress,
    disk: std::fs::File,
}

static SYSTEM: OnceLock<System> = OnceLock::new();

fn system() -> &'static System {
    SYSTEM.get().expect("set in main")
}

impl Stage {
    fn new(seed: u64, number: usize, polls: bool) -> Stage {
        const KINDS: [Kind; 5] =
            [Kind::Condition, Kind::Condition, Kind::Semaphore, Kind::Pipe, Kind::Event];
        let mut pipe = [0; 2];
        // SAFETY: the calls get valid places, and their results are checked.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let event = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE);
            let poll = libc::epoll_create1(0);
            let mut what = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            assert_eq!(libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, event, &raw mut what), 0);
            let stage = Stage {
                kind: if polls {
                    Kind::Poll
                } else {
                    KINDS[(seed as usize * 7 + number * 3) % KINDS.len()]
                },
                items: UnsafeCell::new(VecDeque::new()),
                queue: Condition::new(),
                semaphore: UnsafeCell::new(std::mem::zeroed()),
                pipe,
                event,
                poll,
            };
            assert_eq!(libc::sem_init(stage.semaphore.get(), 0, 0), 0);
            stage
        }
    }

    fn push(&self, item: Item) {
        // SAFETY: under the queue's mutex.
        let add = move || unsafe { (*self.items.get()).push_back(item) };
        let quietly = |add: &mut dyn FnMut()| {
            // SAFETY: the mutex is initialised.
            unsafe {
                libc::pthread_mutex_lock(self.queue.mutex.get());
                add();
                libc::pthread_mutex_unlock(self.queue.mutex.get());
            }
        };
        let mut add = Some(add);
        let mut add = || add.take().expect("once")();
        match self.kind {
            Kind::Condition => self.queue.signal(add),
            Kind::Semaphore => {
                quietly(&mut add);
                // SAFETY: initialised.
                unsafe { libc::sem_post(self.semaphore.get()) };
            }
            Kind::Pipe => {
                quietly(&mut add);
                // SAFETY: one byte from a valid place.
                unsafe { libc::write(self.pipe[1], b"x".as_ptr().cast(), 1) };
            }
            Kind::Event => {
                quietly(&mut add);
                // SAFETY: eight bytes from a valid place.
                unsafe { libc::write(self.event, (&raw const ONE).cast(), 8) };
            }
            Kind::Poll => quietly(&mut add),
        }
    }

    #[inline(never)]
    fn pop(&self) -> Item {
        // SAFETY: under the queue's mutex.
        let take = || unsafe { (*self.items.get()).pop_front() };
        let quietly = || {
            // SAFETY: the mutex is initialised.
            unsafe {
                libc::pthread_mutex_lock(self.queue.mutex.get());
                let item = take();
                libc::pthread_mutex_unlock(self.queue.mutex.get());
                item
            }
        };
        loop {
            let mut byte = 0u64;
            match self.kind {
                Kind::Condition => return self.queue.wait(take),
                // SAFETY: initialised.
                Kind::Semaphore => unsafe {
                    libc::sem_wait(self.semaphore.get());
                },
                // SAFETY: one byte to a valid place.
                Kind::Pipe => unsafe {
                    libc::read(self.pipe[0], (&raw mut byte).cast(), 1);
                },
                Kind::Event => {
                    let mut what = libc::epoll_event { events: 0, u64: 0 };
                    // SAFETY: one event and eight bytes to valid places.
                    unsafe {
                        libc::epoll_wait(self.poll, &raw mut what, 1, -1);
                        libc::read(self.event, (&raw mut byte).cast(), 8);
                    }
                }
                Kind::Poll => std::thread::sleep(std::time::Duration::from_micros(300)),
            }
            if let Some(item) = quietly() {
                return item;
            }
        }
    }
}

static ONE: u64 = 1;

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
    let kind = &system.tad.requests[request];
    for used in &kind.steps[step].uses {
        let Quantity::Parameter(at) = used.amount else { continue };
        let resource = &system.tad.resources[used.resource];
        let amount = kind.parameters[at].default / SMALLER;
        match resource.kind {
            ResourceKind::Cpu => burn((amount as f64 / resource.rate_per_s * 1e9) as u64),
            ResourceKind::Io => {
                let bytes = vec![0u8; 4096];
                std::os::unix::fs::FileExt::write_all_at(&system.disk, &bytes, stage as u64 * 4096)
                    .expect("a write");
                system.disk.sync_data().expect("a sync");
            }
            _ => burn(2_000),
        }
    }
    burn(5_000);
}

#[inline(never)]
fn work(stage: StageId, item: &Item) {
    let system = system();
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
        let name = format!("stage-{}\0", letter(begin.stage));
        // SAFETY: a short text that ends in zero.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
    }
    match (&begin.item, system().dress) {
        (None, Dress::Loops) => LOOPS[begin.stage](),
        (Some(item), Dress::Loops) => ONCES[begin.stage](item),
        (None, _) => execute(begin.stage),
        (Some(item), _) => execute_once(begin.stage, item),
    }
    std::ptr::null_mut()
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
        let name = format!("stage-{}\0", letter(0));
        // SAFETY: a short text that ends in zero.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
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
    let mut used = std::collections::BTreeSet::new();
    let mut arrows = std::collections::BTreeSet::new();
    for kind in &system.tad.requests {
        for step in &kind.steps {
            used.insert(step.stage);
            for &next in step.submits.iter().chain(&step.then) {
                let blocks = step.waits.contains(&next);
                arrows.insert((step.stage, kind.steps[next].stage, blocks));
            }
        }
    }
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

/// Serves until it is killed. The words are the seed and the dress, and `polls` if the last stage
/// is to look for its work itself.
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
    let polls = words.get(2).is_some_and(|word| word == "polls");
    let case = random(seed);
    let stages = case.tad.stages.len();
    let file = format!("random-server-{}.data", std::process::id());
    let path = std::env::temp_dir().join(file);
    let disk = std::fs::File::create(&path).expect("a file");
    let _ = std::fs::remove_file(&path);
    let built = System {
        stages: (0..stages).map(|at| Stage::new(seed, at, polls && at == stages - 1)).collect(),
        tad: case.tad,
        dress,
        disk,
    };
    let _ = SYSTEM.set(built);
    let system = system();
    println!("truth {}", truth(system));
    for (stage, each) in system.tad.stages.iter().enumerate() {
        if let (Threads::Bounded(threads), true) = (each.threads, stage > 0) {
            for _ in 0..threads.min(THREADS_MAX) {
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
