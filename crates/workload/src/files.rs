//! Loads on files: the patterns of the split-level experiments, each on its own thread.
//!
//! The threads are named after their tasks, so that a scheduler can distinguish them. This module
//! does not depend on a scheduler.

use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes of a block.
const BLOCK: usize = 4096;

/// Bytes of a sequential read or write.
const STREAM: usize = 256 * 1024;

/// A thread's repeated operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Appends a block and calls `fsync`. One operation is both.
    Append,
    /// Writes this many blocks at random positions, then calls `fsync`. One operation is the
    /// `fsync`.
    RandomSync {
        /// Blocks of each `fsync`.
        blocks: u32,
    },
    /// Reads this many bytes in sequence from a random position, and drops them from the cache.
    ReadRuns {
        /// Bytes of a run.
        bytes: u32,
    },
    /// Writes this many bytes in sequence to a random position, and calls no `fsync`.
    WriteRuns {
        /// Bytes of a run.
        bytes: u32,
    },
    /// Reads the file from beginning to end, and drops what was read from the cache.
    ReadSequential,
    /// Writes the file from beginning to end, again and again, and calls no `fsync`.
    WriteSequential,
    /// Reads this many bytes at the file's beginning, which are cached.
    ReadCached {
        /// Bytes.
        bytes: u32,
    },
    /// Overwrites this many bytes at the file's beginning, which stay dirty.
    WriteOver {
        /// Bytes.
        bytes: u32,
    },
    /// Makes an empty file and calls `fsync` on it.
    Create,
    /// Computes for a millisecond, and touches no file.
    Compute,
}

impl Pattern {
    /// Whether the file must exist, with its whole length on the device.
    fn needs_content(self) -> bool {
        !matches!(self, Pattern::Append | Pattern::WriteSequential)
    }
}

/// A thread's priority for the kernel's I/O scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// The usual one.
    #[default]
    Usual,
    /// 0 (highest) to 7 (lowest) of the class "best effort".
    Level(u8),
    /// The class "idle": it has the device when no other class wants it.
    Idle,
}

/// One thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Name of the thread: up to 15 bytes.
    pub name: String,
    /// What it does.
    pub pattern: Pattern,
    /// Its file, or the directory in which it makes files. Not used by one that computes.
    pub path: PathBuf,
    /// Length of the file.
    pub file_bytes: u64,
    /// Pause between two operations.
    pub pause_us: u64,
    /// An operation is due so often, whether or not the last one is over (open loop). Its latency
    /// counts from then on. 0: the next one follows the last one (closed loop).
    pub due_every_us: u64,
    /// It begins this much later than the others.
    pub after_ms: u64,
    /// It ends so long after it began, if it does not go on to the end.
    pub for_ms: Option<u64>,
    /// The kernel's I/O priority.
    pub priority: Priority,
}

impl Task {
    /// A thread that works on a file of this length without a pause.
    pub fn new(name: impl Into<String>, pattern: Pattern, path: PathBuf, file_bytes: u64) -> Self {
        let name = name.into();
        let (pause_us, due_every_us, after_ms, for_ms, priority) = (0, 0, 0, None, Priority::Usual);
        Task { name, pattern, path, file_bytes, pause_us, due_every_us, after_ms, for_ms, priority }
    }

    /// Gives the calling thread the kernel's priority of this task.
    fn set_priority(&self) -> io::Result<()> {
        let mut ionice = Command::new("ionice");
        match self.priority {
            Priority::Usual => return Ok(()),
            Priority::Level(level) => ionice.args(["-c", "2", "-n", &level.to_string()]),
            Priority::Idle => ionice.args(["-c", "3"]),
        };
        let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
        let status = ionice.args(["-p", &thread]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("ionice failed")) }
    }
}

/// A thread's results in the counted time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Name of the task.
    pub name: String,
    /// Operations.
    pub operations: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Bytes of the operations that ended in each second counted.
    pub bytes_by_second: Vec<u64>,
    /// Seconds counted.
    pub seconds: f64,
    /// Latency of each operation, or of an even sample of them.
    pub latencies_us: Vec<u32>,
}

