//! The owner of a session lock is never held, and is like all others once it has released it.

use headworks_rig::Client;
use headworks_rig::wire::command;

use crate::common::Setup;
use crate::owner::{Ownership, never_held_until_given_back, run};

fn check(cases: &[Ownership<'_>]) {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    gate.sql("CREATE TABLE rig.t (a INT) ENGINE=InnoDB");
    for case in cases {
        never_held_until_given_back(&gate, case);
    }
}

fn case<'a>(
    holding: &'a str,
    name: &'a str,
    take: &'a dyn Fn(&mut Client),
    give_back: &'a dyn Fn(&mut Client),
) -> Ownership<'a> {
    Ownership { name, holding, take, use_it: &SELECT, give_back }
}

const SELECT: fn(&mut Client) = |client| {
    assert_eq!(client.query("SELECT 1").unwrap().value(), Some("1"));
};

#[test]
fn a_table_lock_is_never_held_until_released() {
    check(&[
        case(
            "lock-tables",
            "LOCK TABLES",
            &run(&["LOCK TABLES t WRITE"]),
            &run(&["UNLOCK TABLES"]),
        ),
        case(
            "global-read-lock",
            "FLUSH TABLES WITH READ LOCK",
            &run(&["FLUSH TABLES WITH READ LOCK"]),
            &run(&["UNLOCK TABLES"]),
        ),
        case("handler", "HANDLER", &run(&["HANDLER t OPEN"]), &run(&["HANDLER t CLOSE"])),
    ]);
}

#[test]
fn a_backup_lock_is_never_held_until_released() {
    check(&[
        case("backup", "BACKUP LOCK", &run(&["BACKUP LOCK t"]), &run(&["BACKUP UNLOCK"])),
        case(
            "backup",
            "BACKUP STAGE",
            &run(&["BACKUP STAGE START", "BACKUP STAGE BLOCK_DDL"]),
            &run(&["BACKUP STAGE END"]),
        ),
    ]);
}

#[test]
fn a_user_lock_is_never_held_until_released() {
    let prepared = |client: &mut Client| {
        let statement = client.prepare("SELECT GET_LOCK('p', 0)").unwrap();
        assert_eq!(client.execute(statement).unwrap().value(), Some("1"));
    };
    check(&[
        case(
            "user-lock",
            "GET_LOCK, RELEASE_LOCK",
            &run(&["SELECT GET_LOCK('a', 0)"]),
            &run(&["SELECT RELEASE_LOCK('a')"]),
        ),
        case(
            "user-lock",
            "two locks by DO",
            &run(&["DO GET_LOCK('a', 0)", "DO GET_LOCK('b', 0)"]),
            &run(&["DO RELEASE_LOCK('a')", "DO RELEASE_LOCK('b')"]),
        ),
        case(
            "user-lock",
            "prepared GET_LOCK, RELEASE_ALL_LOCKS",
            &prepared,
            &run(&["SELECT RELEASE_ALL_LOCKS()"]),
        ),
    ]);
}

#[test]
fn a_reset_of_the_connection_releases_everything() {
    let reset = |client: &mut Client| {
        client.send_command(command::RESET_CONNECTION, &[]).unwrap();
        client.read_answer().unwrap();
    };
    check(&[
        case("user-lock", "GET_LOCK, reset", &run(&["SELECT GET_LOCK('a', 0)"]), &reset),
        case("transaction", "BEGIN, reset", &run(&["BEGIN"]), &reset),
    ]);
}
