//! Replies, byte by byte.

use crate::buffer::Buffer;
use crate::nbd::export::Mode;
use crate::nbd::reply::{Reply, To};
use crate::nbd::wire::{Error, u16_at, u32_at, u64_at};
use crate::store::Extent;

fn to(mode: Mode) -> To {
    To { mode, cookie: 0x0102_0304_0506_0708, offset: 4096 }
}

fn bytes(reply: &Reply) -> Vec<u8> {
    let bytes = reply.parts().concat();
    assert_eq!(bytes.len(), reply.wire_bytes());
    bytes
}

/// Type and payload of a chunk that is the only one of its reply.
fn chunk(reply: &Reply, mode: Mode) -> (u16, Vec<u8>) {
    let bytes = bytes(reply);
    assert_eq!(u16_at(&bytes, 4), Some(1), "the last chunk");
    assert_eq!(u64_at(&bytes, 8), Some(to(mode).cookie));
    let (magic, head, len) = if mode == Mode::Extended {
        assert_eq!(u64_at(&bytes, 16), Some(4096), "the request's offset");
        (0x6e8a_278c, 32, u64_at(&bytes, 24).unwrap())
    } else {
        (0x668e_33ef, 20, u64::from(u32_at(&bytes, 16).unwrap()))
    };
    assert_eq!(u32_at(&bytes, 0), Some(magic));
    assert_eq!(len, (bytes.len() - head) as u64);
    (u16_at(&bytes, 6).unwrap(), bytes[head..].to_vec())
}

#[test]
fn success_without_data() {
    for mode in [Mode::Simple, Mode::Structured] {
        let mut expected = 0x6744_6698_u32.to_be_bytes().to_vec();
        expected.extend([0; 4]);
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes(&Reply::done(to(mode))), expected);
    }
    assert_eq!(chunk(&Reply::done(to(Mode::Extended)), Mode::Extended), (0, vec![]));
}

#[test]
fn data_of_a_read() {
    let data = || Buffer::copy_of(&[7; 512]);
    let simple = bytes(&Reply::data(to(Mode::Simple), data()));
    assert_eq!(simple.len(), 16 + 512);
    assert_eq!(simple[16..], [7; 512]);
    for mode in [Mode::Structured, Mode::Extended] {
        let (kind, payload) = chunk(&Reply::data(to(mode), data()), mode);
        assert_eq!((kind, u64_at(&payload, 0)), (1, Some(4096)));
        assert_eq!(payload[8..], [7; 512]);
        // A chunk of data has data.
        let (kind, payload) = chunk(&Reply::data(to(mode), Buffer::default()), mode);
        assert_eq!((kind, payload.len()), (0, 0));
    }
}

#[test]
fn errors_have_words_where_there_is_room() {
    let simple = bytes(&Reply::error(to(Mode::Simple), Error::NoSpc, "full"));
    assert_eq!((simple.len(), u32_at(&simple, 4)), (16, Some(28)));
    for mode in [Mode::Structured, Mode::Extended] {
        let (kind, payload) = chunk(&Reply::error(to(mode), Error::NoSpc, "full"), mode);
        assert_eq!(kind, (1 << 15) + 1);
        assert_eq!((u32_at(&payload, 0), u16_at(&payload, 4)), (Some(28), Some(4)));
        assert_eq!(&payload[6..], b"full");
    }
}

fn extent(offset: u64, len: u64, allocated: bool) -> Extent {
    Extent { offset, len, allocated }
}

/// Lengths and flags of a status chunk.
fn descriptors(reply: &Reply, mode: Mode) -> Vec<(u64, u32)> {
    let (kind, payload) = chunk(reply, mode);
    assert_eq!(u32_at(&payload, 0), Some(1), "the context's number");
    if mode == Mode::Extended {
        assert_eq!(kind, 6);
        let list: Vec<_> = payload[8..]
            .chunks_exact(16)
            .map(|d| (u64_at(d, 0).unwrap(), u32::try_from(u64_at(d, 8).unwrap()).unwrap()))
            .collect();
        assert_eq!(u32_at(&payload, 4), Some(u32::try_from(list.len()).unwrap()));
        assert_eq!(payload.len(), 8 + 16 * list.len());
        list
    } else {
        assert_eq!((kind, payload.len() % 8), (5, 4));
        let pairs = payload[4..].chunks_exact(8);
        pairs.map(|d| (u64::from(u32_at(d, 0).unwrap()), u32_at(d, 4).unwrap())).collect()
    }
}

#[test]
fn extents_are_cut_to_the_range_and_to_one_if_wanted() {
    let extents = [extent(4096, 1024, true), extent(5120, 4096, false), extent(9216, 512, true)];
    for mode in [Mode::Structured, Mode::Extended] {
        let at = |len, one| descriptors(&Reply::extents(to(mode), len, one, &extents), mode);
        assert_eq!(at(1 << 20, false), [(1024, 0), (4096, 3), (512, 0)]);
        assert_eq!(at(2048, false), [(1024, 0), (1024, 3)]);
        assert_eq!(at(1024, false), [(1024, 0)]);
        assert_eq!(at(1 << 20, true), [(1024, 0)]);
        assert_eq!(at(512, true), [(512, 0)]);
    }
}

#[test]
fn an_extent_too_long_for_a_compact_reply_ends_it() {
    let extents = [extent(4096, 5 << 30, false), extent((5 << 30) + 4096, 512, true)];
    let at = |mode| descriptors(&Reply::extents(to(mode), 6 << 30, false, &extents), mode);
    assert_eq!(at(Mode::Structured), [((4 << 30) - 512, 3)]);
    assert_eq!(at(Mode::Extended), [(5 << 30, 3), (512, 0)]);
}

#[test]
fn errors_of_the_system_become_those_of_the_protocol() {
    let of = |errno| Error::of(&std::io::Error::from_raw_os_error(errno));
    assert_eq!(of(libc::EROFS), Error::Perm);
    assert_eq!(of(libc::ENOSPC), Error::NoSpc);
    assert_eq!(of(libc::EDQUOT), Error::NoSpc);
    assert_eq!(of(libc::EFBIG), Error::NoSpc);
    assert_eq!(of(libc::EINVAL), Error::Inval);
    assert_eq!(of(libc::ENOMEM), Error::NoMem);
    assert_eq!(of(libc::EIO), Error::Io);
    assert_eq!(of(libc::ENXIO), Error::Io);
    assert_eq!(Error::of(&std::io::Error::other("?")), Error::Io);
}
