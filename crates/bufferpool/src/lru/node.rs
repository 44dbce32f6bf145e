//! Nodes and plain doubly linked lists of them.
//!
//! A node lives in its frame. Its links and its region are written only under the mutex that guards
//! its region (see [`super::Lru`]). So relaxed atomics suffice: the mutexes order them. They are
//! atomics, not cells, because hits read `region` and `touched` without a lock.

use crate::ids::{FrameId, NIL, PageId};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// In no list.
pub(crate) const OUT: u64 = 0;
/// In the mixed region.
pub(crate) const MIXED: u64 = 1;
/// Values from here on: in the dirty region since the generation with this number.
pub(crate) const FIRST_GENERATION: u64 = 2;

/// A frame's links in the LRU list.
pub(crate) struct Node {
    /// Towards the head (more recently used).
    prev: AtomicU32,
    /// Towards the tail (less recently used).
    next: AtomicU32,
    /// [`OUT`], [`MIXED`] or the generation in which the LRU-C pointer passed the page.
    pub(crate) region: AtomicU64,
    /// The eviction clock when the page was last moved to the head; with an order by frequency, the
    /// hits on the frame that are used up.
    pub(crate) touched: AtomicU32,
    /// 1 in the old part of the mixed region (midpoint insertion), else 0.
    pub(crate) old: AtomicU32,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self {
            prev: AtomicU32::new(NIL),
            next: AtomicU32::new(NIL),
            region: AtomicU64::new(OUT),
            touched: AtomicU32::new(0),
            old: AtomicU32::new(0),
        }
    }
}

/// Result of an attempt to take a page out of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The frame is the caller's: it cannot be pinned any more.
    Claimed,
    /// The page is dirty, or being written.
    Dirty,
    /// The page is pinned.
    Pinned,
}

/// Access to the nodes, and what the list must know of their pages.
pub(crate) trait Nodes {
    fn node(&self, frame: FrameId) -> &Node;
    /// Whether the page must be written before its frame can be used for another.
    fn is_dirty(&self, frame: FrameId) -> bool;
    /// The page's number; that of the frame, where no page ever moves.
    fn page(&self, frame: FrameId) -> PageId {
        PageId(frame.into())
    }
    /// Hits on the frame so far, modulo 2^32.
    fn hits(&self, _frame: FrameId) -> u32 {
        0
    }
    /// Tries to take the frame of a clean, unpinned page.
    fn claim(&self, frame: FrameId) -> Claim;
}

/// A doubly linked list through the nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: FrameId,
    pub(crate) tail: FrameId,
    pub(crate) len: usize,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }

    pub(crate) fn push_head(&mut self, nodes: &impl Nodes, frame: FrameId) {
        let node = nodes.node(frame);
        node.prev.store(NIL, Relaxed);
        node.next.store(self.head, Relaxed);
        if self.head == NIL {
            self.tail = frame;
        } else {
            nodes.node(self.head).prev.store(frame, Relaxed);
        }
        self.head = frame;
        self.len += 1;
    }

    pub(crate) fn push_tail(&mut self, nodes: &impl Nodes, frame: FrameId) {
        let node = nodes.node(frame);
        node.prev.store(self.tail, Relaxed);
        node.next.store(NIL, Relaxed);
        if self.tail == NIL {
            self.head = frame;
        } else {
            nodes.node(self.tail).next.store(frame, Relaxed);
        }
        self.tail = frame;
        self.len += 1;
    }

    /// Puts `frame` in front of `at`, towards the head.
    pub(crate) fn insert_before(&mut self, nodes: &impl Nodes, at: FrameId, frame: FrameId) {
        let before = nodes.node(at).prev.load(Relaxed);
        if before == NIL {
            return self.push_head(nodes, frame);
        }
        let node = nodes.node(frame);
        node.prev.store(before, Relaxed);
        node.next.store(at, Relaxed);
        nodes.node(before).next.store(frame, Relaxed);
        nodes.node(at).prev.store(frame, Relaxed);
        self.len += 1;
    }

    pub(crate) fn unlink(&mut self, nodes: &impl Nodes, frame: FrameId) {
        let node = nodes.node(frame);
        let (prev, next) = (node.prev.load(Relaxed), node.next.load(Relaxed));
        if prev == NIL {
            self.head = next;
        } else {
            nodes.node(prev).next.store(next, Relaxed);
        }
        if next == NIL {
            self.tail = prev;
        } else {
            nodes.node(next).prev.store(prev, Relaxed);
        }
        self.len -= 1;
    }

    /// Puts all of `front` before this list's head; `front` is empty afterwards.
    pub(crate) fn prepend(&mut self, nodes: &impl Nodes, front: &mut List) {
        if front.len == 0 {
            return;
        }
        if self.len == 0 {
            self.tail = front.tail;
        } else {
            nodes.node(front.tail).next.store(self.head, Relaxed);
            nodes.node(self.head).prev.store(front.tail, Relaxed);
        }
        self.head = front.head;
        self.len += front.len;
        *front = List::new();
    }

    /// The next page towards the head.
    pub(crate) fn before(&self, nodes: &impl Nodes, frame: FrameId) -> FrameId {
        nodes.node(frame).prev.load(Relaxed)
    }

    /// The next page towards the tail.
    pub(crate) fn after(&self, nodes: &impl Nodes, frame: FrameId) -> FrameId {
        nodes.node(frame).next.load(Relaxed)
    }

    /// The pages from head to tail.
    #[cfg(any(test, loom))]
    pub(crate) fn frames(&self, nodes: &impl Nodes) -> Vec<FrameId> {
        let mut out = Vec::new();
        let mut frame = self.head;
        while frame != NIL && out.len() <= self.len {
            out.push(frame);
            frame = self.after(nodes, frame);
        }
        out
    }
}
