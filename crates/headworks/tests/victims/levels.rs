//! What an event loop is told must be what the kernel would tell it.

use std::process::Command;

use crate::compile::Workshop;
use crate::support::{RunDir, text};

#[test]
fn an_event_loop_is_told_what_it_would_be_told_without_the_library() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("levels.c", &[]);
    let expected = Command::new(&victim).env_remove("LD_PRELOAD").output().unwrap();
    assert!(expected.status.success(), "{expected:?}");
    let words = text(&expected);
    for errno in [libc::EEXIST, libc::ENOENT, libc::EFAULT, libc::EBADF, libc::EAGAIN, libc::EINVAL]
    {
        assert!(words.contains(&format!("-1 {errno}\n")), "errno {errno} does not occur: {words}");
    }
    assert!(!words.contains("too early"), "{words}");
    // Known by its name: a server with an event loop.
    let server = victim.with_file_name("redis-server");
    std::fs::rename(&victim, &server).unwrap();
    let run = RunDir::new();
    let gated = run
        .headworks(["run", "--name", "v", "--parallelism", "1", "--"])
        .arg(&server)
        .args(["--port", "0"])
        .output()
        .unwrap();
    let bytes = String::from_utf8_lossy(&gated.stdout);
    let different = bytes.lines().zip(words.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(different, None, "{}", String::from_utf8_lossy(&gated.stderr));
    assert_eq!((&*bytes, gated.status), (&*words, expected.status));
    run.assert_nothing_left("the victim ended");
}
