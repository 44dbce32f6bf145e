//! The store from outside: a process, Debian's clients, and one that says what a test wants.

mod access;
mod bounds;
mod clients;
mod etcd;
mod faults;
mod fence;
mod follow;
mod fuzz;
mod kills;
mod learn;
mod life;
mod limits;
mod load;
mod neighbours;
mod ours;
mod raw;
mod rig;
mod settings;
mod trials;
