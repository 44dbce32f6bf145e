//! `powercut`: a volatile write cache that can lose its power.
//!
//! Writes stay in the cache until a flush, a write with FUA of the same sectors, or until the cache
//! is full. Then randomly chosen blocks are written out, as a disk does. At a power cut
//! every sector still in the cache is dropped, kept, or torn, by the seed: a torn one has its first
//! bytes new and the rest as before. A sector is as large as the volume's block, since a device
//! promises to write that much whole. From then on everything fails with EIO until the power comes
//! back.
//!
//! Discards, and zeroing of more than 1 MiB, bypass the cache. They are durable early, which a
//! device may always do.

use super::settings::{LayerError, Settings};
use crate::buffer::Buffer;
use crate::store::{Extent, Store};
use headworks_policy::block::SECTOR_BYTES;
use headworks_policy::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a block in the cache: one bit for each 512 of them. No sector is larger.
const BLOCK_BYTES: u64 = 4096;
const SECTOR: usize = SECTOR_BYTES as usize;
const BLOCK: usize = BLOCK_BYTES as usize;

/// Zeroing of up to this many bytes goes through the cache.
const ZEROES_BYTES_MAX: u64 = 1 << 20;

/// Most bytes that are written out at a time.
const OUT_BYTES_MAX: usize = 1 << 20;

/// How a power cut goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerCutSettings {
    /// Seed for the fate of every sector at the first cut; each later cut uses the next number.
    /// Without it each mount draws a seed, which the cut reports.
    pub seed: Option<u64>,
    /// Most bytes that wait for a flush. A larger cache loses more at a cut.
    pub cache_bytes: u64,
    /// Fraction of the unflushed sectors that are kept.
    pub keep: f64,
    /// Fraction that are torn.
    pub torn: f64,
    /// The power is cut at this write, counted from the start.
    pub after_writes: Option<u64>,
}

impl Default for PowerCutSettings {
    fn default() -> Self {
        PowerCutSettings {
            seed: None,
            cache_bytes: 64 << 20,
            keep: 0.5,
            torn: 0.0,
            after_writes: None,
        }
    }
}

impl PowerCutSettings {
    /// An example of valid settings.
    pub(super) const EXAMPLE: &'static str =
        "powercut:seed=7,cache=64M,keep=0.5,torn=0.1,after=5000";

    /// From text.
    pub(super) fn parse(text: &str) -> Result<PowerCutSettings, LayerError> {
        let mut settings = Settings::new(text, Self::EXAMPLE)?;
        let default = PowerCutSettings::default();
        let parsed = PowerCutSettings {
            seed: settings.take_number("seed")?,
            cache_bytes: settings.take_bytes("cache")?.unwrap_or(default.cache_bytes),
            keep: settings.take_fraction("keep")?.unwrap_or(default.keep),
            torn: settings.take_fraction("torn")?.unwrap_or(default.torn),
            after_writes: settings.take_number("after")?,
        };
        if parsed.keep + parsed.torn > 1.0 {
            return Err(settings.error("keep and torn are fractions of the same sectors"));
        }
        settings.finish()?;
        Ok(parsed)
    }
}

/// What a cut did to the sectors that were not written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// As if never written.
    pub dropped: u64,
    /// Written after all.
    pub kept: u64,
    /// Half of each.
    pub torn: u64,
    /// The seed that was used: with `powercut:seed=…` the same writes have the same fate.
    #[serde(default)]
    pub seed: u64,
}

struct Block {
    data: Box<[u8; BLOCK]>,
    /// A bit for each sector that is newer than the store.
    dirty: u8,
}

struct State {
    powered: bool,
    cache: BTreeMap<u64, Block>,
    seed: u64,
    random: Random,
    writes: u64,
    last_cut: CutReport,
}

/// A store whose power can be cut.
pub struct PowerCut {
    under: Arc<dyn Store>,
    settings: PowerCutSettings,
    /// Bytes of a sector of the volume: [`SECTOR`] to [`BLOCK`], a power of two.
    sector_bytes: usize,
    state: RwLock<State>,
}

/// Bits of the sectors of a block from byte `from` to byte `to` within it.
fn sectors(from: usize, to: usize) -> u8 {
    // At most eight sectors: the shifts stay within 16 bits.
    let upto = |byte: usize| (1u16 << (byte / SECTOR)) - 1;
    (upto(to) & !upto(from)) as u8
}

/// Blocks that a range touches: number, first and last byte within it.
fn blocks(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let start = block * BLOCK_BYTES;
        // Both are at most the size of a block.
        let from = offset.saturating_sub(start) as usize;
        (block, from, (end - start).min(BLOCK_BYTES) as usize)
    })
}

