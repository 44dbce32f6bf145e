//! Properties of the gate's policy, checked in a small closed-loop simulation: work conservation,
//! shares within one quantum of the weights, no starvation, bounded wait.

use headworks_policy::gate::{Gate, Next};
use headworks_policy::wrr::{ClassShare, Sharing, WEIGHT_ONE};
use proptest::prelude::*;

/// One user of the simulation.
#[derive(Clone, Debug)]
struct User {
    class: u32,
    /// Requests of each of its turns, used in a circle.
    costs: Vec<u32>,
    turns: u64,
    requests: u64,
    waiting_since: Option<u64>,
    longest_wait: u64,
}

/// A closed loop: everybody always wants the next turn. Time is counted in admissions.
struct Loop {
    gate: Box<Gate>,
    users: Vec<User>,
    inside: Vec<u32>,
    admissions: u64,
}

impl Loop {
    fn new(users: Vec<User>, shares: &[ClassShare], zeta: u32) -> Self {
        let mut gate = Box::new(Gate::new());
        gate.wrr.set_zeta(zeta);
        for (class, share) in shares.iter().enumerate() {
            gate.wrr.set_share(class, *share);
        }
        let mut this = Loop { gate, users, inside: Vec::new(), admissions: 0 };
        for user in 0..this.users.len() as u32 {
            this.gate.wrr.join(user, this.users[user as usize].class);
            this.arrive(user);
        }
        this
    }

    fn arrive(&mut self, user: u32) {
        self.users[user as usize].waiting_since = Some(self.admissions);
        self.gate.wrr.arrive(user);
    }

    /// Fills the P places; the one that entered first leaves and comes back.
    fn step(&mut self, parallelism: usize) {
        while self.inside.len() < parallelism {
            let Some(Next::Admit(turn)) = self.gate.decide() else { break };
            let user = &mut self.users[turn.user as usize];
            let since = user.waiting_since.take().expect("only who waits is admitted");
            user.longest_wait = user.longest_wait.max(self.admissions - since);
            self.admissions += 1;
            self.inside.push(turn.user);
        }
        assert!(
            self.inside.len() == parallelism || self.gate.pending() == 0,
            "work conservation: a place is free although {} wait",
            self.gate.pending()
        );
        let user = self.inside.remove(0);
        let cost = {
            let user = &mut self.users[user as usize];
            let cost = user.costs[user.turns as usize % user.costs.len()];
            user.turns += 1;
            user.requests += u64::from(cost);
            cost
        };
        self.gate.wrr.end_turn(user, cost);
        self.arrive(user);
    }
}

fn user(class: u32, costs: Vec<u32>) -> User {
    User { class, costs, turns: 0, requests: 0, waiting_since: None, longest_wait: 0 }
}

fn weight(thousandths: u32) -> ClassShare {
    ClassShare::new(thousandths, Sharing::PerUser)
}

#[test]
fn equal_users_with_equal_transactions_take_turns_exactly() {
    let mut sim = Loop::new(vec![user(0, vec![20]); 256], &[], 0);
    for _ in 0..256 * 50 {
        sim.step(16);
    }
    let turns: Vec<u64> = sim.users.iter().map(|user| user.turns).collect();
    assert!(turns.iter().max().unwrap() - turns.iter().min().unwrap() <= 1, "{turns:?}");
}

#[test]
fn a_user_of_weight_three_gets_three_times_the_requests() {
    let users = vec![user(0, vec![20]), user(1, vec![20]), user(1, vec![20]), user(1, vec![20])];
    let mut sim = Loop::new(users, &[weight(3 * WEIGHT_ONE), weight(WEIGHT_ONE)], 0);
    for _ in 0..6_000 {
        sim.step(1);
    }
    let ratio = sim.users[0].requests as f64 / sim.users[1].requests as f64;
    assert!((ratio - 3.0).abs() < 0.02, "{ratio}");
}

