//! The controllers that a store can have: its own, and others to compare it with.

use headworks_policy::learn::{
    Application, Controller, automaton, log_pi, need,
    rivals::{Integral, Reservation, Windows},
};
use std::str::FromStr;

/// A controller and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Learner {
    /// The paper's automata.
    Automata(automaton::Mode, automaton::Feedback),
    /// Each level for itself.
    LogPi,
    /// Need alone, without lag and depth.
    Need,
    /// Need and lag.
    Lag,
    /// Need, lag and depth: the default of a store.
    Depth,
    /// An integral controller at the store alone.
    Integral,
    /// Hosts' windows by latency.
    Windows,
    /// Shares set by hand.
    Reserved(Vec<f64>),
}

/// Names in a configuration.
const NAMES: [(&str, Learner); 7] = [
    ("need", Learner::Depth),
    ("need-without-depth", Learner::Lag),
    ("log-pi", Learner::LogPi),
    ("integral", Learner::Integral),
    ("automata", Learner::TOKEN),
    ("automata-uncoordinated", Learner::UNCOORDINATED),
    ("automata-store", Learner::SINGLE),
];

impl FromStr for Learner {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, learner)| learner).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("there is no controller `{name}`; there are {}", names.join(", "))
        })
    }
}

/// Number of hosts.
pub fn hosts(applications: &[Application]) -> usize {
    applications.iter().map(|application| application.host + 1).max().unwrap_or(1)
}

impl Learner {
    /// The paper's, with the token.
    pub const TOKEN: Learner =
        Learner::Automata(automaton::Mode::Token(10), automaton::Feedback::Relative);
    /// The paper's, all at once.
    pub const UNCOORDINATED: Learner =
        Learner::Automata(automaton::Mode::Uncoordinated, automaton::Feedback::Relative);
    /// The paper's, at the store alone.
    pub const SINGLE: Learner =
        Learner::Automata(automaton::Mode::Single, automaton::Feedback::Relative);

    /// Whether it needs hours, not minutes.
    pub const fn is_slow(&self) -> bool {
        matches!(self, Learner::Automata(..))
    }

    /// Settings of need and lag, if it is that. `hard` are shares that are lost if they are not
    /// used; `store_alone` leaves the hosts' fractions as they are.
    pub fn need(&self, hard: bool, store_alone: bool) -> Option<need::Settings> {
        let (lag_gain, depth_gain) = match self {
            Learner::Need => (0.0, 0.0),
            Learner::Lag => (0.3, 0.0),
            Learner::Depth => (0.3, 0.1),
            _ => return None,
        };
        let usual = need::Settings::default();
        Some(need::Settings { lag_gain, depth_gain, hard_shares: hard, store_alone, ..usual })
    }

    /// One for these applications; see [`Learner::need`].
    pub fn build(
        &self,
        about: &[Application],
        hard: bool,
        store_alone: bool,
        seed: u64,
    ) -> Box<dyn Controller + Send> {
        if let Some(settings) = self.need(hard, store_alone) {
            return Box::new(need::Owners::new(settings, about));
        }
        match self {
            Learner::Automata(mode, feedback) => {
                let mode = if store_alone { automaton::Mode::Single } else { *mode };
                let settings =
                    automaton::Settings { mode, feedback: *feedback, ..Default::default() };
                Box::new(automaton::Automata::new(settings, about.len(), hosts(about), seed))
            }
            Learner::Integral => Box::new(Integral { gain: 0.05 }),
            Learner::Windows => Box::new(Windows::new(0.05, 0.2, vec![2.0; hosts(about)], 30.0)),
            Learner::Reserved(reserved) => Box::new(Reservation { reserved: reserved.clone() }),
            _ => {
                let gamma = if store_alone { 0.5 } else { 0.25 };
                let settings = log_pi::Settings { gamma, store_alone, ..Default::default() };
                Box::new(log_pi::LogPi::new(settings, about.len()))
            }
        }
    }
}
