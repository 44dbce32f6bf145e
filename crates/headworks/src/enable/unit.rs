//! Units of systemd: where they are, what they contain, and which unit a name means.

use crate::profile::{Profile, Profiles};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Directories of units, the one with the highest precedence first.
const DIRECTORIES: &[&str] = &[
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// A unit with its drop-ins applied.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its own name, not an alias: `mariadb.service`, `postgresql@15-main.service`.
    pub name: String,
    /// Keys of its section `[Service]`, with those of its drop-ins, in order.
    pub service: Vec<(String, String)>,
}

impl Unit {
    /// Reads a unit and its drop-ins; `None` if there is none.
    pub fn read(root: &Path, name: &str) -> Result<Option<Unit>> {
        let template = template_of(name);
        let file = [Some(name), template.as_deref()].into_iter().flatten().find_map(|name| {
            DIRECTORIES.iter().map(|dir| root.join(dir).join(name)).find(|path| exists(path))
        });
        let Some(file) = file else { return Ok(None) };
        // An alias is a link to the unit that it means.
        let own =
            match std::fs::read_link(&file).ok().and_then(|to| Some(to.file_name()?.to_owned())) {
                Some(to) if !name.contains('@') => to.to_string_lossy().into_owned(),
                _ => name.to_owned(),
            };
        if own != name {
            return Unit::read(root, &own);
        }
        let mut service = keys(&read(&file)?);
        for drop_in in drop_ins(root, name, template.as_deref()) {
            service.extend(keys(&read(&drop_in)?));
        }
        Ok(Some(Unit { name: own, service }))
    }

    /// Values of a key: an empty one resets those before it.
    pub fn all(&self, key: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for (_, value) in self.service.iter().filter(|(known, _)| known == key) {
            if value.is_empty() {
                values.clear();
            } else {
                values.push(value.as_str());
            }
        }
        values
    }

    /// The last value of a key.
    pub fn last(&self, key: &str) -> Option<&str> {
        self.all(key).last().copied()
    }

    /// Whether a key is true, in any of systemd's spellings.
    pub fn yes(&self, key: &str) -> bool {
        self.last(key).is_some_and(|word| ["yes", "true", "on", "1"].contains(&word))
    }

    /// Words of the commands that it starts, without quotes and marks. The program is among them.
    pub fn words(&self) -> Vec<String> {
        let marks = ['-', '@', ':', '+', '!'];
        let words = self.commands().concat();
        words
            .iter()
            .map(|word| word.trim_start_matches(marks).to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    }

    /// The commands that it starts, each as words without quotes.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let apart = |c: char| c.is_whitespace() || "\"'`;$()".contains(c);
        let words = |line: &str| -> Vec<String> {
            line.split(apart).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        self.all("ExecStart").into_iter().map(words).collect()
    }

    /// The profile of the program that it starts.
    pub fn profile<'a>(&self, profiles: &'a Profiles) -> Option<&'a Profile> {
        let words = self.words();
        let known = |word: &String| {
            let path = Path::new(word);
            profiles.known(path).or_else(|| profiles.started_by(path))
        };
        words.iter().filter(|word| word.starts_with('/')).find_map(known)
    }

    /// The text between `@` and `.service`.
    pub fn instance(&self) -> Option<&str> {
        self.name.strip_suffix(".service")?.split_once('@').map(|(_, instance)| instance)
    }
}

