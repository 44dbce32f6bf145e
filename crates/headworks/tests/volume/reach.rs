//! A model that is faster than the way to it is said.

use crate::rig::{Rig, can_mount_or_skip};

/// No path through the kernel carries what this does: a million reads a second and more.
const TOO_FAST: &str = "
[ssd]
queue_depth = 1024
channels = 64
ways = 64
controller_us = 0.1
read_us = 0.1
program_us = 0.1
clean_us = 0
channel_mb_per_s = 1000000
link_mb_per_s = 1000000
cache_kib = 1024
write_us = 0.1
";

#[test]
fn a_model_that_outruns_the_way_to_it_is_said_at_mount_and_in_stat() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let device = rig.dir.join("too-fast.toml").display().to_string();
    std::fs::write(&device, TOO_FAST).unwrap();
    let create = ["create", "v", "--size", "64M", "--backing", "memory", "--raw", "--device"];
    rig.ok(&[&create, &[device.as_str()][..]].concat());
    let said = rig.ok(&["mount", "v"]);
    assert!(said.contains("note: the model does"), "{said}");
    assert!(said.contains("headworks volume serve v --nbd"), "{said}");
    let stat = rig.ok(&["stat", "v"]);
    assert!(stat.contains("TOO FAST   the model does"), "{stat}");
    let figures = &rig.stat("v")["figures"];
    let number = |name: &str| figures["reach"][name].as_f64().unwrap();
    assert!(number("arrived_per_s") > 0.0);
    assert!(number("model_per_s") > number("arrived_per_s"), "{figures}");
    // The kernel may have looked for partitions; what was measured is not counted.
    let reads = figures["counts"]["read"]["requests"].as_u64().unwrap();
    assert!(reads < 100, "{reads} reads that no program made");
    rig.umount("v");
}

#[test]
fn of_a_slow_model_nothing_is_said() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let create = ["create", "v", "--size", "64M", "--backing", "memory", "--raw"];
    rig.ok(&[&create, &["--device", "hdd"][..]].concat());
    let said = rig.ok(&["mount", "v"]);
    assert!(!said.contains("note: the model"), "{said}");
    assert!(rig.stat("v")["figures"]["reach"].is_null());
    assert!(!rig.ok(&["stat", "v"]).contains("TOO FAST"));
    rig.umount("v");
}
