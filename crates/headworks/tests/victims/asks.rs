//! A program that cannot open a region asks the daemon at its start. Whatever becomes of the daemon
//! then, the program starts, and soon.

use crate::compile::Workshop;
use crate::support::{RunDir, is_root, program, text};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Any user may run it, unlike one in a home directory.
const PYTHON: &str = "/usr/bin/python3";

/// The limit is a second. The test's machine may be busy.
const LONGEST_MS: i64 = 1_500;

/// Runs `script` in a job, in which `$daemon` is the daemon's process, and `start` starts a program
/// of another user. Returns its lines.
fn job(script: &str) -> Option<Vec<String>> {
    if !is_root() || !Path::new(PYTHON).exists() {
        println!("skipped: needs root and {PYTHON} (apt-get install python3)");
        return None;
    }
    let workshop = Workshop::open()?;
    let asks = workshop.compile("asks.c", &[]);
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(asks.parent().unwrap(), all).unwrap();
    let stands_in = asks.with_file_name("asks.py");
    std::fs::write(&stands_in, include_str!("asks.py")).unwrap();
    let script = format!(
        "exec 2>&1; ours=$LD_PRELOAD; unset LD_PRELOAD\n\
         daemon=$({} status --json --name job | sed -n 's/.*\"daemon_pid\": \\([0-9]*\\).*/\\1/p')\n\
         start() {{ setpriv --reuid=5 --regid=60 --clear-groups env LD_PRELOAD=$ours {asks} $(date +%s%N); }}\n\
         {asks} $(date +%s%N)\n\
         stand_in() {{ kill -9 $daemon; while kill -0 $daemon 2>/dev/null; do sleep 0.05; done\n\
         {PYTHON} {} $1 >stands & daemon=$!; until grep -q in stands; do sleep 0.05; done; }}\n\
         cd {}; {script}",
        program().display(),
        stands_in.display(),
        asks.parent().unwrap().display(),
        asks = asks.display(),
    );
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "job", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    println!("{}", text(&output));
    assert!(output.status.success());
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(lines.lines().map(str::to_owned).collect())
}

/// What the programs said: with which errno each began, how many descriptors it had beyond those of
/// the first one, which was not preloaded, and how long its start took.
fn starts(lines: &[String]) -> Vec<(i64, i64, i64)> {
    let numbers = |line: &String| {
        let mut words = line.split(' ').skip(1).step_by(2).map(|word| word.parse().unwrap());
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
    };
    let all: Vec<_> = lines.iter().filter(|line| line.starts_with("errno ")).map(numbers).collect();
    let inherited = all[0].1;
    all[1..].iter().map(|(errno, open, took)| (*errno, open - inherited, *took)).collect()
}

#[test]
fn a_hundred_programs_start_beside_a_stopped_daemon() {
    let script = "start; kill -STOP $daemon; begun=$(date +%s%N)\n\
        for one in $(seq 100); do start; done\n\
        echo all $((($(date +%s%N) - begun) / 1000000)); kill -CONT $daemon";
    let Some(lines) = job(script) else { return };
    let started = starts(&lines);
    assert_eq!(started.len(), 101);
    assert!(started.iter().all(|start| start.0 == 0 && start.1 == 0), "{started:?}");
    assert!(started.iter().all(|start| start.2 < LONGEST_MS), "{started:?}");
    let all = lines.iter().find_map(|line| line.strip_prefix("all ")).unwrap();
    assert!(all.parse::<i64>().unwrap() < 30_000, "{all} ms, which is not once but each time");
}

#[test]
fn programs_start_whatever_answers_in_the_daemons_place() {
    for how in ["closes", "garbage", "others", "directory", "silent", "full"] {
        let script = format!("stand_in {how}; start; kill -9 $daemon; wait");
        let Some(lines) = job(&script) else { return };
        let started = starts(&lines);
        assert_eq!(started.len(), 1, "{how}");
        let (errno, open, took) = started[0];
        assert!(errno == 0 && open == 0 && took < LONGEST_MS, "{how}: {started:?}");
    }
}
