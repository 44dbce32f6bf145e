//! Changes to several files, made all or not at all.

use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file before and after; `None` means no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub before: Option<String>,
    /// What is to be in it.
    pub after: Option<String>,
}

impl Change {
    /// The change to `after`; `None` if the file has that content already.
    pub fn to(path: PathBuf, after: Option<String>) -> Result<Option<Change>> {
        let before = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Ok((before != after).then_some(Change { path, before, after }))
    }
}

/// Makes all changes; if one fails, the earlier ones are undone.
pub fn apply(changes: &[&Change]) -> Result<()> {
    for (done, change) in changes.iter().enumerate() {
        if let Err(error) = put(&change.path, change.after.as_deref()) {
            for undo in changes[..done].iter().rev() {
                let _ = put(&undo.path, undo.before.as_deref());
            }
            return Err(error.context("nothing was changed"));
        }
    }
    Ok(())
}

fn put(path: &Path, text: Option<&str>) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let Some(text) = text else {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        // Only if no other process has changed the file since.
        if directory.extension().is_some_and(|extension| extension == "d") {
            let _ = std::fs::remove_dir(directory);
        }
        return Ok(());
    };
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let fresh = path.with_extension("headworks-new");
        let mut file = std::fs::File::create(&fresh)?;
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path).inspect_err(|_| {
            let _ = std::fs::remove_file(&fresh);
        })
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
