//! The store from outside: a process, Debian's clients, and one that says what a test wants.

mod access;
mod bounds;
mod clients;
mod etcd;
mod fence;
mod learn;
mod life;
mod load;
mod ours;
mod raw;
mod rig;
mod trials;
