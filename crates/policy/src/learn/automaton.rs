//! Linear reward-penalty automata: the paper's learners.
//!
//! # Problem
//! Nothing is known of how shares become transactions. What can be done is to try a fraction, look
//! at the dft, and try the good ones more often.
//!
//! # The primitive
//! An [`Automaton`] has r = 5 actions, the fractions 0.1, 0.3, 0.5, 0.7, 0.9, and a probability of
//! each. It acts by a draw, waits, and turns what it sees into f between 0 (best) and 1 (worst).
//! With i the action taken and j each other one:
//!
//! ```text
//! (1)  p_i += −β f p_i + α (1 − f)(1 − p_i)
//! (2)  p_j += f (β/(r − 1) − β p_j) − α (1 − f) p_j
//! (3)  e = Σ dft²            over all applications with a target
//! ```
//!
//! The paper leaves f(k) open. [`Feedback::Relative`] compares the error with that before the
//! action: f = ½ + ½ (e_new − e_cur)/max. [`Feedback::Absolute`] takes the error itself: f = min(1,
//! e/scale). The first goes on exploring for ever, since a good action is rewarded by a coin toss
//! once the error is small. The second punishes a wrong action near the target too little.
//!
//! [`Automata`] puts one at each host and one at the store. [`Mode::Single`] lets only the store's
//! learn. [`Mode::Uncoordinated`] lets all act at once, [`Mode::Token`] one at a time, for some
//! actions each, whose turn is a lease ([`super::token`]).
//!
//! # Invariants
//! The probabilities are within [0, 1] and their sum is one, for 0 ≤ α, β ≤ 1: what (1) adds to one
//! action, (2) takes from the others.
//!
//! # Worked example
//! All at 0.2, α = 0.1, β = 0.02. Action i was best (f = 0): p_i = 0.2 + 0.1 · 0.8 = 0.28, the
//! others 0.2 − 0.1 · 0.2 = 0.18. It was worst (f = 1): p_i = 0.2 − 0.02 · 0.2 = 0.196, the others
//! 0.2 + 0.02/4 − 0.02 · 0.2 = 0.201.
//!
//! Source: sections 3.4 and 3.5. α, β, the time of an action and the actions of a turn are not
//! given there. The defaults resemble its figures.

use super::token::Token;
use super::{Application, Controller, Fractions, Mean, Observation};
use crate::Nanos;
use crate::random::Random;

/// The actions: a fraction of the first flow; the others share the rest.
pub const ACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// How an error becomes f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feedback {
    /// By comparison with the error before the action.
    Relative,
    /// The error over this scale, at most one.
    Absolute(f64),
}

impl Feedback {
    /// f of Equations 1 and 2, from the errors before and after the action.
    pub fn of(self, before: f64, after: f64) -> f64 {
        let f = match self {
            Feedback::Relative => 0.5 + 0.5 * (after - before) / after.max(before).max(1e-9),
            Feedback::Absolute(scale) => after / scale.max(1e-9),
        };
        f.clamp(0.0, 1.0)
    }
}

/// One learner's probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Automaton {
    /// Of each action.
    pub probability: [f64; ACTIONS.len()],
    /// The action in force.
    pub action: usize,
}

impl Automaton {
    /// All actions are equally likely; `action` is in force.
    pub const fn new(action: usize) -> Self {
        Automaton { probability: [1.0 / ACTIONS.len() as f64; ACTIONS.len()], action }
    }

    /// Equations 1 and 2 for the action in force.
    pub fn learn(&mut self, alpha: f64, beta: f64, f: f64) {
        let others = (ACTIONS.len() - 1) as f64;
        for (at, p) in self.probability.iter_mut().enumerate() {
            *p += if at == self.action {
                -beta * f * *p + alpha * (1.0 - f) * (1.0 - *p)
            } else {
                f * (beta / others - beta * *p) - alpha * (1.0 - f) * *p
            };
        }
    }

    /// Draws an action; `unit` is uniform in [0, 1).
    pub fn draw(&mut self, unit: f64) {
        let mut left = unit;
        self.action = ACTIONS.len() - 1;
        for (at, p) in self.probability.iter().enumerate() {
            if left < *p {
                self.action = at;
                return;
            }
            left -= p;
        }
    }

    /// The likeliest action is in force.
    pub fn settle(&mut self) {
        let likelier = |a: &usize, b: &usize| self.probability[*a].total_cmp(&self.probability[*b]);
        self.action = (0..ACTIONS.len()).max_by(likelier).unwrap_or(0);
    }
}

