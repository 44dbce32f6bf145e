//! Threads that change their names at work.
//!
//! Several pools of a Java program may share workers, which take the name of the pool whose task
//! they run, as Cassandra's do. Sleeps are counted by thread, so that what such a thread does for
//! each pool is not told apart. Pools of which several threads had both names are one stage, with
//! all the names, and no more than likely. In other programs a thread that had three names has
//! none.

use super::names::normalised;
use crate::trace::{Process, Thread, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// One thread may have been seen with its creator's name.
const THREADS_MIN: usize = 2;
/// A name that the kernel cut has this many characters.
const CUT: usize = 15;

/// See the module.
#[derive(Debug, Default)]
pub struct Renames {
    /// Title of the stage, by process and name.
    titles: BTreeMap<(u32, String), String>,
    /// Whole names of threads by what the kernel keeps of them, as it is and with # for each digit.
    whole: BTreeMap<(u32, String), String>,
    /// Names that threads had with several numbers: these tell requests and not stages.
    counting: BTreeSet<(u32, String)>,
    /// Threads without a name of their own, as they had too many.
    nameless: BTreeMap<u32, BTreeSet<String>>,
}

impl Renames {
    /// Finds them.
    pub fn of(trace: &Trace) -> Renames {
        let mut found = Renames::default();
        let mut whole: BTreeMap<(u32, String), BTreeSet<String>> = BTreeMap::new();
        for thread in trace.threads.values() {
            // A name that the virtual machine told is there twice if the kernel keeps all of it.
            let told = |name: &&String| match name.chars().count() {
                CUT => thread.names.get(1) == Some(name),
                count => count > CUT,
            };
            if let Some(name) = thread.names.first().filter(told) {
                let exact: String = name.chars().take(CUT).collect();
                for kept in [digits(&exact), exact] {
                    whole.entry((thread.pid, kept)).or_default().insert(normalised(name));
                }
            }
        }
        // What several names have in common tells none of them.
        let one = |(of, mut names): (_, BTreeSet<String>)| {
            (names.len() == 1).then(|| names.pop_first().map(|name| (of, name))).flatten()
        };
        found.whole = whole.into_iter().filter_map(one).collect();
        let mut pairs: BTreeMap<(u32, String, String), usize> = BTreeMap::new();
        for thread in trace.threads.values() {
            let Some(process) = trace.processes.get(&thread.pid) else { continue };
            let names: Vec<String> = found.names(process, thread).into_iter().collect();
            if !process.java {
                let counting = several_numbers(process, thread).into_iter();
                found.counting.extend(counting.map(|name| (thread.pid, name)));
                if names.len() > 2 {
                    found.nameless.insert(thread.tid, names.into_iter().collect());
                }
                continue;
            }
            for (at, a) in names.iter().enumerate() {
                for b in &names[at + 1..] {
                    *pairs.entry((thread.pid, a.clone(), b.clone())).or_default() += 1;
                }
            }
        }
        let shared = pairs.into_iter().filter(|(_, threads)| *threads >= THREADS_MIN);
        let mut groups: Vec<(u32, BTreeSet<String>)> = Vec::new();
        for ((pid, a, b), _) in shared {
            let (with, others): (Vec<_>, Vec<_>) = groups
                .into_iter()
                .partition(|(of, names)| *of == pid && (names.contains(&a) || names.contains(&b)));
            let mut joined: BTreeSet<String> = with.into_iter().flat_map(|(_, n)| n).collect();
            joined.extend([a, b]);
            groups = others;
            groups.push((pid, joined));
        }
        for (pid, names) in groups {
            let plain: Vec<&str> =
                names.iter().map(|name| name.trim_end_matches(['#', '-'])).collect();
            let title = plain.join(" + ");
            found.titles.extend(names.into_iter().map(|name| ((pid, name), title.clone())));
        }
        found
    }

    /// The whole name, without numbers, of which the kernel keeps this one.
    pub fn whole(&self, pid: u32, name: &str) -> Option<&String> {
        let known = |name: &str| self.whole.get(&(pid, name.to_owned()));
        (name.chars().count() == CUT).then(|| known(name).or_else(|| known(&digits(name))))?
    }

    /// Whether threads of a process had a name with several numbers, which tell requests.
    pub fn counts(&self, pid: u32, name: &str) -> bool {
        self.counting.contains(&(pid, name.to_owned()))
    }

    /// Names that a thread had, without that of its process.
    fn names(&self, process: &Process, thread: &Thread) -> BTreeSet<String> {
        let own = normalised(&process.name);
        let whole = |name: &String| normalised(self.whole(thread.pid, name).unwrap_or(name));
        // Its own whole name tells what the kernel keeps of it.
        let cut = |name: &String| {
            let longer = |other: &String| other.len() > name.len() && other.starts_with(name);
            name.chars().count() == CUT && thread.names.iter().any(longer)
        };
        let names = thread.names.iter().filter(|name| !cut(name));
        names.map(whole).filter(|name| *name != own && !name.is_empty()).collect()
    }

    /// The name of the stage of a thread that works for several pools.
    pub fn title(&self, trace: &Trace, tid: u32) -> Option<&String> {
        let thread = trace.threads.get(&tid)?;
        let process = trace.processes.get(&thread.pid)?;
        let mut names = self.names(process, thread).into_iter();
        names.find_map(|name| self.titles.get(&(thread.pid, name)))
    }

    /// Whether a thread had so many names that none is its own.
    pub fn nameless(&self, tid: u32) -> bool {
        self.nameless.contains_key(&tid)
    }

    /// What is not told apart, in words.
    pub fn unseen(&self) -> Vec<String> {
        const SHOWN: usize = 6;
        let titles: BTreeSet<&String> = self.titles.values().collect();
        let mut unseen: Vec<String> = titles
            .into_iter()
            .map(|title| {
                format!(
                    "which threads work for which of {title}: they change their names at work, and \
                     are one stage here"
                )
            })
            .collect();
        let names: BTreeSet<&String> = self.nameless.values().flatten().collect();
        if !names.is_empty() {
            let shown: Vec<&str> = names.iter().take(SHOWN).map(|name| name.as_str()).collect();
            let more = if names.len() > SHOWN { ", …" } else { "" };
            unseen.push(format!(
                "what {} threads do under each of their names ({}{more}): they change them at \
                 work, and are told apart by their functions alone",
                self.nameless.len(),
                shown.join(", ")
            ));
        }
        unseen
    }
}

/// A name with # for each digit, as the kernel's side notes it.
fn digits(name: &str) -> String {
    name.chars().map(|one| if one.is_ascii_digit() { '#' } else { one }).collect()
}

/// Names that a thread had with several numbers.
fn several_numbers(process: &Process, thread: &Thread) -> Vec<String> {
    let mut numbers: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    // The first one of a thread that was born meanwhile may be its creator's.
    for name in thread.names.iter().skip(usize::from(thread.born > 0)) {
        if *name != process.name {
            numbers.entry(normalised(name)).or_default().insert(name);
        }
    }
    numbers.into_iter().filter(|(_, all)| all.len() > 1).map(|(name, _)| name).collect()
}
