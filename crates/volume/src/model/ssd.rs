//! A flash drive: dies that read fast and write slowly, behind a cache that hides it for a while.
//!
//! # Problem
//! A drive that reads 40,000 pages a second writes 4,000 (LRU-C, Table 1), yet acknowledges a
//! single write sooner than a read. Both are true of every flash drive, and databases feel both.
//!
//! # The model
//! * **Dies.** `channels × ways` dies work in parallel, each on one page at a time. Page p lies on
//!   die p mod n. A read occupies its die for `read_us` and the transfer over its channel. Two
//!   reads of one die wait for each other, which is why 32 outstanding reads do not use 32 dies.
//! * **Link, channels and controller** have a speed. They are reserved when a command comes and
//!   therefore bound the throughput. Two commands that would meet on them by chance do not delay
//!   each other.
//! * **Write cache.** A write is complete `write_us` after its transfer if the cache has room. The
//!   cache gives its pages to the dies in turn, whenever a die has nothing to read. A page leaves
//!   the cache when its program begins. When the cache is full, a write waits for such a page: the
//!   drive is then as fast as its dies program.
//! * **Cleaning.** A die has `spare_pages` erased pages at most. A random write uses one. A die
//!   without any first cleans for `clean_us`, which makes `clean_pages`. Idle time restores the
//!   pages used. A write that continues an earlier one fills whole blocks, which are erased without
//!   copying: it costs no spare pages. A discard makes spare pages of the range it frees. Steady
//!   random writing thus takes `program_us + clean_us / clean_pages` of a die for each page.
//! * **FLUSH** waits for every page in the cache, then for `flush_us`. **FUA** bypasses the cache.
//!   A drive with capacitors (`power_loss_protected`) does neither: its cache is durable.
//!
//! # Reads beside writes
//! SSD-A does 43,464 requests a second when two of three are reads (LRU-C, Table 5). Its rates for
//! reads alone and writes alone (Table 1), weighted by their shares, would allow 1 / (0.66 /
//! 190,622 + 0.34 / 33,866) = 74,063. So the mix reaches 0.587 of what its parts would allow. Two
//! parameters model that:
//! * A program or a cleaning that has begun is not interrupted, and reads of the die wait for it.
//!   With **many dies and long programs**, soon all outstanding requests are such reads, while most
//!   dies idle. This limit rises with the depth.
//! * A **turnaround**: a die that has programmed or cleaned stays busy for `turnaround_us` before
//!   it reads. That is lost time: it limits the drive at any depth that keeps its dies busy. It
//!   stands for suspended programs and erases, multi-plane programs that reads break up, and other
//!   losses of a die. These are fitted together, as none is published on its own, so it is longer
//!   than any of them. A die that has been idle as long needs no turnaround. Reads alone and writes
//!   alone never turn. Writes in groups turn a die less often than single writes between reads.
//!
//! SSD-A's preset uses the first, fitted to Table 5. For the other drives no mixed load is
//! published. Their `turnaround_us` is fitted so that the same mix at depth 32 reaches 0.587, too.
//!
//! # Details
//! Writes of less than `page_bytes` are gathered into a page before it is programmed. Reads of data
//! still in the cache are not faster.
//!
//! # What it does not model
//! SLC caches (the figures are those of sustained writes), wear, heat, and read disturb.
//!
//! # Worked example
//! 8 dies, program 250 µs, cleaning 1,850 µs for a page: 8 dies / 2.1 ms = 3,810 random pages a
//! second sustained, 8 dies / 250 µs = 32,000 in sequence. With a cache of 4 MiB, the first 256
//! pages of a burst are acknowledged at the speed of the link.

use super::Model;
use super::parameters::{ns, parameters, transfer_ns};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES};
use headworks_policy::random::Random;

