//! Names that only a Java virtual machine knows.
//!
//! A machine that refuses to tell them is recorded without: its threads then have the 15 characters
//! that the kernel keeps.

use super::attach::{Silent, ask};
use super::procfs::{self, inner};
use super::registry::Registry;
use super::young::Young;
use crate::trace::{Handed, Scheduled};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the recorder waits for the agent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a machine was started so that it refuses. It takes the signal with which `jcmd` knocks
/// for a wish to print all threads: it is better not asked.
pub fn refuses(pid: u32) -> bool {
    const OPTION: &[u8] = b"-XX:+DisableAttachMechanism";
    ["cmdline", "environ"].iter().any(|file| {
        let words = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        words.windows(OPTION.len()).any(|word| word == OPTION)
    })
}

/// Virtual machines of a recording, and whether they answer.
#[derive(Debug, Default)]
pub struct Machines {
    asked: Young,
    /// Why a machine has not answered yet, if it has not.
    silent: BTreeMap<u32, Option<Silent>>,
}

impl Machines {
    /// Machines to ask now: each is asked once, and a young one again.
    pub fn due(&mut self, registry: &Registry) -> Vec<u32> {
        let java = registry.processes.values().filter(|process| process.java);
        let due = java.filter(|process| {
            let pid = process.pid;
            self.silent.get(&pid) != Some(&Some(Silent::Refuses))
                && self.asked.due(pid, process.started)
                && procfs::alive(pid)
                && !registry.reused(pid)
        });
        due.map(|process| process.pid).collect()
    }

    /// Full names of a machine's threads, by their numbers, and whether this is its first answer.
    pub fn names(&mut self, pid: u32) -> Option<(BTreeMap<u32, String>, bool)> {
        let first = !self.silent.contains_key(&pid);
        let silent = self.silent.entry(pid).or_insert(Some(Silent::Yet));
        match names(pid) {
            Ok(names) => Some((names, silent.take().is_some())),
            Err(why) => {
                *silent = silent.and(Some(why));
                if first && why == Silent::Yet {
                    // It may have become a virtual machine long after its process began.
                    self.asked.restart(pid, procfs::started(pid).unwrap_or(0));
                }
                None
            }
        }
    }

    /// What the report lacks of machines that never answered.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let silent = self.silent.iter().filter(|(_, why)| why.is_some());
        silent.map(|(pid, _)| {
            format!(
                "full names and methods of the virtual machine {pid}: it did not answer, or refused \
                 (jcmd {pid} Thread.print says why; openjdk-17-jdk-headless has jcmd)"
            )
        })
    }
}

fn names(pid: u32) -> Result<BTreeMap<u32, String>, Silent> {
    let mut found = threads(&ask(pid, &["Thread.print"])?);
    if let Some(outer) = outer(pid) {
        let outside = |(own, name)| Some((*outer.get(&own)?, name));
        found = found.into_iter().filter_map(outside).collect();
    }
    if found.is_empty() { Err(Silent::Refuses) } else { Ok(found) }
}

/// In a container a machine tells its own numbers of threads: what they are here.
pub(super) fn outer(pid: u32) -> Option<BTreeMap<u32, u32>> {
    inner(pid)?;
    // /proc/TID/status is there for every thread.
    let tasks = procfs::threads(pid).into_iter();
    Some(tasks.filter_map(|task| Some((inner(task)?, task))).collect())
}

/// Addresses and names of compiled code. The file that the machine writes is removed again.
pub fn compiled(pid: u32) -> Option<String> {
    let own = inner(pid).unwrap_or(pid);
    let file = PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{own}.map"));
    let was_there = file.exists();
    ask(pid, &["Compiler.perfmap"]).ok()?;
    let map = std::fs::read_to_string(&file).ok();
    if !was_there {
        // If it stays, it is a file of a few hundred kilobytes in /tmp.
        let _ = std::fs::remove_file(&file);
    }
    map
}

/// Stages that a plug-in in the virtual machine says it schedules, in a property of the machine.
pub fn scheduled(pid: u32) -> Option<Vec<Scheduled>> {
    ask(pid, &["VM.system_properties"]).ok().map(|text| said(pid, &text))
}

fn said(pid: u32, properties: &str) -> Vec<Scheduled> {
    let value = properties.lines().find_map(|line| line.strip_prefix("headworks.stages="));
    let all: Vec<Scheduled> =
        value.and_then(|text| serde_json::from_str(&plain(text)).ok()).unwrap_or_default();
    all.into_iter().map(|one| Scheduled { pid, ..one }).collect()
}

