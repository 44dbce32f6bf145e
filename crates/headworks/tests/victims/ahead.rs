//! The read that a server makes before it sleeps may be left out: nobody waits for it.

use headworks_rig::wire::packet;

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};

/// `COM_QUERY`.
const QUERY: u8 = 3;

#[test]
fn a_client_that_begins_to_write_ahead_is_answered_although_reads_were_left_out() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut client = server.connect();
    // It waits for each answer: the server finds nothing when it reads again.
    for _ in 0..20 {
        client.query("nothing").unwrap();
    }
    let before = client.query("misled").unwrap().affected;
    let both = [packet(QUERY, b"nothing"), packet(QUERY, b"misled")].concat();
    let mut after = before;
    for _ in 0..10 {
        client.send_raw(&both).unwrap();
        client.read_answer().unwrap();
        after = client.read_answer().unwrap().affected;
    }
    // Otherwise this test has not met what it is about.
    assert!(after >= before + 10, "{before} and then {after} reads were left out wrongly");
}
