//! The list protocol under every interleaving of a few threads with up to three preemptions: `make
//! loom`.
//!
//! Each model runs two or three threads with one or two operations each on a list of three or four
//! pages. At the end it checks the invariant, and that no page is lost or duplicated.

use super::node::Node;
use super::*;
use crate::sync::AtomicU32 as Flag;
use loom::sync::Arc;
use loom::thread;

const CLEAN: u32 = 0;
const DIRTY: u32 = 1;
const TAKEN: u32 = 4;

struct Pages {
    nodes: Vec<Node>,
    state: Vec<Flag>,
}

impl Nodes for Arc<Pages> {
    fn node(&self, frame: FrameId) -> &Node {
        &self.nodes[frame as usize]
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.state[frame as usize].load(Ordering::Acquire) == DIRTY
    }

    fn page(&self, frame: FrameId) -> crate::ids::PageId {
        crate::ids::PageId(frame.into())
    }

    fn hits(&self, _frame: FrameId) -> u32 {
        0
    }

    fn claim(&self, frame: FrameId) -> Claim {
        let state = &self.state[frame as usize];
        match state.compare_exchange(CLEAN, TAKEN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Claim::Claimed,
            Err(DIRTY) => Claim::Dirty,
            Err(_) => Claim::Pinned,
        }
    }
}

type Shared = Arc<(Arc<Pages>, Lru<Arc<Pages>>)>;

/// Pages 0, 1, … from the tail, of which `dirty` are dirty.
fn list(count: u32, dirty: &[FrameId]) -> Shared {
    let pages = Arc::new(Pages {
        nodes: (0..count).map(|_| Node::new()).collect(),
        state: (0..count)
            .map(|page| Flag::new(if dirty.contains(&page) { DIRTY } else { CLEAN }))
            .collect(),
    });
    let lru = Lru::new(Arc::clone(&pages), Order::Recency);
    (0..count).for_each(|page| lru.insert(page));
    Arc::new((pages, lru))
}

/// The flusher: takes over the pages behind the pointer, writes them, and frees them.
fn flush(shared: &Shared) -> Vec<FrameId> {
    let (pages, lru) = &**shared;
    lru.take_over();
    let mut behind = vec![];
    lru.sweep(Area::Dirty, usize::MAX, &mut |page| {
        behind.push(page);
        Visit::Leave
    });
    behind.retain(|&page| {
        pages.state[page as usize].store(CLEAN, Ordering::Release);
        lru.evict(page, true)
    });
    behind
}

fn check(shared: &Shared, count: u32, out: Vec<FrameId>) {
    let (mixed, passed, dirty) = shared.1.checked();
    let mut all: Vec<_> = [mixed, passed, dirty, out].into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..count).collect::<Vec<_>>());
}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // More preemptions than any known bug of this kind needs (CHESS, PLDI 2007); more would take
    // too long.
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn a_miss_and_the_flusher() {
    model(|| {
        let shared = list(3, &[0]);
        shared.1.select_clean();
        shared.0.state[1].store(DIRTY, Ordering::Release);
        shared.1.insert(1);
        // From the head: 1 (dirty), 2 (clean); behind the pointer: 0.
        let other = Arc::clone(&shared);
        let miss = thread::spawn(move || other.1.select_clean());
        let mut out = flush(&shared);
        out.extend(miss.join().unwrap());
        check(&shared, 3, out);
    });
}

#[test]
fn a_hit_behind_the_pointer_and_the_flusher() {
    model(|| {
        let shared = list(3, &[0, 1]);
        let first = shared.1.select_clean();
        let other = Arc::clone(&shared);
        let hit = thread::spawn(move || other.1.touch(0));
        let mut out = flush(&shared);
        hit.join().unwrap();
        out.extend(first);
        check(&shared, 3, out);
    });
}

#[test]
fn two_misses_and_the_take_over() {
    model(|| {
        let shared = list(4, &[0, 2]);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let other = Arc::clone(&shared);
                thread::spawn(move || other.1.select_clean())
            })
            .collect();
        shared.1.take_over();
        let out = threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        check(&shared, 4, out);
    });
}

#[test]
fn a_hit_a_miss_and_the_flusher() {
    model(|| {
        let shared = list(3, &[0]);
        let first = shared.1.select_clean();
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        let hit = thread::spawn(move || one.1.touch(0));
        let miss = thread::spawn(move || two.1.select_clean());
        shared.1.take_over();
        shared.0.state[0].store(CLEAN, Ordering::Release);
        let mut out: Vec<_> = shared.1.evict(0, true).then_some(0).into_iter().collect();
        hit.join().unwrap();
        out.extend(miss.join().unwrap());
        out.extend(first);
        check(&shared, 3, out);
    });
}

/// A checkpoint writes a page behind the pointer, which goes back to it.
fn clean(shared: &Shared, page: FrameId) {
    let state = &shared.0.state[page as usize];
    if state.compare_exchange(DIRTY, CLEAN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        shared.1.cleaned(page);
    }
}

#[test]
fn a_checkpoint_a_miss_and_the_take_over() {
    model(|| {
        let shared = list(3, &[0, 1]);
        let first = shared.1.select_clean();
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        let checkpoint = thread::spawn(move || clean(&one, 0));
        let miss = thread::spawn(move || two.1.select_clean());
        shared.1.take_over();
        checkpoint.join().unwrap();
        let out = first.into_iter().chain(miss.join().unwrap()).collect();
        check(&shared, 3, out);
    });
}

#[test]
fn a_checkpoint_and_the_flusher() {
    model(|| {
        let shared = list(3, &[0, 1]);
        let first = shared.1.select_clean();
        let other = Arc::clone(&shared);
        let checkpoint = thread::spawn(move || (0..2).for_each(|page| clean(&other, page)));
        let mut out = flush(&shared);
        checkpoint.join().unwrap();
        out.extend(first);
        check(&shared, 3, out);
    });
}

#[test]
fn a_stall_and_the_flusher_do_not_both_take_a_page() {
    model(|| {
        let shared = list(2, &[0, 1]);
        assert_eq!(shared.1.select_clean(), None);
        let other = Arc::clone(&shared);
        let stall = thread::spawn(move || {
            let (pages, lru) = &*other;
            let page = lru.find_oldest(usize::MAX, &mut |_| true)?;
            pages.state[page as usize]
                .compare_exchange(DIRTY, CLEAN, Ordering::AcqRel, Ordering::Acquire)
                .ok()?;
            lru.evict(page, false).then_some(page)
        });
        let (pages, lru) = &*shared;
        lru.take_over();
        let written = pages.state[0]
            .compare_exchange(DIRTY, CLEAN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        let mut out: Vec<_> = (written && lru.evict(0, true)).then_some(0).into_iter().collect();
        out.extend(stall.join().unwrap());
        check(&shared, 2, out);
    });
}
