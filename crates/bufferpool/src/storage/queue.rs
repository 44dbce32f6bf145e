//! The pool's requests as a queue that a scheduler orders.
//!
//! A pool without a scheduler calls its storage directly, and pays nothing for this module. With
//! [`super::QueuedStorage`] every miss, stall, flush and checkpoint write first *enters* a queue,
//! with its purpose ([`IoTag`]). An [`IoScheduler`] picks the next one whenever one of `depth`
//! places is free. A log can enter the same queue ([`IoQueue::enter`]).
//!
//! Guarantees, whatever the scheduler does: every request that entered goes to storage exactly
//! once, and two requests for the same page go one after the other, in order of arrival. The
//! scheduler does not see the second before the first is over.

use super::IoTag;
use crate::ids::PageId;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A queued request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// It writes.
    pub write: bool,
    /// Its first page.
    pub first: PageId,
    /// Number of consecutive pages; 0 for a log, which has no pages.
    pub pages: u32,
    /// Its cause and purpose.
    pub tag: IoTag,
}

/// Number of a request in its queue: below [`IoScheduler::capacity`], reused when it is over.
pub type IoId = u32;

/// What a scheduler says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoNext {
    /// This one goes.
    Go(IoId),
    /// None before this time, in ns since the queue was made, unless a request comes or ends.
    Wait(u64),
    /// Nothing waits.
    Idle,
}

/// A scheduler of requests. It is called under a lock: it must not block.
pub trait IoScheduler: Send {
    /// Most requests that it can keep, including those in progress. More wait before the queue.
    fn capacity(&self) -> usize {
        4096
    }

    /// A request came. `id` names it until [`IoScheduler::done`].
    fn add(&mut self, now_ns: u64, id: IoId, request: &IoRequest);

    /// The next request: there is a free place. Each is returned once.
    fn next(&mut self, now_ns: u64) -> IoNext;

    /// A request is over; it was at storage for `service_ns`.
    fn done(&mut self, now_ns: u64, id: IoId, service_ns: u64) {
        let _ = (now_ns, id, service_ns);
    }
}

/// In the order of arrival.
#[derive(Default, Debug)]
pub struct Fifo(VecDeque<IoId>);

impl IoScheduler for Fifo {
    fn add(&mut self, _now_ns: u64, id: IoId, _request: &IoRequest) {
        self.0.push_back(id);
    }

    fn next(&mut self, _now_ns: u64) -> IoNext {
        self.0.pop_front().map_or(IoNext::Idle, IoNext::Go)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// Behind this many earlier requests for its pages.
    Behind(u32),
    /// The scheduler has it.
    Waiting,
    /// At storage, since this time.
    Running(u64),
}

#[derive(Clone, Copy)]
struct Slot {
    request: IoRequest,
    state: State,
}

/// The queue without its lock. Time is an argument.
struct Order {
    scheduler: Box<dyn IoScheduler>,
    places: usize,
    running: usize,
    slots: Vec<Slot>,
    free: Vec<IoId>,
    /// Requests for each page, in order of arrival. The first is with the scheduler or at storage.
    pages: HashMap<PageId, VecDeque<IoId>>,
    capacity: usize,
}

impl Order {
    fn new(scheduler: Box<dyn IoScheduler>, places: usize) -> Self {
        Self {
            capacity: scheduler.capacity().max(1),
            scheduler,
            places: places.max(1),
            running: 0,
            slots: Vec::new(),
            free: Vec::new(),
            pages: HashMap::new(),
        }
    }

    fn pages_of(request: &IoRequest) -> impl Iterator<Item = PageId> + use<> {
        let first = request.first.0;
        (0..u64::from(request.pages)).map(move |at| PageId(first + at))
    }

    /// Adds a request; `None` if there is no room.
    fn add(&mut self, now_ns: u64, request: IoRequest) -> Option<IoId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.slots.len() < self.capacity => {
                self.slots.push(Slot { request, state: State::Free });
                // A capacity is far below 2^32.
                self.slots.len() as IoId - 1
            }
            None => return None,
        };
        let mut behind = 0;
        for page in Self::pages_of(&request) {
            let queue = self.pages.entry(page).or_default();
            behind += u32::from(!queue.is_empty());
            queue.push_back(id);
        }
        self.slots[id as usize] = Slot { request, state: State::Behind(behind) };
        if behind == 0 {
            self.offer(now_ns, id);
        }
        Some(id)
    }

    fn offer(&mut self, now_ns: u64, id: IoId) {
        let slot = &mut self.slots[id as usize];
        slot.state = State::Waiting;
        self.scheduler.add(now_ns, id, &slot.request);
    }

    /// The next request for storage.
    fn next(&mut self, now_ns: u64) -> IoNext {
        if self.running >= self.places {
            return IoNext::Idle;
        }
        let next = self.scheduler.next(now_ns);
        if let IoNext::Go(id) = next {
            let slot = self.slots.get_mut(id as usize);
            let slot = slot.filter(|slot| slot.state == State::Waiting);
            let slot = slot.unwrap_or_else(|| panic!("the scheduler names {id}, which is not its"));
            slot.state = State::Running(now_ns);
            self.running += 1;
        }
        next
    }

    fn is_running(&self, id: IoId) -> bool {
        matches!(self.slots[id as usize].state, State::Running(_))
    }

    /// A request is over: the next one for its pages moves up.
    fn finish(&mut self, now_ns: u64, id: IoId) {
        let Slot { request, state } = self.slots[id as usize];
        let State::Running(since_ns) = state else { return };
        self.running -= 1;
        self.scheduler.done(now_ns, id, now_ns.saturating_sub(since_ns));
        for page in Self::pages_of(&request) {
            let Some(queue) = self.pages.get_mut(&page) else { continue };
            queue.pop_front();
            let Some(&after) = queue.front() else {
                self.pages.remove(&page);
                continue;
            };
            if let State::Behind(pages) = self.slots[after as usize].state {
                self.slots[after as usize].state = State::Behind(pages - 1);
                if pages == 1 {
                    self.offer(now_ns, after);
                }
            }
        }
        self.slots[id as usize].state = State::Free;
        self.free.push(id);
    }
}

