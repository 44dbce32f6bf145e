//! MongoDB, hidden contention: replication and reads on a secondary use the same database lock.

use super::figure::{Absolute, Claim, Figure, Sweep, Time, arm};
use super::found::largest;
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-mongodb-hidden-contention",
    title: "MongoDB: replication takes the database lock from reads on the secondaries",
    figure: "Figure 4.20",
    about: "Eight replication sets. C1 reads from the secondaries (40 threads at each). C2 writes to the primaries (40 threads at each), which is replicated; the more documents a write changes, the longer its replication holds the lock: 0.1 ms and 100 bytes for each document. Queues are fair, each separately or all of a secondary together.",
    system: "mongodb",
    scenario: r#"
name = "MongoDB, hidden contention"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "read-secondary", entry = "each", threads = 640 }] },
    { name = "C2", load = [{ request = "write", entry = "each", threads = 320, parameters = { lock = "{x} ms", data = "{x} KB", oplog = "{x} KB" } }] },
]
"#,
    sweep: Sweep {
        key: "lock_held_ms",
        label: "time for which the documents of a write hold the lock, ms",
        points: &[0.1, 50.0, 200.0, 500.0, 1000.0],
    },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: one scheduler", "?|?|d|?|?")],
    time: Time { full_s: 20, quick_s: 10, warmup_s: 5 },
    keep: &["C*_per_s", "secondary.db-lock_*", "secondary.cpu_used_fraction"],
    derive: |run| {
        let used = run.numbers.get("secondary.db-lock_used_fraction").copied().unwrap_or(f64::NAN);
        for client in ["C1", "C2"] {
            let key = format!("secondary.db-lock_{client}_fraction");
            if let Some(part) = run.numbers.get(&key).copied() {
                run.numbers.insert(format!("lock_{client}_fraction"), used * part);
            }
        }
    },
    claims: &[
        Claim::new("original: C2 holds the lock nearly all of the time")
            .paper("up to 98 %").given(0.98)
            .ours("part of the time, with 1,000 ms", |seed| {
                seed.get("original", 1000.0, "lock_C2_fraction")
            })
            .at_least(0.95),
        Claim::new("original: C1's reads collapse")
            .paper("from 35 to less than 0.5 kop/s (1.4 %)").given(0.014)
            .ours("C1's throughput with 1,000 ms, of that with 0.1 ms", |seed| {
                seed.ratio("original", "C1_per_s", 1000.0, 0.1)
            })
            .absolute(&[
                Absolute {
                    what: "kop/s with 0.1 ms",
                    paper: 35.0,
                    ours: |seed| seed.get("original", 0.1, "C1_per_s") / 1e3,
                },
                Absolute {
                    what: "kop/s with 1,000 ms",
                    paper: 0.5,
                    ours: |seed| seed.get("original", 1000.0, "C1_per_s") / 1e3,
                },
            ])
            .at_most(0.05)
            .note("a worker of ours serves a read in 100 us of CPU alone, on 16 nodes; the paper does not say its cost"),
        Claim::new("direct: C2 holds the lock for at most half of the time")
            .paper("up to 50 %").given(0.5)
            .ours("largest part of the time", |seed| {
                seed.all("direct: one scheduler", "lock_C2_fraction").into_iter().fold(0.0, largest)
            })
            .at_most(0.52),
        Claim::new("direct: C1's throughput is stable as C2 changes more documents")
            .paper("stabilizes")
            .ours("C1's throughput with 1,000 ms, of that with 50 ms", |seed| {
                seed.ratio("direct: one scheduler", "C1_per_s", 1000.0, 50.0)
            })
            .between(0.9, 1.1),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep(arm, "requests/s of C1").line("C1", arm, "C1_per_s").up_to(160_000.0),
            );
        }
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep("Database lock of the secondaries", "fraction of the time")
                    .line("C1", arm, "lock_C1_fraction")
                    .line("C2", arm, "lock_C2_fraction")
                    .up_to(1.0),
            );
        }
        panels
    },
    expected_s: (240, 20),
};
