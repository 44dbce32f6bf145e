//! A storage server that many hosts share, and the simulation of its decisions.
//!
//! The decisions are pure and belong to `policy`: who goes next (`policy::block`), which share a
//! target needs (`policy::learn`). The devices, their queue and NBD belong to `volume`. What has
//! both, and neither should know of the other, is here.
//!
//! ```text
//!  client - volume::nbd - front - engine (ledger, scheduler) - pool - volumes
//!                          |        ^ shares         | figures
//!                         desk - governor <----------+
//! ```
//!
//! [`server`] has the threads, and [`running`] what they share. [`front`] says what a client may
//! open and whose its requests are ([`apps`]). [`admission`] bounds what is read of them.
//! [`number`] bounds what comes from outside. [`governor`] sets the shares, by need and lag or by a
//! [`rival`]. [`sim`] has the same policies in simulated time.
#![forbid(unsafe_code)]

pub mod admission;
pub mod apps;
pub mod config;
pub mod control;
pub mod error;
pub mod etcd;
pub mod front;
pub mod governor;
pub mod learner;
pub mod ledger;
pub mod membership;
pub mod metrics;
pub mod note;
pub mod notices;
pub mod number;
pub mod pool;
pub mod processors;
pub mod rival;
pub mod running;
pub mod server;
pub mod sim;
pub mod tls;
pub mod volumes;
pub mod who;
pub mod window;
