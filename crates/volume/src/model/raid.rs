//! Several devices as one: an array that stripes (RAID-0).
//!
//! # The model
//! The address is cut into chunks; chunk n lies on member n mod m. A command goes to each member on
//! which it has chunks, as one command, since a member's chunks of one range are neighbours there.
//! It is complete when the last member is. A flush goes to all.
//!
//! # Worked example
//! 15 disks, chunks of 64 KiB. A read of 16 KiB is one access of one disk; one of 1 MiB has 16
//! chunks, hence an access of each disk, and the first of them reads two chunks.

use super::Model;
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request};

/// See the module.
pub struct Raid0 {
    members: Vec<Box<dyn Model>>,
    chunk_sectors: u64,
}

impl Raid0 {
    /// An array of these devices. A chunk has at least a sector.
    ///
    /// # Panics
    /// Without members.
    pub fn new(members: Vec<Box<dyn Model>>, chunk_sectors: u64) -> Self {
        assert!(!members.is_empty(), "an array of nothing");
        Raid0 { members, chunk_sectors: chunk_sectors.max(1) }
    }
}

impl Model for Raid0 {
    /// As many as all members take. A member may be given more: it queues them, as a driver would.
    fn depth(&self) -> u32 {
        self.members.iter().map(|member| member.depth()).sum()
    }

    fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
        if command.operation == Operation::Flush || command.sectors == 0 {
            let done = self.members.iter_mut().map(|member| member.start(now, command));
            return done.max().unwrap_or(now);
        }
        let count = self.members.len() as u64;
        let chunk = self.chunk_sectors;
        let (first, end) = (command.sector, command.sector + u64::from(command.sectors));
        let (first_chunk, last_chunk) = (first / chunk, (end - 1) / chunk);
        let mut done = now;
        // Each member has its first chunk of the range among the first `count` of them.
        for at in first_chunk..(last_chunk + 1).min(first_chunk + count) {
            let last = at + (last_chunk - at) / count * count;
            let inside = |sector: u64, of: u64| of / count * chunk + sector - of * chunk;
            let from = inside(first.max(at * chunk), at);
            let to = inside(end.min((last + 1) * chunk), last);
            // A part is at most as long as the whole.
            let part = Request { sector: from, sectors: (to - from) as u32, ..*command };
            done = done.max(self.members[(at % count) as usize].start(now, &part));
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    type Seen = Arc<Mutex<Vec<(usize, u64, u32)>>>;

    struct Member(usize, Seen);

    impl Model for Member {
        fn depth(&self) -> u32 {
            4
        }

        fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
            self.1.lock().unwrap().push((self.0, command.sector, command.sectors));
            now + Nanos(1 + self.0 as u64)
        }
    }

    fn array(count: usize, chunk: u64) -> (Raid0, Seen) {
        let seen = Seen::default();
        let member = |number| Box::new(Member(number, Arc::clone(&seen))) as Box<dyn Model>;
        (Raid0::new((0..count).map(member).collect(), chunk), Arc::clone(&seen))
    }

    fn read(sector: u64, sectors: u32) -> Request {
        Request::new(Operation::Read, sector, sectors)
    }

    #[test]
    fn a_command_is_done_when_its_last_member_is() {
        let (mut array, seen) = array(3, 8);
        assert_eq!(array.start(Nanos(10), &read(8, 8)), Nanos(12));
        // Chunks 0 to 4, the first from its fourth sector on.
        assert_eq!(array.start(Nanos(20), &read(4, 36)), Nanos(23));
        assert_eq!(array.depth(), 12);
        let seen = seen.lock().unwrap();
        assert_eq!(*seen, [(1, 0, 8), (0, 4, 12), (1, 0, 16), (2, 0, 8)]);
    }

    proptest::proptest! {
        /// The parts cover the command, sector by sector, where chunks lie.
        #[test]
        fn every_sector_is_asked_of_its_member(
            count in 1usize..6, chunk in 1u64..9, sector in 0u64..100, sectors in 1u32..100,
        ) {
            let (mut array, seen) = array(count, chunk);
            array.start(Nanos(0), &read(sector, sectors));
            let mut asked: Vec<_> = seen.lock().unwrap().iter()
                .flat_map(|(member, from, len)| (0..u64::from(*len)).map(move |at| (*member, from + at)))
                .collect();
            let count = count as u64;
            let mut expected: Vec<_> = (sector..sector + u64::from(sectors))
                .map(|at| ((at / chunk % count) as usize, at / chunk / count * chunk + at % chunk))
                .collect();
            asked.sort_unstable();
            expected.sort_unstable();
            proptest::prop_assert_eq!(asked, expected);
        }
    }
}
