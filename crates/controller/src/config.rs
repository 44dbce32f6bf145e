//! The configuration of a controller: a TOML file.

use anyhow::{Context, Result, ensure};
use headworks_settings::{Mistake, Place, explain};
pub use headworks_store::config::Tls;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where nodes and operators come: `ADDRESS:PORT`.
    pub listen: String,
    /// A file with the word that nodes and operators must know.
    pub token_file: Option<PathBuf>,
    /// Certificates. Without them only loopback addresses are served.
    pub tls: Option<Tls>,
    /// Where settings are kept: a directory of this machine.
    pub state: Option<PathBuf>,
    /// Or an etcd, so that another controller can take over.
    pub etcd: Option<Etcd>,
    /// Milliseconds between decisions, at most.
    #[serde(default = "period")]
    pub period_ms: u64,
}

fn period() -> u64 {
    2_000
}

/// Servers of etcd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Etcd {
    /// `HOST:PORT` each.
    pub servers: Vec<String>,
    /// Controllers of one name share settings, and one of them is in office.
    pub name: String,
    /// Stores (their `etcd.name`) that are told targets.
    #[serde(default)]
    pub stores: Vec<String>,
}

/// Reads and checks a file.
pub fn load(path: &Path) -> Result<Config> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse(&text, path)?)
}

/// What to write for a key whose value has the wrong type.
fn mend_of(key: &str, message: &str) -> String {
    match key {
        "tls" | "etcd" => format!("Write the section as `[{key}]`."),
        _ if message.ends_with("expected a string") => {
            format!("Write a text in quotes: `{key} = \"...\"`.")
        }
        _ => "docs/controller.md shows every key.".to_owned(),
    }
}

/// Reads and checks a text; `path` is for the messages.
pub fn parse(text: &str, path: &Path) -> Result<Config, Mistake> {
    let place = Place { text, path };
    let wrong =
        |key, what: &str, mend: &str| Err(place.at_path(key, what.to_owned(), mend.to_owned()));
    let config: Config = toml::from_str(text).map_err(|error| explain(&error, &place, mend_of))?;
    if config.state.is_some() == config.etcd.is_some() {
        let what = "settings are kept in one place: `state` or `[etcd]`";
        return wrong("state", what, "Write state = \"DIRECTORY\", or the section [etcd].");
    }
    if !config.listen.starts_with("127.")
        && !config.listen.starts_with("[::1]")
        && config.tls.is_none()
    {
        let what = "this address can be reached from other machines without TLS";
        return wrong("listen", what, "Write a section [tls], or listen at 127.0.0.1:PORT.");
    }
    if !(100..=60_000).contains(&config.period_ms) {
        return wrong("period_ms", "`period_ms` is out of range", "Write 100 to 60000.");
    }
    Ok(config)
}

impl Config {
    /// The word that nodes must send. It is `-` without a `token_file`.
    pub fn token(&self) -> Result<String> {
        token(self.token_file.as_deref())
    }
}

/// The word in a file; `-` without one.
pub fn token(file: Option<&Path>) -> Result<String> {
    let Some(file) = file else { return Ok("-".to_owned()) };
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let word = text.trim().to_owned();
    ensure!(
        !word.is_empty() && !word.contains(char::is_whitespace),
        "{} must hold one word without blanks",
        file.display()
    );
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_without_tls_stays_on_its_machine() {
        let parse = |text| parse(text, Path::new("x.toml"));
        assert!(parse("listen = \"127.0.0.1:7700\"\nstate = \"/tmp/x\"").is_ok());
        for (wrong, word) in [
            ("listen = \"127.0.0.1:7700\"", "state"),
            ("listen = \"0.0.0.0:7700\"\nstate = \"/tmp/x\"", "x.toml:1:1: this address"),
            (
                "listen = \"127.0.0.1:7700\"\nstate = \"/tmp/x\"\nperiod_ms = 1",
                "x.toml:3:1: `period_ms`",
            ),
            ("listen = \"127.0.0.1:7700\"\nstate = \"/tmp/x\"\nport = 1", "no key `port`"),
        ] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
