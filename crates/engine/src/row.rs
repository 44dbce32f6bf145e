//! Rows and keys of the drivers: fixed fields at fixed offsets, padded to a realistic length.

/// A key of several numbers that sorts like them.
pub(crate) fn key(parts: &[u32]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

/// The numbers of a key.
pub(crate) fn part(key: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&key[at * 4..at * 4 + 4]);
    u32::from_be_bytes(bytes)
}

pub(crate) fn get32(row: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&row[at..at + 4]);
    u32::from_le_bytes(bytes)
}

pub(crate) fn put32(row: &mut [u8], at: usize, value: u32) {
    row[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get64(row: &[u8], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&row[at..at + 8]);
    i64::from_le_bytes(bytes)
}

pub(crate) fn put64(row: &mut [u8], at: usize, value: i64) {
    row[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
