//! What can be held by looking at the sources.

mod circles;
mod documents;
mod functions;
mod ratchet;

use headworks_region::layout::COUNTERS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn sources(below: &Path) -> Vec<(PathBuf, String)> {
    texts(below, "rs")
}

/// The files with this extension below a folder, with their texts, in the order of their paths.
fn texts(below: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let found = named(below, ending);
    assert!(!found.is_empty());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// The paths of the files with this extension below a folder, in their order.
fn named(below: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let fetched = ["target", "node_modules"].iter().any(|name| entry.file_name() == *name);
            if path.is_dir() && !fetched {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_counter_is_counted_somewhere() {
    let sources = sources(&root().join("crates"));
    for (counter, name, _) in COUNTERS {
        let used = format!("Counter::{counter:?}");
        let counted = sources
            .iter()
            .filter(|(path, _)| {
                path.iter().any(|part| part == "src") && !path.ends_with("region/src/layout.rs")
            })
            .any(|(_, text)| text.contains(&used));
        assert!(counted, "`{name}` is shown to users, but nothing counts it");
    }
}

/// Comments are read in an editor and in a terminal. Code is cut by rustfmt, comments are not.
const COMMENT_COLUMNS_MAX: usize = 100;

#[test]
fn comments_are_no_wider_than_code() {
    for (path, text) in sources(&root().join("crates")) {
        let mut in_example = false;
        for (at, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            in_example ^= comment.starts_with("//") && comment.contains("```");
            let is_table = ["//! |", "/// |", "// |"].iter().any(|mark| comment.starts_with(mark));
            let columns = line.chars().count();
            assert!(
                !comment.starts_with("//")
                    || in_example
                    || is_table
                    || columns <= COMMENT_COLUMNS_MAX,
                "{}:{}: the comment has {columns} columns: wrap it at {COMMENT_COLUMNS_MAX}",
                path.display(),
                at + 1
            );
        }
    }
}

#[test]
fn the_policy_has_no_clock_no_sleep_and_no_unsafe() {
    for (path, text) in sources(&root().join("crates/policy/src")) {
        for word in ["Instant::now", "SystemTime", "thread::sleep", "unsafe {", "std::fs", "Mutex"]
        {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words =
        ["TO", "FIX"].map(|start| start.to_owned() + if start == "TO" { "DO" } else { "ME" });
    for (path, text) in sources(&root().join("crates")) {
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} has a {word}", path.display());
        }
    }
}

#[test]
fn the_documents_name_only_targets_that_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    for document in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(root().join(document)).expect(document);
        for part in text.split("`make ").skip(1) {
            let target: String =
                part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            let known = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
            assert!(known, "{document} names `make {target}`, which the Makefile does not have");
        }
    }
}

/// Crates of ours that a crate links, itself included.
fn links(name: &str, found: &mut BTreeSet<String>) {
    if !found.insert(name.to_owned()) {
        return;
    }
    let manifest = root().join("crates").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    for dependency in manifest["dependencies"].as_table().expect("a table").keys() {
        if let Some(name) = dependency.strip_prefix("headworks-") {
            links(name, found);
        }
    }
}

#[test]
fn what_runs_beside_a_database_links_no_experiments_and_no_diagrams() {
    let mut linked = BTreeSet::new();
    links("headworks", &mut linked);
    let known = ["console", "headworks", "hooks", "policy", "region", "settings", "volume"];
    assert_eq!(linked, known.map(str::to_owned).into());
}
