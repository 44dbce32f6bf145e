//! Children, which inherit every connection and own none.

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};

#[test]
fn a_child_that_closes_what_it_inherited_takes_no_place_away() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut occupant = server.occupant();
    let mut held = server.held(3);
    for how in ["fork", "vfork", "spawn"] {
        // The child is made by the thread that serves the transaction, in the midst of a request.
        assert!(occupant.query(how).unwrap().in_transaction(), "{how}");
        let figures = ["users", "inside", "waiting"].map(|key| server.figure(key));
        assert_eq!(figures, [4, 1, 3], "after {how}: users, inside, waiting");
    }
    // Only a child that shares its parent's memory is seen by the hooks; it is passed through.
    assert!(server.counter("foreign") > 0);
    for unexpected in ["panic", "cancelled", "stale", "hold_limit"] {
        assert_eq!(server.counter(unexpected), 0, "{unexpected}");
    }
    occupant.query("COMMIT").unwrap();
    for client in &mut held {
        client.read_answer().unwrap();
        client.query("SELECT 2").unwrap();
    }
    drop((occupant, held));
    crate::support::wait_until("all slots are free again", || server.figure("users") == 0);
    assert!(server.stop().0.success());
}

#[test]
fn a_connection_that_a_child_used_is_still_followed() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut client = server.connect();
    for how in ["vfork", "fork", "spawn", "fork"] {
        client.query(how).unwrap();
        client.query("BEGIN").unwrap();
        let mut held = server.held(1);
        client.query("COMMIT").unwrap();
        held[0].read_answer().unwrap();
    }
    assert_eq!(server.counter("opaque_unknown"), 0);
}
