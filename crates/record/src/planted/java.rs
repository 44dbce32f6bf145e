//! A server in Java, whose limit is its heap.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const PROGRAM: &str = include_str!("Small.java");
/// Of these, 34 MB are in use all the time, and 4 MB are for what is young. The larger one has
/// room for twice as much garbage.
const HEAP: &str = "-Xmx48m";
const LARGER_HEAP: &str = "-Xmx58m";

/// The compiled server. It goes when this is dropped.
pub(super) struct Classes(PathBuf);

impl Classes {
    pub(super) fn compile() -> Result<Classes> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("headworks-planted-{}-{number}", std::process::id());
        let classes = Classes(std::env::temp_dir().join(name));
        std::fs::create_dir(&classes.0)?;
        let source = classes.0.join("Small.java");
        std::fs::write(&source, PROGRAM)?;
        let status = Command::new("javac").arg("-d").arg(&classes.0).arg(&source).status();
        let status = status.context("cannot start javac: apt-get install default-jdk-headless")?;
        ensure!(status.success(), "javac refuses {}", source.display());
        Ok(classes)
    }

    pub(super) fn command(&self, mended: bool) -> Command {
        let mut command = Command::new("java");
        let heap = if mended { LARGER_HEAP } else { HEAP };
        command.args(["-XX:+UseSerialGC", "-Xmn4m", heap, "-cp"]).arg(&self.0).arg("Small");
        command.env_remove("LD_PRELOAD");
        command
    }
}

impl Drop for Classes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
