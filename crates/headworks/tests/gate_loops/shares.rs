//! How service is shared.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Gate, Setup, command};

/// Runs users with pipelines of these lengths for a while; how many requests each had answered.
fn share(gate: &Gate, users: &[(&str, usize)], time: Duration) -> Vec<u64> {
    let stop = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = users.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (&(name, pipeline), count) in users.iter().zip(&counts) {
            let stop = &stop;
            scope.spawn(move || {
                let mut user = gate.user(name);
                // A command that takes long enough for the server to be the scarce resource, not
                // this client.
                let batch = command(&["LRANGE", "list", "0", "-1"]).repeat(pipeline);
                while !stop.load(Ordering::Relaxed) {
                    user.send(&batch);
                    for _ in 0..pipeline {
                        for _ in 0..1 + 2 * 100 {
                            user.line();
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        crate::gated::counted(&counts, time, &stop)
    })
}

fn filled(setup: Setup) -> Option<Gate> {
    let gate = setup.start()?;
    let mut user = gate.user("fill");
    for _ in 0..100 {
        user.tell(&["RPUSH", "list", "x"]);
        user.line();
    }
    drop(user);
    Some(gate)
}

/// Users that send one request at a time get as many answered as one that always has sixteen under
/// way.
#[test]
fn a_pipeline_of_sixteen_gets_no_more_than_its_share() {
    let Some(gate) = filled(Setup::redis(1)) else { return };
    let mut users = vec![("pipeline", 16)];
    users.extend([("single", 1); 12]);
    let counts = share(&gate, &users, Duration::from_secs(3));
    let (pipeline, singles) = counts.split_first().unwrap();
    let mean = singles.iter().sum::<u64>() as f64 / singles.len() as f64;
    let ratio = *pipeline as f64 / mean;
    // Without the gate it is 16. A single whose client is late gives its turn away, so it may be
    // more than 1.
    assert!(ratio < 4.0, "{ratio}: {counts:?}");
    gate.wait_empty();
}

#[test]
fn nobody_is_forgotten_among_many() {
    let Some(gate) = filled(Setup::redis(2)) else { return };
    let counts = share(&gate, &[("user", 1); 40], Duration::from_secs(2));
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(least > 0 && most < 4 * least + 20, "{counts:?}");
    gate.wait_empty();
    let status = gate.status();
    assert_eq!((status.counter("hold_limit"), status.counter("stalls")), (0, 0));
}

/// No request is held, and the status says what holding would have changed.
#[test]
fn observing_tells_what_enforcing_would_change() {
    let Some(gate) = filled(Setup::redis(1).key("mode", "\"dry-run\"")) else { return };
    let occupant = gate.user("occupant");
    let counts = share(&gate, &[("a", 1), ("b", 4)], Duration::from_secs(1));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    gate.wait("a counterfactual", |status| {
        let told = &status.0["counterfactual"];
        let classes = told["classes"].as_array().into_iter().flatten();
        let share: f64 = classes.filter_map(|class| class["gated_requests_share"].as_f64()).sum();
        told["turns"].as_u64().unwrap_or(0) > 100 && (share - 1.0).abs() < 1e-6
    });
    drop(occupant);
    gate.wait_empty();
}
