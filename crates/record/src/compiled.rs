//! Programs in Java that tests and experiments run. They are compiled when they are wanted.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What to install where there is no `javac`.
pub(crate) const MISSING: &str = "cannot start javac: apt-get install default-jdk-headless";

/// A compiled program. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Classes {
    folder: PathBuf,
    name: &'static str,
}

impl Classes {
    /// Compiles a program of one file, which has its class's name.
    pub(crate) fn compile(name: &'static str, source: &str) -> Result<Classes> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = format!("headworks-{}-{}-{number}", name.to_lowercase(), std::process::id());
        let classes = Classes { folder: std::env::temp_dir().join(folder), name };
        std::fs::create_dir(&classes.folder)?;
        let file = classes.write(&format!("{name}.java"), source)?;
        let mut command = Command::new("javac");
        command.arg("-d").arg(&classes.folder).arg(&file).env_remove("LD_PRELOAD");
        let status = command.status().context(MISSING)?;
        ensure!(status.success(), "javac refuses {}", file.display());
        Ok(classes)
    }

    /// Writes a file that goes with the program.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.join(name);
        std::fs::write(&file, text)?;
        Ok(file)
    }

    /// Runs it with this virtual machine and its options. Words of the program follow.
    pub(crate) fn command(&self, java: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(java);
        command.args(options).arg("-cp").arg(&self.folder).arg(self.name);
        command.env_remove("LD_PRELOAD");
        command
    }
}

impl Drop for Classes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
