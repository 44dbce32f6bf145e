//! `headworks store`.

use clap::{Args, Parser, Subcommand};
use headworks_store::apps::Key;
use headworks_store::number::Number;
use std::path::PathBuf;

/// A storage server that gives each application what its target needs
///
/// Serves volumes to any NBD client, and shares their device among the applications that use them.
/// An application with a target (transactions a second, or a latency) gets the share that it needs;
/// the rest is shared by weight. No share has to be set by hand.
#[derive(Debug, Parser)]
#[command(name = "headworks-store", bin_name = "headworks store", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the volumes of a configuration file, until SIGTERM
    Serve(Select),
    /// Show volumes, applications, and how their targets fare
    Status(Status),
    /// The same, again and again
    Top(Top),
    /// Read the configuration again: volumes, clients and targets come and go
    Reload(Select),
    /// Change what an application is to have, at once, until the configuration is read again
    Set(Set),
    /// Say what an application achieved in the last second
    Post(Post),
    /// Post what a database behind the gate achieves, each second
    Follow(Follow),
    /// Why an application gets what it gets, and why its requests were slow
    Explain(Explain),
    /// What shares the targets of a configuration would get, without changing anything
    DryRun(DryRun),
    /// Draw an application's dft, ask and share over time
    Draw(Draw),
    /// Check a configuration, its files and this machine
    Doctor(Select),
    /// Print a systemd unit for a configuration
    Unit(Select),
    /// Give a program without TLS a Unix socket to a store that wants it
    Tunnel(Tunnel),
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

/// Examples of each command, for its help.
pub const EXAMPLES: &[(&str, &[&str])] = &[
    ("serve", &["headworks store serve --config store.toml"]),
    ("status", &["headworks store status", "headworks store status --json"]),
    ("top", &["headworks store top --delay 1"]),
    ("reload", &["headworks store reload --config store.toml"]),
    ("set", &["headworks store set orders share 0.3", "headworks store set orders target 500"]),
    ("post", &["headworks store post orders --achieved 512"]),
    (
        "follow",
        &["headworks store follow orders", "headworks store follow orders --class checkout"],
    ),
    ("explain", &["headworks store explain orders"]),
    ("dry-run", &["headworks store dry-run --need orders=0.5 --need reports=0.7"]),
    ("draw", &["headworks store draw orders --output orders.svg"]),
    ("doctor", &["headworks store doctor --config store.toml"]),
    ("unit", &["headworks store unit > /etc/systemd/system/headworks-store.service"]),
    (
        "tunnel",
        &[
            "headworks store tunnel store.example:10809 --socket /run/store --certificate me.pem --key me.key --servers ca.pem",
        ],
    ),
];

/// Which store.
#[derive(Clone, Debug, Args)]
pub struct Select {
    /// Its configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/headworks/store.toml")]
    pub config: PathBuf,
}

/// `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1.0, value_parser = |text: &str| Number::DelayS.parse(text))]
    pub delay: f64,
    /// Looks, then the end. Default: until Ctrl-C
    #[arg(long)]
    pub count: Option<u32>,
}

/// `set`.
#[derive(Debug, Args)]
pub struct Set {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// The application
    pub application: String,
    /// What: target, latency_ms or share, which replace each other; weight, limit
    #[arg(value_parser = key)]
    pub key: Key,
    /// The number
    pub number: f64,
}

fn key(text: &str) -> Result<Key, String> {
    let found = Key::ALL.into_iter().find(|key| key.name() == text);
    found.ok_or_else(|| format!("write one of: {}", Key::ALL.map(Key::name).join(", ")))
}

fn age(text: &str) -> Result<u64, String> {
    // Whole and below 2^53.
    Number::AgeMs.parse(text).map(|age_ms| age_ms as u64)
}

/// `post`.
#[derive(Debug, Args)]
pub struct Post {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// The application
    pub application: String,
    /// What it achieved, as its target has it: a second's transactions, or milliseconds of one.
    /// Without it, there was no demand
    #[arg(long, value_parser = |text: &str| Number::Achieved.parse(text))]
    pub achieved: Option<f64>,
    /// What its clients asked of it in that second. All that was asked, and less than the target,
    /// is no shortfall
    #[arg(long, requires = "achieved", value_parser = |text: &str| Number::Achieved.parse(text))]
    pub offered: Option<f64>,
    /// How long ago that second was
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = age)]
    pub age_ms: u64,
}

/// `follow`.
#[derive(Debug, Args)]
pub struct Follow {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// The application
    pub application: String,
    /// The gate's instance, if several run
    #[arg(long)]
    pub name: Option<String>,
    /// One of its classes: its requests a second. Without one: turns a second of all sessions
    #[arg(long)]
    pub class: Option<String>,
    /// Post the median latency, in milliseconds, instead of the rate
    #[arg(long)]
    pub latency: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// The application. Without one: all that have a target
    pub application: Option<String>,
}

/// `dry-run`.
#[derive(Debug, Args)]
pub struct DryRun {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// Suppose that an application needs this share; the others' needs are those that were learned
    #[arg(long, value_name = "NAME=SHARE")]
    pub need: Vec<String>,
}

/// `draw`.
#[derive(Debug, Args)]
pub struct Draw {
    /// Which store.
    #[command(flatten)]
    pub select: Select,
    /// The application
    pub application: String,
    /// Where the picture goes
    #[arg(long, short, value_name = "FILE.svg")]
    pub output: PathBuf,
}

/// `tunnel`.
#[derive(Debug, Args)]
pub struct Tunnel {
    /// The store: HOST:PORT
    pub address: String,
    /// The socket to make
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// This client's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub certificate: PathBuf,
    /// Its key, PEM
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Who signs stores' certificates, PEM
    #[arg(long, value_name = "FILE")]
    pub servers: PathBuf,
    /// Name in the store's certificate. Default: the host
    #[arg(long)]
    pub name: Option<String>,
}
