//! The pool under an index of a user: a B+-tree with a fixed fan-out, in some hundred lines.
//!
//! `cargo run -p headworks-bufferpool --example btree`
//!
//! It shows what an engine needs: pages that are created, read and changed under latches, latch
//! coupling from the root to a leaf, splits, and a scan over the leaves that reads ahead. It has no
//! log: what is not closed is lost.

use headworks_bufferpool::storage::{FileOptions, FileStorage};
use headworks_bufferpool::{
    BufferPool, Lsn, PAGE_HEADER_BYTES, PageId, PoolConfig, PoolError, WriteGuard,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGES: u64 = 20_000;
const KEYS: u64 = 200_000;
const ROOT: PageId = PageId(0);
/// Behind the pool's header: whether it is a leaf, the number of entries, the next leaf.
const FIRST: usize = PAGE_HEADER_BYTES + 16;
/// An entry is a key and a value, or in inner pages a key and the page for keys from there on.
const ENTRY: usize = 16;
/// There is no log here: every change is at the same place.
const NO_LOG: Lsn = Lsn(1);

/// A page of the tree, whichever guard holds it.
struct Node<'b>(&'b [u8]);

impl Node<'_> {
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }

    fn is_leaf(&self) -> bool {
        self.0[PAGE_HEADER_BYTES] == 1
    }

    fn len(&self) -> usize {
        self.0[PAGE_HEADER_BYTES + 4..][..2].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b))
    }

    fn next(&self) -> PageId {
        PageId(self.word(PAGE_HEADER_BYTES + 8))
    }

    fn entry(&self, at: usize) -> (u64, u64) {
        (self.word(FIRST + at * ENTRY), self.word(FIRST + at * ENTRY + 8))
    }

    /// The number of entries with keys up to this one.
    fn up_to(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.entry(middle).0 <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn is_full(&self) -> bool {
        FIRST + (self.len() + 1) * ENTRY > self.0.len()
    }
}

fn shape(bytes: &mut [u8], leaf: bool, len: usize, next: PageId) {
    bytes[PAGE_HEADER_BYTES] = u8::from(leaf);
    bytes[PAGE_HEADER_BYTES + 4..][..2].copy_from_slice(&(len as u16).to_le_bytes());
    bytes[PAGE_HEADER_BYTES + 8..][..8].copy_from_slice(&next.0.to_le_bytes());
}

fn put_entry(bytes: &mut [u8], at: usize, (key, value): (u64, u64)) {
    bytes[FIRST + at * ENTRY..][..8].copy_from_slice(&key.to_le_bytes());
    bytes[FIRST + at * ENTRY + 8..][..8].copy_from_slice(&value.to_le_bytes());
}

struct Tree {
    pool: BufferPool,
    pages: AtomicU64,
}

impl Tree {
    fn create(pool: BufferPool) -> Result<Tree, PoolError> {
        shape(pool.create(ROOT, NO_LOG)?.change(NO_LOG), true, 0, PageId(0));
        Ok(Tree { pool, pages: AtomicU64::new(1) })
    }

    fn get(&self, key: u64) -> Result<Option<u64>, PoolError> {
        let mut guard = self.pool.read(ROOT)?;
        loop {
            let node = Node(&guard);
            let at = node.up_to(key);
            if node.is_leaf() {
                let found = at.checked_sub(1).map(|at| node.entry(at));
                return Ok(found.filter(|entry| entry.0 == key).map(|entry| entry.1));
            }
            // The child's latch is taken before this page's is released.
            let child = self.pool.read(PageId(node.entry(at.max(1) - 1).1))?;
            guard = child;
        }
    }

    fn insert(&self, key: u64, value: u64) -> Result<(), PoolError> {
        let mut guard = self.pool.write(ROOT)?;
        if Node(&guard).is_full() {
            self.grow(&mut guard)?;
        }
        loop {
            let node = Node(&guard);
            let at = node.up_to(key);
            if node.is_leaf() {
                let len = node.len();
                let (next, old) = (node.next(), at.checked_sub(1).map(|at| node.entry(at).0));
                let bytes = guard.change(NO_LOG);
                if old == Some(key) {
                    put_entry(bytes, at - 1, (key, value));
                } else {
                    bytes.copy_within(
                        FIRST + at * ENTRY..FIRST + len * ENTRY,
                        FIRST + (at + 1) * ENTRY,
                    );
                    put_entry(bytes, at, (key, value));
                    shape(bytes, true, len + 1, next);
                }
                return Ok(());
            }
            let at = at.max(1) - 1;
            let mut child = self.pool.write(PageId(node.entry(at).1))?;
            if Node(&child).is_full() {
                // A page has room for one entry more before its child may need it.
                let (middle, right) = self.split(&mut child)?;
                let node = Node(&guard);
                let (len, next) = (node.len(), node.next());
                let bytes = guard.change(NO_LOG);
                bytes.copy_within(
                    FIRST + (at + 1) * ENTRY..FIRST + len * ENTRY,
                    FIRST + (at + 2) * ENTRY,
                );
                put_entry(bytes, at + 1, (middle, right.page().0));
                shape(bytes, false, len + 1, next);
                guard = if key >= middle { right } else { child };
            } else {
                guard = child;
            }
        }
    }

