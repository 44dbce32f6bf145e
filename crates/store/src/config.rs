//! The configuration: a TOML file, checked once. A mistake gives an error and changes nothing, so
//! a running store keeps the configuration that it has.

mod check;

use headworks_settings::{Mistake, Place, explain};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Most applications: as many as a scheduler has room for.
pub const APPLICATIONS_MAX: usize = 1_000;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where clients come: `unix:PATH` or `tcp:ADDRESS:PORT`.
    pub listen: Vec<String>,
    /// The control socket. Default: `control` beside the first Unix socket, else in the state
    /// directory.
    pub control: Option<PathBuf>,
    /// Where the store keeps what it has learned. Default: nowhere.
    pub state: Option<PathBuf>,
    /// Where Prometheus is served, on the loopback.
    pub metrics: Option<SocketAddr>,
    /// Most connections of all clients together. More are hung up at once.
    #[serde(default = "connections")]
    pub connections: usize,
    /// Who finds the shares of targets: need and lag, or another controller to compare with.
    #[serde(default = "need")]
    pub controller: String,
    /// What is under the volumes.
    #[serde(default)]
    pub device: Device,
    /// TLS for TCP.
    pub tls: Option<Tls>,
    /// Who may come. Without any, every process that reaches a Unix socket or the loopback.
    #[serde(default, rename = "client")]
    pub clients: Vec<Client>,
    /// What is served.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<Volume>,
    /// Who has a target, or more than one application on a volume.
    #[serde(default, rename = "application")]
    pub applications: Vec<Application>,
    /// Where stores of one name keep targets and what was learned.
    pub etcd: Option<Etcd>,
}

/// The device that all volumes share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Device {
    /// `disk`, `flash`, or `array` with its `disks`.
    pub kind: Kind,
    /// Disks of an array.
    pub disks: u32,
    /// Requests that are with the device at a time. Default by kind.
    pub depth: Option<u32>,
    /// The block scheduler.
    pub scheduler: String,
    /// A modelled device before the real one, for experiments: `disks`, `flash`.
    pub model: Option<String>,
    /// Bytes of requests in flight of each application, at most.
    pub memory_mib: u32,
    /// Token buckets: MiB a second of all applications together. Only with the scheduler `bucket`.
    pub mib_per_s: f64,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One disk.
    Disk,
    /// Flash.
    Flash,
    /// Several disks.
    Array,
}

impl Default for Device {
    fn default() -> Self {
        Device {
            kind: Kind::Flash,
            disks: 0,
            depth: None,
            scheduler: "sfq".to_owned(),
            model: None,
            memory_mib: 16,
            mib_per_s: 0.0,
        }
    }
}

/// etcd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Etcd {
    /// `HOST:PORT` of each server.
    pub servers: Vec<String>,
    /// Stores of the same name take each other's place.
    pub name: String,
}

/// TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The store's certificate and those above it, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Who signs clients' certificates, PEM.
    pub clients: PathBuf,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its name in this file.
    pub name: String,
    /// By a Unix socket: its user.
    pub uid: Option<u32>,
    /// By TLS: a DNS name in its certificate.
    pub certificate: Option<String>,
    /// By TCP without TLS, on the loopback alone: its address.
    pub address: Option<IpAddr>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// The export's name.
    pub name: String,
    /// A file, a block device, an NBD URI, or `memory`.
    pub path: String,
    /// Bytes, or with KiB, MiB, GiB, TiB. Default: that of the file or the device.
    pub size: Option<Size>,
    /// Writes fail.
    #[serde(default)]
    pub read_only: bool,
    /// How a file is read and written.
    #[serde(default)]
    pub cache: Cache,
    /// Which clients may open it. Default: all.
    pub clients: Option<Vec<String>>,
}

/// How a file is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Past the page cache.
    #[default]
    None,
    /// In the page cache.
    Page,
}

/// A size as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// With a unit.
    Text(String),
}

impl Size {
    /// In bytes, if it is one.
    pub fn bytes(&self) -> Option<u64> {
        let text = match self {
            Size::Bytes(bytes) => return Some(*bytes),
            Size::Text(text) => text.trim(),
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            _ => return None,
        };
        digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
    }
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Its name: by it programs post what it achieves.
    pub name: String,
    /// Whose requests: of this volume.
    pub volume: String,
    /// Of this client. Default: of all.
    pub client: Option<String>,
    /// Only requests that our client marks as this application's.
    #[serde(default)]
    pub tagged: bool,
    /// Transactions a second, or whatever its program posts, that it is to have.
    pub target: Option<f64>,
    /// Milliseconds that a transaction may take.
    pub latency_ms: Option<f64>,
    /// What its deviation counts for, or its part of what is left for best effort.
    #[serde(default = "one")]
    pub weight: f64,
    /// Largest share that it may be given. Default with a target: 0.9.
    pub limit: Option<f64>,
    /// A share set by hand, instead of a target.
    pub share: Option<f64>,
}

