//! What a volume may hold: for every sector the writes that could be there, by the order in which
//! requests were submitted and answered.
//!
//! Every write fills its sectors with another number, so that a sector tells which write it is of,
//! and whether it is half of one and half of another.

use headworks_policy::block::SECTOR_BYTES;

pub const SECTOR: usize = SECTOR_BYTES as usize;

/// A moment: the number of submissions and answers before it.
pub type Moment = u64;

/// A write (or zeroing, or discard) that a sector may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it wrote; zero for zeros.
    pub mark: u64,
    pub submitted: Moment,
    pub answered: Option<Moment>,
    /// It is durable: by FUA, or by a flush after it.
    pub durable: bool,
    /// It replaces what was there. A discard may leave everything as it was.
    pub certain: bool,
}

#[derive(Clone)]
pub struct Checker {
    sectors: Vec<Vec<Candidate>>,
}

impl Checker {
    /// A volume of so many sectors, all zeros and durable.
    pub fn new(sectors: usize) -> Checker {
        let zeros =
            Candidate { mark: 0, submitted: 0, answered: Some(0), durable: true, certain: true };
        Checker { sectors: vec![vec![zeros]; sectors] }
    }

    pub fn submitted(&mut self, first: u64, count: u32, mark: u64, at: Moment, certain: bool) {
        for sector in self.range(first, count) {
            sector.push(Candidate { mark, submitted: at, answered: None, durable: false, certain });
        }
    }

    pub fn answered(&mut self, first: u64, count: u32, submitted: Moment, at: Moment, fua: bool) {
        for sector in self.range(first, count) {
            for candidate in sector.iter_mut().filter(|one| one.submitted == submitted) {
                candidate.answered = Some(at);
                candidate.durable |= fua && candidate.certain;
            }
        }
    }

    /// A flush that was submitted at this moment was answered.
    pub fn flushed(&mut self, submitted: Moment) {
        for candidate in self.sectors.iter_mut().flatten() {
            candidate.durable |=
                candidate.certain && candidate.answered.is_some_and(|at| at < submitted);
        }
    }

    /// Forgets what no reader can see any more, read or after a cut, from this moment on.
    pub fn prune(&mut self, oldest: Moment) {
        for sector in &mut self.sectors {
            let durable = sector
                .iter()
                .filter(|one| one.durable && one.answered.is_some_and(|at| at < oldest))
                .map(|one| one.submitted)
                .max()
                .unwrap_or(0);
            sector.retain(|one| one.answered.is_none_or(|at| at >= durable));
        }
    }

    /// Whether a read that was submitted at this moment and is answered may have found these bytes.
    pub fn check_read(&self, first: u64, bytes: &[u8], submitted: Moment) -> Result<(), String> {
        self.check(first, bytes, |sector, one| {
            !sector.iter().any(|other| {
                // Another one replaced it, from its submission to its answer, before the read.
                other.certain
                    && other.answered.is_some_and(|at| at < submitted)
                    && one.answered.is_some_and(|at| at < other.submitted)
            })
        })
    }

    /// Whether these bytes may be there after a power cut. `torn`: a sector may begin with one
    /// write and end with another.
    pub fn check_cut(&self, first: u64, bytes: &[u8], torn: bool) -> Result<u64, String> {
        let mut half = 0;
        for (at, found) in bytes.chunks(SECTOR).enumerate() {
            let number = first + at as u64;
            let sector = &self.sectors[number as usize];
            let possible: Vec<u64> = sector
                .iter()
                .filter(|one| {
                    !sector.iter().any(|other| {
                        other.durable && one.answered.is_some_and(|at| at < other.submitted)
                    })
                })
                .map(|one| one.mark)
                .collect();
            let whole = possible.iter().any(|mark| shared_prefix(*mark, found) == SECTOR);
            let mixed = || {
                possible.iter().any(|new| {
                    let upto = shared_prefix(*new, found);
                    possible.iter().any(|old| (0..=upto).any(|cut| ends_with(*old, found, cut)))
                })
            };
            if whole {
                continue;
            }
            if torn && mixed() {
                half += 1;
                continue;
            }
            return Err(format!(
                "sector {number} begins with {:x}, possible are {sector:x?}",
                mark_of(found)
            ));
        }
        Ok(half)
    }

    fn check(
        &self,
        first: u64,
        bytes: &[u8],
        possible: impl Fn(&[Candidate], &Candidate) -> bool,
    ) -> Result<(), String> {
        for (at, found) in bytes.chunks(SECTOR).enumerate() {
            let number = first + at as u64;
            let sector = &self.sectors[number as usize];
            let mark = mark_of(found);
            if shared_prefix(mark, found) != SECTOR {
                return Err(format!("sector {number} is half {mark:x} and half another"));
            }
            if !sector.iter().any(|one| one.mark == mark && possible(sector, one)) {
                return Err(format!("sector {number} holds {mark:x}, possible are {sector:x?}"));
            }
        }
        Ok(())
    }

    fn range(&mut self, first: u64, count: u32) -> &mut [Vec<Candidate>] {
        &mut self.sectors[first as usize..][..count as usize]
    }
}

/// Fills sectors with a mark.
pub fn fill(bytes: &mut [u8], mark: u64) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&mark.to_le_bytes());
    }
}

fn mark_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[..8].try_into().unwrap())
}

/// Bytes at the beginning that the mark would have written.
fn shared_prefix(mark: u64, sector: &[u8]) -> usize {
    let bytes = mark.to_le_bytes();
    sector.iter().enumerate().take_while(|(at, byte)| **byte == bytes[at % 8]).count()
}

fn ends_with(mark: u64, sector: &[u8], from: usize) -> bool {
    let bytes = mark.to_le_bytes();
    sector.iter().enumerate().skip(from).all(|(at, byte)| *byte == bytes[at % 8])
}
