//! The gate in front of servers with event loops, real and unmodified: Redis, memcached, and
//! MariaDB with its pool of threads. Its promises, each with a test that fails when the promise is
//! broken.
//!
//! Every test starts a separate server. The times after which a held request passes (longest hold,
//! stall detector) are far longer than a test, unless they are its subject.

#[path = "gate/certificate.rs"]
mod certificate;
#[path = "gate_loops/children.rs"]
mod children;
#[path = "gate_loops/common.rs"]
mod common;
#[path = "victims/compile.rs"]
mod compile;
#[path = "gate_loops/failures.rs"]
mod failures;
#[path = "gate/gated.rs"]
#[allow(dead_code)] // each suite uses a part of it
mod gated;
#[path = "gate_loops/memcached.rs"]
mod memcached;
#[path = "gate_loops/redis.rs"]
mod redis;
#[path = "gate_loops/shares.rs"]
mod shares;
#[path = "gate_loops/tls.rs"]
mod tls;
#[path = "gate_loops/tls_edges.rs"]
mod tls_edges;
#[path = "gate_loops/tls_kept.rs"]
mod tls_kept;
