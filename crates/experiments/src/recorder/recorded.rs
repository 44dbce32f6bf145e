//! Starts the recorder as users do, reads what it wrote, and holds it against what is expected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use headworks_record::draw::{self, Drawn};
use headworks_record::hints::Hints;
use headworks_record::infer::arrows::{By, End, Meaning};
use headworks_record::infer::{Architecture, infer};
use headworks_record::trace::Trace;
use headworks_tad::check::{Finding, check};
use headworks_tad::remedy::Problem;

use super::expected::{Expected, Stage};
use crate::experiment::RunOptions;
use crate::progress::Progress;
use crate::running::Running;

/// What the recorder needs beyond the recording: to load its programs, to name functions, to
/// simulate.
const AROUND: Duration = Duration::from_secs(120);

/// A recording, and what follows from it.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    pub(super) found: Architecture,
    pub(super) drawn: Drawn,
}

/// The command for these processes, with its default budget.
pub(super) fn command(options: &RunOptions, pids: &[u32], length: Duration) -> Result<Command> {
    let mut command = Command::new(options.headworks()?);
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    command
        .args(["tad", "record", "--follow", "--json", "--pid", &pids.join(",")])
        .args(["--for", &format!("{}ms", length.as_millis())])
        .env_remove("LD_PRELOAD");
    Ok(command)
}

/// Records these processes and their children. Files go into `folder`, named after the recording.
pub(super) fn record(
    options: &RunOptions,
    pids: &[u32],
    length: Duration,
    (folder, name): (&Path, &str),
    progress: &Progress,
) -> Result<Recorded> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    let mut command = command(options, pids, length)?;
    command.arg("-o").arg(file("toml")).arg("--raw").arg(file("ndjson"));
    Running::spawn("the recorder", command, &file("log"))?.wait(length + AROUND, progress)?;
    let raw = file("ndjson");
    let open = std::fs::File::open(&raw)
        .with_context(|| format!("the recorder left no {}", raw.display()))?;
    let trace = Trace::read(std::io::BufReader::new(open))?;
    let found = infer(&trace, &Hints::default());
    let mut drawn = draw::draw(&trace, &found, name);
    drawn.calibrate();
    Ok(Recorded { trace, found, drawn })
}

impl Recorded {
    /// What recording took, and what of the time it saw.
    pub(super) fn costs(&self) -> BTreeMap<String, f64> {
        let head = &self.trace.head;
        let cpu: Vec<(f64, bool)> = self
            .found
            .facts
            .iter()
            .zip(&self.found.stages.stages)
            .map(|(facts, stage)| (facts.cpu_ns as f64, stage.null))
            .collect();
        let all: f64 = cpu.iter().map(|(ns, _)| ns).sum();
        let null: f64 = cpu.iter().filter(|(_, null)| *null).map(|(ns, _)| ns).sum();
        [
            ("kernel_percent", head.taken * 100.0),
            ("recorder_percent", head.own * 100.0),
            ("counted_percent", head.counted_s / head.seconds.max(1e-9) * 100.0),
            ("switches_per_s", head.switches_per_s),
            ("unexplained_percent", null / all.max(1.0) * 100.0),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// Requests a second, as they were recorded.
    pub(super) fn per_s(&self) -> Option<f64> {
        self.drawn.loads.iter().map(|load| load.per_s).max_by(f64::total_cmp)
    }

    /// Holds it against what is expected. `processes` has their names.
    pub(super) fn judge(&self, expected: &Expected, processes: &BTreeMap<String, u32>) -> Judged {
        let of: BTreeMap<&str, BTreeSet<usize>> = expected
            .stages
            .iter()
            .map(|stage| (stage.name, self.stages_like(stage, processes)))
            .collect();
        let mut judged = Judged::default();
        for stage in expected.stages {
            if of[stage.name].is_empty() && self.sleeps(stage, processes) {
                judged.lines.push(format!("{}: asleep all the time", stage.name));
            } else {
                judged.stage(stage.name, &of[stage.name], &self.found);
            }
        }
        for arrow in expected.arrows {
            let (from, to) = (ends(&of, arrow.from), ends(&of, arrow.to));
            let n = self.events(&from, &to, arrow.meaning());
            judged.arrow(arrow.words(), n);
        }
        judged.letters(&check(&self.drawn.tad), expected.letters);
        judged.beyond = self.beyond(expected, &of);
        judged.unseen.clone_from(&self.found.unseen);
        judged
    }

    fn stages_like(&self, wanted: &Stage, processes: &BTreeMap<String, u32>) -> BTreeSet<usize> {
        let stages = &self.found.stages;
        let place = processes.get(wanted.process).and_then(|pid| stages.place_of.get(pid));
        let requests = self.found.requests.iter();
        let entry = requests.max_by_key(|(_, n)| *n).map(|(stage, _)| *stage);
        (0..stages.stages.len())
            .filter(|&id| {
                let stage = &stages.stages[id];
                let here = wanted.process.is_empty() || Some(&stage.place) == place;
                here && wanted.called(&stage.title).unwrap_or(Some(id) == entry)
            })
            .collect()
    }

    /// Whether threads like these are there and never ran, so that nothing could be seen of them.
    fn sleeps(&self, wanted: &Stage, processes: &BTreeMap<String, u32>) -> bool {
        let pid = processes.get(wanted.process);
        let like = |text: &String| wanted.called(text) == Some(true);
        self.trace.threads.values().any(|thread| {
            let title = self.trace.processes.get(&thread.pid).map(|process| &process.title);
            pid.is_none_or(|pid| *pid == thread.pid)
                && !self.found.stages.of.contains_key(&thread.unit)
                && (thread.names.iter().any(like) || title.is_some_and(like))
        })
    }

    /// Events of the arrows from one of these stages to another.
    fn events(&self, from: &[End], to: &[End], meaning: Meaning) -> u64 {
        let arrows = self.found.arrows.iter().filter(|arrow| {
            arrow.meaning == meaning
                && arrow.by != By::Nothing
                && from.contains(&arrow.from)
                && to.contains(&arrow.to)
        });
        arrows.map(|arrow| arrow.n.max(1)).sum()
    }

    /// Arrows between expected stages that are not expected.
    fn beyond(&self, expected: &Expected, of: &BTreeMap<&str, BTreeSet<usize>>) -> Vec<String> {
        let name = |end: End| match end {
            End::Clients => Some("clients"),
            End::Stage(id) => of.iter().find(|(_, ids)| ids.contains(&id)).map(|(name, _)| *name),
        };
        let mut beyond = BTreeMap::new();
        for arrow in &self.found.arrows {
            let (Some(from), Some(to)) = (name(arrow.from), name(arrow.to)) else { continue };
            let known = |known: &super::expected::Arrow| {
                (known.from, known.to, known.meaning()) == (from, to, arrow.meaning)
            };
            if arrow.by == By::Nothing || expected.arrows.iter().any(known) {
                continue;
            }
            let waits = arrow.meaning == Meaning::Blocking;
            let words = super::expected::words(from, to, waits);
            *beyond.entry(words).or_insert(0) += arrow.n;
        }
        beyond.into_iter().map(|(words, n)| format!("{words} ({n})")).collect()
    }
}

fn ends(of: &BTreeMap<&str, BTreeSet<usize>>, name: &str) -> Vec<End> {
    if name == "clients" {
        return vec![End::Clients];
    }
    of.get(name).into_iter().flatten().map(|&stage| End::Stage(stage)).collect()
}

/// What was found of what is expected.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) numbers: BTreeMap<String, f64>,
    pub(super) lines: Vec<String>,
    pub(super) beyond: Vec<String>,
    pub(super) unseen: Vec<String>,
}

impl Judged {
    fn count(&mut self, what: &str, found: bool) {
        for (part, one) in [("expected", true), ("found", found)] {
            let sum = self.numbers.entry(format!("{what}_{part}")).or_default();
            *sum += f64::from(u8::from(one));
        }
    }

