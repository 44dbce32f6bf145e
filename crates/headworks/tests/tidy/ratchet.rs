//! Faults of the house that are counted. A count may only fall.
//!
//! `ratchet.toml` has today's counts. A change that removes a fault lowers its count there:
//! `HEADWORKS_TIDY=lower cargo test -p headworks --test tidy` does it. A change that adds a fault
//! is refused: mend the fault, and leave the count alone.

use crate::{circles, functions, root, sources, texts};
use std::collections::BTreeMap;
use std::path::Path;

/// A file ends where its subject ends. One that is longer than this rarely has one subject.
const LINES_MAX: usize = 500;

/// Words behind which the subject of a sentence hides.
const WORDS: [&str; 10] = [
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anybody",
    "to be had",
    "anew",
    "by itself",
    "looks again",
    "of its own",
];

/// Counts by kind and name.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// What was found: its count, and where.
#[derive(Default)]
struct Found {
    counts: Counts,
    places: BTreeMap<(String, String), Vec<String>>,
}

impl Found {
    fn add(&mut self, kind: &str, name: &str, place: String) {
        *self.counts.entry(kind.to_owned()).or_default().entry(name.to_owned()).or_default() += 1;
        self.places.entry((kind.to_owned(), name.to_owned())).or_default().push(place);
    }
}

fn crate_of(path: &Path) -> String {
    let below = path.strip_prefix(root().join("crates")).expect("a file of a crate");
    below.iter().next().expect("a crate").to_string_lossy().into_owned()
}

fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn find() -> Found {
    let mut found = Found::default();
    let here = Path::new("tests").join("tidy");
    let mut sources = sources(&root().join("crates"));
    sources.retain(|(path, _)| !path.parent().is_some_and(|folder| folder.ends_with(&here)));
    let mut parsed: BTreeMap<String, Vec<(String, syn::File)>> = BTreeMap::new();
    for (path, text) in &sources {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            found.add("long_files", &crate_of(path), format!("{} ({lines})", short(path)));
        }
        let file = syn::parse_file(text).expect("Rust");
        for (name, lines) in functions::long_ones(&file) {
            let place = format!("{}: {name} ({lines})", short(path));
            found.add("long_functions", &crate_of(path), place);
        }
        let source = root().join("crates").join(crate_of(path)).join("src");
        if let Ok(below) = path.strip_prefix(source)
            && !below.starts_with("bin")
        {
            parsed.entry(crate_of(path)).or_default().push((below.display().to_string(), file));
        }
    }
    for (name, files) in &parsed {
        for circle in circles::circles(files) {
            for file in &circle {
                found.add("files_in_circles", name, format!("{file} ({})", circle.join(", ")));
            }
        }
    }
    let mut documents = texts(&root(), "md");
    documents.append(&mut sources);
    for (path, text) in &documents {
        for (at, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in WORDS {
                for _ in 0..occurrences(&line, word) {
                    found.add("words", word, format!("{}:{}", short(path), at + 1));
                }
            }
        }
    }
    found
}

/// How often a word stands in a line, not as a part of another word.
fn occurrences(line: &str, word: &str) -> usize {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word)
        .filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !is_letter(before) && !is_letter(after)
        })
        .count()
}

#[test]
fn no_fault_is_added() {
    let file = root().join("crates/headworks/tests/tidy/ratchet.toml");
    let text = std::fs::read_to_string(&file).expect("the counts");
    let known: Counts = toml::from_str(&text).expect("TOML");
    let found = find();
    let count = |counts: &Counts, kind: &str, name: &str| {
        counts.get(kind).and_then(|names| names.get(name)).copied().unwrap_or(0)
    };
    if std::env::var("HEADWORKS_TIDY").is_ok_and(|value| value == "show") {
        println!("{:#?}", found.places);
    }
    let mut added = String::new();
    for ((kind, name), places) in &found.places {
        let (now, allowed) = (places.len(), count(&known, kind, name));
        if now > allowed {
            let places = places.join("\n  ");
            added += &format!(
                "{kind}, {name}: {now}, and {allowed} are allowed. Mend one of:\n  {places}\n"
            );
        }
    }
    assert!(added.is_empty(), "{added}");
    if found.counts == known {
        return;
    }
    let note: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .flat_map(|line| [line, "\n"])
        .collect();
    let lowered = note + "\n" + &toml::to_string(&found.counts).expect("TOML");
    if std::env::var("HEADWORKS_TIDY").is_ok_and(|value| value == "lower") {
        std::fs::write(&file, lowered).expect("the counts");
    } else {
        panic!(
            "there are fewer faults than {} says. Lower its counts:\n  HEADWORKS_TIDY=lower cargo test -p headworks --test tidy",
            short(&file)
        );
    }
}
