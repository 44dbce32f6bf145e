//! Files of settings: where in the text a mistake is, and what to write instead.
#![forbid(unsafe_code)]

mod check;
mod explain;
mod place;
mod words;

pub use check::{choice, within, word};
pub use explain::explain;
pub use place::{Mistake, Place};
pub use words::{did_you_mean, nearest};
