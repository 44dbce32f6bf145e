//! The cache of a node: the recently used keys.
//!
//! Least recently used: a list in order of use and a map into it. A look-up that misses makes room
//! and enters the key at once, as if it had been fetched.

use std::collections::HashMap;

/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    newer: u32,
    older: u32,
}

/// The cache of one node.
#[derive(Debug)]
pub(super) struct Lru {
    room: usize,
    /// Used only for look-ups, never iterated: its order differs from run to run.
    at: HashMap<u64, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Lru {
    pub(super) fn new(room: u32) -> Lru {
        Lru {
            room: room.max(1) as usize,
            at: HashMap::new(),
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
            hits: 0,
            misses: 0,
        }
    }

    /// Whether a key is in the cache; it is from then on, if it may `enter`.
    pub(super) fn look(&mut self, key: u64, enter: bool) -> bool {
        if let Some(&at) = self.at.get(&key) {
            self.unlink(at);
            self.link(at);
            self.hits += 1;
            return true;
        }
        if enter {
            self.misses += 1;
            self.enter(key);
        }
        false
    }

    fn enter(&mut self, key: u64) {
        let at = if self.entries.len() < self.room {
            self.entries.push(Entry { key, newer: NONE, older: NONE });
            self.entries.len() as u32 - 1
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.at.remove(&self.entries[at as usize].key);
            self.entries[at as usize].key = key;
            at
        };
        self.at.insert(key, at);
        self.link(at);
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link(&mut self, at: u32) {
        let older = self.newest;
        self.entries[at as usize].newer = NONE;
        self.entries[at as usize].older = older;
        match older {
            NONE => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::{Rng, Zipf};

    #[test]
    fn the_least_recently_used_gives_way() {
        let mut lru = Lru::new(2);
        assert!(!lru.look(1, true));
        assert!(!lru.look(2, true));
        assert!(lru.look(1, true)); // 2 is the older one from here on.
        assert!(!lru.look(3, true)); // 2 gives way.
        assert!(lru.look(1, true));
        assert!(!lru.look(2, true)); // 3 gives way.
        assert!(!lru.look(3, false)); // Looked for only: nothing gives way.
        assert!(lru.look(1, true) && lru.look(2, true));
        assert_eq!((lru.hits, lru.misses), (4, 4));
    }

    /// Che's approximation: a key of probability p is cached with 1 - exp(-p t), where t is such
    /// that the sum is the capacity. For 100 of 1,000 keys by Zipf's law it is exact within a
    /// percent.
    #[test]
    fn the_hit_ratio_is_that_of_ches_approximation() {
        let (keys, room) = (1_000u32, 100u32);
        let weights: Vec<f64> = (1..=keys).map(|rank| 1.0 / f64::from(rank)).collect();
        let sum: f64 = weights.iter().sum();
        let p: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let held = |t: f64| p.iter().map(|p| 1.0 - (-p * t).exp()).sum::<f64>();
        let (mut low, mut high) = (0.0, 1e7);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if held(middle) < f64::from(room) { low = middle } else { high = middle }
        }
        let expected: f64 = p.iter().map(|p| p * (1.0 - (-p * low).exp())).sum();
        let mut rng = Rng::new(5);
        let zipf = Zipf::new(keys, 1.0);
        let mut lru = Lru::new(room);
        for _ in 0..10_000 {
            lru.look(u64::from(zipf.draw(&mut rng)), true);
        }
        (lru.hits, lru.misses) = (0, 0);
        for _ in 0..200_000 {
            lru.look(u64::from(zipf.draw(&mut rng)), true);
        }
        let ratio = lru.hits as f64 / (lru.hits + lru.misses) as f64;
        assert!((ratio - expected).abs() < 0.01, "{ratio}, expected {expected}");
    }
}
