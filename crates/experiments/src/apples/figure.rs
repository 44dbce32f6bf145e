//! What a figure consists of. A figure is data: arms, points, a load, and what must hold.

use headworks_workload::sysbench::Oltp;
use headworks_workload::tpcc::Mix;
use headworks_workload::ycsb::Core;

use super::site::Site;
use super::trials::Trials;
use crate::experiment::Experiment;
pub(super) use crate::sweep::Claim;
use crate::sweep::panel::Panel;
use crate::sweep::record::Record;

/// A figure of the AppleS paper.
pub(super) struct Figure {
    /// The experiment's id.
    pub(super) id: &'static str,
    /// Where it is run.
    pub(super) site: Site,
    /// One line that says what it shows.
    pub(super) title: &'static str,
    /// Number of the figure.
    pub(super) figure: &'static str,
    /// What is run, in a few sentences.
    pub(super) about: &'static str,
    /// Key and label of the horizontal axis.
    pub(super) sweep: (&'static str, &'static str),
    /// Who is compared with whom.
    pub(super) arms: &'static [Arm],
    /// Length and number of the runs.
    pub(super) time: Time,
    /// Adds derived numbers to a record before it is judged. May run on a record that has them.
    pub(super) extend: fn(&mut Record),
    /// What must hold.
    pub(super) claims: &'static [Claim],
    /// The picture.
    pub(super) panels: fn() -> Vec<Panel>,
}

/// A server and its users, at one or more points.
pub(super) struct Arm {
    /// Its name, by which claims and panels refer to it.
    pub(super) label: &'static str,
    /// How the server is run.
    pub(super) server: ServerKind,
    /// Points at which this arm runs.
    pub(super) points: &'static [f64],
    /// What its users do.
    pub(super) load: Load,
    /// Warm-up and window, if they are not those of the figure.
    pub(super) time: Option<(u64, u64)>,
}

/// In a configuration, this stands for a bound: [`BOUND_CV_PART`] of the variation of latencies
/// that an arm in mode dry-run measured at the same point of the same round.
pub(super) const BOUND_CV: &str = "{cv}";

/// As in AppleS (section 5.1): 90 % of the baseline's.
pub(super) const BOUND_CV_PART: f64 = 0.9;

impl Arm {
    /// Whether its gate is in mode dry-run.
    pub(super) fn watches(&self) -> bool {
        matches!(self.server, ServerKind::Gate(config) if config.contains("\"dry-run\""))
    }

    /// Whether its bound comes from the measurement of another arm.
    pub(super) fn follows(&self) -> bool {
        matches!(self.server, ServerKind::Gate(config) if config.contains(BOUND_CV))
    }
}

/// How the server is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerKind {
    /// Without Headworks, with these options.
    Plain(&'static [&'static str]),
    /// Behind the gate, with this configuration. `{x}` stands for the point, and [`BOUND_CV`] for a
    /// measured bound.
    Gate(&'static str),
    /// The server of the arm behind the gate. The points are values of P, each tried for a few
    /// seconds after that arm's own window.
    Tried,
}

/// What the users do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) users: Users,
    /// Transactions from the start on.
    pub(super) mix: Mix,
    /// Transactions from the begin of the window on.
    pub(super) then: Option<Mix>,
    /// The first so many users connect with the account `ls`, all others with `be`. On a key-value
    /// store the others have no name; in MongoDB's protocol `ls` is the application's.
    pub(super) sensitive: usize,
    /// What they do instead of the site's own workload.
    pub(super) workload: Option<Workload>,
}

/// A workload of a site that has several on the same data.
#[derive(Debug, Clone, Copy)]
pub(super) enum Workload {
    /// On tables of sysbench.
    Sysbench(Oltp),
    /// On records of YCSB.
    Ycsb(Core),
}

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Users {
    /// Always so many.
    Fixed(usize),
    /// As many as the point says.
    Point,
    /// As many as the point says, in addition to the sensitive ones.
    PointAndSensitive,
}

impl Load {
    /// A number of users with one mix.
    pub(super) const fn of(users: Users, mix: Mix) -> Self {
        Self { users, mix, then: None, sensitive: 0, workload: None }
    }

    /// A number of users with one workload of several that the site's data has.
    pub(super) const fn doing(users: Users, workload: Workload) -> Self {
        Self { workload: Some(workload), ..Self::of(users, Mix::STANDARD) }
    }

    pub(super) fn count(&self, point: f64) -> usize {
        match self.users {
            Users::Fixed(users) => users,
            Users::Point => point as usize,
            Users::PointAndSensitive => point as usize + self.sensitive,
        }
    }
}

/// Length and number of the runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) warm_up_s: u64,
    pub(super) window_s: u64,
    pub(super) rounds: usize,
}

/// The times of a quick run, which only shows that everything works.
pub(super) const QUICK: Time = Time { warm_up_s: 2, window_s: 3, rounds: 1 };

/// Seconds to start, connect, check and stop, in full and in quick runs.
pub(super) const AROUND_S: (u64, u64) = (12, 2);

/// Seconds to fill the tables, in full and in quick runs.
pub(super) const LOAD_S: (u64, u64) = (240, 12);

impl Figure {
    /// How long a round of all arms takes, in seconds.
    pub(super) const fn round_s(&self, time: Time, quick: bool) -> u64 {
        let mut seconds = 0;
        let mut at = 0;
        while at < self.arms.len() {
            let arm = &self.arms[at];
            if matches!(arm.server, ServerKind::Tried) {
                // Once for each run of the arm that owns the server.
                seconds += Trials::duration_s(arm.points.len(), quick);
                at += 1;
                continue;
            }
            let (warm_up, window) = match arm.time {
                Some(own) if !quick => own,
                _ => (time.warm_up_s, time.window_s),
            };
            let around = if quick { AROUND_S.1 } else { AROUND_S.0 };
            seconds += arm.points.len() as u64 * (warm_up + window + around);
            at += 1;
        }
        seconds
    }

    /// Workload and database, for people.
    pub(super) fn setting(&self) -> String {
        let several = self.arms.iter().any(|arm| arm.load.workload.is_some());
        if several { self.site.family() } else { self.site.title() }
    }

    /// The arm whose values of P are tried on the server of another one.
    pub(super) fn tried(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| matches!(arm.server, ServerKind::Tried))
    }

    /// What the registry knows of it.
    pub(super) const fn experiment(&'static self) -> Experiment {
        let (needs, load_s) = self.site.needs();
        Experiment {
            id: self.id,
            title: self.title,
            paper: "AppleS",
            figure: self.figure,
            expected_s: self.round_s(self.time, false) * self.time.rounds as u64 + load_s,
            expected_quick_s: self.round_s(QUICK, true) * QUICK.rounds as u64 + LOAD_S.1,
            needs,
            bench: self,
        }
    }
}
