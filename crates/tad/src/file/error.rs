//! What a file says, or what is wrong in it, where, and what would fix it.

use std::fmt;
use std::ops::Range;

/// One mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and why that is wrong.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileError { file, line, problem, hint } = self;
        write!(f, "{file}:{line}: {problem}\n  {hint}")
    }
}

impl std::error::Error for FileError {}

/// Every mistake that was found, in the order of the lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileError>);

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// What was read, and what is odd about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// What was read.
    pub value: T,
    /// What is probably not meant so, though it can be.
    pub warnings: Vec<FileError>,
}

/// A place in a file, as byte offsets.
pub(super) type Span = Range<usize>;

/// Collects what is wrong with one file.
#[derive(Debug)]
pub(super) struct Report<'a> {
    file: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    errors: Vec<FileError>,
    warnings: Vec<FileError>,
}

impl<'a> Report<'a> {
    pub fn new(file: &'a str, text: &str) -> Self {
        let lines =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Report { file, lines, errors: Vec::new(), warnings: Vec::new() }
    }

    pub fn error(&mut self, at: &Span, problem: impl Into<String>, hint: impl Into<String>) {
        let error = self.entry(at, problem.into(), hint.into());
        self.errors.push(error);
    }

    pub fn warn(&mut self, at: &Span, problem: impl Into<String>, hint: impl Into<String>) {
        let warning = self.entry(at, problem.into(), hint.into());
        self.warnings.push(warning);
    }

    pub fn clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// The value, unless something was wrong.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<Loaded<T>, FileErrors> {
        self.errors.sort_by_key(|error| error.line);
        self.warnings.sort_by_key(|error| error.line);
        match value {
            Some(value) if self.errors.is_empty() => Ok(Loaded { value, warnings: self.warnings }),
            _ => Err(FileErrors(self.errors)),
        }
    }

    fn entry(&self, at: &Span, problem: String, hint: String) -> FileError {
        let line = self.lines.partition_point(|&start| start <= at.start);
        FileError { file: self.file.to_owned(), line, problem, hint }
    }
}

/// "a, b or c" of names, for hints; says so if there are none.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => "(there are none)".to_owned(),
        [one] => (*one).to_owned(),
        [front @ .., last] => format!("{} or {last}", front.join(", ")),
    }
}

/// A hint for a name that is not known: the one that was probably meant, and all.
pub(super) fn suggest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match headworks_settings::nearest(word, known.iter().copied()) {
        Some(name) => format!("Did you mean \"{name}\"? Known: {}.", list(known)),
        None => format!("Known: {}.", list(known)),
    }
}
