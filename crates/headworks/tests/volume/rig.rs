//! Volumes in a place of their own, and what they need of the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Whether volumes can be mounted here; says why not.
pub fn can_mount_or_skip() -> bool {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: mounting needs root");
        return false;
    }
    for node in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(node).exists() {
            println!("skipped: {node} is missing");
            return false;
        }
    }
    for program in ["mkfs.ext4", "e2fsck"] {
        if find(program).is_none() {
            println!("skipped: {program} is missing (apt-get install e2fsprogs)");
            return false;
        }
    }
    true
}

/// A program of the system, also where users' paths do not lead.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// Directories of a test, and the program run in them. Whatever is left at the end is unmounted
/// and removed.
pub struct Rig {
    pub dir: PathBuf,
}

impl Rig {
    pub fn new() -> Rig {
        // Beside the build's results: a real file system, where /tmp may be memory.
        let beside = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = beside.join(format!("volume-{}-{number}", std::process::id()));
        std::fs::create_dir_all(dir.join("mnt")).unwrap();
        Rig { dir }
    }

    /// Where file systems go.
    pub fn mnt(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// A backing file of a volume.
    pub fn image(&self, name: &str) -> String {
        self.dir.join(format!("{name}.img")).display().to_string()
    }

    /// `headworks volume …`.
    pub fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_headworks"))
            .arg("volume")
            .args(arguments)
            .env("HEADWORKS_RUN_DIR", self.dir.join("run"))
            .env("HEADWORKS_STATE_DIR", self.dir.join("state"))
            .output()
            .unwrap()
    }

    /// The same, which must succeed; its output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same, which must fail; what it says.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?} was done");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// `stat --json` of a volume.
    pub fn stat(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["stat", "--json", name])).unwrap()
    }

    /// Mounts a volume on [`Rig::mnt`].
    pub fn mount(&self, name: &str) -> String {
        self.ok(&["mount", name, &self.mnt().display().to_string()])
    }

    /// The file system in an image must be sound, without any repair.
    pub fn assert_sound(&self, image: &str) {
        let output = Command::new(find("e2fsck").unwrap()).args(["-fn", image]).output().unwrap();
        assert!(
            output.status.success(),
            "e2fsck: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let listed = self.run(&["list", "--json"]);
        let volumes: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        for volume in volumes.as_array().into_iter().flatten() {
            self.run(&["umount", volume["name"].as_str().unwrap_or_default()]);
        }
        self.run(&["doctor"]);
        // Never through a mount that would not go away.
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if !mounts.contains(&self.dir.display().to_string()) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
