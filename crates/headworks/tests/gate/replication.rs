//! A replica's connection is not held and uses up no place.

use headworks_rig::wire::command;

use crate::common::{DEADLINE, Setup};

const BINLOG_DUMP: u8 = 0x12;
const REGISTER_SLAVE: u8 = 0x15;

const REPLICA_ID: u32 = 77;

/// Server id, three empty names, port, rank, source's id.
fn registration() -> Vec<u8> {
    let mut body = REPLICA_ID.to_le_bytes().to_vec();
    body.extend_from_slice(&[0; 3 + 2 + 4 + 4]);
    body
}

/// Position, flags, server id, name of the log.
fn dump(log: &str, position: u32) -> Vec<u8> {
    let mut body = position.to_le_bytes().to_vec();
    body.extend_from_slice(&0_u16.to_le_bytes());
    body.extend_from_slice(&REPLICA_ID.to_le_bytes());
    body.extend_from_slice(log.as_bytes());
    body
}

#[test]
fn a_replica_streams_at_any_load_and_uses_up_no_place() {
    let setup = Setup::places(1)
        .option("--log-bin=binlog")
        .option("--server-id=1")
        .option("--binlog-format=STATEMENT");
    let Some(gate) = setup.start() else {
        return;
    };
    let mut replica = gate.user("replica");
    replica.set_read_timeout(Some(DEADLINE)).unwrap();
    replica.run("SET @master_binlog_checksum = @@global.binlog_checksum");
    replica.run("SET @mariadb_slave_capability = 4");
    let place = gate.server.sql("SHOW MASTER STATUS").unwrap();
    let log = place.value().unwrap().to_owned();

    let occupant = gate.occupy();
    let mut held = gate.user("held");
    held.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&held));

    replica.send_command(REGISTER_SLAVE, &registration()).unwrap();
    replica.read_answer().unwrap();
    replica.send_command(BINLOG_DUMP, &dump(&log, 4)).unwrap();
    gate.sql("CREATE TABLE rig.streamed_to_the_replica (a INT)");
    let marker = b"streamed_to_the_replica";
    loop {
        let event = replica.read_packet().unwrap();
        assert_eq!(event.first(), Some(&0), "the stream goes on: {event:?}");
        if event.windows(marker.len()).any(|window| window == marker) {
            break;
        }
    }
    assert!(gate.waits(&held), "the replica took no permit");
    assert_eq!(gate.status().counter("replication"), 1);

    gate.release(occupant);
    assert_eq!(held.value(), "7", "the replica keeps no place");
    held.quit();
    gate.sql(&format!("KILL {}", replica.connection_id()));
    gate.wait("the replica is gone", |status| status.number("users") == 0);
}

#[test]
fn whoever_is_refused_as_a_replica_is_held_like_everybody() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    gate.sql("CREATE USER plain");
    let options = headworks_rig::ConnectOptions::new(gate.server.tcp(), "plain");
    let mut plain = gate.user_with("plain", options);
    plain.send_command(REGISTER_SLAVE, &registration()).unwrap();
    assert!(plain.read_answer().is_err(), "it has not the right");
    let occupant = gate.occupy();
    plain.send_command(command::QUERY, b"SELECT 7").unwrap();
    assert!(gate.is_held(&plain));
    assert_eq!(gate.status().counter("replication"), 0);
    gate.release(occupant);
    assert_eq!(plain.value(), "7");
    plain.quit();
    gate.wait_empty();
}