/// A new random seed, short enough to be typed.
fn drawn() -> u64 {
    let mut seed = 0u32;
    // SAFETY: writes four bytes to a number of four bytes.
    let count = unsafe { libc::getrandom((&raw mut seed).cast(), size_of_val(&seed), 0) };
    if count == size_of_val(&seed) as isize { seed.into() } else { std::process::id().into() }
}

fn off() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl PowerCut {
    /// A cache before `under`, for a volume with sectors of `sector_bytes`: 512 to 4096, a power
    /// of two.
    pub fn new(under: Arc<dyn Store>, settings: PowerCutSettings, sector_bytes: u32) -> PowerCut {
        let seed = settings.seed.unwrap_or_else(drawn);
        let state = State {
            powered: true,
            cache: BTreeMap::new(),
            seed,
            random: Random::new(seed),
            writes: 0,
            last_cut: CutReport::default(),
        };
        let sector_bytes = (sector_bytes as usize).clamp(SECTOR, BLOCK);
        PowerCut { under, settings, sector_bytes, state: RwLock::new(state) }
    }

    fn reading(&self) -> io::Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.powered { Ok(state) } else { Err(off()) }
    }

    fn writing(&self) -> io::Result<RwLockWriteGuard<'_, State>> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.powered { Ok(state) } else { Err(off()) }
    }

    /// Cuts the power. Without effect if it is off.
    pub fn cut(&self) -> CutReport {
        match self.writing() {
            Ok(mut state) => self.cut_now(&mut state),
            Err(_) => CutReport::default(),
        }
    }

    /// The power comes back; what was lost stays lost.
    pub fn restore(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !state.powered {
            state.seed = state.seed.wrapping_add(1);
            state.random = Random::new(state.seed);
            state.powered = true;
        }
    }

    /// Whether the power is on.
    pub fn is_on(&self) -> bool {
        self.reading().is_ok()
    }

    /// Bytes that a cut could lose.
    pub fn unflushed_bytes(&self) -> u64 {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.cache.len() as u64 * BLOCK_BYTES
    }

    /// What the last cut did.
    pub fn last_cut(&self) -> CutReport {
        self.state.read().unwrap_or_else(PoisonError::into_inner).last_cut
    }

    fn cut_now(&self, state: &mut State) -> CutReport {
        state.last_cut = CutReport { seed: state.seed, ..CutReport::default() };
        for (number, block) in std::mem::take(&mut state.cache) {
            for from in (0..BLOCK).step_by(self.sector_bytes) {
                let to = from + self.sector_bytes;
                let dirty = block.dirty & sectors(from, to);
                if dirty != 0 {
                    let at = number * BLOCK_BYTES + from as u64;
                    self.decide(state, at, dirty >> (from / SECTOR), &block.data[from..to]);
                }
            }
        }
        let _ = self.under.flush();
        state.powered = false;
        state.last_cut
    }

    /// The fate of the sector at byte `at`. Bits of `dirty` tell which of its parts `data` has.
    fn decide(&self, state: &mut State, at: u64, dirty: u8, data: &[u8]) {
        let fate = state.random.unit();
        if fate >= self.settings.torn + self.settings.keep {
            state.last_cut.dropped += 1;
            return;
        }
        let is_torn = fate < self.settings.torn;
        // From one byte to all but one are new.
        let new = if is_torn {
            1 + state.random.below(data.len() as u64 - 1) as usize
        } else {
            data.len()
        };
        let mut bytes = Buffer::new(data.len());
        // An error of the store loses the sector, as a power cut may.
        if self.under.read(at, &mut bytes).is_err() {
            return;
        }
        for part in (0..data.len()).step_by(SECTOR) {
            let to = (part + SECTOR).min(new);
            if dirty & (1 << (part / SECTOR)) != 0 && part < to {
                bytes[part..to].copy_from_slice(&data[part..to]);
            }
        }
        if is_torn {
            state.last_cut.torn += 1;
        } else {
            state.last_cut.kept += 1;
        }
        let _ = self.under.write(at, &bytes, false);
    }

    /// Writes one block out and removes it from the cache.
    fn write_out(&self, state: &mut State, number: u64) -> io::Result<()> {
        let Some(block) = state.cache.get(&number) else { return Ok(()) };
        let mut sector = 0;
        while sector < 8 {
            let run = (sector..8).take_while(|at| block.dirty & (1 << at) != 0).count();
            if run > 0 {
                let from = sector * SECTOR;
                self.under.write(
                    number * BLOCK_BYTES + from as u64,
                    &block.data[from..from + run * SECTOR],
                    false,
                )?;
            }
            sector += run + 1;
        }
        state.cache.remove(&number);
        Ok(())
    }

    /// Writes the whole cache out, with neighbouring blocks in one write.
    fn write_all_out(&self, state: &mut State) -> io::Result<()> {
        let mut run = Buffer::new(OUT_BYTES_MAX);
        while let Some(first) = state.cache.keys().next().copied() {
            let mut len = 0;
            while len < OUT_BYTES_MAX
                && let Some(block) = state.cache.get(&(first + (len / BLOCK) as u64))
                && block.dirty == u8::MAX
            {
                run[len..len + BLOCK].copy_from_slice(&block.data[..]);
                len += BLOCK;
            }
            if len == 0 {
                self.write_out(state, first)?;
                continue;
            }
            self.under.write(first * BLOCK_BYTES, &run[..len], false)?;
            for number in first..first + (len / BLOCK) as u64 {
                state.cache.remove(&number);
            }
        }
        Ok(())
    }

    fn put(&self, state: &mut State, offset: u64, bytes: &[u8]) {
        for (number, from, to) in blocks(offset, bytes.len() as u64) {
            // The range begins at `offset`; a block's part of it lies within `bytes`.
            let at = (number * BLOCK_BYTES + from as u64 - offset) as usize;
            let block = state
                .cache
                .entry(number)
                .or_insert_with(|| Block { data: Box::new([0; BLOCK]), dirty: 0 });
            block.data[from..to].copy_from_slice(&bytes[at..at + to - from]);
            block.dirty |= sectors(from, to);
        }
    }

    /// The store is newer than the cache in this range.
    fn forget(state: &mut State, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (first, last) = (offset / BLOCK_BYTES, (offset + len - 1) / BLOCK_BYTES);
        let touched: Vec<u64> =
            state.cache.range(first..=last).map(|(number, _)| *number).collect();
        for number in touched {
            let start = number * BLOCK_BYTES;
            let from = offset.saturating_sub(start) as usize;
            let to = (offset + len - start).min(BLOCK_BYTES) as usize;
            if let Some(block) = state.cache.get_mut(&number) {
                block.dirty &= !sectors(from, to);
                if block.dirty == 0 {
                    state.cache.remove(&number);
                }
            }
        }
    }

    fn shrink(&self, state: &mut State) -> io::Result<()> {
        while state.cache.len() as u64 * BLOCK_BYTES > self.settings.cache_bytes {
            let from = state.random.below(self.under.size_bytes().div_ceil(BLOCK_BYTES));
            let number = state.cache.range(from..).chain(state.cache.range(..from)).next();
            let Some(number) = number.map(|(number, _)| *number) else { break };
            self.write_out(state, number)?;
        }
        Ok(())
    }

    /// Counts a write; the power may be cut before it is done.
    fn count(&self, state: &mut State) -> io::Result<()> {
        state.writes += 1;
        if self.settings.after_writes == Some(state.writes) {
            self.cut_now(state);
            return Err(off());
        }
        Ok(())
    }
}

