//! A database in a directory: `log`, `copies` (the doublewrite area) and `pages`.

use crate::engine::{Engine, EngineConfig};
use crate::error::EngineError;
use crate::filelog::FileLog;
use crate::logdev::LogDevice;
use crate::recovery::RecoveryReport;
use headworks_bufferpool::storage::{FileOptions, FileStorage};
use headworks_bufferpool::{Doublewrite, PoolError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

impl Engine {
    /// Makes an empty database with room for `pages` pages in a directory, which it also makes;
    /// else as [`Engine::create`].
    ///
    /// It can be killed at any time and called again: an unfinished attempt is started over, as no
    /// one has used it. A finished database is never touched.
    ///
    /// # Errors
    /// [`EngineError::Exists`]; those of files, pool and log.
    ///
    /// # Panics
    /// With more than 63 tables.
    pub fn create_in(
        directory: &Path,
        config: EngineConfig,
        pages: u64,
        heaps: &[bool],
    ) -> Result<Self, EngineError> {
        let path = directory.join("log");
        // The log is made first, and its lock excludes other processes. Files in a directory
        // without a log do not belong to the engine.
        let (log, replace) = match FileLog::create(&path, FileLog::SEGMENT_BYTES) {
            Ok(log) => (log, false),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (FileLog::open(&path, FileLog::SEGMENT_BYTES)?, true)
            }
            Err(error) => return Err(error.into()),
        };
        if log.start()? > 0 {
            return Err(EngineError::Exists);
        }
        let options = FileOptions { replace, ..Self::options(&config) };
        let make = |name: &str, pages| FileStorage::create(&directory.join(name), pages, options);
        let area = make("copies", Doublewrite::AREA_PAGES).map_err(PoolError::from)?;
        let storage = make("pages", pages).map_err(PoolError::from)?;
        let area = Arc::new(Doublewrite::new(Arc::new(area))?);
        Self::create(config, Arc::new(storage), Arc::new(log), Some(area), heaps)
    }

    /// Opens what [`Engine::create_in`] made, and recovers it.
    ///
    /// # Errors
    /// As [`Engine::open`]; those of files.
    pub fn open_in(
        directory: &Path,
        config: EngineConfig,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let log = FileLog::open(&directory.join("log"), FileLog::SEGMENT_BYTES)?;
        if log.start()? == 0 {
            return Err(EngineError::NotMade);
        }
        let options = Self::options(&config);
        let open = |name: &str| FileStorage::open(&directory.join(name), options);
        let area = open("copies").map_err(PoolError::from)?;
        let storage = open("pages").map_err(PoolError::from)?;
        let area = Arc::new(Doublewrite::new(Arc::new(area))?);
        Self::open(config, Arc::new(storage), Arc::new(log), Some(area))
    }

    fn options(config: &EngineConfig) -> FileOptions {
        FileOptions { page_size: config.pool.page_size, ..FileOptions::default() }
    }
}