impl Report {
    /// Adds what another thread of the same name did in the same time.
    pub fn add(&mut self, other: &Report) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        for (sum, bytes) in self.bytes_by_second.iter_mut().zip(&other.bytes_by_second) {
            *sum += bytes;
        }
        self.latencies_us.extend(&other.latencies_us);
    }

    /// A percentile of the latencies in milliseconds; NaN if there are none.
    pub fn percentile_ms(&self, part: f64) -> f64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(at).map_or(f64::NAN, |us| f64::from(*us) / 1e3)
    }

    /// Operations a second.
    pub fn per_s(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Megabytes a second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }
}

/// Most latencies in a report; beyond that, every second one is dropped each time.
const LATENCIES: usize = 100_000;

/// Makes the files of all tasks, and writes them to the device.
pub fn prepare(tasks: &[Task]) -> io::Result<()> {
    let block = vec![0x5A_u8; STREAM];
    for task in tasks {
        match task.pattern {
            Pattern::Create => std::fs::create_dir_all(&task.path)?,
            Pattern::Compute => {}
            _ => prepare_file(task, &block)?,
        }
    }
    Ok(())
}

fn prepare_file(task: &Task, block: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&task.path)?;
    if task.pattern.needs_content() {
        let mut at = file.metadata()?.len();
        while at < task.file_bytes {
            let length = (task.file_bytes - at).min(STREAM as u64) as usize;
            file.write_all_at(&block[..length], at)?;
            at += length as u64;
        }
    }
    file.sync_all()
}

/// Runs all tasks for `warm_up` and then `window`, and reports on the window.
pub fn run(tasks: &[Task], warm_up: Duration, window: Duration) -> io::Result<Vec<Report>> {
    let ready = Barrier::new(tasks.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .iter()
            .enumerate()
            .map(|(at, task)| {
                let ready = &ready;
                std::thread::Builder::new().name(task.name.clone()).spawn_scoped(scope, move || {
                    let worker = task.set_priority().and_then(|()| Worker::new(task, at as u64));
                    ready.wait();
                    worker?.run(warm_up, window)
                })
            })
            .collect::<io::Result<_>>()?;
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked"))))
            .collect()
    })
}

struct Worker<'a> {
    task: &'a Task,
    file: Option<File>,
    random: Random,
    buffer: Vec<u8>,
    position: u64,
    made: u64,
}

impl<'a> Worker<'a> {
    fn new(task: &'a Task, stream: u64) -> io::Result<Self> {
        let file = match task.pattern {
            Pattern::Create | Pattern::Compute => None,
            _ => Some(OpenOptions::new().read(true).write(true).open(&task.path)?),
        };
        let position = match (&file, task.pattern) {
            (Some(file), Pattern::Append) => file.metadata()?.len(),
            _ => 0,
        };
        Ok(Worker {
            task,
            file,
            random: Random::stream(1, stream),
            buffer: vec![0xA5; STREAM],
            position,
            made: 0,
        })
    }

    fn run(mut self, warm_up: Duration, window: Duration) -> io::Result<Report> {
        let after = Duration::from_millis(self.task.after_ms);
        std::thread::sleep(after);
        let own = Instant::now();
        let begin = own + warm_up.saturating_sub(after);
        let end = begin + window;
        let last = self.task.for_ms.map_or(end, |ms| end.min(own + Duration::from_millis(ms)));
        let mut report = Report {
            name: self.task.name.clone(),
            operations: 0,
            bytes: 0,
            bytes_by_second: vec![0; window.as_secs_f64().ceil() as usize],
            seconds: window.as_secs_f64(),
            latencies_us: Vec::new(),
        };
        let mut every = 1;
        let between = Duration::from_micros(self.task.due_every_us);
        let mut due = own;
        loop {
            let start = if between.is_zero() { Instant::now() } else { due };
            if start >= last {
                return Ok(report);
            }
            std::thread::sleep(start.saturating_duration_since(Instant::now()));
            due += between;
            let (bytes, since) = self.operation()?;
            let since = if between.is_zero() { since } else { start };
            let now = Instant::now();
            // An operation counts for its part inside the window.
            if now > begin {
                let whole = now.duration_since(start).as_secs_f64().max(1e-9);
                let inside = now.min(end).saturating_duration_since(start.max(begin)).as_secs_f64();
                let bytes = (bytes as f64 * (inside / whole).min(1.0)) as u64;
                report.bytes += bytes;
                let second = now.duration_since(begin).as_secs() as usize;
                if let Some(sum) = report.bytes_by_second.get_mut(second) {
                    *sum += bytes;
                }
            }
            if start >= begin {
                report.operations += 1;
                if report.operations.is_multiple_of(every) {
                    let us = now.duration_since(since).as_micros();
                    report.latencies_us.push(u32::try_from(us).unwrap_or(u32::MAX));
                }
                if report.latencies_us.len() >= LATENCIES {
                    every *= 2;
                    let mut keep = false;
                    report.latencies_us.retain(|_| {
                        keep = !keep;
                        keep
                    });
                }
            }
            if self.task.pause_us > 0 {
                std::thread::sleep(Duration::from_micros(self.task.pause_us));
            }
        }
    }

