//! A volume's description, from a TOML file or a command line, and the volume made from it.

use crate::engine::{Engine, EngineConfig};
use crate::layer::{self, Layer, LayerError};
use crate::model::{Device, PRESETS};
use crate::store::{self, Store};
use headworks_policy::block::kind::UnknownScheduler;
use headworks_policy::block::{BlockScheduler, SECTOR_BYTES, SchedulerKind};
use headworks_settings::Mistake;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sizes of a volume's blocks, in bytes.
pub const BLOCKS: [u32; 4] = [512, 1024, 2048, 4096];

/// The backing that is memory.
pub const MEMORY: &str = "memory";

/// The device without a model.
pub const RAW: &str = "raw";

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Bytes, a multiple of the block.
    pub size_bytes: u64,
    /// `memory`, the path of a file or a block device, or the URI of an NBD export.
    pub backing: String,
    /// Most memory for the data of a volume in memory, in bytes. Writes beyond it get ENOSPC.
    /// Default: half of the machine's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<u64>,
    /// `raw`, the name of a model, or a file with one.
    #[serde(default = "raw")]
    pub device: String,
    /// `noop` or the name of another block scheduler.
    #[serde(default = "noop")]
    pub scheduler: String,
    /// Bytes of the smallest request: 512 to 4096, a power of two.
    #[serde(default = "block")]
    pub block_bytes: u32,
    /// Seed of the randomness in the device's model.
    #[serde(default = "seed")]
    pub seed: u64,
    /// A file is read and written in the page cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub page_cache: bool,
    /// Layers, the first one nearest to the front end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
}

fn raw() -> String {
    RAW.to_owned()
}

fn noop() -> String {
    "noop".to_owned()
}

fn seed() -> u64 {
    1
}

fn block() -> u32 {
    // As on disks; a power cut tears writes at this size.
    SECTOR_BYTES as u32
}

