//! Properties of the gate's policy, checked in a small closed-loop simulation: work conservation,
//! shares within one quantum of the weights, no starvation, bounded wait.

use headworks_policy::gate::{Gate, Next};
use headworks_policy::wrr::{ClassShare, Sharing, WEIGHT_ONE};
use proptest::prelude::*;

/// One session of the simulation.
#[derive(Clone, Debug)]
struct Session {
    class: u32,
    /// Requests of each of its turns, used in a circle.
    costs: Vec<u32>,
    turns: u64,
    requests: u64,
    waiting_since: Option<u64>,
    longest_wait: u64,
}

/// A closed loop: each session always wants the next turn. Time is counted in admissions.
struct Loop {
    gate: Box<Gate>,
    sessions: Vec<Session>,
    inside: Vec<u32>,
    admissions: u64,
}

impl Loop {
    fn new(sessions: Vec<Session>, shares: &[ClassShare], zeta: u32) -> Self {
        let mut gate = Box::new(Gate::new());
        gate.wrr.set_zeta(zeta);
        for (class, share) in shares.iter().enumerate() {
            gate.wrr.set_share(class, *share);
        }
        let mut this = Loop { gate, sessions, inside: Vec::new(), admissions: 0 };
        for session in 0..this.sessions.len() as u32 {
            this.gate.wrr.join(session, this.sessions[session as usize].class);
            this.arrive(session);
        }
        this
    }

    fn arrive(&mut self, session: u32) {
        self.sessions[session as usize].waiting_since = Some(self.admissions);
        self.gate.wrr.arrive(session);
    }

    /// Fills the P places; the one that entered first leaves and comes back.
    fn step(&mut self, parallelism: usize) {
        while self.inside.len() < parallelism {
            let Some(Next::Admit(turn)) = self.gate.decide() else { break };
            let session = &mut self.sessions[turn.session as usize];
            let since = session.waiting_since.take().expect("only who waits is admitted");
            session.longest_wait = session.longest_wait.max(self.admissions - since);
            self.admissions += 1;
            self.inside.push(turn.session);
        }
        assert!(
            self.inside.len() == parallelism || self.gate.pending() == 0,
            "work conservation: a place is free although {} wait",
            self.gate.pending()
        );
        let session = self.inside.remove(0);
        let cost = {
            let session = &mut self.sessions[session as usize];
            let cost = session.costs[session.turns as usize % session.costs.len()];
            session.turns += 1;
            session.requests += u64::from(cost);
            cost
        };
        self.gate.wrr.end_turn(session, cost);
        self.arrive(session);
    }
}

fn session(class: u32, costs: Vec<u32>) -> Session {
    Session { class, costs, turns: 0, requests: 0, waiting_since: None, longest_wait: 0 }
}

fn weight(thousandths: u32) -> ClassShare {
    ClassShare::new(thousandths, Sharing::PerUser)
}

#[test]
fn equal_users_with_equal_transactions_take_turns_exactly() {
    let mut sim = Loop::new(vec![session(0, vec![20]); 256], &[], 0);
    for _ in 0..256 * 50 {
        sim.step(16);
    }
    let turns: Vec<u64> = sim.sessions.iter().map(|session| session.turns).collect();
    assert!(turns.iter().max().unwrap() - turns.iter().min().unwrap() <= 1, "{turns:?}");
}

#[test]
fn a_user_of_weight_three_gets_three_times_the_requests() {
    let sessions = vec![
        session(0, vec![20]),
        session(1, vec![20]),
        session(1, vec![20]),
        session(1, vec![20]),
    ];
    let mut sim = Loop::new(sessions, &[weight(3 * WEIGHT_ONE), weight(WEIGHT_ONE)], 0);
    for _ in 0..6_000 {
        sim.step(1);
    }
    let ratio = sim.sessions[0].requests as f64 / sim.sessions[1].requests as f64;
    assert!((ratio - 3.0).abs() < 0.02, "{ratio}");
}

#[test]
fn the_lightest_weight_beside_the_heaviest_gets_its_millionth() {
    for zeta in [0, 1 << 20] {
        let sessions = vec![session(0, vec![1]), session(1, vec![1_000])];
        let mut sim = Loop::new(sessions, &[weight(1), weight(1_000 * WEIGHT_ONE)], zeta);
        // The first rounds are those of newcomers.
        while sim.sessions[0].turns < 2 {
            sim.step(1);
        }
        let before = [0, 1].map(|session| sim.sessions[session].requests);
        while sim.sessions[0].turns < 402 {
            sim.step(1);
        }
        let [light, heavy] = [0, 1].map(|session| sim.sessions[session].requests - before[session]);
        let ratio = heavy as f64 / light as f64;
        assert!((ratio / 1e6 - 1.0).abs() < 0.01, "ζ {zeta}: {ratio}");
    }
}