parameters! {
    /// Commands that the drive takes at a time: 32 for SATA, up to 1024 for NVMe.
    queue_depth: u32, 1.0..=1024.0, None;
    /// Channels from the controller to the dies.
    channels: u32, 1.0..=64.0, None;
    /// Dies of each channel.
    ways: u32, 1.0..=64.0, None;
    /// Unit of a read or program on a die, a multiple of 512.
    page_bytes: u32, 512.0..=1_048_576.0, Some(16_384.0);
    /// Time of the controller for each read. It does not block other reads.
    controller_us: f64, 0.0..=1e6, None;
    /// Time of the controller for each read, one read at a time. It limits drives whose dies and
    /// link could do more (for example without their own memory for the map).
    command_us: f64, 0.0..=1e6, Some(0.0);
    /// Time of a die to read a page.
    read_us: f64, 0.0..=1e6, None;
    /// Time of a die to program a page.
    program_us: f64, 0.0..=1e6, None;
    /// Time of a die between a program or a cleaning and a read that follows at once: the cost of
    /// mixed loads beyond their parts. 0 for none.
    turnaround_us: f64, 0.0..=1e6, Some(0.0);
    /// Time of a die for one step of cleaning: copies, and a share of an erase.
    clean_us: f64, 0.0..=1e8, None;
    /// Pages that a step of cleaning makes.
    clean_pages: u32, 1.0..=65_536.0, Some(1.0);
    /// Erased pages that a die can have.
    spare_pages: u32, 1.0..=16_777_216.0, Some(64.0);
    /// Speed of a channel.
    channel_mb_per_s: f64, 1.0..=1e6, Some(800.0);
    /// Speed of the link to the host.
    link_mb_per_s: f64, 1.0..=1e6, None;
    /// Reads and writes share the link (SATA).
    half_duplex: bool, 0.0..=1.0, Some(0.0);
    /// Capacity of the write cache; at least a page.
    cache_kib: u32, 1.0..=67_108_864.0, None;
    /// Time of a write that finds room in the cache, beside its transfer.
    write_us: f64, 0.0..=1e6, None;
    /// Time of a flush when the cache is empty.
    flush_us: f64, 0.0..=1e7, Some(100.0);
    /// Time that FUA adds to the program.
    fua_us: f64, 0.0..=1e7, Some(50.0);
    /// Time of a discard or a write of zeros, which change the mapping only.
    discard_us: f64, 0.0..=1e7, Some(100.0);
    /// The cache survives a power cut.
    power_loss_protected: bool, 0.0..=1.0, Some(0.0);
    /// Times on a die vary uniformly by this fraction, up and down.
    spread: f64, 0.0..=0.9, Some(0.1);
}

/// Sequential write streams that the drive distinguishes.
const STREAMS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When it has finished all that it has begun.
    free_ns: u64,
    /// Pages in the cache for this die: random and sequential ones.
    pending: [u32; 2],
    /// Erased pages.
    spare: u32,
    /// Pages that cleaning in idle time will restore.
    owed: u32,
    /// Its last operation was a program or a cleaning.
    wrote: bool,
}

impl Die {
    const fn pending(&self) -> u32 {
        self.pending[0] + self.pending[1]
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: Parameters,
    random: Random,
    dies: Vec<Die>,
    channel_free_ns: Vec<u64>,
    /// The controller's serial part of reads.
    command_free_ns: u64,
    /// Link, for reads and for writes.
    link_free_ns: [u64; 2],
    /// Pages in the cache.
    cached: u32,
    cache_pages: u32,
    /// Bytes in the cache that do not fill a page yet.
    partial_bytes: u64,
    next_die: usize,
    streams: [u64; STREAMS],
    next_stream: usize,
}

impl Ssd {
    /// A drive after long use, with an empty cache. No die has spare pages beyond its last
    /// cleaning's, and each die is at another point between two cleanings.
    pub fn new(parameters: Parameters, seed: u64) -> Self {
        let dies = parameters.channels as usize * parameters.ways as usize;
        let cache_bytes = u64::from(parameters.cache_kib) * 1024;
        // A cache of at most 64 GiB has fewer pages than the type holds.
        let cache_pages = (cache_bytes / u64::from(parameters.page_bytes)).max(1) as u32;
        let mut random = Random::new(seed);
        // Below `clean_pages`, which the type holds.
        let mut spare = || random.below(u64::from(parameters.clean_pages)) as u32;
        Ssd {
            parameters,
            dies: (0..dies).map(|_| Die { spare: spare(), ..Die::default() }).collect(),
            random,
            channel_free_ns: vec![0; parameters.channels as usize],
            command_free_ns: 0,
            link_free_ns: [0; 2],
            cached: 0,
            cache_pages,
            partial_bytes: 0,
            next_die: 0,
            streams: [u64::MAX; STREAMS],
            next_stream: 0,
        }
    }

    fn vary(&mut self, us: f64) -> u64 {
        let swing = self.parameters.spread * (2.0 * self.random.unit() - 1.0);
        ns(us * (1.0 + swing))
    }

