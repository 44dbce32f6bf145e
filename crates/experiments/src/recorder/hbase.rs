//! HBase on HDFS as processes of their own, in both configurations: what is found of the
//! dissertation's Figure 3.2 without a hint, and how the recording simulates.
//!
//! `plugins/hbase` starts the cluster in a network namespace and loads it, step by step
//! (`headworks.cluster.Recorded`). The recorder runs outside of the namespace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::expected::{self, Expected};
use super::points::{self, Page};
use super::recorded::{Recorded, record};
use super::{CLIENTS, RECORDED};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::progress::Progress;
use crate::running::{Running, pause};
use crate::sweep::Claim;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::work::Work;

const ID: &str = "record-hbase";

pub(super) const EXPERIMENT: Experiment = super::experiment(
    ID,
    "HBase on HDFS, recorded under load in both configurations: Figure 3.2, and a simulation",
    (600, 300),
    &["default-jdk-headless", "maven", "iproute2", "make setup-java", "root"],
    &Steps { collect, report },
);

pub(super) const CLASSIC: &str = "classic";
pub(super) const DEFAULT: &str = "default";
const CONFIGURATIONS: [&str; 2] = [CLASSIC, DEFAULT];

/// What the loads are: the last one is for arrows, and has reads from the DataNode and flushes.
const LOADS: [&str; 4] = ["get", "put", "mix", "all"];
const ARMS: [&str; 8] = [
    "classic, get",
    "classic, put",
    "classic, mix",
    "classic, all",
    "default, get",
    "default, put",
    "default, mix",
    "default, all",
];
/// Those that are simulated, and those that are compared with the figure.
const SIMULATED: [&str; 6] = [ARMS[0], ARMS[1], ARMS[2], ARMS[4], ARMS[5], ARMS[6]];
const COMPARED_CLASSIC: &[&str] = &[ARMS[3]];
const COMPARED_DEFAULT: &[&str] = &[ARMS[7]];

/// A cluster starts, and ends.
pub(super) const AROUND: Duration = Duration::from_secs(90);
/// Until a step begins, on a machine that is busy otherwise.
const PATIENCE: Duration = Duration::from_secs(300);
/// The virtual machines compile what is used much.
pub(super) const WARM_UP_S: u64 = 15;

fn of(configuration: &str) -> &'static Expected {
    if configuration == CLASSIC { &expected::CLASSIC } else { &expected::DEFAULT }
}

fn arm(configuration: &str, load: &str) -> &'static str {
    let name = format!("{configuration}, {load}");
    ARMS.iter().find(|arm| **arm == name).expect("each has an arm")
}

/// A step of the load. Of several, the first is for warming up.
pub(super) struct Step {
    pub(super) load: &'static str,
    pub(super) clients: f64,
    pub(super) seconds: u64,
    pub(super) recorded: bool,
}

fn steps(window_s: u64, recording_s: u64) -> Vec<Step> {
    let step = |load, clients, seconds, recorded| Step { load, clients, seconds, recorded };
    let mut steps = vec![step("mix", 32.0, WARM_UP_S, false)];
    for load in LOADS {
        // Later than the recorder needs, so that the load goes on until its end.
        steps.push(step(load, RECORDED, recording_s + 10, true));
        let points = if load == "all" { &[RECORDED][..] } else { &CLIENTS[..] };
        steps.extend(points.iter().map(|&clients| step(load, clients, window_s, false)));
    }
    steps
}

