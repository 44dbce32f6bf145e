//! The log's bytes: which are records, and what the others mean. Pure.
//!
//! A record is a word with its length, a checksum (four bytes each), and a payload. The checksum
//! includes the position in the log. So a record that was copied into a row, or left by an older
//! log, is not a record at another position. The word's highest bit marks the first record of a
//! flush. A flush begins once the one before it is synced, so a marked record proves that
//! everything before it was durable.
//!
//! Bytes that are not a record are *torn*, the remains of a flush that a power cut interrupted, in
//! two cases: no complete record follows; or they lie in the last flush and one of its sectors is
//! missing. Otherwise they are *damage*.

use crate::record::Record;

/// Bytes before a record's payload.
pub(crate) const HEADER: usize = 8;
const BEGINS_FLUSH: u32 = 1 << 31;
/// A unit that a device writes completely or not at all.
const SECTOR: usize = 512;

/// The header of a record that begins at LSN `begin`; `sum` is its payload's CRC-32C.
pub(crate) fn header(len: usize, sum: u32, begin: u64, begins_flush: bool) -> [u8; HEADER] {
    // A record is far below 2 GiB.
    let word = len as u32 | if begins_flush { BEGINS_FLUSH } else { 0 };
    let mut out = [0; HEADER];
    out[..4].copy_from_slice(&word.to_le_bytes());
    out[4..].copy_from_slice(&checksum(word, sum, begin).to_le_bytes());
    out
}

fn checksum(word: u32, sum: u32, begin: u64) -> u32 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes[8..].copy_from_slice(&begin.to_le_bytes());
    crc32c::crc32c(&bytes)
}

/// A record that is whole.
struct Whole {
    record: Record,
    /// With its header.
    len: usize,
    begins_flush: bool,
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    let (word, _) = bytes.get(at..)?.split_first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

fn whole_at(bytes: &[u8], at: usize, start: u64) -> Option<Whole> {
    let (word, sum) = (word_at(bytes, at)?, word_at(bytes, at + 4)?);
    let from = at + HEADER;
    let payload = bytes.get(from..from + (word & !BEGINS_FLUSH) as usize)?;
    // Where no record begins, this fails after a few bytes; a checksum would cost more.
    let record = Record::decode(payload)?;
    let right = checksum(word, crc32c::crc32c(payload), start + at as u64) == sum;
    let begins_flush = word & BEGINS_FLUSH != 0;
    right.then_some(Whole { record, len: HEADER + payload.len(), begins_flush })
}

/// Bytes that were durable once and are not records now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// LSN of its first byte, and of the byte after it.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Number of complete records before it.
    pub(crate) after: usize,
}

/// What there is in a log.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Complete records with their LSNs: each the offset of its end.
    pub(crate) records: Vec<(u64, Record)>,
    /// LSN of the end: the bytes after it are torn.
    pub(crate) end: u64,
    pub(crate) torn_bytes: u64,
    pub(crate) damage: Vec<Damage>,
}

/// Reads the log from LSN `start` on. Everything before `durable` is known to have been durable.
pub(crate) fn read(bytes: &[u8], start: u64, durable: u64) -> Found {
    let lsn = |at: usize| start + at as u64;
    let (mut found, mut durable, mut at) = (Found::default(), durable, 0);
    while at < bytes.len() {
        if let Some(whole) = whole_at(bytes, at, start) {
            if whole.begins_flush {
                durable = durable.max(lsn(at));
            }
            at += whole.len;
            found.records.push((lsn(at), whole.record));
            continue;
        }
        let next = (at + 1..bytes.len()).find(|&next| whole_at(bytes, next, start).is_some());
        let to = next.unwrap_or(bytes.len());
        found.damage.push(Damage { from: lsn(at), to: lsn(to), after: found.records.len() });
        at = to;
    }
    let torn = found.damage.iter().position(|it| {
        let (from, to) = ((it.from - start) as usize, (it.to - start) as usize);
        it.from >= durable && (to == bytes.len() || never_came(&bytes[from..to]))
    });
    found.end = lsn(bytes.len());
    if let Some(torn) = torn {
        let first = found.damage[torn];
        found.records.truncate(first.after);
        found.damage.truncate(torn);
        found.torn_bytes = found.end - first.from;
        found.end = first.from;
    }
    found
}

/// Whether a part of these bytes never reached the device: unwritten sectors read as zeroes.
fn never_came(bytes: &[u8]) -> bool {
    let mut zeroes = 0;
    word_at(bytes, 0) == Some(0)
        || bytes.iter().any(|&byte| {
            zeroes = if byte == 0 { zeroes + 1 } else { 0 };
            zeroes >= SECTOR
        })
}

