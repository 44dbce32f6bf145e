//! A scheduler and a device model in simulated time, without a volume.
//!
//! Closed loop: each [`Job`] keeps a number of requests outstanding and submits the next one when
//! one is completed. No clock is read and nothing is written, so a minute of a device takes
//! milliseconds, and the same seed gives the same figures.
//!
//! Merging is included: requests that the scheduler merged complete together. Flushes skip the
//! scheduler, as in the engine, which orders them itself.

use crate::model::Model;
use headworks_policy::Nanos;
use headworks_policy::block::{
    BlockScheduler, Dispatch, Index, IoClass, Operation, REQUESTS, Request, SECTOR_BYTES,
};
use headworks_policy::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Where the requests of a job lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere in the range, in units of the block.
    Random,
    /// One after the other, from the beginning of the range again after its end.
    Sequential,
}

/// A user of the device.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What it asks for.
    pub operation: Operation,
    /// Percent of its requests that are reads, whatever `operation` says.
    pub reads_percent: u8,
    /// Where.
    pub pattern: Pattern,
    /// Size of a request, a multiple of the sector, at least one.
    pub block_bytes: u32,
    /// Requests that it keeps outstanding. All jobs together have at most [`REQUESTS`].
    pub depth: u16,
    /// First sector of its range.
    pub first_sector: u64,
    /// Sectors of its range, at least a block.
    pub sectors: u64,
    /// Time between a completion and the next request.
    pub think: Nanos,
    /// A flush follows after this many requests; 0 is none.
    pub flush_every: u32,
    /// Writes are durable at completion.
    pub fua: bool,
    /// It waits for its requests (sync).
    pub sync: bool,
    /// Account that the scheduler charges.
    pub cause: u32,
    /// Class for the scheduler.
    pub class: IoClass,
    /// Level for the scheduler.
    pub level: u8,
}

impl Job {
    /// Random requests of 16 KiB over the first `sectors`, as LRU-C, Table 1, measures.
    pub const fn random(operation: Operation, depth: u16, sectors: u64) -> Self {
        Job {
            operation,
            reads_percent: 0,
            pattern: Pattern::Random,
            block_bytes: 16_384,
            depth,
            first_sector: 0,
            sectors,
            think: Nanos(0),
            flush_every: 0,
            fua: false,
            sync: true,
            cause: 1,
            class: IoClass::BestEffort,
            level: 4,
        }
    }
}

/// A job's results in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests completed, without flushes.
    pub completed: u64,
    /// How many of them were reads.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their latencies in nanoseconds, sorted.
    pub latencies_ns: Vec<u64>,
    /// Latencies of flushes in nanoseconds, sorted.
    pub flushes_ns: Vec<u64>,
    /// Time that was measured.
    pub time: Nanos,
}

impl Outcome {
    /// Requests a second.
    pub fn iops(&self) -> f64 {
        // Counts of a simulation are far below 2^53.
        self.completed as f64 / (self.time.0 as f64 / 1e9)
    }

    /// Megabytes (10^6) a second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / (self.time.0 as f64 / 1e3)
    }

    /// Quantile of the latencies, for a part from 0 to 1; zero if there were none.
    pub fn latency(&self, part: f64) -> Nanos {
        quantile(&self.latencies_ns, part)
    }

    /// Mean latency; zero if there were none.
    pub fn mean(&self) -> Nanos {
        let sum: u64 = self.latencies_ns.iter().sum();
        Nanos(sum / (self.latencies_ns.len() as u64).max(1))
    }
}

fn quantile(sorted: &[u64], part: f64) -> Nanos {
    // The product is at most the length.
    let at = (sorted.len() as f64 * part.clamp(0.0, 1.0)) as usize;
    Nanos(sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0))
}

/// A request of a job, from its submission to its completion.
#[derive(Clone, Copy, Debug)]
struct Flight {
    job: usize,
    bytes: u64,
    submitted_ns: u64,
    flush: bool,
    read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The device is done.
    Done(Index),
    /// A job submits one more.
    Submit(usize),
    /// The scheduler asked to be called again.
    Ask,
}

