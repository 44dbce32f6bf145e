//! The configuration: a TOML file, checked once, into the types that the region takes.
//!
//! The file is stateless: a missing key has its default, and loading it twice gives the same. A
//! mistake gives an error and changes nothing, so a running instance keeps the last good
//! configuration. `config/headworks.toml` shows every key.

pub(crate) mod error;
pub(crate) mod io;
pub(crate) mod rules;
pub(crate) mod schema;
#[cfg(test)]
mod tests;
pub(crate) mod validate;

pub use error::ConfigError;
use headworks_settings::Place;

use headworks_policy::wrr::{ClassShare, Sharing, WEIGHT_ONE};
use headworks_policy::{CLASSES, Nanos};
use headworks_region::Region;
use headworks_region::control::{PERMITS, Settings};
use headworks_region::rules::Rule;
use std::net::SocketAddr;
use std::path::Path;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the gate. `off` is never set here: it belongs to the operator, see [`Config::apply`].
    pub settings: Settings,
    /// The classes. The first is always `default`; a rule names its class by an index into this
    /// list.
    pub classes: Vec<ClassConfig>,
    /// Which connection belongs to which class; the first match decides.
    pub rules: Vec<Rule>,
    /// Where Prometheus is served beside the Unix socket.
    pub metrics: Option<SocketAddr>,
    /// Threads get processor time by the weights of their users' classes; only read at the start.
    pub cpu_weights: bool,
    /// Of the I/O scheduler; only read at the start.
    pub io: io::IoConfig,
}

/// One class of users.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassConfig {
    /// Its name.
    pub name: String,
    /// Its weight, in thousandths.
    pub weight_thousandths: u32,
    /// Whether its sessions share the weight, instead of each having it.
    pub shared: bool,
    /// Fraction of its requests that must meet the latency target, and the target.
    pub target: Option<(f64, Nanos)>,
    /// With the scheduler `rcp`: whether clients wait for its sessions' I/O.
    pub foreground: bool,
}

impl ClassConfig {
    /// The class of all sessions that match no rule.
    fn default_class() -> Self {
        ClassConfig {
            name: "default".to_owned(),
            weight_thousandths: WEIGHT_ONE,
            shared: false,
            target: None,
            foreground: true,
        }
    }

    fn share(&self) -> ClassShare {
        let sharing = if self.shared { Sharing::PerClass } else { Sharing::PerUser };
        ClassShare::new(self.weight_thousandths, sharing)
    }
}

impl Default for Config {
    /// What an empty file means on this machine.
    fn default() -> Self {
        Config {
            settings: Settings { parallelism: OPEN, auto: true, ..Settings::default() },
            classes: vec![ClassConfig::default_class()],
            rules: Vec::new(),
            metrics: None,
            cpu_weights: false,
            io: io::IoConfig::default(),
        }
    }
}

/// Cores that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// The open gate, with which a search begins: the largest P that a region can hold.
pub const OPEN: u32 = PERMITS as u32;

/// Reads and checks a configuration file.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let read = |cause| ConfigError::Read { path: path.to_owned(), cause };
    let bytes = std::fs::read(path).map_err(read)?;
    match String::from_utf8(bytes) {
        Ok(text) => Config::parse(&text, path),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(Place::not_text(path, error.as_bytes(), at).into())
        }
    }
}

impl Config {
    /// Checks a configuration's text; `path` is only for the messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let place = Place { text, path };
        let file: schema::File =
            toml::from_str(text).map_err(|error| schema::explain(&error, &place))?;
        Ok(validate::validate(file, &place)?)
    }

    /// Writes the configuration into a region and wakes the sessions that it concerns. A gate that
    /// an operator has opened stays open.
    pub fn apply(&self, region: &Region) {
        let places = self.places(region);
        for (class, &place) in self.classes.iter().zip(&places) {
            let weight = class.weight_thousandths;
            region.set_class(place, &class.name, weight, class.share(), class.shared);
            region.set_target(place, class.target);
            region.set_foreground(place, class.foreground);
        }
        let mut rules = self.rules.clone();
        for rule in &mut rules {
            let place = places.get(rule.verdict.class as usize).copied().unwrap_or(0);
            rule.verdict.class = place as u32;
        }
        region.rules.replace(&rules);
        // Only after the rules: until then, connections may still enter a class that is removed.
        for gone in (0..CLASSES).filter(|place| !places.contains(place)) {
            let share = ClassShare::new(WEIGHT_ONE, Sharing::PerUser);
            region.set_class(gone, "", WEIGHT_ONE, share, false);
            region.set_target(gone, None);
            region.set_foreground(gone, true);
        }
        // The P that a search has found stays, even if a temporary one is in force. A P from the
        // file is permanent.
        if !self.settings.auto {
            region.heartbeat.set_temporary_p(None);
        }
        region.apply(&self.settings);
    }
}

impl Config {
    /// Where each class goes in the region. A class that exists already keeps its entry, and with
    /// it the totals of sessions that have left.
    fn places(&self, region: &Region) -> Vec<usize> {
        let name = |place: usize| region.classes[place].name.get();
        let known = |class: &ClassConfig| {
            (1..CLASSES).find(|&place| name(place).bytes() == class.name.as_bytes())
        };
        let kept: Vec<Option<usize>> = self
            .classes
            .iter()
            .enumerate()
            .map(|(at, class)| if at == 0 { Some(0) } else { known(class) })
            .collect();
        let mut free = (1..CLASSES).filter(|place| !kept.contains(&Some(*place)));
        kept.iter().map(|place| place.or_else(|| free.next()).unwrap_or(0)).collect()
    }
}

/// Milliseconds of a setting.
fn millis(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}
