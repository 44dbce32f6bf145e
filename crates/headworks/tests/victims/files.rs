//! Programs that work on files: under every I/O scheduler they see what they see without.

use crate::compile::Workshop;
use crate::support::RunDir;
use headworks_policy::split::SplitKind;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output};

/// Limits the child that is killed, so that it is killed while it is held.
const RULES: &str = "[io]\nio_hold_ms_max = 500\n\
    [[io.file]]\npath = \"*/small\"\nfsync_ms = 5\n\
    [[io.thread]]\nname = \"killed\"\npriority = 7\nbytes_per_s = 1000000\n";

fn in_a_directory(dir: &Path, name: &str, command: &mut Command) -> Output {
    let place = dir.join(name);
    std::fs::create_dir_all(&place).unwrap();
    command.arg(&place).output().expect("the program starts")
}

#[test]
fn every_call_on_files_is_what_it_is_without_a_scheduler() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("files.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-files-{}", std::process::id()));
    let plain = in_a_directory(&dir, "plain", &mut Command::new(&program));
    assert!(plain.status.success(), "{plain:?}");
    let wanted = String::from_utf8(plain.stdout).unwrap();
    assert!(wanted.contains("locked: 1") && wanted.lines().count() > 50, "{wanted}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(&program);
        let found = in_a_directory(&dir, kind.name(), &mut command);
        assert!(found.status.success(), "{kind}: {found:?}");
        assert_eq!(String::from_utf8(found.stdout).unwrap(), wanted, "under {kind}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Lets a filter of the kernel's (seccomp) kill the program, and all that it starts, for a system
/// call. A service's `SystemCallFilter` does so.
fn forbid(command: &mut Command, call: u32) {
    const LOAD_NUMBER: libc::sock_filter = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let is_it = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: call };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let mut filter = [
        LOAD_NUMBER,
        is_it,
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: two system calls with what they ask for.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    != 0
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_filter_that_kills_for_cachestat_kills_nobody() {
    const CACHESTAT: u32 = 451;
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("files.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-filter-{}", std::process::id()));
    let plain = in_a_directory(&dir, "plain", &mut Command::new(&program));
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    for kind in [SplitKind::Deadline, SplitKind::Rcp] {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(&program);
        forbid(&mut command, CACHESTAT);
        command.env_remove("JOURNAL_STREAM");
        let found = in_a_directory(&dir, kind.name(), &mut command);
        assert!(found.status.success(), "{kind}: {found:?}");
        assert_eq!(found.stdout, plain.stdout, "under {kind}");
        let told = String::from_utf8(found.stderr).unwrap();
        assert!(told.contains("forbids cachestat"), "{told}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

const HOLD_MS: u64 = 1_500;

/// The milliseconds that a program prints which has used up all that it may for a quarter of an
/// hour.
fn out_of_tokens(source: &str) -> Option<Vec<u64>> {
    let workshop = Workshop::open()?;
    let program = workshop.compile(source, &[]);
    let dir = std::env::temp_dir().join(format!("headworks-{source}-{}", std::process::id()));
    let run = RunDir::new();
    let rules = "[[io.thread]]\nname = \"*\"\nbytes_per_s = 1000\n";
    let config = run.file("io.toml", &format!("[io]\nio_hold_ms_max = {HOLD_MS}\n{rules}"));
    let mut command = run.headworks(["run", "--name", "held", "--io", "split-token"]);
    command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
    command.arg(&config).arg("--").arg(&program);
    let output = in_a_directory(&dir, "held", &mut command);
    assert!(output.status.success(), "{output:?}");
    let _ = std::fs::remove_dir_all(&dir);
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.split_whitespace().map(|word| word.parse().unwrap()).collect())
}

#[test]
fn a_batch_is_held_for_as_long_as_one_call() {
    let Some(took_ms) = out_of_tokens("batchheld.c") else { return };
    // Each of its eight parts would have to wait.
    assert!((HOLD_MS - 100..6 * HOLD_MS).contains(&took_ms[0]), "{took_ms:?}");
}

#[test]
fn connections_with_the_number_of_a_file_and_calls_that_change_nothing_are_not_held() {
    let Some(took_ms) = out_of_tokens("numbers.c") else { return };
    let [conns, nulls, made] = took_ms[..] else { panic!("{took_ms:?}") };
    // Ten calls of each, of which each would be held.
    assert!(conns < 2 * HOLD_MS && nulls < 2 * HOLD_MS, "{took_ms:?}");
    assert!(made >= HOLD_MS - 100, "to make a file is held: {took_ms:?}");
}

#[test]
fn the_child_of_a_server_that_was_killed_is_held_no_longer() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("orphan.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-orphan-{}", std::process::id()));
    let run = RunDir::new();
    let rules = "[io]\nio_hold_ms_max = 60000\n[[io.thread]]\nname = \"*\"\nbytes_per_s = 1000\n";
    let config = run.file("io.toml", rules);
    let mut command = run.headworks(["run", "--name", "orphan", "--io", "split-token"]);
    command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
    command.arg(&config).arg("--").arg(&program);
    let begun = std::time::Instant::now();
    // Its output ends with the child.
    let output = in_a_directory(&dir, "held", &mut command);
    let _ = std::fs::remove_dir_all(&dir);
    let took = begun.elapsed().as_secs();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "over\n");
    assert!(took < 30, "each of its writes would be held for a minute: {took} s");
}

/// Options for the compiler if both libraries can be linked without their headers.
fn libraries() -> &'static [&'static str] {
    const WANTED: [&str; 2] = ["libaio.so.1", "liburing.so.2"];
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = |name| folders.iter().any(|folder| Path::new(folder).join(name).exists());
    if WANTED.into_iter().all(found) {
        return &["-DLIBAIO", "-DLIBURING", "-l:libaio.so.1", "-l:liburing.so.2"];
    }
    println!("without libaio and liburing (apt-get install libaio1 liburing2): bare calls only");
    &[]
}

