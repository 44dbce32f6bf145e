//! The volumes of a store: opened, placed in the pool, and closed.

use crate::config::{self, Config};
use crate::error::StoreError;
use crate::front::Opened;
use crate::pool::Pool;
use headworks_volume::VolumeConfig;
use headworks_volume::store::{self, Store};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A volume that is new, with its store; or one that stays, without.
type Wanted = (Opened, Option<Arc<dyn Store>>);

/// See the module.
pub struct Volumes {
    /// Where all are.
    pub pool: Arc<Pool>,
    stores: Mutex<BTreeMap<String, Arc<dyn Store>>>,
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The same as long as the bytes that were answered are there, flushed or not: a file's survive the
/// store's process, but not the machine's.
fn incarnation(path: &str) -> String {
    match std::fs::metadata(path) {
        Ok(found) => format!("{}-{:x}-{:x}", boot_id(), found.dev(), found.ino()),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{}-{:x}", std::process::id(), now.as_nanos())
        }
    }
}

fn open(volume: &config::Volume) -> Result<Arc<dyn Store>, StoreError> {
    let wrong = |problem: String| StoreError::Volume { name: volume.name.clone(), problem };
    let size = match volume.size.as_ref().and_then(config::Size::bytes) {
        Some(bytes) => bytes,
        None => {
            let size = store::file::size(Path::new(&volume.path));
            size.map_err(|error| wrong(error.to_string()))? / 512 * 512
        }
    };
    let is_file = volume.path != "memory" && !volume.path.contains("://");
    if volume.cache == config::Cache::Page && is_file {
        let file = store::File::open_cached(Path::new(&volume.path), size);
        return Ok(Arc::new(file.map_err(|error| wrong(error.to_string()))?));
    }
    VolumeConfig::new(size, &volume.path).open_store().map_err(|error| wrong(error.to_string()))
}

impl Volumes {
    /// None, in this pool.
    pub fn new(pool: Arc<Pool>) -> Volumes {
        Volumes { pool, stores: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn Store>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with a volume.
    pub fn trouble(&self, name: &str) -> Option<String> {
        self.lock().get(name)?.trouble()
    }

    /// The volumes of a configuration. Those that were not there before `old` are opened.
    ///
    /// # Errors
    /// One cannot be opened; then none is.
    pub fn open_new(
        &self,
        config: &Config,
        old: Option<&Config>,
        before: &[Opened],
    ) -> Result<Vec<Wanted>, StoreError> {
        let stays = |opened: &&Opened| {
            // The same bytes, perhaps for other clients.
            let is = |v: &&config::Volume| v.name == opened.name && v.path == opened.path;
            let known = old.and_then(|old| old.volumes.iter().find(is));
            let new = config.volumes.iter().find(is);
            matches!((known, new), (Some(known), Some(new)) if known.size == new.size)
        };
        let one = |volume: &config::Volume| {
            let known = before.iter().filter(stays).find(|opened| opened.name == volume.name);
            if let Some(known) = known {
                return Ok((known.clone(), None));
            }
            let store = open(volume)?;
            if self.pool.is_fast() && !store.is_fast() {
                return Err(StoreError::Fixed("a store of volumes in memory alone"));
            }
            let place = Opened {
                name: volume.name.clone(),
                path: volume.path.clone(),
                start: 0,
                size: store.size_bytes(),
                incarnation: incarnation(&volume.path),
            };
            Ok((place, Some(store)))
        };
        config.volumes.iter().map(one).collect()
    }

    /// Gives the new ones a place. Returns all, how many are new, and those that are gone.
    pub fn place(
        &self,
        wanted: Vec<Wanted>,
        before: &[Opened],
    ) -> (Vec<Opened>, usize, Vec<Wanted>) {
        let mut stores = self.lock();
        let (mut volumes, mut added, mut gone) = (Vec::new(), 0, Vec::new());
        for (mut place, store) in wanted {
            if let Some(store) = store {
                added += 1;
                place.start = self.pool.add(Arc::clone(&store));
                let replaced = stores.insert(place.name.clone(), store);
                let old = before.iter().find(|old| old.name == place.name);
                gone.extend(old.map(|old| (old.clone(), replaced)));
            }
            volumes.push(place);
        }
        for old in before {
            if !volumes.iter().any(|opened| opened.name == old.name) {
                gone.push((old.clone(), stores.remove(&old.name)));
            }
        }
        (volumes, added, gone)
    }

    /// Closes volumes that are gone, whose requests are over.
    pub fn close(&self, gone: &[Wanted]) {
        for (opened, store) in gone {
            if let Some(store) = store {
                // What was answered and not flushed is not lost with the volume.
                let _ = store.flush();
            }
            self.pool.remove(opened.start);
        }
    }
}
