//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Record a running system: its thread architecture diagram, without annotations
#[derive(Debug, Parser)]
#[command(name = "headworks-record", bin_name = "headworks tad", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: RecordCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Record processes, and write their diagram
    Record(Box<Record>),
    /// Make a diagram of recordings that `record --raw` kept
    Analyse(Analyse),
    /// Find which wait limits throughput, and what a change of it would gain
    Limits(Limits),
    /// Tell what differs between two diagrams or recordings
    Diff(Diff),
    /// Draw where threads wait, by stage (off-CPU flame graph)
    Flame(Flame),
    /// Watch a running system: its stages, what they wait for, and what blocks what
    Watch(Watch),
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

/// Where the results go.
#[derive(Debug, Args)]
pub struct Output {
    /// The diagram
    #[arg(long, short = 'o', value_name = "FILE.toml")]
    pub output: PathBuf,
    /// Name of the system in the diagram (default: that of the file)
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A load like the recorded one, for `headworks tad simulate`
    #[arg(long, value_name = "FILE.toml")]
    pub scenario: Option<PathBuf>,
    /// File that renames stages, or makes several into one
    #[arg(long, value_name = "FILE.toml")]
    pub hints: Option<PathBuf>,
    /// The report for machines, with all numbers
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tad record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    headworks tad record --pid $(pidof mariadbd) --for 30s -o mariadb.toml\n  \
    headworks tad record --pid 4711,4712 --follow --raw run.ndjson -o hbase.toml --scenario load.toml\n  \
    headworks tad record --for 10s -o mine.toml -- ./my-server --port 8080\n  \
    headworks tad record --hosts root@db1,root@db2 --cgroup /sys/fs/cgroup/system.slice/mariadb.service -o all.toml\n\n\
    Then:\n  \
    headworks tad check mine.toml\n  \
    headworks tad render mine.toml -o mine.svg\n  \
    headworks tad simulate mine.toml --scenario load.toml\n\n\
    It takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. Without these it samples /proc: the\n\
    same files, without arrows. Give the system its load while you record: what is not used is not\n\
    seen. About 300 requests of each kind suffice.\n\n\
    Exit code: 0 a diagram was written, 1 nothing could be recorded.")]
pub struct Record {
    /// Processes to record
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Control group whose processes to record (a folder below /sys/fs/cgroup)
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Record children of these processes, too (PostgreSQL)
    #[arg(long)]
    pub follow: bool,
    /// Other machines to record at the same time: HOST with --cgroup, or HOST:PID for each process.
    /// Headworks is installed there
    #[arg(long, value_name = "HOST[:PID]", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// How a command is run on another machine: what is before its name
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hosts")]
    pub shell: String,
    /// Write the recording to the standard output, and no diagram
    #[arg(long, hide = true)]
    pub send: bool,
    /// How long: 30s, 5m, 1500ms
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = length)]
    pub length: Duration,
    /// Part of the processors that recording may take. Less is counted then, not more spent
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    pub budget: f64,
    /// Keep the recording, to analyse it later: sums, without data of requests
    #[arg(long, value_name = "FILE.ndjson")]
    pub raw: Option<PathBuf>,
    /// Keep copies of stacks in that file, to unwind again. They may hold data of requests
    #[arg(long, requires = "raw")]
    pub keep_stacks: bool,
    /// Most bytes of that file, and of a time line
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub limit: u64,
    /// Agent that counts hand-overs in Java virtual machines meanwhile, and leaves again
    #[arg(long, value_name = "FILE.jar", conflicts_with = "no_attach")]
    pub agent: Option<PathBuf>,
    /// Ask Java virtual machines' flight recorders for the classes of what threads wait on. A
    /// machine whose flight recorder is in use is left alone
    #[arg(long, conflicts_with = "no_attach")]
    pub jfr: bool,
    /// Stop threads for 5 ms at a time, to confirm that other stages wait for them. It slows the
    /// system for up to 7 s after the recording
    #[arg(long)]
    pub inject: bool,
    /// Do not probe calls that take a lock. Where a stage looks for its work itself, that is done
    /// for 0.2 s or 20,000 calls, to see whom its work comes from
    #[arg(long)]
    pub no_probes: bool,
    /// The time line of each thread, for https://ui.perfetto.dev
    #[arg(long, value_name = "FILE.json")]
    pub timeline: Option<PathBuf>,
    /// Do not ask Java virtual machines for names of threads and methods (by the protocol of jcmd)
    #[arg(long)]
    pub no_attach: bool,
    /// Sample /proc only, although eBPF could be used
    #[arg(long)]
    pub proc: bool,
    /// Results
    #[command(flatten)]
    pub results: Output,
    /// A command to start and record. It is ended with the recording
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `tad analyse`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  headworks tad analyse run.ndjson -o mine.toml --hints hints.toml\n  \
    headworks tad analyse run.ndjson -o mine.toml --json > report.json\n  \
    headworks tad analyse web.ndjson db.ndjson -o both.toml   # two machines, at the same time"
)]
pub struct Analyse {
    /// Recordings: one, or one of each machine
    #[arg(value_name = "FILE.ndjson", required = true)]
    pub files: Vec<PathBuf>,
    /// Results
    #[command(flatten)]
    pub results: Output,
}

