//! What is wrong with a configuration, where, and what to write instead.

use headworks_settings::Mistake;
use std::io;
use std::path::{Path, PathBuf};

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {cause}\n  {}", path.display(), read_mend(cause, path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A profile, or the directory of profiles, cannot be read.
    #[error("cannot read the profile {}: {cause}\n  `headworks profile list` names those that there are", path.display())]
    ReadProfile {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Something in the file is wrong.
    #[error(transparent)]
    Invalid(#[from] Mistake),
}

fn read_mend(cause: &io::Error, path: &Path) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => {
            "Check the name after --config; without --config the defaults hold.".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!(
            "This user may not read it: `ls -l {0}` shows its mode; `sudo chmod o+r {0}` lets all users read it.",
            path.display()
        ),
        io::ErrorKind::IsADirectory => "It is a directory; name the file in it.".to_owned(),
        _ => format!("`cat {}` should show the same error.", path.display()),
    }
}
