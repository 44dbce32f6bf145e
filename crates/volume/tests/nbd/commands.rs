//! Every command from the wire to the volume and back.

use std::io;

use headworks_policy::block::Operation;
use headworks_volume::nbd::export::Mode;
use headworks_volume::nbd::wire::{command as cmd, command_flag as flag};
use headworks_volume::nbd::{Export, Limits};

use crate::raw::{Client, MODES};
use crate::served::{Asked, MIB, Served, asked, held, memory};

/// `len` bytes that differ from place to place and by `seed`.
fn pattern(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31).wrapping_add(seed * 7) % 251) as u8).collect()
}

#[test]
fn what_is_written_is_read() {
    let served = Served::memory(64 * MIB);
    for (seed, mode) in (0..).zip(MODES) {
        let mut client = Client::new(&served.path, mode, "data");
        for len in [512, 4096, 65536 - 512, 65536, 65536 + 512, MIB, 32 * MIB] {
            let data = pattern(seed, len);
            client.write(512, &data);
            assert!(client.read(512, len) == data, "{mode:?} {len}");
        }
    }
}

#[test]
fn zeroing_and_trimming_make_holes_that_status_shows() {
    let served = Served::memory(MIB);
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        client.write(0, &pattern(1, MIB));
        assert_eq!(client.ask(cmd::WRITE_ZEROES, 0, 65536, 65536, &[]).error, 0);
        assert_eq!(client.read(65536, 65536), vec![0; 65536]);
        assert_eq!(client.ask(cmd::TRIM, flag::FUA, 262_144, 65536, &[]).error, 0);
        assert_eq!(client.ask(cmd::FLUSH, 0, 0, 0, &[]).error, 0);
        assert_eq!(client.ask(cmd::CACHE, 0, 0, MIB, &[]).error, 0);
        assert_eq!(client.read(0, 65536), pattern(1, MIB)[..65536]);
        if mode == Mode::Simple {
            assert_eq!(client.ask(cmd::BLOCK_STATUS, 0, 0, MIB, &[]).error, 22);
            continue;
        }
        let answer = client.ask(cmd::BLOCK_STATUS, 0, 0, MIB, &[]);
        let rest = MIB - 262_144 - 65536;
        let expected = [(65536, 0), (65536, 3), (131_072, 0), (65536, 3), (rest, 0)];
        assert_eq!(answer.extents, expected, "{mode:?}");
        let answer = client.ask(cmd::BLOCK_STATUS, flag::REQ_ONE, 65536, 512, &[]);
        assert_eq!(answer.extents, [(512, 3)]);
    }
}

#[test]
fn errors_leave_the_connection_usable() {
    let old = Export::new("old", memory(MIB)).read_only(true);
    let served = Served::new(vec![Export::new("data", memory(MIB)), old]);
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        let data = pattern(2, 4096);
        assert_eq!(client.ask(cmd::WRITE, 0, MIB, 4096, &data).error, 28, "beyond the end");
        assert_eq!(client.ask(cmd::READ, 0, MIB, 4096, &[]).error, 22);
        assert_eq!(client.ask(cmd::WRITE, 0, 100, 4096, &data).error, 22, "unaligned");
        assert_eq!(client.ask(99, 0, 0, 0, &[]).error, 22, "unknown");
        let long = vec![0; 32 * 1024 * 1024 + 512];
        assert_eq!(client.ask(cmd::WRITE, 0, 0, long.len() as u64, &long).error, 22, "too long");
        assert_eq!(client.ask(cmd::WRITE_ZEROES, flag::FAST_ZERO, 0, 512, &[]).error, 95);
        client.write(0, &data);
        assert_eq!(client.read(0, 4096), data);
        let mut client = Client::new(&served.path, mode, "old");
        for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            let payload = if kind == cmd::WRITE { &data[..] } else { &[] };
            assert_eq!(client.ask(kind, 0, 0, 4096, payload).error, 1, "read-only");
        }
        assert_eq!(client.read(0, 4096), vec![0; 4096]);
    }
}

