//! The server's end, with hundreds of users held.

use std::time::Duration;

use headworks_rig::{Client, Server};

use crate::crowd::{Crowd, SOON, STRICT, alone, gated};
use crate::support::{RunDir, lives};

const NAME: &str = "db";
const CROWD: usize = 200;

#[test]
fn a_server_with_hundreds_of_held_users_stops_as_fast_as_without_the_gate() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let mut plain = Server::builder().option("--innodb-buffer-pool-size=16M").start().unwrap();
    let mut sleeper = plain.connect().unwrap();
    sleeper.send_query("SELECT SLEEP(3600)").unwrap();
    let mut crowd: Vec<Client> = (0..CROWD).map(|_| plain.connect().unwrap()).collect();
    for client in &mut crowd {
        client.send_query("SELECT 42").unwrap();
    }
    for client in &mut crowd {
        client.read_answer().unwrap();
    }
    let without = plain.stop(Duration::from_secs(60)).unwrap();
    drop((plain, crowd));

    let mut server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    assert!(server.has_mapped("libheadworks").unwrap());
    let crowd = Crowd::gather(&server, &run, NAME, CROWD);
    let daemon = run.daemon(NAME);
    let with = server.stop(Duration::from_secs(60)).unwrap();
    println!("stopped in {:?} without the gate, in {:?} with it", without.took, with.took);
    assert!(with.took <= without.took + SOON, "{without:?} {with:?}");
    assert_eq!(with.status, without.status);
    run.assert_nothing_left("the server stopped");
    assert!(!lives(daemon));
    for client in &crowd.held {
        assert!(client.readable_within(Duration::ZERO).unwrap(), "a connection was left open");
    }
}