    fn stage(&mut self, name: &str, ids: &BTreeSet<usize>, found: &Architecture) {
        self.count("stages", !ids.is_empty());
        let each = ids.iter().map(|&id| {
            let stage = &found.stages.stages[id];
            format!("{}, {} threads, {}", stage.name, stage.most, stage.sure.name())
        });
        let text = each.collect::<Vec<_>>().join("; ");
        let text = if ids.is_empty() { "MISSING".to_owned() } else { text };
        self.lines.push(format!("{name}: {text}"));
    }

    fn arrow(&mut self, words: String, n: u64) {
        self.count("arrows", n > 0);
        let text = if n > 0 { format!("{n} times") } else { "MISSING".to_owned() };
        self.lines.push(format!("{words}: {text}"));
    }

    /// The five problems of the dissertation: where each was found, and whether its letter is as
    /// expected. Clients on this machine are no part of the system.
    fn letters(&mut self, findings: &[Finding], expected: Option<&str>) {
        for problem in &Problem::ALL[..Problem::OF_THE_PAPER] {
            let open = findings.iter().filter(|one| {
                one.problem == *problem && !one.mitigated() && one.stages != ["clients-here"]
            });
            let places: Vec<String> = open
                .map(|one| format!("{} ({})", one.stages.join(" + "), one.confidence.name()))
                .collect();
            let (letter, title) = (problem.letter(), problem.title());
            let right = expected.map(|letters| letters.contains(letter) != places.is_empty());
            let wrong = if right == Some(false) { ", UNEXPECTED" } else { "" };
            let places = if places.is_empty() { "not found".to_owned() } else { places.join("; ") };
            self.lines.push(format!("{letter}, {title}{wrong}: {places}"));
            if let Some(right) = right {
                self.count("letters", right);
            }
        }
    }

    /// All of it, for people.
    pub(super) fn text(&self) -> String {
        let mut lines = self.lines.clone();
        lines.extend(self.beyond.iter().map(|what| format!("also drawn: {what}")));
        lines.extend(self.unseen.iter().map(|what| format!("not seen: {what}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_tad::{file::read_tad, systems};

    #[test]
    fn letters_are_right_if_each_of_the_five_is_there_or_not_as_expected() {
        let text = systems::text("hbase").expect("it comes along");
        let tad = read_tad("hbase", text).unwrap_or_else(|errors| panic!("{errors}")).value;
        for (expected, right) in [("NUCBO", 5.0), ("UCB", 3.0)] {
            let mut judged = Judged::default();
            judged.letters(&check(&tad), Some(expected));
            let numbers = ["letters_found", "letters_expected"].map(|key| judged.numbers[key]);
            assert_eq!(numbers, [right, 5.0], "{:#?}", judged.lines);
        }
        let mut untold = Judged::default();
        untold.letters(&[], None);
        assert!(
            untold.numbers.is_empty()
                && untold.text().contains("O, ordering constraint: not found")
        );
    }
}
