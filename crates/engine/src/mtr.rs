//! Mini-transactions: changes of some latched pages that get into the log together or not at all.

use crate::apply::apply;
use crate::node;
use crate::record::{Change, Origin, PageChange, Record};
use crate::store::Store;
use headworks_bufferpool::{Lsn, PageId, Wal, WriteGuard};

/// A mini-transaction. Every page stays latched until [`Mini::finish`].
///
/// From the first change to the end no step may fail: pages are latched and made before.
pub(crate) struct Mini<'s> {
    store: &'s Store,
    guards: Vec<(WriteGuard<'s>, bool)>,
    changes: Vec<PageChange>,
}

impl<'s> Mini<'s> {
    pub(crate) fn new(store: &'s Store) -> Self {
        Self { store, guards: Vec::new(), changes: Vec::new() }
    }

    /// Adds a latched page; returns its index.
    pub(crate) fn add(&mut self, guard: WriteGuard<'s>) -> usize {
        self.guards.push((guard, false));
        self.guards.len() - 1
    }

    pub(crate) fn page(&self, at: usize) -> &[u8] {
        &self.guards[at].0
    }

    pub(crate) fn id(&self, at: usize) -> PageId {
        self.guards[at].0.page()
    }

    /// Makes a change and notes it.
    pub(crate) fn change(&mut self, at: usize, change: Change) {
        let rec_lsn = self.store.log.end_lsn();
        let guard = &mut self.guards[at].0;
        apply(guard.change(rec_lsn), &change);
        self.changes.push(PageChange { page: guard.page(), before: guard.lsn(), change });
    }

    /// Makes any change; the log gets the page's final contents.
    pub(crate) fn rewrite(&mut self, at: usize, change: impl FnOnce(&mut [u8])) {
        let rec_lsn = self.store.log.end_lsn();
        let (guard, rewritten) = &mut self.guards[at];
        change(guard.change(rec_lsn));
        *rewritten = true;
    }

    /// Logs the changes, stamps the pages, releases them.
    pub(crate) fn finish(mut self, origin: Option<Origin>) {
        for (guard, rewritten) in &self.guards {
            if *rewritten {
                let (front, back) = node::image(guard);
                let image = Change::Image { front: front.to_vec(), back: back.to_vec() };
                let (page, before) = (guard.page(), guard.lsn());
                self.changes.push(PageChange { page, before, change: image });
            }
        }
        if self.changes.is_empty() && origin.is_none() {
            return;
        }
        let mut pages: Vec<PageId> = self.changes.iter().map(|change| change.page).collect();
        pages.sort_unstable();
        let lsn: Lsn = self.store.log.append(&Record::Mini { origin, changes: self.changes });
        for (mut guard, _) in self.guards {
            if pages.binary_search(&guard.page()).is_ok() {
                guard.set_lsn(lsn);
                self.store.health.changed(guard.page(), lsn);
            }
        }
    }
}
