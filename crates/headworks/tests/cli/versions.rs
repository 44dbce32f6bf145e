//! A region of another build.

use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

use crate::support::{RunDir, lives, signal, wait_until};

const NAME: &str = "old";

/// An instance without a real database.
fn instance(run: &RunDir) -> Child {
    let child = run
        .headworks(["run", "--name", NAME, "--", "sleep", "600"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it runs", || run.listens(NAME));
    wait_until("its daemon serves", || run.daemons().len() == 1);
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_region_of_another_version_is_explained_and_not_touched() {
    let run = RunDir::new();
    let child = instance(&run);
    let path = run.instance(NAME).join("region");
    let region = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // After the magic number of eight bytes.
    region.write_all_at(&77_u32.to_ne_bytes(), 8).unwrap();
    for command in [&["set", "--parallelism", "3"][..], &["off"], &["on"]] {
        let said = run.refused([command, &["--name", NAME]].concat());
        for word in ["version 0000004d", "another version of headworks", path.to_str().unwrap()] {
            assert!(said.contains(word), "{command:?}: {word:?}: {said}");
        }
    }
    // Without the daemon of that version, the state is unknown.
    let daemon = run.daemons()[0];
    signal(daemon, libc::SIGKILL);
    wait_until("the daemon is gone", || !lives(daemon));
    for command in ["status", "daemon"] {
        let said = run.refused([command, "--name", NAME]);
        assert!(
            said.contains("version 0000004d") && said.contains("restart the database"),
            "{said}"
        );
    }
    let mut found = [0; 4];
    region.read_exact_at(&mut found, 8).unwrap();
    assert_eq!(u32::from_ne_bytes(found), 77);
    end(child);
}

#[test]
fn a_file_that_is_no_region_is_refused() {
    let run = RunDir::new();
    let child = instance(&run);
    let path = run.instance(NAME).join("region");
    let region = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    region.write_all_at(b"nonsense", 0).unwrap();
    let said = run.refused(["set", "--name", NAME, "--parallelism", "3"]);
    assert!(said.contains("no Headworks region"), "{said}");
    end(child);
    run.assert_nothing_left("the database was killed");
}