#[test]
fn writes_that_are_durable_when_they_return_are_commits() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("commits.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-commits-{}", std::process::id()));
    let run = RunDir::new();
    for kind in [SplitKind::Deadline, SplitKind::Rcp, SplitKind::Afq] {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--"]).arg(&program);
        let ours = crate::support::program().display();
        let top = format!("unset LD_PRELOAD; {ours} io top --json --name {kind}");
        let found = in_a_directory(&dir, kind.name(), command.env("AT_END", top));
        assert!(found.status.success(), "{kind}: {found:?}");
        let state: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let accounts = state["accounts"].as_array().unwrap();
        let sum =
            |what: &str| -> u64 { accounts.iter().map(|row| row[what].as_u64().unwrap()).sum() };
        assert_eq!((sum("writes"), sum("fsyncs")), (6, 5), "{kind}: {state}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn others_are_held_for_a_commit_by_whatever_call_it_comes() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("beside.c", libraries());
    let dir = std::env::temp_dir().join(format!("headworks-beside-{}", std::process::id()));
    let run = RunDir::new();
    let ways = ["fsync", "libaio-fsync", "libaio-durable", "libaio-flag", "ring", "ring-flag"];
    for way in ways.into_iter().filter(|way| !way.starts_with("ring") || !libraries().is_empty()) {
        let mut command = run.headworks(["run", "--name", way, "--io", "split-deadline"]);
        command.args(["--io-device", "disk", "--profile", "generic", "--"]).arg(&program).arg(way);
        let ours = crate::support::program().display();
        let top = format!("unset LD_PRELOAD; {ours} io top --json --name {way}");
        let found = in_a_directory(&dir, way, command.env("AT_END", top));
        if found.status.code() == Some(77) {
            println!("skipped: no io_uring here");
            continue;
        }
        assert!(found.status.success(), "{way}: {found:?}");
        let state: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let rows = state["accounts"].as_array().unwrap();
        let writer = rows.iter().find(|row| row["name"] == "writer").expect("its account");
        // 32 of the 40 writes, and the flush, come with much that is dirty.
        let held = writer["held"].as_u64().unwrap();
        println!("{way}: held {held}");
        assert!(held >= 20, "{way}: held {held}: {state}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_file_is_governed_though_its_number_was_something_elses_of_the_c_library() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("reused.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-reused-{}", std::process::id()));
    let run = RunDir::new();
    for way in ["pipe", "directory", "device", "nothing", "fuse"] {
        let mut command = run.headworks(["run", "--name", way, "--io", "split-token"]);
        command.args(["--io-device", "disk", "--profile", "generic", "--"]).arg(&program).arg(way);
        let ours = crate::support::program().display();
        let top = format!("unset LD_PRELOAD; {ours} io top --json --name {way}");
        let found = in_a_directory(&dir, way, command.env("AT_END", top));
        if found.status.code() == Some(77) {
            println!("without {way}: no such device here");
            continue;
        }
        assert!(found.status.success(), "{way}: {found:?}");
        let state: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let rows = state["accounts"].as_array().unwrap().iter();
        let bytes: u64 = rows.map(|row| row["written_bytes"].as_u64().unwrap()).sum();
        if way == "fuse" {
            assert_eq!(bytes, 0, "its clients are governed, and it is not: {state}");
            continue;
        }
        assert!(bytes >= 7 << 20, "{way}: {bytes} bytes of 8 MiB: {state}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn what_is_written_to_a_block_device_is_governed() {
    let dir = std::env::temp_dir().join(format!("headworks-block-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::File::create(dir.join("bytes")).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(dir.join("bytes")).output();
    let made = made.ok().filter(|made| made.status.success());
    let Some(made) = made else { return println!("skipped: no loop device can be made") };
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let run = RunDir::new();
    let ours = crate::support::program().display();
    let script = format!(
        "dd if=/dev/zero of={device} bs=1M count=16 conv=fsync; unset LD_PRELOAD; {ours} io top --json --name b"
    );
    let mut command = run.headworks(["run", "--name", "b", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    let found = command.output();
    // Before anything is asserted: nothing is left of a test that fails.
    let _ = Command::new("losetup").args(["--detach", &device]).status();
    let _ = std::fs::remove_dir_all(&dir);
    let found = found.unwrap();
    let state: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let dd = state["accounts"].as_array().unwrap().iter().find(|row| row["name"] == "dd");
    let dd = dd.unwrap_or_else(|| panic!("no row of dd: {state}"));
    assert_eq!((&dd["writes"], &dd["fsyncs"]), (&16.into(), &1.into()), "{state}");
}

#[test]
fn what_streams_copies_and_mappings_write_is_charged_and_written_back_first() {
    // SAFETY: the call refuses the descriptor.
    if unsafe { libc::syscall(451, -1, 0, 0, 0) } < 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
    {
        println!("skipped: no cachestat (Linux 6.5)");
        return;
    }
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("unseen.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-unseen-{}", std::process::id()));
    let plain = in_a_directory(&dir, "plain", &mut Command::new(&program));
    assert!(plain.status.success(), "{plain:?}");
    let wanted = String::from_utf8(plain.stdout).unwrap();
    let run = RunDir::new();
    for kind in SplitKind::ALL.into_iter().filter(|kind| *kind != SplitKind::Noop) {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--"]).arg(&program);
        let ours = crate::support::program().display();
        let top = format!("unset LD_PRELOAD; {ours} io top --json --name {kind} >&2");
        let found = in_a_directory(&dir, kind.name(), command.env("AT_END", top));
        assert!(found.status.success(), "{kind}: {found:?}");
        assert_eq!(String::from_utf8(found.stdout).unwrap(), wanted, "under {kind}");
        let told = String::from_utf8(found.stderr).unwrap();
        let json = &told[told.find("{\n").or(told.find('{')).unwrap_or(0)..];
        let mut values = serde_json::Deserializer::from_str(json).into_iter();
        let state: serde_json::Value = values.next().expect(&told).expect(&told);
        let accounts = state["accounts"].as_array().unwrap();
        let sum =
            |what: &str| -> u64 { accounts.iter().map(|row| row[what].as_u64().unwrap()).sum() };
        // Two streams, a copy and most of another one, each but for a step that is not full.
        assert!(sum("written_bytes") >= (4 * 4 - 2) << 20, "{kind}: {told}");
        if kind == SplitKind::Deadline {
            assert!(sum("written_back_pieces") > 0, "what the mapping dirtied: {told}");
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn batches_rings_and_mappings_are_what_they_are_without_a_scheduler() {
    let Some(workshop) = Workshop::open() else { return };
    let options = libraries();
    let program = workshop.compile("batches.c", options);
    let dir = std::env::temp_dir().join(format!("headworks-batches-{}", std::process::id()));
    let plain = in_a_directory(&dir, "plain", &mut Command::new(&program));
    assert!(plain.status.success(), "{plain:?}");
    let wanted = String::from_utf8(plain.stdout).unwrap();
    assert!(wanted.lines().count() > 25, "{wanted}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        let ours = crate::support::program().display();
        let top = format!(
            "exec >&2; unset LD_PRELOAD; {ours} io top --json --name {kind}; \
             {ours} io top -d 0.1 --count 1 --name {kind}; {ours} doctor; true"
        );
        command.arg(&config).arg("--").arg(&program).env("AT_END", top);
        let found = in_a_directory(&dir, kind.name(), &mut command);
        assert!(found.status.success(), "{kind}: {found:?}");
        assert_eq!(String::from_utf8(found.stdout).unwrap(), wanted, "under {kind}");
        let told = String::from_utf8(found.stderr).unwrap();
        if kind == SplitKind::Noop {
            continue;
        }
        let json = &told[told.find('{').unwrap_or(0)..];
        let mut values = serde_json::Deserializer::from_str(json).into_iter();
        let state: serde_json::Value = values.next().expect(&told).expect(&told);
        assert_eq!(state["waiting"], 0, "{told}");
        assert_eq!(state["mapped_files"], 1, "{told}");
        let sum = |what: &str| -> u64 {
            state["accounts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row[what].as_u64().unwrap())
                .sum()
        };
        // Three parts of batches, two bare writes, two msyncs, and what the rings take.
        assert!(sum("writes") >= 6 && sum("written_bytes") >= 16_384 + 65_536, "{told}");
        assert!(sum("fsyncs") >= 4, "{told}");
        if !options.is_empty() {
            let rings = &state["rings"][0];
            assert_eq!(
                (&rings["charged"], &rings["not_governed"]),
                (&1.into(), &1.into()),
                "{told}"
            );
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
}
