//! The gate in front of a real, unmodified MariaDB: its promises, each with a test that fails when
//! the promise is broken.
//!
//! Every test starts a separate server. The times after which a held request passes (longest hold,
//! stall detector) are far longer than a test, unless they are its subject. So a held request stays
//! held until the test lets it go.

/// The server has a thread for each connection.
const POOL: bool = false;

#[path = "gate/busy.rs"]
mod busy;
#[path = "gate/bypass.rs"]
mod bypass;
#[path = "gate/certificate.rs"]
mod certificate;
#[path = "gate/cgroups.rs"]
mod cgroups;
#[path = "gate/common.rs"]
mod common;
#[path = "gate/conversation.rs"]
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
#[path = "gate/modes.rs"]
mod modes;
#[path = "gate/neighbours.rs"]
mod neighbours;
#[path = "gate/opaque.rs"]
mod opaque;
#[path = "gate/owner.rs"]
mod owner;
#[path = "gate/places.rs"]
mod places;
#[path = "gate/relay.rs"]
mod relay;
#[path = "gate/replication.rs"]
mod replication;
#[path = "gate/script.rs"]
mod script;
#[path = "gate/stall.rs"]
mod stall;
#[path = "gate/tls.rs"]
mod tls;
#[path = "gate/transactions.rs"]
mod transactions;
#[path = "gate/tuning.rs"]
mod tuning;
#[path = "gate/weights.rs"]
mod weights;
