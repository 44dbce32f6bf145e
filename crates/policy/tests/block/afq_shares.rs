//! What AFQ promises: shares by weight, no starvation, no idle device.

use crate::{MS, Owner, Step, steps};
use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, Afq, BlockScheduler, Dispatch, Index, IoClass, Operation, Request, afq, cost::SeekCost,
    table::Limits,
};
use headworks_policy::stride::weight;
use proptest::prelude::*;

proptest! {
    /// Shares of AFQ follow weights within one quantum and one request of each, at any moment at
    /// which all have requests waiting. No cause is passed over for longer than that says, and the
    /// device never stands still.
    #[test]
    fn afq_shares_by_weight_and_starves_nobody(
        levels in proptest::collection::vec(0u8..8, 2..6),
        requests in proptest::collection::vec((0u64..1 << 20, 1u32..200), 100..400),
        quantum_ms in 0u64..20,
        rotational in any::<bool>(),
    ) {
        let base = if rotational { afq::Settings::default() } else { afq::Settings::flash() };
        let settings = afq::Settings {
            quantum: Nanos(quantum_ms * MS),
            anticipate: Nanos(0),
            depth: 1,
            limits: Limits { sectors: 0 },
            ..base
        };
        let mut scheduler = Box::new(Afq::new(settings));
        // The test's own books, by the published cost model.
        let span = if rotational { 1 } else { 0 };
        let mut cost = SeekCost::new(settings.seek, span, settings.transfer);
        let most_ns = settings.seek.0 + 200 * settings.transfer.0 + settings.quantum.0;
        let mut given = vec![0u64; levels.len()];
        let mut since = vec![vec![0u64; levels.len()]; levels.len()];
        let mut pending = vec![None; 4 * levels.len()];
        let mut coming = requests.iter().cycle();
        for step in 0..requests.len() {
            for (index, slot) in pending.iter_mut().enumerate() {
                if slot.is_some() {
                    continue;
                }
                let (sector, sectors) = *coming.next().expect("a cycle");
                let who = index % levels.len();
                let request = Request {
                    operation: if sector % 2 == 0 { Operation::Read } else { Operation::Write },
                    sector,
                    sectors,
                    fua: false,
                    sync: sector % 2 == 0,
                    cause: who as u32,
                    class: IoClass::BestEffort,
                    level: levels[who],
                    deadline: None,
                    continues: false,
                };
                prop_assert_eq!(scheduler.add(Nanos(0), index as Index, &request), Added::Queued);
                *slot = Some(request);
            }
            let Dispatch::Request(index) = scheduler.dispatch(Nanos(step as u64)) else {
                panic!("the device is empty and all wait")
            };
            scheduler.completed(Nanos(step as u64), index, Nanos(0));
            let request = pending[usize::from(index)].take().expect("it waits");
            if rotational {
                cost.span_sectors = cost.span_sectors.max(request.end());
            }
            let paid_ns = cost.charge(&request).0;
            let who = usize::from(index) % levels.len();
            given[who] += paid_ns;
            for (other, passed) in since.iter_mut().enumerate() {
                passed[who] += paid_ns;
                if other == who {
                    passed.fill(0);
                }
            }
            for i in 0..levels.len() {
                for j in 0..levels.len() {
                    let (wi, wj) = (weight(levels[i]), weight(levels[j]));
                    let apart = (given[i] * wj).abs_diff(given[j] * wi);
                    prop_assert!(apart <= most_ns * (wi + wj), "{i} and {j}: {given:?}");
                    let patience = most_ns * wj / wi + 2 * most_ns;
                    prop_assert!(since[i][j] <= patience, "{j} passed {i} over for {}", since[i][j]);
                }
            }
        }
    }

    /// Whatever comes but the idle class: an empty device gets a request if one waits.
    #[test]
    fn afq_without_anticipation_keeps_the_device_busy(steps in steps()) {
        for settings in [afq::Settings::default(), afq::Settings::flash().beneath_calls()] {
            let settings = afq::Settings { anticipate: Nanos(0), ..settings };
            let mut owner = Owner::new(Box::new(Afq::new(settings)));
            for step in &steps {
                match step {
                    Step::Add(request) => {
                        let class = request.class.min(IoClass::BestEffort);
                        owner.add(Request { class, ..*request });
                    }
                    Step::Dispatch => drop(owner.dispatch()),
                    Step::Complete(which) => owner.complete(*which),
                    Step::Refuse(which) => owner.refuse(*which),
                    Step::Pass(ns) => owner.now += ns,
                }
                if owner.with_device.is_empty() && owner.waiting > 0 {
                    let next = owner.dispatch();
                    prop_assert!(matches!(next, Dispatch::Request(_)), "{:?}", next);
                }
            }
        }
    }
}
