//! The cases of the LRU-C pointer, and the list against a model.

use super::node::Node;
use super::*;
use std::collections::HashSet;
use std::sync::{
    Arc,
    atomic::{AtomicU32 as Flag, Ordering::SeqCst},
};

const CLEAN: u32 = 0;
const DIRTY: u32 = 1;
const PINNED: u32 = 2;
const TAKEN: u32 = 4;

struct Pages {
    nodes: Vec<Node>,
    state: Vec<Flag>,
}

impl Pages {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            nodes: (0..count).map(|_| Node::new()).collect(),
            state: (0..count).map(|_| Flag::new(CLEAN)).collect(),
        })
    }

    fn set(&self, page: FrameId, state: u32) {
        self.state[page as usize].store(state, SeqCst);
    }
}

impl Nodes for Arc<Pages> {
    fn node(&self, frame: FrameId) -> &Node {
        &self.nodes[frame as usize]
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.state[frame as usize].load(SeqCst) & DIRTY != 0
    }

    fn claim(&self, frame: FrameId) -> Claim {
        let state = &self.state[frame as usize];
        match state.compare_exchange(CLEAN, TAKEN, SeqCst, SeqCst) {
            Ok(_) => Claim::Claimed,
            Err(now) if now & DIRTY != 0 => Claim::Dirty,
            Err(_) => Claim::Pinned,
        }
    }
}

/// A list of pages 0, 1, 2 … from the tail, of which `dirty` are dirty.
fn list(count: u32, dirty: &[FrameId]) -> (Arc<Pages>, Lru<Arc<Pages>>) {
    let pages = Pages::new(count as usize);
    let lru = Lru::new(Arc::clone(&pages), Order::Recency);
    for page in 0..count {
        lru.insert(page);
    }
    for &page in dirty {
        pages.set(page, DIRTY);
    }
    (pages, lru)
}

#[test]
fn the_victim_is_the_least_recently_used_clean_page() {
    let (_pages, lru) = list(6, &[0, 1, 3]);
    assert_eq!(lru.select_clean(), Some(2));
    // Line 10 of Algorithm 1: the pointer is already at the next clean page.
    assert_eq!(lru.pointer(), Some(4));
    assert_eq!(lru.checked(), (vec![5, 4], vec![3, 1, 0], vec![]));
}

#[test]
fn a_page_dirtied_at_the_pointer_falls_behind_it() {
    let (pages, lru) = list(5, &[0]);
    assert_eq!(lru.select_clean(), Some(1));
    assert_eq!(lru.pointer(), Some(2));
    pages.set(2, DIRTY);
    // Lines 6 to 8.
    assert_eq!(lru.select_clean(), Some(3));
    assert_eq!(lru.checked(), (vec![4], vec![2, 0], vec![]));
}

#[test]
fn a_page_cleaned_again_at_the_pointer_is_the_victim() {
    let (pages, lru) = list(5, &[0]);
    assert_eq!(lru.select_clean(), Some(1));
    pages.set(2, DIRTY);
    pages.set(2, CLEAN);
    assert_eq!(lru.pointer(), Some(2));
    assert_eq!(lru.select_clean(), Some(2), "no thread looked while it was dirty");
    assert_eq!(lru.checked(), (vec![4, 3], vec![0], vec![]));
}

/// Behind the pointer is the flusher's side, where a miss does not search. A page that was cleaned
/// and dirtied again there, before the pointer stepped back to it, must be written again before it
/// is evicted.
#[test]
fn a_page_cleaned_and_dirtied_behind_the_pointer_stays_behind_it() {
    for taken_over in [false, true] {
        let (pages, lru) = list(6, &[0, 1]);
        assert_eq!(lru.select_clean(), Some(2));
        if taken_over {
            lru.take_over();
        }
        pages.set(1, CLEAN);
        assert_eq!(lru.select_clean(), Some(3), "not 1, which is older");
        assert_eq!(lru.pointer(), Some(4));
        pages.set(1, DIRTY);
        assert!(!lru.evict(1, true), "it was dirtied again");
        let (mixed, passed, dirty) = lru.checked();
        assert_eq!((mixed, [passed, dirty].concat()), (vec![5, 4], vec![1, 0]));
        pages.set(1, CLEAN);
        assert!(lru.evict(1, true));
    }
}

