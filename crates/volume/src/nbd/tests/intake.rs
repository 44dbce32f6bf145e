//! The stream of requests, however it is cut into pieces.

use super::arbitrary::{Seen, Server};
use super::requests::request;
use super::*;
use crate::nbd::export::Mode;
use crate::nbd::intake::INTAKE_BYTES;
use crate::nbd::request::Ask;
use crate::nbd::wire::{Error, command as cmd};

/// A write with its payload.
fn write(offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = request(Mode::Simple, cmd::WRITE, 0, offset, payload.len() as u64);
    bytes.extend(payload);
    bytes
}

/// `len` bytes that depend on their position.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

fn payloads(seen: &[Seen]) -> Vec<Vec<u8>> {
    let payload = |seen: &Seen| match seen {
        Seen::Job(job, payload) if job.ask == Ask::Write => Some(payload.clone()),
        _ => None,
    };
    seen.iter().filter_map(payload).collect()
}

#[test]
fn payloads_arrive_whole_in_whatever_pieces() {
    let sizes = [512, 4096, INTAKE_BYTES - 512, INTAKE_BYTES, 300 << 10];
    let mut stream = Vec::new();
    for size in sizes {
        stream.extend(write(0, &pattern(size)));
        stream.extend(request(Mode::Simple, cmd::READ, 0, 0, 512));
    }
    for piece in [1, 7, 27, 28, 29, 4096, INTAKE_BYTES - 1, INTAKE_BYTES, stream.len()] {
        let mut server = Server::agreed(Mode::Simple);
        for bytes in stream.chunks(piece) {
            server.feed(bytes);
        }
        let expected: Vec<_> = sizes.iter().map(|size| pattern(*size)).collect();
        assert!(payloads(&server.seen) == expected, "pieces of {piece}");
        assert_eq!(server.seen.len(), 2 * sizes.len());
        assert!(server.at_rest());
    }
}

#[test]
fn a_refused_payload_is_skipped_and_the_stream_stays_in_step() {
    for size in [512, 4096, 300 << 10] {
        // Beyond the end of the 1 MiB export, then a good one.
        let mut stream = write(MIB, &pattern(size));
        stream.extend(write(0, &[5; 512]));
        for piece in [1, 100, stream.len()] {
            let mut server = Server::agreed(Mode::Simple);
            for bytes in stream.chunks(piece) {
                server.feed(bytes);
            }
            assert!(matches!(&server.seen[0], Seen::Refused(r) if r.error == Error::NoSpc));
            assert_eq!(payloads(&server.seen), [vec![5; 512]]);
        }
    }
}

#[test]
fn nothing_follows_the_clients_leave() {
    let mut server = Server::agreed(Mode::Simple);
    let mut stream = request(Mode::Simple, cmd::DISC, 0, 0, 0);
    stream.extend(write(0, &[5; 512]));
    server.feed(&stream);
    assert_eq!(server.seen, [Seen::Leave]);
}

#[test]
fn a_client_rests_only_between_requests() {
    let stream = write(0, &[5; 4096]);
    let mut server = Server::agreed(Mode::Simple);
    assert!(server.at_rest());
    for (at, byte) in stream.iter().enumerate() {
        server.feed(&[*byte]);
        assert_eq!(server.at_rest(), at + 1 == stream.len(), "after {} bytes", at + 1);
    }
}
