//! Stores of one name: one of them holds the lease, and only that one writes what was learned. A
//! store that takes its place begins there. Targets may be set there, too.
//!
//! No request needs it. While etcd cannot be reached, or another store holds the lease, a store
//! serves by its own file and what it has learned.
//!
//! Keys, below `/headworks/NAME/`: `holder` (with a lease), `learned`, `targets/APPLICATION`.

use crate::config;
use crate::etcd::{Etcd, Held};
use crate::governor::Learned;
use crate::number::Number;
use std::collections::BTreeMap;
use std::io;

/// Seconds for which the place is held without a word of its holder.
pub const LEASE_S: u64 = 10;

/// What a look at etcd came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// What an earlier holder learned: the place was taken just now.
    pub learned: Option<BTreeMap<String, Learned>>,
    /// Targets by application, and why one cannot be.
    pub targets: BTreeMap<String, Result<f64, String>>,
}

/// A key of the stores of this name.
pub fn key(name: &str, last: &str) -> String {
    format!("/headworks/{name}/{last}")
}

/// See the module.
pub struct Membership {
    etcd: Etcd,
    name: String,
    held: Option<Held>,
}

impl Membership {
    /// As the configuration says.
    pub fn new(config: &config::Etcd) -> Membership {
        Membership { etcd: Etcd::new(&config.servers), name: config.name.clone(), held: None }
    }

    fn key(&self, last: &str) -> String {
        key(&self.name, last)
    }

    /// Whether this store has the place.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Takes or keeps the place, and reads the targets.
    ///
    /// # Errors
    /// No server of etcd answers.
    pub fn look(&mut self) -> io::Result<Seen> {
        let mut seen = Seen::default();
        if let Some(held) = &self.held
            && !self.etcd.keep(held)?
        {
            self.held = None;
        }
        if self.held.is_none() {
            let who = format!("{}", std::process::id());
            self.held = self.etcd.take(&self.key("holder"), &who, LEASE_S)?;
            if self.held.is_some() {
                let kept = self.etcd.read(&self.key("learned"))?;
                let text = kept.first().map(|(_, text)| text.as_str());
                seen.learned = text.and_then(|text| serde_json::from_str(text).ok());
            }
        }
        let targets = self.etcd.read(&self.key("targets/"))?;
        // Those of latencies have the same bounds.
        let number = |(name, text): (String, String)| (name, Number::Target.parse(&text));
        seen.targets = targets.into_iter().map(number).collect();
        Ok(seen)
    }

    /// Writes what was learned, if this store still has the place.
    ///
    /// # Errors
    /// No server of etcd answers.
    pub fn keep(&mut self, learned: &BTreeMap<String, Learned>) -> io::Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let text = serde_json::to_string(learned)?;
        if !self.etcd.put(held, &self.key("learned"), &text)? {
            self.held = None;
        }
        Ok(())
    }

    /// Gives the place back, so that another need not wait for the lease's end.
    pub fn leave(&mut self) {
        if let Some(held) = self.held.take() {
            self.etcd.give_back(&held);
        }
    }
}