fn collect(options: &RunOptions) -> Result<Record> {
    let script = Path::new("scripts/test-hbase");
    ensure!(
        script.is_file(),
        "{} is not there: experiments on HBase are run from a checkout, after make setup-java",
        script.display()
    );
    let (window_s, recording_s) = if options.quick { (2, 5) } else { (4, 25) };
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let plan = steps(window_s, recording_s);
    let each: u64 = plan.iter().map(|step| step.seconds + 3).sum();
    let one = AROUND + Duration::from_secs(each);
    let chosen = |name: &&str| options.only.as_deref().is_none_or(|only| name.contains(only));
    let configurations: Vec<&str> = CONFIGURATIONS.into_iter().filter(chosen).collect();
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, one * configurations.len() as u32);
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let work = Work::new(options, 1 << 30)?;
    let mut runs: Vec<(&str, f64, Run)> = Vec::new();
    let mut found = BTreeMap::new();
    let mut arms = Vec::new();
    for configuration in configurations {
        progress.step(configuration, one);
        let mut cluster = Cluster::start(configuration, "", &plan, &work)?;
        let place = (&*options.out.join(ID), recording_s);
        let seen = seen(&plan, cluster.drive(&plan, place, options, &progress)?);
        cluster.end(&progress)?;
        for load in LOADS {
            let (measured, recorded) = &seen[load];
            let recorded = recorded.as_ref().context("no step of a load was recorded")?;
            let judged = recorded.judge(of(configuration), &cluster.processes);
            let name = arm(configuration, load);
            if load == "all" {
                found.insert(name, judged.text());
            }
            let points: Vec<f64> = measured.keys().map(|at| f64::from(*at)).collect();
            arms.push(Arm::new(
                name,
                format!("HBase 2.6.4, Hadoop 3.4.2, {configuration}"),
                &points,
            ));
            let more = points::runs(measured, Some((recorded, judged)));
            runs.extend(more.into_iter().map(|(at, run)| (name, at, run)));
        }
    }
    let mut record = rounds.record((2.0, window_s as f64), "clients", arms, &runs);
    points::tell(&mut record, &found);
    Ok(record)
}

/// Requests a second by clients, and the recording.
type Seen = BTreeMap<&'static str, (BTreeMap<u32, f64>, Option<Recorded>)>;

fn seen(plan: &[Step], given: Vec<Given>) -> Seen {
    let mut seen = Seen::new();
    for (step, (per_s, recorded)) in plan.iter().skip(1).zip(given) {
        let (measured, kept) = seen.entry(step.load).or_default();
        if let Some(mut recorded) = recorded {
            // They share one connection, so the recording does not tell how many they are.
            recorded.drawn.know_clients(step.clients as u32);
            *kept = Some(recorded);
        } else {
            measured.insert(step.clients as u32, per_s);
        }
    }
    seen
}

/// What a step gave: requests a second, and the recording.
pub(super) type Given = (f64, Option<Recorded>);

/// A cluster under load.
pub(super) struct Cluster {
    configuration: String,
    running: Running,
    figures: PathBuf,
    pub(super) processes: BTreeMap<String, u32>,
}

impl Cluster {
    /// Starts it, with more settings: `KEY=VALUE`, with commas.
    pub(super) fn start(
        configuration: &str,
        settings: &str,
        plan: &[Step],
        work: &Work,
    ) -> Result<Self> {
        let figures = work.path().join(format!("{configuration}.figures"));
        // Another cluster may have been here.
        let _ = std::fs::remove_file(&figures);
        let steps: Vec<String> = plan
            .iter()
            .map(|step| format!("{}:{}:{}", step.load, step.clients, step.seconds))
            .collect();
        let mut command = Command::new(std::path::absolute("scripts/test-hbase")?);
        command
            .args(["-Dtest=Recorded#steps", "-Dsurefire.failIfNoSpecifiedTests=false"])
            .env("HEADWORKS_ARM", configuration)
            .env("HEADWORKS_SETTINGS", settings)
            .env("HEADWORKS_STEPS", steps.join(","))
            .env("HEADWORKS_FIGURES", &figures);
        let log = work.path().join(format!("{configuration}.log"));
        let running = Running::spawn("the cluster", command, &log)?;
        let configuration = configuration.to_owned();
        Ok(Self { configuration, running, figures, processes: BTreeMap::new() })
    }

    /// What the load said until now: words of each line.
    fn said(&self) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(&self.figures).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Waits for a line that begins so, and returns its third word.
    fn wait(&mut self, word: &str, number: usize, most: Duration) -> Result<Option<String>> {
        let begun = std::time::Instant::now();
        let number = number.to_string();
        loop {
            let mut said = self.said().into_iter();
            if let Some(line) = said.find(|line| line[0] == word && line.get(1) == Some(&number)) {
                return Ok(line.get(2).cloned());
            }
            self.running.check()?;
            if begun.elapsed() > most {
                bail!("{}: `{word} {number}` did not come in {most:?}", self.configuration);
            }
            pause(Duration::from_millis(50))?;
        }
    }

