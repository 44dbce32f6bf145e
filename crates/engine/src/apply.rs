//! Applies a logged change to a page: the first time, and in a replay.

use crate::node;
use crate::record::Change;

pub(crate) fn apply(page: &mut [u8], change: &Change) {
    match change {
        Change::Insert { slot, key, value } => node::insert(page, usize::from(*slot), key, value),
        Change::Remove { slot } => node::remove(page, usize::from(*slot)),
        Change::Set { slot, value } => node::set(page, usize::from(*slot), value),
        Change::Link { to } => node::set_link(page, *to),
        Change::Image { front, back } => node::restore(page, front, back),
    }
}
