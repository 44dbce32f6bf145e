//! Look-ups in caches.
//!
//! A miss on speculation does not enter its key, as the part will come again. A request's key is a
//! function of the request, so the second look-up is for the same key.

use super::plan::{KeyPlan, LookupPlan};
use super::rng::Rng;
use super::slab::Trial;
use super::state::Engine;

impl Engine<'_> {
    /// Whether a part finds its key in the cache of its node.
    pub(super) fn hits(&mut self, part: u32, lookup: &LookupPlan, client: u32) -> bool {
        let entry = self.slab.parts[part as usize];
        let header = &self.slab.requests[entry.request as usize];
        // Identifies this request: when it was issued, and by which load in that instant.
        let mut dice = Rng::new(header.issued_ns ^ (u64::from(entry.request) << 40) ^ self.seed);
        let key = match &lookup.wanted {
            KeyPlan::Uniform => dice.below(u64::from(lookup.keys)) as u32,
            KeyPlan::Zipf(zipf) => zipf.draw(&mut dice),
            KeyPlan::Fixed(key) => key % lookup.keys,
        };
        let node = self.instances[entry.place as usize].node;
        let key = u64::from(client) << 32 | u64::from(key);
        let enter = entry.trial != Trial::UnderWay;
        self.caches[(lookup.base + node) as usize].look(key, enter)
    }
}
