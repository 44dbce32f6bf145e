//! Which thread belongs to which group, and the weight of each group. Pure.

use headworks_policy::cpu_weight::{Demand, cpu_weights};
use headworks_region::Mode;
use headworks_region::State;
use headworks_region::snapshot::Snapshot;
use std::collections::BTreeMap;

/// A group that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Index of its class.
    pub class: u32,
    /// Name of its class.
    pub name: String,
    /// Weight, where one ordinary thread is 100.
    pub cpu_weight: u32,
    /// Threads that belong to it, ascending.
    pub threads: Vec<u32>,
}

/// The wanted groups: one for each class that has sessions with separate threads. A thread that
/// serves several sessions counts for the last of them. The server's main thread is left alone,
/// because new threads and processes start in its group.
pub(super) fn wanted(snapshot: &Snapshot) -> Vec<Wanted> {
    let mut of_thread: BTreeMap<u32, u32> = BTreeMap::new();
    for session in &snapshot.sessions {
        let (_, thread) = session.thread;
        if session.state != State::Free
            && !session.bypass
            && thread != 0
            && thread != snapshot.server
        {
            of_thread.insert(thread, session.class);
        }
    }
    let mut groups: Vec<Wanted> = Vec::new();
    let mut demands: Vec<Demand> = Vec::new();
    for class in &snapshot.classes {
        let threads: Vec<u32> = of_thread
            .iter()
            .filter(|(_, of)| **of == class.class)
            .map(|(thread, _)| *thread)
            .collect();
        if threads.is_empty() {
            continue;
        }
        // There are at most 16,384 sessions.
        let sessions = threads.len() as u32;
        demands.push(Demand { weight: class.weight, shared: class.shared, sessions });
        groups.push(Wanted {
            class: class.class,
            name: class.name.clone(),
            cpu_weight: 0,
            threads,
        });
    }
    let settings = &snapshot.settings;
    let held = settings.mode == Mode::Enforce && !settings.off && !snapshot.stale;
    let mut weights = vec![0; demands.len()];
    cpu_weights(&demands, held.then_some(settings.parallelism), &mut weights);
    for (group, weight) in groups.iter_mut().zip(weights) {
        group.cpu_weight = weight;
    }
    groups
}

/// Threads that are not where they should be. `inside` tells which group a thread is in.
pub(super) fn moves<'a>(
    wanted: &'a [Wanted],
    inside: &'a BTreeMap<u32, u32>,
) -> impl Iterator<Item = (u32, u32)> + 'a {
    wanted.iter().flat_map(move |group| {
        let elsewhere = group.threads.iter().filter(|t| inside.get(*t) != Some(&group.class));
        elsewhere.map(|thread| (*thread, group.class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{self, SERVER, class};
    use headworks_region::snapshot::SessionView;

    fn session(number: u32, class: u32, thread: u32) -> SessionView {
        SessionView { thread: (SERVER, thread), ..views::session(number, class) }
    }

    fn snapshot(sessions: Vec<SessionView>) -> Snapshot {
        let classes = [class(0, "default", 1.0), class(3, "gold", 3.0), class(7, "empty", 9.0)];
        views::snapshot(sessions, classes.into())
    }

    fn short(groups: &[Wanted]) -> Vec<(&str, u32, &[u32])> {
        groups.iter().map(|g| (g.name.as_str(), g.cpu_weight, g.threads.as_slice())).collect()
    }

    #[test]
    fn each_thread_goes_with_the_class_of_its_user_and_the_rest_stays() {
        let administrator = SessionView { bypass: true, ..session(4, 0, 14) };
        let gone = SessionView { state: State::Free, ..session(5, 3, 15) };
        let mut of = snapshot(vec![
            session(0, 3, 10),
            session(1, 0, 12),
            session(2, 0, 11),
            // One without a request so far, and the main thread.
            session(3, 0, 0),
            session(6, 3, SERVER),
            administrator,
            gone,
        ]);
        // Three run: 300 · 2/5 and 300 · 3/5.
        assert_eq!(
            short(&wanted(&of)),
            [("default", 120, &[11, 12][..]), ("gold", 180, &[10][..])]
        );
        of.settings.parallelism = 2;
        assert_eq!(short(&wanted(&of))[1].1, 120, "two places are 200");
        of.settings.mode = Mode::DryRun;
        assert_eq!(short(&wanted(&of))[1].1, 180, "no request is held");
    }

    #[test]
    fn only_threads_that_are_elsewhere_move() {
        let group = |class, threads: &[u32]| Wanted {
            class,
            name: String::new(),
            cpu_weight: 100,
            threads: threads.to_vec(),
        };
        let wanted = [group(0, &[10, 11]), group(3, &[12, 13])];
        let inside = BTreeMap::from([(10, 0), (12, 0), (99, 3)]);
        // 11 and 13 are in none, 12 is in the wrong one; 99 serves no session and may stay.
        let moves: Vec<(u32, u32)> = moves(&wanted, &inside).collect();
        assert_eq!(moves, [(11, 0), (12, 3), (13, 3)]);
    }
}
