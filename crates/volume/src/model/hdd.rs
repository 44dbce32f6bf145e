//! A disk: an arm that seeks, platters that turn, and a cache for writes.
//!
//! # The model
//! * **Seek.** `seek_settle_ms + seek_sqrt_ms · √d + seek_linear_ms · d`, where d is the distance
//!   from the last access as a fraction of the span: √d for the arm's acceleration on short ways,
//!   d for its coasting on long ones (Ruemmler and Wilkes, An introduction to disk drive modeling).
//!   With `seek_sqrt_ms = 0` it is the model that AFQ estimates with: seek proportional to the
//!   distance, transfer proportional to the size (Split, section 2.5.1).
//! * **Rotation.** Uniform from zero to one revolution, drawn from the seed.
//! * **Transfer.** From `outer_mb_per_s` at the first sector to `inner_mb_per_s` at the last. An
//!   access that continues the last one costs only its transfer.
//! * **Queue.** A disk picks the nearest of its n commands. A model that returns the completion
//!   when the command comes cannot reorder. So the gain of reordering is a factor: the time to
//!   position shrinks to n^-`queue_gain` of itself. Throughput at a depth is right; within a queue,
//!   commands complete in order of arrival.
//! * **Write cache.** If there is room, a write is complete after `write_us` and its transfer over
//!   the link. Cached writes go to the platter while the arm has nothing to read. They are sorted,
//!   hence at `write_gain` of the time to position. When the cache is full, a write waits for the
//!   oldest. FLUSH waits for all; FUA bypasses the cache.
//!
//! # Span
//! Distances are fractions of `span_gib`, or of the volume if that is 0. A small volume then
//! behaves like the whole disk, and an experiment on 10 GiB has the seeks of a terabyte.
//!
//! # Worked example
//! Settle 1 ms, √ 9 ms, linear 6.6 ms, 7,200 rpm: a random access positions in 1 + 9 · 8/15 + 6.6 /
//! 3 = 8 ms of seek (the means of √d and d for random places are 8/15 and 1/3) and 4.17 ms of
//! rotation. With 32 commands and a gain of 0.366 that is 12.17 · 32^-0.366 = 3.42 ms.

use super::Model;
use super::parameters::{ns, parameters, transfer_ns};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES};
use headworks_policy::random::Random;
use std::collections::VecDeque;

parameters! {
    /// Commands that the disk takes at a time.
    queue_depth: u32, 1.0..=1024.0, Some(32.0);
    /// Revolutions a minute.
    rpm: f64, 100.0..=100_000.0, Some(7_200.0);
    /// Time of the shortest seek.
    seek_settle_ms: f64, 0.0..=1_000.0, None;
    /// What a seek over the whole span adds by the square root of its distance.
    seek_sqrt_ms: f64, 0.0..=1_000.0, None;
    /// What a seek over the whole span adds by its distance.
    seek_linear_ms: f64, 0.0..=1_000.0, None;
    /// Time to position shrinks to n to the power of minus this with n commands.
    queue_gain: f64, 0.0..=1.0, None;
    /// Share of the time to position that a cached write costs.
    write_gain: f64, 0.0..=1.0, None;
    /// Speed of the outermost tracks, at sector 0.
    outer_mb_per_s: f64, 0.1..=1e4, None;
    /// Speed of the innermost tracks.
    inner_mb_per_s: f64, 0.1..=1e4, None;
    /// Speed of the link to the host.
    link_mb_per_s: f64, 1.0..=1e6, Some(550.0);
    /// Time of the controller for each command.
    controller_us: f64, 0.0..=1e6, Some(50.0);
    /// Capacity of the write cache. 0: none.
    cache_kib: u32, 0.0..=67_108_864.0, None;
    /// Time of a write that finds room in the cache, beside its transfer.
    write_us: f64, 0.0..=1e6, Some(60.0);
    /// Time of a flush when the cache is empty.
    flush_us: f64, 0.0..=1e7, Some(100.0);
    /// Span of the seeks; 0 is the size of the volume.
    span_gib: f64, 0.0..=1e9, Some(0.0);
}

/// Most cached writes, however small they are: memory is bounded.
const DIRTY_MOST: usize = 1 << 20;

/// A write in the cache.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    bytes: u64,
    /// Sector after it.
    end: u64,
    /// Time of the arm.
    cost_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Hdd {
    parameters: Parameters,
    random: Random,
    span_sectors: f64,
    /// Sector after the last access.
    head: u64,
    /// Sector after the last cached write.
    last_write: u64,
    /// When the arm has finished all that it has begun.
    arm_free_ns: u64,
    /// Completions of the commands that wait for the arm, in order.
    outstanding: VecDeque<u64>,
    /// Cached writes, oldest first.
    dirty: VecDeque<Dirty>,
    dirty_bytes: u64,
}

