//! What operators have set, and which controller is in office.
//!
//! In a directory, a lock on a file says who is in office, and the fence is counted there. In etcd,
//! it is who holds a key with a lease, and the fence is that key's revision. A lease alone is no
//! mutual exclusion: a controller that was stopped for a minute believes that it holds it. So each
//! write names the key's revision, and each node compares fences.
//!
//! An etcd that was restored counts revisions from an earlier number, and a directory that was lost
//! from one. Nodes remember a larger fence then. They say so, and the controller that holds the
//! place *by the word of etcd at this moment* goes beyond it ([`Keeper::raise`]). How far
//! the fence was raised is kept beside the settings.
//!
//! What cannot be read is never replaced: without its settings a controller changes nothing.

use crate::config;
use crate::tenant::Settings;
use anyhow::{Context, Result, bail, ensure};
use headworks_store::etcd::{Etcd, Held, Put};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Seconds for which the place is held without a word of its holder.
pub const LEASE_S: u64 = 10;

/// After so long without an answer of etcd, a holder no longer says that it is in office.
const TRUST: Duration = Duration::from_secs(7);

/// A directory is held as long as the process lives: longer than any does.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Fences above this are no fences: the next ones need room.
const FENCE_MAX: u64 = 1 << 62;

/// Writes of one transaction. etcd takes 128.
const WRITES_MAX: usize = 100;

const ANOTHER: &str = "another controller is in office";

/// What a directory has.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    fence: u64,
    tenants: Settings,
    /// What a later version has written: it stays.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

/// Whether this controller is in office, to be asked without waiting for etcd.
#[derive(Clone, Debug, Default)]
pub struct Office {
    fence: u64,
    until: Option<Instant>,
    trouble: Option<String>,
}

impl Office {
    /// This controller's number, while it is surely in office.
    pub fn fence(&self) -> Option<u64> {
        self.until.filter(|until| Instant::now() < *until).map(|_| self.fence)
    }

    /// The same where it has its settings, too. Else why nodes get nothing of it.
    pub fn serves(&self) -> Result<u64, &str> {
        match (self.fence(), &self.trouble) {
            (Some(fence), None) => Ok(fence),
            (_, Some(words)) => Err(words),
            (None, None) => Err("etcd does not answer"),
        }
    }
}

/// See the module.
pub struct Keeper {
    place: Place,
    office: Office,
}

enum Place {
    Directory {
        /// The file with settings.
        file: PathBuf,
        /// Held as long as this controller lives.
        _lock: File,
    },
    Etcd {
        etcd: Etcd,
        config: config::Etcd,
        /// The place, while it is this controller's.
        held: Option<Held>,
        /// Settings are what was read or written last.
        current: bool,
    },
}

