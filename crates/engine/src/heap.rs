//! Heap files: rows in order of insertion, without keys.
//!
//! The root page links to the last page of rows, each page of rows to the one before it.

use crate::error::EngineError;
use crate::mtr::Mini;
use crate::node;
use crate::record::{Change, Origin};
use crate::store::Store;
use headworks_bufferpool::PageId;

/// Reads the pages that an appended row needs: an error if that fails.
pub(crate) fn probe(store: &Store, root: PageId) -> Result<(), EngineError> {
    let last = node::link(&store.read(root)?);
    if last == PageId(0) { Ok(()) } else { store.read(last).map(drop) }
}

/// Adds a row at the end. Appenders take turns at the root's latch.
pub(crate) fn append(
    store: &Store,
    root: PageId,
    row: &[u8],
    origin: Option<Origin>,
) -> Result<(), EngineError> {
    let root = store.write(root)?;
    let last = node::link(&root);
    if last != PageId(0) {
        let page = store.write(last)?;
        if node::free(&page) >= node::needed(0, row.len()) {
            let mut mini = Mini::new(store);
            // A page has fewer than 2^16 slots.
            let slot = node::count(&page) as u16;
            let page = mini.add(page);
            mini.change(page, Change::Insert { slot, key: Vec::new(), value: row.to_vec() });
            mini.finish(origin);
            return Ok(());
        }
    }
    let fresh = store.new_page()?;
    let mut mini = Mini::new(store);
    let (root, fresh) = (mini.add(root), mini.add(fresh));
    let id = mini.id(fresh);
    mini.rewrite(fresh, |page| {
        node::init(page, node::HEAP, 0);
        node::set_link(page, last);
        node::insert(page, 0, &[], row);
    });
    mini.change(root, Change::Link { to: id });
    mini.finish(origin);
    Ok(())
}

/// Visits all rows, the latest page first.
pub(crate) fn scan(
    store: &Store,
    root: PageId,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<(), EngineError> {
    let mut at = node::link(&store.read(root)?);
    while at != PageId(0) {
        let page = store.read(at)?;
        (0..node::count(&page)).for_each(|slot| visit(node::value(&page, slot)));
        at = node::link(&page);
    }
    Ok(())
}
