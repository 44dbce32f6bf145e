//! A storage server that many hosts share: the simulation of its decisions.
//!
//! The decisions are pure and belong to `policy`: who goes next (`policy::block`), which share a
//! target needs (`policy::learn`). The devices belong to `volume`. What has both, and neither
//! should know of the other, is here: two levels of schedulers in front of an array, and
//! controllers that learn beside them ([`sim`]). The experiments draw from it, and the server runs
//! the same code.
#![forbid(unsafe_code)]

pub mod sim;
