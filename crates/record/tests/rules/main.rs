//! The rules, on recordings: made ones, and real ones that were kept.

mod kept;
mod limits;
mod made;
mod names;
mod traces;
mod unfed;
mod waking;
