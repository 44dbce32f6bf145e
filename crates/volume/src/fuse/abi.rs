//! Requests of the kernel as `linux/fuse.h` lays them out, for [`super::ring`]. The library that
//! reads `/dev/fuse` has them for itself.

use super::{DISK, Disk, FILE_NAME, ROOT};
use crate::buffer::Buffer;
use crate::engine::{Completion, Submission};
use headworks_policy::block::{Operation, SECTOR_BYTES};

/// What every request begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) operation: u32,
    pub(super) unique: u64,
    node: u64,
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Header {
        Header {
            // Four bytes fit.
            operation: number::<4>(bytes, 4) as u32,
            unique: number::<8>(bytes, 8),
            node: number::<8>(bytes, 16),
        }
    }
}

/// A number of `N` bytes.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(number)
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// So many bytes of the payload.
    Bytes(usize),
    /// An errno.
    Error(i32),
    /// The engine answers.
    Later,
}

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const FALLOCATE: u32 = 43;

// How a file is opened.
const DIRECT_IO: u32 = 1 << 0;
const NOFLUSH: u32 = 1 << 5;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Never asked again: neither size nor name ever changes.
const FOREVER_S: u64 = 1 << 30;

/// Bytes that a write wrote, for its answer.
pub(super) fn length(operation: u32, arguments: &[u8]) -> u32 {
    if operation == WRITE { number::<4>(arguments, 16) as u32 } else { 0 }
}

/// The answer of the engine, in the payload. A write answers its length, a read its data.
pub(super) fn finish(written: u32, data: &[u8], payload: &mut [u8]) -> usize {
    if written > 0 {
        return put(payload, &[u64::from(written)]);
    }
    payload[..data.len()].copy_from_slice(data);
    data.len()
}

/// Puts numbers of eight bytes into the payload.
fn put(payload: &mut [u8], numbers: &[u64]) -> usize {
    for (place, number) in payload.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    8 * numbers.len()
}

/// Serves a request. `sent` bytes of the payload came with it; answers go there too.
pub(super) fn serve(
    disk: &Disk,
    header: Header,
    arguments: &[u8],
    payload: &mut Buffer,
    sent: usize,
    done: Completion,
) -> Answer {
    let engine = &disk.engine;
    match header.operation {
        READ => read(disk, arguments, payload, done),
        WRITE => write(disk, arguments, payload, sent, done),
        FSYNC => {
            engine.submit(Submission::new(Operation::Flush, 0, 0, done));
            Answer::Later
        }
        FALLOCATE => {
            let (offset, len) = (number::<8>(arguments, 8), number::<8>(arguments, 16));
            let unmap = match number::<4>(arguments, 24) as i32 & !libc::FALLOC_FL_KEEP_SIZE {
                libc::FALLOC_FL_PUNCH_HOLE => true,
                libc::FALLOC_FL_ZERO_RANGE => false,
                _ => return Answer::Error(libc::EOPNOTSUPP),
            };
            if !(offset | len).is_multiple_of(SECTOR_BYTES) {
                return Answer::Error(libc::EINVAL);
            }
            disk.zero(offset, len, unmap, done);
            Answer::Later
        }
        LOOKUP => {
            let name = payload[..sent].split(|&byte| byte == 0).next();
            if header.node != ROOT.0 || name != Some(FILE_NAME.as_bytes()) {
                return Answer::Error(libc::ENOENT);
            }
            let node = [DISK.0, 0, FOREVER_S, FOREVER_S, 0];
            let at = put(payload, &node);
            Answer::Bytes(at + put(&mut payload[at..], &attributes(disk, DISK.0)))
        }
        GETATTR => {
            let at = put(payload, &[FOREVER_S, 0]);
            Answer::Bytes(at + put(&mut payload[at..], &attributes(disk, header.node)))
        }
        OPEN if header.node != DISK.0 => Answer::Error(libc::EISDIR),
        OPEN => {
            let how = DIRECT_IO | PARALLEL_DIRECT_WRITES | NOFLUSH;
            Answer::Bytes(put(payload, &[0, u64::from(how)]))
        }
        OPENDIR => Answer::Bytes(put(payload, &[0, 0])),
        STATFS => {
            // The loop device uses the block size as the grain of discards.
            let sizes = [4096 | 255 << 32, 4096, 0, 0, 0];
            let at = put(payload, &[engine.size_bytes() / 4096, 0, 0, 2, 0]);
            Answer::Bytes(at + put(&mut payload[at..], &sizes))
        }
        RELEASE | RELEASEDIR | FLUSH => Answer::Bytes(0),
        _ => Answer::Error(libc::ENOSYS),
    }
}

fn read(disk: &Disk, arguments: &[u8], payload: &mut Buffer, done: Completion) -> Answer {
    let engine = &disk.engine;
    let offset = number::<8>(arguments, 8);
    // Reads of a file may go beyond its end, those of a device may not.
    let left = engine.size_bytes().saturating_sub(offset);
    let len = number::<4>(arguments, 16).min(left).min(payload.len() as u64) as usize;
    if let Some(read) = disk.read_at_once(offset, &mut payload[..len]) {
        return read.map_or_else(|error| error_of(&error), |()| Answer::Bytes(len));
    }
    engine.submit(Submission::new(Operation::Read, offset, len as u64, done));
    Answer::Later
}

fn write(
    disk: &Disk,
    arguments: &[u8],
    payload: &mut Buffer,
    sent: usize,
    done: Completion,
) -> Answer {
    let engine = &disk.engine;
    let offset = number::<8>(arguments, 8);
    let len = (number::<4>(arguments, 16) as usize).min(sent).min(payload.len());
    match engine.write_now(offset, &payload[..len], false) {
        Some(Ok(())) => Answer::Bytes(put(payload, &[len as u64])),
        Some(Err(error)) => error_of(&error),
        None => {
            engine.submit(Submission::write(offset, Buffer::copy_of(&payload[..len]), done));
            Answer::Later
        }
    }
}

fn error_of(error: &std::io::Error) -> Answer {
    Answer::Error(error.raw_os_error().unwrap_or(libc::EIO))
}

/// `struct fuse_attr`, two numbers of four bytes in each of eight at its end.
fn attributes(disk: &Disk, node: u64) -> [u64; 11] {
    let size = if node == ROOT.0 { 0 } else { disk.engine.size_bytes() };
    let mode = if node == ROOT.0 { libc::S_IFDIR | 0o500 } else { libc::S_IFREG | 0o600 };
    let made = disk.made.duration_since(std::time::UNIX_EPOCH).map_or(0, |made| made.as_secs());
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [node, size, size / 512, made, made, made, 0, pair(0, mode), pair(1, 0), 0, pair(4096, 0)]
}