struct Inside {
    order: Order,
    /// When the scheduler asked to be called again.
    ask_at_ns: Option<u64>,
    /// Requests that wait for a place; the thread of the first keeps the time.
    asleep: VecDeque<IoId>,
}

/// A queue in front of one or more storages, ordered by an [`IoScheduler`].
pub struct IoQueue {
    epoch: Instant,
    inside: Mutex<Inside>,
    /// For each slot: its request may go.
    go: Box<[Condvar]>,
    room: Condvar,
}

/// A request that may go to storage. It is over when this is dropped.
pub struct IoTurn<'q> {
    queue: &'q IoQueue,
    id: IoId,
}

impl IoQueue {
    /// A queue that lets `places` requests go at a time.
    ///
    /// Fewer places leave the scheduler more choice, and the device less parallelism. The device's
    /// own queue depth is a good number.
    #[must_use]
    pub fn new(scheduler: Box<dyn IoScheduler>, places: usize) -> Self {
        let order = Order::new(scheduler, places);
        let go = (0..order.capacity).map(|_| Condvar::new()).collect();
        let inside = Inside { order, ask_at_ns: None, asleep: VecDeque::new() };
        Self { epoch: Instant::now(), inside: Mutex::new(inside), go, room: Condvar::new() }
    }

    fn now_ns(&self) -> u64 {
        // 584 years.
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Most requests at storage at a time.
    #[must_use]
    pub fn places(&self) -> usize {
        self.inside.lock().order.places
    }

    /// Returns when it is this request's turn.
    pub fn enter(&self, request: IoRequest) -> IoTurn<'_> {
        let mut inside = self.inside.lock();
        let id = loop {
            match inside.order.add(self.now_ns(), request) {
                Some(id) => break id,
                None => self.room.wait(&mut inside),
            }
        };
        self.let_go(&mut inside, Some(id));
        if !inside.order.is_running(id) {
            inside.asleep.push_back(id);
            self.sleep(&mut inside, id);
            inside.asleep.retain(|&other| other != id);
            // The thread that kept the time has left.
            if let (Some(_), Some(&next)) = (inside.ask_at_ns, inside.asleep.front()) {
                self.go[next as usize].notify_one();
            }
        }
        IoTurn { queue: self, id }
    }

    fn sleep(&self, inside: &mut MutexGuard<'_, Inside>, id: IoId) {
        while !inside.order.is_running(id) {
            let go = &self.go[id as usize];
            match inside.ask_at_ns.filter(|_| inside.asleep.front() == Some(&id)) {
                None => go.wait(inside),
                Some(at_ns) => {
                    let until = self.epoch + Duration::from_nanos(at_ns);
                    if go.wait_until(inside, until).timed_out() {
                        self.let_go(inside, Some(id));
                    }
                }
            }
        }
    }

    /// Lets requests go while there are places and the scheduler returns some. `own` is the
    /// caller's.
    fn let_go(&self, inside: &mut Inside, own: Option<IoId>) {
        inside.ask_at_ns = loop {
            match inside.order.next(self.now_ns()) {
                IoNext::Go(id) if Some(id) == own => {}
                IoNext::Go(id) => drop(self.go[id as usize].notify_one()),
                IoNext::Wait(at_ns) => break Some(at_ns),
                IoNext::Idle => break None,
            }
        };
        if let (Some(_), Some(&first)) = (inside.ask_at_ns, inside.asleep.front()) {
            self.go[first as usize].notify_one();
        }
    }
}

