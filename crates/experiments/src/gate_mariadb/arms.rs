//! The arms: who is compared with whom.

use serde::{Deserialize, Serialize};

/// Users of the arms that overload the server.
pub(crate) const MANY: usize = 256;

/// Users of the arms that do not.
pub(crate) const FEW: usize = 16;

/// One way to run the server, with a number of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Config {
    /// 256 users, MariaDB as it is.
    Ungated,
    /// 256 users, MariaDB's own pool of threads.
    PoolOfThreads,
    /// 256 users behind the gate.
    Gated,
    /// 16 users, MariaDB as it is.
    #[serde(rename = "ungated-16")]
    Ungated16,
    /// 16 users behind the gate.
    #[serde(rename = "gated-16")]
    Gated16,
}

impl Config {
    /// In the order of tables and pictures.
    pub(crate) const ALL: [Self; 5] =
        [Self::Ungated, Self::PoolOfThreads, Self::Gated, Self::Ungated16, Self::Gated16];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ungated => "ungated",
            Self::PoolOfThreads => "pool-of-threads",
            Self::Gated => "gated",
            Self::Ungated16 => "ungated-16",
            Self::Gated16 => "gated-16",
        }
    }

    /// For people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Ungated | Self::Ungated16 => "MariaDB as it is",
            Self::PoolOfThreads => "its own thread pool",
            Self::Gated | Self::Gated16 => "behind the gate",
        }
    }

    pub(crate) fn users(self) -> usize {
        match self {
            Self::Ungated | Self::PoolOfThreads | Self::Gated => MANY,
            Self::Ungated16 | Self::Gated16 => FEW,
        }
    }

    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Gated | Self::Gated16)
    }

    /// The arm that this one is compared with: the same users on MariaDB as it is.
    pub(crate) fn baseline(self) -> Self {
        if self.users() == MANY { Self::Ungated } else { Self::Ungated16 }
    }

    /// Options for the server, beyond those of every arm.
    pub(crate) fn server_options(self) -> &'static [&'static str] {
        match self {
            Self::PoolOfThreads => &["--thread-handling=pool-of-threads"],
            _ => &["--thread-handling=one-thread-per-connection"],
        }
    }

    /// A colour that people with any colour vision can tell from the others (after Okabe and Ito).
    pub(crate) fn colour(self) -> (u8, u8, u8) {
        match self {
            Self::Ungated => (0xd5, 0x5e, 0x00),
            Self::PoolOfThreads => (0xe6, 0x9f, 0x00),
            Self::Gated => (0x00, 0x72, 0xb2),
            Self::Ungated16 => (0x8c, 0x8c, 0x8c),
            Self::Gated16 => (0x56, 0xb4, 0xe9),
        }
    }
}
