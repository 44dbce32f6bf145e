//! `headworks hbase`.

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};
use headworks_console::Ink;
use headworks_controller::hbase::doctor::{self, State};
use headworks_controller::hbase::edit::{self, Change, Place};
use headworks_controller::hbase::figures::{self, Page};
use headworks_controller::hbase::site::Site;
use headworks_controller::hbase::{enforced, metrics, settings, show};
use headworks_store::metrics::Metrics;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Puts tenants' shares into a stock HBase on HDFS
///
/// HBase's and Hadoop's own jars stay as they are: the plug-in is a jar on the class path, the
/// agent an option of the JVM. Both are files that have to be on every node. What this command
/// changes is configuration, which has to be carried to all nodes as ever; then servers are
/// restarted one by one.
#[derive(Debug, Parser)]
#[command(name = "headworks-hbase", bin_name = "headworks hbase", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write our settings into a configuration
    Enable(Enable),
    /// Take them out again: every file is as it was
    Disable(Disable),
    /// Say for each node, table, tenant and stage what is enforced, and what is not
    Doctor(Conf),
    /// Show stages, queues and what each tenant has, again and again
    Top(Top),
    /// Give the figures of all nodes to Prometheus
    Metrics(Scrape),
    /// Write a board for Grafana that shows these figures: JSON to import there
    Board,
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

#[derive(Clone, Debug, Args)]
struct Conf {
    /// HBase's configuration
    #[arg(long, value_name = "DIR")]
    conf: PathBuf,
    /// Hadoop's configuration, for DataNodes
    #[arg(long, value_name = "DIR")]
    hadoop_conf: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Enable {
    #[command(flatten)]
    conf: Conf,
    /// Where the two jars are, on every node
    #[arg(long, value_name = "DIR", default_value = "/usr/local/lib/headworks")]
    jars: PathBuf,
    /// A setting of ours, for example headworks.weights="alice=4, batch=0.5"
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Where controllers are, several with commas
    #[arg(long, value_name = "HOST:PORT,…")]
    controller: Option<String>,
    /// A setting that goes. All others of an earlier time stay
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Only say what would be changed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Disable {
    #[command(flatten)]
    conf: Conf,
    /// Only say what would be changed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct Top {
    #[command(flatten)]
    conf: Conf,
    /// Seconds between two pictures
    #[arg(long, short = 'd', default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    delay: Duration,
    /// End after so many pictures
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// All counters since each node's start, for machines: one picture
    #[arg(long, conflicts_with_all = ["delay", "count"])]
    json: bool,
}

#[derive(Debug, Args)]
struct Scrape {
    #[command(flatten)]
    conf: Conf,
    /// Answer scrapes there, until it is killed. Default: write one scrape to the output
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "enable",
        &[
            "headworks hbase enable --conf /etc/hbase/conf --hadoop-conf /etc/hadoop/conf --dry-run",
            "headworks hbase enable --conf /etc/hbase/conf --set headworks.weights='alice=4, batch=0.5'",
        ],
    ),
    ("disable", &["headworks hbase disable --conf /etc/hbase/conf --hadoop-conf /etc/hadoop/conf"]),
    ("doctor", &["headworks hbase doctor --conf /etc/hbase/conf --hadoop-conf /etc/hadoop/conf"]),
    (
        "top",
        &[
            "headworks hbase top --conf /etc/hbase/conf --hadoop-conf /etc/hadoop/conf",
            "headworks hbase top --conf /etc/hbase/conf --json",
        ],
    ),
    (
        "metrics",
        &[
            "headworks hbase metrics --conf /etc/hbase/conf --listen 127.0.0.1:9477",
            "headworks hbase metrics --conf /etc/hbase/conf > hbase.prom",
        ],
    ),
    ("board", &["headworks hbase board > board.json"]),
];

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if name.starts_with(settings::OURS) => {
            settings::check(name, value)?;
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => {
            Err("write headworks.NAME=VALUE: other settings of HBase are not ours to change"
                .to_owned())
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    match seconds {
        0.1..=3_600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("from 0.1 s to an hour".to_owned()),
    }
}

fn main() -> ExitCode {
    headworks_console::main(|| run(headworks_console::parse::<Cli>(EXAMPLES).command))
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Enable(args) => {
            let mut set = args.settings.clone();
            set.extend(
                args.controller.iter().map(|at| (settings::CONTROLLER.to_owned(), at.clone())),
            );
            let place = Place {
                conf: args.conf.conf.clone(),
                hadoop_conf: args.conf.hadoop_conf.clone(),
                jars: args.jars.clone(),
                settings: set,
                unset: args.unset.clone(),
            };
            let changes = edit::enable(&place)?;
            make(&changes, args.dry_run)?;
            notes(&args.conf, &changes)?;
        }
        Command::Disable(args) => {
            make(&edit::disable(&args.conf.conf, args.conf.hadoop_conf.as_deref())?, args.dry_run)?;
        }
        Command::Doctor(conf) => return examine(&conf),
        Command::Top(args) => top(&args)?,
        Command::Metrics(args) => scrape(&args)?,
        Command::Board => print!("{}", metrics::BOARD),
        Command::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), EXAMPLES);
            headworks_console::man::write(command, &args, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn make(changes: &[Change], dry_run: bool) -> Result<()> {
    if changes.is_empty() {
        println!("nothing is to be changed");
        return Ok(());
    }
    print!("{}", edit::words(changes));
    if !dry_run {
        edit::apply(changes)?;
        println!(
            "copy both jars to every node of HBase and HDFS first, masters too: HBase does not start with this configuration and without the plug-in's jar\n\
             then carry these files to all nodes, and restart masters, region servers and DataNodes one by one"
        );
    }
    Ok(())
}

/// What keeps what was written from having an effect.
fn notes(conf: &Conf, changes: &[Change]) -> Result<()> {
    let path = conf.conf.join("hbase-site.xml");
    let written = changes.iter().find(|change| change.path == path);
    let site = match written.and_then(|change| change.after.as_deref()) {
        Some(text) => Site::parse(text)?,
        None => conf.site()?,
    };
    for finding in doctor::configuration(&site) {
        if finding.state != State::Ok {
            eprintln!("{}", finding.line());
        }
    }
    Ok(())
}

impl Conf {
    /// The settings of HBase.
    fn site(&self) -> Result<Site> {
        let path = self.conf.join("hbase-site.xml");
        if !path.is_file() {
            bail!("{} is not there\n  name HBase's configuration: --conf DIR", path.display());
        }
        Site::load(&path)
    }

    /// The nodes to ask.
    fn pages(&self) -> Result<Vec<Page>> {
        self.site()?;
        let pages = figures::pages(&self.conf, self.hadoop_conf.as_deref())?;
        if pages.is_empty() {
            bail!(
                "{} names no region server\n  write a host's name into it, a line each",
                self.conf.join("regionservers").display()
            );
        }
        Ok(pages)
    }
}

fn top(args: &Top) -> Result<()> {
    let pages = args.conf.pages()?;
    let mut before = show::look(&pages);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&before)?);
        return Ok(());
    }
    let mut shown = 0;
    while args.count.is_none_or(|count| shown < count) {
        std::thread::sleep(args.delay);
        let now = show::look(&pages);
        let mut out = std::io::stdout().lock();
        let (clear, width) = match out.is_terminal() {
            true => ("\x1b[H\x1b[2J", headworks_console::terminal_width()),
            false => ("", usize::MAX),
        };
        writeln!(out, "{clear}{}", show::text(&before, &now, width, Ink { color: false }))?;
        before = now;
        shown += 1;
    }
    Ok(())
}

