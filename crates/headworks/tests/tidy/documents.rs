//! What the documents say about the tree, held against the tree: a crate's dependencies, names of
//! files, targets of links.

use super::{named, root, texts};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The documents that people read first, and those beside the code.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["docs", "crates", "plugins"] {
        found.extend(texts(&root().join(folder), "md"));
    }
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let path = root().join(name);
        let text = std::fs::read_to_string(&path).expect("a document");
        found.push((path, text));
    }
    found
}

/// The crates of ours that a manifest depends on.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let of_users = manifest.split("\n[dependencies]").nth(1).unwrap_or_default();
    let lines = of_users.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.strip_prefix("headworks-"));
    names.filter_map(|rest| Some(rest.split(['.', ' ', '=']).next()?.to_owned())).collect()
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    let table = text.split("| crate | is | may use |").nth(1).expect("the table of crates");
    let mut said = BTreeSet::new();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells[0].trim_matches(['|', ' ', '`']).to_owned();
        let uses = cells.last().expect("a cell").trim_end_matches(['|', ' ']);
        let uses = uses.split("(tests").next().unwrap_or_default().replace("the program:", "");
        let uses = uses.split([',', ';', ' ']).filter(|word| !word.is_empty());
        let uses: BTreeSet<String> = uses.map(str::to_owned).collect();
        let uses = if uses.contains("nothing") { BTreeSet::new() } else { uses };
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a crate of the table");
        assert_eq!(uses, dependencies(&manifest), "ARCHITECTURE.md says of `{name}`");
        said.insert(name);
    }
    let folders = std::fs::read_dir(root().join("crates")).expect("the crates").flatten();
    let there = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(said, there.collect(), "the crates of ARCHITECTURE.md");
}

#[test]
fn the_files_that_documents_name_are_there() {
    let tree: Vec<String> = ["crates", "docs", "plugins", "agents", "config", "scripts", "include"]
        .iter()
        .flat_map(|folder| ["rs", "md", "java", "c", "h"].map(|ending| (folder, ending)))
        .flat_map(|(folder, ending)| named(&root().join(folder), ending))
        .map(|path| shown(&path))
        .collect();
    let mut lost = Vec::new();
    for (document, text) in documents() {
        for name in quoted(&text).filter(|name| names_a_file(name)) {
            let end = format!("/{name}");
            if !tree.iter().any(|path| path == name || path.ends_with(&end)) {
                lost.push(format!("{}: `{name}`", shown(&document)));
            }
        }
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            let from = document.parent().expect("a folder");
            if !file.is_empty() && !file.contains("://") && !from.join(file).exists() {
                lost.push(format!("{}: ({target})", shown(&document)));
            }
        }
    }
    assert!(lost.is_empty(), "documents name files that are not there:\n{}", lost.join("\n"));
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Text between single backticks outside of blocks of code.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    let lines = text.lines().filter(move |line| {
        in_block ^= line.trim_start().starts_with("```");
        !in_block
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn names_a_file(name: &str) -> bool {
    let ending = name.rsplit('.').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    name.contains('/')
        && !name.starts_with(['/', '.'])
        // A name that the reader chooses.
        && !name.contains("NAME")
        && ["rs", "md", "java", "c", "h"].contains(&ending)
        && name.chars().all(plain)
}

/// Targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}
