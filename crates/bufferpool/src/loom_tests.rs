//! Hits without a lock while other threads empty and fill the frame, under every interleaving:
//! `make loom`. (The list's models are next to the list.)

use crate::frames::{DIRTY, Frames};
use crate::ids::{FrameId, PageId, mix};
use crate::lru::{Claim, Nodes};
use crate::table::PageTable;
use loom::thread;
use std::sync::Arc;

const OLD: PageId = PageId(1);
const NEW: PageId = PageId(2);

/// Frame 0 holds the page, clean and unpinned.
fn one_page() -> (Arc<Frames>, Arc<PageTable>) {
    let frames = Frames::new(1);
    let table = Arc::new(PageTable::new(Arc::clone(&frames), 1, None));
    frames.get(0).set_page(OLD);
    table.lock(OLD).insert(0);
    frames.get(0).open_pinned();
    frames.get(0).unpin();
    (frames, table)
}

/// The steps of an eviction and the miss after it on a frame.
fn replace(frames: &Arc<Frames>, table: &PageTable) -> bool {
    if frames.claim(0) != Claim::Claimed {
        return false;
    }
    table.remove(OLD, 0);
    frames.get(0).set_page(NEW);
    table.lock(NEW).insert(0);
    frames.get(0).open_pinned();
    frames.get(0).unpin();
    true
}

/// A look-up that pins a frame has found its page, and keeps it.
#[test]
fn a_hit_and_an_eviction() {
    loom::model(|| {
        let (frames, table) = one_page();
        let other = (Arc::clone(&frames), Arc::clone(&table));
        let evicts = thread::spawn(move || replace(&other.0, &other.1));
        let pinned: Option<FrameId> = table.pin(OLD);
        if let Some(frame) = pinned {
            assert_eq!(
                frames.get(frame).page(),
                OLD,
                "the frame was filled again under the look-up"
            );
            frames.get(frame).unpin();
        }
        let replaced = evicts.join().unwrap();
        assert_eq!(frames.get(0).page(), if replaced { NEW } else { OLD });
        assert!(replaced || pinned.is_some(), "no other thread pins");
        assert!(!frames.get(0).is_pinned());
    });
}

/// A page that is dirtied under a pin is not evicted: the evicting thread checks again when no pin
/// is left.
#[test]
fn a_change_and_an_eviction() {
    loom::model(|| {
        let (frames, table) = one_page();
        let other = (Arc::clone(&frames), Arc::clone(&table));
        let changes = thread::spawn(move || {
            let (frames, table) = other;
            let pinned = table.pin(OLD);
            if let Some(frame) = pinned {
                frames.get(frame).set_flags(DIRTY);
                frames.get(frame).unpin();
            }
            pinned.is_some()
        });
        let replaced = replace(&frames, &table);
        let changed = changes.join().unwrap();
        assert!(!(replaced && changed), "a dirty page was dropped");
    });
}
