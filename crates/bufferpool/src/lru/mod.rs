//! The LRU list in two regions under two mutexes (LRU-C paper, sections 4.2 and 4.3).
//!
//! The LRU list of an instance, from most to least recently used, is
//!
//! ```text
//!   head [ ... mixed region ... P ] [ ... passed ... ] [ ... dirty ... ] tail
//!         LRU-M                  ^   LRU-M              LRU-D
//!                                LRU-C pointer
//! ```
//!
//! *P*, the LRU-C pointer, is the last page of the mixed region. The pages behind it are the
//! paper's dirty region. It has two parts: the pages that the pointer has passed since the
//! flusher's last take-over (*passed*), and those taken over (*dirty*). A foreground thread that
//! moves the pointer needs only LRU-M, and the flusher that frees pages needs only LRU-D. Both are
//! taken only for the constant-time take-over ([`Lru::take_over`]), and for a hit on a page in
//! *dirty*.
//!
//! The invariant; code may assume nothing else:
//!
//! 1. A page is in exactly one of: no list ([`node::OUT`]), *mixed* (region = [`node::MIXED`]),
//!    *passed* (region = the current generation), *dirty* (region < the current generation).
//! 2. Links and region of a page in *mixed* or *passed* are written only under LRU-M, those of a
//!    page in *dirty* only under LRU-D. A page changes sides only under both.
//! 3. The generation changes only under both mutexes, at the take-over. It makes every passed page
//!    a dirty one at once, without a visit to each.
//! 4. A page enters *passed* only while it is dirty. A hit moves it to *mixed* at the head. A write
//!    moves it to the tail of *mixed*, and the pointer steps back to it.
//! 5. LRU-D is taken before LRU-M.
//!
//! With one mutex (the paper's basic LRU-C, and every rival) *dirty* stays empty.

mod ghost;
mod midpoint;
pub(crate) mod node;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::ids::{FrameId, NIL};
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use ghost::Ghost;
pub(crate) use midpoint::Mixed;
pub(crate) use node::{Claim, Nodes};
use node::{FIRST_GENERATION, List, MIXED, OUT};
use std::sync::atomic::AtomicU64 as Counter;
use std::time::Instant;

/// Waits for one mutex: only acquisitions that found it held are counted.
#[derive(Default)]
pub(crate) struct LockWaits {
    pub(crate) acquired: Counter,
    pub(crate) waited: Counter,
    pub(crate) waited_ns: Counter,
}

impl LockWaits {
    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.acquired.fetch_add(1, relaxed);
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
        let start = Instant::now();
        let guard = mutex.lock();
        self.waited.fetch_add(1, relaxed);
        // A wait of 584 years would overflow.
        self.waited_ns.fetch_add(start.elapsed().as_nanos() as u64, relaxed);
        guard
    }
}

/// Where a page that was just read enters the list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// At its head.
    Recency,
    /// At InnoDB's midpoint.
    Midpoint,
    /// On probation, close to the tail, unless it was evicted lately: so many pages are remembered.
    Frequency { pages: usize },
}

/// Hits on a page that count. S3-FIFO counts up to 3; under Zipf's law 15 miss less
/// (`benches/misses`).
const HITS_MAX: u32 = 15;

/// A part of the LRU list, walked from its tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// Everything that LRU-M guards: passed pages, then mixed ones.
    Main,
    /// Pages behind the LRU-C pointer that the flusher has not taken over.
    Passed,
    /// Pages that the flusher took over.
    Dirty,
}

/// A visitor's decision on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visit {
    /// Leave it where it is.
    Leave,
    /// Take it out: the visitor claimed its frame.
    Remove,
    /// Leave it and end the walk.
    Stop,
}

/// The LRU list of one instance.
pub(crate) struct Lru<N> {
    nodes: N,
    /// LRU-M.
    mixed: Mutex<Mixed>,
    /// LRU-D.
    dirty: Mutex<List>,
    generation: AtomicU64,
    /// Pages taken out of the list so far, modulo 2^32: the clock for the age of a touch.
    clock: AtomicU32,
    /// Pages that the pointer passed since the last take-over, as last seen under LRU-M.
    passed: std::sync::atomic::AtomicU32,
    /// Pages that were evicted lately, if the order is by frequency.
    ghost: Option<Ghost>,
    pub(crate) waits_m: LockWaits,
    pub(crate) waits_d: LockWaits,
}

