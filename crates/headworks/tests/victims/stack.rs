//! How much of its caller's stack a hook takes: callers are signal handlers on small stacks, too.

use crate::compile::Workshop;
use crate::support::RunDir;
use headworks_policy::split::SplitKind;
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// Bytes beyond what the call itself takes. An alternate stack has 8 KiB (`SIGSTKSZ`). The kernel's
/// frame with the processor's registers takes 4.5 KiB of it.
const MOST: i64 = 3_400;

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

#[test]
fn no_hook_takes_more_of_its_callers_stack_than_a_handler_has() {
    let Some(workshop) = Workshop::open() else { return };
    // Without lazy binding, the loader takes none of it.
    let program = workshop.compile("stack.c", &["-Wl,-z,now"]);
    let dir = std::env::temp_dir().join(format!("headworks-stack-{}", std::process::id()));
    let place = |name: &str| {
        let place = dir.join(name);
        std::fs::create_dir_all(&place).unwrap();
        place
    };
    let plain = used(&Command::new(&program).arg(place("plain")).output().unwrap());
    assert!(plain.len() > 30, "{plain:?}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    let mut beyond = Vec::new();
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(&program).arg(place(kind.name()));
        for (name, bytes) in used(&command.output().unwrap()) {
            let taken = bytes - plain[&name];
            println!("{kind} {name}: {taken}");
            if taken > MOST {
                beyond.push(format!("{kind} {name}: {taken}"));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    assert!(beyond.is_empty(), "more than {MOST} bytes: {beyond:#?}");
}