struct Run<'a> {
    scheduler: &'a mut dyn BlockScheduler,
    model: &'a mut dyn Model,
    jobs: &'a [Job],
    random: Random,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    free: Vec<Index>,
    requests: Vec<Request>,
    started_ns: Vec<u64>,
    /// For each index: the submissions that complete with it.
    flights: Vec<Vec<Flight>>,
    flushes: VecDeque<Index>,
    with_device: u32,
    next_sector: Vec<u64>,
    /// Requests since the last flush.
    unflushed: Vec<u32>,
    measure_from_ns: u64,
    outcomes: Vec<Outcome>,
    asked_ns: u64,
}

/// Runs `jobs` for `warm_up` and then for `time`. The outcomes, one for each job, are those of
/// `time`.
///
/// # Panics
/// If the jobs have more than [`REQUESTS`] requests outstanding together.
pub fn run(
    scheduler: &mut dyn BlockScheduler,
    model: &mut dyn Model,
    jobs: &[Job],
    warm_up: Nanos,
    time: Nanos,
    seed: u64,
) -> Vec<Outcome> {
    let outstanding: usize = jobs.iter().map(|job| usize::from(job.depth)).sum();
    assert!(outstanding <= REQUESTS, "{outstanding} requests of {REQUESTS}");
    let mut run = Run {
        scheduler,
        model,
        jobs,
        random: Random::new(seed),
        now_ns: 0,
        events: BinaryHeap::new(),
        free: (0..REQUESTS as Index).rev().collect(),
        requests: vec![request(&jobs.first().copied().unwrap_or(IDLE), 0); REQUESTS],
        started_ns: vec![0; REQUESTS],
        flights: vec![Vec::new(); REQUESTS],
        flushes: VecDeque::new(),
        with_device: 0,
        next_sector: jobs.iter().map(|job| job.first_sector).collect(),
        unflushed: vec![0; jobs.len()],
        measure_from_ns: warm_up.0,
        outcomes: vec![Outcome { time, ..Outcome::default() }; jobs.len()],
        asked_ns: u64::MAX,
    };
    for (job, settings) in jobs.iter().enumerate() {
        for _ in 0..settings.depth {
            run.events.push(Reverse((0, Event::Submit(job))));
        }
    }
    run.go((warm_up + time).0);
    let mut outcomes = run.outcomes;
    for outcome in &mut outcomes {
        outcome.latencies_ns.sort_unstable();
        outcome.flushes_ns.sort_unstable();
    }
    outcomes
}

const IDLE: Job = Job::random(Operation::Read, 0, 32);

fn request(job: &Job, sector: u64) -> Request {
    Request {
        operation: job.operation,
        sector,
        // A block has far fewer sectors than the type holds.
        sectors: (u64::from(job.block_bytes) / SECTOR_BYTES) as u32,
        fua: job.fua,
        sync: job.sync,
        cause: job.cause,
        class: job.class,
        level: job.level,
        deadline: None,
        continues: false,
    }
}

