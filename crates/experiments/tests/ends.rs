//! An experiment that is ended before its time leaves no volume mounted and no server running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headworks_rig::postgres_or_skip;

const DEADLINE: Duration = Duration::from_secs(120);

/// The program `headworks`, which another crate makes beside ours.
fn headworks_or_skip() -> Option<PathBuf> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_headworks-bench")).with_file_name("headworks");
    if !program.exists() || !program.with_file_name("libheadworks.so").exists() {
        println!("skipped: needs cargo build -p headworks -p headworks-shim");
        return None;
    }
    Some(program)
}

/// Mounts below a working directory, and processes whose command line or own directory names it.
fn left_in(work: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains(work)).map(str::to_owned).collect();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let command = fs::read(path.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let home = fs::read_link(path.join("cwd")).unwrap_or_default();
        if command.contains(work) || home.display().to_string().contains(work) {
            left.push(format!("{}: {command}", path.display()));
        }
    }
    left
}

fn wait_for(child: &mut Child, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        assert!(child.try_wait().unwrap().is_none(), "it ended before: {what}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_experiment_that_is_ended_leaves_nothing() {
    if headworks_or_skip().is_none() || !postgres_or_skip() {
        return;
    }
    for (name, signal) in [("asked", libc::SIGTERM), ("killed", libc::SIGKILL)] {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("ends-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_headworks-bench"))
            .args(["run", "split-postgres", "--quick", "--out"])
            .arg(&out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let work = format!("headworks-work-{}", child.id());
        let mut runs = || {
            let left = left_in(&work);
            left.iter().any(|line| line.contains("/mnt ext4"))
                && left.iter().any(|line| line.contains("/mnt/data"))
        };
        wait_for(&mut child, "a server on a mounted volume", &mut runs);
        // SAFETY: signals the process that this test started.
        unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() || !left_in(&work).is_empty() {
            let left = left_in(&work);
            assert!(begun.elapsed() < DEADLINE, "{name}: {left:#?}");
            sleep(Duration::from_millis(50));
        }
        println!("{name}: all is gone after {:?}", begun.elapsed());
        let files: Vec<_> = fs::read_dir(&out).unwrap().flatten().map(|file| file.path()).collect();
        assert!(files.is_empty(), "{name}: {files:?}");
        fs::remove_dir_all(&out).unwrap();
    }
}