    /// Programs one page, and cleans first if it must.
    fn program(&mut self, die: usize, sequential: bool) {
        let mut cost_ns = self.vary(self.parameters.program_us);
        if !sequential {
            if self.dies[die].spare == 0 {
                cost_ns += self.clean(die);
            }
            let most = self.parameters.spare_pages;
            let die = &mut self.dies[die];
            die.spare -= 1;
            die.owed = (die.owed + 1).min(most);
        }
        let die = &mut self.dies[die];
        die.free_ns += cost_ns;
        die.wrote = true;
    }

    /// Makes spare pages; returns the time.
    fn clean(&mut self, die: usize) -> u64 {
        let pages = self.parameters.clean_pages;
        let die = &mut self.dies[die];
        die.spare += pages;
        die.owed = die.owed.saturating_sub(pages);
        die.wrote = true;
        ns(self.parameters.clean_us)
    }

    /// Programs a page of the cache. The die must become free at some time.
    fn drain_one(&mut self, die: usize) {
        let which = usize::from(self.dies[die].pending[0] == 0);
        self.dies[die].pending[which] -= 1;
        self.cached -= 1;
        self.program(die, which == 1);
    }

    /// Brings the die's own work up to `now`.
    fn advance(&mut self, die: usize, now_ns: u64) {
        while self.dies[die].free_ns < now_ns {
            let state = &self.dies[die];
            if state.pending() > 0 {
                self.drain_one(die);
            } else if state.owed >= self.parameters.clean_pages
                && state.spare < self.parameters.spare_pages
            {
                let cost_ns = self.clean(die);
                self.dies[die].free_ns += cost_ns;
            } else {
                return;
            }
        }
    }

    fn advance_all(&mut self, now_ns: u64) {
        for die in 0..self.dies.len() {
            self.advance(die, now_ns);
        }
    }

    /// Reserves the link; returns when the transfer would end if it began at once.
    fn transfer(&mut self, now_ns: u64, bytes: u64, write: bool) -> u64 {
        let side = usize::from(write && !self.parameters.half_duplex);
        let time_ns = transfer_ns(bytes, self.parameters.link_mb_per_s);
        let end_ns = self.link_free_ns[side].max(now_ns) + time_ns;
        self.link_free_ns[side] = end_ns;
        end_ns
    }

    fn read(&mut self, now_ns: u64, sector: u64, bytes: u64) -> u64 {
        let page_bytes = u64::from(self.parameters.page_bytes);
        let begin_ns = now_ns + ns(self.parameters.controller_us);
        let turnaround_ns = ns(self.parameters.turnaround_us);
        let link_ns = self.transfer(now_ns, bytes, false);
        let command_ns = self.command_free_ns.max(now_ns) + ns(self.parameters.command_us);
        self.command_free_ns = command_ns;
        let (start, end) = (sector * SECTOR_BYTES, sector * SECTOR_BYTES + bytes);
        let (mut first_ns, mut last_ns, mut channel_ns) = (u64::MAX, 0, 0);
        for page in start / page_bytes..end.div_ceil(page_bytes) {
            let part = end.min((page + 1) * page_bytes) - start.max(page * page_bytes);
            // The remainder is a number of dies.
            let die = (page % self.dies.len() as u64) as usize;
            let channel = die % self.channel_free_ns.len();
            let moved_ns = transfer_ns(part, self.parameters.channel_mb_per_s);
            self.advance(die, now_ns);
            let read_ns = self.vary(self.parameters.read_us);
            let state = &mut self.dies[die];
            let turned_ns = if std::mem::take(&mut state.wrote) { turnaround_ns } else { 0 };
            state.free_ns = (state.free_ns + turned_ns).max(begin_ns) + read_ns + moved_ns;
            (first_ns, last_ns) = (first_ns.min(state.free_ns), last_ns.max(state.free_ns));
            let free_ns = &mut self.channel_free_ns[channel];
            *free_ns = (*free_ns).max(now_ns) + moved_ns;
            channel_ns = channel_ns.max(*free_ns);
        }
        let link = self.parameters.link_mb_per_s;
        let all_ns = first_ns.saturating_add(transfer_ns(bytes, link));
        let tail_ns = last_ns + transfer_ns(bytes.min(page_bytes), link);
        all_ns.max(tail_ns).max(link_ns).max(channel_ns).max(command_ns)
    }

