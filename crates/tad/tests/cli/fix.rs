//! `headworks tad fix`: what it recommends can be run, and what it found is not lost.

use serde_json::Value;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::commands::{CLEAN, LOAD, ends, json};
use crate::support::{Dir, program, text};

/// C2 grows from 4 to 40 threads.
const GROWS: &str = r#"
[[change]]
at = "1 s"
client = "C2"
[[change.load]]
request = "r"
threads = 40
"#;

#[test]
fn a_fix_is_searched_and_its_cost_told() {
    let run = Dir::new();
    let args = ["fix", "hbase", "-s", "hbase-isolation", "-g", "isolate:C1:25%", "--own"];
    let quick = ["--seeds", "1", "--slack", "0", "--duration", "3"];
    let (code, found) = json(&run, &[&args[..], &quick, &["--json"]].concat());
    assert_eq!(code, 0, "{found}");
    let tried = found["tried"].as_array().unwrap();
    assert_eq!(tried[0]["verdict"], "fails", "{found}");
    let holds: Vec<&Value> = tried.iter().filter(|set| set["verdict"] == "holds").collect();
    assert!(!holds.is_empty() && holds.iter().any(|set| set["front"] == true), "{found}");
    assert!(holds.iter().all(|set| set["cost"].as_u64().unwrap() > 0));
    let (code, said) = ends(&run, &[&args[..], &quick, &["--limit", "1"]].concat());
    assert!(code == 1 && said.contains("nothing that was tried"), "{said}");
    for (goal, word) in [("isolate:C9:15%", "C1, C2"), ("peace", "isolate:CLIENT:10%")] {
        let args = ["fix", "hbase", "-s", "hbase-isolation", "-g", goal];
        let (code, said) = ends(&run, &args);
        assert!(code == 2 && said.contains(word), "{said}");
    }
    let args = ["fix", "hbase", "-s", "hbase-isolation", "-g", "fair:9%", "--cost", "gold=1"];
    let (code, said) = ends(&run, &args);
    assert!(code == 2 && said.contains("direct=3"), "{said}");
}

/// The commands that a search prints.
fn shown<'s>(said: &'s str, label: &'s str) -> impl Iterator<Item = &'s str> {
    said.lines().filter_map(move |line| line.split_once(label)).map(|(_, command)| command.trim())
}

#[test]
fn each_set_that_is_printed_can_be_run_as_it_is_printed() {
    let run = Dir::new();
    // No queue: a client with more threads has more of the CPU, until the stage gets a pool.
    let pooled = "threads = 1\nqueue = { explicit = true, pluggable = true }";
    let system = run.file("it's a shop.toml", &CLEAN.replace(pooled, "threads = \"on-demand\""));
    let load = run.file("my load.toml", &(LOAD.to_owned() + GROWS));
    let (system, load) = (system.to_str().unwrap(), load.to_str().unwrap());
    let (code, said) =
        ends(&run, &["fix", system, "-s", load, "-g", "isolate:C1:45%", "--seeds", "1"]);
    assert!(code == 0 && said.contains("add-scheduling-point"), "{said}");
    let commands: Vec<&str> = shown(&said, "see it:").collect();
    // The answer, and each row of the table but that of the system as it is.
    let rows = said.lines().filter(|line| {
        line.split_whitespace().next().is_some_and(|word| word.parse::<u32>().is_ok())
            && !line.contains("see it:")
            && line.contains("C1 ")
            && !line.contains("(as it is)")
    });
    assert_eq!(commands.len(), 1 + rows.count(), "{said}");
    for command in commands.into_iter().chain(shown(&said, "as it is: headworks tad")) {
        let words = command.trim_start_matches("headworks tad");
        let script = format!("'{}' {words} --json", program().display());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output));
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["scenario"], "load", "{command}");
    }
}

#[test]
fn a_remedy_that_cannot_be_applied_is_refused_with_a_hint() {
    let run = Dir::new();
    let (clean, load) = (run.file("clean.toml", CLEAN), run.file("load.toml", LOAD));
    let args = ["simulate", clean.to_str().unwrap(), "-s", load.to_str().unwrap(), "--remedy"];
    for (remedy, word) in [
        ("{ do = \"unblock\", stage = \"nosuch\" }", "nosuch"),
        ("unblock", "--remedy"),
        ("{ do = \"magic\" }", "magic"),
    ] {
        let (code, said) = ends(&run, &[&args[..], &[remedy]].concat());
        assert!(code == 2 && said.contains(word) && said.contains("tad check"), "{said}");
    }
}

#[test]
fn ctrl_c_ends_a_search_and_prints_what_it_found() {
    let run = Dir::new();
    // Thousands of sets that all hold and cost the same, so that the search is long.
    let mut system = CLEAN.to_owned();
    for threads in 2..1_200 {
        let _ = write!(
            system,
            "[remedy.no-scheduling.t{threads}]\ncost = 1\nremedies = [\n\
             {{ do = \"set-policy\", stage = \"s\", policy = \"drf\" }},\n\
             {{ do = \"set-threads\", stage = \"s\", threads = {threads} }},\n]\n"
        );
    }
    let system = run.file("long.toml", &system);
    let load = run.file("load.toml", &(LOAD.replace("policy = \"drf\"\n", "") + GROWS));
    let (system, load) = (system.to_str().unwrap(), load.to_str().unwrap());
    let goal = ["-g", "isolate:C1:30%", "--seeds", "60", "--limit", "4000"];
    let args = [&["fix", system, "-s", load][..], &goal].concat();
    let mut search = run.tad(args);
    // Tests may run as a shell's background job, whose children ignore it.
    // SAFETY: `signal` is async-signal-safe.
    unsafe {
        search.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    let mut search = search.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(search.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines
        .by_ref()
        .map(Result::unwrap)
        .take_while(|line| !line.contains("holds: no-scheduling.t"))
        .collect();
    assert!(said.iter().any(|line| line.contains("as it is: misses isolate:C1:30%")), "{said:?}");
    // SAFETY: kill takes any numbers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(search.id() as libc::pid_t, libc::SIGINT) }, 0);
    lines.for_each(drop);
    let mut printed = String::new();
    search.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(search.wait().unwrap().code(), Some(130), "{printed}");
    assert!(printed.contains("stopped by Ctrl-C"), "{printed}");
    assert!(printed.contains("see it:") && printed.contains("--maat 't"), "{printed}");
}
