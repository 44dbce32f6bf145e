//! The volumes of a store: opened, placed in the pool, and closed.

use crate::config::{self, Config};
use crate::error::StoreError;
use crate::front::Opened;
use crate::pool::Pool;
use headworks_volume::VolumeConfig;
use headworks_volume::nbd;
use headworks_volume::store::{self, Store};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A volume that is new, with its store; or one that stays, without.
pub type Wanted = (Opened, Option<Arc<dyn Store>>);

/// See the module.
pub struct Volumes {
    /// Where all are.
    pub pool: Arc<Pool>,
    stores: Mutex<BTreeMap<String, Arc<dyn Store>>>,
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// What clients of ours are told. Answered writes to a file survive the store's process, and not
/// the machine's, if they were not flushed. Of another server's bytes that is not known.
fn words(store: &dyn Store, is_file: bool) -> String {
    let identity = store.identity();
    let incarnation = match &identity {
        Some(identity) if is_file => format!("{}-{identity}", boot_id()),
        _ => store::unique(),
    };
    nbd::words(&incarnation, identity.as_deref())
}

fn is_file(volume: &config::Volume) -> bool {
    volume.path != "memory" && !volume.path.contains("://")
}

/// As it is written, or as the file has it.
fn size(volume: &config::Volume) -> Result<u64, StoreError> {
    let wrong = |problem: String| StoreError::Volume { name: volume.name.clone(), problem };
    match volume.size.as_ref().and_then(config::Size::bytes) {
        Some(bytes) => Ok(bytes),
        None => {
            let size = store::file::size(Path::new(&volume.path));
            Ok(size.map_err(|error| wrong(error.to_string()))? / 512 * 512)
        }
    }
}

fn open(volume: &config::Volume) -> Result<Arc<dyn Store>, StoreError> {
    let wrong = |problem: String| StoreError::Volume { name: volume.name.clone(), problem };
    let size = size(volume)?;
    if volume.cache == config::Cache::Page && is_file(volume) {
        let file = store::File::open_cached(Path::new(&volume.path), size);
        return Ok(Arc::new(file.map_err(|error| wrong(error.to_string()))?));
    }
    VolumeConfig::new(size, &volume.path).open_store().map_err(|error| wrong(error.to_string()))
}

/// A file that is open already, under this name and with this size from now on. A second opening
/// would meet the lock that the store itself has on it.
fn again(volume: &config::Volume, known: &Opened, store: &dyn Store) -> Result<Wanted, StoreError> {
    let wrong = |problem: String| StoreError::Volume { name: volume.name.clone(), problem };
    let size = size(volume)?;
    if size < known.size && volume.size.is_none() {
        return Err(wrong(format!(
            "{} has shrunk from {} to {size} bytes\n  make it as large again, or write size = {size} \
             if clients are to lose the rest",
            volume.path, known.size
        )));
    }
    let place = Opened { name: volume.name.clone(), size, ..known.clone() };
    if place == *known {
        return Ok((place, None));
    }
    match store.resized(size) {
        Some(Ok(store)) => Ok((place, Some(store))),
        Some(Err(error)) => Err(wrong(error.to_string())),
        None => Err(wrong("its size cannot change".to_owned())),
    }
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
        let one = |volume: &config::Volume| {
            let written = old.and_then(|old| old.volumes.iter().find(|v| v.name == volume.name));
            let same_size = written.is_some_and(|written| written.size == volume.size);
            // No two volumes have the same file, so a file's path is enough.
            let is = |opened: &&Opened| {
                opened.path == volume.path && (is_file(volume) || opened.name == volume.name)
            };
            match before.iter().find(is) {
                Some(known) if is_file(volume) => {
                    if let Some(store) = self.still(known) {
                        return again(volume, known, &*store);
                    }
                }
                Some(known) if same_size => return Ok((known.clone(), None)),
                // Memory of another size would begin again.
                Some(_) if volume.path == "memory" => {
                    return Err(StoreError::Fixed("the size of a volume in memory"));
                }
                _ => {}
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
                words: words(&*store, is_file(volume)),
            };
            Ok((place, Some(store)))
        };
        config.volumes.iter().map(one).collect()
    }

    /// The store of an open file, if its path still leads there.
    fn still(&self, known: &Opened) -> Option<Arc<dyn Store>> {
        let store = self.lock().get(&known.name).cloned()?;
        (store.identity() == store::file::identity(Path::new(&known.path))).then_some(store)
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