/// Bytes to write over the beginning of a damage, so that it counts as one empty record. `None` if
/// it is shorter than any record.
pub(crate) fn pass_over(damage: Damage, bytes: &[u8]) -> Option<[u8; HEADER + 1]> {
    let mut payload = bytes.get(HEADER..).filter(|rest| !rest.is_empty())?.to_vec();
    payload[0] = Record::GAP;
    let mut out = [0; HEADER + 1];
    let header = header(payload.len(), crc32c::crc32c(&payload), damage.from, false);
    out[..HEADER].copy_from_slice(&header);
    out[HEADER] = Record::GAP;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Write;

    const START: u64 = 5000;

    fn commit(byte: u8, len: usize) -> Record {
        Record::Commit(vec![Write::Append { table: 1, row: vec![byte; len] }])
    }

    /// Flushes with these numbers of records: the bytes, and the positions of the records.
    fn log(flushes: &[usize], row: usize) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut begins) = (Vec::new(), Vec::new());
        for &records in flushes {
            for at in 0..records {
                let payload = commit(begins.len() as u8 + 1, row).encode();
                let sum = crc32c::crc32c(&payload);
                begins.push(bytes.len());
                let begin = START + bytes.len() as u64;
                bytes.extend(header(payload.len(), sum, begin, at == 0));
                bytes.extend(payload);
            }
        }
        (bytes, begins)
    }

    /// Each bit of a log is flipped in turn. All records before its record are found. Either the
    /// log ends there, and nothing follows; or the damage is found, and so are all records after
    /// it.
    #[test]
    fn every_wrong_bit_is_torn_at_the_end_and_damage_elsewhere() {
        let (bytes, begins) = log(&[2, 3, 1], 20);
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let found = read(&wrong, START, 0);
            let at = begins.iter().rposition(|&begin| begin <= bit / 8).unwrap();
            if at == begins.len() - 1 {
                assert_eq!((found.records.len(), found.damage.len()), (at, 0), "bit {bit}");
                assert_eq!(found.end, START + begins[at] as u64);
                assert_eq!(found.torn_bytes, (bytes.len() - begins[at]) as u64);
                // This differs if it is known to have been durable.
                let found = read(&wrong, START, START + bytes.len() as u64);
                assert_eq!(found.damage.len(), 1, "bit {bit}");
                assert_eq!(found.end, START + bytes.len() as u64);
                continue;
            }
            let (from, to) = (START + begins[at] as u64, START + begins[at + 1] as u64);
            assert_eq!(found.damage, [Damage { from, to, after: at }], "bit {bit}");
            assert_eq!(found.records.len(), begins.len() - 1);
            assert_eq!((found.end, found.torn_bytes), (START + bytes.len() as u64, 0));
        }
    }

    /// A log that is cut at any position ends with its last complete record.
    #[test]
    fn a_log_cut_anywhere_is_torn() {
        let (bytes, begins) = log(&[1, 2, 1], 20);
        for len in 0..=bytes.len() {
            let found = read(&bytes[..len], START, 0);
            let ends = begins.iter().skip(1).copied().chain([bytes.len()]);
            let whole = ends.filter(|&end| end <= len).count();
            assert_eq!((found.records.len(), found.damage.len()), (whole, 0), "{len} bytes");
        }
    }

    /// The sectors of one flush may reach the device in any order: the last flush ends at the first
    /// missing one. In an earlier flush that is damage.
    #[test]
    fn a_sector_that_never_came_ends_the_last_flush_only() {
        let (bytes, begins) = log(&[4, 4], 700);
        for missing in 0..bytes.len() / SECTOR {
            let mut wrong = bytes.clone();
            let sector = missing * SECTOR..(missing + 1) * SECTOR;
            wrong[sector.clone()].fill(0);
            let found = read(&wrong, START, 0);
            let at = begins.iter().rposition(|&begin| begin <= sector.start).unwrap();
            // The sector may hold the end of one record and the beginning of the next.
            if sector.start >= begins[4] {
                assert_eq!((found.records.len(), found.damage.len()), (at, 0), "{missing}");
            } else if sector.end <= begins[4] {
                assert_eq!((found.damage.len(), found.damage[0].after), (1, at), "{missing}");
            }
        }
    }

    /// A record inside a row, and one of an older log at another position, do not count.
    #[test]
    fn a_record_counts_at_its_own_place_only() {
        let (inner, _) = log(&[1, 1], 20);
        let payload = Record::Commit(vec![Write::Append { table: 1, row: inner.clone() }]).encode();
        let mut bytes = header(payload.len(), crc32c::crc32c(&payload), START, true).to_vec();
        bytes.extend(payload);
        bytes[HEADER + 1] ^= 1;
        bytes.extend(&inner);
        let found = read(&bytes, START, 0);
        assert_eq!((found.records.len(), found.damage.len(), found.end), (0, 0, START));
    }

    /// Skipped bytes are one empty record; all others stay.
    #[test]
    fn a_damage_that_is_passed_over_is_a_record_that_says_nothing() {
        let (mut bytes, begins) = log(&[1, 2, 1], 20);
        bytes[begins[1] + 2] ^= 1;
        bytes[begins[2] + 30] ^= 1;
        let found = read(&bytes, START, 0);
        let [damage] = found.damage[..] else { panic!("{found:?}") };
        let (from, to) = (begins[1], begins[3]);
        assert_eq!((damage.from, damage.to), (START + from as u64, START + to as u64));
        let over = pass_over(damage, &bytes[from..to]).unwrap();
        bytes[from..from + over.len()].copy_from_slice(&over);
        let found = read(&bytes, START, 0);
        assert!(found.damage.is_empty());
        let said: Vec<_> = found.records.into_iter().map(|(_, record)| record).collect();
        assert_eq!(said, [commit(1, 20), Record::Gap, commit(4, 20)]);
        assert_eq!(pass_over(damage, &[1; HEADER]), None);
    }
}
