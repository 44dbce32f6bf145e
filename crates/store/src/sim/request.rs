//! The request-level plant: threads, a scheduler at each host, one at the store, and an array.
//!
//! Each thread has one I/O at a time: it goes to its host's scheduler, from there to the store's,
//! and to the device. The schedulers are those of `policy::block`, the devices those of
//! `volume::model`. The store's flows are hosts, or applications ([`Stack::by_application`]).

use super::app::{App, applications};
use super::array::{Kind, SPAN_SECTORS};
use super::level::{Enforcement, Level};
use super::run::{Plant, Second};
use crate::learner::hosts;
use headworks_policy::Nanos;
use headworks_policy::block::{Index, IoClass, Operation, Request};
use headworks_policy::learn::{Application, Fractions};
use headworks_policy::random::Random;
use headworks_volume::model::Model;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Two levels in front of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    /// The devices.
    pub kind: Kind,
    /// At each host.
    pub host: Enforcement,
    /// At the store.
    pub store: Enforcement,
    /// The store tells applications apart, with their shares; otherwise only hosts.
    pub by_application: bool,
    /// A host's service times include the wait at the store: the reply does not tell.
    pub blind: bool,
}

impl Stack {
    /// Fair queueing at both levels, by application: what a store does by default.
    pub const fn fair(kind: Kind) -> Self {
        let fair = Enforcement::Fair;
        Stack { kind, host: fair, store: fair, by_application: true, blind: false }
    }
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    app: usize,
    thread: usize,
    request: Request,
    born_ns: u64,
    /// When the device got it.
    begun_ns: u64,
    sent_ns: u64,
    at_host: Index,
    at_store: Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Submit { app: usize, thread: usize },
    Done { number: usize },
    AskHost { host: usize },
    AskStore,
}

/// What an application had in the present second.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    transactions: u32,
    ios: u32,
    cost_s: f64,
    waited_ns: u64,
    took_ns: u64,
    taken: u32,
    lent: u32,
}

/// See the module.
pub struct Requests {
    stack: Stack,
    apps: Vec<App>,
    applications: Vec<Application>,
    fractions: Fractions,
    /// Cost that the array does in a second with nothing held back.
    capacity: f64,
    now_ns: u64,
    random: Random,
    model: Box<dyn Model>,
    with_device: u32,
    hosts: Vec<Level>,
    store: Level,
    flights: Vec<Flight>,
    free: Vec<usize>,
    /// I/Os left of each thread's transaction.
    left: Vec<Vec<u32>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    tally: Vec<Tally>,
    outstanding: Vec<u32>,
}

impl Requests {
    /// With equal fractions. `capacity` is that of [`capacity`].
    pub fn new(stack: Stack, apps: Vec<App>, capacity: f64, seed: u64) -> Self {
        let applications = applications(&apps);
        let count = hosts(&applications);
        let flows = if stack.by_application { apps.len() } else { count };
        let level = |_| Level::new(stack.host, stack.kind, stack.kind.host_depth(), apps.len());
        let mut plant = Requests {
            stack,
            fractions: Fractions::equal(&applications, count),
            applications,
            capacity,
            now_ns: 0,
            random: Random::stream(seed, 2),
            model: stack.kind.model(seed),
            with_device: 0,
            hosts: (0..count).map(level).collect(),
            store: Level::new(stack.store, stack.kind, stack.kind.depth(), flows),
            flights: Vec::new(),
            free: Vec::new(),
            left: apps.iter().map(|app| vec![0; app.threads]).collect(),
            events: BinaryHeap::new(),
            sequence: 0,
            tally: vec![Tally::default(); apps.len()],
            outstanding: vec![0; apps.len()],
            apps,
        };
        for app in 0..plant.apps.len() {
            for thread in 0..plant.apps[app].threads {
                let at_ns = plant.random.below(50_000_000);
                plant.push(at_ns, Event::Submit { app, thread });
            }
        }
        plant
    }

    /// I/Os a second of application `at` in the second that was last.
    pub fn ios(&self, at: usize) -> f64 {
        self.tally[at].ios.into()
    }

