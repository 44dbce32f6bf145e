//! Early writeback: a call that waits writes the file's dirty pieces back as the scheduler orders
//! them.
//!
//! A piece is begun by `sync_file_range` and looked at by `cachestat`, neither of which takes the
//! error that the database's own `fsync` must report.

use super::kernel;
use crate::room::{Room, Zeros};
use headworks_policy::Nanos;
use headworks_region::clock;
use headworks_region::io::tally::Unmarked;
use headworks_region::io::{IoRegion, Order, Piece, Ticket, Written};
use libc::c_int;

/// Pieces of one call that can be in flight.
const IN_FLIGHT: usize = 128;

/// So many lie on the caller's stack: those of a throttled writer. More have pages of their own.
const FEW: usize = 4;

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

// SAFETY: integers.
unsafe impl Zeros for [Begun; IN_FLIGHT] {}

/// The pieces of a call in writeback, in the order in which they were begun.
struct Flight {
    few: [Begun; FEW],
    many: Option<Room<[Begun; IN_FLIGHT]>>,
    first: usize,
    count: usize,
}

impl Flight {
    fn new() -> Self {
        Flight { few: [Begun::default(); FEW], many: None, first: 0, count: 0 }
    }

    fn pieces(&mut self) -> &mut [Begun] {
        match &mut self.many {
            Some(many) => &mut **many,
            None => &mut self.few,
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one must land before the next is begun.
    fn is_full(&mut self) -> bool {
        if self.count == FEW
            && self.many.is_none()
            && let Some(mut many) = Room::<[Begun; IN_FLIGHT]>::make()
        {
            for (at, place) in many.iter_mut().take(FEW).enumerate() {
                *place = self.few[(self.first + at) % FEW];
            }
            (self.first, self.many) = (0, Some(many));
        }
        self.count == self.pieces().len()
    }

    fn push(&mut self, piece: Begun) {
        let at = self.first + self.count;
        let pieces = self.pieces();
        pieces[at % pieces.len()] = piece;
        self.count += 1;
    }

    /// Reports the pieces that are left as written: no call waits for them any more.
    fn leave(&mut self, region: &IoRegion, ticket: &Ticket) {
        while self.count > 0 {
            self.report(region, ticket);
        }
    }

    fn report(&mut self, region: &IoRegion, ticket: &Ticket) {
        let first = self.first;
        let pieces = self.pieces();
        let taken = pieces[first].taken;
        self.first = (first + 1) % pieces.len();
        self.count -= 1;
        region.cleaned(ticket, &Written { pieces: 1, taken });
    }

    /// Waits until the oldest piece is written or the call may go on, and reports the piece.
    fn land(&mut self, region: &IoRegion, ticket: &Ticket, fd: c_int) {
        if self.count == 0 {
            return;
        }
        let first = self.first;
        let Begun { offset, bytes, since, .. } = self.pieces()[first];
        let (mut poll, mut late) = (POLL_MIN, Nanos(0));
        while kernel::cache_state(fd, offset, bytes).is_some_and(|cache| cache.nr_writeback > 0)
            && clock::now().since(since) < PIECE_TIMEOUT
            && !region.is_admitted(ticket)
        {
            let begun = clock::now();
            kernel::sleep(poll);
            late = late.max(clock::now().since(begun + poll));
            poll = Nanos(poll.0 * 3 / 2).min(POLL_MAX);
        }
        if poll > POLL_MIN {
            region.woke_late(late);
        }
        self.report(region, ticket);
    }
}
