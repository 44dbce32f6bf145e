//! Finds the programs that the rig starts, and names the package of a missing one.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// What a test prints when it skips because there is no MariaDB on the machine.
pub const SKIPPED: &str =
    "skipped: mariadbd is not installed (apt-get install mariadb-server-core)";

/// Directories of distributions for daemons, which are not on an ordinary user's `PATH`.
const DAEMON_DIRECTORIES: [&str; 4] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin"];

/// The MariaDB programs of this machine.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The server itself.
    pub mariadbd: PathBuf,
    /// The script that initialises a data directory.
    pub install_db: PathBuf,
}

impl Programs {
    /// Finds both programs, or fails with the package to install.
    pub fn find() -> Result<Self> {
        let missing =
            |name: &str| format!("{name} is not installed (apt-get install mariadb-server-core)");
        Ok(Self {
            mariadbd: find_program("mariadbd").with_context(|| missing("mariadbd"))?,
            install_db: find_program("mariadb-install-db")
                .with_context(|| missing("mariadb-install-db"))?,
        })
    }

    /// The server's own version line, such as `mariadbd  Ver 10.11.6-MariaDB …`.
    pub fn version(&self) -> Result<String> {
        let output = Command::new(&self.mariadbd)
            .args(["--no-defaults", "--version"])
            .env_remove("LD_PRELOAD")
            .output()
            .with_context(|| format!("cannot run {}", self.mariadbd.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Searches for an executable file on `PATH` and in the directories of daemons.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(DAEMON_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_program_that_every_machine_has() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
    }
}