impl<N: Nodes> Lru<N> {
    pub(crate) fn new(nodes: N, order: Order) -> Self {
        let (old_eighths, ghost) = match order {
            Order::Recency => (0, None),
            Order::Midpoint => (midpoint::INNODB_EIGHTHS, None),
            Order::Frequency { pages } => (midpoint::PROBATION_EIGHTHS, Some(Ghost::new(pages))),
        };
        Self {
            nodes,
            mixed: Mutex::new(Mixed::new(old_eighths)),
            ghost,
            dirty: Mutex::new(List::new()),
            generation: AtomicU64::new(FIRST_GENERATION),
            clock: AtomicU32::new(0),
            passed: std::sync::atomic::AtomicU32::new(0),
            waits_m: LockWaits::default(),
            waits_d: LockWaits::default(),
        }
    }

    fn lock_m(&self) -> MutexGuard<'_, Mixed> {
        self.waits_m.lock(&self.mixed)
    }

    fn lock_d(&self) -> MutexGuard<'_, List> {
        self.waits_d.lock(&self.dirty)
    }

    fn generation(&self) -> u64 {
        // Acquire: pairs with the take-over's release, for readers without the lock.
        self.generation.load(Ordering::Acquire)
    }

    /// Adds a page that was just brought in.
    pub(crate) fn insert(&self, frame: FrameId) {
        let node = self.nodes.node(frame);
        let mut m = self.lock_m();
        node.touched.store(self.now(frame), Ordering::Relaxed);
        let known = self.ghost.as_ref().is_some_and(|it| it.recall(self.nodes.page(frame)));
        if known {
            m.push_young(&self.nodes, frame);
        } else {
            m.insert(&self.nodes, frame);
        }
        node.region.store(MIXED, Ordering::Release);
    }

    /// Whether a hit on the page should move it to the head. Takes no lock.
    ///
    /// A page of the dirty region always should: it is about to be evicted. A page of the mixed
    /// region should once as many pages were evicted since its last move as a quarter of the list
    /// has. Until then it is near the head anyway, and moving it on every hit would make every hit
    /// take LRU-M (InnoDB does the same).
    #[inline]
    pub(crate) fn is_due(&self, node: &node::Node, quarter: u32) -> bool {
        match node.region.load(Ordering::Relaxed) {
            OUT => false,
            // Hits are counted, and count when the page comes to the tail.
            MIXED if self.ghost.is_some() => false,
            MIXED => {
                let clock = self.clock.load(Ordering::Relaxed);
                clock.wrapping_sub(node.touched.load(Ordering::Relaxed)) > quarter
                    || node.old.load(Ordering::Relaxed) != 0
            }
            _ => true,
        }
    }

    /// Moves a page to the head, from whichever region it is in.
    ///
    /// Returns true if the page was in the dirty region.
    pub(crate) fn touch(&self, frame: FrameId) -> bool {
        let put = |m: &mut Mixed| {
            self.nodes.node(frame).touched.store(self.now(frame), Ordering::Relaxed);
            m.push_young(&self.nodes, frame);
        };
        self.move_to_mixed(frame, &|_| true, &put).is_some_and(|from| from >= FIRST_GENERATION)
    }

    /// A page was written: if it lies behind the pointer, and is clean, the pointer steps back to
    /// it.
    ///
    /// Constant time. Code that cleans a page and does not take its frame calls this, so the
    /// pointer stays at the first clean page from the tail. Pages that came back are evicted in
    /// that order, before all pages that the pointer has not passed.
    pub(crate) fn cleaned(&self, frame: FrameId) {
        let is_wanted = |from| from != MIXED && !self.nodes.is_dirty(frame);
        let put = |m: &mut Mixed| {
            let node = self.nodes.node(frame);
            // It is evicted next: a hit must move it, however few pages were evicted since its last
            // hit.
            let before = if self.ghost.is_some() { 0 } else { u32::MAX / 2 };
            node.touched.store(self.now(frame).wrapping_sub(before), Ordering::Relaxed);
            m.push_returned(&self.nodes, frame);
        };
        if self.nodes.node(frame).region.load(Ordering::Relaxed) != MIXED {
            self.move_to_mixed(frame, &is_wanted, &put);
        }
    }

    /// Takes a page out of its region, under the mutexes, if `is_wanted` accepts that region. `put`
    /// then adds it to the mixed region. Returns the old region.
    fn move_to_mixed(
        &self,
        frame: FrameId,
        is_wanted: &dyn Fn(u64) -> bool,
        put: &dyn Fn(&mut Mixed),
    ) -> Option<u64> {
        let node = self.nodes.node(frame);
        loop {
            let seen = node.region.load(Ordering::Acquire);
            let mut d =
                (seen >= FIRST_GENERATION && seen < self.generation()).then(|| self.lock_d());
            let mut m = self.lock_m();
            let region = node.region.load(Ordering::Relaxed);
            if region == OUT || !is_wanted(region) {
                return None;
            }
            match region {
                MIXED => m.unlink(&self.nodes, frame),
                passed if passed == self.generation() => m.passed.unlink(&self.nodes, frame),
                _ => match &mut d {
                    Some(d) => d.unlink(&self.nodes, frame),
                    // The flusher took it over between the check and the lock.
                    None => continue,
                },
            }
            put(&mut m);
            node.region.store(MIXED, Ordering::Release);
            return Some(region);
        }
    }

    /// Algorithm 1: takes the least recently used clean page, and moves the pointer to the next.
    ///
    /// Dirty pages that the pointer meets fall behind it into the dirty region. A clean page that
    /// is pinned is in use, so it goes to the head. `None`: the pointer reached the head, and no
    /// page can be taken.
    pub(crate) fn select_clean(&self) -> Option<FrameId> {
        let mut m = self.lock_m();
        let mut spared = 0;
        loop {
            // Lines 6 to 8: if the LRU-C page was dirtied meanwhile, on to the next clean one.
            self.advance(&mut m);
            let page = m.pointer;
            if page == NIL {
                return None;
            }
            match self.nodes.claim(page) {
                Claim::Claimed => {
                    self.take_out(&mut m, page);
                    self.advance(&mut m);
                    return Some(page);
                }
                Claim::Dirty => {}
                Claim::Pinned => {
                    m.unlink(&self.nodes, page);
                    m.push_young(&self.nodes, page);
                    spared += 1;
                    if spared > m.list.len {
                        return None;
                    }
                }
            }
        }
    }

    /// Moves the pointer to the clean page nearest to the tail of the mixed region.
    fn advance(&self, m: &mut Mixed) {
        let generation = self.generation();
        while m.list.tail != NIL {
            let page = m.list.tail;
            if self.goes_round(m, page) {
                continue;
            }
            if !self.nodes.is_dirty(page) {
                break;
            }
            m.unlink(&self.nodes, page);
            m.passed.push_head(&self.nodes, page);
            self.nodes.node(page).region.store(generation, Ordering::Release);
        }
        m.pointer = m.list.tail;
        // A hint; frames are numbered by u32.
        self.passed.store(m.passed.len as u32, std::sync::atomic::Ordering::Relaxed);
    }

    /// With an order by frequency: a page at the tail that was hit goes to the head, for one of its
    /// hits. Of many only a few count, so that a page which was popular once leaves in the end.
    fn goes_round(&self, m: &mut Mixed, page: FrameId) -> bool {
        if self.ghost.is_none() {
            return false;
        }
        let node = self.nodes.node(page);
        let hits = self.nodes.hits(page);
        let left = hits.wrapping_sub(node.touched.load(Ordering::Relaxed)).min(HITS_MAX);
        if left == 0 {
            return false;
        }
        node.touched.store(hits.wrapping_sub(left - 1), Ordering::Relaxed);
        m.unlink(&self.nodes, page);
        m.push_young(&self.nodes, page);
        true
    }

    /// What a page that is moved to the head notes: see [`node::Node::touched`].
    fn now(&self, frame: FrameId) -> u32 {
        match self.ghost {
            Some(_) => self.nodes.hits(frame),
            None => self.clock.load(Ordering::Relaxed),
        }
    }

    /// Roughly how many pages the pointer has passed since the last take-over.
    pub(crate) fn passed(&self) -> u32 {
        self.passed.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn take_out(&self, m: &mut Mixed, page: FrameId) {
        m.unlink(&self.nodes, page);
        self.nodes.node(page).region.store(OUT, Ordering::Release);
        self.tick(page);
    }

    /// A page was taken out: it is evicted.
    fn tick(&self, page: FrameId) {
        if let Some(ghost) = &self.ghost {
            ghost.note(self.nodes.page(page));
        }
        self.clock.fetch_add(1, Ordering::Relaxed);
    }

    /// Eviction of the rivals: takes the first clean page among the last `depth` of the list.
    ///
    /// Returns the page and how many were scanned.
    pub(crate) fn scan_clean(&self, depth: usize) -> (Option<FrameId>, usize) {
        let mut m = self.lock_m();
        let mut page = m.list.tail;
        for looked in 0..depth {
            if page == NIL {
                return (None, looked);
            }
            let before = m.list.before(&self.nodes, page);
            if self.nodes.claim(page) == Claim::Claimed {
                self.take_out(&mut m, page);
                return (Some(page), looked + 1);
            }
            page = before;
        }
        (None, depth)
    }

    /// Gives the passed pages to the flusher: constant time, both mutexes (invariant 3).
    pub(crate) fn take_over(&self) {
        let mut d = self.lock_d();
        let mut m = self.lock_m();
        if m.passed.len > 0 {
            d.prepend(&self.nodes, &mut m.passed);
            self.generation.fetch_add(1, Ordering::Release);
            self.passed.store(0, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Visits up to `max` pages of an area, from its tail, under its mutex.
    pub(crate) fn sweep(&self, area: Area, max: usize, visit: &mut dyn FnMut(FrameId) -> Visit) {
        match area {
            Area::Dirty => {
                let mut d = self.lock_d();
                self.sweep_list(&mut d, max, visit);
            }
            Area::Passed => {
                let mut m = self.lock_m();
                self.sweep_list(&mut m.passed, max, visit);
            }
            Area::Main => {
                let mut m = self.lock_m();
                let passed = m.passed.len;
                if !self.sweep_list(&mut m.passed, max, visit) || passed >= max {
                    return;
                }
                let mut page = m.list.tail;
                for _ in 0..max - passed {
                    if page == NIL {
                        return;
                    }
                    let before = m.list.before(&self.nodes, page);
                    match visit(page) {
                        Visit::Leave => {}
                        Visit::Remove => self.take_out(&mut m, page),
                        Visit::Stop => return,
                    }
                    page = before;
                }
            }
        }
    }

    /// Returns false if the visitor stopped the walk.
    fn sweep_list(
        &self,
        list: &mut List,
        max: usize,
        visit: &mut dyn FnMut(FrameId) -> Visit,
    ) -> bool {
        let mut page = list.tail;
        for _ in 0..max {
            if page == NIL {
                return true;
            }
            let before = list.before(&self.nodes, page);
            match visit(page) {
                Visit::Leave => {}
                Visit::Remove => {
                    list.unlink(&self.nodes, page);
                    self.nodes.node(page).region.store(OUT, Ordering::Release);
                    self.tick(page);
                }
                Visit::Stop => return false,
            }
            page = before;
        }
        true
    }

    /// Takes a page out of the list if its frame can be claimed.
    ///
    /// With `behind_only` a page that a hit moved to the mixed region stays. A page of the dirty
    /// region that is clean and pinned is in use, and goes to the head.
    pub(crate) fn evict(&self, frame: FrameId, behind_only: bool) -> bool {
        let node = self.nodes.node(frame);
        loop {
            let seen = node.region.load(Ordering::Acquire);
            if seen == OUT || (behind_only && seen == MIXED) {
                return false;
            }
            let claim = if seen >= FIRST_GENERATION && seen < self.generation() {
                let mut d = self.lock_d();
                if node.region.load(Ordering::Relaxed) != seen {
                    continue;
                }
                let claim = self.nodes.claim(frame);
                if claim == Claim::Claimed {
                    d.unlink(&self.nodes, frame);
                    node.region.store(OUT, Ordering::Release);
                    self.tick(frame);
                }
                claim
            } else {
                let mut m = self.lock_m();
                // Invariant 2: the value stays valid only on LRU-M's side.
                let region = node.region.load(Ordering::Relaxed);
                if region != seen || (region != MIXED && region != self.generation()) {
                    continue;
                }
                let claim = self.nodes.claim(frame);
                if claim == Claim::Claimed {
                    if region == MIXED {
                        m.unlink(&self.nodes, frame);
                    } else {
                        m.passed.unlink(&self.nodes, frame);
                    }
                    node.region.store(OUT, Ordering::Release);
                    self.tick(frame);
                }
                claim
            };
            match claim {
                Claim::Claimed => return true,
                Claim::Pinned if seen != MIXED => {
                    self.touch(frame);
                    return false;
                }
                _ => return false,
            }
        }
    }

    /// Searches for a page from the tail of the whole list, through `depth` pages of each part.
    pub(crate) fn find_oldest(
        &self,
        depth: usize,
        wanted: &mut dyn FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        let mut found = None;
        for area in [Area::Dirty, Area::Main] {
            self.sweep(area, depth, &mut |page| {
                if wanted(page) {
                    found = Some(page);
                    Visit::Stop
                } else {
                    Visit::Leave
                }
            });
            if found.is_some() {
                break;
            }
        }
        found
    }

    /// Pages in the mixed region, and pages behind the LRU-C pointer.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let d = self.lock_d();
        let m = self.lock_m();
        (m.list.len, m.passed.len + d.len)
    }

    /// The page at the LRU-C pointer.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn pointer(&self) -> Option<FrameId> {
        let page = self.lock_m().pointer;
        (page != NIL).then_some(page)
    }

    /// The pages of (mixed, passed, dirty) from head to tail, after a check of the invariant.
    #[cfg(any(test, loom))]
    pub(crate) fn checked(&self) -> (Vec<FrameId>, Vec<FrameId>, Vec<FrameId>) {
        let d = self.lock_d();
        let m = self.lock_m();
        let lists = [m.list, m.passed, *d];
        let generation = self.generation();
        let mut seen = std::collections::BTreeSet::new();
        let out: Vec<Vec<FrameId>> = lists.iter().map(|l| l.frames(&self.nodes)).collect();
        for (at, (list, frames)) in lists.iter().zip(&out).enumerate() {
            assert_eq!(list.len, frames.len(), "length of part {at}");
            assert_eq!(list.tail, frames.last().copied().unwrap_or(NIL), "tail of part {at}");
            let mut back = NIL;
            for &frame in frames {
                assert_eq!(list.before(&self.nodes, frame), back, "back link of {frame}");
                back = frame;
                assert!(seen.insert(frame), "page {frame} is in the list twice");
                let region = self.nodes.node(frame).region.load(Ordering::Relaxed);
                let expected = match at {
                    0 => region == MIXED,
                    1 => region == generation,
                    _ => (FIRST_GENERATION..generation).contains(&region),
                };
                assert!(expected, "page {frame} in part {at} says region {region} of {generation}");
            }
        }
        assert!(
            m.pointer == NIL || m.pointer == m.list.tail,
            "the pointer {} is not the last mixed page {}",
            m.pointer,
            m.list.tail
        );
        m.check_old(&self.nodes);
        let mut out = out.into_iter();
        let mut next = || out.next().unwrap_or_default();
        (next(), next(), next())
    }
}
