//! `tad watch`: one look after another, until the watched processes or the user end it.

use crate::conserve::{Wakers, example};
use crate::leaves::{recorder, said};
use crate::random::can_record;
use headworks_record::truth::{Clients, Server};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CLIENTS: usize = 8;

fn watch(pid: u32, words: &[&str]) -> Command {
    let mut command = recorder();
    command.args(["watch", "--every", "1s", "--budget", "50%", "--pid", &pid.to_string()]);
    command.args(words);
    command
}

/// A server whose threads wait for one lock.
fn lock_server() -> Server {
    let mut command = Command::new(example("bottleneck"));
    command.arg("lock");
    Server::start(command).expect("a server")
}

/// What is in a column of numbers, in the row of a stage.
fn number(screen: &str, stage: &str, column: &str) -> Option<f64> {
    let header = screen.lines().find(|line| line.trim_start().starts_with("STAGE"))?;
    let row = screen.lines().find(|line| line.trim_start().starts_with(stage))?;
    let end = header.find(column)? + column.len();
    row.get(..end)?.split_ascii_whitespace().last()?.parse().ok()
}

#[test]
fn each_look_shows_what_stages_do_and_what_they_wait_for() {
    if !can_record() {
        return;
    }
    let server = lock_server();
    let clients = Clients::start(server.port, CLIENTS, Duration::ZERO);
    let output = watch(server.pid(), &["--times", "2"]).output().expect("the recorder");
    clients.end();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains('\x1b'), "only a terminal is cleared: {said}");
    let screens: Vec<&str> = said.split_inclusive("of the processors\n").collect();
    // What is before the first table, each look's table with the next one's first line, the last.
    assert_eq!(screens.len(), 3, "{said}");
    for screen in &screens[1..] {
        assert_eq!(number(screen, "connection", "THREADS"), Some(CLIENTS as f64), "{said}");
        let waiting = number(screen, "connection", "LOCK");
        assert!(waiting.is_some_and(|threads| threads > 1.0 && threads < 8.0), "{said}");
        let blocked = screen.lines().find(|line| line.contains("connection waits for the lock in"));
        assert!(blocked.is_some_and(|line| line.contains("narrow")), "{said}");
    }
}

/// Reads what it says until the first look's table.
fn first_look(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.trim_start().starts_with("STAGE") {
        line.clear();
        assert!(out.read_line(&mut line).expect("a line") > 0, "it ended before the first look");
    }
    out
}

#[test]
fn it_ends_with_the_processes_or_by_an_interrupt() {
    if !can_record() {
        return;
    }
    let start = |pid| {
        let mut command = watch(pid, &[]);
        command.stdout(Stdio::piped()).spawn().expect("the recorder")
    };
    let wakers = Wakers::start(&["2"]);
    let mut child = start(wakers.pid());
    let mut out = first_look(&mut child);
    drop(wakers);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("all of these processes ended"), "{rest}");
    assert!(child.wait().expect("it ends").success());

    let wakers = Wakers::start(&["2"]);
    let mut child = start(wakers.pid());
    let mut out = first_look(&mut child);
    // SAFETY: it is our child, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it ends").success(), "an interrupt is how it is ended");
}

#[test]
fn what_is_no_process_cannot_be_watched() {
    let output = watch(4_194_304, &["--times", "1"]).output().expect("the recorder");
    assert!(!output.status.success());
    assert!(said(&output).contains("there is no process"), "{}", said(&output));
}
