//! The inside of a slotted page: sorted cells of key and value. Pure functions over bytes.
//!
//! | bytes | content |
//! | --- | --- |
//! | 24 | kind: 1 leaf, 2 inner node, 3 heap |
//! | 25 | level: 0 for leaves |
//! | 26..28 | cells |
//! | 28..30 | where the cells begin; they fill the page from its end |
//! | 30..32 | bytes of removed cells among them |
//! | 32..40 | leaf, heap: the next page, 0 for none; inner node: the child left of all keys |
//! | 40.. | offsets of the cells, in key order, two bytes each |
//!
//! A cell is key length, value length (two bytes each), key, value. An inner node's values are
//! children: the pages of keys from the cell's key on.

use headworks_bufferpool::PageId;

pub(crate) const LEAF: u8 = 1;
pub(crate) const INNER: u8 = 2;
pub(crate) const HEAP: u8 = 3;
/// Longest key.
pub(crate) const MAX_KEY: usize = 256;

/// Bytes before this are the pool's.
pub(crate) const FIRST_BYTE: usize = 24;

const SLOTS: usize = 40;

fn get16(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

fn put16(page: &mut [u8], at: usize, value: usize) {
    // Offsets and counts lie within a page of at most 32 KiB.
    page[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

pub(crate) fn init(page: &mut [u8], kind: u8, level: u8) {
    page[24] = kind;
    page[25] = level;
    let end = page.len();
    put16(page, 26, 0);
    put16(page, 28, end);
    put16(page, 30, 0);
    set_link(page, PageId(0));
}

pub(crate) fn kind(page: &[u8]) -> u8 {
    page[24]
}

pub(crate) fn level(page: &[u8]) -> u8 {
    page[25]
}

pub(crate) fn count(page: &[u8]) -> usize {
    get16(page, 26)
}

pub(crate) fn link(page: &[u8]) -> PageId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[32..40]);
    PageId(u64::from_le_bytes(bytes))
}

pub(crate) fn set_link(page: &mut [u8], to: PageId) {
    page[32..40].copy_from_slice(&to.0.to_le_bytes());
}

fn cell(page: &[u8], slot: usize) -> (usize, usize, usize) {
    let at = get16(page, SLOTS + 2 * slot);
    (at, get16(page, at), get16(page, at + 2))
}

pub(crate) fn key(page: &[u8], slot: usize) -> &[u8] {
    let (at, key, _) = cell(page, slot);
    &page[at + 4..at + 4 + key]
}

pub(crate) fn value(page: &[u8], slot: usize) -> &[u8] {
    let (at, key, value) = cell(page, slot);
    &page[at + 4 + key..at + 4 + key + value]
}

/// The slot of a key, or the slot where it would be inserted.
pub(crate) fn find(page: &[u8], wanted: &[u8]) -> Result<usize, usize> {
    let (mut low, mut high) = (0, count(page));
    while low < high {
        let middle = low.midpoint(high);
        match key(page, middle).cmp(wanted) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// The child of an inner node that covers a key.
pub(crate) fn child(page: &[u8], wanted: &[u8]) -> PageId {
    let slot = match find(page, wanted) {
        Ok(slot) => slot + 1,
        Err(slot) => slot,
    };
    if slot == 0 { link(page) } else { child_at(page, slot - 1) }
}

fn child_at(page: &[u8], slot: usize) -> PageId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(value(page, slot));
    PageId(u64::from_le_bytes(bytes))
}

/// Free bytes, including those of removed cells.
pub(crate) fn free(page: &[u8]) -> usize {
    get16(page, 28) - (SLOTS + 2 * count(page)) + get16(page, 30)
}

/// Bytes that a cell takes with its slot.
pub(crate) fn needed(key: usize, value: usize) -> usize {
    6 + key + value
}

/// Puts a cell at a slot. The caller has checked that it fits.
pub(crate) fn insert(page: &mut [u8], slot: usize, key: &[u8], value: &[u8]) {
    let need = needed(key.len(), value.len());
    if get16(page, 28) - (SLOTS + 2 * count(page)) < need {
        compact(page);
    }
    let count = count(page);
    let at = get16(page, 28) - (need - 2);
    put16(page, at, key.len());
    put16(page, at + 2, value.len());
    page[at + 4..at + 4 + key.len()].copy_from_slice(key);
    page[at + 4 + key.len()..at + need - 2].copy_from_slice(value);
    let from = SLOTS + 2 * slot;
    page.copy_within(from..SLOTS + 2 * count, from + 2);
    put16(page, from, at);
    put16(page, 26, count + 1);
    put16(page, 28, at);
}

/// Removes the cell of a slot.
pub(crate) fn remove(page: &mut [u8], slot: usize) {
    let (_, key, value) = cell(page, slot);
    let count = count(page);
    let garbage = get16(page, 30) + 4 + key + value;
    put16(page, 30, garbage);
    let from = SLOTS + 2 * slot;
    page.copy_within(from + 2..SLOTS + 2 * count, from);
    put16(page, 26, count - 1);
}

/// Whether the cell's value can become `len` bytes long.
pub(crate) fn can_set(page: &[u8], slot: usize, len: usize) -> bool {
    let (_, _, old) = cell(page, slot);
    len <= old || free(page) + old >= len
}

/// Replaces the value of a slot. The caller has checked that it fits.
pub(crate) fn set(page: &mut [u8], slot: usize, new: &[u8]) {
    let (at, key_len, old) = cell(page, slot);
    if new.len() <= old {
        let from = at + 4 + key_len;
        page[from..from + new.len()].copy_from_slice(new);
        put16(page, at + 2, new.len());
        let garbage = get16(page, 30) + old - new.len();
        put16(page, 30, garbage);
        return;
    }
    let key = key(page, slot).to_vec();
    remove(page, slot);
    insert(page, slot, &key, new);
}

/// Compacts the cells at the end of the page.
fn compact(page: &mut [u8]) {
    let cells: Vec<(Vec<u8>, Vec<u8>)> = (0..count(page))
        .map(|slot| (key(page, slot).to_vec(), value(page, slot).to_vec()))
        .collect();
    rebuild(page, &cells);
}

/// Replaces all cells.
pub(crate) fn rebuild(page: &mut [u8], cells: &[(Vec<u8>, Vec<u8>)]) {
    let (kind, level, link) = (kind(page), level(page), link(page));
    init(page, kind, level);
    set_link(page, link);
    for (slot, (key, value)) in cells.iter().enumerate() {
        insert(page, slot, key, value);
    }
}

/// All cells.
pub(crate) fn cells(page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count(page)).map(|slot| (key(page, slot).to_vec(), value(page, slot).to_vec())).collect()
}

/// The page without the hole in its middle, for the log.
pub(crate) fn image(page: &[u8]) -> (&[u8], &[u8]) {
    (&page[24..SLOTS + 2 * count(page)], &page[get16(page, 28)..])
}

/// Puts an image back.
pub(crate) fn restore(page: &mut [u8], front: &[u8], back: &[u8]) {
    page[24..24 + front.len()].copy_from_slice(front);
    let from = page.len() - back.len();
    page[from..].copy_from_slice(back);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Random inserts, removals and replacements against a map; the page compacts on the way.
    #[test]
    fn a_page_behaves_like_a_map() {
        let mut page = vec![0; 4096];
        init(&mut page, LEAF, 0);
        let mut model = BTreeMap::new();
        let mut random = 7u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = vec![(random >> 40) as u8; 1 + (random >> 33) as usize % 5];
            let new = vec![(random >> 50) as u8; (random >> 55) as usize % 60];
            match find(&page, &key) {
                Ok(slot) if random >> 62 == 0 => {
                    remove(&mut page, slot);
                    model.remove(&key);
                }
                Ok(slot) if can_set(&page, slot, new.len()) => {
                    set(&mut page, slot, &new);
                    model.insert(key, new);
                }
                Err(slot) if free(&page) >= needed(key.len(), new.len()) => {
                    insert(&mut page, slot, &key, &new);
                    model.insert(key, new);
                }
                _ => {}
            }
        }
        assert!(model.len() > 50);
        assert_eq!(cells(&page), model.into_iter().collect::<Vec<_>>());
        let (front, back) = image(&page);
        let mut copy = vec![0; 4096];
        restore(&mut copy, front, back);
        assert_eq!(cells(&copy), cells(&page));
    }
}
