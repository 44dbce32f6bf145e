//! Every command, and every reason to refuse it.

use super::*;
use crate::nbd::export::Mode;
use crate::nbd::request::{Agreement, Ask, Job, Parsed, SKIPPED_BYTES_MAX, header_bytes, parse};
use crate::nbd::wire::{
    EXTENDED_REQUEST_MAGIC, Error, PAYLOAD_BYTES_MAX, REQUEST_MAGIC, command as cmd,
    command_flag as flag,
};

/// Of a client of ours.
fn ours() -> Agreement {
    Agreement { extension: true, ..agreement(Mode::Structured) }
}

#[test]
fn notes_are_for_clients_of_ours_and_short() {
    let facts = facts(MIB);
    let note = |agreement: &Agreement, len| {
        parse(agreement, &facts, &request(Mode::Structured, cmd::NOTE, 0, 0, len))
    };
    assert!(matches!(note(&ours(), 100), Parsed::Job(Job { ask: Ask::Note, len: 100, .. })));
    assert!(matches!(note(&ours(), 5_000), Parsed::Refused(_, 5_000)));
    let foreign = note(&agreement(Mode::Structured), 100);
    assert!(matches!(foreign, Parsed::Refused(_, 0)), "{foreign:?}");
}

fn agreement(mode: Mode) -> Agreement {
    Agreement { export: 0, mode, allocation: mode != Mode::Simple, extension: false }
}

/// A request with cookie 9 as a client sends it.
pub(super) fn request(mode: Mode, kind: u16, flags: u16, offset: u64, len: u64) -> Vec<u8> {
    let extended = mode == Mode::Extended;
    let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(9_u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(len.to_be_bytes());
    } else {
        bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
    }
    bytes
}

const MODES: [Mode; 3] = [Mode::Simple, Mode::Structured, Mode::Extended];

/// The result of a request to a 1 MiB export.
fn ask(mode: Mode, kind: u16, flags: u16, offset: u64, len: u64) -> Parsed {
    parse(&agreement(mode), &facts(MIB), &request(mode, kind, flags, offset, len))
}

/// The error and the payload to throw away.
fn refusal(parsed: Parsed) -> (Error, u64) {
    match parsed {
        Parsed::Refused(refusal, skip) => {
            assert_eq!(refusal.cookie, 9);
            assert!(!refusal.words.is_empty());
            (refusal.error, skip)
        }
        other => panic!("{other:?}"),
    }
}

/// The flags that a write needs.
fn writing(mode: Mode) -> u16 {
    if mode == Mode::Extended { flag::PAYLOAD_LEN } else { 0 }
}

#[test]
fn every_command_is_understood() {
    for mode in MODES {
        let job = |ask, offset, len, fua| Parsed::Job(Job { ask, cookie: 9, offset, len, fua });
        assert_eq!(ask(mode, cmd::READ, 0, 512, 1024), job(Ask::Read, 512, 1024, false));
        let flags = writing(mode);
        assert_eq!(ask(mode, cmd::WRITE, flags, 0, 4096), job(Ask::Write, 0, 4096, false));
        let parsed = ask(mode, cmd::WRITE, flags | flag::FUA, 0, 4096);
        assert_eq!(parsed, job(Ask::Write, 0, 4096, true));
        assert_eq!(ask(mode, cmd::FLUSH, 0, 0, 0), job(Ask::Flush, 0, 0, false));
        assert_eq!(ask(mode, cmd::TRIM, flag::FUA, 0, MIB), job(Ask::Trim, 0, MIB, true));
        assert_eq!(ask(mode, cmd::CACHE, 0, 0, MIB), job(Ask::Cache, 0, MIB, false));
        let zeroes = |unmap| job(Ask::WriteZeroes { unmap }, 0, 512, false);
        assert_eq!(ask(mode, cmd::WRITE_ZEROES, 0, 0, 512), zeroes(true));
        assert_eq!(ask(mode, cmd::WRITE_ZEROES, flag::NO_HOLE, 0, 512), zeroes(false));
        assert_eq!(ask(mode, cmd::DISC, 0, 0, 0), Parsed::Leave);
    }
    for mode in [Mode::Structured, Mode::Extended] {
        let status = |flags| ask(mode, cmd::BLOCK_STATUS, flags, 0, MIB);
        let Parsed::Job(job) = status(0) else { panic!() };
        assert_eq!(job.ask, Ask::BlockStatus { one: false });
        let Parsed::Job(job) = status(flag::REQ_ONE) else { panic!() };
        assert_eq!(job.ask, Ask::BlockStatus { one: true });
        assert!(matches!(ask(mode, cmd::READ, flag::DF, 0, 512), Parsed::Job(_)));
    }
}

