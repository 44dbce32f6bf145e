//! Applications that ask at random: so many reads of 16 KiB outstanding.

use headworks_policy::block::Operation;
use headworks_volume::{Engine, Submission};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

struct Inner {
    engine: Arc<Engine>,
    tag: u16,
    span: u64,
    state: AtomicU64,
    done: AtomicU64,
    open: AtomicUsize,
    ends: AtomicBool,
}

/// Ends with its owner.
pub struct Load(Arc<Inner>);

impl Load {
    pub fn start(engine: &Arc<Engine>, tag: u16, outstanding: usize, span: u64) -> Load {
        let inner = Arc::new(Inner {
            engine: Arc::clone(engine),
            tag,
            span,
            state: AtomicU64::new(u64::from(tag) + 1),
            done: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
        });
        for _ in 0..outstanding {
            go(&inner);
        }
        Load(inner)
    }

    /// Requests that were answered.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }
}

fn go(load: &Arc<Inner>) {
    let step = 0x9e37_79b9_7f4a_7c15;
    let random = load.state.fetch_add(step, Ordering::Relaxed).wrapping_mul(step) >> 20;
    let offset = random % (load.span / 16_384) * 16_384;
    load.open.fetch_add(1, Ordering::Relaxed);
    let again = Arc::clone(load);
    let done = Box::new(move |result: std::io::Result<_>| {
        let fine = result.is_ok();
        again.done.fetch_add(u64::from(fine), Ordering::Relaxed);
        if fine && !again.ends.load(Ordering::Relaxed) {
            go(&again);
        }
        again.open.fetch_sub(1, Ordering::Relaxed);
    });
    let mut read = Submission::new(Operation::Read, offset, 16_384, done);
    read.tag = load.tag;
    read.request.cause = load.tag.into();
    load.engine.submit(read);
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
        while self.0.open.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
