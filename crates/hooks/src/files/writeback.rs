//! Early writeback: a call that waits writes the file's dirty pieces back as the scheduler orders
//! them.
//!
//! A piece is begun by `sync_file_range` and looked at by `cachestat`, neither of which takes the
//! error that the database's own `fsync` must report.

use super::kernel;
use headworks_policy::Nanos;
use headworks_region::clock;
use headworks_region::io::tally::Unmarked;
use headworks_region::io::{IoRegion, Order, Piece, Ticket, Written};
use libc::c_int;

/// Pieces of one call that can be in flight.
const IN_FLIGHT: usize = 128;

/// How often to check whether a piece was written: at first, and at most.
const POLL_MIN: Nanos = Nanos::from_micros(50);
const POLL_MAX: Nanos = Nanos::from_millis(1);

/// After this time a piece is no longer waited for.
const PIECE_TIMEOUT: Nanos = Nanos::from_millis(5_000);

/// Carries out the orders for a call until it may run.
pub(super) fn wait(region: &IoRegion, ticket: &Ticket, fd: c_int, slot: u16) {
    let mut flight = Flight::new();
    let mut cursor = 0;
    loop {
        match region.next_order(ticket, !flight.is_empty()) {
            Order::Go => return flight.leave(region, ticket),
            Order::WriteBack(pieces) => {
                let mut missing = 0;
                for _ in 0..pieces {
                    if flight.is_full() {
                        flight.land(region, ticket, fd);
                    }
                    match next_piece(region, slot, &mut cursor) {
                        Some((offset, bytes, taken)) => {
                            kernel::begin_writeback(fd, offset, bytes);
                            flight.push(Begun { offset, bytes, taken, since: clock::now() });
                        }
                        None => missing += 1,
                    }
                }
                if missing > 0 {
                    region.cleaned(ticket, &Written { pieces: missing, ..Written::default() });
                }
            }
            Order::Nothing => flight.land(region, ticket, fd),
        }
    }
}

/// The next dirty piece from the cursor on. At the end of the file it starts again.
fn next_piece(region: &IoRegion, slot: u16, cursor: &mut u64) -> Option<(u64, u64, Unmarked)> {
    // At most two passes over the file: the next order finds pages that are dirtied meanwhile.
    let mut turns = 0;
    loop {
        match region.take_piece(slot, *cursor) {
            Piece::Dirty { offset, bytes, taken } => {
                *cursor = offset + bytes;
                return Some((offset, bytes, taken));
            }
            Piece::Later(next) => *cursor = next,
            Piece::End if turns == 0 && *cursor > 0 => (*cursor, turns) = (0, 1),
            Piece::End => return None,
        }
    }
}

/// A piece whose writeback has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    offset: u64,
    bytes: u64,
    taken: Unmarked,
    since: Nanos,
}

/// The pieces of a call in writeback, in the order in which they were begun.
struct Flight {
    pieces: [Begun; IN_FLIGHT],
    first: usize,
    count: usize,
}

impl Flight {
    fn new() -> Self {
        Flight { pieces: [Begun::default(); IN_FLIGHT], first: 0, count: 0 }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_full(&self) -> bool {
        self.count == IN_FLIGHT
    }

    fn push(&mut self, piece: Begun) {
        self.pieces[(self.first + self.count) % IN_FLIGHT] = piece;
        self.count += 1;
    }

    /// Reports the pieces that are left as written: no call waits for them any more.
    fn leave(&mut self, region: &IoRegion, ticket: &Ticket) {
        while self.count > 0 {
            self.report(region, ticket);
        }
    }

    fn report(&mut self, region: &IoRegion, ticket: &Ticket) {
        let taken = self.pieces[self.first].taken;
        self.first = (self.first + 1) % IN_FLIGHT;
        self.count -= 1;
        region.cleaned(ticket, &Written { pieces: 1, taken });
    }

    /// Waits until the oldest piece is written or the call may go on, and reports the piece.
    fn land(&mut self, region: &IoRegion, ticket: &Ticket, fd: c_int) {
        if self.count == 0 {
            return;
        }
        let piece = self.pieces[self.first];
        let mut poll = POLL_MIN;
        while kernel::cache_state(fd, piece.offset, piece.bytes)
            .is_some_and(|cache| cache.nr_writeback > 0)
            && clock::now().since(piece.since) < PIECE_TIMEOUT
            && !region.is_admitted(ticket)
        {
            kernel::sleep(poll);
            poll = Nanos(poll.0 * 3 / 2).min(POLL_MAX);
        }
        self.report(region, ticket);
    }
}
