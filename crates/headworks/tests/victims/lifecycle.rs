//! Before constructors, after destructors, and everything between.

use std::process::Command;

use crate::compile::Workshop;
use crate::support::{RunDir, program, shim, text};

#[test]
fn calls_before_constructors_and_after_destructors_work() {
    let Some(workshop) = Workshop::open() else { return };
    let library = workshop.compile("early.c", &["-shared", "-fPIC"]);
    let path = library.to_str().unwrap();
    let victim = workshop.compile("lifecycle.c", &[path]);
    let alone = Command::new(&victim).env_remove("LD_PRELOAD").output().unwrap();
    let expected = text(&alone);
    for time in ["preinit", "library constructor", "constructor", "main", "atexit", "destructor"] {
        let line = format!("{time} 1 1 1 x 0 0 -1 {}\n", libc::EBADF);
        assert!(expected.contains(&line), "{line:?} is not in {expected}");
    }
    program();
    // The library that is early is linked, or preloaded after or before ours: the loader runs
    // their constructors in different orders.
    let shim = shim();
    let ours = shim.to_str().unwrap();
    for preload in [ours.to_owned(), format!("{ours}:{path}"), format!("{path}:{ours}")] {
        let output = Command::new(&victim).env("LD_PRELOAD", &preload).output().unwrap();
        assert_eq!((text(&output), output.status), (expected.clone(), alone.status), "{preload}");
    }
    let run = RunDir::new();
    for preload in ["", path] {
        let output = run
            .headworks(["run", "--name", "life", "--"])
            .arg(&victim)
            .env("LD_PRELOAD", preload)
            .output()
            .unwrap();
        // The command itself runs under the early library, too, and is heard as well.
        let words = String::from_utf8_lossy(&output.stdout);
        assert!(words.ends_with(&expected), "{}", text(&output));
        run.assert_nothing_left("the victim ended");
    }
}
