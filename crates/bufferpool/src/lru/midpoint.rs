//! The part of the LRU list that LRU-M guards, with InnoDB's midpoint as an option.
//!
//! With the midpoint the mixed region is split: a young part at the head, and an old part at the
//! tail, 3/8 of its length. A page enters at the head of the old part. So a scan that reads each
//! page once evicts only old pages; a second hit makes a page young.

use super::node::{List, Nodes};
use crate::ids::{FrameId, NIL};
use crate::sync::Ordering::Relaxed;

/// InnoDB's `innodb_old_blocks_pct` of 37: 3/8 of the list are old.
pub(super) const INNODB_EIGHTHS: usize = 3;
/// With an order by frequency an eighth of the list is on probation (S3-FIFO has a tenth).
pub(super) const PROBATION_EIGHTHS: usize = 1;
/// The boundary may be this many pages off before it is moved.
const TOLERANCE: usize = 20;
/// A shorter list has no old part (InnoDB's `BUF_LRU_OLD_MIN_LEN`).
const MIN_LEN: usize = 512;

pub(crate) struct Mixed {
    /// The mixed region.
    pub(super) list: List,
    /// Pages behind the LRU-C pointer which the flusher has not taken over.
    pub(super) passed: List,
    /// The LRU-C pointer: the last page of `list`; [`NIL`] if it was never set or is at the head.
    pub(super) pointer: FrameId,
    /// The page nearest to the head among those that came back from behind the pointer; such pages
    /// fill the list from here to its tail.
    returned: FrameId,
    /// Eighths of the list that are old; none without a midpoint.
    old_eighths: usize,
    /// The first page of the old part.
    old_head: FrameId,
    old_len: usize,
}

impl Mixed {
    pub(super) fn new(old_eighths: usize) -> Self {
        Self {
            list: List::new(),
            passed: List::new(),
            pointer: NIL,
            returned: NIL,
            old_eighths,
            old_head: NIL,
            old_len: 0,
        }
    }

    /// Adds a page that was just read: at the midpoint, or at the head if there is none.
    pub(super) fn insert(&mut self, nodes: &impl Nodes, frame: FrameId) {
        if self.old_head == NIL {
            return self.push_young(nodes, frame);
        }
        self.list.insert_before(nodes, self.old_head, frame);
        nodes.node(frame).old.store(1, Relaxed);
        self.old_head = frame;
        self.old_len += 1;
        self.rebalance(nodes);
    }

    /// Adds a page at the head.
    pub(super) fn push_young(&mut self, nodes: &impl Nodes, frame: FrameId) {
        self.list.push_head(nodes, frame);
        nodes.node(frame).old.store(0, Relaxed);
        if self.old_eighths > 0 {
            self.rebalance(nodes);
        }
    }

    /// Adds a page that was written behind the pointer. It goes before every page that the pointer
    /// has not passed, and after those that came back earlier. The pointer steps back to it.
    pub(super) fn push_returned(&mut self, nodes: &impl Nodes, frame: FrameId) {
        let node = nodes.node(frame);
        let old = match self.returned {
            NIL => self.old_head != NIL,
            page => nodes.node(page).old.load(Relaxed) != 0,
        };
        if self.returned == NIL {
            self.list.push_tail(nodes, frame);
        } else {
            self.list.insert_before(nodes, self.returned, frame);
        }
        node.old.store(u32::from(old), Relaxed);
        if old {
            // The old part is a suffix: it begins with this page if it began right behind it.
            if self.list.after(nodes, frame) == self.old_head {
                self.old_head = frame;
            }
            self.old_len += 1;
        }
        self.returned = frame;
        self.pointer = self.list.tail;
        if self.old_eighths > 0 {
            self.rebalance(nodes);
        }
    }

    /// Takes a page out of the mixed region. If the pointer is at it, it steps towards the head.
    pub(super) fn unlink(&mut self, nodes: &impl Nodes, frame: FrameId) {
        if self.pointer == frame {
            self.pointer = self.list.before(nodes, frame);
        }
        if self.returned == frame {
            self.returned = self.list.after(nodes, frame);
        }
        let node = nodes.node(frame);
        if node.old.load(Relaxed) != 0 {
            if self.old_head == frame {
                self.old_head = self.list.after(nodes, frame);
            }
            self.old_len -= 1;
            node.old.store(0, Relaxed);
        }
        self.list.unlink(nodes, frame);
        if self.old_eighths > 0 {
            self.rebalance(nodes);
        }
    }

    /// Moves the boundary until the old part has its share, within the tolerance.
    fn rebalance(&mut self, nodes: &impl Nodes) {
        if self.list.len < MIN_LEN {
            while self.old_head != NIL {
                self.shrink_old(nodes);
            }
            return;
        }
        let target = self.list.len * self.old_eighths / 8;
        while self.old_len + TOLERANCE < target {
            let next = match self.old_head {
                NIL => self.list.tail,
                head => self.list.before(nodes, head),
            };
            nodes.node(next).old.store(1, Relaxed);
            self.old_head = next;
            self.old_len += 1;
        }
        while self.old_len > target + TOLERANCE {
            self.shrink_old(nodes);
        }
    }

    fn shrink_old(&mut self, nodes: &impl Nodes) {
        nodes.node(self.old_head).old.store(0, Relaxed);
        self.old_head = self.list.after(nodes, self.old_head);
        self.old_len -= 1;
    }

    /// The old part is a suffix of the list with the recorded length, and includes the pages that
    /// came back.
    #[cfg(any(test, loom))]
    pub(super) fn check_old(&self, nodes: &impl Nodes) {
        let frames = self.list.frames(nodes);
        assert!(self.returned == NIL || frames.contains(&self.returned));
        let old = frames.iter().position(|&f| nodes.node(f).old.load(Relaxed) != 0);
        match old {
            None => assert_eq!((self.old_head, self.old_len), (NIL, 0)),
            Some(at) => {
                assert_eq!((self.old_head, self.old_len), (frames[at], frames.len() - at));
                assert!(frames[at..].iter().all(|&f| nodes.node(f).old.load(Relaxed) != 0));
            }
        }
    }
}
