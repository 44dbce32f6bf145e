//! A small account beside a large one, in a simulation of the gate as the region runs it. A session
//! that finds a free permit while none waits takes it without the policy. All else is the policy's
//! decision.

use headworks_policy::gate::{Gate, Next};
use headworks_policy::wrr::{ClassShare, Sharing, WEIGHT_ONE};

/// Connections of the two accounts.
const SMALL: u32 = 4;
const LARGE: u32 = 200;
const SESSIONS: u32 = SMALL + LARGE;

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    /// Comes back then; never, if the time is the largest there is.
    Away(u64),
    Waiting(u64),
    Inside {
        until: u64,
        permit: bool,
        accounted: bool,
    },
}

/// One gate with two classes of equal weight. Times are in µs.
struct Site {
    gate: Box<Gate>,
    doing: Vec<Doing>,
    places: usize,
    /// Mean length of a request, and of the pauses of the small account.
    length: u64,
    pause: u64,
    large_is_there: bool,
    random: u64,
    now: u64,
    /// Waits of the small account's requests.
    waits: Vec<u64>,
    served: [u64; 2],
}

impl Site {
    fn new(places: usize, seed: u64) -> Site {
        let mut gate = Box::new(Gate::new());
        for class in 0..2 {
            gate.wrr.set_share(class, ClassShare::new(WEIGHT_ONE, Sharing::PerClass));
        }
        (0..SESSIONS).for_each(|session| gate.wrr.join(session, class(session) as u32));
        let doing =
            (0..SESSIONS).map(|session| Doing::Away(if session < SMALL { 0 } else { u64::MAX }));
        Site {
            gate,
            doing: doing.collect(),
            places,
            length: 500,
            pause: 15_000,
            large_is_there: false,
            random: seed,
            now: 0,
            waits: Vec::new(),
            served: [0; 2],
        }
    }

    /// Exponentially distributed.
    fn about(&mut self, mean: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let uniform = ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        1 + (-uniform.ln() * mean as f64) as u64
    }

    fn permits_taken(&self) -> usize {
        self.doing.iter().filter(|it| matches!(it, Doing::Inside { permit: true, .. })).count()
    }

    fn begin(&mut self, session: u32, permit: bool, accounted: bool) {
        if let Doing::Waiting(since) = self.doing[session as usize]
            && session < SMALL
        {
            self.waits.push(self.now - since);
        }
        let until = self.now + self.about(self.length);
        self.doing[session as usize] = Doing::Inside { until, permit, accounted };
    }

    fn pump(&mut self) {
        while self.permits_taken() < self.places {
            match self.gate.decide() {
                Some(Next::Admit(turn)) => self.begin(turn.session, true, true),
                Some(Next::Repay(session)) => {
                    if let Doing::Inside { permit, .. } = &mut self.doing[session as usize] {
                        *permit = true;
                    }
                }
                None => break,
            }
        }
    }

    fn arrive(&mut self, session: u32) {
        self.doing[session as usize] = Doing::Waiting(self.now);
        if self.gate.pending() == 0 && self.permits_taken() < self.places {
            return self.begin(session, true, false);
        }
        self.gate.wrr.arrive(session);
        self.pump();
        if self.gate.wrr.is_waiting(session) {
            let mine = |(other, it): (usize, &Doing)| {
                class(other as u32) == class(session)
                    && matches!(it, Doing::Inside { permit: true, .. })
            };
            let alone = !self.doing.iter().enumerate().any(mine);
            if alone && self.gate.admit_over_limit(session).is_some() {
                self.begin(session, false, true);
            }
        }
    }

    fn leave(&mut self, session: u32, permit: bool, accounted: bool) {
        self.served[class(session)] += 1;
        let pause = if session < SMALL { self.about(self.pause) } else { self.about(50) };
        let away = session >= SMALL && !self.large_is_there;
        self.doing[session as usize] = Doing::Away(if away { u64::MAX } else { self.now + pause });
        if accounted || self.gate.pending() > 0 || !permit {
            self.gate.wrr.withdraw(session);
            self.gate.clear_debt(session);
            self.gate.wrr.end_turn(session, 1);
            self.pump();
        }
    }

    fn run(&mut self, large_is_there: bool, for_us: u64) {
        self.waits.clear();
        self.served = [0; 2];
        self.large_is_there = large_is_there;
        if large_is_there {
            for session in SMALL..SESSIONS {
                if self.doing[session as usize] == Doing::Away(u64::MAX) {
                    self.doing[session as usize] = Doing::Away(self.now + u64::from(session));
                }
            }
        }
        let end = self.now + for_us;
        loop {
            let next = (0..SESSIONS)
                .filter_map(|session| match self.doing[session as usize] {
                    Doing::Away(at) => Some((at, session)),
                    Doing::Inside { until, .. } => Some((until, session)),
                    Doing::Waiting(_) => None,
                })
                .min();
            let Some((at, session)) = next.filter(|it| it.0 < end) else { break };
            self.now = self.now.max(at);
            match self.doing[session as usize] {
                Doing::Away(_) => self.arrive(session),
                Doing::Inside { permit, accounted, .. } => self.leave(session, permit, accounted),
                Doing::Waiting(_) => unreachable!("a waiter has no next event"),
            }
        }
        self.now = end;
        self.waits.sort_unstable();
    }

    fn wait(&self, quantile: f64) -> u64 {
        self.waits[((self.waits.len() - 1) as f64 * quantile) as usize]
    }
}

fn class(session: u32) -> usize {
    usize::from(session >= SMALL)
}

/// The large account comes and goes. While it is away rounds are short, since a round gives each
/// session that is there one request. When it comes back, all its sessions were idle for longer
/// than a round.
#[test]
fn a_small_account_has_its_turn_each_time_the_large_one_comes_back() {
    for seed in 1..=5 {
        for (places, alone_us) in [(2, 500), (4, 500), (8, 500), (16, 500), (2, 5_000), (8, 5_000)]
        {
            let mut site = Site::new(places, seed);
            for round in 0..4 {
                let at = format!("seed {seed}, {places} places, {alone_us} µs, round {round}");
                // Longer requests: the small account's sessions wait for each other, and rounds
                // pass.
                site.length = alone_us;
                site.run(false, 1_000_000);
                site.length = 500;
                site.run(true, 500_000);
                site.run(true, 1_500_000);
                // It wants 4 / 15.5 ms of 2 / 0.5 ms or more. Half of them are its own.
                let wanted = f64::from(SMALL) * 1_500_000.0 / 15_500.0;
                let served = site.served[0] as f64;
                assert!(served > 0.8 * wanted, "{at}: {served} of {wanted}");
                // A place comes free each 250 µs or sooner; one or two of its account may be ahead
                // of it.
                let p99 = site.wait(0.99);
                assert!(p99 < 4 * 500, "{at}: {p99} µs");
            }
        }
    }
}