/// The pointer is the first clean page from the tail. It steps back to pages that were written
/// behind it, and these are evicted before all that it has not passed.
#[test]
fn the_pointer_goes_back_to_pages_that_were_cleaned_behind_it() {
    for taken_over in [false, true] {
        let (pages, lru) = list(8, &[0, 1, 2, 3]);
        assert_eq!(lru.select_clean(), Some(4));
        if taken_over {
            lru.take_over();
        }
        for page in [0, 2] {
            let before = lru.pointer();
            lru.cleaned(page);
            assert_eq!(lru.pointer(), before, "{page} is dirty");
            pages.set(page, CLEAN);
            lru.cleaned(page);
        }
        assert_eq!(lru.pointer(), Some(0));
        let (mixed, passed, dirty) = lru.checked();
        assert_eq!((mixed, [passed, dirty].concat()), (vec![7, 6, 5, 2, 0], vec![3, 1]));
        lru.cleaned(6);
        assert_eq!(lru.checked().0, [7, 6, 5, 2, 0], "it was never behind the pointer");
        assert!(lru.is_due(pages.node(2), u32::MAX / 4), "a hit saves it");
        assert_eq!(lru.select_clean(), Some(0));
        assert_eq!(lru.select_clean(), Some(2));
        assert_eq!(lru.pointer(), Some(5));
        // All pages that came back are gone: the next goes to the tail again.
        pages.set(1, CLEAN);
        lru.cleaned(1);
        assert_eq!(lru.checked().0, [7, 6, 5, 1]);
    }
}

/// Pages come back to a list with a midpoint, whose old part stays a suffix.
#[test]
fn pages_come_back_behind_the_midpoint() {
    let pages = Pages::new(2000);
    let lru = Lru::new(Arc::clone(&pages), Order::Midpoint);
    for page in 0..2000 {
        lru.insert(page);
    }
    for round in 0..3 {
        let mixed = lru.checked().0;
        let tail: Vec<FrameId> = mixed.iter().rev().copied().take(900).collect();
        tail.iter().for_each(|&page| pages.set(page, DIRTY));
        let victim = lru.select_clean().unwrap();
        lru.checked();
        for &page in &tail {
            pages.set(page, CLEAN);
            lru.cleaned(page);
            if page % 7 == 0 {
                lru.touch(page);
            }
            lru.checked();
        }
        pages.set(victim, CLEAN);
        lru.insert(victim);
        assert_eq!(lru.checked().0.len(), 2000, "round {round}");
    }
}

/// A pool that shrinks takes pages from everywhere: at the pointer, before it and behind it.
#[test]
fn pages_withdrawn_at_and_around_the_pointer_leave_it_at_a_page() {
    for taken_over in [false, true] {
        let (pages, lru) = list(8, &[0, 1]);
        assert_eq!(lru.select_clean(), Some(2));
        if taken_over {
            lru.take_over();
        }
        assert_eq!(lru.pointer(), Some(3));
        assert!(lru.evict(3, false), "at the pointer");
        assert_eq!(lru.pointer(), Some(4));
        assert!(lru.evict(6, false), "before it");
        assert_eq!(lru.pointer(), Some(4));
        assert!(!lru.evict(1, false), "behind it, dirty");
        pages.set(1, CLEAN);
        assert!(lru.evict(1, false), "behind it, written");
        let (mixed, passed, dirty) = lru.checked();
        assert_eq!((mixed, [passed, dirty].concat()), (vec![7, 5, 4], vec![0]));
        for page in [4, 5, 7] {
            assert!(lru.evict(page, false));
        }
        assert_eq!((lru.pointer(), lru.select_clean()), (None, None));
    }
}

/// Runs `work` on another thread while this one holds the mutex of `area`; `work` must end
/// meanwhile.
fn beside(lru: &Lru<Arc<Pages>>, area: Area, work: impl FnOnce() + Send) {
    let (begin, begun) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let mut in_time = false;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().unwrap();
            work();
            // There is no listener after the timeout.
            let _ = end.send(());
        });
        lru.sweep(area, 1, &mut |_| {
            begin.send(()).unwrap();
            in_time = ended.recv_timeout(std::time::Duration::from_secs(30)).is_ok();
            Visit::Leave
        });
    });
    assert!(in_time, "a thread waited for the mutex of {area:?}");
}

/// Section 4.3: threads in one region do not wait for threads in the other.
#[test]
fn misses_and_the_flusher_do_not_wait_for_each_other() {
    let (pages, lru) = list(8, &[0, 1]);
    assert_eq!(lru.select_clean(), Some(2));
    lru.take_over();
    // The flusher holds LRU-D: misses, hits and insertions go on.
    beside(&lru, Area::Dirty, || {
        assert_eq!(lru.select_clean(), Some(3));
        assert!(!lru.touch(4));
        pages.set(2, CLEAN);
        lru.insert(2);
    });
    // A miss holds LRU-M: the flusher frees pages.
    beside(&lru, Area::Main, || {
        pages.set(0, CLEAN);
        assert!(lru.evict(0, true));
    });
    assert_eq!(lru.checked(), (vec![2, 4, 7, 6, 5], vec![], vec![1]));
}

