//! One round of a figure: what targets and fixed shares are, the run of each arm, and its numbers.

use super::host::{App, Fractions, Stage};
use super::judged::{self, Phase};
use super::scene::{Member, Wants, Way, in_phase};
use super::stack::{Goal, Outcome, Setup};
use crate::sweep::record::Run;
use headworks_rig::machine;
use headworks_store::sim::judge;

/// Seconds of a run that measures, and those at its begin that do not count.
pub(super) const MEASURE_S: u64 = 20;
const WARM_UP_S: usize = 5;

/// Shares by which it is found what a share gives.
const SHARES: [f64; 6] = [0.15, 0.3, 0.45, 0.6, 0.75, 0.9];

/// Latency that hosts' windows aim at, in seconds.
const WINDOWS_S: f64 = 0.05;

/// What a round measures before its arms.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    /// What each member is to have, in transactions a second.
    targets: Vec<Option<f64>>,
    /// Best fixed shares of each member, phase by phase.
    shares: Vec<Vec<Option<f64>>>,
    /// What the first member does alone.
    alone_per_s: f64,
    /// Deviation of means of 5 s under fixed shares, as a part of the mean.
    pub sigma: f64,
}

/// Names of the phases, and their parts of the time.
type Names<'a> = &'a [(&'static str, f64)];

/// What is the same for all runs of a point in a round.
pub(super) struct Plan<'a> {
    pub members: &'a [Member],
    /// When each phase ends.
    pub ends_s: Vec<u64>,
    pub seed: u64,
}

impl Plan<'_> {
    fn hosts(&self) -> usize {
        self.members.iter().map(|member| member.host + 1).max().unwrap_or(0)
    }

    /// The members, host by host.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by_key(|at| self.members[*at].host);
        order
    }

    /// A run in which each member has these stages and, in each of them, these goals.
    fn setup(
        &self,
        way: Way,
        stages: &dyn Fn(usize) -> Vec<Stage>,
        goal: &dyn Fn(usize, usize) -> Goal,
        stages_s: Vec<u64>,
    ) -> Setup {
        let (controller, scheduler, fractions) = match way {
            Way::Controller(name) | Way::OverTcp(name) => (name, "sfq", Fractions::Granted),
            Way::Fixed | Way::Reserved => ("need", "sfq", Fractions::Granted),
            Way::Queue(name) => ("need", name, Fractions::None),
            Way::Alone => ("need", "noop", Fractions::None),
            Way::Windows => ("need", "noop", Fractions::ByLatency { threshold_s: WINDOWS_S }),
        };
        let app = |at: usize| {
            let Member { name, kind, .. } = self.members[at];
            let posts = matches!(goal(at, 0), Goal::Target(_));
            App { name: name.to_owned(), kind, posts, stages: stages(at) }
        };
        let order = self.order();
        let of_host = |host: usize| {
            let own = order.iter().filter(|at| self.members[**at].host == host);
            own.map(|at| app(*at)).collect()
        };
        let in_stage = |stage: usize| order.iter().map(|at| goal(*at, stage)).collect();
        Setup {
            controller,
            scheduler,
            fractions,
            hosts: (0..self.hosts()).map(of_host).collect(),
            goals: (0..stages_s.len()).map(in_stage).collect(),
            stages_s,
            net: matches!(way, Way::OverTcp(_)),
            seed: self.seed,
        }
    }

    /// A run that measures.
    fn measures(
        &self,
        way: Way,
        is_on: &dyn Fn(usize) -> bool,
        goal: &dyn Fn(usize) -> Goal,
    ) -> Setup {
        let stages = |at: usize| {
            let there = self.members[at].there;
            // Whose share is looked for has all of its load, as it will have after a warm-up.
            let most = there.iter().copied().fold(0.0, f64::max);
            let part = if at == 0 { most } else { in_phase(there, 0) };
            let part = if is_on(at) { part } else { 0.0 };
            vec![Stage { until_s: MEASURE_S, part, cost: 1.0 }]
        };
        self.setup(way, &stages, &|at, _| goal(at), vec![MEASURE_S])
    }

    /// The run of an arm.
    pub(super) fn arm(&self, way: Way, basis: &Basis) -> Setup {
        let stages = |at: usize| {
            let member = &self.members[at];
            let stage = |(phase, until_s): (usize, &u64)| Stage {
                until_s: *until_s,
                part: if way == Way::Alone && at > 0 { 0.0 } else { in_phase(member.there, phase) },
                cost: in_phase(member.cost, phase),
            };
            self.ends_s.iter().enumerate().map(stage).collect()
        };
        let goal = |at: usize, phase: usize| {
            let share =
                |phase: usize| basis.shares[at][phase].map_or(Goal::BestEffort, Goal::Share);
            match way {
                Way::Controller(_) | Way::OverTcp(_) => {
                    basis.targets[at].map_or(Goal::BestEffort, Goal::Target)
                }
                Way::Fixed => share(phase),
                Way::Reserved => share(0),
                Way::Queue(_) | Way::Windows | Way::Alone => Goal::BestEffort,
            }
        };
        self.setup(way, &stages, &goal, self.ends_s.clone())
    }

    /// Places of the members in an outcome, which is host by host.
    fn place(&self, member: usize) -> usize {
        self.order().iter().position(|at| *at == member).unwrap_or(0)
    }

    fn rate(&self, outcome: &Outcome, member: usize) -> f64 {
        let trace = judged::trace(outcome);
        let place = self.place(member);
        judge::mean(&trace, place, WARM_UP_S, trace.len())
    }

    /// Runs that tell what targets are, and what fixed shares meet them.
    pub(super) fn basis_setups(&self) -> Vec<Setup> {
        let own_share = |at: usize| match self.members[at].wants {
            Wants::AsWithShare(share) => Goal::Share(share),
            _ => Goal::BestEffort,
        };
        if own_share(0) != Goal::BestEffort {
            return vec![self.measures(Way::Fixed, &|_| true, &own_share)];
        }
        let alone = self.measures(Way::Alone, &|at| at == 0, &|_| Goal::BestEffort);
        let with = |share: f64| {
            let goal = move |at| if at == 0 { Goal::Share(share) } else { Goal::BestEffort };
            self.measures(Way::Fixed, &|_| true, &goal)
        };
        [alone].into_iter().chain(SHARES.map(with)).collect()
    }

    /// Of all applications whose shares were fixed: its mean square.
    fn sigma(&self, outcomes: &[Outcome]) -> f64 {
        let of = |(outcome, member): (&Outcome, usize)| {
            let trace = judged::trace(outcome);
            judge::sigma(&trace, self.place(member), WARM_UP_S, trace.len())
        };
        let all: Vec<f64> = match outcomes {
            [one] => (0..self.members.len()).map(|member| of((one, member))).collect(),
            [_, rest @ ..] => rest.iter().map(|outcome| of((outcome, 0))).collect(),
            [] => Vec::new(),
        };
        let squares: f64 = all.iter().map(|sigma| sigma * sigma).sum();
        (squares / all.len().max(1) as f64).sqrt()
    }

    pub(super) fn basis(&self, outcomes: &[Outcome]) -> Basis {
        let phases = self.ends_s.len();
        let mut basis = Basis {
            targets: vec![None; self.members.len()],
            shares: vec![vec![None; phases]; self.members.len()],
            alone_per_s: f64::NAN,
            sigma: self.sigma(outcomes),
        };
        let curve: Vec<(f64, f64)> = match outcomes {
            [_] => Vec::new(),
            [_, rest @ ..] => {
                let rates = rest.iter().map(|outcome| self.rate(outcome, 0));
                SHARES.into_iter().zip(rates).collect()
            }
            [] => return basis,
        };
        for (at, member) in self.members.iter().enumerate() {
            match member.wants {
                Wants::Rest => {}
                Wants::PartOfAlone(part) => {
                    // Of what the first one does, which all of them do.
                    let rate = self.rate(&outcomes[0], 0);
                    basis.alone_per_s = rate;
                    basis.targets[at] = Some(part * rate);
                    let share = |phase| {
                        let needed = part * rate * in_phase(member.cost, phase);
                        Some(share_for(&curve, needed))
                    };
                    basis.shares[at] = (0..phases).map(share).collect();
                }
                Wants::AsWithShare(share) => {
                    basis.targets[at] = Some(self.rate(&outcomes[0], at));
                    basis.shares[at] = vec![Some(share); phases];
                }
            }
        }
        basis
    }

    /// The phases, as they are judged.
    fn phases(&self, names: Names<'_>, basis: &Basis, way: Way) -> Vec<Phase> {
        let is_there = |at: usize, phase: usize| in_phase(self.members[at].there, phase) > 0.0;
        let one = |(phase, (name, _)): (usize, &(&'static str, f64))| {
            let from = if phase == 0 { 0 } else { self.ends_s[phase - 1] };
            let there = (0..self.members.len()).filter(|at| is_there(*at, phase));
            let there: Vec<usize> = there.filter(|at| way != Way::Alone || *at == 0).collect();
            let goal = |at: &usize| Some((self.place(*at), basis.targets[*at]?));
            let others = there.iter().filter(|at| basis.targets[**at].is_none());
            Phase {
                name,
                seconds: from as usize..self.ends_s[phase] as usize,
                goals: there.iter().filter_map(goal).collect(),
                others: others.map(|at| self.place(*at)).collect(),
            }
        };
        names.iter().enumerate().map(one).collect()
    }

    /// The run of an arm as the record has it.
    pub(super) fn run(&self, names: Names<'_>, basis: &Basis, way: Way, outcome: &Outcome) -> Run {
        let mut run = Run { load: Some(machine::Load::read()), ..Run::default() };
        let trace = judged::trace(outcome);
        let phases = self.phases(names, basis, way);
        for (number, phase) in phases.iter().enumerate() {
            judged::judge(&trace, phase, &mut run.numbers);
            let (from, to) = (phase.seconds.start, phase.seconds.end);
            let before = number.checked_sub(1).map(|before| &phases[before]);
            // The target's application has ended, or come back.
            let moved = match before.map(|before| (before.goals.is_empty(), phase.goals.is_empty()))
            {
                Some((false, true)) => phase.others.clone(),
                Some((true, false)) => phase.goals.iter().map(|(at, _)| *at).collect(),
                _ => continue,
            };
            let seconds = judged::follows_s(outcome, &moved, from, to);
            run.numbers.insert(format!("{}_follows_s", phase.name), seconds);
        }
        run.numbers.retain(|_, value| value.is_finite());
        let known = [
            ("alone_per_s", Some(basis.alone_per_s)),
            ("target_per_s", basis.targets[0]),
            ("fixed_sigma_part", Some(basis.sigma)),
        ];
        for (key, value) in known {
            run.numbers
                .extend(value.filter(|value| value.is_finite()).map(|v| (key.to_owned(), v)));
        }
        let by_hand = basis.shares[0].iter().zip(names);
        run.numbers
            .extend(by_hand.filter_map(|(share, (name, _))| {
                Some((format!("{name}_by_hand_part"), (*share)?))
            }));
        let order = self.order();
        let apps: Vec<String> = order.iter().map(|at| self.members[*at].name.to_owned()).collect();
        judged::series(outcome, &apps, &mut run);
        run
    }
}

