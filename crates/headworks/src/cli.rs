//! The command line.

mod examples;
mod io;
mod services;
mod volume;

pub use examples::EXAMPLES;
pub use io::{Io, IoCommand, IoSet, IoTop, IoWaits};
pub use services::{Attend, Disable, Enable, ProfileArgs, ProfileCommand};
pub use volume::{
    Calibrate, Create, DeviceKind, FsArg, Json, Mount, Powercut, Replay, Rm, Serve, Stat, Umount,
    Volume, VolumeCommand, VolumeDoctor,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Governs who enters a database, and when, so that it works at its best however many connect.
#[derive(Debug, Parser)]
#[command(
    name = "headworks",
    version,
    after_help = "Start: headworks run -- mariadbd --datadir=…\nThen, in another terminal: headworks top"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a database behind the gate
    ///
    /// The database's program is not changed. It runs under a preloaded library, with a small
    /// daemon beside it. It runs in this very process, so its process id, signals and exit code are
    /// what they would be without headworks. At most P sessions run at once; the others wait their
    /// turn in front of the database, in weighted round robin. If any part of headworks fails, all
    /// requests pass.
    Run(Run),
    /// Show the state of a gate
    Status(StatusArgs),
    /// Watch a gate live
    Top(Top),
    /// Change settings of a running gate, until the next reload or restart
    Set(Set),
    /// Hold no session and no call on a file from this moment on
    Off(Select),
    /// Undo `off`
    On(Select),
    /// Read the configuration file again; no connection is dropped
    ///
    /// A file with a mistake changes nothing. If the address for metrics is not available, the
    /// command fails and says so. Everything else of the file is then in force, and the address
    /// before stays. Give the command again once the address is free.
    Reload(Select),
    /// Say why the gate does what it does
    Explain(ExplainGate),
    /// Put a service of this machine behind the gate
    ///
    /// Writes a companion unit, which makes the gate ready and is its daemon, and a drop-in by
    /// which the service's own processes preload the library. How the service starts, stops,
    /// notifies and is confined is not changed. Takes effect when the service is restarted.
    Enable(Enable),
    /// Take a service away from the gate: removes what `enable` wrote, and nothing else
    Disable(Disable),
    /// Attend to the gate of a service (what the unit does that `enable` writes)
    ///
    /// Makes the gate ready, tells the service manager so, and watches over the server that comes.
    Attend(Attend),
    /// What is known of each database
    Profile(ProfileArgs),
    /// Look at what this machine offers, and what is missing
    Doctor(Doctor),
    /// Run experiments and draw their results
    #[command(disable_help_flag = true)]
    Bench,
    /// Set weights and limits of tenants on many nodes at once: databases, HBase, volumes
    #[command(disable_help_flag = true)]
    Controller,
    /// Put tenants' shares into a stock HBase, take them out again, and say what is enforced
    #[command(disable_help_flag = true)]
    Hbase,
    /// Serve volumes to many hosts, and give each application what its target needs
    #[command(disable_help_flag = true)]
    Store,
    /// Thread architecture diagrams: draw, check, simulate and repair a system before it is built
    #[command(disable_help_flag = true)]
    Tad,
    /// Block devices whose device, queue and faults live in user space
    ///
    /// A volume is a real block device to the kernel: ext4 or XFS is mounted on it, or it is used
    /// as it is. Behind it are a queue with a scheduler of choice and a model of a device. Layers
    /// delay, limit, fail, record or cut the power. The bytes are in a file, on a device or in
    /// memory.
    Volume(Volume),
    /// The scheduler of a program's files (`headworks run --io …`): watch it and change it
    ///
    /// It decides when writes, `fsync`s and reads go on: by priority (afq), by deadline
    /// (split-deadline), up to a rate (split-token), or what a client waits for first (rcp). What
    /// is durable, and when, is not changed.
    Io(Io),
    /// Start the daemon of a running instance again
    ///
    /// Needed only if the daemon was killed: all requests pass until then. What a daemon decides,
    /// and why, is in `daemon.log` beside the region (`headworks status` says where). The log has
    /// at most 1 MiB, and so has the older one beside it. Both go with the instance.
    Daemon(Daemon),
    /// Write the manual pages
    Man(headworks_console::man::Man),
}

/// Which instance.
#[derive(Clone, Debug, Args)]
pub struct Select {
    /// Name of the instance; needed only if several run
    #[arg(long, short = 'n')]
    pub name: Option<String>,
}