    /// A random position for this many bytes, at a block's border.
    fn place(&mut self, bytes: u64) -> u64 {
        let blocks = (self.task.file_bytes.saturating_sub(bytes) / BLOCK as u64).max(1);
        self.random.within(0, blocks as i64 - 1) as u64 * BLOCK as u64
    }

    /// Returns the bytes, and the start of the measured part.
    fn operation(&mut self) -> io::Result<(u64, Instant)> {
        let start = Instant::now();
        let Some(file) = self.file.take() else {
            return if self.task.pattern == Pattern::Create {
                self.create(start)
            } else {
                compute(start)
            };
        };
        let result = self.on_file(&file, start);
        self.file = Some(file);
        result
    }

    fn create(&mut self, start: Instant) -> io::Result<(u64, Instant)> {
        self.made += 1;
        let path = self.task.path.join(format!("{}-{}", self.task.name, self.made));
        File::create(&path)?.sync_all()?;
        Ok((0, start))
    }

    fn on_file(&mut self, file: &File, start: Instant) -> io::Result<(u64, Instant)> {
        let size = self.task.file_bytes;
        match self.task.pattern {
            Pattern::Append => {
                file.write_all_at(&self.buffer[..BLOCK], self.position)?;
                self.position += BLOCK as u64;
                file.sync_all()?;
                Ok((BLOCK as u64, start))
            }
            Pattern::RandomSync { blocks } => {
                for _ in 0..blocks {
                    let at = self.place(BLOCK as u64);
                    file.write_all_at(&self.buffer[..BLOCK], at)?;
                }
                let start = Instant::now();
                file.sync_all()?;
                Ok((u64::from(blocks) * BLOCK as u64, start))
            }
            Pattern::ReadRuns { bytes } => {
                let begin = self.place(bytes.into());
                self.runs(begin, bytes.into(), |buffer, at| file.read_exact_at(buffer, at))?;
                drop_cache(file, begin, u64::from(bytes) + FOLIO)?;
                Ok((bytes.into(), start))
            }
            Pattern::WriteRuns { bytes } => {
                let begin = self.place(bytes.into());
                self.runs(begin, bytes.into(), |buffer, at| file.write_all_at(buffer, at))?;
                Ok((bytes.into(), start))
            }
            Pattern::ReadSequential | Pattern::WriteSequential => {
                if self.position + STREAM as u64 > size {
                    self.position = 0;
                }
                let buffer = &mut self.buffer[..(STREAM as u64).min(size) as usize];
                match self.task.pattern {
                    Pattern::ReadSequential => {
                        file.read_exact_at(buffer, self.position)?;
                        drop_cache(file, self.position, buffer.len() as u64)?;
                    }
                    _ => file.write_all_at(buffer, self.position)?,
                }
                self.position += buffer.len() as u64;
                Ok((buffer.len() as u64, start))
            }
            Pattern::ReadCached { bytes } => {
                self.runs(0, bytes.into(), |buffer, at| file.read_exact_at(buffer, at))?;
                Ok((bytes.into(), start))
            }
            Pattern::WriteOver { bytes } => {
                self.runs(0, bytes.into(), |buffer, at| file.write_all_at(buffer, at))?;
                Ok((bytes.into(), start))
            }
            Pattern::Create | Pattern::Compute => Ok((0, start)),
        }
    }