#[test]
fn empty_ranges_do_nothing_well() {
    let served = Served::memory(MIB);
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        for kind in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES] {
            let answer = client.ask(kind, 0, 512, 0, &[]);
            assert_eq!((answer.error, answer.data.len()), (0, 0), "{mode:?} {kind}");
        }
    }
}

#[test]
fn the_volume_is_asked_what_the_client_asked() {
    let (served, held) = held(Limits::default());
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        client.send(cmd::READ, 0, 512, 1024, &[]);
        client.send(cmd::WRITE, 0, 4096, 512, &[1; 512]);
        client.send(cmd::WRITE, flag::FUA, 8192, 512, &[2; 512]);
        client.send(cmd::FLUSH, 0, 0, 0, &[]);
        client.send(cmd::TRIM, 0, 0, 2048, &[]);
        client.send(cmd::WRITE_ZEROES, flag::NO_HOLE | flag::FUA, 0, 512, &[]);
        client.send(cmd::WRITE_ZEROES, 0, 512, 512, &[]);
        let taken = held.take(7);
        let works: Vec<_> = taken.iter().map(|(work, ..)| *work).collect();
        let write = |offset, fua| Asked { fua, ..asked(Operation::Write, offset, 512) };
        let zeroes =
            |offset, fua, unmap| Asked { fua, unmap, ..asked(Operation::WriteZeroes, offset, 512) };
        let expected = [
            asked(Operation::Read, 512, 1024),
            write(4096, false),
            write(8192, true),
            asked(Operation::Flush, 0, 0),
            asked(Operation::Discard, 0, 2048),
            zeroes(0, true, false),
            zeroes(512, false, true),
        ];
        assert_eq!(works, expected);
        assert_eq!((taken[0].1.len(), &taken[1].1[..]), (1024, &[1; 512][..]));
        for (_, data, ticket) in taken {
            (ticket.done)(Ok(data));
        }
        for len in [1024, 0, 0, 0, 0, 0, 0] {
            assert_eq!(client.answer(len).error, 0);
        }
    }
}

#[test]
fn requests_are_charged_to_their_connection() {
    let (served, held) = held(Limits::default());
    let mut clients: Vec<_> =
        (0..2).map(|_| Client::new(&served.path, Mode::Simple, "data")).collect();
    let mut causes = Vec::new();
    for at in [0, 1, 0] {
        clients[at].send(cmd::FLUSH, 0, 0, 0, &[]);
        let (_, data, ticket) = held.take(1).remove(0);
        causes.push(ticket.cause);
        (ticket.done)(Ok(data));
        clients[at].answer(0);
    }
    assert!(causes[0] != 0 && causes[1] != 0);
    assert!(causes[0] == causes[2] && causes[0] != causes[1], "{causes:?}");
}

#[test]
fn a_durable_trim_is_answered_after_a_flush() {
    let (served, held) = held(Limits::default());
    let mut client = Client::new(&served.path, Mode::Simple, "data");
    client.send(cmd::TRIM, flag::FUA, 0, 512, &[]);
    let (work, data, ticket) = held.take(1).remove(0);
    assert_eq!(work, asked(Operation::Discard, 0, 512));
    (ticket.done)(Ok(data));
    let (work, data, ticket) = held.take(1).remove(0);
    assert_eq!(work, asked(Operation::Flush, 0, 0));
    assert_eq!(served.counts().requests, 1, "not answered yet");
    (ticket.done)(Ok(data));
    assert_eq!(client.answer(0).error, 0);
}