    /// Cost of application `at` in that second, as a part of the capacity.
    pub fn used(&self, at: usize) -> f64 {
        self.tally[at].cost_s / self.capacity
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    fn store_flow(&self, app: usize) -> usize {
        if self.stack.by_application { app } else { self.apps[app].host }
    }

    fn apply_fractions(&mut self) {
        let part = self.fractions.depth;
        for (app, about) in self.applications.iter().enumerate() {
            let host = &mut self.hosts[about.host];
            host.set_fraction(app, self.fractions.host[app], !about.target);
            if self.stack.by_application {
                let share = self.fractions.share(&self.applications, app);
                self.store.set_fraction(app, share, !about.target);
            }
        }
        if !self.stack.by_application {
            for (host, fraction) in self.fractions.store.iter().enumerate() {
                let target = |about: &Application| about.host == host && about.target;
                let best_effort = !self.applications.iter().any(target);
                self.store.set_fraction(host, *fraction, best_effort);
            }
        }
        for level in self.hosts.iter_mut().chain([&mut self.store]) {
            level.set_best_effort(self.stack.kind, part);
        }
    }

    fn submit(&mut self, app: usize, thread: usize) {
        let about = self.apps[app];
        if !about.on {
            self.push(self.now_ns + 100_000_000, Event::Submit { app, thread });
            return;
        }
        if self.left[app][thread] == 0 {
            let ios = if about.ios <= 1.0 { 1.0 } else { about.ios * (0.5 + self.random.unit()) };
            // Some dozens.
            self.left[app][thread] = ios.round().max(1.0) as u32;
        }
        let every = about.large_every;
        let large = every > 0 && thread % every == every - 1;
        let sectors: u32 = if large { 2_048 } else { 32 };
        let places = SPAN_SECTORS / u64::from(sectors);
        let sector = self.random.below(places) * u64::from(sectors);
        let read = self.random.below(2) == 0;
        let request = Request {
            operation: if read { Operation::Read } else { Operation::Write },
            sector,
            sectors,
            fua: false,
            sync: true,
            cause: 0,
            class: IoClass::BestEffort,
            level: 4,
            deadline: None,
            continues: false,
        };
        let now_ns = self.now_ns;
        let flight = Flight {
            app,
            thread,
            request,
            born_ns: now_ns,
            begun_ns: 0,
            sent_ns: 0,
            at_host: 0,
            at_store: 0,
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(flight);
            self.flights.len() - 1
        });
        self.flights[number] = flight;
        self.outstanding[app] += 1;
        let index = self.hosts[about.host].add(Nanos(now_ns), number, app, &request);
        self.flights[number].at_host = index;
        self.pump_host(about.host);
    }

    fn pump_host(&mut self, host: usize) {
        let now = Nanos(self.now_ns);
        while let Some(number) = {
            let flights = &self.flights;
            self.hosts[host].next(now, |number| flights[number].app)
        } {
            let Flight { app, request, .. } = self.flights[number];
            let index = self.store.add(now, number, self.store_flow(app), &request);
            self.flights[number].at_store = index;
            self.flights[number].sent_ns = now.0;
        }
        let again_ns = self.hosts[host].ask_ns;
        self.ask(again_ns, Event::AskHost { host });
        self.pump_store();
    }

    fn pump_store(&mut self) {
        let now = Nanos(self.now_ns);
        let most = self.model.depth();
        while self.with_device < most {
            let (by_application, flights, apps) =
                (self.stack.by_application, &self.flights, &self.apps);
            let flow = |number: usize| {
                let app = flights[number].app;
                if by_application { app } else { apps[app].host }
            };
            let Some(number) = self.store.next(now, flow) else {
                let again_ns = self.store.ask_ns;
                self.ask(again_ns, Event::AskStore);
                return;
            };
            let lent = self.store.lent;
            let flight = &mut self.flights[number];
            flight.begun_ns = now.0;
            let tally = &mut self.tally[flight.app];
            tally.taken += 1;
            tally.lent += u32::from(lent);
            let done = self.model.start(now, &flight.request).max(now + Nanos(1));
            self.with_device += 1;
            self.push(done.0, Event::Done { number });
        }
    }

    /// Fair queueing asks again at a completion anyway; only the ends of quanta need an event.
    fn ask(&mut self, at_ns: u64, event: Event) {
        let enforcement = match event {
            Event::AskStore => self.stack.store,
            _ => self.stack.host,
        };
        if matches!(enforcement, Enforcement::Quanta(_)) && at_ns != u64::MAX {
            self.push(at_ns, event);
        }
    }