#[test]
fn a_flag_of_another_command_or_an_unknown_one_is_invalid() {
    let allowed = |mode, kind| {
        flag::FUA
            | match kind {
                cmd::READ if mode != Mode::Simple => flag::DF,
                cmd::WRITE if mode == Mode::Extended => flag::PAYLOAD_LEN,
                cmd::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
                cmd::BLOCK_STATUS => flag::REQ_ONE,
                _ => 0,
            }
    };
    for mode in MODES {
        for kind in [0, 1, 3, 4, 5, 6, 7] {
            for bit in (0..16).map(|shift| 1 << shift).filter(|bit| bit & allowed(mode, kind) == 0)
            {
                let len = if kind == cmd::FLUSH { 0 } else { 512 };
                let (error, _) = refusal(ask(mode, kind, bit | writing_of(mode, kind), 0, len));
                assert_eq!(error, Error::Inval, "{mode:?} command {kind} flag {bit:#x}");
            }
        }
    }
}

fn writing_of(mode: Mode, kind: u16) -> u16 {
    if kind == cmd::WRITE { writing(mode) } else { 0 }
}

#[test]
fn unknown_commands_are_invalid_and_carry_no_payload() {
    for mode in MODES {
        for kind in [8, 9, 255, u16::MAX] {
            assert_eq!(refusal(ask(mode, kind, 0, 0, 4096)), (Error::Inval, 0), "{kind}");
        }
    }
    let parsed = ask(Mode::Extended, 99, flag::PAYLOAD_LEN, 0, 4096);
    assert_eq!(refusal(parsed), (Error::Inval, 4096), "but where the client says it does");
}

#[test]
fn extended_payloads_are_thrown_away_where_they_do_not_belong() {
    for kind in [cmd::READ, cmd::TRIM, cmd::BLOCK_STATUS, cmd::FLUSH] {
        let parsed = ask(Mode::Extended, kind, flag::PAYLOAD_LEN, 0, 8192);
        assert_eq!(refusal(parsed), (Error::Inval, 8192), "{kind}");
    }
    let parsed = ask(Mode::Extended, cmd::WRITE, 0, 0, 8192);
    assert_eq!(refusal(parsed), (Error::Inval, 0), "a write that announces none");
}

#[test]
fn ranges_end_with_the_export() {
    for mode in MODES {
        for (kind, error) in [
            (cmd::READ, Error::Inval),
            (cmd::WRITE, Error::NoSpc),
            (cmd::TRIM, Error::Inval),
            (cmd::CACHE, Error::Inval),
            (cmd::WRITE_ZEROES, Error::NoSpc),
            (cmd::BLOCK_STATUS, Error::Inval),
        ] {
            if kind == cmd::BLOCK_STATUS && mode == Mode::Simple {
                continue;
            }
            let flags = writing_of(mode, kind);
            let at = |offset, len| ask(mode, kind, flags, offset, len);
            assert!(matches!(at(MIB - 512, 512), Parsed::Job(_)), "{mode:?} {kind}");
            let skip = if kind == cmd::WRITE { 1024 } else { 0 };
            assert_eq!(refusal(at(MIB - 512, 1024)), (error, skip), "{mode:?} {kind}");
            assert_eq!(refusal(at(MIB, 1024)), (error, skip), "{mode:?} {kind}");
            let wraps = at(u64::MAX - 511, 1024);
            assert_eq!(refusal(wraps), (error, skip), "{mode:?} {kind}: the end wraps");
        }
    }
    let parsed = ask(Mode::Extended, cmd::TRIM, 0, 512, u64::MAX);
    assert_eq!(refusal(parsed).0, Error::Inval);
}

#[test]
fn what_is_not_whole_sectors_is_invalid() {
    for mode in MODES {
        for kind in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES] {
            let flags = writing_of(mode, kind);
            for (offset, len) in [(1, 512), (511, 512), (0, 1), (0, 513), (256, 256)] {
                let (error, _) = refusal(ask(mode, kind, flags, offset, len));
                assert_eq!(error, Error::Inval, "{mode:?} {kind} {offset}+{len}");
            }
        }
    }
}

#[test]
fn a_read_only_export_refuses_writes_first_of_all() {
    let facts = *three().list()[2].facts();
    for mode in MODES {
        for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            for (offset, len) in [(0, 512), (1 << 40, 512), (1, 3)] {
                let bytes = request(mode, kind, writing_of(mode, kind), offset, len);
                let (error, skip) = refusal(parse(&agreement(mode), &facts, &bytes));
                assert_eq!(error, Error::Perm, "{mode:?} {kind}");
                assert_eq!(skip, if kind == cmd::WRITE { len } else { 0 });
            }
        }
        for kind in [cmd::READ, cmd::CACHE] {
            let bytes = request(mode, kind, 0, 0, 512);
            assert!(matches!(parse(&agreement(mode), &facts, &bytes), Parsed::Job(_)));
        }
        let bytes = request(mode, cmd::FLUSH, 0, 0, 0);
        assert!(matches!(parse(&agreement(mode), &facts, &bytes), Parsed::Job(_)));
    }
}

