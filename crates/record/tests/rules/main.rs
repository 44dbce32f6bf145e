//! The rules, on recordings: made ones, and real ones that were kept.

mod answers;
mod kept;
mod limits;
mod made;
mod names;
mod ordered;
mod past;
mod paused;
mod strangers;
mod traces;
mod unfed;
mod waking;
