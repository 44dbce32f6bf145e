//! Why a store cannot start, or not take a configuration.

use crate::{config, tls};
use std::io;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// A volume cannot be opened.
    #[error("volume `{name}`: {problem}")]
    Volume {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
    /// A place cannot be listened on.
    #[error("cannot listen on {place}: {why}")]
    Listen {
        /// The place.
        place: String,
        /// Why.
        why: io::Error,
    },
    /// What a reload cannot change.
    #[error("{0} cannot change while the store runs: systemctl restart headworks-store")]
    Fixed(&'static str),
    /// Threads or files are lacking.
    #[error("the store cannot start: {0}")]
    Start(String),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        StoreError::Start(error.to_string())
    }
}