    fn runs(
        &mut self,
        begin: u64,
        bytes: u64,
        call: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = begin;
        while at < begin + bytes {
            let length = (begin + bytes - at).min(STREAM as u64) as usize;
            call(&mut self.buffer[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }
}

/// Uses a processor for a millisecond.
fn compute(start: Instant) -> io::Result<(u64, Instant)> {
    while start.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
    Ok((0, start))
}

/// Drops the page cache of a file, so that its next reads come from the device.
pub fn forget(path: &Path) -> io::Result<()> {
    drop_cache(&File::open(path)?, 0, 0)
}

/// The kernel drops whole folios only, and reads ahead in folios of up to this size.
const FOLIO: u64 = 2 << 20;

/// Drops the page cache of a range of a file, with the folios that reach into it; no bytes stand
/// for all up to the end.
fn drop_cache(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let begin = offset.saturating_sub(FOLIO);
    let bytes = NonZeroU64::new(if bytes == 0 { 0 } else { offset + bytes - begin });
    Ok(rustix::fs::fadvise(file, begin, bytes, rustix::fs::Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_are_due_are_all_done_and_count_from_when_they_were_due() {
        let compute =
            Task { due_every_us: 500, ..Task::new("late", Pattern::Compute, PathBuf::new(), 0) };
        let window = Duration::from_millis(100);
        let reports = run(&[compute], Duration::ZERO, window).unwrap();
        // Each takes 1 ms, so that the last one is 100 ms late.
        assert_eq!(reports[0].operations, 200);
        assert!(reports[0].percentile_ms(1.0) >= 100.0, "{:?}", reports[0].percentile_ms(1.0));
    }

    #[test]
    fn every_pattern_runs_and_counts() {
        let dir = std::env::temp_dir().join(format!("headworks-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let patterns = [
            Pattern::Append,
            Pattern::RandomSync { blocks: 2 },
            Pattern::ReadRuns { bytes: 8192 },
            Pattern::WriteRuns { bytes: 8192 },
            Pattern::ReadSequential,
            Pattern::WriteSequential,
            Pattern::ReadCached { bytes: 8192 },
            Pattern::WriteOver { bytes: 8192 },
            Pattern::Create,
            Pattern::Compute,
        ];
        let tasks: Vec<Task> = patterns
            .into_iter()
            .enumerate()
            .map(|(at, pattern)| Task {
                pause_us: 1_000,
                priority: Priority::Level(at as u8 % 8),
                ..Task::new(format!("t{at}"), pattern, dir.join(format!("f{at}")), 1 << 20)
            })
            .collect();
        prepare(&tasks).unwrap();
        forget(&tasks[4].path).unwrap();
        let window = Duration::from_millis(300);
        let reports = run(&tasks, Duration::from_millis(50), window).unwrap();
        for report in &reports {
            assert!(report.operations > 0, "{report:?}");
            assert!(report.percentile_ms(0.5) > 0.0 || report.name == "t6" || report.name == "t7");
        }
        assert!(std::fs::metadata(&tasks[0].path).unwrap().len() >= 4096 * reports[0].operations);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_burst_ends_and_threads_of_a_name_add_up() {
        let dir = std::env::temp_dir().join(format!("headworks-burst-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let burst = Task {
            for_ms: Some(300),
            after_ms: 200,
            priority: Priority::Idle,
            ..Task::new("B", Pattern::WriteRuns { bytes: 4096 }, dir.join("b"), 1 << 20)
        };
        let tasks = [burst.clone(), burst];
        prepare(&tasks).unwrap();
        let window = Duration::from_millis(1_500);
        let reports = run(&tasks, Duration::from_millis(200), window).unwrap();
        for report in &reports {
            assert!(report.bytes_by_second[0] > 0, "{report:?}");
            assert_eq!(report.bytes_by_second[1], 0, "the burst was over");
            assert_eq!(report.bytes_by_second.iter().sum::<u64>(), report.bytes);
        }
        let mut both = reports[0].clone();
        both.add(&reports[1]);
        assert_eq!(both.bytes, reports[0].bytes + reports[1].bytes);
        assert_eq!(both.bytes_by_second[0], both.bytes);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
