//! The behaviours: one file each, below `behaviours/` in a directory for each database.
//!
//! The first lines of a file are comments of its language. `about: …` describes it. `bytes: yes`
//! says that every byte that the server sends must be the same, too. `tls: yes` says that clients
//! that encrypt run it, too, and `tls: only` that no others do. Lines of the output that contain a
//! text named by `ignore: …` are left out.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::database::Subject;

/// One thing that clients do.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The file's name.
    pub name: String,
    /// The script.
    pub path: PathBuf,
    /// What it does, in a line.
    pub about: String,
    /// Every byte from the server must be the same. Never so under encryption.
    pub bytes: bool,
    /// By which clients.
    pub by: By,
    /// Lines of the output with one of these are not compared.
    pub ignored: Vec<String>,
}

/// Which clients do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Only those that do not encrypt.
    Plain,
    /// All.
    Both,
    /// Only those that encrypt.
    Encrypted,
}

/// Where the suite's own files are.
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All behaviours of a database's clients, by name.
pub fn of(subject: Subject) -> Result<Vec<Behaviour>> {
    let directory = home().join("behaviours").join(subject.database.behaviours());
    let entries =
        fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let mut behaviour = read(&entry?.path())?;
        behaviour.bytes &= !subject.tls;
        let unwanted = if subject.tls { By::Plain } else { By::Encrypted };
        if behaviour.by != unwanted {
            found.push(behaviour);
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn read(path: &Path) -> Result<Behaviour> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut behaviour = Behaviour {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        about: String::new(),
        bytes: false,
        by: By::Plain,
        ignored: Vec::new(),
    };
    for line in text.lines() {
        let comment = ["-- ", "# ", "// "].into_iter().find_map(|mark| line.strip_prefix(mark));
        let Some((key, value)) = comment.and_then(|comment| comment.split_once(": ")) else {
            break;
        };
        match key {
            "about" => behaviour.about = value.to_owned(),
            "bytes" => behaviour.bytes = value == "yes",
            "tls" if value == "only" => behaviour.by = By::Encrypted,
            "tls" if value == "yes" => behaviour.by = By::Both,
            "ignore" => behaviour.ignored.push(value.to_owned()),
            _ => break,
        }
    }
    ensure!(!behaviour.about.is_empty(), "{} does not begin with `about: …`", path.display());
    Ok(behaviour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_says_what_it_does() {
        for subject in Subject::all() {
            let behaviours = of(subject).unwrap();
            assert!(behaviours.len() >= if subject.tls { 5 } else { 8 }, "{subject}");
            let bytes = behaviours.iter().any(|behaviour| behaviour.bytes);
            assert_eq!(bytes, !subject.tls, "{subject}");
            let encrypted = behaviours.iter().any(|behaviour| behaviour.by == By::Encrypted);
            assert_eq!(encrypted, subject.tls, "{subject}");
        }
    }
}
