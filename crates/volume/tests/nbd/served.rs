//! A server in a thread, and volumes behind it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headworks_policy::block::Operation;
use headworks_volume::engine::{Completion, Submission};
use headworks_volume::nbd::{Backend, Counts, Export, Exports, Limits, Listener, Stop, serve};
use headworks_volume::store::Memory;
use headworks_volume::{Buffer, Engine, EngineConfig};

pub const MIB: u64 = 1 << 20;

/// A raw engine over memory.
pub fn memory(size_bytes: u64) -> Arc<dyn Backend> {
    let store = Arc::new(Memory::new(size_bytes, size_bytes));
    Arc::new(Arc::new(Engine::start(EngineConfig::raw(store)).unwrap()))
}

/// A folder that goes with its owner.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("headworks-nbd-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server on a Unix socket. Its end checks that nothing is left.
pub struct Served {
    pub path: PathBuf,
    pub stop: Stop,
    thread: Option<JoinHandle<()>>,
    _folder: Folder,
}

impl Served {
    pub fn new(exports: Vec<Export>) -> Served {
        Served::with(exports, Limits::default())
    }

    pub fn with(exports: Vec<Export>, limits: Limits) -> Served {
        let folder = Folder::new();
        let path = folder.0.join("socket");
        let listener = Listener::unix(&path).unwrap();
        let exports = Exports::new(exports).unwrap();
        let stop = Stop::new().unwrap();
        let own = stop.clone();
        let thread = std::thread::spawn(move || serve(listener, exports, limits, &own).unwrap());
        Served { path, stop, thread: Some(thread), _folder: folder }
    }

    /// One volume in memory, "data".
    pub fn memory(size_bytes: u64) -> Served {
        Served::new(vec![Export::new("data", memory(size_bytes))])
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path.display())
    }

    pub fn counts(&self) -> Counts {
        self.stop.counts()
    }

    /// Waits until every connection is over.
    pub fn wait_empty(&self) {
        wait_until(|| self.counts().connections == 0, || format!("{:?}", self.counts()));
        let Counts { requests, bytes, .. } = self.counts();
        assert_eq!((requests, bytes), (0, 0));
    }

    /// Ends the server and waits for it.
    pub fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server panicked");
        }
        let Counts { connections, requests, bytes, .. } = self.counts();
        assert_eq!((connections, requests, bytes), (0, 0, 0));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// Waits for what must come true within seconds.
pub fn wait_until(true_at_last: impl Fn() -> bool, state: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !true_at_last() {
        assert!(Instant::now() < deadline, "it never came true: {}", state());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub operation: Operation,
    pub offset: u64,
    pub len: u64,
    pub fua: bool,
    pub unmap: bool,
}

/// A request without flags.
pub fn asked(operation: Operation, offset: u64, len: u64) -> Asked {
    Asked { operation, offset, len, fua: false, unmap: false }
}

/// Ends a request.
pub struct Ticket {
    pub cause: u32,
    pub done: Completion,
}

/// A volume whose requests wait until the test says how they end.
pub struct Held {
    size_bytes: u64,
    waiting: Mutex<Vec<(Asked, Buffer, Ticket)>>,
    came: Condvar,
}

impl Held {
    pub fn new(size_bytes: u64) -> Arc<Held> {
        Arc::new(Held { size_bytes, waiting: Mutex::default(), came: Condvar::new() })
    }

    /// What waits.
    pub fn asked(&self) -> Vec<Asked> {
        self.waiting.lock().unwrap().iter().map(|(asked, ..)| *asked).collect()
    }

    /// Waits until `count` requests wait, and takes them.
    pub fn take(&self, count: usize) -> Vec<(Asked, Buffer, Ticket)> {
        let waiting = self.waiting.lock().unwrap();
        let waited = self
            .came
            .wait_timeout_while(waiting, Duration::from_secs(20), |waiting| waiting.len() < count);
        let (mut waiting, outcome) = waited.unwrap();
        assert!(!outcome.timed_out(), "{} of {count} requests came", waiting.len());
        std::mem::take(&mut waiting)
    }
}

/// So that the test keeps a hand on it.
pub struct Hold(pub Arc<Held>);

impl Backend for Hold {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    fn submit(&self, submission: Submission) {
        let asked = Asked {
            operation: submission.request.operation,
            offset: submission.offset_bytes(),
            len: submission.len_bytes(),
            fua: submission.request.fua,
            unmap: submission.unmap,
        };
        let ticket = Ticket { cause: submission.request.cause, done: submission.done };
        self.0.waiting.lock().unwrap().push((asked, submission.data, ticket));
        self.0.came.notify_all();
    }
}

/// A server whose requests wait for the test.
pub fn held(limits: Limits) -> (Served, Arc<Held>) {
    let held = Held::new(64 * MIB);
    let export = Export::new("data", Arc::new(Hold(held.clone())));
    (Served::with(vec![export], limits), held)
}

/// Patience that a test can wait for.
pub fn impatient() -> Limits {
    Limits { patience: Duration::from_millis(300), ..Limits::default() }
}

/// The socket of a server that is over is gone.
pub fn is_gone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err()
}