impl Run<'_> {
    fn go(&mut self, end_ns: u64) {
        while let Some(Reverse((at_ns, _))) = self.events.peek()
            && *at_ns < end_ns
        {
            self.now_ns = *at_ns;
            while let Some(Reverse((at_ns, event))) = self.events.peek().copied()
                && at_ns == self.now_ns
            {
                self.events.pop();
                match event {
                    Event::Done(index) => self.done(index),
                    Event::Submit(job) => self.submit(job),
                    Event::Ask => self.asked_ns = u64::MAX,
                }
            }
            self.feed();
        }
    }

    fn submit(&mut self, job: usize) {
        let settings = self.jobs[job];
        let Some(index) = self.free.pop() else { return };
        let flush = settings.flush_every > 0 && self.unflushed[job] >= settings.flush_every;
        let mut flight = Flight { job, bytes: 0, submitted_ns: self.now_ns, flush, read: false };
        if flush {
            self.unflushed[job] = 0;
            self.flights[usize::from(index)].push(flight);
            self.flushes.push_back(index);
            return;
        }
        self.unflushed[job] += 1;
        let mut request = request(&settings, self.place(job));
        if settings.reads_percent > 0 && self.random.below(100) < u64::from(settings.reads_percent)
        {
            request.operation = Operation::Read;
        }
        flight.read = request.operation == Operation::Read;
        flight.bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let added = self.scheduler.add(Nanos(self.now_ns), index, &request);
        let carrier = added.index_or(index);
        self.flights[usize::from(carrier)].push(flight);
        if carrier == index {
            self.requests[usize::from(index)] = request;
        } else {
            let whole = &mut self.requests[usize::from(carrier)];
            whole.sector = whole.sector.min(request.sector);
            whole.sectors += request.sectors;
            self.free.push(index);
        }
    }

    fn place(&mut self, job: usize) -> u64 {
        let settings = self.jobs[job];
        let block = (u64::from(settings.block_bytes) / SECTOR_BYTES).max(1);
        let blocks = (settings.sectors / block).max(1);
        match settings.pattern {
            Pattern::Random => settings.first_sector + self.random.below(blocks) * block,
            Pattern::Sequential => {
                let sector = self.next_sector[job];
                let next = sector + block;
                let end = settings.first_sector + blocks * block;
                self.next_sector[job] = if next < end { next } else { settings.first_sector };
                sector
            }
        }
    }

    /// Starts commands while the device has room.
    fn feed(&mut self) {
        while self.with_device < self.model.depth() {
            if let Some(index) = self.flushes.pop_front() {
                self.start(index, &Request::new(Operation::Flush, 0, 0));
                continue;
            }
            match self.scheduler.dispatch(Nanos(self.now_ns)) {
                Dispatch::Request(index) => {
                    self.scheduler.activated(Nanos(self.now_ns), index);
                    let request = self.requests[usize::from(index)];
                    self.start(index, &request);
                }
                Dispatch::Wait(until) => {
                    if until.0 < self.asked_ns {
                        self.asked_ns = until.0;
                        self.events.push(Reverse((until.0, Event::Ask)));
                    }
                    return;
                }
                Dispatch::Idle => return,
            }
        }
    }

    fn start(&mut self, index: Index, command: &Request) {
        // At least a nanosecond: otherwise simulated time would stand still on a device that takes
        // none.
        let done = self.model.start(Nanos(self.now_ns), command).max(Nanos(self.now_ns + 1));
        self.with_device += 1;
        self.started_ns[usize::from(index)] = self.now_ns;
        self.events.push(Reverse((done.0, Event::Done(index))));
    }

    fn done(&mut self, index: Index) {
        self.with_device -= 1;
        let flights = std::mem::take(&mut self.flights[usize::from(index)]);
        let is_flush = flights.first().is_some_and(|flight| flight.flush);
        if !is_flush {
            let service = Nanos(self.now_ns - self.started_ns[usize::from(index)]);
            self.scheduler.completed(Nanos(self.now_ns), index, service);
        }
        self.free.push(index);
        for flight in flights {
            let next_ns = self.now_ns + self.jobs[flight.job].think.0;
            self.events.push(Reverse((next_ns, Event::Submit(flight.job))));
            if self.now_ns < self.measure_from_ns {
                continue;
            }
            let outcome = &mut self.outcomes[flight.job];
            let latency_ns = self.now_ns - flight.submitted_ns;
            if flight.flush {
                outcome.flushes_ns.push(latency_ns);
            } else {
                outcome.completed += 1;
                outcome.reads += u64::from(flight.read);
                outcome.bytes += flight.bytes;
                outcome.latencies_ns.push(latency_ns);
            }
        }
    }
}