    /// Whether the write continues an earlier one. Remembers where it ends.
    fn is_sequential(&mut self, sector: u64, end: u64) -> bool {
        let stream = self.streams.iter().position(|stream| *stream == sector);
        let slot = stream.unwrap_or(self.next_stream);
        self.streams[slot] = end;
        if stream.is_none() {
            self.next_stream = (self.next_stream + 1) % STREAMS;
        }
        stream.is_some()
    }

    fn write(&mut self, now_ns: u64, command: &Request, bytes: u64) -> u64 {
        let arrived_ns = self.transfer(now_ns, bytes, true);
        let end = command.end();
        let sequential = self.is_sequential(command.sector, end);
        self.advance_all(now_ns);
        if command.fua && !self.parameters.power_loss_protected {
            return self.write_through(arrived_ns, bytes, sequential);
        }
        self.partial_bytes += bytes;
        let page_bytes = u64::from(self.parameters.page_bytes);
        let mut room_ns = now_ns;
        while self.partial_bytes >= page_bytes {
            self.partial_bytes -= page_bytes;
            room_ns = room_ns.max(self.make_room());
            let die = self.next_die;
            self.next_die = (self.next_die + 1) % self.dies.len();
            let state = &mut self.dies[die];
            state.free_ns = state.free_ns.max(now_ns);
            state.pending[usize::from(sequential)] += 1;
            self.cached += 1;
        }
        arrived_ns.max(room_ns) + ns(self.parameters.write_us)
    }

    /// Waits until the cache has room for a page; returns when. The die that is free first begins
    /// its next page.
    fn make_room(&mut self) -> u64 {
        let mut room_ns = 0;
        while self.cached >= self.cache_pages {
            let busy = (0..self.dies.len()).filter(|die| self.dies[*die].pending() > 0);
            let Some(die) = busy.min_by_key(|die| self.dies[*die].free_ns) else { break };
            room_ns = self.dies[die].free_ns;
            self.drain_one(die);
        }
        room_ns
    }

    fn write_through(&mut self, arrived_ns: u64, bytes: u64, sequential: bool) -> u64 {
        let mut done_ns = arrived_ns;
        for _ in 0..bytes.div_ceil(u64::from(self.parameters.page_bytes)) {
            let die = self.next_die;
            self.next_die = (self.next_die + 1) % self.dies.len();
            self.dies[die].free_ns = self.dies[die].free_ns.max(arrived_ns);
            self.program(die, sequential);
            done_ns = done_ns.max(self.dies[die].free_ns);
        }
        done_ns + ns(self.parameters.fua_us)
    }

    fn flush(&mut self, now_ns: u64) -> u64 {
        let end_ns = ns(self.parameters.flush_us);
        if self.parameters.power_loss_protected {
            return now_ns + end_ns;
        }
        self.advance_all(now_ns);
        if self.partial_bytes > 0 {
            self.partial_bytes = 0;
            let die = self.next_die;
            self.dies[die].free_ns = self.dies[die].free_ns.max(now_ns);
            self.program(die, false);
        }
        let mut done_ns = now_ns;
        for die in 0..self.dies.len() {
            while self.dies[die].pending() > 0 {
                self.drain_one(die);
            }
            done_ns = done_ns.max(self.dies[die].free_ns);
        }
        done_ns + end_ns
    }

    fn discard(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.advance_all(now_ns);
        let pages = bytes / u64::from(self.parameters.page_bytes);
        // The quotient is limited by what a die can have before it is cast.
        let most = self.parameters.spare_pages;
        let each = (pages / self.dies.len() as u64).min(u64::from(most)) as u32;
        for die in &mut self.dies {
            die.spare = die.spare.saturating_add(each).min(most.max(die.spare));
            die.owed = die.owed.saturating_sub(each);
        }
        now_ns + ns(self.parameters.discard_us)
    }
}

impl Model for Ssd {
    fn depth(&self) -> u32 {
        self.parameters.queue_depth
    }

    fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
        let bytes = u64::from(command.sectors) * SECTOR_BYTES;
        let done_ns = match command.operation {
            Operation::Read if bytes > 0 => self.read(now.0, command.sector, bytes),
            Operation::Write if bytes > 0 => self.write(now.0, command, bytes),
            Operation::Read | Operation::Write => now.0 + ns(self.parameters.controller_us),
            Operation::Flush => self.flush(now.0),
            Operation::Discard | Operation::WriteZeroes => self.discard(now.0, bytes),
        };
        Nanos(done_ns.max(now.0))
    }
}
