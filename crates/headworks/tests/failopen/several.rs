//! Several gates on one machine.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::crowd::{Crowd, STRICT, alone, gated};
use crate::support::{RunDir, signal};

#[test]
fn instances_with_different_names_do_not_know_each_other() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let config = run.file("toml", STRICT);
    let names = ["one", "two", "three"];
    let servers = names.map(|name| gated(&run, name, &config).start().unwrap());
    let mut crowds: Vec<Crowd> = names
        .iter()
        .zip(&servers)
        .map(|(name, server)| Crowd::gather(server, &run, name, 4))
        .collect();
    assert_eq!(run.daemons().len(), 3);
    let refusal = run.refused(["status"]);
    for name in names {
        assert!(refusal.contains(name), "{refusal}");
    }
    assert!(refusal.contains("--name"), "{refusal}");

    // What happens to one is no business of the others.
    run.ok(["off", "--name", "two"]);
    crowds[1].all_answered(Instant::now());
    signal(run.daemon("three"), libc::SIGKILL);
    crowds[2].all_answered(Instant::now());
    assert_eq!(run.figure("one", "waiting"), 4);
    assert_eq!(run.status("one")["gate"], "closed");
    let [one, two, three] = servers;
    drop((two, crowds.remove(1)));
    assert_eq!(run.figure("one", "waiting"), 4);
    crowds[0].wake_sleeper(&one);
    crowds[0].all_answered(Instant::now());
    drop((one, three, crowds));
    // The first one's daemon removes it when it has seen the server end.
    let patience = Instant::now() + Duration::from_secs(30);
    while run.instances().len() > 1 && Instant::now() < patience {
        sleep(Duration::from_millis(20));
    }
    // Only its daemon would have removed the third.
    assert_eq!(run.instances(), ["three"]);
}