impl Hdd {
    /// A disk under a volume of this size, with an empty cache.
    pub fn new(parameters: Parameters, size_bytes: u64, seed: u64) -> Self {
        let span_bytes = if parameters.span_gib > 0.0 {
            parameters.span_gib * (1u64 << 30) as f64
        } else {
            // Distances need no more than 53 bits.
            size_bytes as f64
        };
        Hdd {
            parameters,
            random: Random::new(seed),
            span_sectors: (span_bytes / SECTOR_BYTES as f64).max(1.0),
            head: 0,
            last_write: u64::MAX,
            arm_free_ns: 0,
            outstanding: VecDeque::new(),
            dirty: VecDeque::new(),
            dirty_bytes: 0,
        }
    }

    /// Time to position from one sector to another.
    fn position_ns(&mut self, from: u64, to: u64) -> f64 {
        if from == to {
            return 0.0;
        }
        let p = &self.parameters;
        // Distances need no more than 53 bits.
        let distance = (from.abs_diff(to) as f64 / self.span_sectors).min(1.0);
        let seek_ms =
            p.seek_settle_ms + p.seek_sqrt_ms * distance.sqrt() + p.seek_linear_ms * distance;
        let revolution_ms = 60e3 / p.rpm;
        (seek_ms + revolution_ms * self.random.unit()) * 1e6
    }

    fn platter_ns(&self, sector: u64, bytes: u64) -> u64 {
        let p = &self.parameters;
        let inward = (sector as f64 / self.span_sectors).min(1.0);
        transfer_ns(bytes, p.outer_mb_per_s + (p.inner_mb_per_s - p.outer_mb_per_s) * inward)
    }

    /// Brings the arm's own work up to `now`.
    fn advance(&mut self, now_ns: u64) {
        while self.arm_free_ns < now_ns && self.drain_one().is_some() {}
        while self.outstanding.front().is_some_and(|done_ns| *done_ns <= now_ns) {
            self.outstanding.pop_front();
        }
    }

    /// Begins the oldest cached write; returns when.
    fn drain_one(&mut self) -> Option<u64> {
        let dirty = self.dirty.pop_front()?;
        self.dirty_bytes -= dirty.bytes;
        let begun_ns = self.arm_free_ns;
        self.arm_free_ns += dirty.cost_ns;
        self.head = dirty.end;
        Some(begun_ns)
    }

    /// Moves the arm for a command that waits for it.
    fn access(&mut self, now_ns: u64, sector: u64, bytes: u64) -> u64 {
        // The queue of a device is at most 1024 deep.
        let commands = self.outstanding.len() as f64 + 1.0;
        let gain = commands.powf(-self.parameters.queue_gain);
        // Positive, and far below what the type holds.
        let position_ns = (self.position_ns(self.head, sector) * gain).round() as u64;
        let begun_ns = self.arm_free_ns.max(now_ns + ns(self.parameters.controller_us));
        let done_ns = begun_ns + position_ns + self.platter_ns(sector, bytes);
        self.head = sector + bytes / SECTOR_BYTES;
        self.arm_free_ns = done_ns;
        self.outstanding.push_back(done_ns);
        done_ns
    }

    fn write(&mut self, now_ns: u64, sector: u64, bytes: u64) -> u64 {
        let capacity = u64::from(self.parameters.cache_kib) * 1024;
        let mut room_ns = now_ns;
        while !self.dirty.is_empty()
            && (self.dirty_bytes + bytes > capacity || self.dirty.len() >= DIRTY_MOST)
        {
            room_ns = room_ns.max(self.drain_one().unwrap_or(now_ns));
        }
        let gain = self.parameters.write_gain;
        // Positive, and far below what the type holds.
        let position_ns = (self.position_ns(self.last_write, sector) * gain).round() as u64;
        let cost_ns = position_ns + self.platter_ns(sector, bytes);
        self.last_write = sector + bytes / SECTOR_BYTES;
        self.arm_free_ns = self.arm_free_ns.max(now_ns);
        self.dirty.push_back(Dirty { bytes, end: self.last_write, cost_ns });
        self.dirty_bytes += bytes;
        let arrived_ns = now_ns + transfer_ns(bytes, self.parameters.link_mb_per_s);
        arrived_ns.max(room_ns) + ns(self.parameters.write_us)
    }

    fn flush(&mut self, now_ns: u64) -> u64 {
        while self.drain_one().is_some() {}
        self.arm_free_ns.max(now_ns) + ns(self.parameters.flush_us)
    }
}

impl Model for Hdd {
    fn depth(&self) -> u32 {
        self.parameters.queue_depth
    }

    fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
        self.advance(now.0);
        let bytes = u64::from(command.sectors) * SECTOR_BYTES;
        let cached = !command.fua && bytes <= u64::from(self.parameters.cache_kib) * 1024;
        let done_ns = match command.operation {
            Operation::Write | Operation::WriteZeroes if cached => {
                self.write(now.0, command.sector, bytes)
            }
            Operation::Read | Operation::Write | Operation::WriteZeroes => {
                self.access(now.0, command.sector, bytes)
            }
            Operation::Flush => self.flush(now.0),
            // A disk ignores discards.
            Operation::Discard => now.0 + ns(self.parameters.controller_us),
        };
        Nanos(done_ns.max(now.0))
    }
}
