//! The gate in front of two servers of MongoDB's protocol. One is mongo-java-server under a JVM:
//! its event loops are not told that a held user is ready. The other is a small server that reads
//! and writes as mongod does: its threads wait.
//!
//! What needs the JVM is skipped without it, or without what `scripts/setup java` fetches.

#[path = "gate_mongo/common.rs"]
mod common;
#[path = "victims/compile.rs"]
#[allow(dead_code)] // the victims use the rest
mod compile;
#[path = "gate_mongo/drivers.rs"]
mod drivers;
#[path = "gate/gated.rs"]
#[allow(dead_code)] // each suite uses a part of it
mod gated;
#[path = "gate_mongo/holds.rs"]
mod holds;
#[path = "../../hooks/tests/mongo_support/mod.rs"]
mod mongo_support;
