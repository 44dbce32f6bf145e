//! Children that share the memory of an event loop, inherit its connections and own none
//! (`victims/loopchild.c`).

use headworks_rig::LoopKind;

use crate::common::{Setup, Wire};
use crate::compile::Workshop;
use crate::gated::state;

#[test]
fn a_child_that_closes_what_it_inherited_ends_no_connection() {
    let Some(workshop) = Workshop::open() else { return };
    let setup = Setup::places(LoopKind::Redis, 1);
    let gate = setup.start_other(workshop.compile("loopchild.c", &[]));
    let mut owner = gate.occupy("owner");
    let mut idle = gate.user("idle");
    let mut held: Vec<Wire> = (0..3).map(|at| gate.user(&format!("held-{at}"))).collect();
    for round in 1..=3 {
        for (at, user) in held.iter_mut().enumerate() {
            user.tell(&["GET", "k"]);
            gate.wait_state(format!("held-{at}"), state::WAITING);
        }
        // In the midst of a transaction.
        owner.ask(&["VFORK"], "+QUEUED\r\n");
        let status = gate.status();
        let figures = ["users", "inside", "waiting"].map(|key| status.number(key));
        assert_eq!(figures, [5, 1, 3], "after child {round}: users, inside, waiting");
        assert!(status.counter("foreign") > 0);
        assert!(held[0].is_silent());
        owner.ask(&["EXEC"], "*1\r\n+DONE\r\n");
        for user in &mut held {
            user.expect("+OK\r\n");
        }
        idle.ask(&["GET", "k"], "+OK\r\n");
        owner.ask(&["MULTI"], "+OK\r\n");
        gate.wait_state("owner", state::INSIDE);
    }
    gate.release(owner);
    drop((idle, held));
    gate.wait("all are gone", |status| status.number("users") == 0);
    gate.wait_empty();
    let status = gate.status();
    for unexpected in ["panic", "cancelled", "stale", "hold_limit", "opaque_unknown"] {
        assert_eq!(status.counter(unexpected), 0, "{unexpected}");
    }
}