fn exists(path: &Path) -> bool {
    // A link that leads out of an image still has a target.
    path.symlink_metadata().is_ok()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// `postgresql@.service` for `postgresql@15-main.service`.
fn template_of(name: &str) -> Option<String> {
    name.split_once('@').map(|(base, _)| format!("{base}@.service"))
}

/// Files in the unit's `.d` directories. Of two with the same name, the one with higher precedence
/// counts. Our own are left out, as they will be written again.
fn drop_ins(root: &Path, name: &str, template: Option<&str>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut files = Vec::new();
    for dir in DIRECTORIES {
        for unit in [Some(name), template].into_iter().flatten() {
            let entries = std::fs::read_dir(root.join(dir).join(format!("{unit}.d")));
            for entry in entries.into_iter().flatten().flatten() {
                let file = entry.file_name();
                let ours = file == super::plan::DROP_IN;
                if !ours && file.to_string_lossy().ends_with(".conf") && seen.insert(file) {
                    files.push(entry.path());
                }
            }
        }
    }
    files.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    files
}

/// Keys of `[Service]`. A line that ends in `\` goes on in the next one.
fn keys(text: &str) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    let mut section = String::new();
    let mut pending = String::new();
    for line in text.lines() {
        let line = line.trim_end();
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        if let Some(part) = line.strip_suffix('\\') {
            pending.push_str(part);
            pending.push(' ');
            continue;
        }
        let whole = std::mem::take(&mut pending) + line;
        let whole = whole.trim();
        if let Some(name) = whole.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if section == "Service"
            && let Some((key, value)) = whole.split_once('=')
        {
            keys.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    keys
}

/// The units that a profile's or unit's name means.
pub fn find(root: &Path, asked: &str, all: bool, profiles: &Profiles) -> Result<Vec<Unit>> {
    let stem = asked.strip_suffix(".service").unwrap_or(asked);
    let mut names = vec![format!("{stem}.service")];
    if let Some(profile) = profiles.all().iter().find(|profile| profile.name == stem) {
        names.splice(0..0, profile.units.iter().cloned());
    }
    names.dedup();
    let mut found: Vec<Unit> = Vec::new();
    for name in &names {
        if !found.is_empty() {
            break;
        }
        if name.ends_with("@.service") {
            for instance in instances(root, name) {
                found.extend(Unit::read(root, &instance)?);
            }
            continue;
        }
        let Some(unit) = Unit::read(root, name)? else { continue };
        // Debian's postgresql.service starts nothing: its clusters are instances of a template.
        let wrapper = unit.words().first().is_some_and(|word| word.ends_with("/true"));
        if wrapper {
            let template = unit.name.replace(".service", "@.service");
            for instance in instances(root, &template) {
                found.extend(Unit::read(root, &instance)?);
            }
        } else {
            found.push(unit);
        }
    }
    let names: Vec<&str> = found.iter().map(|unit| unit.name.as_str()).collect();
    match names.as_slice() {
        [] => bail!("{}", nothing(root, asked)),
        [_] => {}
        several if !all => bail!(
            "`{asked}` is {} services: {}; nothing was changed\n  name one of them, or take all: --all",
            several.len(),
            several.join(", ")
        ),
        _ => {}
    }
    Ok(found)
}

/// Instances of a template: those that other units want, and PostgreSQL's clusters.
fn instances(root: &Path, template: &str) -> Vec<String> {
    let Some(base) = template.strip_suffix("@.service") else { return Vec::new() };
    if !DIRECTORIES.iter().any(|dir| exists(&root.join(dir).join(template))) {
        return Vec::new();
    }
    let mut found = BTreeSet::new();
    for dir in DIRECTORIES {
        for entry in entries(&root.join(dir)) {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".wants") || name.ends_with(".requires") {
                for unit in entries(&entry) {
                    let unit = unit.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    if unit.starts_with(&format!("{base}@"))
                        && unit.ends_with(".service")
                        && unit != template
                    {
                        found.insert(unit);
                    }
                }
            }
        }
    }
    if base == "postgresql" {
        for version in entries(&root.join("etc/postgresql")) {
            for cluster in entries(&version) {
                if cluster.join("postgresql.conf").exists() {
                    let name = |path: &Path| {
                        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
                    };
                    found.insert(format!("{base}@{}-{}.service", name(&version), name(&cluster)));
                }
            }
        }
    }
    found.into_iter().collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Why no unit was found, and which others exist.
fn nothing(root: &Path, asked: &str) -> String {
    let mut near = BTreeSet::new();
    let words = ["maria", "mysql", "postgres", "redis", "valkey", "memcached", "mongod"];
    for dir in DIRECTORIES {
        for path in entries(&root.join(dir)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".service") && words.iter().any(|word| name.starts_with(word)) {
                near.insert(name);
            }
        }
    }
    let near: Vec<String> = near.into_iter().collect();
    format!(
        "there is no service `{asked}`; nothing was changed\n  {}\n  \
         see all: systemctl list-unit-files --type=service\n  \
         a server that is no service: headworks run -- SERVER …",
        if near.is_empty() {
            "databases that are services here: none".to_owned()
        } else {
            format!("databases that are services here: {}", near.join(", "))
        }
    )
}
