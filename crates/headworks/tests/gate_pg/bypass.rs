//! What is never held: data of a COPY, replicas.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::common::{DEADLINE, Setup, wait_until};
use crate::gated::state;

#[test]
fn a_copy_takes_one_turn_in_either_direction() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut user = gate.user("copy");
    let rows = 50_000;
    let mut writer = user.client.copy_in("COPY t FROM STDIN").unwrap();
    gate.wait_state(&user.name, state::INSIDE);
    let mut other = gate.user("other").send("SELECT 7");
    assert!(gate.is_held(&mut other), "the COPY executes");
    for row in 0..rows {
        writeln!(writer, "{row}").unwrap();
    }
    assert_eq!(writer.finish().unwrap(), rows);
    assert_eq!(other.value().1, "7");
    let mut text = String::new();
    user.client.copy_out("COPY t TO STDOUT").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count() as u64, rows);
    // One that fails in the middle, and one that its client breaks off.
    let mut writer = user.client.copy_in("COPY t FROM STDIN").unwrap();
    writeln!(writer, "no number").unwrap();
    assert!(writer.finish().is_err());
    drop(user.client.copy_in("COPY t FROM STDIN").unwrap());
    user.run("SELECT 1");
    gate.wait_empty();
    let mut psql = gate.tool("psql");
    psql.args(["-X", "-At", "-v", "ON_ERROR_STOP=1", "postgres"]).stdin(Stdio::piped());
    let mut psql = psql.stdout(Stdio::piped()).spawn().unwrap();
    let script = "truncate t;\ncopy t from stdin;\n1\n2\n\\.\nselect sum(a) from t;\n\\copy t to /dev/null\n";
    psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = psql.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "3"), "{output:?}");
    gate.wait_empty();
}

#[test]
fn replicas_pass_while_every_place_is_taken() {
    let Some(gate) = Setup::places(1).start() else { return };
    let occupant = gate.occupy();
    let mut held = gate.user("held").send("SELECT 7");
    assert!(gate.is_held(&mut held));
    let backup = gate.scratch().join("backup");
    let output = gate
        .tool("pg_basebackup")
        .args(["--checkpoint=fast", "--no-sync", "--wal-method=stream", "-D"])
        .arg(&backup)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(backup.join("backup_manifest").exists());
    let wal = gate.scratch().join("wal");
    fs::create_dir(&wal).unwrap();
    let mut receiver = gate.tool("pg_receivewal").arg("-D").arg(&wal).spawn().unwrap();
    wait_until("the log arrives", DEADLINE, || fs::read_dir(&wal).unwrap().next().is_some());
    // SAFETY: our own child, not waited for.
    unsafe { libc::kill(receiver.id() as libc::pid_t, libc::SIGINT) };
    receiver.wait().unwrap();
    assert!(gate.status().counter("replication") >= 3);
    assert!(gate.is_held(&mut held), "they took no place and gave none");
    gate.release(occupant);
    assert_eq!(held.value().1, "7");
}

#[test]
fn rules_see_account_database_and_application() {
    let sections = "[[class]]\nname = \"reports\"\nweight = 2.0\n[[class]]\nname = \"jobs\"\n\
         [[rule]]\napplication = \"report*\"\nclass = \"reports\"\n\
         [[rule]]\ndatabase = \"template1\"\naccount = \"app\"\nclass = \"jobs\"\n";
    let Some(gate) = Setup::places(4).sections(sections).start() else { return };
    let users = |class: &str| gate.status().class(class)["users"].as_u64().unwrap();
    let mut report = gate.user("report");
    report.run("SELECT 1");
    assert_eq!((users("reports"), users("jobs")), (1, 0));
    let mut job = gate.config("job").dbname("template1").connect(postgres::NoTls).unwrap();
    job.simple_query("SELECT 1").unwrap();
    assert_eq!((users("reports"), users("jobs")), (1, 1));
    // The server reports a name that is set later.
    let mut plain = gate.user("plain");
    plain.run("SET application_name = 'report-late'");
    // The answer is on its way before the hook behind it has looked at it.
    gate.wait("it is a report", |status| status.class("reports")["users"] == 2);
}

#[test]
fn the_files_of_a_background_class_are_not_what_clients_wait_for() {
    let sections = "[[class]]\nname = \"backups\"\nforeground = false\n\
         [[rule]]\napplication = \"backup*\"\nclass = \"backups\"\n\
         [io]\nscheduler = \"rcp\"\n";
    let Some(gate) = Setup::places(4).sections(sections).start() else { return };
    // Calls on files that clients wait for, and others, of the backend that makes a table.
    let calls = |name: &str| {
        let mut user = gate.user(name);
        user.run(&format!("CREATE TABLE \"{name}\" AS SELECT generate_series(1, 100000) AS a"));
        let told: serde_json::Value =
            serde_json::from_str(&gate.order(&["io", "top", "--json"])).unwrap();
        let accounts = told["accounts"].as_array().unwrap();
        let own = accounts.iter().find(|account| account["thread"] == user.pid);
        let own = own.unwrap_or_else(|| panic!("{} is not in {told}", user.pid));
        (own["critical"].as_u64().unwrap(), own["background"].as_u64().unwrap())
    };
    let (critical, background) = calls("backup");
    assert!(background > 100 && critical < background / 10, "{critical} and {background}");
    let (critical, background) = calls("shop");
    assert!(critical > 100 && background < critical / 10, "{critical} and {background}");
}

#[test]
fn the_files_of_a_class_have_its_priority_and_its_limit() {
    let sections = "[[class]]\nname = \"reports\"\n\
         [[rule]]\napplication = \"report*\"\nclass = \"reports\"\n\
         [io]\nscheduler = \"split-token\"\n\
         [[io.thread]]\nclass = \"reports\"\npriority = 1\nbytes_per_s = 1000000000\n\
         [[io.thread]]\ncgroup = \"*\"\npriority = 6\n";
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !own.lines().any(|line| line.starts_with("0::")) {
        println!("skipped: there is no unified hierarchy of control groups");
        return;
    }
    let Some(gate) = Setup::places(4).sections(sections).start() else { return };
    let told = |name: &str| {
        let mut user = gate.user(name);
        user.run(&format!("CREATE TABLE \"{name}\" AS SELECT generate_series(1, 10000) AS a"));
        let told: serde_json::Value =
            serde_json::from_str(&gate.order(&["io", "top", "--json"])).unwrap();
        let accounts = told["accounts"].as_array().unwrap();
        let own = accounts.iter().find(|account| account["thread"] == user.pid);
        let own = own.unwrap_or_else(|| panic!("{} is not in {told}", user.pid));
        (own["priority"].as_u64().unwrap(), own["limited"].as_bool().unwrap())
    };
    assert_eq!(told("report"), (1, true));
    // It has no separate class, but every process is in a control group.
    assert_eq!(told("shop"), (6, false));
}