/// What the gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Measure, hold no session, and tell what enforcing would have changed
    DryRun,
    /// Hold sessions so that at most P are inside
    Enforce,
}

impl From<ModeArg> for headworks_region::Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::DryRun => headworks_region::Mode::DryRun,
            ModeArg::Enforce => headworks_region::Mode::Enforce,
        }
    }
}

/// Which sessions P counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountArg {
    /// Those on a processor or in storage I/O; blocked, thinking and long-running ones lend their
    /// permit
    Working,
    /// All that were admitted, whatever they do
    Admitted,
}

impl From<CountArg> for headworks_region::control::Count {
    fn from(count: CountArg) -> Self {
        match count {
            CountArg::Working => headworks_region::control::Count::Working,
            CountArg::Admitted => headworks_region::control::Count::Admitted,
        }
    }
}

/// P as an operator says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// The daemon looks for the best.
    Auto,
    /// So many.
    Fixed(u32),
}

fn parallelism(text: &str) -> Result<Parallelism, String> {
    if text == "auto" {
        return Ok(Parallelism::Auto);
    }
    match text.parse() {
        Ok(fixed @ 1..=1024) => Ok(Parallelism::Fixed(fixed)),
        _ => Err("write a number from 1 to 1024, or auto".to_owned()),
    }
}

fn class_weight(text: &str) -> Result<(String, f64), String> {
    let parts =
        text.rsplit_once('=').and_then(|(class, weight)| Some((class, weight.parse().ok()?)));
    match parts {
        Some((class, weight)) if !class.is_empty() => Ok((class.to_owned(), weight)),
        _ => Err("write CLASS=WEIGHT, for example reports=0.5".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=3_600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0.001 to 3600".to_owned()),
    }
}

fn bound(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bound) if (0.0..=1_000.0).contains(&bound) => Ok(bound),
        _ => Err("write a number from 0 to 1000".to_owned()),
    }
}

impl Parallelism {
    /// Writes it into settings; a search begins at the P that they have.
    pub fn set(self, settings: &mut headworks_region::control::Settings) {
        settings.auto = self == Parallelism::Auto;
        if let Parallelism::Fixed(fixed) = self {
            settings.parallelism = fixed;
        }
    }
}

