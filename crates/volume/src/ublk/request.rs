//! What the kernel asks, in the engine's words, and what it is answered. Pure.
//!
//! | block layer | descriptor | engine |
//! | --- | --- | --- |
//! | read, write | the same | the same |
//! | write with FUA | write, `F_FUA` | write that is durable when answered |
//! | flush | flush | flush |
//! | discard | discard | discard |
//! | zeroing that may unmap | write zeroes | zeroing that may unmap |
//! | zeroing that may not | write zeroes, `F_NOUNMAP` | zeroing |

use super::abi::{
    ATTR_FUA, ATTR_ROTATIONAL, ATTR_VOLATILE_CACHE, BasicParameters, DiscardParameters, IO_FUA,
    IO_META, IO_NO_UNMAP, IoDescriptor, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES,
    PARAM_TYPE_BASIC, PARAM_TYPE_DISCARD, Parameters,
};
use headworks_policy::block::{Operation, SECTOR_BYTES};
use std::io;

/// Longest read or write, in bytes. Each tag has a buffer of that size.
pub(super) const TRANSFER_BYTES_MAX: u32 = 256 << 10;

/// Longest discard or zeroing, in sectors: 2 GiB, which fits into a submission.
const RANGE_SECTORS_MAX: u32 = 1 << 22;

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u32,
    pub(super) fua: bool,
    pub(super) unmap: bool,
    /// Metadata, and what somebody waits for: reads, flushes and FUA.
    pub(super) sync: bool,
}

