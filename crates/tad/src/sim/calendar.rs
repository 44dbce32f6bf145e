//! What happens next.
//!
//! A four-ary heap of 128-bit keys: the time in the upper half, then a counter, so that events of
//! one instant keep their order, then the event. Four-ary, because one of its levels is one cache
//! line, and most of a simulation's time is spent here.

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A part of a request has consumed its amount (or its turn is over).
    Used(u32),
    /// A load issues its next request.
    Arrive(u32),
    /// A queue may check again: a rate limit allows it.
    Wake(u32),
    /// The client of a request has waited long enough.
    Expire(u32),
    /// A controller looks.
    Control(u32),
    /// A change of the scenario.
    Change(u32),
    /// A bucket of the time series is full.
    Sample,
    /// Counting begins.
    Count,
}

const BITS: u32 = 28;
const MASK: u32 = (1 << BITS) - 1;

impl Event {
    fn pack(self) -> u32 {
        let (kind, index) = match self {
            Event::Used(index) => (0, index),
            Event::Arrive(index) => (1, index),
            Event::Wake(index) => (2, index),
            Event::Control(index) => (3, index),
            Event::Change(index) => (4, index),
            Event::Sample => (5, 0),
            Event::Count => (6, 0),
            Event::Expire(index) => (7, index),
        };
        kind << BITS | index & MASK
    }

    fn unpack(word: u32) -> Event {
        let index = word & MASK;
        match word >> BITS {
            0 => Event::Used(index),
            1 => Event::Arrive(index),
            2 => Event::Wake(index),
            3 => Event::Control(index),
            4 => Event::Change(index),
            5 => Event::Sample,
            6 => Event::Count,
            _ => Event::Expire(index),
        }
    }
}

/// Largest index that an event can name.
pub(super) const INDEX_MAX: u32 = MASK;

/// Events to come.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    heap: Vec<u128>,
    /// The root was taken and not yet replaced. The next step usually adds another event, which
    /// goes there: one pass through the heap instead of two.
    hole: bool,
    made: u32,
}

impl Calendar {
    /// Adds an event at `at_ns`.
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        let key = u128::from(at_ns) << 64 | u128::from(self.made) << 32 | u128::from(event.pack());
        self.made = self.made.wrapping_add(1);
        if self.hole {
            self.hole = false;
            return self.sink(key);
        }
        let mut at = self.heap.len();
        self.heap.push(key);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    /// The next event and its time.
    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        if self.hole {
            self.hole = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = *self.heap.first()?;
        self.hole = true;
        Some(open(first))
    }

    /// Puts a key in the place of the root.
    fn sink(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let child = at * 4 + 1;
            let Some(children) = heap.get(child..(child + 4).min(heap.len())) else { break };
            let (mut least, mut least_key) = (0, u128::MAX);
            for (which, &other) in children.iter().enumerate() {
                if other < least_key {
                    (least, least_key) = (which, other);
                }
            }
            if least_key >= key {
                break;
            }
            heap[at] = least_key;
            at = child + least;
        }
        heap[at] = key;
    }
}

fn open(key: u128) -> (u64, Event) {
    ((key >> 64) as u64, Event::unpack(key as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Rng;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_making() {
        let mut calendar = Calendar::default();
        let mut rng = Rng::new(7);
        let mut wanted = Vec::new();
        for index in 0..5_000 {
            let at = rng.below(500);
            calendar.push(at, Event::Used(index));
            wanted.push((at, index));
        }
        wanted.sort();
        let got: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        let wanted: Vec<_> = wanted.into_iter().map(|(at, i)| (at, Event::Used(i))).collect();
        assert_eq!(got, wanted);
    }

    #[test]
    fn pushes_between_pops_keep_the_order() {
        let mut calendar = Calendar::default();
        let mut model = std::collections::BTreeSet::new();
        let mut rng = Rng::new(8);
        let mut now = 0;
        for index in 0..20_000 {
            for _ in 0..rng.below(3) {
                let at = now + rng.below(50);
                calendar.push(at, Event::Used(index));
                model.insert((at, calendar.made, index));
            }
            for _ in 0..rng.below(3) {
                let wanted = model.pop_first().map(|(at, _, index)| (at, Event::Used(index)));
                assert_eq!(calendar.pop(), wanted);
                now = wanted.map_or(now, |(at, _)| at);
            }
        }
    }

    #[test]
    fn every_event_survives_packing() {
        for event in [
            Event::Used(INDEX_MAX),
            Event::Arrive(1),
            Event::Wake(2),
            Event::Control(3),
            Event::Change(4),
            Event::Expire(5),
            Event::Sample,
            Event::Count,
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }
}
