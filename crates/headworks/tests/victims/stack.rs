//! How much of its caller's stack a hook takes: callers are signal handlers on small stacks, too.

use crate::compile::Workshop;
use crate::support::RunDir;
use headworks_hooks::symbols::SYMBOLS;
use headworks_policy::split::SplitKind;
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// Bytes beyond what the call itself takes. An alternate stack has 8 KiB (`SIGSTKSZ`). The kernel's
/// frame with the processor's registers takes 4.5 KiB of it.
const MOST_OF_A_HANDLER: i64 = 1_024;

/// A thread's own stack has 16 KiB at least (`PTHREAD_STACK_MIN`). No handler accepts clients.
const MOST_OF_A_THREAD: i64 = 3_400;

/// Not called here: it is `syncfs` for all disks of the machine, a wait without an end, and
/// functions of libraries that are not here.
const NOT_CALLED: [&str; 4] = ["sync", "pthread_cond_wait", "SSL_", "io_uring_"];

/// Each call is held at least for a moment, and all that can be asked of a thread is asked.
const RULES: &str = "[io]\nio_hold_ms_max = 50\n\
    [[io.thread]]\nname = \"held\"\nbytes_per_s = 1000\nforeground = false\n\
    [[io.thread]]\ncgroup = \"/none\"\npriority = 6\n";

fn used(output: &Output) -> BTreeMap<String, i64> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().map(|line| line.split_once(' ').expect("a name and a number"));
    rows.map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap())).collect()
}

/// Makes all calls by each scheduler, and prints and judges what each takes beyond the plain call.
fn judge(by: &str, most: i64) {
    let Some(workshop) = Workshop::open() else { return };
    // Without lazy binding, the loader takes none of it.
    let program = workshop.compile("stack.c", &["-Wl,-z,now"]);
    let dir = std::env::temp_dir().join(format!("headworks-stack-{by}-{}", std::process::id()));
    let place = |name: &str| {
        let place = dir.join(name);
        std::fs::create_dir_all(&place).unwrap();
        place
    };
    let plain = used(&Command::new(&program).arg(by).arg(place("plain")).output().unwrap());
    let is_called = |name: &str| plain.keys().any(|call| call.split('(').next() == Some(name));
    let all = SYMBOLS.iter().map(|symbol| symbol.name);
    let left: Vec<_> = all
        .filter(|name| !is_called(name) && !NOT_CALLED.iter().any(|start| name.starts_with(start)))
        .collect();
    assert!(left.is_empty(), "stack.c does not call {left:?}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    let mut taken = Vec::new();
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(&program).arg(by).arg(place(kind.name()));
        for (name, bytes) in used(&command.output().unwrap()) {
            taken.push((bytes - plain[&name], format!("{kind} {name}")));
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    taken.sort_unstable();
    for (bytes, call) in &taken {
        println!("{by}: {bytes} {call}");
    }
    let most_of = |call: &str| if call.contains(" accept") { MOST_OF_A_THREAD } else { most };
    let beyond: Vec<_> = taken.iter().filter(|(bytes, call)| *bytes > most_of(call)).collect();
    assert!(beyond.is_empty(), "more than {most} bytes: {beyond:#?}");
}

#[test]
fn no_hook_takes_more_of_its_callers_stack_than_a_handler_has() {
    judge("handler", MOST_OF_A_HANDLER);
}

#[test]
fn no_hook_takes_more_of_its_callers_stack_than_a_small_thread_has() {
    judge("thread", MOST_OF_A_THREAD);
}