#[test]
fn a_hit_on_the_page_at_the_pointer_moves_the_pointer_on() {
    let (_pages, lru) = list(5, &[0]);
    assert_eq!(lru.select_clean(), Some(1));
    assert_eq!(lru.pointer(), Some(2));
    assert!(!lru.touch(2));
    assert_eq!(lru.pointer(), Some(3));
    assert_eq!(lru.checked().0, [2, 4, 3]);
}

#[test]
fn the_pointer_reaching_the_head_yields_no_victim_until_a_page_is_clean_again() {
    let (pages, lru) = list(3, &[0, 1, 2]);
    assert_eq!(lru.select_clean(), None);
    assert_eq!(lru.pointer(), None);
    assert_eq!(lru.checked(), (vec![], vec![2, 1, 0], vec![]));
    // A read stall writes the oldest page of the whole list.
    assert_eq!(lru.find_oldest(usize::MAX, &mut |_| true), Some(0));
    pages.set(0, CLEAN);
    assert!(lru.evict(0, false));
    lru.insert(0);
    pages.set(0, CLEAN);
    assert_eq!(lru.select_clean(), Some(0));
}

#[test]
fn a_hit_on_a_dirty_page_behind_the_pointer_brings_it_back() {
    for taken_over in [false, true] {
        let (pages, lru) = list(5, &[0, 1]);
        assert_eq!(lru.select_clean(), Some(2));
        if taken_over {
            lru.take_over();
        }
        assert!(lru.is_due(pages.node(0), u32::MAX));
        assert!(lru.touch(0), "taken over: {taken_over}");
        let (mixed, passed, dirty) = lru.checked();
        assert_eq!(mixed, [0, 4, 3]);
        assert_eq!((passed, dirty), if taken_over { (vec![], vec![1]) } else { (vec![1], vec![]) });
    }
}

#[test]
fn what_is_passed_after_a_take_over_lies_before_what_was_taken() {
    let (_pages, lru) = list(6, &[0, 1, 3, 4]);
    assert_eq!(lru.select_clean(), Some(2));
    assert_eq!(lru.checked(), (vec![5], vec![4, 3, 1, 0], vec![]));
    lru.take_over();
    lru.insert(2);
    lru.nodes.set(2, CLEAN);
    lru.nodes.set(5, DIRTY);
    assert_eq!(lru.select_clean(), Some(2));
    assert_eq!(lru.checked(), (vec![], vec![5], vec![4, 3, 1, 0]));
    lru.take_over();
    assert_eq!(lru.checked(), (vec![], vec![], vec![5, 4, 3, 1, 0]));
}

#[test]
fn a_page_cleaned_behind_the_pointer_is_freed_where_it_is() {
    let (pages, lru) = list(4, &[0, 1]);
    assert_eq!(lru.select_clean(), Some(2));
    lru.take_over();
    pages.set(1, CLEAN);
    let mut freed = vec![];
    lru.sweep(Area::Dirty, usize::MAX, &mut |page| {
        if lru.nodes.claim(page) == Claim::Claimed {
            freed.push(page);
            return Visit::Remove;
        }
        Visit::Leave
    });
    assert_eq!(freed, [1]);
    assert_eq!(lru.checked(), (vec![3], vec![], vec![0]));
}

#[test]
fn a_written_page_is_freed_unless_a_hit_brought_it_back_or_holds_it() {
    let (pages, lru) = list(5, &[0, 1, 2]);
    assert_eq!(lru.select_clean(), Some(3));
    lru.take_over();
    assert!(lru.touch(1));
    (0..3).for_each(|page| pages.set(page, CLEAN));
    pages.set(2, PINNED);
    assert!(lru.evict(0, true));
    assert!(!lru.evict(1, true), "it is in the mixed region");
    assert!(!lru.evict(2, true), "a thread holds it");
    assert_eq!(lru.checked(), (vec![2, 1, 4], vec![], vec![]));
}

#[test]
fn a_pinned_clean_page_at_the_pointer_goes_to_the_head() {
    let (pages, lru) = list(3, &[]);
    pages.set(0, PINNED);
    assert_eq!(lru.select_clean(), Some(1));
    assert_eq!(lru.checked().0, [0, 2]);
    pages.set(2, PINNED);
    assert_eq!(lru.select_clean(), None, "everything is pinned");
    assert_eq!(lru.checked().0.len(), 2);
}

#[test]
fn the_rivals_take_the_first_clean_page_within_their_depth() {
    let (_pages, lru) = list(6, &[0, 1, 2]);
    assert_eq!(lru.scan_clean(3), (None, 3));
    assert_eq!(lru.scan_clean(4), (Some(3), 4));
    assert_eq!(lru.checked().0, [5, 4, 2, 1, 0]);
}

