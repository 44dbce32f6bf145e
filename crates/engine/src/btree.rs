//! B+-trees with latch coupling.
//!
//! Readers descend with shared latches, taking each before they release its parent's. Writers do
//! the same, and latch the leaf exclusively. Only if the leaf must split they start again, with
//! exclusive latches from the lowest node that will not split. Latches are taken downwards and,
//! among leaves, to the right, so there is no deadlock. Nodes are never merged: an empty leaf stays
//! until keys of its range come again.
//!
//! With [`TreeLatch::Whole`](crate::TreeLatch) there is a latch of the whole tree above these. It
//! changes only which thread waits for which.

use crate::error::EngineError;
use crate::mtr::Mini;
use crate::node::{self, INNER, LEAF, MAX_KEY};
use crate::record::{Change, Origin};
use crate::store::Store;
use headworks_bufferpool::{Lsn, PageId, ReadGuard, WriteGuard};
use std::cell::Cell;

/// The leaf where a key belongs.
fn leaf_read<'s>(store: &'s Store, root: PageId, key: &[u8]) -> Result<ReadGuard<'s>, EngineError> {
    let _tree = store.tree_shared(root);
    let mut guard = store.read(root)?;
    while node::kind(&guard) == INNER {
        // The old latch is released once the new one is held.
        guard = store.read(node::child(&guard, key))?;
    }
    Ok(guard)
}

fn leaf_write<'s>(
    store: &'s Store,
    root: PageId,
    key: &[u8],
) -> Result<WriteGuard<'s>, EngineError> {
    let _tree = store.tree_shared(root);
    loop {
        let mut guard = store.read(root)?;
        if node::level(&guard) == 0 {
            drop(guard);
            let guard = store.write(root)?;
            if node::level(&guard) == 0 {
                return Ok(guard);
            }
            // The root was split between the two latches.
            continue;
        }
        loop {
            let child = node::child(&guard, key);
            if node::level(&guard) == 1 {
                return store.write(child);
            }
            guard = store.read(child)?;
        }
    }
}

/// Notes the last change of a page that was read.
fn see(seen: &Cell<Lsn>, page: &ReadGuard<'_>) {
    seen.set(seen.get().max(page.lsn()));
}

/// Reads the pages down to a key's leaf: an error if one can be neither read nor changed.
pub(crate) fn probe(store: &Store, root: PageId, key: &[u8]) -> Result<(), EngineError> {
    leaf_read(store, root, key).map(drop)
}

/// The value of a key.
pub(crate) fn get(
    store: &Store,
    root: PageId,
    key: &[u8],
    seen: &Cell<Lsn>,
) -> Result<Option<Vec<u8>>, EngineError> {
    let leaf = leaf_read(store, root, key)?;
    see(seen, &leaf);
    Ok(node::find(&leaf, key).ok().map(|slot| node::value(&leaf, slot).to_vec()))
}

/// Visits the rows with `from` ≤ key < `to` in order until `visit` returns false.
///
/// No latch is held between leaves: rows inserted or removed meanwhile may be visited or not.
pub(crate) fn scan(
    store: &Store,
    root: PageId,
    from: &[u8],
    to: &[u8],
    seen: &Cell<Lsn>,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), EngineError> {
    let mut leaf = leaf_read(store, root, from)?;
    see(seen, &leaf);
    let mut slot = node::find(&leaf, from).unwrap_or_else(|slot| slot);
    loop {
        while slot < node::count(&leaf) {
            let key = node::key(&leaf, slot);
            if key >= to || !visit(key, node::value(&leaf, slot)) {
                return Ok(());
            }
            slot += 1;
        }
        let next = node::link(&leaf);
        drop(leaf);
        if next == PageId(0) {
            return Ok(());
        }
        leaf = store.read(next)?;
        see(seen, &leaf);
        slot = 0;
    }
}

/// Sets (or, with `None`, removes) the value of a key.
pub(crate) fn put(
    store: &Store,
    root: PageId,
    key: &[u8],
    value: Option<&[u8]>,
    origin: Option<Origin>,
) -> Result<(), EngineError> {
    let leaf = leaf_write(store, root, key)?;
    let found = node::find(&leaf, key);
    let len = value.map_or(0, <[u8]>::len);
    let fits = match found {
        Ok(slot) => value.is_none() || node::can_set(&leaf, slot, len),
        Err(_) => value.is_none() || node::free(&leaf) >= node::needed(key.len(), len),
    };
    if !fits {
        drop(leaf);
        return put_splitting(store, root, key, value.unwrap_or_default(), origin);
    }
    let mut mini = Mini::new(store);
    let leaf = mini.add(leaf);
    put_in(&mut mini, leaf, key, value);
    mini.finish(origin);
    Ok(())
}

