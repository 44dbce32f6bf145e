//! The gate in front of a real, unmodified PostgreSQL: its promises, each with a test that fails
//! when the promise is broken.
//!
//! Every test starts a separate server. The times after which a held request passes (longest hold,
//! stall detector) are far longer than a test, unless they are its subject.

#[path = "gate_pg/backends.rs"]
mod backends;
#[path = "gate_pg/busy.rs"]
mod busy;
#[path = "gate_pg/bypass.rs"]
mod bypass;
#[path = "gate/certificate.rs"]
mod certificate;
#[path = "gate_pg/common.rs"]
mod common;
#[path = "victims/compile.rs"]
mod compile;
#[path = "gate/gated.rs"]
#[allow(dead_code)] // each suite uses a part of it
mod gated;
#[path = "gate_pg/held.rs"]
mod held;
#[path = "gate_pg/lending.rs"]
mod lending;
#[path = "gate_pg/locks.rs"]
mod locks;
#[path = "gate/neighbours.rs"]
mod neighbours;
#[path = "gate_pg/places.rs"]
mod places;
#[path = "gate_pg/pooler.rs"]
mod pooler;
#[path = "gate/script.rs"]
mod script;
#[path = "gate_pg/start.rs"]
mod start;
#[path = "gate_pg/tls.rs"]
mod tls;
#[path = "gate_pg/wire.rs"]
mod wire;