impl Asked {
    /// Understands a descriptor for a device of `size_bytes`.
    ///
    /// # Errors
    /// EOPNOTSUPP for an operation that was not offered; EINVAL for what lies outside the device or is
    /// longer than was agreed upon. The kernel sends neither.
    pub(super) fn decode(descriptor: &IoDescriptor, size_bytes: u64) -> Result<Asked, i32> {
        let flags = descriptor.op_flags;
        // The lowest byte alone.
        let operation = match (flags & 0xff) as u8 {
            OP_READ => Operation::Read,
            OP_WRITE => Operation::Write,
            OP_FLUSH => Operation::Flush,
            OP_DISCARD => Operation::Discard,
            OP_WRITE_ZEROES => Operation::WriteZeroes,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let fua = flags & IO_FUA != 0;
        if operation == Operation::Flush {
            // Where it stands and how long it is has no meaning.
            let unmap = false;
            return Ok(Asked { operation, offset_bytes: 0, len_bytes: 0, fua, unmap, sync: true });
        }
        let len = u64::from(descriptor.nr_sectors) * SECTOR_BYTES;
        let offset_bytes = descriptor.start_sector.checked_mul(SECTOR_BYTES).ok_or(libc::EINVAL)?;
        let end = offset_bytes.checked_add(len).ok_or(libc::EINVAL)?;
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        let longest = if has_data { u64::from(TRANSFER_BYTES_MAX) } else { u64::from(u32::MAX) };
        if len == 0 || len > longest || end > size_bytes {
            return Err(libc::EINVAL);
        }
        Ok(Asked {
            operation,
            offset_bytes,
            // At most `longest`.
            len_bytes: len as u32,
            fua,
            unmap: operation == Operation::WriteZeroes && flags & IO_NO_UNMAP == 0,
            sync: operation == Operation::Read || fua || flags & IO_META != 0,
        })
    }

    /// What the kernel is told of it: bytes of a read or write, zero for the others, or the negative
    /// error.
    pub(super) fn answer<T>(&self, result: &io::Result<T>) -> i32 {
        match result {
            // At most TRANSFER_BYTES_MAX, which fits.
            Ok(_) => match self.operation {
                Operation::Read | Operation::Write => self.len_bytes as i32,
                Operation::Flush | Operation::Discard | Operation::WriteZeroes => 0,
            },
            Err(error) => refusal(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

/// How the kernel is told of an error. One that is none would look like a success.
pub(super) fn refusal(errno: i32) -> i32 {
    if errno > 0 { -errno } else { -libc::EIO }
}

/// What the block device is to look like: `block_bytes` a power of two of 512 to 4096.
pub(super) fn parameters(size_bytes: u64, block_bytes: u32, rotational: bool) -> Parameters {
    // At most 12.
    let shift = block_bytes.trailing_zeros() as u8;
    let rotation = if rotational { ATTR_ROTATIONAL } else { 0 };
    Parameters {
        // 64.
        len: size_of::<Parameters>() as u32,
        types: PARAM_TYPE_BASIC | PARAM_TYPE_DISCARD,
        basic: BasicParameters {
            // Without the first nobody would ever flush.
            attrs: ATTR_VOLATILE_CACHE | ATTR_FUA | rotation,
            logical_bs_shift: shift,
            physical_bs_shift: shift,
            io_opt_shift: shift,
            io_min_shift: shift,
            // 512.
            max_sectors: (u64::from(TRANSFER_BYTES_MAX) / SECTOR_BYTES) as u32,
            dev_sectors: size_bytes / SECTOR_BYTES,
            ..BasicParameters::default()
        },
        discard: DiscardParameters {
            // Less is not given back by any store.
            discard_granularity: block_bytes.max(4096),
            max_discard_sectors: RANGE_SECTORS_MAX,
            max_write_zeroes_sectors: RANGE_SECTORS_MAX,
            max_discard_segments: 1,
            ..DiscardParameters::default()
        },
        padding: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn descriptor(operation: u8, flags: u32, sector: u64, sectors: u32) -> IoDescriptor {
        IoDescriptor {
            op_flags: u32::from(operation) | flags,
            nr_sectors: sectors,
            start_sector: sector,
            addr: 0,
        }
    }

    fn asked(operation: u8, flags: u32, sector: u64, sectors: u32) -> Result<Asked, i32> {
        Asked::decode(&descriptor(operation, flags, sector, sectors), SIZE)
    }

    #[test]
    fn every_operation_becomes_the_engines() {
        let read = asked(OP_READ, 0, 8, 16).unwrap();
        assert_eq!(
            (read.operation, read.offset_bytes, read.len_bytes),
            (Operation::Read, 4096, 8192)
        );
        assert!(read.sync && !read.fua && !read.unmap);
        let write = asked(OP_WRITE, IO_FUA, 1, 1).unwrap();
        assert_eq!((write.operation, write.fua, write.sync), (Operation::Write, true, true));
        assert!(!asked(OP_WRITE, 0, 1, 1).unwrap().sync);
        assert!(asked(OP_WRITE, IO_META, 1, 1).unwrap().sync);
        let flush = asked(OP_FLUSH, 0, u64::MAX, 77).unwrap();
        assert_eq!((flush.offset_bytes, flush.len_bytes), (0, 0));
        let discard = asked(OP_DISCARD, 0, 0, 2048).unwrap();
        assert_eq!((discard.operation, discard.len_bytes), (Operation::Discard, 1 << 20));
        assert!(asked(OP_WRITE_ZEROES, 0, 0, 8).unwrap().unmap);
        let kept = asked(OP_WRITE_ZEROES, IO_NO_UNMAP | IO_FUA, 0, 8).unwrap();
        assert_eq!((kept.operation, kept.unmap, kept.fua), (Operation::WriteZeroes, false, true));
    }

    #[test]
    fn flags_that_mean_nothing_here_change_nothing() {
        let failfast_and_swap = (7 << 8) | (1 << 16);
        assert_eq!(asked(OP_READ, failfast_and_swap, 8, 16), asked(OP_READ, 0, 8, 16));
    }

    #[test]
    fn what_was_not_offered_or_lies_outside_is_refused() {
        for operation in [4, 6, 7, 0xff] {
            assert_eq!(asked(operation, 0, 0, 8), Err(libc::EOPNOTSUPP));
        }
        assert_eq!(asked(OP_READ, 0, 2047, 1).map(|asked| asked.offset_bytes), Ok(SIZE - 512));
        assert_eq!(asked(OP_READ, 0, 2047, 2), Err(libc::EINVAL));
        assert_eq!(asked(OP_READ, 0, 0, 0), Err(libc::EINVAL));
        assert_eq!(asked(OP_WRITE, 0, 0, TRANSFER_BYTES_MAX / 512 + 1), Err(libc::EINVAL));
        assert_eq!(asked(OP_DISCARD, 0, u64::MAX / 512, 8), Err(libc::EINVAL));
        assert_eq!(asked(OP_DISCARD, 0, u64::MAX, 8), Err(libc::EINVAL));
    }

    #[test]
    fn answers_are_bytes_or_errors_and_never_mistaken() {
        let error = |errno| io::Result::<()>::Err(io::Error::from_raw_os_error(errno));
        let read = asked(OP_READ, 0, 8, 16).unwrap();
        assert_eq!(read.answer(&Ok(())), 8192);
        assert_eq!(read.answer(&error(libc::ENOSPC)), -libc::ENOSPC);
        assert_eq!(read.answer(&io::Result::<()>::Err(io::Error::other("odd"))), -libc::EIO);
        assert_eq!(asked(OP_DISCARD, 0, 0, 8).unwrap().answer(&Ok(())), 0);
        assert_eq!(refusal(0), -libc::EIO);
        assert_eq!(refusal(-3), -libc::EIO);
    }

    #[test]
    fn the_device_looks_as_the_driver_asks_for() {
        for (block, shift) in [(512, 9), (1024, 10), (4096, 12)] {
            let parameters = parameters(SIZE, block, false);
            let BasicParameters { logical_bs_shift, physical_bs_shift, .. } = parameters.basic;
            assert_eq!((logical_bs_shift, physical_bs_shift), (shift, shift));
            assert_eq!(parameters.basic.dev_sectors, 2048);
            // What the driver refuses otherwise.
            assert!(parameters.basic.max_sectors <= TRANSFER_BYTES_MAX >> 9);
            assert_eq!(parameters.discard.max_discard_segments, 1);
            assert!(parameters.discard.discard_granularity >= block);
            assert_eq!(parameters.len, 64);
            assert_eq!(parameters.basic.attrs, 0b1100);
        }
        assert_eq!(parameters(SIZE, 512, true).basic.attrs, 0b1110);
        // The longest range fits into a submission's 32 bits.
        assert!(u64::from(RANGE_SECTORS_MAX) * SECTOR_BYTES <= u64::from(u32::MAX));
    }
}