/// The share that gives so much, between what was measured.
fn share_for(curve: &[(f64, f64)], rate: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (share, found) in curve {
        if *found >= rate && *found > before.1 {
            return before.0 + (share - before.0) * (rate - before.1) / (found - before.1);
        }
        if *found > before.1 {
            before = (*share, *found);
        }
    }
    0.95
}

#[cfg(test)]
mod tests {
    use super::super::load::Kind;
    use super::*;

    #[test]
    fn the_share_for_a_rate_lies_between_those_that_were_measured() {
        let curve = [(0.2, 100.0), (0.4, 150.0), (0.6, 140.0), (0.8, 250.0)];
        assert!((share_for(&curve, 50.0) - 0.1).abs() < 1e-9);
        assert!((share_for(&curve, 125.0) - 0.3).abs() < 1e-9);
        assert!((share_for(&curve, 200.0) - 0.6).abs() < 1e-9);
        assert_eq!(share_for(&curve, 300.0), 0.95);
    }

    #[test]
    fn a_phase_knows_who_is_there_and_by_hand_follows_the_cost() {
        let oltp = Kind::OltpA { small: 10, large: 1 };
        let members = [
            Member::new("b", 1, oltp, Wants::Rest),
            Member::new("a", 0, oltp, Wants::PartOfAlone(0.5)).there(&[1.0, 0.0]).cost(&[2.0]),
        ];
        let plan = Plan { members: &members, ends_s: vec![10, 20], seed: 1 };
        assert_eq!((plan.place(0), plan.place(1)), (1, 0));
        let basis = Basis {
            targets: vec![None, Some(5.0)],
            shares: vec![vec![None; 2], vec![Some(0.3), Some(0.4)]],
            alone_per_s: 10.0,
            sigma: 0.0,
        };
        let setup = plan.arm(Way::Fixed, &basis);
        assert_eq!(setup.goals[0], [Goal::Share(0.3), Goal::BestEffort]);
        assert_eq!(setup.goals[1], [Goal::Share(0.4), Goal::BestEffort]);
        let setup = plan.arm(Way::Controller("need"), &basis);
        assert_eq!(setup.goals[1], [Goal::Target(5.0), Goal::BestEffort]);
        assert!(setup.hosts[0][0].posts && !setup.hosts[1][0].posts);
        assert_eq!(setup.hosts[0][0].stages[1], Stage { until_s: 20, part: 0.0, cost: 2.0 });
    }
}
