//! What operators have set, and which controller is in office.
//!
//! In a directory, a lock on a file says who is in office, and the fence is counted there. In etcd,
//! it is who holds a key with a lease, and the fence is that key's revision. A lease alone is no
//! mutual exclusion: a controller that was stopped for a minute believes that it holds it. So each
//! write names the key's revision, and each node compares fences.

use crate::config;
use anyhow::{Context, Result, bail};
use headworks_store::etcd::{Etcd, Held};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seconds for which the place is held without a word of its holder.
pub const LEASE_S: u64 = 10;

/// After so long without an answer of etcd, a holder no longer says that it is in office.
const TRUST: Duration = Duration::from_secs(7);

/// What an operator has set for a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its share compared to others. One, if nothing is said.
    #[serde(default = "one")]
    pub weight: f64,
    /// Requests a second on all nodes together.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Transactions a second that stores are to make possible.
    #[serde(default)]
    pub target: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant { weight: 1.0, limit: None, target: None }
    }
}

/// By name.
pub type Settings = BTreeMap<String, Tenant>;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    fence: u64,
    tenants: Settings,
}

/// See the module.
pub enum Keeper {
    /// A directory of this machine.
    Directory {
        /// The file with settings.
        file: PathBuf,
        /// Held as long as this controller lives.
        lock: File,
        /// This controller's.
        fence: u64,
    },
    /// An etcd.
    Etcd {
        /// Its client.
        etcd: Etcd,
        /// Names.
        config: config::Etcd,
        /// The place, while it is this controller's.
        held: Option<(Held, Instant)>,
    },
}

impl Keeper {
    /// Of this configuration. With a directory, this controller is in office or fails.
    pub fn new(config: &config::Config) -> Result<Keeper> {
        if let Some(etcd) = &config.etcd {
            let client = Etcd::new(&etcd.servers);
            return Ok(Keeper::Etcd { etcd: client, config: etcd.clone(), held: None });
        }
        let directory = config.state.clone().context("no state is named")?;
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let lock = File::create(directory.join("lock"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another controller is in office in {}", directory.display());
        }
        let file = directory.join("settings.json");
        let mut kept = read(&file)?;
        kept.fence += 1;
        let fence = kept.fence;
        write(&file, &kept)?;
        Ok(Keeper::Directory { file, lock, fence })
    }

    /// Takes or keeps the place. The fence while this controller is in office. Where it has just
    /// come into office, settings are to be read again.
    pub fn look(&mut self) -> (Option<u64>, Option<Settings>) {
        match self {
            Keeper::Directory { .. } => (self.fence(), None),
            Keeper::Etcd { etcd, config, held } => {
                let key = |last: &str| format!("/headworks/controller/{}/{last}", config.name);
                if let Some((place, heard)) = held {
                    match etcd.keep(place) {
                        Ok(true) => *heard = Instant::now(),
                        Ok(false) => *held = None,
                        Err(_) => {}
                    }
                }
                let mut settings = None;
                if held.is_none()
                    && let Ok(Some(place)) =
                        etcd.take(&key("holder"), &std::process::id().to_string(), LEASE_S)
                {
                    let kept = etcd.read(&key("settings")).unwrap_or_default();
                    let text = kept.first().map(|(_, text)| text.as_str());
                    settings = Some(
                        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
                    );
                    *held = Some((place, Instant::now()));
                }
                (self.fence(), settings)
            }
        }
    }

    /// This controller's number, while it is surely in office.
    pub fn fence(&self) -> Option<u64> {
        match self {
            Keeper::Directory { fence, .. } => Some(*fence),
            Keeper::Etcd { held, .. } => held
                .as_ref()
                .filter(|(_, heard)| heard.elapsed() < TRUST)
                .map(|(place, _)| place.fence()),
        }
    }

    /// Settings that were kept in a directory.
    pub fn settings(&self) -> Result<Settings> {
        match self {
            Keeper::Directory { file, .. } => Ok(read(file)?.tenants),
            Keeper::Etcd { .. } => Ok(Settings::new()),
        }
    }

    /// Keeps settings. Fails if another controller is in office: nothing is written.
    pub fn keep(&mut self, settings: &Settings) -> Result<()> {
        match self {
            Keeper::Directory { file, fence, .. } => {
                write(file, &Kept { fence: *fence, tenants: settings.clone() })
            }
            Keeper::Etcd { etcd, config, held } => {
                let Some((place, _)) = held else { bail!("another controller is in office") };
                let key = format!("/headworks/controller/{}/settings", config.name);
                if !etcd.put(place, &key, &serde_json::to_string(settings)?)? {
                    *held = None;
                    bail!("another controller is in office: nothing was written");
                }
                for (name, tenant) in settings {
                    let Some(target) = tenant.target else { continue };
                    for store in &config.stores {
                        let key = format!("/headworks/{store}/targets/{name}");
                        etcd.put(place, &key, &target.to_string())?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Gives the place back, so that another need not wait for the lease's end.
    pub fn leave(&mut self) {
        if let Keeper::Etcd { etcd, held, .. } = self
            && let Some((place, _)) = held.take()
        {
            etcd.give_back(&place);
        }
    }
}

fn read(file: &PathBuf) -> Result<Kept> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!("{} is damaged\n  move it away to begin without settings", file.display())
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// A crash leaves the file before or the file after.
fn write(file: &PathBuf, kept: &Kept) -> Result<()> {
    let part = file.with_extension("part");
    let written = File::create(&part).and_then(|mut out| {
        std::io::Write::write_all(&mut out, &serde_json::to_vec_pretty(kept)?)?;
        out.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&part, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