    /// Waits until a step of its load begins.
    pub(super) fn begins(&mut self, step: usize) -> Result<()> {
        self.wait("begin", step, PATIENCE)?;
        if !self.processes.is_empty() {
            return Ok(());
        }
        let lines = self.said().into_iter().filter(|line| line[0] == "process");
        let own = numbers(self.running.id());
        let process = |line: Vec<String>| {
            let inner: u32 = line[2].parse().ok()?;
            Some((line[1].clone(), *own.get(&inner)?))
        };
        self.processes = lines.filter_map(process).collect();
        ensure!(self.processes.len() == 4, "not all processes: {:?}", self.processes);
        Ok(())
    }

    /// Requests that the running step has answered, and the time of that count in seconds.
    pub(super) fn answered(&self) -> Result<(f64, f64)> {
        let text = std::fs::read_to_string(self.figures.with_extension("figures.count"))?;
        let (seconds, requests) = text.trim().split_once(' ').context("a count has two numbers")?;
        Ok((requests.parse()?, seconds.parse()?))
    }

    /// Waits until it is warm, then for each further step. Recordings last so many seconds, and go
    /// into a folder.
    pub(super) fn drive(
        &mut self,
        plan: &[Step],
        (folder, recording_s): (&Path, u64),
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Vec<Given>> {
        self.begins(0)?;
        let mut given = Vec::new();
        for (number, step) in plan.iter().enumerate().skip(1) {
            self.begins(number)?;
            let mut recorded = None;
            if step.recorded {
                let pids: Vec<u32> = self.processes.values().copied().collect();
                let name = format!("{}-{}", self.configuration, step.load);
                let length = Duration::from_secs(recording_s);
                recorded = Some(record(options, &pids, length, (folder, &name), progress)?);
            }
            let per_s = self.wait("end", number, PATIENCE)?;
            let per_s = per_s.and_then(|text| text.parse().ok()).context("a step has no rate")?;
            given.push((per_s, recorded));
        }
        Ok(given)
    }

    pub(super) fn end(&mut self, progress: &Progress) -> Result<()> {
        self.running.wait(AROUND, progress)
    }
}

/// The cluster has other process numbers: what those of a process's descendants are here.
fn numbers(ancestor: u32) -> BTreeMap<u32, u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().last()?.parse::<u32>().ok()
        };
        Some((pid, (field("PPid:")?, field("NSpid:")?)))
    };
    let known: BTreeMap<u32, (u32, u32)> = all.filter_map(of).collect();
    let descends = |pid: u32| {
        let parent = |pid: &u32| known.get(pid).map(|(parent, _)| *parent);
        std::iter::successors(Some(pid), parent).take(known.len()).any(|pid| pid == ancestor)
    };
    let own = known.iter().filter(|(pid, _)| descends(**pid));
    own.map(|(&pid, &(_, inner))| (inner, pid)).collect()
}

