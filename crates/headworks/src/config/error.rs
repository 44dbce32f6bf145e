//! What is wrong with a configuration, where, and what to write instead.

use std::io;
use std::ops::Range;
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
    #[error("{0}")]
    Invalid(Box<Invalid>),
}

/// One mistake in a configuration.
#[derive(Debug)]
pub struct Invalid {
    /// The file.
    pub path: PathBuf,
    /// Line of the key, from 1.
    pub line: usize,
    /// Column of the key in characters, from 1.
    pub column: usize,
    /// That line.
    pub excerpt: String,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub mend: String,
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Invalid { path, line, column, excerpt, what, mend } = self;
        writeln!(f, "{}:{line}:{column}: {what}", path.display())?;
        if !excerpt.trim().is_empty() {
            writeln!(f, "  {line} | {}", excerpt.trim_end())?;
        }
        write!(f, "  {mend}")
    }
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

impl ConfigError {
    /// The file has bytes that are no UTF-8, the first of them at `at`.
    pub(crate) fn not_text(path: &Path, bytes: &[u8], at: usize) -> Self {
        let before = String::from_utf8_lossy(&bytes[..at]);
        let place = Place { text: &before, path };
        place.at(
            before.len(),
            "this byte is no UTF-8".to_owned(),
            format!(
                "Find the encoding with `file {0}` and convert the file with iconv.",
                path.display()
            ),
        )
    }
}

/// The text of a configuration, to say where in it something is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub text: &'a str,
    pub path: &'a Path,
}

impl Place<'_> {
    /// An error about the value at `span`, placed at its key.
    pub(crate) fn at_key(&self, span: Range<usize>, what: String, mend: String) -> ConfigError {
        self.at(self.key(span.start).start, what, mend)
    }

    /// An error at an offset.
    pub(crate) fn at(&self, offset: usize, what: String, mend: String) -> ConfigError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = &self.text[start..];
        ConfigError::Invalid(Box::new(Invalid {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            excerpt: rest.lines().next().unwrap_or_default().to_owned(),
            what,
            mend,
        }))
    }

    /// Where the key is whose value starts at `value`; `value` itself if there is none before it.
    pub(crate) fn key(&self, value: usize) -> Range<usize> {
        let before = self.text.get(..value).unwrap_or_default();
        let Some(left) = before.trim_end().strip_suffix('=') else { return value..value };
        let key = left.trim_end();
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'');
        let start = key.len()
            - key.chars().rev().take_while(|&c| part(c)).map(char::len_utf8).sum::<usize>();
        start..key.len()
    }

    /// That key's name.
    pub(crate) fn key_name(&self, value: usize) -> &str {
        self.text[self.key(value)].trim_matches(['"', '\''])
    }
}

/// The known word that is most like `word`, if one is like it at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let normal = |text: &str| text.to_lowercase().replace('-', "_");
    let word = normal(word);
    known
        .into_iter()
        .map(|known| (strsim::levenshtein(&word, &normal(known)), known))
        .filter(|(distance, known)| {
            *distance <= 1.max(known.len() / 3)
                // An unfinished or prefixed name: `hold_ms` for `hold_ms_max`.
                || (word.len() >= 3 && (normal(known).contains(&word) || word.contains(&normal(known))))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// "Did you mean `near`? ", or nothing. `quote` stands on both sides of the word.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    quote: char,
) -> String {
    let question = |near: &str| format!("Did you mean {quote}{near}{quote}? ");
    nearest(word, known).map(question).unwrap_or_default()
}
