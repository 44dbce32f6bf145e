//! The controllers that are compared.

use super::app::{App, hosts};
use headworks_policy::learn::{
    Application, Controller, automaton, log_pi, need,
    rivals::{Integral, Reservation, Windows},
};

/// A controller and its settings.
#[derive(Clone, Debug)]
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

    /// One for these applications. `hard` are shares that are lost if they are not used;
    /// `store_alone` leaves the hosts' fractions as they are.
    pub fn build(
        &self,
        apps: &[App],
        hard: bool,
        store_alone: bool,
        seed: u64,
    ) -> Box<dyn Controller> {
        let about: Vec<Application> = apps.iter().map(App::application).collect();
        let owners = |lag_gain, depth_gain| {
            let usual = need::Settings::default();
            let settings =
                need::Settings { lag_gain, depth_gain, hard_shares: hard, store_alone, ..usual };
            Box::new(need::Owners::new(settings, &about))
        };
        match self {
            Learner::Automata(mode, feedback) => {
                let mode = if store_alone { automaton::Mode::Single } else { *mode };
                let settings =
                    automaton::Settings { mode, feedback: *feedback, ..Default::default() };
                Box::new(automaton::Automata::new(settings, apps.len(), hosts(apps), seed))
            }
            Learner::LogPi => {
                let gamma = if store_alone { 0.5 } else { 0.25 };
                let settings = log_pi::Settings { gamma, store_alone, ..Default::default() };
                Box::new(log_pi::LogPi::new(settings, apps.len()))
            }
            Learner::Need => owners(0.0, 0.0),
            Learner::Lag => owners(0.3, 0.0),
            Learner::Depth => owners(0.3, 0.1),
            Learner::Integral => Box::new(Integral { gain: 0.05 }),
            Learner::Windows => Box::new(Windows::new(0.05, 0.2, vec![2.0; hosts(apps)], 30.0)),
            Learner::Reserved(reserved) => Box::new(Reservation { reserved: reserved.clone() }),
        }
    }
}
