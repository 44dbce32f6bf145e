//! Volumes in a separate place, and what they need of the machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// File systems, on sectors of either size.
pub const KINDS: [(&str, &str); 4] =
    [("ext4", "512"), ("xfs", "4096"), ("ext4", "4096"), ("xfs", "512")];

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

/// Power cuts of each kind of volume: more in the long test.
pub fn cuts_or(usual: u64) -> u64 {
    match std::env::var("HEADWORKS_VOLUME_CUTS") {
        Ok(text) => text.parse().expect("HEADWORKS_VOLUME_CUTS is a number"),
        Err(_) => usual,
    }
}

/// Whether this file system can be made and checked here; says why not.
pub fn can_make_or_skip(file_system: &str) -> bool {
    if file_system == "ext4" {
        return true;
    }
    if ["mkfs.xfs", "xfs_repair"].iter().any(|program| find(program).is_none()) {
        println!("skipped: mkfs.xfs or xfs_repair is missing (apt-get install xfsprogs)");
        return false;
    }
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap();
    if !kinds.lines().any(|line| line.trim() == "xfs") {
        println!("skipped: this kernel has no XFS (modprobe xfs)");
        return false;
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

    /// `headworks volume …`, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headworks"));
        command
            .arg("volume")
            .args(arguments)
            .env("HEADWORKS_RUN_DIR", self.dir.join("run"))
            .env("HEADWORKS_STATE_DIR", self.dir.join("state"));
        command
    }

    /// `headworks volume …`.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The same, in the background.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).spawn().unwrap()
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

    /// Mounts a volume after a power cut, as an operator would. Half of ext4's superblock may be
    /// new on sectors of 512 bytes: then by the command that the message has. Returns whether that
    /// was so.
    pub fn mount_after_cut(&self, name: &str, image: &str, block: &str) -> bool {
        let output = self.run(&["mount", name, &self.mnt().display().to_string()]);
        if output.status.success() {
            return false;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let torn = block == "512" && said.contains(&format!("mend it: e2fsck -f {image}"));
        assert!(torn, "not mountable after a cut: {said}");
        let output = Command::new(find("e2fsck").unwrap()).args(["-fy", image]).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code < 4), "{output:?}");
        self.mount(name);
        true
    }

    /// Unmounts as soon as the last that used it is gone.
    pub fn umount(&self, name: &str) {
        let began = Instant::now();
        loop {
            let output = self.run(&["umount", name]);
            if output.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!said.contains("did not end well"), "{said}");
            assert!(began.elapsed() < Duration::from_secs(60), "{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The file system in an image, if there is one, must be sound, without any repair.
    pub fn assert_sound(&self, image: &str) {
        use std::io::Read;
        let mut head = vec![0; 2048];
        let read = std::fs::File::open(image).and_then(|mut file| file.read_exact(&mut head));
        let (program, option) = match read {
            Ok(()) if head.starts_with(b"XFSB") => ("xfs_repair", "-fn"),
            Ok(()) if head[0x438..0x43a] == [0x53, 0xef] => ("e2fsck", "-fn"),
            _ => return,
        };
        let output = Command::new(find(program).unwrap()).args([option, image]).output().unwrap();
        assert!(
            output.status.success(),
            "{program}: {}{}",
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
        // Whatever was mounted here is sound in the end.
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "img") && !std::thread::panicking() {
                self.assert_sound(&path.display().to_string());
            }
        }
        // Never through a mount that would not go away.
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if !mounts.contains(&self.dir.display().to_string()) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