fn scrape(args: &Scrape) -> Result<()> {
    let pages = args.conf.pages()?;
    let Some(listen) = args.listen else {
        print!("{}", metrics::text(&show::look(&pages)));
        return Ok(());
    };
    let server = Metrics::start(listen, move || metrics::text(&show::look(&pages)))
        .with_context(|| format!("cannot listen at {listen}"))?;
    println!("http://{}/metrics", server.address());
    loop {
        std::thread::park();
    }
}

fn examine(conf: &Conf) -> Result<ExitCode> {
    let mut findings = doctor::configuration(&conf.site()?);
    let mut nodes = Vec::new();
    let pages = figures::pages(&conf.conf, conf.hadoop_conf.as_deref())?;
    findings.extend(doctor::unlisted(&pages, conf.hadoop_conf.is_some()));
    if let Some(hadoop) = &conf.hadoop_conf {
        findings.push(doctor::name_node(&Site::load(&hadoop.join("core-site.xml"))?));
    }
    findings.extend(doctor::masters(&figures::masters(&conf.conf)?));
    for page in pages {
        let (node, found) = doctor::node(&page);
        findings.extend(found);
        nodes.push((page, node));
    }
    for finding in &findings {
        println!("{}", finding.line());
    }
    print!("{}", enforced::enforced(&nodes));
    let wrong = findings.iter().any(|finding| finding.state == State::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_that_can_be_waited_is_taken() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["nan", "inf", "-1", "0", "4000", "soon"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
