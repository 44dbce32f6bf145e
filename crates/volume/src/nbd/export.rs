//! Exports: the volumes of a server, by name.

use std::fmt;
use std::sync::Arc;

use super::backend::Backend;
use super::wire::{STRING_BYTES_MAX, transmission_flag as flag};

/// Most exports of one server.
pub const EXPORTS_MAX: usize = 1024;

/// Smallest block: the sector. Offsets and lengths of requests are multiples of it.
pub const BLOCK_BYTES_MIN: u32 = 512;

/// Smallest block that is written without a read first.
pub const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// The form of requests and replies on a connection, as the client chose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Compact requests, replies without chunks.
    #[default]
    Simple,
    /// Compact requests, replies to reads in chunks.
    Structured,
    /// Requests and replies with 64-bit lengths, all replies in chunks.
    Extended,
}

/// Facts of an export for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Writes, trims and zeroing fail.
    pub read_only: bool,
    /// Seeks cost.
    pub rotational: bool,
    /// Zeroing is faster than writing zeros.
    pub fast_zeroes: bool,
}

impl Facts {
    /// The transmission flags of the export for a connection in `mode`.
    pub fn flags(&self, mode: Mode) -> u16 {
        // A flush of the engine covers every answered write, on any connection.
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | flag::SEND_CACHE;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        if self.rotational {
            flags |= flag::ROTATIONAL;
        }
        if mode != Mode::Simple {
            flags |= flag::SEND_DF;
        }
        flags
    }
}

/// A volume under a name.
#[derive(Clone)]
pub struct Export {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) facts: Facts,
    pub(super) volume: Arc<dyn Backend>,
}

impl Export {
    /// `volume` under `name`, writable, without a description.
    pub fn new(name: impl Into<String>, volume: Arc<dyn Backend>) -> Export {
        let facts = Facts {
            size_bytes: volume.size_bytes(),
            read_only: false,
            rotational: false,
            fast_zeroes: false,
        };
        Export { name: name.into(), description: String::new(), facts, volume }
    }

    /// A description for people who list the exports.
    pub fn description(mut self, words: impl Into<String>) -> Export {
        self.description = words.into();
        self
    }

    /// Whether writes fail. Default: no.
    pub fn read_only(mut self, yes: bool) -> Export {
        self.facts.read_only = yes;
        self
    }

    /// Whether clients should sort their requests by position. Default: no.
    pub fn rotational(mut self, yes: bool) -> Export {
        self.facts.rotational = yes;
        self
    }

    /// Whether zeroing is faster than writing zeros. If not, a client that wants only fast zeroing
    /// is refused, and writes instead. Default: no.
    pub fn fast_zeroes(mut self, yes: bool) -> Export {
        self.facts.fast_zeroes = yes;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What clients are told.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("name", &self.name).field("facts", &self.facts).finish()
    }
}

/// Why a set of exports cannot be offered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExportError {
    /// Two exports have the same name.
    #[error("two exports are called {0:?}: a client could not tell them apart; rename one")]
    Twice(String),
    /// Longer than the protocol's limit.
    #[error(
        "the {what} of an export has {bytes} bytes, and the protocol allows {STRING_BYTES_MAX}: \
         shorten it"
    )]
    TooLong {
        /// Name or description.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A NUL byte, which clients cannot send.
    #[error("the {0} of an export contains a NUL byte, which the protocol forbids: remove it")]
    Nul(&'static str),
    /// Not whole sectors.
    #[error(
        "export {name:?} has {size_bytes} bytes, which is no multiple of {BLOCK_BYTES_MIN}: resize \
         its backing"
    )]
    Size {
        /// The export.
        name: String,
        /// Its size.
        size_bytes: u64,
    },
    /// More than [`EXPORTS_MAX`].
    #[error("{0} exports are more than the {EXPORTS_MAX} that one server offers: start another")]
    TooMany(usize),
    /// The default names no export.
    #[error("the default export {0:?} is not among the exports: add it or name another")]
    NoDefault(String),
}

/// The exports of a server. The first is the default, for clients that name none.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    list: Vec<Export>,
    default: usize,
}

impl Exports {
    /// Offers `list`.
    ///
    /// # Errors
    /// Names that are not unique or too long, sizes that are not whole sectors, too many exports.
    pub fn new(list: Vec<Export>) -> Result<Exports, ExportError> {
        if list.len() > EXPORTS_MAX {
            return Err(ExportError::TooMany(list.len()));
        }
        for (index, export) in list.iter().enumerate() {
            for (what, text) in [("name", &export.name), ("description", &export.description)] {
                if text.len() > STRING_BYTES_MAX {
                    return Err(ExportError::TooLong { what, bytes: text.len() });
                }
                if text.contains('\0') {
                    return Err(ExportError::Nul(what));
                }
            }
            if list[..index].iter().any(|other| other.name == export.name) {
                return Err(ExportError::Twice(export.name.clone()));
            }
            let size_bytes = export.facts.size_bytes;
            if size_bytes % u64::from(BLOCK_BYTES_MIN) != 0 {
                return Err(ExportError::Size { name: export.name.clone(), size_bytes });
            }
        }
        Ok(Exports { list, default: 0 })
    }

    /// Gives clients that name no export this one.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn default_name(mut self, name: &str) -> Result<Exports, ExportError> {
        let found = self.list.iter().position(|export| export.name == name);
        self.default = found.ok_or_else(|| ExportError::NoDefault(name.to_owned()))?;
        Ok(self)
    }

    /// All exports, in the order that clients see.
    pub fn list(&self) -> &[Export] {
        &self.list
    }

    /// Index of the export that a client named. An empty name means the default export, unless an
    /// export has that name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.list.iter().position(|export| export.name.as_bytes() == name);
        let default = || (name.is_empty() && !self.list.is_empty()).then_some(self.default);
        named.or_else(default)
    }
}
