//! Another controller than need and lag, in its place: the paper's automata, log-PI, an integral.
//!
//! A store has them to be compared with. What they decide for a host goes there with the grants, as
//! with need and lag: a host's fractions are in the ratio of its applications' shares. So learners
//! of all levels run here, and hosts carry out.

use crate::apps::About;
use crate::learner::{self, Learner};
use headworks_policy::Nanos;
use headworks_policy::learn::{Application, Controller, Fractions, Observation};

/// See the module.
pub struct Rival {
    learner: Learner,
    controller: Box<dyn Controller + Send>,
    applications: Vec<Application>,
    fractions: Fractions,
}

/// The applications as a controller of several levels knows them: a host is a volume with its
/// client.
fn with_hosts<'a>(abouts: impl Iterator<Item = &'a About>) -> Vec<Application> {
    let mut hosts: Vec<(&str, Option<&str>)> = Vec::new();
    let one = |about: &'a About| {
        let own = (about.volume.as_str(), about.client.as_deref());
        let host = hosts.iter().position(|known| *known == own).unwrap_or_else(|| {
            hosts.push(own);
            hosts.len() - 1
        });
        Application { host, ..about.application() }
    };
    abouts.map(one).collect()
}

impl Rival {
    /// Without applications.
    pub fn new(learner: Learner) -> Rival {
        let controller = learner.build(&[], false, false, 0);
        Rival { learner, controller, applications: Vec::new(), fractions: Fractions::equal(&[], 0) }
    }

    /// A window is over; both slices are as long. Returns the shares, and the part of the depth
    /// that best effort may have. If the applications are others than before, it begins again.
    pub fn window<'a>(
        &mut self,
        now: Nanos,
        abouts: impl Iterator<Item = &'a About>,
        seen: &[Option<Observation>],
    ) -> (Vec<f64>, f64) {
        let applications = with_hosts(abouts);
        if applications != self.applications {
            let hosts = learner::hosts(&applications);
            // Where each host has one application, there is nothing to learn at hosts.
            let store_alone = hosts == applications.len();
            self.controller = self.learner.build(&applications, false, store_alone, now.0);
            self.fractions = Fractions::equal(&applications, hosts);
            self.applications = applications;
        }
        self.controller.window(now, &self.applications, seen, &mut self.fractions);
        let share = |at| self.fractions.share(&self.applications, at);
        ((0..self.applications.len()).map(share).collect(), self.fractions.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::Goal;

    fn about(name: &str, volume: &str, goal: Goal) -> About {
        About {
            name: name.to_owned(),
            volume: volume.to_owned(),
            client: None,
            tagged: true,
            goal,
            weight: 1.0,
            limit: 1.0,
        }
    }

    fn seen(dft: Option<f64>) -> Option<Observation> {
        Some(Observation {
            dft,
            demand: true,
            age: Nanos(0),
            granted: 0.25,
            used: 0.25,
            held: true,
            lent: false,
            sated: false,
            latency_s: 0.01,
            outstanding: 0.0,
        })
    }

    #[test]
    fn every_name_is_a_controller_whose_shares_follow_a_target() {
        let abouts = [
            about("a0", "a", Goal::Rate(10.0)),
            about("a1", "a", Goal::BestEffort),
            about("b0", "b", Goal::BestEffort),
            about("b1", "b", Goal::BestEffort),
        ];
        for name in ["log-pi", "integral", "automata", "automata-uncoordinated", "automata-store"] {
            let mut rival = Rival::new(name.parse().unwrap());
            let (mut highest, mut shares) = (0.0, Vec::new());
            for second in 0..300 {
                // It has a third of what it should have.
                let seen = [seen(Some(-0.67)), seen(None), seen(None), seen(None)];
                let now = Nanos::from_millis(1_000 * second);
                shares = rival.window(now, abouts.iter(), &seen).0;
                highest = f64::max(highest, shares[0]);
            }
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}: {shares:?}");
            assert!(highest > 0.3, "{name}: {highest}");
        }
        assert!("paper".parse::<Learner>().unwrap_err().contains("log-pi"));
    }

    #[test]
    fn hosts_with_one_application_each_leave_all_to_the_store() {
        let abouts = [about("a", "a", Goal::Rate(10.0)), about("b", "b", Goal::BestEffort)];
        let mut rival = Rival::new("automata".parse().unwrap());
        for second in 0..100 {
            let now = Nanos::from_millis(1_000 * second);
            let (shares, _) = rival.window(now, abouts.iter(), &[seen(Some(-0.5)), seen(None)]);
            assert!((shares[0] * 10.0).round() as u32 % 2 == 1, "an action of five: {shares:?}");
        }
    }
}