/// Who learns when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only the store; the hosts' fractions are fixed.
    Single,
    /// All at once.
    Uncoordinated,
    /// One at a time, for this many actions.
    Token(u32),
}

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Who learns when. Default: by the token, ten actions a turn.
    pub mode: Mode,
    /// Reward. Default 0.1.
    pub alpha: f64,
    /// Penalty. Default 0.02.
    pub beta: f64,
    /// Default relative.
    pub feedback: Feedback,
    /// Windows of an action. Default 5.
    pub interval: u32,
    /// Windows after an action that are not looked at. Default 1.
    pub settle: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Token(10),
            alpha: 0.1,
            beta: 0.02,
            feedback: Feedback::Relative,
            interval: 5,
            settle: 1,
        }
    }
}

#[derive(Clone, Debug)]
struct Learner {
    /// None is the store.
    host: Option<usize>,
    automaton: Automaton,
    windows: u32,
    error: f64,
    dft: Vec<Mean>,
}

/// The paper's system: one automaton for each host and one for the store.
#[derive(Clone, Debug)]
pub struct Automata {
    settings: Settings,
    learners: Vec<Learner>,
    token: Token,
    actions: u32,
    random: Random,
    begun: bool,
    alive: bool,
}

impl Automata {
    /// Learners for `hosts` hosts with `applications` applications.
    pub fn new(settings: Settings, applications: usize, hosts: usize, seed: u64) -> Self {
        let mut random = Random::stream(seed, 7);
        let count = if settings.mode == Mode::Single { 1 } else { hosts as u32 + 1 };
        let learners = (0..count).map(|at| Learner {
            host: (at + 1 < count).then_some(at as usize),
            automaton: Automaton::new(random.below(ACTIONS.len() as u64) as usize),
            // They do not act in step.
            windows: if settings.mode == Mode::Uncoordinated {
                at * settings.interval / count
            } else {
                0
            },
            error: 1.0,
            dft: vec![Mean::default(); applications],
        });
        let learners = learners.collect();
        let token = Token::new(Nanos(0), lease(&settings));
        Automata { settings, learners, token, actions: 0, random, begun: false, alive: true }
    }

    fn may_learn(&self, now: Nanos, at: usize) -> bool {
        match self.settings.mode {
            Mode::Token(_) => self.token.accepts(now, at as u32, self.token.epoch),
            Mode::Single | Mode::Uncoordinated => true,
        }
    }

    /// An action of learner `at` is over.
    fn judge(&mut self, now: Nanos, at: usize) {
        let settings = self.settings;
        let learner = &mut self.learners[at];
        // Equation 3. Without any dft there is nothing to learn from, and the action goes on.
        let (mut error, mut heard) = (0.0, false);
        for dft in learner.dft.iter_mut().filter_map(Mean::take) {
            error += dft * dft;
            heard = true;
        }
        learner.windows = 0;
        if heard {
            let f = settings.feedback.of(learner.error, error);
            learner.automaton.learn(settings.alpha, settings.beta, f);
            learner.error = error;
            learner.automaton.draw(self.random.unit());
        }
        if let Mode::Token(most) = settings.mode {
            self.actions += 1;
            let (own, epoch, lease) = (at as u32, self.token.epoch, lease(&settings));
            if self.actions >= most {
                self.actions = 0;
                self.learners[at].automaton.settle();
                let next = (own + 1) % self.learners.len() as u32;
                self.token.pass(now, own, epoch, next, lease);
            } else {
                self.token.renew(now, own, epoch, lease);
            }
        }
    }

    fn put(&self, at: usize, applications: &[Application], fractions: &mut Fractions) {
        let Learner { host, automaton, .. } = &self.learners[at];
        let first = ACTIONS[automaton.action];
        match host {
            Some(host) => {
                let on = |other: &Application| other.host == *host;
                let count = applications.iter().filter(|other| on(other)).count();
                let own =
                    fractions.host.iter_mut().zip(applications).filter(|(_, about)| on(about));
                for (number, (fraction, _)) in own.enumerate() {
                    *fraction = part(first, number, count);
                }
            }
            None => {
                let count = fractions.store.len();
                for (number, fraction) in fractions.store.iter_mut().enumerate() {
                    *fraction = part(first, number, count);
                }
            }
        }
    }
}

/// Three actions: long enough for a slow one, short enough that learning goes on.
fn lease(settings: &Settings) -> Nanos {
    Nanos(super::WINDOW.0 * 3 * u64::from(settings.interval))
}

fn part(first: f64, number: usize, count: usize) -> f64 {
    match (number, count) {
        (_, 0 | 1) => 1.0,
        (0, _) => first,
        (_, count) => (1.0 - first) / (count - 1) as f64,
    }
}