#[test]
fn a_class_that_shares_its_weight_gets_it_once_however_many_its_users() {
    let mut sessions = vec![session(0, vec![5]); 8];
    sessions.extend(vec![session(1, vec![5]); 2]);
    let shares = [
        ClassShare::new(WEIGHT_ONE, Sharing::PerClass),
        ClassShare::new(WEIGHT_ONE, Sharing::PerClass),
    ];
    let mut sim = Loop::new(sessions, &shares, 0);
    for _ in 0..20_000 {
        sim.step(2);
    }
    let total = |class| {
        sim.sessions
            .iter()
            .filter(|session| session.class == class)
            .map(|session| session.requests)
            .sum::<u64>() as f64
    };
    let ratio = total(0) / total(1);
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn a_small_account_waits_for_a_place_and_not_for_a_round() {
    // 200 sessions of one class always want a turn; four of another class, of the same weight, come
    // now and then. How many of the four wait at a time changes what each may have in a round.
    const LARGE: u32 = 200;
    const SMALL: u32 = 4;
    let shares = [ClassShare::new(WEIGHT_ONE, Sharing::PerClass); 2];
    let mut gate = Box::new(Gate::new());
    for (class, share) in shares.into_iter().enumerate() {
        gate.wrr.set_share(class, share);
    }
    for session in 0..LARGE + SMALL {
        gate.wrr.join(session, u32::from(session >= LARGE));
    }
    (0..LARGE).for_each(|session| gate.wrr.arrive(session));
    let mut back_at: Vec<u64> = (0..SMALL).map(|session| 1_000 + 7 * u64::from(session)).collect();
    let mut since = vec![None; SMALL as usize];
    let (mut inside, mut waits) = (std::collections::VecDeque::new(), Vec::new());
    for now in 0..60_000u64 {
        for (small, at) in back_at.iter_mut().enumerate().filter(|(_, at)| **at == now) {
            gate.wrr.arrive(LARGE + small as u32);
            (since[small], *at) = (Some(now), u64::MAX);
        }
        let Some(Next::Admit(turn)) = gate.decide() else { panic!("200 always wait") };
        if let Some(begun) = turn.session.checked_sub(LARGE).and_then(|small| since[small as usize])
        {
            waits.push(now - begun);
        }
        inside.push_back(turn.session);
        if inside.len() == 2
            && let Some(session) = inside.pop_front()
        {
            gate.wrr.end_turn(session, 1);
            match session.checked_sub(LARGE) {
                None => gate.wrr.arrive(session),
                Some(small) => {
                    since[small as usize] = None;
                    back_at[small as usize] = now + 5 + (now * 13 + u64::from(small) * 29) % 90;
                }
            }
        }
    }
    waits.sort_unstable();
    assert!(waits.len() > 3_000, "{}", waits.len());
    let (p99, max) = (waits[waits.len() * 99 / 100], waits[waits.len() - 1]);
    assert!(p99 <= 4 && max <= 12, "turns of others before its own: p99 {p99}, longest {max}");
}

#[test]
fn a_newcomer_is_no_better_off_than_a_resident() {
    // Session 0 forgets its past after each turn, as a client does that reconnects.
    let mut sim = Loop::new(vec![session(0, vec![20]); 32], &[], 0);
    for _ in 0..32 * 200 {
        sim.step(4);
        if sim.sessions[0].waiting_since == Some(sim.admissions) {
            sim.gate.wrr.join(0, 0);
            sim.arrive(0);
        }
    }
    let (own, other) = (sim.sessions[0].requests as f64, sim.sessions[1].requests as f64);
    assert!(own <= other * 1.05, "{own} against {other}");
}

#[test]
fn whoever_came_while_few_were_there_does_not_keep_a_share_of_that_time() {
    // ζ is 40 requests for each of 64 sessions. The first to arrive is alone, and 2,560 are its.
    let mut gate = Box::new(Gate::new());
    gate.wrr.set_zeta(40 * 64);
    for session in 0..64 {
        gate.wrr.arrive(session);
    }
    let Some(Next::Admit(first)) = gate.decide() else { panic!("all wait") };
    assert_eq!(first.session, 0);
    assert!(first.quota <= 40, "{}", first.quota);
    gate.wrr.end_turn(0, 40);
    gate.wrr.arrive(0);
    // Its next turns come no more than twice before those that have had none.
    let order: Vec<u32> = std::iter::from_fn(|| match gate.decide() {
        Some(Next::Admit(turn)) => Some(turn.session),
        _ => None,
    })
    .collect();
    assert!(order.iter().position(|&session| session != 0).unwrap() <= 2, "{order:?}");
}

#[test]
fn one_outlier_does_not_make_newcomers_wait() {
    let mut sim = Loop::new(vec![session(0, vec![1]); 255], &[], 0);
    for _ in 0..255 * 20 {
        sim.step(4);
    }
    // One session ends a transaction of 100,000 requests, and another connects.
    sim.gate.wrr.end_turn(300, 100_000);
    sim.gate.wrr.join(301, 0);
    sim.gate.wrr.arrive(301);
    let mut turns = 0;
    loop {
        let Some(Next::Admit(turn)) = sim.gate.decide() else { panic!("all wait") };
        if turn.session == 301 {
            break;
        }
        sim.gate.wrr.end_turn(turn.session, 1);
        sim.gate.wrr.arrive(turn.session);
        turns += 1;
        assert!(turns < 255 * 4, "more than a few rounds");
    }
}

#[test]
fn one_huge_transaction_is_paid_back_and_not_an_advantage() {
    let mut sessions = vec![session(0, vec![10]); 8];
    sessions[0].costs = vec![1_000];
    let mut sim = Loop::new(sessions, &[], 0);
    for _ in 0..40_000 {
        sim.step(2);
    }
    let (own, other) = (sim.sessions[0].requests as f64, sim.sessions[1].requests as f64);
    assert!(own <= other + 1_000.0, "{own} against {other}");
    assert!(own >= other - 1_000.0, "{own} against {other}: paid back more than it took");
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1_000_000, ..ProptestConfig::with_cases(48) })]

    /// Between any two sessions, the requests served per unit of weight differ by no more than one
    /// quantum. That is the largest cost of a turn plus one round's quota, over the weight.
    #[test]
    fn shares_stay_within_one_quantum_of_the_weights(
        weights in proptest::collection::vec(1u32..=8, 1..4),
        spec in proptest::collection::vec((0usize..4, proptest::collection::vec(1u32..60, 1..4)), 2..24),
        parallelism in 1usize..12,
        zeta in prop_oneof![Just(0u32), 1u32..400],
    ) {
        let shares: Vec<_> = weights.iter().map(|w| weight(w * WEIGHT_ONE)).collect();
        let sessions: Vec<_> = spec.iter().map(|(class, costs)| session((class % weights.len()) as u32, costs.clone())).collect();
        let count = sessions.len();
        let mut sim = Loop::new(sessions, &shares, zeta);
        // While the first sessions come, those already there share ζ among few: let that pass.
        for _ in 0..40 * count {
            sim.step(parallelism);
        }
        let before: Vec<u64> = sim.sessions.iter().map(|session| session.requests).collect();
        for _ in 0..400 * count {
            sim.step(parallelism);
        }
        for (session, before) in sim.sessions.iter_mut().zip(before) {
            session.requests -= before;
        }
        let least_weight = sim.sessions.iter().map(|session| weights[session.class as usize]).min().unwrap();
        let most_cost = sim.sessions.iter().flat_map(|session| session.costs.iter()).max().copied().unwrap();
        let quantum = |session: &Session| {
            let w = f64::from(weights[session.class as usize]);
            let total: u32 = sim.sessions.iter().map(|session| weights[session.class as usize]).sum();
            let quota = (w * f64::from(zeta) / f64::from(total)).max(w / f64::from(least_weight));
            // Both ends of the window can cut a turn and a round of each session. With P permits,
            // the rounds that pass during a turn come later: at most one more turn's worth.
            (3.0 * f64::from(most_cost) + 2.0 * quota) / w
        };
        // A session holds one permit at a time. A session that needs more than half of one all the
        // time is limited by that, and not by the weights.
        let turns_wanted = |session: &Session| {
            let mean = session.costs.iter().sum::<u32>() as f64 / session.costs.len() as f64;
            f64::from(weights[session.class as usize]) / mean
        };
        let all: f64 = sim.sessions.iter().map(turns_wanted).sum();
        prop_assume!(sim.sessions.iter().all(|session| turns_wanted(session) / all * parallelism as f64 <= 0.5));
        let per_weight = |session: &Session| session.requests as f64 / f64::from(weights[session.class as usize]);
        for a in &sim.sessions {
            for b in &sim.sessions {
                let allowed = quantum(a) + quantum(b);
                prop_assert!((per_weight(a) - per_weight(b)).abs() <= allowed,
                    "{} against {} with quantum {allowed}", per_weight(a), per_weight(b));
            }
        }
    }

    /// Every waiting session is admitted within a bounded number of admissions, whatever the others
    /// do. Until its debt is paid, at most the others' turns of that debt come before it.
    #[test]
    fn nobody_starves(
        spec in proptest::collection::vec(proptest::collection::vec(1u32..60, 1..4), 2..24),
        parallelism in 1usize..6,
    ) {
        let sessions: Vec<_> = spec.iter().map(|costs| session(0, costs.clone())).collect();
        let count = sessions.len() as u64;
        let mut sim = Loop::new(sessions, &[], 0);
        for _ in 0..300 * count {
            sim.step(parallelism);
        }
        for session in &sim.sessions {
            // A debt of up to 60 rounds, in which each other session has at most 60 turns of cost
            // 1.
            prop_assert!(session.longest_wait <= 62 * count, "{} of {count}", session.longest_wait);
            prop_assert!(session.turns > 0);
        }
    }

    /// A session that goes away and comes back any time neither loses the queue nor blocks it.
    #[test]
    fn withdrawing_never_loses_a_turn(ops in proptest::collection::vec((0u32..10, any::<bool>()), 1..200)) {
        let mut gate = Box::new(Gate::new());
        let mut waiting = std::collections::BTreeSet::new();
        for (session, comes) in ops {
            if comes {
                gate.wrr.arrive(session);
                waiting.insert(session);
            } else {
                prop_assert_eq!(gate.wrr.withdraw(session), waiting.remove(&session));
            }
            prop_assert_eq!(gate.pending(), waiting.len());
        }
        while let Some(Next::Admit(turn)) = gate.decide() {
            prop_assert!(turn.quota >= 1);
            prop_assert!(waiting.remove(&turn.session));
        }
        prop_assert!(waiting.is_empty());
    }

    /// A session's quota is its part of ζ, and at least its weight over the least one, in requests.
    /// It is exact, rounded down, however far the weights lie apart.
    #[test]
    fn quotas_are_parts_of_zeta(
        classes in proptest::collection::vec((1u32..=1_000_000, any::<bool>(), 1u32..40), 1..7),
        zeta in prop_oneof![Just(0), 1u32..10_000, any::<u32>()],
    ) {
        let mut gate = Box::new(Gate::new());
        gate.wrr.set_zeta(zeta);
        let (mut first, mut next) = (Vec::new(), 0);
        for (class, &(weight, shared, sessions)) in classes.iter().enumerate() {
            let sharing = if shared { Sharing::PerClass } else { Sharing::PerUser };
            gate.wrr.set_share(class, ClassShare::new(weight, sharing));
            first.push(next);
            for session in next..next + sessions {
                gate.wrr.join(session, class as u32);
                gate.wrr.arrive(session);
            }
            next += sessions;
        }
        // Weight of one session as a fraction, and of all together.
        let of_session = |&(weight, shared, sessions): &(u32, bool, u32)| {
            (u128::from(weight), if shared { u128::from(sessions) } else { 1 })
        };
        let of_class = |&(weight, shared, sessions): &(u32, bool, u32)| {
            u128::from(weight) * if shared { 1 } else { u128::from(sessions) }
        };
        let total: u128 = classes.iter().map(of_class).sum();
        for (class, &session) in classes.iter().zip(&first) {
            let (weight, among) = of_session(class);
            let by_zeta = ((weight * u128::from(zeta)) << 16) / (among * total);
            let by_others = classes.iter().map(of_session).map(|(least, shared_by)| {
                ((weight * shared_by) << 16) / (among * least)
            });
            let expected = by_others.max().unwrap().max(by_zeta).min(1 << 36);
            prop_assert_eq!(gate.wrr.quota(session) as u128, expected);
        }
    }
}