impl Keeper {
    /// Of this configuration. With a directory, this controller is in office or fails.
    pub fn new(config: &config::Config) -> Result<(Keeper, Settings)> {
        if let Some(etcd) = &config.etcd {
            let client = Etcd::new(&etcd.servers);
            let place =
                Place::Etcd { etcd: client, config: etcd.clone(), held: None, current: false };
            return Ok((Keeper { place, office: Office::default() }, Settings::new()));
        }
        let directory = config.state.clone().context("no state is named")?;
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let lock = File::create(directory.join("lock"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{ANOTHER} in {}", directory.display());
        }
        let file = directory.join("settings.json");
        let mut kept = read(&file)?;
        kept.fence += 1;
        write(&file, &kept)?;
        let until = Some(Instant::now() + FOR_EVER);
        let office = Office { fence: kept.fence, until, trouble: None };
        Ok((Keeper { place: Place::Directory { file, _lock: lock }, office }, kept.tenants))
    }

    /// How it stands.
    pub fn office(&self) -> &Office {
        &self.office
    }

    /// Takes or keeps the place. Settings where they were read just now.
    pub fn look(&mut self) -> Option<Settings> {
        let Keeper { place: Place::Etcd { etcd, config, held, current }, office } = self else {
            return None;
        };
        let asked = Instant::now();
        let silent = |error: std::io::Error| format!("etcd does not answer: {error}");
        match held.as_ref().map(|place| etcd.keep(place)) {
            Some(Ok(true)) => office.until = Some(asked + TRUST),
            // It is another's, or etcd has forgotten it.
            Some(Ok(false)) => (*held, office.until) = (None, None),
            Some(Err(error)) if office.fence().is_none() => office.trouble = Some(silent(error)),
            Some(Err(_)) | None => {}
        }
        if held.is_none() {
            match etcd.take(&config.key("holder"), &std::process::id().to_string(), LEASE_S) {
                Ok(Some(place)) => {
                    (office.fence, office.until) = (place.fence(), Some(asked + TRUST));
                    (*held, *current) = (Some(place), false);
                }
                Ok(None) => office.trouble = Some(ANOTHER.to_owned()),
                Err(error) => office.trouble = Some(silent(error)),
            }
        }
        office.fence()?;
        let place = held.as_ref()?;
        if *current {
            office.trouble = None;
            return None;
        }
        match come(etcd, config, place) {
            Ok((fence, settings)) => {
                (office.fence, office.trouble, *current) = (fence, None, true);
                Some(settings)
            }
            Err(error) => {
                office.trouble = Some(format!("its settings cannot be read: {error:#}"));
                None
            }
        }
    }

    /// Has this controller's fence go beyond one that a node has heard. Only who holds the place
    /// may: etcd says so in the same step, and the directory's lock does.
    pub fn raise(&mut self, above: u64) -> Result<u64> {
        ensure!(above < FENCE_MAX, "{above} is no fence of a controller");
        if above < self.office.fence {
            return Ok(self.office.fence);
        }
        match &mut self.place {
            Place::Directory { file, .. } => {
                let mut kept = read(file)?;
                kept.fence = above + 1;
                write(file, &kept)?;
            }
            Place::Etcd { etcd, config, held, .. } => {
                let place = held.as_ref().context(ANOTHER)?;
                let fence = (above + 1).to_string();
                if !etcd.put(place, &config.key("fence"), &fence)? {
                    (*held, self.office.until) = (None, None);
                    bail!("{ANOTHER}: its fence may be that one");
                }
            }
        }
        self.office.fence = above + 1;
        Ok(self.office.fence)
    }

    /// Keeps settings. Fails if another controller is in office: nothing is written.
    pub fn keep(&mut self, before: &Settings, after: &Settings) -> Result<()> {
        if let Err(words) = self.office.serves() {
            bail!("{words}: nothing was set");
        }
        match &mut self.place {
            Place::Directory { file, .. } => {
                let kept = Kept { tenants: after.clone(), ..read(file)? };
                write(file, &kept)
            }
            Place::Etcd { etcd, config, held, current } => {
                let place = held.as_ref().context(ANOTHER)?;
                let mut writes =
                    vec![(config.key("settings"), Some(serde_json::to_string(after)?))];
                writes.extend(config.targets(before, after));
                match etcd.write(place, &writes) {
                    Ok(true) => Ok(()),
                    Ok(false) => {
                        (*held, self.office.until) = (None, None);
                        bail!("{ANOTHER}: nothing was written")
                    }
                    Err(error) => {
                        // It may have been written.
                        *current = false;
                        Err(error).context(
                            "etcd did not confirm it\n  see what is set: headworks controller status",
                        )
                    }
                }
            }
        }
    }
}

impl config::Etcd {
    fn key(&self, last: &str) -> String {
        format!("/headworks/controller/{}/{last}", self.name)
    }

    /// Writes that tell stores what has changed in targets.
    fn targets(&self, before: &Settings, after: &Settings) -> Vec<Put> {
        let target =
            |settings: &Settings, name: &str| settings.get(name).and_then(|set| set.target());
        let names = before.keys().filter(|name| !after.contains_key(*name)).chain(after.keys());
        let changed = names.filter(|name| target(before, name) != target(after, name));
        let keys = changed.flat_map(|name| {
            let value = target(after, name).map(|target| target.to_string());
            let key = move |store| (format!("/headworks/{store}/targets/{name}"), value.clone());
            self.stores.iter().map(key)
        });
        keys.collect()
    }
}

/// This controller has come into office: its fence, and what was set. Stores hear all targets:
/// their list may be another one.
fn come(etcd: &Etcd, config: &config::Etcd, place: &Held) -> Result<(u64, Settings)> {
    let kept: BTreeMap<String, String> = etcd.read(&config.key(""))?.into_iter().collect();
    let settings: Settings = match kept.get("settings") {
        None => Settings::new(),
        Some(text) => serde_json::from_str(text).with_context(|| {
            let key = config.key("settings");
            format!(
                "{key} is damaged (mend it with etcdctl, or delete it to begin without settings)"
            )
        })?,
    };
    let mut fence = place.fence();
    let mut writes = config.targets(&Settings::new(), &settings);
    if let Some(raised) = kept.get("fence") {
        let raised: u64 = raised
            .trim()
            .parse()
            .with_context(|| format!("{} has no number: {raised}", config.key("fence")))?;
        fence = fence.max(raised.saturating_add(1));
        writes.push((config.key("fence"), Some(fence.to_string())));
    }
    for some in writes.chunks(WRITES_MAX) {
        ensure!(etcd.write(place, some)?, "{ANOTHER}");
    }
    Ok((fence, settings))
}

fn read(file: &Path) -> Result<Kept> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!("{} is damaged\n  move it away to begin without settings", file.display())
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// A crash leaves the file before or the file after.
fn write(file: &Path, kept: &Kept) -> Result<()> {
    let part = file.with_extension("part");
    let written = File::create(&part).and_then(|mut out| {
        std::io::Write::write_all(&mut out, &serde_json::to_vec_pretty(kept)?)?;
        out.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&part, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
