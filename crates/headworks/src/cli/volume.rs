//! `headworks volume`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Arguments of `volume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    headworks volume create data --size 10G --backing /srv/data.img\n  \
    headworks volume mount data /mnt/data                 # ext4 at the first time\n  \
    headworks volume create test --size 2G --backing /srv/test.img --layer powercut:seed=7\n  \
    headworks volume mount test /mnt/test && headworks volume powercut test\n  \
    headworks volume umount data && headworks volume rm data")]
pub struct Volume {
    /// What to do.
    #[command(subcommand)]
    pub command: VolumeCommand,
}

/// What to do with a volume.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Describe a volume; nothing runs yet
    Create(Create),
    /// Make a block device of a volume, and mount its file system
    Mount(Mount),
    /// Unmount a volume and take its block device away
    Umount(Umount),
    /// Name the volumes and say what each one does
    List(Json),
    /// Show a volume: what it is made of and what passed through
    Stat(Stat),
    /// Forget a volume; its backing file stays unless asked otherwise
    Rm(Rm),
    /// Cut the power of a volume that has a `powercut` layer
    ///
    /// What was not flushed is dropped, kept or torn, sector by sector, by the layer's seed. From
    /// then on everything fails with EIO. Unmount the volume and mount it again, or give the power
    /// back.
    Powercut(Powercut),
    /// Play a recorded trace against a volume that is not mounted
    ///
    /// Requests come at their recorded times, or as fast as the depth allows. Writes write a
    /// pattern: what the volume held is lost where they go.
    Replay(Replay),
    /// Measure a real device, and write a device file that behaves like it
    ///
    /// In a directory a file is made, measured and removed: that shows the device under it. A
    /// device, or a file that holds something, is overwritten only with --destroy. Takes about 15
    /// times --seconds, best on a machine that does nothing else.
    Calibrate(Calibrate),
    /// Find what crashed volumes left behind, and clean it up
    ///
    /// Touches only loop devices and mounts below headworks' own directory whose process is gone.
    Doctor(VolumeDoctor),
    /// Serve a volume in the foreground: as a block device, or over NBD to any client
    ///
    /// `mount` starts this in the background, for a block device.
    Serve(Serve),
}

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FsArg {
    /// ext4 with a journal
    Ext4,
    /// XFS
    Xfs,
}

fn size(text: &str) -> Result<u64, String> {
    headworks_volume::layer::bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "write a size: 512M, 10G, 1T, or bytes".to_owned())
}

