//! Where a mistake is in a file's text.

use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

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

    /// A mistake in what `path` names, such as `device.kind`, or `volume.2.size` for the third
    /// `[[volume]]`. If the file does not say it, the mistake is placed at the section.
    pub fn at_path(&self, path: &str, what: String, mend: String) -> Mistake {
        self.at(self.find(path).unwrap_or(0), what, mend)
    }

    /// Offset of the last key of a path that the file says. `None` without the first.
    fn find(&self, path: &str) -> Option<usize> {
        let parsed = DeTable::parse(self.text).ok()?;
        let (mut at, mut table) = (None, parsed.get_ref());
        let mut keys = path.split('.');
        while let Some(name) = keys.next() {
            let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else {
                break;
            };
            at = Some(key.span().start);
            let mut value = value;
            if let DeValue::Array(sections) = value.get_ref() {
                let index = keys.next().and_then(|index| index.parse::<usize>().ok());
                let Some(section) = index.and_then(|index| sections.get(index)) else { break };
                at = Some(section.span().start);
                value = section;
            }
            let DeValue::Table(inner) = value.get_ref() else { break };
            table = inner;
        }
        at
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

    #[test]
    fn a_path_is_found_as_far_as_the_file_says_it() {
        let text = "a = 1\n[device]\nkind = 'x'\n[[volume]]\nname = 'a'\n[[volume]]\nname = 'b'\n";
        let place = Place { text, path: Path::new("x.toml") };
        let line = |path: &str| place.at_path(path, String::new(), String::new()).line;
        let lines = ["a", "device.kind", "device.depth", "volume.1.name", "volume.1.size", "b"];
        assert_eq!(lines.map(line), [1, 3, 2, 7, 6, 1]);
    }
}
