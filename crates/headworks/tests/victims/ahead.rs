//! The read that a server makes before it sleeps may be left out: no client waits for it.

use std::time::{Duration, Instant};

use headworks_rig::wire::packet;

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};
use crate::support::PATIENCE;

/// `COM_QUERY`.
const QUERY: u8 = 3;

#[test]
fn a_client_that_begins_to_write_ahead_is_answered_although_reads_were_left_out() {
    let Some(workshop) = Workshop::open() else { return };
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), PATIENT, &[]);
    let mut client = server.connect();
    let both = [packet(QUERY, b"nothing"), packet(QUERY, b"misled")].concat();
    let begun = Instant::now();
    let mut misled = 0;
    // On a busy machine the server may find the next request when it reads again, and learns
    // nothing.
    while misled == 0 && begun.elapsed() < PATIENCE {
        for _ in 0..20 {
            client.query("nothing").unwrap();
            // The server reads again, and finds nothing.
            std::thread::sleep(Duration::from_millis(2));
        }
        let before = client.query("misled").unwrap().affected;
        std::thread::sleep(Duration::from_millis(2));
        client.send_raw(&both).unwrap();
        client.read_answer().unwrap();
        misled = client.read_answer().unwrap().affected - before;
    }
    // Otherwise this test has not met what it is about.
    assert!(misled > 0, "no read was left out although there was something");
}
