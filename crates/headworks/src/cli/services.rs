//! `enable`, `disable`, `attend` and `profile`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `enable`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  headworks enable mariadb --dry-run       # what would be written\n  \
    sudo headworks enable mariadb           # says which commands put it in force\n  \
    sudo headworks enable postgresql@15-main --now\n  \
    sudo headworks enable mariadb@shop --config /etc/headworks/shop.toml\n  \
    sudo headworks enable postgresql@15-main --io rcp   # its files, too\n  \
    sudo headworks enable postgresql --all\n  \
    headworks enable mariadb --root ./image    # an image of a machine"
)]
pub struct Enable {
    /// A profile (mariadb, postgresql), or a unit (redis-server, mariadb@shop, postgresql@15-main)
    #[arg(value_name = "DATABASE|UNIT")]
    pub service: String,
    /// Every instance, if there are several
    #[arg(long)]
    pub all: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Reload systemd and restart the service at once, which ends its connections
    #[arg(long, conflicts_with = "dry_run")]
    pub now: bool,
    /// Configuration of the gate [default: /etc/headworks/INSTANCE.toml, if it is there]
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Scheduler of the server's files, as `run --io` has it [default: as the configuration's
    /// `[io]` section says]
    #[arg(long, value_name = "SCHEDULER")]
    pub io: Option<headworks_policy::split::SplitKind>,
    /// Profile [default: by the service's program]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Work on the files below this directory, as for an image of a machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Arguments of `disable`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo headworks disable mariadb           # says which commands put it in force\n  \
    sudo headworks disable mariadb --now     # and runs them\n  \
    headworks disable postgresql@15-main --dry-run"
)]
pub struct Disable {
    /// As for `enable`
    #[arg(value_name = "DATABASE|UNIT")]
    pub service: String,
    /// Every instance, if there are several
    #[arg(long)]
    pub all: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Reload systemd and restart the service at once, which ends its connections
    #[arg(long, conflicts_with = "dry_run")]
    pub now: bool,
    /// Work on the files below this directory, as for an image of a machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Arguments of `attend`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, without a service manager:\n  headworks attend --name shop --profile mariadb &\n  \
    LD_PRELOAD=/usr/local/lib/headworks/libheadworks.so \\\n  \
    HEADWORKS_REGION=/run/headworks/shop/region mariadbd …"
)]
pub struct Attend {
    /// Name of the instance
    #[arg(long, short = 'n')]
    pub name: String,
    /// Profile of the server: a name from `profile list`, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: String,
    /// Configuration file (TOML): settings, classes, rules
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Scheduler of the server's files, as `run --io` has it [default: as the configuration's
    /// `[io]` section says]
    #[arg(long, value_name = "SCHEDULER")]
    pub io: Option<headworks_policy::split::SplitKind>,
    /// Make the region of a scheduler of files in any case: the server's environment names it
    #[arg(long)]
    pub io_region: bool,
    /// Port on which administrators pass
    #[arg(long, value_name = "PORT")]
    pub extra_port: Option<u16>,
    /// The server has a pool of threads (MariaDB's `thread_handling`)
    #[arg(long)]
    pub pool_of_threads: bool,
}

/// Arguments of `profile`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks profile list\n  headworks profile show mariadb\n  \
    headworks profile show postgresql --toml > /etc/headworks/profiles/postgresql.toml\n  \
    headworks profile show ./mydb.toml        # checks a file of one's own")]
pub struct ProfileArgs {
    /// What to do
    #[command(subcommand)]
    pub command: ProfileCommand,
}

/// What to do with profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Name every profile and the programs that it knows
    #[command(after_help = "Example:\n  headworks profile list --json")]
    List {
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Show a profile
    ///
    /// A file whose `name` is the same in $XDG_CONFIG_HOME/headworks/profiles or
    /// /etc/headworks/profiles stands in for a profile that is built in. It takes effect when a
    /// server is started, but for the sessions that are never held: these also at `reload`.
    #[command(after_help = "Examples:\n  headworks profile show mariadb\n  \
        headworks profile show mariadb --toml > mydb.toml   # to begin one's own with")]
    Show {
        /// A name from `profile list`, or a file
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// For machines
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// The file as it is written
        #[arg(long)]
        toml: bool,
    },
}
