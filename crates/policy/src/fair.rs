//! Fair queueing over several resources: which flow is served next, so that each flow's *dominant*
//! share follows its weight.
//!
//! # Problem
//! Requests use several resources in different amounts: one client mostly the CPU, another mostly
//! the disk. Equal shares of one resource, or equal numbers of requests, are not equal service.
//! Dominant resource fairness asks that each client gets an equal share of the resource that it
//! uses most.
//!
//! # The primitive
//! Each flow has a virtual time for each resource: the work that it was given there, in nanoseconds
//! of the whole resource, divided by its weight. The flow whose *largest* virtual time is smallest
//! goes next. A flow that was idle starts at the virtual time that the others have reached. It has
//! no claim on what it did not ask for, and owes nothing.
//!
//! With one resource this is start-time fair queueing.
//!
//! A flow that has used mostly one resource has a low virtual time at the others. It may use some
//! of them for free, and that is right. A request that needs the CPU and one that needs the disk
//! keep both busy, and only one of them is dominant. But the flow must not save that up. One that
//! turns from the CPU to the disk after a minute has no claim on a minute of the disk. So no
//! virtual time of a flow is more than [`DOVETAIL_NS`] behind its largest one.
//!
//! # Example
//! Two flows of equal weight. A's requests take 3 ns of the CPU and 1 of the disk, B's 1 of the CPU
//! and 4 of the disk. From zero: A (tie, lower index), now A = max(3, 1) = 3; B, now B = 4; A, now
//! 6; B, now 8; A, now 9; … Over 12 ns of dominant work each, A is served 4 times and B 3 times.
//!
//! Source: A. Ghodsi et al., Multi-resource fair queueing for packet processing (DRFQ with bounded
//! dovetailing); the Maat chapter (section 4.2, Table 4.2) names it as its scheduler.

/// Unit of weight: this much is "one".
pub const WEIGHT_ONE: u32 = 1_000;

/// Virtual time by which a flow may be further at one resource than at another and still have a
/// claim on the latter. Long enough for a request that uses them one after the other.
pub const DOVETAIL_NS: u64 = 100_000_000;

/// Virtual times of up to `FLOWS` flows over up to `RESOURCES` resources. At most 64 flows.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Fair<const FLOWS: usize, const RESOURCES: usize> {
    /// Work given so far, in nanoseconds of the whole resource per unit of weight.
    time: [[u64; RESOURCES]; FLOWS],
    /// Largest virtual time at which a flow was served.
    reached: [u64; RESOURCES],
    weight: [u32; FLOWS],
    waiting: u64,
}

impl<const FLOWS: usize, const RESOURCES: usize> Default for Fair<FLOWS, RESOURCES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const FLOWS: usize, const RESOURCES: usize> Fair<FLOWS, RESOURCES> {
    /// No flow waits, each has weight one.
    pub const fn new() -> Self {
        assert!(FLOWS <= 64);
        Fair {
            time: [[0; RESOURCES]; FLOWS],
            reached: [0; RESOURCES],
            weight: [WEIGHT_ONE; FLOWS],
            waiting: 0,
        }
    }

    /// Sets a flow's weight, in thousandths; at least one.
    pub fn set_weight(&mut self, flow: usize, weight: u32) {
        if let Some(slot) = self.weight.get_mut(flow) {
            *slot = weight.max(1);
        }
    }

    /// The flow has something to be served.
    pub fn wait(&mut self, flow: usize) {
        let Some(times) = self.time.get_mut(flow) else { return };
        if self.waiting & (1 << flow) != 0 {
            return;
        }
        self.waiting |= 1 << flow;
        for (time, reached) in times.iter_mut().zip(self.reached) {
            *time = (*time).max(reached);
        }
    }

    /// The flow has nothing to be served any more.
    pub fn rest(&mut self, flow: usize) {
        if flow < FLOWS {
            self.waiting &= !(1 << flow);
        }
    }

    /// Whether the flow has something to be served.
    pub fn waits(&self, flow: usize) -> bool {
        flow < FLOWS && self.waiting & (1 << flow) != 0
    }