/// What `explain` is about.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  headworks explain app@10.0.0.7      # why this user waits, or waited\n  \
    headworks explain 12                # the user with this number in `status --json`\n  \
    headworks explain '#4711'           # one request that was held\n  \
    headworks explain reports --json    # everybody of this account, application or class\n  \
    headworks explain parallelism       # how P was found\n  \
    headworks explain waits             # for which file or lock clients waited, and who held it"
)]
pub struct ExplainGate {
    /// What to explain
    #[command(subcommand)]
    pub what: Option<ExplainWhat>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// A user (number, account, account@address, application, class), or a request (#NUMBER)
    #[arg(value_name = "USER|REQUEST")]
    pub target: Option<String>,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// What can be explained.
#[derive(Debug, Subcommand)]
pub enum ExplainWhat {
    /// How P was found: samples, the fitted curve, and every decision
    #[command(after_help = "Example:\n  headworks explain parallelism --output p.svg")]
    Parallelism {
        #[command(flatten)]
        #[allow(missing_docs)]
        select: Select,
        /// Draw the curve into this file (SVG)
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// The latest long waits of clients for files and locks (the same as `io waits`)
    #[command(after_help = "Example:\n  headworks explain waits --count 100")]
    Waits(IoWaits),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks run -- mariadbd --user=mysql\n  \
    headworks run --parallelism 32 --config headworks.toml -- mariadbd --defaults-file=/etc/mysql/my.cnf\n  \
    headworks run --mode dry-run --parallelism 32 -- mariadbd   # queue no session, tell what P = 32 would change\n  \
    headworks run -- postgres -D /srv/pg   # by root: becomes the data's owner")]
pub struct Run {
    /// Configuration file (TOML): settings, classes, rules
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// P: sessions inside at once, or `auto` to look for the best [default: auto, from the open
    /// gate on]
    #[arg(long, short = 'p', value_name = "P|auto", value_parser = parallelism)]
    pub parallelism: Option<Parallelism>,
    /// ζ: requests of one scheduling round over all sessions; 0 for the least that gives each one
    #[arg(long, short = 'q', value_name = "ZETA")]
    pub quota: Option<u32>,
    /// What the gate does [default: enforce]
    #[arg(long, short = 'm', value_enum)]
    pub mode: Option<ModeArg>,
    /// Which sessions P counts [default: working]
    #[arg(long, value_enum)]
    pub count: Option<CountArg>,
    /// Name of the instance [default: the program's name]
    #[arg(long, short = 'n')]
    pub name: Option<String>,
    /// Profile of the server: a name from `profile list`, or a file [default: by the program's
    /// name]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Give the threads of each class processor time by its weight, with control groups
    ///
    /// As `cpu_weights = true` in the configuration. Needs root, or a group that may be divided;
    /// where that is missing, everything else goes on (`headworks doctor` says what is missing).
    #[arg(long)]
    pub cgroups: bool,
    /// Scheduler of the program's files: noop, afq, split-deadline, split-token, rcp or scs-token
    /// [default: as the configuration's `[io]` section says]
    #[arg(long, value_name = "SCHEDULER")]
    pub io: Option<headworks_policy::split::SplitKind>,
    /// What the files lie on: a disk or flash [default: what the kernel says]
    #[arg(long, value_enum, value_name = "KIND")]
    pub io_device: Option<IoDevice>,
    /// Start the database without the gate if the gate cannot be set up
    ///
    /// For services: a mistake in a configuration, or a missing library, must not keep a database
    /// from starting.
    #[arg(long)]
    pub fail_open: bool,
    /// The database's program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What files lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoDevice {
    /// With seeks
    Disk,
    /// Without
    Flash,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// Seconds between two pictures
    #[arg(long, short = 'd', default_value_t = 1.0, value_name = "SECONDS")]
    pub delay: f64,
}

/// Arguments of `set`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Set {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// P: sessions inside at once, or `auto` to look for the best
    #[arg(long, short = 'p', value_name = "P|auto", value_parser = parallelism)]
    pub parallelism: Option<Parallelism>,
    /// Try that P for so many seconds, then go back; a search for P rests meanwhile
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, requires = "parallelism")]
    #[arg(conflicts_with_all = ["quota", "unfairness_max", "latency_cv_max", "mode", "count", "weight", "hold_ms_max",
        "idle_in_transaction_ms", "anticipation_us", "stall_ms"])]
    pub try_for: Option<Duration>,
    /// ζ: requests of one scheduling round over all sessions; 0 for its minimum
    #[arg(long, short = 'q', value_name = "ZETA")]
    pub quota: Option<u32>,
    /// Let ζ grow while unfairness stays under this (0.1 for 10 %); 0 for no such bound
    #[arg(long, value_name = "U", value_parser = bound)]
    pub unfairness_max: Option<f64>,
    /// Let ζ grow while the latencies' coefficient of variation stays under this; 0 for no bound
    #[arg(long, value_name = "CV", value_parser = bound)]
    pub latency_cv_max: Option<f64>,
    /// What the gate does
    #[arg(long, short = 'm', value_enum)]
    pub mode: Option<ModeArg>,
    /// Which sessions P counts
    #[arg(long, value_enum)]
    pub count: Option<CountArg>,
    /// Weight of a class, 0.001 to 1000; may be given several times
    #[arg(long, value_name = "CLASS=WEIGHT", value_parser = class_weight)]
    pub weight: Vec<(String, f64)>,
    /// Longest hold of a request, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub hold_ms_max: Option<u64>,
    /// How long a client may idle inside a transaction before its permit is lent out
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pub idle_in_transaction_ms: Option<u64>,
    /// How long a session inside its quota is waited for, in microseconds
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub anticipation_us: Option<u64>,
    /// How long nothing may complete before one more session is admitted
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub stall_ms: Option<u64>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Look at this database program too
    #[arg(value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `daemon`.
#[derive(Debug, Args)]
pub struct Daemon {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub select: Select,
    /// Descriptor that gets a line once the daemon serves
    #[arg(long, hide = true)]
    pub ready_fd: Option<i32>,
    /// User and group of the daemon
    #[arg(long, hide = true, value_name = "UID:GID", value_parser = crate::process::parse_ids)]
    pub run_as: Option<(u32, u32)>,
    /// Let go of standard error once it serves
    #[arg(long, hide = true)]
    pub detach: bool,
    /// Stay in the foreground
    #[arg(long)]
    pub foreground: bool,
}