#[test]
fn too_long_payloads_are_invalid_and_much_too_long_ones_end_the_connection() {
    let most = PAYLOAD_BYTES_MAX;
    for mode in MODES {
        let at = |kind, len| {
            let bytes = request(mode, kind, writing_of(mode, kind), 0, len);
            parse(&agreement(mode), &facts(1 << 40), &bytes)
        };
        assert!(matches!(at(cmd::READ, most), Parsed::Job(_)));
        assert_eq!(refusal(at(cmd::READ, most + 512)), (Error::Inval, 0));
        assert!(matches!(at(cmd::WRITE, most), Parsed::Job(_)));
        assert_eq!(refusal(at(cmd::WRITE, most + 512)), (Error::Inval, most + 512));
        assert!(matches!(at(cmd::WRITE, SKIPPED_BYTES_MAX + 512), Parsed::Broken(_)));
        // Without a payload the length is only a number.
        assert!(matches!(at(cmd::TRIM, u64::from(u32::MAX) - 511), Parsed::Job(_)));
    }
    let bytes = request(Mode::Extended, cmd::WRITE_ZEROES, 0, 0, 1 << 40);
    let parsed = parse(&agreement(Mode::Extended), &facts(1 << 40), &bytes);
    assert!(matches!(parsed, Parsed::Job(Job { len, .. }) if len == 1 << 40));
}

#[test]
fn fast_zeroing_is_refused_where_it_is_not_fast() {
    let fast = *three().list()[1].facts();
    for mode in MODES {
        let at = |facts: &Facts, flags| {
            let bytes = request(mode, cmd::WRITE_ZEROES, flags, 0, 512);
            parse(&agreement(mode), facts, &bytes)
        };
        assert_eq!(refusal(at(&facts(MIB), flag::FAST_ZERO)), (Error::NotSup, 0));
        assert!(matches!(at(&fast, flag::FAST_ZERO), Parsed::Job(_)));
        let whole = flag::FAST_ZERO | flag::NO_HOLE;
        assert_eq!(refusal(at(&fast, whole)), (Error::NotSup, 0));
        assert!(matches!(at(&facts(MIB), 0), Parsed::Job(_)));
    }
}

#[test]
fn block_status_needs_its_context_and_a_range() {
    let mut without = agreement(Mode::Structured);
    without.allocation = false;
    let bytes = request(Mode::Structured, cmd::BLOCK_STATUS, 0, 0, 512);
    assert_eq!(refusal(parse(&without, &facts(MIB), &bytes)), (Error::Inval, 0));
    let parsed = ask(Mode::Structured, cmd::BLOCK_STATUS, 0, 0, 0);
    assert_eq!(refusal(parsed), (Error::Inval, 0));
}

#[test]
fn a_flush_has_no_range() {
    for mode in MODES {
        assert_eq!(refusal(ask(mode, cmd::FLUSH, 0, 512, 0)), (Error::Inval, 0));
        assert_eq!(refusal(ask(mode, cmd::FLUSH, 0, 0, 512)), (Error::Inval, 0));
        let Parsed::Job(job) = ask(mode, cmd::FLUSH, flag::FUA, 0, 0) else { panic!() };
        assert_eq!(job.ask, Ask::Flush, "FUA means nothing, and is allowed");
    }
}

#[test]
fn a_wrong_magic_number_breaks_the_stream_and_a_short_header_waits() {
    for mode in MODES {
        let bytes = request(mode, cmd::READ, 0, 0, 512);
        for len in 0..bytes.len() {
            let parsed = parse(&agreement(mode), &facts(MIB), &bytes[..len]);
            assert_eq!(parsed, Parsed::Incomplete, "{mode:?} {len}");
        }
        assert_eq!(bytes.len(), header_bytes(mode));
        for byte in 0..4 {
            let mut wrong = bytes.clone();
            wrong[byte] ^= 0x40;
            assert!(matches!(parse(&agreement(mode), &facts(MIB), &wrong), Parsed::Broken(_)));
        }
    }
    // Compact and extended requests are not mistaken for each other.
    let mut bytes = request(Mode::Simple, cmd::READ, 0, 0, 512);
    bytes.extend([0; 4]);
    let parsed = parse(&agreement(Mode::Extended), &facts(MIB), &bytes);
    assert!(matches!(parsed, Parsed::Broken(_)));
}