/// Changes a leaf in which there is room.
fn put_in(mini: &mut Mini<'_>, leaf: usize, key: &[u8], value: Option<&[u8]>) {
    // A page has fewer than 2^16 slots.
    let change = match (node::find(mini.page(leaf), key), value) {
        (Ok(slot), Some(value)) => Change::Set { slot: slot as u16, value: value.to_vec() },
        (Ok(slot), None) => Change::Remove { slot: slot as u16 },
        (Err(slot), Some(value)) => {
            Change::Insert { slot: slot as u16, key: key.to_vec(), value: value.to_vec() }
        }
        (Err(_), None) => return,
    };
    mini.change(leaf, change);
}

/// Whether a put of this size cannot split the node.
fn is_safe(page: &[u8], key: usize, value: usize) -> bool {
    let (key, value) = if node::kind(page) == INNER { (MAX_KEY, 8) } else { (key, value) };
    node::free(page) >= node::needed(key, value)
}

fn put_splitting(
    store: &Store,
    root: PageId,
    key: &[u8],
    value: &[u8],
    origin: Option<Origin>,
) -> Result<(), EngineError> {
    let _tree = store.tree_exclusive(root);
    // From the lowest safe node (or the root) down to the leaf.
    let mut path = vec![store.write(root)?];
    while let Some(last) = path.last()
        && node::kind(last) == INNER
    {
        let child = store.write(node::child(last, key))?;
        if is_safe(&child, key.len(), value.len()) {
            path.clear();
        }
        path.push(child);
    }
    let grow = !is_safe(&path[0], key.len(), value.len());
    let splits = if grow { path.len() + 1 } else { path.len() - 1 };
    let mut fresh = Vec::with_capacity(splits);
    for _ in 0..splits {
        fresh.push(store.new_page()?);
    }
    // From here on no step may fail.
    let mut mini = Mini::new(store);
    let mut path: Vec<usize> = path.into_iter().map(|guard| mini.add(guard)).collect();
    let mut fresh: Vec<usize> = fresh.into_iter().map(|guard| mini.add(guard)).collect();
    if grow && let Some(below) = fresh.pop() {
        // The root keeps its page; its contents move into a new page below it.
        let held = mini.page(path[0])[24..].to_vec();
        let level = node::level(mini.page(path[0]));
        let child = mini.id(below);
        mini.rewrite(below, |page| page[24..].copy_from_slice(&held));
        mini.rewrite(path[0], |page| {
            node::init(page, INNER, level + 1);
            node::set_link(page, child);
        });
        path.insert(1, below);
    }
    for at in 1..path.len() {
        if let Some(right) = fresh.pop() {
            path[at] = split(&mut mini, path[at - 1], path[at], right, key);
        }
    }
    let leaf = path[path.len() - 1];
    mini.rewrite(leaf, |page| match node::find(page, key) {
        Ok(slot) => node::set(page, slot, value),
        Err(slot) => node::insert(page, slot, key, value),
    });
    mini.finish(origin);
    Ok(())
}

/// Splits a node in two; returns the half where `key` belongs.
fn split(mini: &mut Mini<'_>, parent: usize, left: usize, right: usize, key: &[u8]) -> usize {
    let page = mini.page(left);
    let (kind, level, link) = (node::kind(page), node::level(page), node::link(page));
    let mut cells = node::cells(page);
    let middle = split_point(&cells, key);
    let mut moved = cells.split_off(middle);
    let separator = moved[0].0.clone();
    let right_link = if kind == LEAF {
        link
    } else {
        // The separator goes up; its child becomes the leftmost of the right half.
        let (_, child) = moved.remove(0);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&child);
        PageId(u64::from_le_bytes(bytes))
    };
    let right_id = mini.id(right);
    mini.rewrite(right, |page| {
        node::init(page, kind, level);
        node::set_link(page, right_link);
        node::rebuild(page, &moved);
    });
    mini.rewrite(left, |page| {
        node::rebuild(page, &cells);
        if kind == LEAF {
            node::set_link(page, right_id);
        }
    });
    let goes_right = key >= separator.as_slice();
    mini.rewrite(parent, |page| {
        let slot = node::find(page, &separator).unwrap_or_else(|slot| slot);
        node::insert(page, slot, &separator, &right_id.0.to_le_bytes());
    });
    if goes_right { right } else { left }
}

/// Half of the bytes; but if keys are ascending, the left node stays full.
fn split_point(cells: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> usize {
    let last = cells.len() - 1;
    if key > cells[last].0.as_slice() {
        return last;
    }
    let size = |cell: &(Vec<u8>, Vec<u8>)| node::needed(cell.0.len(), cell.1.len());
    let half = cells.iter().map(size).sum::<usize>() / 2;
    let mut sum = 0;
    let at = cells.iter().position(|cell| {
        sum += size(cell);
        sum > half
    });
    at.unwrap_or(last).clamp(1, last)
}
