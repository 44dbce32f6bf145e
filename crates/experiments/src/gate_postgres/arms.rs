//! The arms: who is compared with whom, doing what.

use serde::{Deserialize, Serialize};

/// Clients of the arms that overload the server.
pub(crate) const MANY: usize = 256;

/// Clients of the arms that do not.
pub(crate) const FEW: usize = 16;

/// One of pgbench's built-in workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// Transactions of five statements, like TPC-B's.
    TpcbLike,
    /// Single selects.
    SelectOnly,
}

/// How pgbench sends its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Simple,
    Extended,
    Prepared,
}

/// One way to run the server, with a number of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Config {
    Ungated,
    Pgbouncer,
    Gated,
    #[serde(rename = "ungated-16")]
    Ungated16,
    #[serde(rename = "gated-16")]
    Gated16,
}

/// A workload, how it is sent, and how the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arm {
    pub(crate) load: Load,
    pub(crate) mode: Mode,
    pub(crate) config: Config,
}

impl Load {
    pub(crate) const ALL: [Self; 2] = [Self::TpcbLike, Self::SelectOnly];

    /// As pgbench calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TpcbLike => "tpcb-like",
            Self::SelectOnly => "select-only",
        }
    }
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Simple, Self::Extended, Self::Prepared];

    /// As pgbench calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

impl Config {
    pub(crate) const ALL: [Self; 5] =
        [Self::Ungated, Self::Pgbouncer, Self::Gated, Self::Ungated16, Self::Gated16];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ungated => "ungated",
            Self::Pgbouncer => "pgbouncer",
            Self::Gated => "gated",
            Self::Ungated16 => "ungated-16",
            Self::Gated16 => "gated-16",
        }
    }

    pub(crate) fn users(self) -> usize {
        match self {
            Self::Ungated16 | Self::Gated16 => FEW,
            _ => MANY,
        }
    }

    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Gated | Self::Gated16)
    }

    /// The arm that this one is compared with: the same clients on PostgreSQL as it is.
    pub(crate) fn baseline(self) -> Self {
        if self.users() == MANY { Self::Ungated } else { Self::Ungated16 }
    }

    /// A colour that people with any colour vision can tell from the others (after Okabe and Ito).
    pub(crate) fn colour(self) -> (u8, u8, u8) {
        match self {
            Self::Ungated => (0xd5, 0x5e, 0x00),
            Self::Pgbouncer => (0xe6, 0x9f, 0x00),
            Self::Gated => (0x00, 0x72, 0xb2),
            Self::Ungated16 => (0x8c, 0x8c, 0x8c),
            Self::Gated16 => (0x56, 0xb4, 0xe9),
        }
    }
}

impl Arm {
    /// All that can run, in the order of tables and pictures.
    pub(crate) fn all(with_gate: bool) -> Vec<Arm> {
        let mut all = Vec::new();
        for load in Load::ALL {
            for mode in Mode::ALL {
                for config in Config::ALL {
                    let possible = config != Config::Pgbouncer || mode != Mode::Prepared;
                    if possible && (with_gate || !config.is_gated()) {
                        all.push(Arm { load, mode, config });
                    }
                }
            }
        }
        all
    }

    pub(crate) fn name(self) -> String {
        format!("{} {} {}", self.load.name(), self.mode.name(), self.config.name())
    }
}