    /// Moves the upper half of a page to a fresh one. Returns its first key, and the page.
    fn split<'p>(&'p self, left: &mut WriteGuard<'p>) -> Result<(u64, WriteGuard<'p>), PoolError> {
        let mut right = self.pool.create(self.fresh(), NO_LOG)?;
        let node = Node(left);
        let (len, leaf, next) = (node.len(), node.is_leaf(), node.next());
        let half = len / 2;
        let bytes = right.change(NO_LOG);
        bytes[FIRST..FIRST + (len - half) * ENTRY]
            .copy_from_slice(&left[FIRST + half * ENTRY..FIRST + len * ENTRY]);
        shape(bytes, leaf, len - half, next);
        let page = right.page();
        shape(left.change(NO_LOG), leaf, half, page);
        Ok((Node(&right).entry(0).0, right))
    }

    /// The root keeps its number: its entries move down.
    fn grow(&self, root: &mut WriteGuard<'_>) -> Result<(), PoolError> {
        let mut left = self.pool.create(self.fresh(), NO_LOG)?;
        left.change(NO_LOG)[PAGE_HEADER_BYTES..].copy_from_slice(&root[PAGE_HEADER_BYTES..]);
        let low = Node(&left).entry(0).0;
        let (middle, right) = self.split(&mut left)?;
        let bytes = root.change(NO_LOG);
        put_entry(bytes, 0, (low, left.page().0));
        put_entry(bytes, 1, (middle, right.page().0));
        shape(bytes, false, 2, PageId(0));
        Ok(())
    }

    fn fresh(&self) -> PageId {
        PageId(self.pages.fetch_add(1, Ordering::Relaxed))
    }

    /// Visits all entries in order.
    fn scan(&self, visit: &mut dyn FnMut(u64, u64)) -> Result<(), PoolError> {
        let mut guard = self.pool.read(ROOT)?;
        while !Node(&guard).is_leaf() {
            let child = self.pool.read(PageId(Node(&guard).entry(0).1))?;
            guard = child;
        }
        loop {
            let node = Node(&guard);
            (0..node.len()).for_each(|at| {
                let (key, value) = node.entry(at);
                visit(key, value);
            });
            let next = node.next();
            if next == PageId(0) {
                return Ok(());
            }
            drop(guard);
            self.pool.prefetch(
                (next.0..next.0 + 8)
                    .map(PageId)
                    .filter(|page| page.0 < self.pages.load(Ordering::Relaxed)),
            )?;
            guard = self.pool.read(next)?;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("headworks-btree-{}.pages", std::process::id()));
    let options = FileOptions { page_size: 4096, ..FileOptions::default() };
    let storage = Arc::new(FileStorage::create(&path, PAGES, options)?);
    // A quarter of the tree fits.
    let config = PoolConfig { frames: 400, page_size: 4096, ..PoolConfig::default() };
    let tree = Tree::create(BufferPool::builder(config, storage).build()?)?;
    // In an order that jumps about: 7,919 and the number of keys have no common factor.
    for at in 0..KEYS {
        let key = at * 7_919 % KEYS;
        tree.insert(key, key * 3)?;
    }
    for key in [0, 1, KEYS / 2, KEYS - 1] {
        assert_eq!(tree.get(key)?, Some(key * 3));
    }
    assert_eq!(tree.get(KEYS)?, None);
    let mut expected = 0;
    tree.scan(&mut |key, value| {
        assert_eq!((key, value), (expected, expected * 3));
        expected += 1;
    })?;
    assert_eq!(expected, KEYS);
    let stats = tree.pool.stats();
    println!(
        "{KEYS} keys in {} pages: {} misses, {} hits, {} dirty pages left",
        tree.pages.load(Ordering::Relaxed),
        stats.misses,
        stats.hits,
        stats.dirty_pages
    );
    tree.pool.close()?;
    std::fs::remove_file(&path)?;
    Ok(())
}