#[test]
fn answers_come_in_the_order_of_completion() {
    let (served, held) = held(Limits::default());
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        let cookies: Vec<_> =
            (0..5).map(|at| client.send(cmd::READ, 0, at * 512, 512, &[])).collect();
        let mut taken = held.take(5);
        taken.reverse();
        for (work, mut data, ticket) in taken {
            assert_eq!(work.operation, Operation::Read);
            let offset = work.offset;
            data.fill(u8::try_from(offset / 512).unwrap());
            (ticket.done)(Ok(data));
        }
        for at in (0..5_u8).rev() {
            let answer = client.answer(512);
            assert_eq!(answer.cookie, cookies[usize::from(at)]);
            assert_eq!(answer.data, [at; 512]);
        }
    }
}

#[test]
fn errors_of_the_volume_reach_the_client_and_lost_requests_are_errors() {
    let (served, held) = held(Limits::default());
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        for (errno, error) in [(libc::EIO, 5), (libc::ENOSPC, 28), (libc::EROFS, 1)] {
            client.send(cmd::WRITE, 0, 0, 512, &[1; 512]);
            let (_, _, ticket) = held.take(1).remove(0);
            (ticket.done)(Err(io::Error::from_raw_os_error(errno)));
            assert_eq!(client.answer(0).error, error);
        }
        client.send(cmd::READ, 0, 0, 512, &[]);
        drop(held.take(1));
        assert_eq!(client.answer(512).error, 5);
        client.send(cmd::TRIM, flag::FUA, 0, 512, &[]);
        let (_, _, ticket) = held.take(1).remove(0);
        (ticket.done)(Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(client.answer(0).error, 5, "no flush after a trim that failed");
        assert_eq!(held.asked(), []);
    }
}

#[test]
fn ranges_may_be_longer_than_32_bits_can_say() {
    let served = Served::memory(20 << 30);
    let mut client = Client::new(&served.path, Mode::Extended, "data");
    for offset in [0, 5 << 30, (20 << 30) - 512] {
        client.write(offset, &[9; 512]);
    }
    assert_eq!(client.ask(cmd::WRITE_ZEROES, 0, 512, (20 << 30) - 1024, &[]).error, 0);
    assert_eq!(client.read(0, 512), [9; 512]);
    assert_eq!(client.read(5 << 30, 512), [0; 512]);
    assert_eq!(client.read((20 << 30) - 512, 512), [9; 512]);
    assert_eq!(client.ask(cmd::TRIM, 0, 0, 20 << 30, &[]).error, 0);
    let answer = client.ask(cmd::BLOCK_STATUS, 0, 0, 20 << 30, &[]);
    assert_eq!(answer.extents, [(20 << 30, 3)]);
}

#[test]
fn a_client_that_sends_and_receives_at_once_gets_everything() {
    let served = Served::memory(64 * MIB);
    for mode in MODES {
        let mut client = Client::new(&served.path, mode, "data");
        let mut sender = client.again();
        let count = 300_u64;
        let sending = std::thread::spawn(move || {
            let data = pattern(3, 65536);
            for at in 0..count {
                sender.send(cmd::WRITE, 0, at * 65536, 65536, &data);
                sender.send(cmd::READ, 0, at * 65536, 65536, &[]);
            }
        });
        let mut answered = 0;
        for _ in 0..2 * count {
            // The client of simple replies must know what it asked: reads have even cookies.
            let head = peek_cookie(&client);
            let answer = client.answer(if head.is_multiple_of(2) { 65536 } else { 0 });
            assert_eq!(answer.error, 0);
            answered += 1;
        }
        sending.join().unwrap();
        assert_eq!(answered, 600);
    }
}

/// The cookie of the reply that comes next.
fn peek_cookie(client: &Client) -> u64 {
    use std::os::fd::AsRawFd;
    let mut head = [0_u8; 16];
    loop {
        // SAFETY: the buffer is as long as the call is told.
        let got = unsafe {
            libc::recv(client.socket.as_raw_fd(), head.as_mut_ptr().cast(), 16, libc::MSG_PEEK)
        };
        assert!(got > 0, "the connection ended");
        if got == 16 {
            return u64::from_be_bytes(head[8..].try_into().unwrap());
        }
    }
}