const CLAIMS: &[Claim] = &[
    points::all_found("classic: the stages of Figure 3.2 are found", |seed| {
        points::found(seed, COMPARED_CLASSIC, "stages")
    }),
    points::all_found("classic: the arrows of Figure 3.2 are found", |seed| {
        points::found(seed, COMPARED_CLASSIC, "arrows")
    }),
    points::all_found("classic: the five checks give the letters of Table 4.5", |seed| {
        points::found(seed, COMPARED_CLASSIC, "letters")
    }),
    points::all_found("default: the stages are found", |seed| {
        points::found(seed, COMPARED_DEFAULT, "stages")
    }),
    points::all_found("default: the arrows are found", |seed| {
        points::found(seed, COMPARED_DEFAULT, "arrows")
    }),
    points::simulates(|seed| points::off(seed, &SIMULATED)),
    points::costs(|seed| points::cost(seed, &ARMS)),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let page = Page {
        id: ID,
        about: "ZooKeeper, NameNode, DataNode, HMaster and one region server. Clients of one connection get and put rows \
                of 1 kB that are cached; mix is half and half; of all, a quarter goes to a table that is not cached and \
                is flushed after 2 MiB. With 8 clients all but ZooKeeper are recorded, with the default budget and no \
                hint.",
        arms: &ARMS,
        claims: CLAIMS,
        expected: &[("classic", &expected::CLASSIC), ("default", &expected::DEFAULT)],
    };
    points::report(&page, directory, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_tad::check::check;
    use headworks_tad::remedy::Problem;

    /// A recording, and the process of the region server.
    type Recording = (Recorded, u32);

    /// Findings at a stage of which no control takes care, of the problems that a plug-in can mend.
    fn open(recorded: &Recorded, stage: &str) -> Vec<String> {
        let wanted = [Problem::NoScheduling, Problem::UnknownUsage, Problem::Blocking];
        let all = check(&recorded.drawn.tad).into_iter();
        all.filter(|finding| !finding.mitigated() && wanted.contains(&finding.problem))
            .filter(|finding| finding.stages.iter().any(|name| name == stage))
            .map(|finding| format!("{:?}: {}", finding.problem, finding.reason))
            .collect()
    }

    /// The handlers' stage.
    fn handlers((recorded, region_server): &Recording) -> String {
        let place = recorded.found.stages.place_of[region_server];
        let mut stages = recorded.drawn.tad.stages.iter();
        let handlers = |stage: &&headworks_tad::model::Stage| {
            // The kernel keeps so many characters of a name.
            stage.process == place && stage.title.starts_with("RpcServer.defau")
        };
        stages.find(handlers).expect("they work").name.clone()
    }

    /// Records a cluster with the plug-in under the load of two tenants.
    fn recorded(configuration: &str, out: &Path) -> Result<Recording> {
        let mut options = RunOptions::new(out);
        options.headworks_exe = Some(std::path::absolute("target/debug/headworks")?);
        let step = |seconds, recorded| Step { load: "all", clients: 16.0, seconds, recorded };
        let plan = [step(10, false), step(25, true)];
        let work = Work::new(&options, 1 << 30)?;
        let progress = Progress::new(configuration, AROUND);
        let mut cluster = Cluster::start(configuration, "", &plan, &work)?;
        let mut given = cluster.drive(&plan, (out, 15), &options, &progress)?;
        cluster.end(&progress)?;
        let recorded = given.pop().and_then(|(_, recorded)| recorded);
        Ok((recorded.context("nothing was recorded")?, cluster.processes["regionserver"]))
    }

    /// `make test-long` runs it: two clusters of processes, and a recorder that needs root.
    #[test]
    #[ignore = "some minutes, root, and a cluster of HBase"]
    fn the_diagram_of_a_cured_cluster_is_clean_where_the_plug_in_schedules() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        std::env::set_current_dir(root).expect("it is there");
        let out = std::env::temp_dir().join(format!("headworks-cured-{}", std::process::id()));
        std::fs::create_dir_all(&out).expect("a directory");
        let [cured, off] = ["plug-in", "plug-in, switched off"].map(|configuration| {
            let seen = recorded(configuration, &out).unwrap_or_else(|error| panic!("{error:?}"));
            println!("{configuration}, scheduled: {:#?}", seen.0.drawn.scheduled);
            seen
        });
        let handle = format!("RPC Handle ({})", handlers(&cured));
        assert!(cured.0.drawn.scheduled.contains(&handle), "{handle}");
        for said in &cured.0.drawn.scheduled {
            let (stage, name) = said.split_once(" (").expect("stage and name");
            let open = open(&cured.0, name.trim_end_matches(')'));
            println!("{stage}: {open:#?}");
            // Handlers wake readers, since both take from one scheduler. The recorder draws that as
            // a wait for them.
            assert!(open.is_empty() || stage == "RPC Read", "{said}: {open:#?}");
        }
        let open = open(&off.0, &handlers(&off));
        println!("RPC Handle, switched off: {open:#?}");
        assert!(!open.is_empty(), "its handlers wait for files, and nothing divides them");
        assert!(!off.0.drawn.scheduled.iter().any(|said| said.starts_with("RPC Handle")));
        std::fs::remove_dir_all(&out).expect("it is ours");
    }

    #[test]
    fn processes_below_one_are_known_by_their_numbers() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = child.id();
        assert_eq!(numbers(std::process::id()).get(&pid), Some(&pid));
        assert_eq!(numbers(pid), BTreeMap::from([(pid, pid)]));
        child.kill().expect("it lives");
        child.wait().expect("it ended");
    }

    #[test]
    fn each_load_is_recorded_once_and_measured_at_each_number_of_clients() {
        let plan = steps(5, 20);
        for load in LOADS {
            let own = || plan.iter().skip(1).filter(|step| step.load == load);
            assert_eq!(own().filter(|step| step.recorded).count(), 1);
            let points = own().filter(|step| !step.recorded).count();
            assert_eq!(points, if load == "all" { 1 } else { CLIENTS.len() });
        }
        for configuration in CONFIGURATIONS {
            assert!(LOADS.iter().all(|load| ARMS.contains(&arm(configuration, load))));
        }
    }
}