#[test]
fn a_young_page_is_not_moved_on_every_hit() {
    let (pages, lru) = list(8, &[]);
    assert!(!lru.is_due(pages.node(0), 2));
    for _ in 0..3 {
        lru.select_clean();
    }
    assert!(lru.is_due(pages.node(7), 2), "three evictions since its last move, more than two");
    lru.touch(7);
    assert!(!lru.is_due(pages.node(7), 2));
}

#[test]
fn with_the_midpoint_a_scan_leaves_the_young_pages_alone() {
    let pages = Pages::new(2000);
    let lru = Lru::new(Arc::clone(&pages), Order::Midpoint);
    for page in 0..1000 {
        lru.insert(page);
        lru.touch(page);
    }
    lru.checked();
    for page in 1000..2000 {
        let victim = lru.select_clean().unwrap();
        pages.set(victim, CLEAN);
        lru.insert(page);
    }
    let young: HashSet<FrameId> = lru.checked().0.into_iter().collect();
    let stayed = (400..1000).filter(|page| young.contains(page)).count();
    assert_eq!(stayed, 600, "pages that were hit survive a scan of as many pages as the list has");
}

/// Every operation in a random order, checked against the invariant after each, and against plain
/// LRU order where only hits and insertions happened.
#[test]
fn random_operations_keep_the_invariant() {
    for seed in 1..40u64 {
        let (pages, lru) = list(64, &[]);
        let mut out = Vec::new();
        let mut random = seed;
        let mut next = |below: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % u64::from(below)) as u32
        };
        for step in 0..2000 {
            let page = next(64);
            match next(9) {
                0 => {
                    lru.touch(page);
                }
                1 | 2 => {
                    let state = &pages.state[page as usize];
                    let _ = state.compare_exchange(CLEAN, DIRTY, SeqCst, SeqCst);
                }
                3 => {
                    let state = &pages.state[page as usize];
                    let _ = state.compare_exchange(DIRTY, CLEAN, SeqCst, SeqCst);
                    if next(2) == 0 {
                        lru.cleaned(page);
                    }
                }
                4 => out.extend(lru.select_clean()),
                5 => lru.take_over(),
                6 => out.extend(lru.evict(page, next(2) == 0).then_some(page)),
                7 => out.extend(lru.scan_clean(next(10) as usize).0),
                _ => {
                    if let Some(page) = out.pop() {
                        pages.set(page, CLEAN);
                        lru.insert(page);
                    }
                }
            }
            let (mixed, passed, dirty) = lru.checked();
            let all = mixed.len() + passed.len() + dirty.len() + out.len();
            assert_eq!(all, 64, "seed {seed}, step {step}");
        }
    }
}

/// Foreground threads and a flusher at once, then the invariant, then every page once.
#[test]
fn threads_keep_the_invariant() {
    const PAGES: u32 = 256;
    let (pages, lru) = list(PAGES, &[]);
    let taken = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 1..4u64 {
            let (pages, lru, taken) = (&pages, &lru, &taken);
            scope.spawn(move || {
                let mut random = seed;
                for _ in 0..30_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let page = ((random >> 33) % u64::from(PAGES)) as u32;
                    match (random >> 20) % 5 {
                        0 => {
                            lru.touch(page);
                        }
                        1 => {
                            let state = &pages.state[page as usize];
                            let _ = state.compare_exchange(CLEAN, DIRTY, SeqCst, SeqCst);
                        }
                        2 => taken.lock().extend(lru.select_clean()),
                        3 => {
                            let state = &pages.state[page as usize];
                            if state.compare_exchange(DIRTY, CLEAN, SeqCst, SeqCst).is_ok() {
                                lru.cleaned(page);
                            }
                        }
                        _ => {
                            let page = taken.lock().pop();
                            if let Some(page) = page {
                                pages.set(page, CLEAN);
                                lru.insert(page);
                            }
                        }
                    }
                }
            });
        }
        let (pages, lru, taken) = (&pages, &lru, &taken);
        scope.spawn(move || {
            for _ in 0..3_000 {
                lru.take_over();
                let mut behind = vec![];
                lru.sweep(Area::Dirty, usize::MAX, &mut |page| {
                    behind.push(page);
                    Visit::Leave
                });
                for page in behind {
                    let state = &pages.state[page as usize];
                    let _ = state.compare_exchange(DIRTY, CLEAN, SeqCst, SeqCst);
                    if lru.evict(page, true) {
                        taken.lock().push(page);
                    }
                }
            }
        });
    });
    let (mixed, passed, dirty) = lru.checked();
    let mut all: Vec<_> =
        [mixed, passed, dirty, std::mem::take(&mut *taken.lock())].into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..PAGES).collect::<Vec<_>>());
}
