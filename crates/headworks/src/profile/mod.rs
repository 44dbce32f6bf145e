//! Profiles: what is known of each database, as data.
//!
//! A profile is a TOML file. Those of the databases that we know are built in. A file in
//! `$XDG_CONFIG_HOME/headworks/profiles` (or `~/.config/…`), or else in `/etc/headworks/profiles`,
//! replaces the one of the same name or adds another. `--profile FILE` names one directly. A new
//! database needs a new profile and, if its protocol is new, a new framing.

mod file;
pub mod show;
#[cfg(test)]
mod tests;

use crate::config::error::ConfigError;
use crate::instance::Note;
use anyhow::{Result, bail};
use headworks_region::io::IoRule;
use headworks_region::known_servers::is_named;
use headworks_region::{Protocol, declared_locks::DeclaredLocks, rules::Rule};
use headworks_settings::{Place, nearest};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Built-in profiles. The last is for all programs that no other knows.
const BUILT_IN: &[(&str, &str)] = &[
    ("mariadb", include_str!("../../profiles/mariadb.toml")),
    ("postgresql", include_str!("../../profiles/postgresql.toml")),
    ("redis", include_str!("../../profiles/redis.toml")),
    ("memcached", include_str!("../../profiles/memcached.toml")),
    ("mongodb", include_str!("../../profiles/mongodb.toml")),
    ("mongodb-loops", include_str!("../../profiles/mongodb-loops.toml")),
    ("sqlite", include_str!("../../profiles/sqlite.toml")),
    ("qemu", include_str!("../../profiles/qemu.toml")),
    (GENERIC, include_str!("../../profiles/generic.toml")),
];

/// Name of the profile for programs that no other knows.
pub const GENERIC: &str = "generic";

/// Where the machine's own profiles lie.
pub const SYSTEM_DIRECTORY: &str = "/etc/headworks/profiles";

/// Each framing's name in a profile, its protocol, and what serves a connection there.
pub const FRAMINGS: &[(&str, Protocol, &str)] = &[
    ("mysql", Protocol::MySql, "threads"),
    ("postgres", Protocol::PostgreSql, "processes"),
    ("redis", Protocol::Redis, "event-loops"),
    ("memcached", Protocol::Memcached, "event-loops"),
    ("mongodb", Protocol::MongoDb, "threads"),
    ("mongodb-loops", Protocol::MongoDb, "event-loops"),
    ("generic", Protocol::Generic, "threads"),
];

/// How to find before its start what the server will listen on, and where its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingsFrom {
    /// `--print-defaults` and the command line, as MariaDB and MySQL read them.
    Mariadb,
    /// `-C NAME`, as PostgreSQL answers it.
    Postgres,
    /// `redis.conf` and the command line, as Redis reads them.
    Redis,
    /// The command line of memcached.
    Memcached,
    /// The command line of `mongod`.
    Mongodb,
    /// Nothing is known of it.
    None,
}

/// Which user a server runs as, if root starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunAs {
    /// The user that its option `user` names.
    UserOption,
    /// The owner of its data directory, as it refuses root.
    DataOwner,
    /// The account that starts it.
    Caller,
}

/// What is checked before the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// No process listens on its ports and its socket.
    Ports,
    /// It does not fork into the background.
    Foreground,
}

/// The functions of the C library that the server calls, by purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// A client connects.
    pub accept: Vec<String>,
    /// A request is read.
    pub receive: Vec<String>,
    /// An answer is written.
    pub send: Vec<String>,
    /// To sleep until there is something to read.
    pub sleep: Vec<String>,
}

/// Sessions that are never held.
#[derive(Clone, Debug, Serialize)]
pub struct Bypass {
    /// Why, for `profile show`.
    pub reason: String,
    /// As they are written.
    pub conditions: Vec<(String, String)>,
    /// In the region's form.
    #[serde(skip)]
    pub rule: Rule,
}

/// One kind of server.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: String,
    /// The file that it was read from; `None` for a built-in one.
    pub file: Option<PathBuf>,
    /// Its framing: a name of [`FRAMINGS`].
    pub framing: String,
    /// What serves a connection: `threads`, `processes`, or `event-loops`, which serve many.
    pub served_by: String,
    /// Names of its program; anything after them that begins with `-` or `_` is ignored.
    pub servers: Vec<String>,
    /// Programs that only start the server and exit. These cannot be put behind the gate.
    pub starters: Vec<String>,
    /// The functions of the C library that it calls.
    pub calls: Calls,
    /// Words in a statement that take and release a lock of the session, beyond those of the
    /// framing.
    #[serde(serialize_with = "words")]
    pub locks: DeclaredLocks,
    /// Who is never held.
    pub bypass: Vec<Bypass>,
    /// Rules for its files and threads, for an I/O scheduler.
    #[serde(skip)]
    pub io: Vec<IoRule>,
    /// How its settings are found.
    pub settings: SettingsFrom,
    /// As whom it runs.
    pub run_as: RunAs,
    /// What is checked first.
    pub checks: Vec<Check>,
    /// Signal that shuts it down in an orderly way.
    pub stop_signal: String,
    /// Command that does.
    pub stop_command: Option<String>,
    /// Its units under systemd; a template is `name@.service`.
    pub units: Vec<String>,
    /// The user that it runs as, if its unit does not tell.
    pub service_user: Option<String>,
    /// Debian's package.
    pub package: Option<String>,
    /// What to know.
    pub notes: Vec<String>,
    /// The protocol that its framing follows.
    #[serde(skip)]
    pub protocol: Protocol,
}

