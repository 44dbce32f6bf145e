//! The metrics of files: what threads moved, what was held, and what clients waited for.

use super::out::{Labels, Out};
use crate::io::{Account, Files};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeMap;
use std::fmt::Error;

/// What threads of a name did since the first scrape.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved(BTreeMap<String, Account>);

impl Moved {
    /// Adds what happened between two scrapes. What a thread does between its last scrape and its
    /// end is not counted.
    pub(super) fn add(&mut self, before: Option<&Files>, now: &Files) {
        for account in &now.accounts {
            let earlier = before.and_then(|before| before.of_thread(account));
            let sum = self.0.entry(account.name.clone()).or_default();
            let more = earlier.map_or_else(|| account.clone(), |earlier| account.since(earlier));
            sum.writes += more.writes;
            sum.written_bytes += more.written_bytes;
            sum.reads += more.reads;
            sum.read_bytes += more.read_bytes;
            sum.fsyncs += more.fsyncs;
            sum.fsync_ns += more.fsync_ns;
            sum.held += more.held;
            sum.held_ns += more.held_ns;
        }
    }
}

/// The values at one moment.
#[derive(Debug)]
pub(super) struct FileFigures {
    now: Files,
    moved: Moved,
}

impl FileFigures {
    pub(super) fn new(now: Files, moved: Moved) -> Self {
        FileFigures { now, moved }
    }
}

impl Collector for FileFigures {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut out = Out(encoder);
        let now = &self.now;
        let labels = |more: &[(&'static str, &'static str)]| -> Labels<'_> {
            let all = [("instance", now.instance.as_str())];
            all.into_iter().chain(more.iter().copied()).collect()
        };
        let yes = |condition: bool| f64::from(u8::from(condition));
        let mut scheduler = labels(&[]);
        scheduler.push(("scheduler", &now.scheduler));
        let help = "1 if the scheduler of files may hold calls, 0 if all pass";
        out.gauge("files_scheduled", help, [(scheduler, yes(now.on))])?;
        out.gauge("files_waiting", "calls that wait now", [(labels(&[]), now.waiting as f64)])?;
        let passed = now.passed().map(|(why, count, _)| (labels(&[("why", why)]), count));
        out.counter(
            "files_passed",
            "calls, times or processes that went past the scheduler",
            passed,
        )?;
        let waits = |of: fn(&crate::io::waits::Sum) -> u64| {
            now.waits.iter().map(move |(cause, sum)| (labels(&[("cause", *cause)]), of(sum)))
        };
        out.counter("files_client_waits", "waits of clients, by cause", waits(|sum| sum.count))?;
        out.seconds("files_client_wait", "time that clients waited", waits(|sum| sum.ns))?;
        self.threads(&mut out)
    }
}

impl FileFigures {
    fn threads(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let each = |of: fn(&Account) -> u64| {
            self.moved.0.iter().map(move |(name, account)| {
                let labels: Labels<'_> = vec![("instance", &self.now.instance), ("thread", name)];
                (labels, of(account))
            })
        };
        out.counter("files_writes", "calls that wrote", each(|of| of.writes))?;
        out.bytes("files_written", "bytes written", each(|of| of.written_bytes))?;
        out.counter("files_reads", "calls that read", each(|of| of.reads))?;
        out.bytes("files_read", "bytes read", each(|of| of.read_bytes))?;
        out.counter("files_fsyncs", "calls of fsync and fdatasync", each(|of| of.fsyncs))?;
        out.seconds("files_fsync", "time in fsync and fdatasync", each(|of| of.fsync_ns))?;
        out.counter("files_held", "calls that the scheduler held", each(|of| of.held))?;
        out.seconds("files_held", "time that it held them", each(|of| of.held_ns))
    }
}