fn need() -> String {
    "need".to_owned()
}

fn one() -> f64 {
    1.0
}

fn connections() -> usize {
    1_024
}

/// A configuration with every key, where it is installed.
pub const EXAMPLE: &str = "/usr/local/share/doc/headworks/store.toml";

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error(
        "cannot read {path}: {why}\n  name the store's configuration: --config FILE; an example: {EXAMPLE}"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A mistake in it.
    #[error(transparent)]
    Wrong(Box<Mistake>),
}

/// Reads and checks a file.
///
/// # Errors
/// The first mistake.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| ConfigError::Read { path: path.to_owned(), why })?;
    parse(&text, path)
}

/// The same of a text; `path` is for the messages.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let place = Place { text, path };
    let wrong = |mistake| ConfigError::Wrong(Box::new(mistake));
    let config: Config =
        toml::from_str(text).map_err(|error| wrong(explain(&error, &place, check::mend_of)))?;
    config.check().map_err(|found| wrong(place.at_path(&found.at, found.what, found.mend)))?;
    Ok(config)
}

impl Config {
    /// Whether some clients are known by their user.
    pub fn names_users(&self) -> bool {
        self.clients.iter().any(|client| client.uid.is_some())
    }

    /// Where the control socket is.
    pub fn control(&self) -> PathBuf {
        if let Some(path) = &self.control {
            return path.clone();
        }
        let unix = self.listen.iter().find_map(|place| place.strip_prefix("unix:"));
        let beside = unix.map(|path| PathBuf::from(format!("{path}.control")));
        beside
            .or_else(|| self.state.as_ref().map(|dir| dir.join("control")))
            .unwrap_or_else(|| "/run/headworks-store.control".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
listen = [\"unix:/run/store\"]
[[client]]
name = \"alice\"
uid = 1000
[[volume]]
name = \"data\"
path = \"memory\"
size = \"64MiB\"
clients = [\"alice\"]
[[application]]
name = \"orders\"
volume = \"data\"
client = \"alice\"
target = 500
";

    #[test]
    fn mistakes_are_said() {
        let parsed = |text: &str| parse(text, Path::new("x.toml"));
        let good = parsed(GOOD).unwrap();
        assert_eq!(good.volumes[0].size.as_ref().and_then(Size::bytes), Some(64 << 20));
        assert_eq!(good.control(), Path::new("/run/store.control"));
        for (from, to, said) in [
            ("unix:/run/store", "tcp:0.0.0.0:10809", "other machines"),
            ("unix:/run/store", "udp:x", "no place"),
            ("[[client]]", "metrics = \"0.0.0.0:9470\"\n[[client]]", "other machines"),
            ("uid = 1000\n", "", "never come"),
            ("64MiB", "100", "multiple of 512"),
            ("size = \"64MiB\"\n", "", "x.toml:5:1: volume `data` needs a size"),
            ("clients = [\"alice\"]", "clients = [\"bob\"]", "no [[client]] `bob`"),
            ("volume = \"data\"", "volume = \"log\"", "no [[volume]] `log`"),
            ("target = 500", "target = 500\nshare = 0.5", "one of"),
            ("target = 500", "target = -1", "-1 cannot be"),
            ("target = 500", "target = inf", "inf cannot be"),
            ("target = 500", "target = 5\nweight = 1e300", "x.toml:15:1"),
            ("target = 500", "target = 5\nlimit = nan", "NaN cannot be"),
            ("target = 500", "share = 1.5", "from 0.0001 to 1"),
            (
                "[[client]]",
                "[device]\nscheduler = \"bucket\"\nmib_per_s = inf\n[[client]]",
                "`mib_per_s`: inf",
            ),
            ("[[client]]", "[device]\nkind = \"array\"\ndisks = 4294967295\n[[client]]", "128"),
            ("target = 500", "traget = 500", "traget"),
            ("[[client]]", "controller = \"pi\"\n[[client]]", "there are need,"),
        ] {
            let error = parsed(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("x.toml"), "{error}");
        }
    }
}