    fn done(&mut self, number: usize) {
        let now_ns = self.now_ns;
        let flight = self.flights[number];
        let Flight { app, thread, .. } = flight;
        let host = self.apps[app].host;
        self.with_device -= 1;
        self.outstanding[app] -= 1;
        let service = Nanos(now_ns - flight.begun_ns);
        self.store.done(Nanos(now_ns), flight.at_store, service);
        let seen = if self.stack.blind { Nanos(now_ns - flight.sent_ns) } else { service };
        self.hosts[host].done(Nanos(now_ns), flight.at_host, seen);
        self.free.push(number);
        let tally = &mut self.tally[app];
        tally.ios += 1;
        tally.cost_s += self.stack.kind.cost_s(&flight.request);
        tally.waited_ns += flight.begun_ns - flight.born_ns;
        tally.took_ns += now_ns - flight.born_ns;
        let left = &mut self.left[app][thread];
        *left -= 1;
        tally.transactions += u32::from(*left == 0);
        let think_s = self.apps[app].think_s;
        let pause_s = -think_s * self.random.unit().max(f64::MIN_POSITIVE).ln();
        // Think times are far below a century.
        self.push(now_ns + (pause_s * 1e9) as u64, Event::Submit { app, thread });
        self.pump_store();
        self.pump_host(host);
    }

    fn go(&mut self, end_ns: u64) {
        while let Some(Reverse((at_ns, _, event))) = self.events.peek().copied() {
            if at_ns > end_ns {
                break;
            }
            self.events.pop();
            self.now_ns = at_ns;
            match event {
                Event::Submit { app, thread } => self.submit(app, thread),
                Event::Done { number } => self.done(number),
                // Several may stand for one moment: only the latest answer counts.
                Event::AskHost { host } if self.hosts[host].ask_ns <= at_ns => self.pump_host(host),
                Event::AskStore if self.store.ask_ns <= at_ns => self.pump_store(),
                Event::AskHost { .. } | Event::AskStore => {}
            }
        }
        self.now_ns = end_ns;
    }

    fn report(&self, at: usize) -> Second {
        let (app, tally) = (&self.apps[at], &self.tally[at]);
        let waits =
            self.hosts[app.host].waits(at) || self.stack.by_application && self.store.waits(at);
        let all: f64 = self.tally.iter().map(|tally| tally.cost_s).sum();
        // What was served of it, times how busy the store was; 0.8 of the capacity is busy.
        let busy = (all / self.capacity / 0.8).min(1.0);
        Second {
            rate: tally.transactions.into(),
            even: tally.transactions.into(),
            used: tally.cost_s / all.max(1e-9) * busy,
            // Served nothing: starved, or not there.
            held: if tally.took_ns == 0 { waits } else { 2 * tally.waited_ns > tally.took_ns },
            lent: 2 * tally.lent > tally.taken,
            demand: tally.ios > 0 || self.outstanding[at] > 0,
            latency_s: tally.took_ns as f64 / 1e9 / f64::from(tally.ios.max(1)),
            // By Little's law.
            outstanding: tally.took_ns as f64 / 1e9,
        }
    }
}

impl Plant for Requests {
    fn apps(&self) -> &[App] {
        &self.apps
    }

    fn apps_mut(&mut self) -> &mut [App] {
        &mut self.apps
    }

    fn fractions(&mut self) -> &mut Fractions {
        &mut self.fractions
    }

    fn second(&mut self) -> Vec<Second> {
        self.apply_fractions();
        self.tally.fill(Tally::default());
        self.go(self.now_ns + 1_000_000_000);
        (0..self.apps.len()).map(|at| self.report(at)).collect()
    }
}

/// Cost that an array does in a second for four OLTP-A with nothing held back.
pub fn capacity(kind: Kind) -> f64 {
    let pass = Enforcement::Pass;
    let stack = Stack { host: pass, store: pass, ..Stack::fair(kind) };
    let mut plant = Requests::new(stack, super::app::four_oltp(1.0), 1.0, 1);
    let (mut cost, seconds) = (0.0, 10);
    for second in 0..seconds + 2 {
        plant.second();
        if second >= 2 {
            cost += plant.tally.iter().map(|tally| tally.cost_s).sum::<f64>();
        }
    }
    cost / f64::from(seconds)
}