/// Arguments of `tad limits`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad limits run.ndjson\n  \
    headworks tad limits mine.toml --scenario load.toml --json\n\n\
    Each pool, lock and device is made twice as good in the simulator, one at a time. What gains\n\
    most is first. Of a recording, the load is the recorded one.")]
pub struct Limits {
    /// Recording, or a diagram with --scenario
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Load of a diagram
    #[arg(long, value_name = "FILE.toml")]
    pub scenario: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tad diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad diff before.ndjson after.ndjson\n  \
    headworks tad diff mine-1.toml mine-2.toml --json\n\n\
    Exit code: 0 they are the same, 1 they differ.")]
pub struct Diff {
    /// Diagram or recording
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The other
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tad flame`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad flame run.ndjson -o waits.svg\n  \
    headworks tad flame run.ndjson -o waits.folded --all")]
pub struct Flame {
    /// Recording
    #[arg(value_name = "FILE.ndjson")]
    pub file: PathBuf,
    /// Picture (.svg), or stacks with their microseconds, a line each
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Waits for the next request and for nothing known, too
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `tad watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad watch --pid $(pidof mariadbd)\n  \
    headworks tad watch --pid 4711 --every 5s --times 1\n\n\
    Ctrl-C ends it.")]
pub struct Watch {
    /// Processes to watch
    #[arg(long, value_name = "PID", value_delimiter = ',', required = true)]
    pub pid: Vec<u32>,
    /// Their children, too
    #[arg(long)]
    pub follow: bool,
    /// Length of a look
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = length)]
    pub every: Duration,
    /// Looks; without, until Ctrl-C
    #[arg(long, value_name = "N")]
    pub times: Option<u32>,
    /// Part of the processors that it may take
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    pub budget: f64,
}

/// Examples of the commands that have none of their own.
pub const EXAMPLES: &[(&str, &[&str])] = &[];

/// `30s`, `5m`, `1500ms`
fn length(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| format!("`{text}` is no time"))?;
    let seconds = match &text[digits..] {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3_600.0,
        unit => return Err(format!("`{unit}` is no unit of time: write ms, s, m or h")),
    };
    if (0.05..=360_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write a time from 50ms to 100h".to_owned())
    }
}

/// `1%`
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is no percentage"))?;
    if (0.01..=100.0).contains(&number) {
        Ok(number / 100.0)
    } else {
        Err("write a percentage from 0.01% to 100%".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example_that_names_it() {
        let faults = headworks_console::faults(super::Cli::command(), "tad", super::EXAMPLES);
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn times_and_percentages_are_read() {
        assert_eq!(length("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(length("1500ms"), Ok(Duration::from_millis(1_500)));
        assert!(length("3 weeks").is_err() && length("0s").is_err() && length("").is_err());
        assert_eq!(percent("1%"), Ok(0.01));
        assert!(percent("0%").is_err() && percent("x").is_err());
    }
}
