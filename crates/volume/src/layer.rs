//! Layers: they delay, limit, fail or watch requests on their way to the queue.
//!
//! A layer is pure: it gets the time as an argument and returns a [`Verdict`], which the engine
//! carries out. Layers stack: a request passes them in the configured order, and each gets the time
//! at which the one before lets it go.

mod delay;
mod error;
mod powercut;
mod rate;
mod record;
mod settings;
mod stats;

pub use delay::Delay;
pub use error::Faults;
pub use powercut::{CutReport, PowerCut, PowerCutSettings};
pub use rate::Rate;
pub use record::{Recorder, Traced, read_trace};
pub use settings::{LayerError, bytes, time};
pub use stats::Stats;

use headworks_policy::Nanos;
use headworks_policy::block::Request;
use std::path::PathBuf;

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this errno and does nothing.
    Error(i32),
    /// Only this many of its first sectors are written, then it fails with EIO. Anything but a
    /// write fails with EIO at once.
    Torn {
        /// Sectors that are written.
        sectors: u32,
    },
    /// One bit of its data is inverted, without an error.
    Flip {
        /// Byte within the data.
        byte: u32,
        /// Bit within the byte, 0 to 7.
        bit: u8,
    },
}

/// What a layer decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The request goes on at this time, or at once if the time is over.
    pub hold_until: Nanos,
    /// What is to go wrong.
    pub fault: Option<Fault>,
}

/// A layer above the queue.
pub trait Layer: Send {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// A request comes at `now`. Times may run backwards by as much as earlier layers hold
    /// requests.
    fn admit(&mut self, now: Nanos, request: &Request) -> Verdict {
        let _ = (now, request);
        Verdict::default()
    }

    /// A request that came at `came` is answered at `now`.
    fn completed(&mut self, now: Nanos, request: &Request, came: Nanos, failed: bool) {
        let _ = (now, request, came, failed);
    }

    /// Figures for `headworks volume stat`, each with its unit at the end of its name.
    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// A parsed layer.
pub enum Parsed {
    /// Stands above the queue.
    Layer(Box<dyn Layer>),
    /// Writes a trace into this file.
    Record(PathBuf),
    /// The power cut that wraps the store.
    PowerCut(PowerCutSettings),
}

/// Names of all layers, each with an example.
pub const EXAMPLES: [(&str, &str); 6] = [
    ("delay", Delay::EXAMPLE),
    ("rate", Rate::EXAMPLE),
    ("error", Faults::EXAMPLE),
    ("stats", "stats"),
    ("record", "record:FILE"),
    ("powercut", PowerCutSettings::EXAMPLE),
];

/// Parses `name`, `name:key=value,…` or `record:FILE`.
///
/// # Errors
/// Tells what is wrong, with an example that works.
pub fn parse(text: &str) -> Result<Parsed, LayerError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let wrong = |problem: String, example| LayerError { text: text.to_owned(), problem, example };
    Ok(match name {
        "delay" => Parsed::Layer(Box::new(Delay::parse(text)?)),
        "rate" => Parsed::Layer(Box::new(Rate::parse(text)?)),
        "error" => Parsed::Layer(Box::new(Faults::parse(text)?)),
        "stats" if rest.is_empty() => Parsed::Layer(Box::new(Stats::default())),
        "stats" => return Err(wrong("it takes nothing".to_owned(), "stats")),
        "record" if rest.is_empty() => {
            return Err(wrong("it needs a file".to_owned(), "record:FILE"));
        }
        "record" => Parsed::Record(rest.into()),
        "powercut" => Parsed::PowerCut(PowerCutSettings::parse(text)?),
        _ => {
            let known = EXAMPLES.map(|(name, _)| name).join(", ");
            return Err(wrong(format!("unknown; known are {known}"), Delay::EXAMPLE));
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_example_works_and_what_is_unknown_is_said() {
        for (name, example) in super::EXAMPLES {
            assert!(super::parse(example).is_ok(), "{name}");
        }
        for bad in ["dealy:read=2ms", "stats:x=1", "record:", "", "error:sector=9-3"] {
            assert!(super::parse(bad).is_err(), "{bad}");
        }
    }
}