impl Store for PowerCut {
    fn size_bytes(&self) -> u64 {
        self.under.size_bytes()
    }

    fn identity(&self) -> Option<String> {
        self.under.identity()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.reading()?;
        self.under.read(offset, into)?;
        let end = offset + into.len() as u64;
        for (number, block) in state.cache.range(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)) {
            let start = number * BLOCK_BYTES;
            for sector in (0..8).filter(|sector| block.dirty & (1 << sector) != 0) {
                let at = start + (sector * SECTOR) as u64;
                if at >= offset && at < end {
                    // Requests begin and end at sectors.
                    let to = (at - offset) as usize;
                    into[to..to + SECTOR]
                        .copy_from_slice(&block.data[sector * SECTOR..(sector + 1) * SECTOR]);
                }
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8], fua: bool) -> io::Result<()> {
        let len = from.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.size_bytes()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut state = self.writing()?;
        self.count(&mut state)?;
        if fua {
            self.under.write(offset, from, true)?;
            PowerCut::forget(&mut state, offset, len);
            return Ok(());
        }
        self.put(&mut state, offset, from);
        self.shrink(&mut state)
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.writing()?;
        self.write_all_out(&mut state)?;
        self.under.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.writing()?;
        self.under.discard(offset, len)?;
        PowerCut::forget(&mut state, offset, len);
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.size_bytes()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut state = self.writing()?;
        self.count(&mut state)?;
        if fua || len > ZEROES_BYTES_MAX {
            self.under.write_zeroes(offset, len, fua, unmap)?;
            PowerCut::forget(&mut state, offset, len);
            return Ok(());
        }
        // At most ZEROES_BYTES_MAX.
        self.put(&mut state, offset, &Buffer::zeroed(len as usize));
        self.shrink(&mut state)
    }

    fn is_fast(&self) -> bool {
        self.under.is_fast()
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        let state = self.reading()?;
        let end = (offset + len).div_ceil(BLOCK_BYTES);
        if state.cache.range(offset / BLOCK_BYTES..end).next().is_some() {
            return Ok(vec![Extent { offset, len, allocated: true }]);
        }
        self.under.extents(offset, len)
    }

    fn allocated_bytes(&self) -> Option<u64> {
        self.under.allocated_bytes()
    }
}

#[cfg(test)]
mod tests;
