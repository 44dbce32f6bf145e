//! What the programs of this project share at a terminal: how they begin and end, tables, figures
//! with units, examples and manual pages.

mod examples;
mod format;
mod ink;
pub mod man;
mod program;
mod spark;
mod table;

pub use examples::{faults, with_examples};
pub use format::{count, duration, maybe_duration, maybe_ratio, printable, rate};
pub use ink::{Ink, Tone};
pub use program::{become_program, find_program, main, parse, program, terminal_width};
pub use spark::sparkline;
pub use table::{Column, Sheet, Table};