impl Controller for Automata {
    fn name(&self) -> &'static str {
        match self.settings.mode {
            Mode::Single => "automata, store alone",
            Mode::Uncoordinated => "automata, uncoordinated",
            Mode::Token(_) => "automata, token",
        }
    }

    fn window(
        &mut self,
        now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        if !self.begun {
            self.begun = true;
            self.token = Token::new(now, lease(&self.settings));
            for at in 0..self.learners.len() {
                self.put(at, applications, fractions);
            }
            return;
        }
        if !self.alive {
            return;
        }
        if matches!(self.settings.mode, Mode::Token(_)) {
            let next = (self.token.holder + 1) % self.learners.len() as u32;
            self.token.take(now, next, lease(&self.settings));
        }
        for at in 0..self.learners.len() {
            if !self.may_learn(now, at) {
                continue;
            }
            let learner = &mut self.learners[at];
            learner.windows += 1;
            if learner.windows > self.settings.settle {
                for (mean, observation) in learner.dft.iter_mut().zip(seen) {
                    if let Some(dft) = observation.and_then(|seen| seen.dft) {
                        mean.add(dft);
                    }
                }
            }
            if learner.windows >= self.settings.interval {
                self.judge(now, at);
                self.put(at, applications, fractions);
                if matches!(self.settings.mode, Mode::Token(_)) {
                    break;
                }
            }
        }
    }

    fn set_alive(&mut self, alive: bool) {
        self.alive = alive;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} and {b}");
        let mut best = Automaton::new(2);
        best.learn(0.1, 0.02, 0.0);
        near(best.probability[2], 0.28);
        near(best.probability[0], 0.18);
        let mut worst = Automaton::new(2);
        worst.learn(0.1, 0.02, 1.0);
        near(worst.probability[2], 0.196);
        near(worst.probability[0], 0.201);
    }

    #[test]
    fn feedback_is_relative_or_absolute() {
        assert_eq!(Feedback::Relative.of(0.4, 0.2), 0.25, "half of the error is gone");
        assert_eq!(Feedback::Relative.of(0.2, 0.2), 0.5, "a coin toss");
        assert_eq!(Feedback::Relative.of(0.0, 0.0), 0.5);
        assert_eq!(Feedback::Absolute(1.0).of(9.0, 0.04), 0.04);
        assert_eq!(Feedback::Absolute(1.0).of(0.0, 3.0), 1.0);
    }

    proptest! {
        #[test]
        fn probabilities_stay_probabilities(
            steps in proptest::collection::vec((0usize..5, 0.0..=1.0), 1..300),
            alpha in 0.0..=1.0, beta in 0.0..=1.0,
        ) {
            let mut automaton = Automaton::new(0);
            for (action, f) in steps {
                automaton.action = action;
                automaton.learn(alpha, beta, f);
                let sum: f64 = automaton.probability.iter().sum();
                prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
                prop_assert!(automaton.probability.iter().all(|p| (-1e-12..=1.0 + 1e-12).contains(p)));
            }
        }
    }

    #[test]
    fn a_good_action_becomes_the_likeliest() {
        let mut automaton = Automaton::new(0);
        let mut random = Random::new(3);
        for _ in 0..500 {
            let f = Feedback::Absolute(1.0).of(0.0, (ACTIONS[automaton.action] - 0.7).abs());
            automaton.learn(0.1, 0.02, f);
            automaton.draw(random.unit());
        }
        automaton.settle();
        assert_eq!(ACTIONS[automaton.action], 0.7, "{automaton:?}");
    }

    /// The holder's actions get lost; the turn goes on to the next.
    #[test]
    fn a_dead_holder_does_not_end_learning() {
        let applications = [Application::with_target(0), Application::best_effort(1)];
        let mut automata = Automata::new(Settings::default(), 2, 2, 1);
        let mut fractions = Fractions::equal(&applications, 2);
        for second in 0..10 {
            automata.window(at(second), &applications, &[None, None], &mut fractions);
        }
        automata.set_alive(false);
        for second in 10..70 {
            automata.window(at(second), &applications, &[None, None], &mut fractions);
        }
        automata.set_alive(true);
        let before = automata.token.epoch;
        for second in 70..80 {
            automata.window(at(second), &applications, &[None, None], &mut fractions);
        }
        assert!(automata.token.epoch > before, "{:?}", automata.token);
        assert!(automata.token.expires > at(79));
    }

    fn at(seconds: u64) -> Nanos {
        Nanos(crate::learn::WINDOW.0 * seconds)
    }
}