    /// Number of flows that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.count_ones()
    }

    /// The flow to serve next among those that wait and are eligible. Changes nothing: the caller
    /// serves it and says so by [`served`](Fair::served).
    pub fn next(&self, mut eligible: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut left = self.waiting;
        let mut best: Option<(u64, usize)> = None;
        while left != 0 {
            let flow = left.trailing_zeros() as usize;
            left &= left - 1;
            let time = self.dominant(flow);
            if best.is_none_or(|(least, _)| time < least) && eligible(flow) {
                best = Some((time, flow));
            }
        }
        best.map(|(_, flow)| flow)
    }

    /// The flow's largest virtual time.
    pub fn dominant(&self, flow: usize) -> u64 {
        self.time.get(flow).map_or(0, |times| times.iter().copied().max().unwrap_or(0))
    }

    /// The flow is served; what that costs is said by [`charge`](Fair::charge), now or later.
    pub fn served(&mut self, flow: usize) {
        let floor = self.dominant(flow).saturating_sub(DOVETAIL_NS);
        let Some(times) = self.time.get_mut(flow) else { return };
        for (reached, time) in self.reached.iter_mut().zip(times) {
            *time = (*time).max(floor);
            *reached = (*reached).max(*time);
        }
    }

    /// The flow was given `cost_ns` of a resource: the time for which all of it would be busy.
    pub fn charge(&mut self, flow: usize, resource: usize, cost_ns: u64) {
        let weight = u64::from(self.weight.get(flow).copied().unwrap_or(WEIGHT_ONE));
        if let Some(time) = self.time.get_mut(flow).and_then(|times| times.get_mut(resource)) {
            let scaled = cost_ns.saturating_mul(u64::from(WEIGHT_ONE)) / weight;
            *time = time.saturating_add(scaled);
        }
    }

    /// The flow was given something that counts on top of whatever it has most of, and not as a
    /// separate resource. So what it did not use of that before is no credit.
    pub fn charge_most(&mut self, flow: usize, cost_ns: u64) {
        let Some(times) = self.time.get(flow) else { return };
        let most = (0..RESOURCES).max_by_key(|resource| times[*resource]);
        if let Some(resource) = most {
            self.charge(flow, resource, cost_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve<const R: usize>(
        fair: &mut Fair<4, R>,
        costs: &[[u64; R]],
        rounds: usize,
    ) -> Vec<usize> {
        (0..rounds)
            .map(|_| {
                let flow = fair.next(|_| true).unwrap();
                fair.served(flow);
                for (resource, cost) in costs[flow].iter().enumerate() {
                    fair.charge(flow, resource, *cost);
                }
                flow
            })
            .collect()
    }

    #[test]
    fn the_worked_example() {
        let mut fair = Fair::<4, 2>::new();
        fair.wait(0);
        fair.wait(1);
        let order = serve(&mut fair, &[[3, 1], [1, 4]], 7);
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0]);
        assert_eq!((fair.dominant(0), fair.dominant(1)), (12, 12));
    }

    #[test]
    fn weights_divide_one_resource() {
        let mut fair = Fair::<4, 1>::new();
        fair.set_weight(0, 3 * WEIGHT_ONE);
        fair.wait(0);
        fair.wait(1);
        let order = serve(&mut fair, &[[100], [100]], 400);
        let first = order.iter().filter(|flow| **flow == 0).count();
        assert!((299..=301).contains(&first), "{first} of 400");
    }

    #[test]
    fn who_comes_back_claims_nothing_for_its_absence() {
        let mut fair = Fair::<4, 1>::new();
        fair.wait(0);
        serve(&mut fair, &[[10], [10]], 1_000);
        fair.wait(1);
        let order = serve(&mut fair, &[[10], [10]], 100);
        let late = order.iter().filter(|flow| **flow == 1).count();
        assert!((49..=51).contains(&late), "{late} of 100");
    }

    #[test]
    fn what_was_not_used_of_a_resource_is_not_saved_up() {
        let mut fair = Fair::<4, 2>::new();
        fair.wait(0);
        fair.wait(1);
        // A minute of the CPU for both, then the second flow turns to the disk.
        serve(&mut fair, &[[1_000_000, 0], [1_000_000, 0]], 120_000);
        let order = serve(&mut fair, &[[1_000_000, 0], [0, 1_000_000]], 2_000);
        let second = order.iter().filter(|flow| **flow == 1).count();
        assert!(
            (1_000..=1_100).contains(&second),
            "{second} of 2000: half, and what it may dovetail"
        );
    }

    #[test]
    fn only_those_who_wait_and_may_are_served() {
        let mut fair = Fair::<4, 1>::new();
        fair.wait(2);
        fair.wait(3);
        assert_eq!(fair.next(|flow| flow != 2), Some(3));
        fair.rest(3);
        assert_eq!(fair.next(|flow| flow != 2), None);
        assert_eq!((fair.waits(2), fair.waits(3), fair.waiting()), (true, false, 1));
        fair.wait(99);
        fair.charge(99, 0, 1);
        fair.rest(99);
    }
}