impl Drop for IoTurn<'_> {
    fn drop(&mut self) {
        let mut inside = self.queue.inside.lock();
        inside.order.finish(self.queue.now_ns(), self.id);
        self.queue.let_go(&mut inside, None);
        self.queue.room.notify_one();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::storage::IoKind;
    use proptest::prelude::*;

    /// Returns its requests in an arbitrary order, given as a list of numbers; sometimes none.
    struct Arbitrary {
        has: Vec<IoId>,
        picks: Vec<usize>,
        at: usize,
    }

    impl IoScheduler for Arbitrary {
        fn capacity(&self) -> usize {
            24
        }

        fn add(&mut self, _now_ns: u64, id: IoId, _request: &IoRequest) {
            assert!(!self.has.contains(&id), "{id} came twice");
            self.has.push(id);
        }

        fn next(&mut self, now_ns: u64) -> IoNext {
            let pick = self.picks[self.at % self.picks.len()];
            self.at += 1;
            match self.has.len() {
                0 => IoNext::Idle,
                _ if pick.is_multiple_of(7) => IoNext::Wait(now_ns + 1),
                count => IoNext::Go(self.has.swap_remove(pick % count)),
            }
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add { page: u64, pages: u32 },
        Next,
        Finish(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..6, 0u32..4).prop_map(|(page, pages)| Step::Add { page, pages }),
            Just(Step::Next),
            (0usize..24).prop_map(Step::Finish),
        ]
    }

    proptest! {
        /// Whatever the scheduler does, no request is lost or goes twice. No two for one page are
        /// in progress together, and those for one page go in order of arrival.
        #[test]
        fn nothing_is_lost_and_a_page_keeps_its_order(
            steps in proptest::collection::vec(step(), 1..200),
            picks in proptest::collection::vec(0usize..100, 1..50),
        ) {
            let picks = [picks, vec![1]].concat();
            let scheduler = Arbitrary { has: Vec::new(), picks, at: 0 };
            let mut order = Order::new(Box::new(scheduler), 3);
            let tag = IoTag::of(IoKind::Other);
            // Requests that came, requests that run, and how often those of each page went: by
            // order of arrival.
            let (mut came, mut running): (Vec<IoRequest>, Vec<(IoId, usize)>) = Default::default();
            let mut number_of: HashMap<IoId, usize> = HashMap::new();
            let mut went: Vec<usize> = Vec::new();
            let mut now_ns = 0;
            let finish_all = (0..2000).flat_map(|_| [Step::Next, Step::Finish(0)]);
            for step in steps.into_iter().chain(finish_all) {
                now_ns += 1;
                match step {
                    Step::Add { page, pages } => {
                        let request = IoRequest { write: true, first: PageId(page), pages, tag };
                        if let Some(id) = order.add(now_ns, request) {
                            prop_assert!(number_of.insert(id, came.len()).is_none());
                            came.push(request);
                        } else {
                            prop_assert_eq!(number_of.len(), 24);
                        }
                    }
                    Step::Next => if let IoNext::Go(id) = order.next(now_ns) {
                        let number = number_of[&id];
                        let pages: Vec<_> = Order::pages_of(&came[number]).collect();
                        for &(_, other) in &running {
                            let shared = Order::pages_of(&came[other]).any(|p| pages.contains(&p));
                            prop_assert!(!shared, "{number} beside {other}");
                        }
                        for (earlier, request) in came[..number].iter().enumerate() {
                            let shared = Order::pages_of(request).any(|page| pages.contains(&page));
                            prop_assert!(!shared || went.contains(&earlier));
                        }
                        prop_assert!(!went.contains(&number));
                        went.push(number);
                        running.push((id, number));
                        prop_assert!(running.len() <= 3);
                    },
                    Step::Finish(at) => if !running.is_empty() {
                        let (id, _) = running.remove(at % running.len());
                        number_of.remove(&id);
                        order.finish(now_ns, id);
                    },
                }
            }
            prop_assert_eq!(went.len(), came.len(), "all went");
            prop_assert!(order.pages.is_empty() && order.running == 0);
        }
    }

    /// Holds everything back until a time.
    struct Until(Fifo, u64);

    impl IoScheduler for Until {
        fn add(&mut self, now_ns: u64, id: IoId, request: &IoRequest) {
            self.0.add(now_ns, id, request);
        }

        fn next(&mut self, now_ns: u64) -> IoNext {
            if now_ns < self.1 { IoNext::Wait(self.1) } else { self.0.next(now_ns) }
        }
    }

    #[test]
    fn requests_that_are_held_back_go_when_their_time_has_come() {
        let held = Duration::from_millis(50);
        // 50 ms.
        let until = Until(Fifo::default(), held.as_nanos() as u64);
        let queue = IoQueue::new(Box::new(until), 2);
        let tag = IoTag::of(IoKind::Miss);
        let request = |page| IoRequest { write: false, first: PageId(page), pages: 1, tag };
        std::thread::scope(|scope| {
            for page in 0..8 {
                let queue = &queue;
                scope.spawn(move || {
                    let turn = queue.enter(request(page % 3));
                    assert!(queue.epoch.elapsed() >= held);
                    drop(turn);
                });
            }
        });
        assert_eq!(queue.inside.lock().order.running, 0);
    }
}
