//! `headworks tad`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Thread architecture diagrams: draw, check, simulate and repair a system before it is built
///
/// A diagram shows where a system's threads, queues and resources are. It is checked for eight
/// problems that prevent scheduling. Remedies are tried in a simulator, and the cheapest ones that
/// reach a goal are searched for. A system is a TOML file, or the name of a built-in one
/// (`headworks tad list`).
#[derive(Debug, Parser)]
#[command(name = "headworks-tad", bin_name = "headworks tad", version)]
#[command(after_help = "Examples:\n  \
    headworks tad list                                    # built-in systems and scenarios\n  \
    headworks tad check hbase                             # what keeps HBase from being scheduled\n  \
    headworks tad render hbase -o hbase.svg --highlight put\n  \
    headworks tad simulate hbase --scenario hbase-isolation --maat 'd|?|?|?|?'\n  \
    headworks tad fix hbase --scenario hbase-isolation --goal isolate:C1:20% --own\n  \
    headworks tad show riak > mine.toml                   # a file to start from\n  \
    headworks tad record --pid 4711 -o mine.toml          # or record a running system\n\n\
    All keys of a file:  headworks tad explain files  (docs/diagram-files.md)\n\n\
    Exit code: 0 all is well, 1 something was found or could not be done, 2 a file or a name is wrong.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: TadCommand,
}

/// What to do with a diagram.
#[derive(Debug, Subcommand)]
pub enum TadCommand {
    /// Name the built-in systems and scenarios
    List(List),
    /// Print the file of a built-in system or scenario, to copy and change it
    Show(Show),
    /// Draw a system as SVG, in the notation of thread architecture diagrams
    Render(Render),
    /// Find what keeps a scheduler from its work, and what can be done about it
    Check(Check),
    /// Explain one of the problems, or the keys of a file
    Explain(Explain),
    /// Let clients use a system and see who gets what
    Simulate(Simulate),
    /// Search for the cheapest remedies that reach a goal
    Fix(Fix),
    /// Search for systems that the checks call clean and that are not fair all the same
    SearchGaps(Gaps),
    /// Record a running system's diagram (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad record --pid 4711 --for 30s -o mine.toml")]
    Record,
    /// Make a diagram of a recording (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad analyse mine.ndjson -o mine.toml")]
    Analyse,
    /// Find which wait limits throughput (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad limits mine.ndjson")]
    Limits,
    /// Tell what differs between two diagrams or recordings (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad diff before.ndjson after.ndjson")]
    Diff,
    /// Draw where threads wait, by stage (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad flame mine.ndjson -o waits.svg")]
    Flame,
    /// Watch a running system's stages and waits (the program headworks-record)
    #[command(after_help = "Examples:\n  headworks tad watch --pid 4711")]
    Watch,
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

/// How a system is changed before it is analysed.
#[derive(Debug, Args)]
pub struct Remedies {
    /// Remedies of the system's file to apply, one letter for each problem (S, E and H may follow)
    #[arg(long, value_name = "N|U|C|B|O")]
    pub maat: Option<String>,
    /// Another remedy to apply, as `tad check` and `tad fix` print it; may be given several times
    #[arg(long, value_name = "{ do = … }")]
    pub remedy: Vec<String>,
}

/// Arguments of `tad list`.
#[derive(Debug, Args)]
pub struct List {
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tad show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad show hbase > mine.toml\n  \
    headworks tad show hbase-isolation > mine-isolation.toml")]
pub struct Show {
    /// Name of a system or a scenario
    pub name: String,
}

/// Colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThemeArg {
    /// Dark on white
    Light,
    /// Light on dark
    Dark,
    /// What the reader of the picture prefers
    Auto,
}

/// Arguments of `tad render`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad render hbase -o hbase.svg\n  \
    headworks tad render mine.toml -o mine.svg --theme dark --highlight put\n  \
    headworks tad render hbase --maat 'd|i|di|i2|i' -o hbase-maat.svg")]
pub struct Render {
    /// System: a file, or a name from `headworks tad list`
    #[arg(value_name = "FILE|NAME")]
    pub system: String,
    /// Where the picture goes
    #[arg(long, short = 'o', value_name = "FILE.svg")]
    pub output: PathBuf,
    /// Colours
    #[arg(long, value_enum, default_value = "auto")]
    pub theme: ThemeArg,
    /// Draw the path of this request strong, the rest faded
    #[arg(long, value_name = "REQUEST")]
    pub highlight: Option<String>,
    /// Leave out the letters of the problems
    #[arg(long)]
    pub no_check: bool,
    /// How the system is changed first
    #[command(flatten)]
    pub remedies: Remedies,
}

/// Arguments of `tad check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad check hbase\n  \
    headworks tad check --table hbase mongodb cassandra riak     # Table 4.5\n  \
    headworks tad check mine.toml --json\n\n\
    Exit code: 0 no problem that nothing mitigates, 1 there is one, 2 a file is wrong.")]
pub struct Check {
    /// Systems: files, or names from `headworks tad list`
    #[arg(required = true, value_name = "FILE|NAME")]
    pub systems: Vec<String>,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// One line for each system: which of the problems it has
    #[arg(long, conflicts_with = "json")]
    pub table: bool,
    /// How the system is changed first
    #[command(flatten)]
    pub remedies: Remedies,
}

/// Arguments of `tad explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  headworks tad explain blocking\n  headworks tad explain C\n  headworks tad explain files"
)]
pub struct Explain {
    /// Problem, by name or by letter: no-scheduling (N), unknown-usage (U), hidden-contention (C),
    /// blocking (B), ordering-constraint (O), surplus-threads (S), service-to-end (E),
    /// held-threads (H); or `files` for all keys of a system's and a scenario's file
    pub problem: String,
}

