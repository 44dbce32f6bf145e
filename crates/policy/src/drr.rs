//! Deficit round robin: fair shares in constant time for each decision.
//!
//! Flows take turns. At each turn a flow's deficit grows by its quantum, and the flow is served
//! while the deficit covers the cost. What is left is kept while the flow has more to do, and lost
//! when it rests. Over a long time each flow gets work in proportion to its quantum, off by at most
//! one quantum and one request.
//!
//! Source: M. Shreedhar and G. Varghese, Efficient fair queuing using deficit round-robin.

/// Deficits of up to 64 flows.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Drr<const FLOWS: usize> {
    deficit_ns: [i64; FLOWS],
    quantum_ns: [u32; FLOWS],
    waiting: u64,
    turn: u32,
}

impl<const FLOWS: usize> Drr<FLOWS> {
    /// No flow waits; each has this quantum.
    pub const fn new(quantum_ns: u32) -> Self {
        assert!(FLOWS <= 64);
        Drr { deficit_ns: [0; FLOWS], quantum_ns: [quantum_ns; FLOWS], waiting: 0, turn: 0 }
    }

    /// Sets what a flow may use in each of its turns; at least one nanosecond.
    pub fn set_quantum(&mut self, flow: usize, quantum_ns: u32) {
        if let Some(slot) = self.quantum_ns.get_mut(flow) {
            *slot = quantum_ns.max(1);
        }
    }

    /// The flow has something to be served.
    pub fn wait(&mut self, flow: usize) {
        if flow < FLOWS {
            self.waiting |= 1 << flow;
        }
    }

    /// The flow has nothing to be served any more; its deficit is forfeited, its debt is not.
    pub fn rest(&mut self, flow: usize) {
        if flow < FLOWS {
            self.waiting &= !(1 << flow);
            self.deficit_ns[flow] = self.deficit_ns[flow].min(0);
        }
    }

    /// The flow to serve next. Costs are said afterwards, so a flow is served while its deficit is
    /// above zero, and goes into debt with its last request.
    pub fn next(&mut self, mut eligible: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut mask = 0;
        for flow in 0..FLOWS {
            if self.waiting & (1 << flow) != 0 && eligible(flow) {
                mask |= 1u64 << flow;
            }
        }
        if mask == 0 {
            return None;
        }
        if mask & (1 << self.turn) != 0 && self.deficit_ns[self.turn as usize] > 0 {
            return Some(self.turn as usize);
        }
        // Turns that end without service would only repeat until a deficit is above zero: the
        // number of whole rounds that this takes is known.
        let rounds = (0..FLOWS)
            .filter(|flow| mask & (1 << flow) != 0)
            .map(|flow| (-self.deficit_ns[flow]).max(0) / i64::from(self.quantum_ns[flow]))
            .min()
            .unwrap_or(0);
        for flow in 0..FLOWS {
            if mask & (1 << flow) != 0 {
                let gain = rounds.saturating_mul(i64::from(self.quantum_ns[flow]));
                self.deficit_ns[flow] = self.deficit_ns[flow].saturating_add(gain);
            }
        }
        for _ in 0..2 * FLOWS {
            self.turn = (self.turn + 1) % FLOWS as u32;
            let flow = self.turn as usize;
            if mask & (1 << flow) == 0 {
                continue;
            }
            self.deficit_ns[flow] += i64::from(self.quantum_ns[flow]);
            if self.deficit_ns[flow] > 0 {
                return Some(flow);
            }
        }
        None
    }

    /// The flow was given work of this cost.
    pub fn charge(&mut self, flow: usize, cost_ns: u64) {
        if let Some(deficit) = self.deficit_ns.get_mut(flow) {
            *deficit = deficit.saturating_sub(i64::try_from(cost_ns).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_follows_the_quanta_whatever_a_request_costs() {
        let mut drr = Drr::<4>::new(1_000);
        drr.set_quantum(1, 3_000);
        drr.wait(0);
        drr.wait(1);
        let costs = [700, 2_900];
        let mut given = [0u64; 2];
        for _ in 0..20_000 {
            let flow = drr.next(|_| true).unwrap();
            drr.charge(flow, costs[flow]);
            given[flow] += costs[flow];
        }
        let ratio = given[1] as f64 / given[0] as f64;
        assert!((2.95..3.05).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_request_larger_than_many_quanta_is_served_and_paid_off() {
        let mut drr = Drr::<2>::new(1);
        drr.wait(0);
        assert_eq!(drr.next(|_| true), Some(0));
        drr.charge(0, 1_000_000);
        assert_eq!(drr.next(|_| true), Some(0), "alone, it need not wait");
        drr.charge(0, 1_000_000);
        drr.wait(1);
        for _ in 0..100 {
            assert_eq!(drr.next(|_| true), Some(1));
            drr.charge(1, 1_000);
        }
        assert_eq!(drr.next(|flow| flow > 5), None);
    }
}
