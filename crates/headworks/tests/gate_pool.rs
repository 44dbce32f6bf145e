//! The gate in front of a real, unmodified MariaDB that serves its connections by a pool of
//! threads. Promises and tests are the same as with a thread for each connection. Tests that do not
//! depend on how a user is held are left out.

/// The server has a pool of threads.
const POOL: bool = true;

#[path = "gate/bypass.rs"]
mod bypass;
#[path = "gate/certificate.rs"]
mod certificate;
#[path = "gate/common.rs"]
#[allow(dead_code)] // the other crate of tests uses the rest
mod common;
#[path = "gate/conversation.rs"]
#[allow(dead_code)] // the other crate of tests uses the rest
mod conversation;
#[path = "gate/conversations.rs"]
mod conversations;
#[path = "gate/crowd.rs"]
mod crowd;
#[path = "gate/gated.rs"]
#[allow(dead_code)] // each suite uses a part of it
mod gated;
#[path = "gate/keeping.rs"]
mod keeping;
#[path = "gate/lending.rs"]
mod lending;
#[path = "gate/load.rs"]
mod load;
#[path = "gate/locks.rs"]
mod locks;
#[path = "gate/owner.rs"]
mod owner;
#[path = "gate/places.rs"]
mod places;
#[path = "gate/pool.rs"]
mod pool;
#[path = "gate/relay.rs"]
mod relay;
#[path = "gate/script.rs"]
#[allow(dead_code)] // the other crate of tests uses the rest
mod script;
#[path = "gate/stall.rs"]
mod stall;
#[path = "gate/tls.rs"]
mod tls;
#[path = "gate/transactions.rs"]
mod transactions;