/// Why a volume cannot be made from its description.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The size is zero or no multiple of the block.
    #[error(
        "the size, {size} bytes, is no multiple of the block, {block} bytes\n  the next one is {next}"
    )]
    Size {
        /// The size.
        size: u64,
        /// The block.
        block: u32,
        /// The next size that is.
        next: u64,
    },
    /// The block is none.
    #[error("blocks of {0} bytes do not exist: choose 512, 1024, 2048 or 4096")]
    Block(u32),
    /// The scheduler is unknown.
    #[error(transparent)]
    Scheduler(#[from] UnknownScheduler),
    /// The device is unknown.
    #[error("there is no device `{name}`; write one of: raw, {known}, or a file: FILE.toml")]
    Device {
        /// As given.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A device's file cannot be read.
    #[error("cannot read the device file {path}: {source}")]
    DeviceFile {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A device's file is wrong.
    #[error(transparent)]
    DeviceText(#[from] Mistake),
    /// A layer's text is wrong.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The backing cannot be used.
    #[error(transparent)]
    Backing(#[from] store::file::OpenError),
    /// The export cannot be used.
    #[error(transparent)]
    Nbd(#[from] store::nbd::NbdError),
    /// The engine's threads or the layers' files cannot be made.
    #[error("cannot start the volume: {0}")]
    Start(io::Error),
}

/// A running volume: its engine, and a handle to its power if it can be cut.
pub struct Volume {
    /// The queue.
    pub engine: Arc<Engine>,
    /// The store under it, for figures.
    pub store: Arc<dyn Store>,
    /// Cuts the power, if there is a layer for that.
    pub power: Option<Arc<layer::PowerCut>>,
}

impl VolumeConfig {
    /// A raw volume without layers.
    pub fn new(size_bytes: u64, backing: &str) -> VolumeConfig {
        VolumeConfig {
            size_bytes,
            backing: backing.to_owned(),
            memory_bytes_max: None,
            device: raw(),
            scheduler: noop(),
            block_bytes: block(),
            seed: seed(),
            page_cache: false,
            layers: Vec::new(),
        }
    }

    /// Checks everything that does not need the backing.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let block = u64::from(self.block_bytes);
        if !BLOCKS.contains(&self.block_bytes) {
            return Err(ConfigError::Block(self.block_bytes));
        }
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(block) {
            let next = (self.size_bytes / block + 1).saturating_mul(block);
            return Err(ConfigError::Size { size: self.size_bytes, block: self.block_bytes, next });
        }
        self.scheduler.parse::<SchedulerKind>()?;
        self.find_device()?;
        if self.is_nbd() {
            store::nbd::Address::parse(&self.backing)?;
        }
        for text in &self.layers {
            layer::parse(text)?;
        }
        Ok(())
    }

    /// Whether its contents end with the process.
    pub fn in_memory(&self) -> bool {
        self.backing == MEMORY
    }

    /// Whether an NBD server stores its bytes.
    pub fn is_nbd(&self) -> bool {
        store::nbd::Address::looks_like(&self.backing)
    }

    /// Opens the backing.
    ///
    /// # Errors
    /// If it cannot be used, is too small or busy.
    pub fn open_store(&self) -> Result<Arc<dyn Store>, ConfigError> {
        self.open_store_by(None)
    }

    /// The same; a server that is reached by TLS, by this Unix socket.
    ///
    /// # Errors
    /// As [`VolumeConfig::open_store`].
    pub fn open_store_by(&self, tunnel: Option<&Path>) -> Result<Arc<dyn Store>, ConfigError> {
        if self.in_memory() {
            let limit = self.memory_bytes_max.unwrap_or_else(default_memory_bytes);
            return Ok(Arc::new(store::Memory::new(self.size_bytes, limit)));
        }
        if self.is_nbd() {
            let mut address = store::nbd::Address::parse(&self.backing)?;
            if let (Some(_), Some(socket)) = (address.tls(), tunnel) {
                address = address.by(socket);
            }
            return Ok(Arc::new(store::Nbd::open(address, self.size_bytes, self.block_bytes)?));
        }
        let path = Path::new(&self.backing);
        Ok(Arc::new(match self.page_cache {
            true => store::File::open_cached(path, self.size_bytes)?,
            false => store::File::open(path, self.size_bytes)?,
        }))
    }

    /// Opens the backing and starts the engine.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn start(&self) -> Result<Volume, ConfigError> {
        self.start_with(SchedulerKind::build_for, None)
    }

    /// The same; a server that is reached by TLS, by this Unix socket.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn start_by(&self, tunnel: Option<&Path>) -> Result<Volume, ConfigError> {
        self.start_with(SchedulerKind::build_for, tunnel)
    }

    /// The same for programs whose calls are scheduled already.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn start_beneath_calls(&self, tunnel: Option<&Path>) -> Result<Volume, ConfigError> {
        self.start_with(SchedulerKind::build_beneath_calls, tunnel)
    }

    fn start_with(
        &self,
        build: fn(SchedulerKind, bool) -> Box<dyn BlockScheduler>,
        tunnel: Option<&Path>,
    ) -> Result<Volume, ConfigError> {
        self.check()?;
        let store = self.open_store_by(tunnel)?;
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        let mut power = None;
        let mut top = Arc::clone(&store);
        for text in &self.layers {
            match layer::parse(text)? {
                layer::Parsed::Layer(layer) => layers.push(layer),
                layer::Parsed::Record(path) => {
                    layers.push(Box::new(record(&path).map_err(ConfigError::Start)?));
                }
                layer::Parsed::PowerCut(settings) => {
                    let cut = Arc::new(layer::PowerCut::new(top, settings, self.block_bytes));
                    power = Some(Arc::clone(&cut));
                    top = cut;
                }
            }
        }
        let device = self.find_device()?;
        // With nothing to decide there is no queue, and no thread between a request and its bytes.
        let scheduler = match self.scheduler.parse()? {
            SchedulerKind::Noop => None,
            kind => Some(build(kind, device.is_rotational())),
        };
        let model = (device != Device::Raw).then(|| device.model(self.size_bytes, self.seed));
        let config = EngineConfig { store: top, model, scheduler, layers };
        let engine = Arc::new(Engine::start(config).map_err(ConfigError::Start)?);
        Ok(Volume { engine, store, power })
    }

    /// The device that it imitates.
    ///
    /// # Errors
    /// If it is unknown, or its file is missing or wrong.
    pub fn find_device(&self) -> Result<Device, ConfigError> {
        if self.device.ends_with(".toml") {
            let text = std::fs::read_to_string(&self.device)
                .map_err(|source| ConfigError::DeviceFile { path: self.device.clone(), source })?;
            return Ok(Device::from_toml(&text, &self.device)?);
        }
        Device::preset(&self.device).ok_or_else(|| ConfigError::Device {
            name: self.device.clone(),
            known: PRESETS.map(|(name, _)| name).join(", "),
        })
    }
}

fn record(path: &PathBuf) -> io::Result<layer::Recorder> {
    Ok(layer::Recorder::new(Box::new(std::fs::File::create(path)?)))
}

/// Half of the machine's memory.
fn default_memory_bytes() -> u64 {
    // SAFETY: asks for two numbers of the machine.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    // Negative only if the value is unknown.
    (pages.max(0) as u64).saturating_mul(page.max(0) as u64) / 2
}
