//! A recording as a file: one JSON object a line.

use super::{Loss, Record, SCHEMA, Trace, TraceError};
use std::io::{BufRead, Write};

fn line(record: &Record) -> Result<Vec<u8>, TraceError> {
    let mut line = serde_json::to_vec(record).map_err(std::io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Trace {
    /// Writes it as lines, at most `limit` bytes of them. Copies of stacks that find no room are
    /// left out, and counted as lost.
    pub fn write(&self, out: &mut impl Write, limit: u64) -> Result<(), TraceError> {
        /// Room for the line that says so.
        const LOSS_LINE: u64 = 128;
        let (mut left, mut without) = (limit, 0);
        for record in self.records() {
            let line = line(&record)?;
            let copy = matches!(record, Record::Copied(_));
            let room = left.saturating_sub(if copy { LOSS_LINE } else { 0 });
            if room >= line.len() as u64 {
                left -= line.len() as u64;
                out.write_all(&line)?;
            } else if copy {
                without += 1;
            } else {
                return Err(TraceError::Large { limit });
            }
        }
        if without > 0 {
            let what = "copies of stacks (the file would be too large)".to_owned();
            out.write_all(&line(&Record::Loss(Loss { what, n: without }))?)?;
        }
        Ok(())
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.heads()
            .cloned()
            .map(Record::Head)
            .chain(self.processes.values().cloned().map(Record::Process))
            .chain(self.threads.values().cloned().map(Record::Thread))
            .chain(self.units.values().cloned().map(Record::Unit))
            .chain(self.activity.iter().cloned().map(Record::Activity))
            .chain(self.waits.iter().cloned().map(Record::Wait))
            .chain(self.stacks.iter().cloned().map(Record::Stack))
            .chain(self.sockets.iter().cloned().map(Record::Socket))
            .chain(self.calls.iter().cloned().map(Record::Call))
            .chain(self.injections.iter().cloned().map(Record::Injection))
            .chain(self.handed.iter().cloned().map(Record::Handed))
            .chain(self.held.iter().cloned().map(Record::Held))
            .chain(self.monitors.iter().cloned().map(Record::Monitor))
            .chain(self.scheduled.iter().cloned().map(Record::Scheduled))
            .chain(self.losses.iter().cloned().map(Record::Loss))
            .chain(self.maps.iter().cloned().map(Record::Maps))
            .chain(self.copied.iter().cloned().map(Record::Copied))
    }

    /// Reads lines. A file that was cut in its last line is read up to there.
    pub fn read(input: impl BufRead) -> Result<Trace, TraceError> {
        let mut trace = Trace::default();
        let mut lines = input.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let line = line?;
            let record: Record = match serde_json::from_str(&line) {
                Ok(record) => record,
                Err(_) if at > 0 && lines.peek().is_none() => {
                    trace.lose("parts of the recording: its file was cut", 1);
                    break;
                }
                Err(error) => {
                    return Err(TraceError::Line { line: at + 1, why: error.to_string() });
                }
            };
            match record {
                Record::Head(head) if head.schema == SCHEMA && at == 0 => trace.head = head,
                Record::Head(head) if head.schema == SCHEMA => trace.joined.push(head),
                Record::Head(head) => return Err(TraceError::Schema { found: head.schema }),
                _ if at == 0 => {
                    return Err(TraceError::Line {
                        line: 1,
                        why: "a recording begins with its head".to_owned(),
                    });
                }
                Record::Process(process) => {
                    trace.processes.insert(process.pid, process);
                }
                Record::Thread(thread) => {
                    trace.threads.insert(thread.tid, thread);
                }
                Record::Unit(unit) => {
                    trace.units.insert(unit.unit, unit);
                }
                Record::Activity(activity) => trace.activity.push(activity),
                Record::Wait(wait) => trace.waits.push(wait),
                Record::Stack(stack) => trace.stacks.push(stack),
                Record::Socket(socket) => trace.sockets.push(socket),
                Record::Call(call) => trace.calls.push(call),
                Record::Injection(injection) => trace.injections.push(injection),
                Record::Handed(handed) => trace.handed.push(handed),
                Record::Held(held) => trace.held.push(held),
                Record::Monitor(monitor) => trace.monitors.push(monitor),
                Record::Scheduled(scheduled) => trace.scheduled.push(scheduled),
                Record::Loss(loss) => trace.losses.push(loss),
                Record::Maps(maps) => trace.maps.push(maps),
                Record::Copied(copied) => trace.copied.push(copied),
            }
        }
        if trace.head.schema.is_empty() {
            return Err(TraceError::Line { line: 1, why: "the file is empty".to_owned() });
        }
        Ok(trace)
    }
}
