//! Where a mistake is in a file's text.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One mistake in a file of settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistake {
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

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mistake { path, line, column, excerpt, what, mend } = self;
        writeln!(f, "{}:{line}:{column}: {what}", path.display())?;
        if !excerpt.trim().is_empty() {
            writeln!(f, "  {line} | {}", excerpt.trim_end())?;
        }
        write!(f, "  {mend}")
    }
}

/// The text of a file, to say where in it something is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The file, for the messages.
    pub path: &'a Path,
}

impl Place<'_> {
    /// A mistake in the value at `span`, placed at its key.
    pub fn at_key(&self, span: Range<usize>, what: String, mend: String) -> Mistake {
        self.at(self.key(span.start).start, what, mend)
    }

    /// A mistake at an offset in bytes.
    pub fn at(&self, offset: usize, what: String, mend: String) -> Mistake {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = &self.text[start..];
        Mistake {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            excerpt: rest.lines().next().unwrap_or_default().to_owned(),
            what,
            mend,
        }
    }

    /// The file has bytes that are no UTF-8, the first of them at `at`.
    pub fn not_text(path: &Path, bytes: &[u8], at: usize) -> Mistake {
        let before = String::from_utf8_lossy(&bytes[..at]);
        let place = Place { text: &before, path };
        let what = "this byte is no UTF-8".to_owned();
        let mend = format!(
            "Find the encoding with `file {0}` and convert the file with iconv.",
            path.display()
        );
        place.at(before.len(), what, mend)
    }

    /// Where the key is whose value starts at `value`. Without a key before it, `value` itself.
    fn key(&self, value: usize) -> Range<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_placed_at_the_key_and_shows_its_line() {
        let place = Place { text: "# ü\n  ways = \"no\"", path: Path::new("x.toml") };
        let value = place.text.find("\"no").unwrap();
        let mistake = place.at_key(value..value + 4, "no such way".into(), "Write yes.".into());
        let said = "x.toml:2:3: no such way\n  2 |   ways = \"no\"\n  Write yes.";
        assert_eq!(mistake.to_string(), said);
        assert_eq!(place.at(9_999, String::new(), String::new()).line, 2);
    }
}
