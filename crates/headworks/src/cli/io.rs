//! Arguments of `headworks io`.

use super::{IoDevice, Select};
use clap::{Args, Subcommand};
use headworks_policy::split::SplitKind;
use std::path::PathBuf;

/// Arguments of `io`.
#[derive(Debug, Args)]
pub struct Io {
    /// What to do.
    #[command(subcommand)]
    pub command: IoCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum IoCommand {
    /// Watch who writes, flushes and reads, and who waits
    Top(IoTop),
    /// List the latest long waits of clients: for what, who held it, and what was done
    Waits(IoWaits),
    /// Change the scheduler or its rules; waiting calls pass
    Set(IoSet),
}

/// Arguments of `io top`.
#[derive(Debug, Args)]
pub struct IoTop {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// Seconds between two pictures
    #[arg(long, short = 'd', default_value_t = 1.0, value_name = "SECONDS")]
    pub delay: f64,
    /// End after so many pictures
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// All counters since the start, for machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `io waits`.
#[derive(Debug, Args)]
pub struct IoWaits {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub count: usize,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `io set`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct IoSet {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// noop, afq, split-deadline, split-token, scs-token or rcp
    #[arg(long, short = 's', value_name = "SCHEDULER")]
    pub scheduler: Option<SplitKind>,
    /// What the files lie on
    #[arg(long, value_enum, value_name = "KIND")]
    pub device: Option<IoDevice>,
    /// File whose `[io]` section is in force from now on
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
}
