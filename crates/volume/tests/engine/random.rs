//! Random requests, many at a time, each answer checked.

use crate::checker::{Checker, Moment, SECTOR, fill};
use crate::pieces::Random;
use headworks_policy::block::{Operation, SECTOR_BYTES};
use headworks_volume::{Buffer, Engine, Submission};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A run of random requests.
pub struct Run {
    pub seed: u64,
    /// Requests in flight at most.
    pub depth: usize,
    pub operations: u64,
}

struct Asked {
    operation: Operation,
    first: u64,
    count: u32,
    fua: bool,
}

pub struct Answer {
    submitted: Moment,
    answered: Moment,
    result: io::Result<Buffer>,
}

/// Requests in flight, and what the volume may hold.
pub struct Flight {
    pub checker: Checker,
    clock: Arc<AtomicU64>,
    asked: BTreeMap<Moment, Asked>,
    sender: Sender<Answer>,
    receiver: Receiver<Answer>,
    sectors: u64,
    random: Random,
    /// Errors after the power went.
    pub failed: u64,
}

impl Run {
    /// Plays the run; panics at the first wrong byte.
    pub fn against(&self, engine: &Engine) {
        println!("seed {}: repeat with HEADWORKS_SEED={}", self.seed, self.seed);
        let mut flight = Flight::new(engine.size_bytes() / SECTOR_BYTES, self.seed);
        for number in 0..self.operations {
            flight.one(engine);
            while flight.in_flight() >= self.depth {
                flight.take(true);
            }
            while flight.take(false) {}
            if number % 4096 == 0 {
                flight.prune();
            }
        }
        flight.land();
        assert_eq!(flight.failed, 0);
        engine.drain();
        let len = engine.size_bytes();
        let everything =
            engine.call(|done| Submission::new(Operation::Read, 0, len, done)).unwrap();
        flight.checker.check_read(0, &everything, Moment::MAX).unwrap();
        // The answer comes before the request counts as over.
        engine.drain();
        assert_eq!(engine.counts().outstanding, 0);
    }
}

impl Flight {
    pub fn new(sectors: u64, seed: u64) -> Flight {
        let (sender, receiver) = channel();
        Flight {
            checker: Checker::new(sectors as usize),
            clock: Arc::new(AtomicU64::new(1)),
            asked: BTreeMap::new(),
            sender,
            receiver,
            sectors,
            random: Random::new(seed),
            failed: 0,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// Submits one request at random.
    pub fn one(&mut self, engine: &Engine) {
        let operation = match self.random.below(100) {
            0..35 => Operation::Read,
            35..85 => Operation::Write,
            85..90 => Operation::Flush,
            90..94 => Operation::Discard,
            _ => Operation::WriteZeroes,
        };
        // Half of them in a small part of the volume, where they meet.
        let space = if self.random.below(2) == 0 { 64 } else { self.sectors };
        let (first, count) = match operation {
            Operation::Flush => (0, 0),
            _ => {
                let first = self.random.below(space);
                let longest = if self.random.below(20) == 0 { 256 } else { 16 };
                (first, 1 + self.random.below(longest.min(self.sectors - first)) as u32)
            }
        };
        let fua = matches!(operation, Operation::Write | Operation::WriteZeroes)
            && self.random.below(10) == 0;
        let unmap = self.random.below(2) == 0;
        let at = self.clock.fetch_add(1, Ordering::SeqCst);
        let (clock, sender) = (Arc::clone(&self.clock), self.sender.clone());
        let done = Box::new(move |result| {
            let answered = clock.fetch_add(1, Ordering::SeqCst);
            let _ = sender.send(Answer { submitted: at, answered, result });
        });
        let len = u64::from(count) * SECTOR_BYTES;
        let mut submission = Submission::new(operation, first * SECTOR_BYTES, len, done);
        (submission.request.fua, submission.unmap) = (fua, unmap);
        if operation == Operation::Write {
            submission.data = Buffer::new(len as usize);
            fill(&mut submission.data, at);
        }
        match operation {
            Operation::Write => self.checker.submitted(first, count, at, at, true),
            Operation::WriteZeroes => self.checker.submitted(first, count, 0, at, true),
            Operation::Discard => self.checker.submitted(first, count, 0, at, false),
            Operation::Read | Operation::Flush => {}
        }
        self.asked.insert(at, Asked { operation, first, count, fua });
        engine.submit(submission);
    }

    /// Takes one answer, if there is one or if it is to be waited for.
    pub fn take(&mut self, wait: bool) -> bool {
        let answer = if wait {
            // Several times: the machine may have stood still for longer than one of them.
            (0..6)
                .find_map(|_| self.receiver.recv_timeout(Duration::from_secs(10)).ok())
                .expect("an answer")
        } else {
            match self.receiver.try_recv() {
                Ok(answer) => answer,
                Err(_) => return false,
            }
        };
        let Answer { submitted, answered, result } = answer;
        let asked = self.asked.remove(&submitted).expect("each request is answered once");
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
                self.failed += 1;
                return true;
            }
        };
        match asked.operation {
            Operation::Read => {
                assert_eq!(data.len(), asked.count as usize * SECTOR);
                if let Err(wrong) = self.checker.check_read(asked.first, &data, submitted) {
                    panic!("{wrong}; the read was submitted at {submitted:x}");
                }
            }
            Operation::Flush => self.checker.flushed(submitted),
            _ => {
                self.checker.answered(asked.first, asked.count, submitted, answered, asked.fua);
            }
        }
        true
    }

    pub fn prune(&mut self) {
        let now = self.clock.load(Ordering::SeqCst);
        let oldest = self.asked.keys().next().copied().unwrap_or(now);
        self.checker.prune(oldest);
    }

    /// Waits for everything in flight.
    pub fn land(&mut self) {
        while self.in_flight() > 0 {
            self.take(true);
        }
    }
}