/// A property's value without the backslashes that Java writes before some characters.
fn plain(value: &str) -> String {
    let mut out = String::new();
    let mut all = value.chars();
    while let Some(one) = all.next() {
        match if one == '\\' { all.next() } else { None } {
            None => out.push(one),
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('u') => {
                let digits: String = all.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
        }
    }
    out
}

/// Has the agent count hand-overs in a virtual machine. The file comes when it is done.
pub fn count(agent: &Path, pid: u32, time: Duration, file: &Path) -> bool {
    let mut command = Command::new("java");
    command.arg("-jar").arg(agent).arg(pid.to_string()).arg(time.as_secs_f64().to_string());
    finished(command.arg(file)).is_some()
}

/// What the agent wrote: pairs of threads' names, and what was lost. Waits a moment for it.
pub fn counted(pid: u32, file: &Path) -> Option<(Vec<Handed>, u64)> {
    let inside = PathBuf::from(format!("/proc/{pid}/root{}", file.display()));
    let until = Instant::now() + PATIENCE;
    let text = loop {
        // The file is there whole or not at all.
        if let Ok(text) = std::fs::read_to_string(&inside) {
            break text;
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let _ = std::fs::remove_file(&inside);
    Some(handed(pid, &text))
}

fn handed(pid: u32, text: &str) -> (Vec<Handed>, u64) {
    let (mut found, mut lost) = (Vec::new(), 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let [from, to, over, n] = words[..] else { continue };
        let Ok(n) = n.parse() else { continue };
        match (from, to) {
            ("lost", "") => lost += n,
            ("left", "") => {}
            _ => found.push(Handed {
                pid,
                from: from.to_owned(),
                to: to.to_owned(),
                over: over.to_owned(),
                n,
            }),
        }
    }
    (found, lost)
}

/// What a command says, if it succeeds and takes no longer than [`PATIENCE`].
fn finished(command: &mut Command) -> Option<String> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut out = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut text).map(|_| text)
    });
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            let text = reader.join().ok()?.ok()?;
            return status.success().then(|| String::from_utf8_lossy(&text).into_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// `"name" #12 daemon prio=5 … nid=0x1a2b waiting on condition`. JDK 21 writes the number in
/// decimal.
fn threads(print: &str) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for line in print.lines() {
        let Some(rest) = line.strip_prefix('"') else { continue };
        let Some((name, rest)) = rest.rsplit_once('"') else { continue };
        let Some(number) = rest.split_ascii_whitespace().find_map(|word| word.strip_prefix("nid="))
        else {
            continue;
        };
        let number = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        if let Ok(number) = number {
            found.insert(number, name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_counted_is_read() {
        let text = "giver-#\tworker-#\tpool\t120\nlost\t\t\t3\nleft\t\t\t1\nhalf a li";
        let (found, lost) = handed(7, text);
        assert_eq!(lost, 3);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].from, &*found[0].to, found[0].n), ("giver-#", "worker-#", 120));
    }

    #[test]
    fn what_a_plug_in_schedules_is_read_from_a_property() {
        let text = "#Fri Nov 27 2026\nuser.dir=/\nheadworks.stages=[{\"stage\"\\:\"RPC Handle\",\
                    \"thread\"\\:\"handler\\=1,port\\=2 \\u00FC\\\\\\\\\",\"permits\"\\:0,\"held\"\\:true,\"tries\"\\:2}]\n";
        let found = said(7, text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].pid, &*found[0].thread), (7, "handler=1,port=2 ü\\"));
        assert!(found[0].held && found[0].tries == 2);
        assert!(
            said(7, "java.version=17\n").is_empty() && said(7, "headworks.stages=x\n").is_empty()
        );
    }

    #[test]
    fn names_are_read_from_both_kinds_of_print() {
        let print = "Full thread dump\n\
\"main\" #1 prio=5 os_prio=0 cpu=99ms tid=0x00007f nid=0x10 runnable  [0x7f]\n\
   java.lang.Thread.State: RUNNABLE\n\
\"DataXceiver for \"x\" at 1\" #9 [33] daemon prio=5 tid=0x1 nid=33 waiting on condition\n";
        let found = threads(print);
        assert_eq!(found[&16], "main");
        assert_eq!(found[&33], "DataXceiver for \"x\" at 1");
        assert_eq!(found.len(), 2);
    }
}