fn words<S: serde::Serializer>(words: &DeclaredLocks, to: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("acquire", &words.acquire)?;
    map.serialize_entry("release", &words.release)?;
    map.end()
}

/// Name of a program's file without its directory.
fn file_name(program: &Path) -> &str {
    program.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

impl Profile {
    /// Reads one; `path` is only for the messages.
    fn parse(text: &str, path: &Path) -> Result<Profile, ConfigError> {
        Ok(file::parse(text, path)?)
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Profile, ConfigError> {
        let bytes = std::fs::read(path)
            .map_err(|cause| ConfigError::ReadProfile { path: path.to_owned(), cause })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Place::not_text(path, error.as_bytes(), at)
        })?;
        let mut profile = Profile::parse(&text, path)?;
        profile.file = Some(path.to_owned());
        Ok(profile)
    }

    /// The current one of an instance.
    pub fn noted(note: &Note) -> Result<Profile> {
        match &note.profile_file {
            Some(file) => Ok(Profile::load(file)?),
            None => Profiles::read()?.named(&note.profile).cloned(),
        }
    }

    /// Whether a program is this server.
    pub fn knows(&self, program: &Path) -> bool {
        let file = file_name(program).as_bytes();
        self.servers.iter().any(|known| is_named(known.as_bytes(), file))
    }

    /// Its file's text.
    pub fn text(&self) -> Result<String> {
        match &self.file {
            Some(file) => Ok(std::fs::read_to_string(file)?),
            None => Ok(BUILT_IN
                .iter()
                .find(|(name, _)| *name == self.name)
                .map_or("", |(_, text)| *text)
                .to_owned()),
        }
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> String {
        self.file.as_ref().map_or_else(|| "built in".to_owned(), |file| file.display().to_string())
    }
}

/// All profiles on this machine, by name. Precedence: the user's, the machine's, the built-in ones.
/// The last one is [`GENERIC`].
#[derive(Debug)]
pub struct Profiles(Vec<Profile>);

impl Profiles {
    /// Reads all of them. A mistake in any is an error: it may be the one that replaces a built-in
    /// profile.
    pub fn read() -> Result<Profiles, ConfigError> {
        Profiles::read_from(&directories())
    }

    fn read_from(directories: &[PathBuf]) -> Result<Profiles, ConfigError> {
        let mut all: Vec<Profile> = Vec::new();
        let add = |all: &mut Vec<Profile>, profile: Profile| {
            if all.iter().all(|known| known.name != profile.name) {
                all.push(profile);
            }
        };
        for directory in directories {
            for path in files_in(directory)? {
                add(&mut all, Profile::load(&path)?);
            }
        }
        for (name, text) in BUILT_IN {
            add(&mut all, Profile::parse(text, Path::new(&format!("{name}.toml")))?);
        }
        // The generic profile comes last, as it matches any program.
        all.sort_by_key(|profile| profile.name == GENERIC);
        Ok(Profiles(all))
    }

    /// All of them.
    pub fn all(&self) -> &[Profile] {
        &self.0
    }

    /// The one of this name.
    pub fn named(&self, name: &str) -> Result<&Profile> {
        if let Some(found) = self.0.iter().find(|profile| profile.name == name) {
            return Ok(found);
        }
        let names = self.0.iter().map(|profile| profile.name.as_str());
        let near = nearest(name, names.clone());
        bail!(
            "there is no profile `{name}`\n  {}known: {}\n  another one is a file in {SYSTEM_DIRECTORY}, or --profile FILE",
            near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default(),
            names.collect::<Vec<_>>().join(", ")
        )
    }

    /// The profile that knows a program, if one does.
    pub fn known(&self, program: &Path) -> Option<&Profile> {
        self.0.iter().find(|profile| profile.knows(program))
    }

    /// The profile for a program.
    pub fn of(&self, program: &Path) -> &Profile {
        // `read_from` has put GENERIC last.
        self.known(program).unwrap_or(&self.0[self.0.len() - 1])
    }

    /// Names of all servers that have clients, by profile.
    pub fn servers(&self) -> impl Iterator<Item = &[String]> {
        let have_clients = self.0.iter().filter(|profile| !profile.calls.accept.is_empty());
        have_clients.map(|profile| profile.servers.as_slice())
    }

    /// The profile of the server that a program would start before it exits.
    pub fn started_by(&self, program: &Path) -> Option<&Profile> {
        let name = file_name(program);
        self.0.iter().find(|profile| profile.starters.iter().any(|starter| starter == name))
    }

    /// The profile that `--profile` names: a file if it looks like one, else a name.
    pub fn asked(&self, text: &str) -> Result<Profile> {
        if text.contains('/') || text.ends_with(".toml") {
            return Ok(Profile::load(Path::new(text))?);
        }
        self.named(text).cloned()
    }
}

/// Directories of profiles, in order of precedence.
fn directories() -> Vec<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .or_else(home);
    own.map(|dir| dir.join("headworks/profiles"))
        .into_iter()
        .chain([PathBuf::from(SYSTEM_DIRECTORY)])
        .collect()
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        // The directory need not exist, and may be unreadable for this user.
        Err(error) if error.kind() != std::io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        Err(cause) => return Err(ConfigError::ReadProfile { path: directory.to_owned(), cause }),
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    Ok(files)
}
