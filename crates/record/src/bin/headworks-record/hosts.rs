//! `record --hosts`: the same command on other machines, at the same time.

use crate::cli::Record;
use anyhow::{Context, Result, bail};
use headworks_record::trace::Trace;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

/// A recording on another machine. It ends after the time that was asked for.
pub struct Remote {
    host: String,
    child: Child,
}

/// Starts the recorder on each machine.
pub fn start(args: &Record) -> Result<Vec<Remote>> {
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for each in &args.hosts {
        let numbered = each.rsplit_once(':').filter(|(_, pid)| pid.parse::<u32>().is_ok());
        let (host, pid) = numbered.map_or((each.as_str(), None), |(host, pid)| (host, Some(pid)));
        hosts.entry(host).or_default().extend(pid);
    }
    hosts
        .into_iter()
        .map(|(host, pids)| {
            if pids.is_empty() && args.cgroup.is_none() {
                bail!(
                    "nothing to record on {host}: name its processes, as in --hosts {host}:4711, or add \
                     --cgroup DIR, which is looked for on each host"
                );
            }
            let child = command(args, host, &pids).spawn();
            let child = child.with_context(|| format!("cannot start `{}`", args.shell))?;
            Ok(Remote { host: host.to_owned(), child })
        })
        .collect()
}

fn command(args: &Record, host: &str, pids: &[&str]) -> Command {
    let mut words = args.shell.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("ssh"));
    command.args(words).args([host, "headworks", "tad", "record", "--send", "-o", "/dev/null"]);
    command.arg("--for").arg(format!("{}ms", args.length.as_millis()));
    command.arg("--budget").arg(format!("{}%", args.budget * 100.0));
    if !pids.is_empty() {
        command.arg("--pid").arg(pids.join(","));
    }
    if let Some(cgroup) = args.cgroup.as_ref().filter(|_| pids.is_empty()) {
        command.arg("--cgroup").arg(cgroup);
    }
    for (set, option) in [
        (args.follow, "--follow"),
        (args.no_attach, "--no-attach"),
        (args.jfr, "--jfr"),
        (args.no_probes, "--no-probes"),
        (args.proc, "--proc"),
    ] {
        if set {
            command.arg(option);
        }
    }
    // Ctrl-C ends the recording here. There it ends in time, and what it saw arrives.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Remote {
    /// What was recorded there.
    pub fn end(self, args: &Record) -> Result<Trace> {
        let host = &self.host;
        let Output { status, stdout, stderr } = self.child.wait_with_output()?;
        let said = String::from_utf8_lossy(&stderr);
        let trace = Trace::read(&stdout[..]);
        match trace {
            Ok(mut trace) if status.success() => {
                trace.head.host.clone_from(host);
                Ok(trace)
            }
            _ => bail!(
                "cannot record on {host}: {}\n  is Headworks installed there, and may you? try: \
                 {} {host} headworks tad record --help",
                said.lines().last().unwrap_or("it said nothing").trim_start_matches("headworks: "),
                args.shell
            ),
        }
    }
}
