//! `record`: writes a trace of every request as text, and reads it back.
//!
//! One line for each request, in the order of their answers: `OPERATION SECTOR SECTORS CAME_NS
//! LATENCY_NS FLAGS CAUSE`. OPERATION is R, W, F, D or Z. Times count from the start of the trace.
//! FLAGS has `f` (FUA), `s` (a thread waits for it) and `e` (failed), or `-`.

use super::{Layer, Verdict};
use headworks_policy::Nanos;
use headworks_policy::block::{IoClass, Operation, Request};
use std::io::{self, BufRead, BufWriter, Write};

/// First line of a trace.
const HEAD: &str = "# headworks block trace 1";

const LETTERS: [(char, Operation); 5] = [
    ('R', Operation::Read),
    ('W', Operation::Write),
    ('F', Operation::Flush),
    ('D', Operation::Discard),
    ('Z', Operation::WriteZeroes),
];

/// Writes a trace. Failed writes of lines are counted, and the volume goes on.
pub struct Recorder {
    out: BufWriter<Box<dyn Write + Send>>,
    began: Option<Nanos>,
    lines: u64,
    lost: u64,
}

impl Recorder {
    /// A trace into `out`.
    pub fn new(out: Box<dyn Write + Send>) -> Recorder {
        Recorder { out: BufWriter::new(out), began: None, lines: 0, lost: 0 }
    }
}

impl Layer for Recorder {
    fn name(&self) -> &'static str {
        "record"
    }

    fn admit(&mut self, now: Nanos, _request: &Request) -> Verdict {
        if self.began.is_none() {
            self.began = Some(now);
            if writeln!(self.out, "{HEAD}").is_err() {
                self.lost += 1;
            }
        }
        Verdict::default()
    }

    fn completed(&mut self, now: Nanos, request: &Request, came: Nanos, failed: bool) {
        let letter = LETTERS[request.operation as usize].0;
        let mut flags = String::new();
        for (set, flag) in [(request.fua, 'f'), (request.sync, 's'), (failed, 'e')] {
            if set {
                flags.push(flag);
            }
        }
        if flags.is_empty() {
            flags.push('-');
        }
        let line = writeln!(
            self.out,
            "{letter} {} {} {} {} {flags} {}",
            request.sector,
            request.sectors,
            came.since(self.began.unwrap_or(came)).0,
            now.since(came).0,
            request.cause
        );
        match line {
            Ok(()) => self.lines += 1,
            Err(_) => self.lost += 1,
        }
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![
            ("recorded_requests".to_owned(), self.lines as f64),
            ("lost_requests".to_owned(), self.lost as f64),
        ]
    }
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// What was asked.
    pub request: Request,
    /// When it came, from the beginning of the trace.
    pub came: Nanos,
    /// How long it took then.
    pub latency: Nanos,
    /// Whether it failed then.
    pub failed: bool,
}

/// Reads a trace, sorted by time of arrival.
///
/// # Errors
/// InvalidData, with the number of the line, if it is not a trace.
pub fn read_trace(from: impl BufRead) -> io::Result<Vec<Traced>> {
    let mut list = Vec::new();
    for (number, line) in from.lines().enumerate() {
        let line = line?;
        if number == 0 && line != HEAD {
            let problem = format!("line 1: no trace: it should be `{HEAD}`");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let Some(traced) = read_line(&line) else {
            let problem = format!("line {}: cannot read `{line}`", number + 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        };
        list.push(traced);
    }
    list.sort_by_key(|traced| traced.came);
    Ok(list)
}

fn read_line(line: &str) -> Option<Traced> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [letter, sector, sectors, came, latency, flags, cause] = fields[..] else { return None };
    let operation = LETTERS.iter().find(|(known, _)| letter == known.to_string())?.1;
    if !flags.chars().all(|flag| "fse-".contains(flag)) {
        return None;
    }
    let request = Request {
        operation,
        sector: sector.parse().ok()?,
        sectors: sectors.parse().ok()?,
        fua: flags.contains('f'),
        sync: flags.contains('s'),
        cause: cause.parse().ok()?,
        class: IoClass::BestEffort,
        level: 4,
        deadline: None,
        continues: false,
    };
    Some(Traced {
        request,
        came: Nanos(came.parse().ok()?),
        latency: Nanos(latency.parse().ok()?),
        failed: flags.contains('e'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_trace_is_read_as_it_was_written_in_the_order_of_coming() {
        let sink = Sink::default();
        let mut recorder = Recorder::new(Box::new(sink.clone()));
        let mut write = Request::new(Operation::Write, 4096, 32);
        (write.fua, write.cause) = (true, 77);
        let flush = Request::new(Operation::Flush, 0, 0);
        recorder.admit(Nanos(1_000), &write);
        recorder.admit(Nanos(1_500), &flush);
        recorder.completed(Nanos(3_000), &flush, Nanos(1_500), true);
        recorder.completed(Nanos(9_000), &write, Nanos(1_000), false);
        drop(recorder);
        let text = sink.0.lock().unwrap().clone();
        let trace = read_trace(&text[..]).unwrap();
        assert_eq!(
            trace,
            [
                Traced { request: write, came: Nanos(0), latency: Nanos(8_000), failed: false },
                Traced { request: flush, came: Nanos(500), latency: Nanos(1_500), failed: true },
            ]
        );
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, expected) in [
            ("hello\n", "line 1"),
            ("# headworks block trace 1\nR 1 2 3 4 - 5\nR 1 2\n", "line 3"),
            ("# headworks block trace 1\nX 1 2 3 4 - 5\n", "line 2"),
            ("# headworks block trace 1\nR 1 2 3 4 q 5\n", "line 2"),
        ] {
            let error = read_trace(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