/// Arguments of `tad simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    headworks tad simulate hbase --scenario hbase-isolation\n  \
    headworks tad simulate hbase --scenario hbase-isolation --maat 'd|?|?|?|?' --seeds 5\n  \
    headworks tad simulate hbase -s hbase-puts --remedy '{ do = \"unblock\", stage = \"rpc-handle\" }'\n  \
    headworks tad simulate hbase -s hbase-isolation --sweep C2.threads=40..640/4 --seeds 5\n  \
    headworks tad simulate mine.toml --scenario mine-scenario.toml --policy fifo -o out/mine\n\n\
    --maat has one letter for each problem, in the order\n  \
    no scheduling | unknown usage | hidden contention | blocking | ordering constraint\n  \
    and after them, if you like, more threads than servers | service to the end | held threads.\n\
    A letter is one of the system's own ([remedy.<problem>.<letter>] in its file); ? leaves it.")]
pub struct Simulate {
    /// System: a file, or a name from `headworks tad list`
    #[arg(value_name = "FILE|NAME")]
    pub system: String,
    /// Scenario: a file, or a name from `headworks tad list`
    #[arg(long, short = 's', value_name = "FILE|NAME")]
    pub scenario: String,
    /// How the system is changed first
    #[command(flatten)]
    pub remedies: Remedies,
    /// Policy in every queue that takes one, instead of the scenario's
    #[arg(long, value_name = "POLICY", value_parser = ["fifo", "priority", "drf", "drr", "stride"])]
    pub policy: Option<String>,
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs, each with another seed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Run with several values of a load's rate, its threads or a parameter of its request
    #[arg(long, value_name = "[CLIENT.]KEY=FROM..TO[/N]", conflicts_with = "output")]
    pub sweep: Option<String>,
    /// Directory for result.json and pictures of the time series
    #[arg(long, short = 'o', value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Arguments of `tad fix`.
#[derive(Debug, Args)]
#[command(after_help = "Goals (several must hold together):\n  \
    isolate:C1:10%    whatever the others do, C1 gets at least 90 % of what the system as it is\n                    \
    gives it at their base load, or of what a machine of its share would give it\n                    \
    if that is less: on the mean, in the worst half second, and at the tail (p99)\n  \
    p99:C1:50ms       the 99th percentile of C1's latency is at most 50 ms\n  \
    fair:10%          throughput follows the weights, within 10 %, and is as steady as before\n  \
    drf:10%           dominant shares follow the weights, within 10 %, and are as steady\n\n\
    Each set of remedies is tried with the scenario as it begins, as it ends, and with the others'\n\
    threads times two and four; then as it is written, and with every seed. What fails once is\n\
    dropped, and so is what makes worse off whom the goals are for (with fair and drf: the client
\
     that gets the least of its due as it is) in any of these runs.\n\n\
    Ctrl-C ends a search and prints what it has found.\n\n\
    Examples:\n  \
    headworks tad fix hbase --scenario hbase-isolation --goal isolate:C1:20% --own\n  \
    headworks tad fix hbase --scenario hbase-puts --goal isolate:C1:15% --goal p99:C1:200ms --own\n  \
    headworks tad fix mine.toml --scenario mine-load.toml --goal fair:10% --cost direct=5 --json\n\n\
    Exit code: 0 a set was found, 1 none was, 2 a file or a goal is wrong, 130 Ctrl-C ended it.")]
pub struct Fix {
    /// System: a file, or a name from `headworks tad list`
    #[arg(value_name = "FILE|NAME")]
    pub system: String,
    /// Scenarios: files, or names from `headworks tad list`; the goals must hold in each
    #[arg(long, short = 's', required = true, value_name = "FILE|NAME")]
    pub scenario: Vec<String>,
    /// What must hold
    #[arg(long, short = 'g', required = true, value_name = "GOAL")]
    pub goal: Vec<String>,
    /// Seeds that a set must pass
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// Engineering costs: indirect=1, direct=3 for each process that a remedy touches
    #[arg(long, value_name = "KIND=COST")]
    pub cost: Vec<String>,
    /// Go on this much above the cost of the cheapest set, for better ones
    #[arg(long, default_value_t = 3, value_name = "COST")]
    pub slack: u32,
    /// Sets to try at most
    #[arg(long, default_value_t = 500, value_name = "N")]
    pub limit: usize,
    /// Simulated seconds of each run
    #[arg(long, default_value_t = 6, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub duration: u64,
    /// Only the remedies of the system's own file, none from the checks
    #[arg(long)]
    pub own: bool,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tad search-gaps`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  headworks tad search-gaps --seeds 2000\n  \
    headworks tad search-gaps --seeds 2000 --mended -o out/gaps\n\n\
    Makes a system at random for each seed, keeps those in which the checks find nothing, lets C2\n\
    grow and looks whether C1 keeps what it is entitled to, with fair queueing everywhere. What\n\
    fails is made as small as possible, and what would cure it says why.")]
pub struct Gaps {
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Systems to make
    #[arg(long, default_value_t = 500, value_name = "N")]
    pub seeds: u32,
    /// Loss of throughput that counts as a failure
    #[arg(long, default_value = "15%", value_name = "PERCENT")]
    pub loss: String,
    /// Causes that are known: they are cured beforehand, so that others come to light
    #[arg(long, value_name = "CAUSE", value_delimiter = ',', value_parser = [
        "held-threads", "crowd", "not-preemptive", "crowd-and-not-preemptive",
        "held-threads-and-service", "absent-client",
    ])]
    pub without: Vec<String>,
    /// Do first what the checks advise, until they find nothing
    #[arg(long)]
    pub mended: bool,
    /// Directory for the systems and scenarios that were found, as files
    #[arg(long, short = 'o', value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Examples of the commands that have none of their own.
pub const EXAMPLES: &[(&str, &[&str])] = &[("list", &["headworks tad list"])];

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example_that_names_it() {
        let faults = headworks_console::faults(super::Cli::command(), "tad", super::EXAMPLES);
        assert!(faults.is_empty(), "{faults:?}");
    }
}
