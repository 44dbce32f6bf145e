//! What every block scheduler promises, whatever comes: random requests, merges, refusals and
//! completions.

mod afq_shares;
mod sfq_shares;

use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, Afq, BlockScheduler, Cfq, Deadline, Dispatch, Index, IoClass, Noop, Operation, Request,
    SchedulerKind, afq, cfq, deadline, plug, table::Limits,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A request that was added, and how often it was dispatched.
#[derive(Debug)]
struct Part {
    request: Request,
    carrier: Index,
    dispatched: bool,
}

/// The owner of a queue, who keeps his own books.
struct Owner {
    scheduler: Box<dyn BlockScheduler>,
    now: u64,
    /// For each index: the range that it stands for, if it is in use.
    range: Vec<Option<(u64, u64)>>,
    with_device: Vec<Index>,
    parts: Vec<Part>,
    waiting: usize,
    merges: usize,
}

impl Owner {
    fn new(scheduler: Box<dyn BlockScheduler>) -> Self {
        Owner {
            scheduler,
            now: 0,
            range: vec![None; 1024],
            with_device: Vec::new(),
            parts: Vec::new(),
            waiting: 0,
            merges: 0,
        }
    }

    fn add(&mut self, request: Request) {
        let Some(index) = self.range.iter().position(Option::is_none) else { return };
        let index = index as Index;
        let added = self.scheduler.add(Nanos(self.now), index, &request);
        let carrier = added.index_or(index);
        match added {
            Added::Queued => {
                self.range[usize::from(index)] = Some((request.sector, request.end()));
                self.waiting += 1;
            }
            Added::MergedBack(_) | Added::MergedFront(_) => {
                self.merges += 1;
                self.check_merge(added, carrier, &request);
            }
        }
        self.parts.push(Part { request, carrier, dispatched: false });
        assert_eq!(self.scheduler.waiting(), self.waiting);
    }

    /// The union is contiguous and of equals, and whom it joined really waits.
    fn check_merge(&mut self, added: Added, carrier: Index, request: &Request) {
        assert!(!self.with_device.contains(&carrier), "{carrier} is with the device");
        let (start, end) = self.range[usize::from(carrier)].expect("joined no request");
        let whole = if matches!(added, Added::MergedBack(_)) {
            assert_eq!(end, request.sector);
            (start, request.end())
        } else {
            assert_eq!(start, request.end());
            (request.sector, end)
        };
        assert!(whole.1 - whole.0 <= 2_560, "larger than the limit");
        self.range[usize::from(carrier)] = Some(whole);
        for part in self.parts.iter().filter(|part| part.carrier == carrier && !part.dispatched) {
            let other = &part.request;
            assert_eq!(other.operation, request.operation);
            assert_eq!(
                (other.fua, other.class, other.level),
                (request.fua, request.class, request.level)
            );
            assert_ne!(request.operation, Operation::WriteZeroes);
        }
    }

    fn dispatch(&mut self) -> Dispatch {
        let dispatch = self.scheduler.dispatch(Nanos(self.now));
        match dispatch {
            Dispatch::Request(index) => {
                assert!(!self.with_device.contains(&index), "{index} was dispatched twice");
                assert!(self.range[usize::from(index)].is_some(), "{index} was never added");
                self.with_device.push(index);
                self.waiting -= 1;
                self.scheduler.activated(Nanos(self.now), index);
            }
            Dispatch::Wait(until) => {
                assert!(until.0 > self.now, "a wait that is over");
                assert!(self.waiting > 0, "no request waits");
            }
            Dispatch::Idle => assert_eq!(self.waiting, 0, "a request waits"),
        }
        assert_eq!(self.scheduler.waiting(), self.waiting);
        dispatch
    }

    fn complete(&mut self, which: usize) {
        if self.with_device.is_empty() {
            return;
        }
        let index = self.with_device.remove(which % self.with_device.len());
        self.scheduler.completed(Nanos(self.now), index, Nanos(MS));
        let (start, end) = self.range[usize::from(index)].take().expect("in use");
        let mut covered: Vec<_> = Vec::new();
        for part in self.parts.iter_mut().filter(|p| p.carrier == index && !p.dispatched) {
            part.dispatched = true;
            covered.push((part.request.sector, part.request.end()));
        }
        // The parts, put in order, are the union without a gap or an overlap.
        covered.sort_unstable();
        let mut at = start;
        for (part_start, part_end) in covered {
            assert_eq!(part_start, at);
            at = part_end;
        }
        assert_eq!(at, end);
    }

    fn refuse(&mut self, which: usize) {
        if self.with_device.is_empty() {
            return;
        }
        let index = self.with_device.remove(which % self.with_device.len());
        self.scheduler.deactivated(Nanos(self.now), index);
        self.waiting += 1;
    }

    /// Serves one after the other until none waits.
    fn drain(&mut self) {
        while !self.with_device.is_empty() {
            self.complete(0);
        }
        loop {
            match self.dispatch() {
                Dispatch::Request(_) => {
                    self.now += MS;
                    self.complete(0);
                }
                Dispatch::Wait(until) => self.now = until.0,
                Dispatch::Idle => return,
            }
        }
    }
}