#[test]
fn the_lightest_weight_beside_the_heaviest_gets_its_millionth() {
    for zeta in [0, 1 << 20] {
        let users = vec![user(0, vec![1]), user(1, vec![1_000])];
        let mut sim = Loop::new(users, &[weight(1), weight(1_000 * WEIGHT_ONE)], zeta);
        // The first rounds are those of newcomers.
        while sim.users[0].turns < 2 {
            sim.step(1);
        }
        let before = [0, 1].map(|user| sim.users[user].requests);
        while sim.users[0].turns < 402 {
            sim.step(1);
        }
        let [light, heavy] = [0, 1].map(|user| sim.users[user].requests - before[user]);
        let ratio = heavy as f64 / light as f64;
        assert!((ratio / 1e6 - 1.0).abs() < 0.01, "ζ {zeta}: {ratio}");
    }
}

#[test]
fn a_class_that_shares_its_weight_gets_it_once_however_many_its_users() {
    let mut users = vec![user(0, vec![5]); 8];
    users.extend(vec![user(1, vec![5]); 2]);
    let shares = [
        ClassShare::new(WEIGHT_ONE, Sharing::PerClass),
        ClassShare::new(WEIGHT_ONE, Sharing::PerClass),
    ];
    let mut sim = Loop::new(users, &shares, 0);
    for _ in 0..20_000 {
        sim.step(2);
    }
    let total = |class| {
        sim.users.iter().filter(|user| user.class == class).map(|user| user.requests).sum::<u64>()
            as f64
    };
    let ratio = total(0) / total(1);
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn a_small_account_waits_for_a_place_and_not_for_a_round() {
    // 200 users of one class always want a turn; four of another class, of the same weight, come now and then. How many
    // of the four wait at a time changes what each may have in a round.
    const LARGE: u32 = 200;
    const SMALL: u32 = 4;
    let shares = [ClassShare::new(WEIGHT_ONE, Sharing::PerClass); 2];
    let mut gate = Box::new(Gate::new());
    for (class, share) in shares.into_iter().enumerate() {
        gate.wrr.set_share(class, share);
    }
    for user in 0..LARGE + SMALL {
        gate.wrr.join(user, u32::from(user >= LARGE));
    }
    (0..LARGE).for_each(|user| gate.wrr.arrive(user));
    let mut back_at: Vec<u64> = (0..SMALL).map(|user| 1_000 + 7 * u64::from(user)).collect();
    let mut since = vec![None; SMALL as usize];
    let (mut inside, mut waits) = (std::collections::VecDeque::new(), Vec::new());
    for now in 0..60_000u64 {
        for (small, at) in back_at.iter_mut().enumerate().filter(|(_, at)| **at == now) {
            gate.wrr.arrive(LARGE + small as u32);
            (since[small], *at) = (Some(now), u64::MAX);
        }
        let Some(Next::Admit(turn)) = gate.decide() else { panic!("200 always wait") };
        if let Some(begun) = turn.user.checked_sub(LARGE).and_then(|small| since[small as usize]) {
            waits.push(now - begun);
        }
        inside.push_back(turn.user);
        if inside.len() == 2
            && let Some(user) = inside.pop_front()
        {
            gate.wrr.end_turn(user, 1);
            match user.checked_sub(LARGE) {
                None => gate.wrr.arrive(user),
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
    // User 0 forgets its past after each turn, as a client does that reconnects.
    let mut sim = Loop::new(vec![user(0, vec![20]); 32], &[], 0);
    for _ in 0..32 * 200 {
        sim.step(4);
        if sim.users[0].waiting_since == Some(sim.admissions) {
            sim.gate.wrr.join(0, 0);
            sim.arrive(0);
        }
    }
    let (own, other) = (sim.users[0].requests as f64, sim.users[1].requests as f64);
    assert!(own <= other * 1.05, "{own} against {other}");
}

#[test]
fn whoever_came_while_few_were_there_does_not_keep_a_share_of_that_time() {
    // ζ is 40 requests for each of 64 users. The first to arrive is alone, and 2,560 are its.
    let mut gate = Box::new(Gate::new());
    gate.wrr.set_zeta(40 * 64);
    for user in 0..64 {
        gate.wrr.arrive(user);
    }
    let Some(Next::Admit(first)) = gate.decide() else { panic!("everybody waits") };
    assert_eq!(first.user, 0);
    assert!(first.quota <= 40, "{}", first.quota);
    gate.wrr.end_turn(0, 40);
    gate.wrr.arrive(0);
    // Its next turns come no more than twice before those that have had none.
    let order: Vec<u32> = std::iter::from_fn(|| match gate.decide() {
        Some(Next::Admit(turn)) => Some(turn.user),
        _ => None,
    })
    .collect();
    assert!(order.iter().position(|&user| user != 0).unwrap() <= 2, "{order:?}");
}

#[test]
fn one_outlier_does_not_make_newcomers_wait() {
    let mut sim = Loop::new(vec![user(0, vec![1]); 255], &[], 0);
    for _ in 0..255 * 20 {
        sim.step(4);
    }
    // Somebody ends a transaction of 100,000 requests, and somebody else connects.
    sim.gate.wrr.end_turn(300, 100_000);
    sim.gate.wrr.join(301, 0);
    sim.gate.wrr.arrive(301);
    let mut turns = 0;
    loop {
        let Some(Next::Admit(turn)) = sim.gate.decide() else { panic!("everybody waits") };
        if turn.user == 301 {
            break;
        }
        sim.gate.wrr.end_turn(turn.user, 1);
        sim.gate.wrr.arrive(turn.user);
        turns += 1;
        assert!(turns < 255 * 4, "more than a few rounds");
    }
}

#[test]
fn one_huge_transaction_is_paid_back_and_not_an_advantage() {
    let mut users = vec![user(0, vec![10]); 8];
    users[0].costs = vec![1_000];
    let mut sim = Loop::new(users, &[], 0);
    for _ in 0..40_000 {
        sim.step(2);
    }
    let (own, other) = (sim.users[0].requests as f64, sim.users[1].requests as f64);
    assert!(own <= other + 1_000.0, "{own} against {other}");
    assert!(own >= other - 1_000.0, "{own} against {other}: paid back more than it took");
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1_000_000, ..ProptestConfig::with_cases(48) })]

    /// Between any two users, the requests served per unit of weight differ by no more than one
    /// quantum: what a turn may cost at the most plus one round's quota, over the weight.
    #[test]
    fn shares_stay_within_one_quantum_of_the_weights(
        weights in proptest::collection::vec(1u32..=8, 1..4),
        spec in proptest::collection::vec((0usize..4, proptest::collection::vec(1u32..60, 1..4)), 2..24),
        parallelism in 1usize..12,
        zeta in prop_oneof![Just(0u32), 1u32..400],
    ) {
        let shares: Vec<_> = weights.iter().map(|w| weight(w * WEIGHT_ONE)).collect();
        let users: Vec<_> = spec.iter().map(|(class, costs)| user((class % weights.len()) as u32, costs.clone())).collect();
        let count = users.len();
        let mut sim = Loop::new(users, &shares, zeta);
        // While the first users come, those already there share ζ among few: let that pass.
        for _ in 0..40 * count {
            sim.step(parallelism);
        }
        let before: Vec<u64> = sim.users.iter().map(|user| user.requests).collect();
        for _ in 0..400 * count {
            sim.step(parallelism);
        }
        for (user, before) in sim.users.iter_mut().zip(before) {
            user.requests -= before;
        }
        let least_weight = sim.users.iter().map(|user| weights[user.class as usize]).min().unwrap();
        let most_cost = sim.users.iter().flat_map(|user| user.costs.iter()).max().copied().unwrap();
        let quantum = |user: &User| {
            let w = f64::from(weights[user.class as usize]);
            let total: u32 = sim.users.iter().map(|user| weights[user.class as usize]).sum();
            let quota = (w * f64::from(zeta) / f64::from(total)).max(w / f64::from(least_weight));
            // Both ends of the window can cut a turn and a round of each user, and with P places
            // the rounds that pass during a turn, at most one more turn's worth, come later.
            (3.0 * f64::from(most_cost) + 2.0 * quota) / w
        };
        // A user holds one place at a time: who needs more than half of one all the time is
        // limited by that and not by the weights.
        let turns_wanted = |user: &User| {
            let mean = user.costs.iter().sum::<u32>() as f64 / user.costs.len() as f64;
            f64::from(weights[user.class as usize]) / mean
        };
        let all: f64 = sim.users.iter().map(turns_wanted).sum();
        prop_assume!(sim.users.iter().all(|user| turns_wanted(user) / all * parallelism as f64 <= 0.5));
        let per_weight = |user: &User| user.requests as f64 / f64::from(weights[user.class as usize]);
        for a in &sim.users {
            for b in &sim.users {
                let allowed = quantum(a) + quantum(b);
                prop_assert!((per_weight(a) - per_weight(b)).abs() <= allowed,
                    "{} against {} with quantum {allowed}", per_weight(a), per_weight(b));
            }
        }
    }

    /// Every waiting user is admitted within a bounded number of admissions, whatever the others
    /// do: after its debt is paid, at most everybody else's turns of that debt lie before it.
    #[test]
    fn nobody_starves(
        spec in proptest::collection::vec(proptest::collection::vec(1u32..60, 1..4), 2..24),
        parallelism in 1usize..6,
    ) {
        let users: Vec<_> = spec.iter().map(|costs| user(0, costs.clone())).collect();
        let count = users.len() as u64;
        let mut sim = Loop::new(users, &[], 0);
        for _ in 0..300 * count {
            sim.step(parallelism);
        }
        for user in &sim.users {
            // A debt of up to 60 rounds, in which each other user has at most 60 turns of cost 1.
            prop_assert!(user.longest_wait <= 62 * count, "{} of {count}", user.longest_wait);
            prop_assert!(user.turns > 0);
        }
    }

    /// A user that goes away and comes back any time neither loses the queue nor blocks it.
    #[test]
    fn withdrawing_never_loses_a_turn(ops in proptest::collection::vec((0u32..10, any::<bool>()), 1..200)) {
        let mut gate = Box::new(Gate::new());
        let mut waiting = std::collections::BTreeSet::new();
        for (user, comes) in ops {
            if comes {
                gate.wrr.arrive(user);
                waiting.insert(user);
            } else {
                prop_assert_eq!(gate.wrr.withdraw(user), waiting.remove(&user));
            }
            prop_assert_eq!(gate.pending(), waiting.len());
        }
        while let Some(Next::Admit(turn)) = gate.decide() {
            prop_assert!(turn.quota >= 1);
            prop_assert!(waiting.remove(&turn.user));
        }
        prop_assert!(waiting.is_empty());
    }

    /// A user's quota is its part of ζ, and at least as often one request as its weight is the least one: exactly, rounded
    /// down, however far the weights lie apart.
    #[test]
    fn quotas_are_parts_of_zeta(
        classes in proptest::collection::vec((1u32..=1_000_000, any::<bool>(), 1u32..40), 1..7),
        zeta in prop_oneof![Just(0), 1u32..10_000, any::<u32>()],
    ) {
        let mut gate = Box::new(Gate::new());
        gate.wrr.set_zeta(zeta);
        let (mut first, mut next) = (Vec::new(), 0);
        for (class, &(weight, shared, users)) in classes.iter().enumerate() {
            let sharing = if shared { Sharing::PerClass } else { Sharing::PerUser };
            gate.wrr.set_share(class, ClassShare::new(weight, sharing));
            first.push(next);
            for user in next..next + users {
                gate.wrr.join(user, class as u32);
                gate.wrr.arrive(user);
            }
            next += users;
        }
        // Weight of one user as a fraction, and of all together.
        let of_user = |&(weight, shared, users): &(u32, bool, u32)| {
            (u128::from(weight), if shared { u128::from(users) } else { 1 })
        };
        let of_class = |&(weight, shared, users): &(u32, bool, u32)| {
            u128::from(weight) * if shared { 1 } else { u128::from(users) }
        };
        let total: u128 = classes.iter().map(of_class).sum();
        for (class, &user) in classes.iter().zip(&first) {
            let (weight, among) = of_user(class);
            let by_zeta = ((weight * u128::from(zeta)) << 16) / (among * total);
            let by_others = classes.iter().map(of_user).map(|(least, shared_by)| {
                ((weight * shared_by) << 16) / (among * least)
            });
            let expected = by_others.max().unwrap().max(by_zeta).min(1 << 36);
            prop_assert_eq!(gate.wrr.quota(user) as u128, expected);
        }
    }
}