fn layer(text: &str) -> Result<String, String> {
    headworks_volume::layer::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Arguments of `volume create`.
#[derive(Debug, Args)]
#[command(after_help = "Layers, the first one nearest to the file system:\n  \
    delay:read=2ms,write=500us,flush=10ms   requests wait\n  \
    rate:bytes=100M,requests=2000,op=write  at most so much a second\n  \
    error:op=write,sector=1000-2000,count=3,kind=eio|enospc|torn|flip,probability=0.1,seed=7\n  \
    stats                                   latencies, for `headworks volume stat`\n  \
    record:FILE                             a trace of every request\n  \
    powercut:seed=7,cache=64M,keep=0.5,torn=0.1   a write cache that can lose its power")]
pub struct Create {
    /// Name: letters, digits, `-`, `_` and `.`
    pub name: String,
    /// Size: a multiple of the block
    #[arg(long, short = 's', value_parser = size)]
    pub size: u64,
    /// Where the bytes lie; a file that does not exist is made, sparse
    ///
    /// An export of an NBD server is nbd://HOST[:PORT]/EXPORT, nbd+unix:///EXPORT?socket=PATH or
    /// nbds://HOST[:PORT]/EXPORT?tls-certificates=DIRECTORY. If its server goes, requests wait for
    /// it for a minute. Writes that it answered and had not flushed may be lost then, and
    /// everything fails until the volume is mounted again.
    #[arg(long, short = 'b', value_name = "FILE|DEVICE|memory|nbd://…")]
    pub backing: String,
    /// Read and write a file in the page cache
    ///
    /// What a client has flushed is durable all the same. Speed is then the memory's, and a model's
    /// time is kept only where the cache is as fast.
    #[arg(long)]
    pub page_cache: bool,
    /// Most memory for a volume in memory [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_max: Option<u64>,
    /// What device it behaves like: ssd-a, ssd-b, ssd-c, ssd-d, hdd, a file, or `raw` for none
    #[arg(long, short = 'd', default_value = "raw", value_name = "MODEL|FILE.toml|raw")]
    pub device: String,
    /// Seed of what is random in the model
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Order of the requests that wait: noop, deadline, cfq, afq, rcp, sfq or quanta
    #[arg(long, default_value = "noop")]
    pub scheduler: String,
    /// Layers; may be given several times
    #[arg(long, short = 'l', value_name = "LAYER", value_parser = layer)]
    pub layer: Vec<String>,
    /// Bytes of a sector: 512, 1024, 2048 or 4096
    #[arg(long, default_value_t = 512, value_name = "BYTES")]
    pub block: u32,
    /// File system made at the first mount
    #[arg(long, value_enum, default_value = "ext4", conflicts_with = "raw")]
    pub fs: FsArg,
    /// No file system: the device alone
    #[arg(long)]
    pub raw: bool,
    /// The kernel's own scheduler above the volume's queue
    #[arg(long, default_value = "none", value_name = "NAME", value_parser = ["none", "mq-deadline", "kyber", "bfq"])]
    pub kernel_scheduler: String,
    /// Requests that the kernel sends to the volume at a time [default: 128, with a scheduler 32]
    ///
    /// The volume's own queue chooses among these, the kernel's scheduler among those that wait.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(4..=128))]
    pub kernel_requests: Option<u32>,
    /// Latency of reads that the kernel's writeback throttle aims at, in microseconds; 0: no
    /// throttle [default: the kernel's]
    #[arg(long, value_name = "MICROSECONDS")]
    pub kernel_throttle: Option<u32>,
}

/// Arguments of `volume mount`.
#[derive(Debug, Args)]
pub struct Mount {
    /// Name of the volume
    pub name: String,
    /// Where the file system goes; not for a volume without one
    pub dir: Option<PathBuf>,
    /// Make a new file system, whatever the volume holds
    #[arg(long)]
    pub format: bool,
    /// Instance whose scheduler (`headworks run --io`) tells whose the writes are that reach the
    /// volume's queue, and whether clients wait for them; it may be started later
    #[arg(long, value_name = "INSTANCE")]
    pub io: Option<String>,
}

/// Arguments of `volume umount`.
#[derive(Debug, Args)]
pub struct Umount {
    /// Name of the volume
    pub name: String,
}

/// For people or machines.
#[derive(Debug, Args)]
pub struct Json {
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `volume stat`.
#[derive(Debug, Args)]
pub struct Stat {
    /// Name of the volume
    pub name: String,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `volume rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// Name of the volume
    pub name: String,
    /// Delete its backing file too
    #[arg(long)]
    pub with_backing: bool,
}

/// Arguments of `volume powercut`.
#[derive(Debug, Args)]
pub struct Powercut {
    /// Name of the volume
    pub name: String,
    /// Wait so long first
    #[arg(long, value_name = "SECONDS", conflicts_with = "restore")]
    pub after: Option<f64>,
    /// Wait for a random time of up to so long first
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["after", "restore"])]
    pub within: Option<f64>,
    /// Decides the random time
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give the power back
    #[arg(long)]
    pub restore: bool,
}

/// Arguments of `volume replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Name of the volume
    pub name: String,
    /// Trace of a `record` layer
    pub trace: PathBuf,
    /// Times as fast as recorded
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", conflicts_with = "depth")]
    pub speed: f64,
    /// Not at the recorded times: so many requests at a time, in their order
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: Option<u32>,
    /// Let the trace's writes destroy what the volume holds
    #[arg(long)]
    pub overwrite: bool,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// Flash
    Ssd,
    /// A disk: its seeks are measured
    Hdd,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    if (0.05..=600.0).contains(&value) { Ok(value) } else { Err("0.05 to 600 seconds".to_owned()) }
}

/// Arguments of `volume calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    headworks volume calibrate /var/lib/mysql --out mine.toml\n  \
    headworks volume calibrate /dev/sdx --destroy --out disk.toml\n  \
    headworks volume create like-it --size 10G --backing memory --device mine.toml")]
pub struct Calibrate {
    /// A directory, a file or a block device
    #[arg(value_name = "DIRECTORY|FILE|DEVICE")]
    pub target: PathBuf,
    /// Device file to write [default: shown]
    #[arg(long, short = 'o', value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// Time of each measurement
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// Size of the file that is made; more than the drive's cache
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = size)]
    pub size: u64,
    /// What it is, if the kernel does not know
    #[arg(long, value_enum)]
    pub kind: Option<DeviceKind>,
    /// Commands that the device takes at a time, which cannot be measured
    #[arg(long, default_value_t = 32, value_name = "COMMANDS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub queue_depth: u32,
    /// Revolutions a minute of a disk
    #[arg(long)]
    pub rpm: Option<f64>,
    /// Overwrite what the device or the file holds
    #[arg(long)]
    pub destroy: bool,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `volume doctor`.
#[derive(Debug, Args)]
pub struct VolumeDoctor {
    /// Say what would be cleaned up, and leave it
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `volume serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Name of the volume
    pub name: String,
    /// Over NBD instead of as a block device of this kernel; needs no root
    #[arg(long, value_name = "unix:PATH|tcp:HOST:PORT", conflicts_with = "ready_fd")]
    pub nbd: Option<String>,
    /// As `volume mount --io`
    #[arg(long, value_name = "INSTANCE", conflicts_with = "nbd")]
    pub io: Option<String>,
    /// Descriptor that gets a line once the device is there
    #[arg(long, hide = true)]
    pub ready_fd: Option<i32>,
}