fn every_scheduler() -> Vec<Box<dyn BlockScheduler>> {
    let plug = plug::Settings::QUEUE;
    let mut all: Vec<_> = SchedulerKind::ALL.iter().map(|kind| kind.build()).collect();
    all.push(SchedulerKind::Cfq.build_for(false));
    all.push(SchedulerKind::Afq.build_for(false));
    all.push(Box::new(Afq::new(afq::Settings::default().beneath_calls())));
    all.push(Box::new(Afq::new(afq::Settings { plug, ..Default::default() })));
    all.push(Box::new(Noop::new(Limits::default(), plug)));
    all.push(Box::new(Deadline::new(deadline::Settings { plug, ..Default::default() })));
    all.push(Box::new(Cfq::new(cfq::Settings { plug, ..Default::default() })));
    all
}

fn requests() -> impl Strategy<Value = Request> {
    let operation = prop_oneof![
        4 => Just(Operation::Read),
        4 => Just(Operation::Write),
        1 => Just(Operation::Discard),
        1 => Just(Operation::WriteZeroes),
    ];
    let class = prop_oneof![
        1 => Just(IoClass::RealTime),
        6 => Just(IoClass::BestEffort),
        1 => Just(IoClass::Idle),
    ];
    let place = (0u64..64, prop_oneof![9 => Just(8u32), 1 => Just(1_024u32)]);
    let who = (0u32..5, class, 3u8..5, any::<bool>(), prop::bool::weighted(0.1));
    let due = proptest::option::weighted(0.1, 0u64..50);
    (operation, place, who, due).prop_map(|(operation, (block, sectors), who, due)| {
        let (cause, class, level, sync, fua) = who;
        Request {
            operation,
            sector: block * 8,
            sectors,
            fua: fua && operation == Operation::Write,
            sync,
            cause,
            class,
            level,
            deadline: due.map(|ms| Nanos(ms * MS)),
            continues: false,
        }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Request),
    Dispatch,
    Complete(usize),
    Refuse(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => requests().prop_map(Step::Add),
        4 => Just(Step::Dispatch),
        3 => any::<usize>().prop_map(Step::Complete),
        1 => any::<usize>().prop_map(Step::Refuse),
        1 => (0u64..200 * MS).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    /// Everything that was added is dispatched exactly once, itself or as part of another that
    /// covers exactly its parts. Nothing is forgotten, and a wait always ends.
    #[test]
    fn every_request_is_dispatched_exactly_once(steps in steps()) {
        for scheduler in every_scheduler() {
            let mut owner = Owner::new(scheduler);
            for step in &steps {
                match step {
                    Step::Add(request) => owner.add(*request),
                    Step::Dispatch => drop(owner.dispatch()),
                    Step::Complete(which) => owner.complete(*which),
                    Step::Refuse(which) => owner.refuse(*which),
                    Step::Pass(ns) => owner.now += ns,
                }
            }
            owner.drain();
            prop_assert!(owner.parts.iter().all(|part| part.dispatched));
            prop_assert!(owner.range.iter().all(Option::is_none));
        }
    }

    /// What came back from the device is the next to go there, in its old order.
    #[test]
    fn a_refused_request_keeps_its_place(
        requests in proptest::collection::vec(requests(), 2..60),
        refused in 1usize..5,
    ) {
        for scheduler in every_scheduler() {
            let mut owner = Owner::new(scheduler);
            for request in &requests {
                owner.add(*request);
            }
            owner.now += 10_000 * MS;
            while owner.with_device.len() < refused {
                if !matches!(owner.dispatch(), Dispatch::Request(_)) {
                    break;
                }
            }
            let order = owner.with_device.clone();
            while !owner.with_device.is_empty() {
                owner.refuse(7);
            }
            for index in order {
                prop_assert_eq!(owner.dispatch(), Dispatch::Request(index));
            }
        }
    }

    /// The bound of the deadline scheduler, for requests in a closed loop: k others of the
    /// direction due before it, B requests of a batch, writes passed over S times.
    #[test]
    fn the_deadline_scheduler_keeps_its_bound(
        requests in proptest::collection::vec((requests(), 0u64..3 * MS), 50..300),
        batch in 1u32..5,
        starved in 0u32..4,
    ) {
        let settings = deadline::Settings {
            read_expire: Nanos(20 * MS),
            write_expire: Nanos(60 * MS),
            fifo_batch: batch,
            writes_starved: starved,
            limits: Limits { sectors: 0 },
            ..Default::default()
        };
        let mut scheduler = Box::new(Deadline::new(settings));
        // Due, is a read, dispatches since it is overdue, dispatches granted by then.
        let mut waiting = std::collections::BTreeMap::<Index, (u64, bool, u64, u64)>::new();
        let mut coming = requests.iter();
        let mut now = 0;
        let mut served = 0;
        while served < requests.len() {
            while waiting.len() < 32
                && let Some((request, _)) = coming.next()
            {
                let index = (0..).find(|index| !waiting.contains_key(index)).expect("room");
                scheduler.add(Nanos(now), index, request);
                let read = request.operation == Operation::Read;
                let expire = if read { 20 * MS } else { 60 * MS };
                let due = request.deadline.map_or(now + expire, |due| due.0);
                waiting.insert(index, (due, read, 0, 0));
            }
            let Dispatch::Request(index) = scheduler.dispatch(Nanos(now)) else {
                panic!("{} wait", waiting.len())
            };
            let (due, read, ..) = waiting.remove(&index).expect("it waits");
            for (other_due, other_read, since, granted) in waiting.values_mut() {
                if *other_due > now {
                    continue;
                }
                *since += 1;
                let (b, s) = (u64::from(batch), u64::from(starved));
                let own_round = if *other_read && s > 0 { 2 * b } else { (s + 1) * b };
                // A request of its direction that was due before it has earned a round more.
                if *other_read == read && due <= *other_due {
                    *granted += own_round;
                }
                let own = if s == 0 && *other_read { u64::MAX } else { own_round + b };
                prop_assert!(*since <= own.saturating_add(*granted), "{since} dispatches");
            }
            scheduler.completed(Nanos(now), index, Nanos(0));
            served += 1;
            now += requests[served.min(requests.len() - 1)].1;
        }
    }

    /// No queue starves in the best-effort class of CFQ. Its turn comes after one slice, and one
    /// overrun, of each other queue. Its oldest request goes first in a turn that begins after it
    /// waited for `fifo_expire`.
    #[test]
    fn cfq_gives_everybody_a_turn(
        levels in proptest::collection::vec((0u8..8, any::<bool>()), 2..6),
        service_ms in 1u64..12,
    ) {
        let settings = cfq::Settings::default();
        let mut scheduler = Box::new(Cfq::new(settings));
        let slices_ns: Vec<u64> = levels.iter().map(|(level, sync)| settings.slice(*sync, *level).0).collect();
        let all_ns: u64 = slices_ns.iter().sum();
        let mut last = vec![0u64; levels.len()];
        let mut now = 0;
        let mut sector = 0;
        let mut add = |scheduler: &mut Cfq, now, index: Index| {
            let who = usize::from(index) % levels.len();
            sector += 16;
            let request = Request {
                operation: if levels[who].1 { Operation::Read } else { Operation::Write },
                sector,
                sectors: 8,
                fua: false,
                sync: levels[who].1,
                cause: who as u32,
                class: IoClass::BestEffort,
                level: levels[who].0,
                deadline: None,
                continues: false,
            };
            scheduler.add(Nanos(now), index, &request);
        };
        for index in 0..4 * levels.len() as Index {
            add(&mut scheduler, 0, index);
        }
        for _ in 0..1_000 {
            let Dispatch::Request(index) = scheduler.dispatch(Nanos(now)) else { panic!("all wait") };
            let who = usize::from(index) % levels.len();
            let overruns = levels.len() as u64 * service_ms * MS;
            let bound = all_ns - slices_ns[who] + overruns;
            prop_assert!(now - last[who] <= bound, "{} waited {} ns", who, now - last[who]);
            now += service_ms * MS;
            last[who] = now;
            scheduler.completed(Nanos(now), index, Nanos(service_ms * MS));
            add(&mut scheduler, now, index);
        }
    }
}

/// The tests above must see merges, or they prove nothing of them.
#[test]
fn neighbours_are_merged_by_every_scheduler() {
    for scheduler in every_scheduler() {
        let name = scheduler.name();
        let mut owner = Owner::new(scheduler);
        for block in 0..32 {
            owner.add(Request {
                operation: Operation::Write,
                sector: 8 * block,
                sectors: 8,
                fua: false,
                sync: false,
                cause: 1,
                class: IoClass::BestEffort,
                level: 4,
                deadline: None,
                continues: false,
            });
        }
        assert_eq!(owner.merges, 31, "{name}");
        owner.drain();
    }
}

/// As many requests as there are names, each of another cause, twice over.
#[test]
fn a_full_queue_is_served() {
    for scheduler in every_scheduler() {
        let mut owner = Owner::new(scheduler);
        for round in 0..2u32 {
            for cause in 0..1_024u32 {
                owner.add(Request {
                    operation: if cause % 3 == 0 { Operation::Write } else { Operation::Read },
                    sector: u64::from(cause * 7_919 % 1_024) * 16,
                    sectors: 8,
                    fua: false,
                    sync: cause % 2 == 0,
                    cause: 10_000 * round + cause,
                    class: IoClass::BestEffort,
                    level: (cause % 8) as u8,
                    deadline: None,
                    continues: false,
                });
            }
            assert_eq!(owner.scheduler.waiting(), 1_024);
            owner.drain();
        }
        assert!(owner.parts.iter().all(|part| part.dispatched));
    }
}
