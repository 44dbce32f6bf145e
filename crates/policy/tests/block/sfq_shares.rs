//! What fair queueing with depth promises: shares by weight under changing depths, weights and
//! bounds; none starves; the device is kept full.

use crate::{MS, Owner, Step, steps};
use headworks_policy::Nanos;
use headworks_policy::block::{
    Added, BlockScheduler, Dispatch, Index, IoClass, Operation, Quanta, Request, Sfq, Share,
    quanta, sfq, table::Limits,
};
use proptest::prelude::*;

fn request(who: usize, sector: u64, sectors: u32) -> Request {
    let read = sector.is_multiple_of(2);
    Request {
        operation: if read { Operation::Read } else { Operation::Write },
        sector,
        sectors,
        fua: false,
        sync: read,
        cause: who as u32,
        class: IoClass::BestEffort,
        level: 4,
        deadline: None,
        continues: false,
    }
}

proptest! {
    /// With any depth, two applications that wait at all times are given what their weights say.
    /// The error is at most a request of each, and none is passed over for longer.
    #[test]
    fn sfq_shares_by_weight_and_starves_nobody(
        weights in proptest::collection::vec(1u32..1_000, 2..6),
        sizes in proptest::collection::vec((0u64..1 << 20, 1u32..2_048), 100..400),
        depth in 1u32..33,
    ) {
        let settings = sfq::Settings {
            depth,
            limits: Limits { sectors: 0 },
            ..sfq::Settings::array(1, Nanos(MS), Nanos(1_000))
        };
        let mut sfq = Box::new(Sfq::new(settings));
        for (who, weight) in weights.iter().enumerate() {
            sfq.set_share(who as u32, Some(Share { weight: *weight, best_effort: who % 2 == 1 }));
        }
        let most = u128::from(MS + 1_000 * 2_048);
        let cost = |request: &Request| u128::from(MS + 1_000 * u64::from(request.sectors));
        let mut given = vec![0u128; weights.len()];
        // Forty of each at all times, so that no application ever has nothing to ask for.
        let mut pending = vec![None; 40 * weights.len()];
        let mut device = std::collections::VecDeque::new();
        let mut coming = sizes.iter().cycle();
        for _ in 0..sizes.len() {
            for (index, slot) in pending.iter_mut().enumerate() {
                if slot.is_none() {
                    let (sector, sectors) = *coming.next().expect("a cycle");
                    let new = request(index % weights.len(), sector, sectors);
                    prop_assert_eq!(sfq.add(Nanos(0), index as Index, &new), Added::Queued);
                    *slot = Some(new);
                }
            }
            while let Dispatch::Request(index) = sfq.dispatch(Nanos(0)) {
                device.push_back(index);
                let new = pending[usize::from(index)].as_ref().expect("it waits");
                given[usize::from(index) % weights.len()] += cost(new);
                for i in 0..weights.len() {
                    for j in 0..weights.len() {
                        let (wi, wj) = (u128::from(weights[i]), u128::from(weights[j]));
                        let apart = (given[i] * wj).abs_diff(given[j] * wi);
                        prop_assert!(apart <= (most + 1) * (wi + wj), "{given:?} by {weights:?}");
                    }
                }
            }
            prop_assert_eq!(device.len(), depth as usize);
            let index: Index = device.pop_front().expect("it is full");
            sfq.completed(Nanos(0), index, Nanos(MS));
            pending[usize::from(index)] = None;
        }
    }

    /// Whatever comes, and whatever is set meanwhile: D are with the device while enough waits, and
    /// an empty device gets a request if one waits.
    #[test]
    fn sfq_conserves_work(
        steps in steps(),
        settings in proptest::collection::vec((0u32..5, 0u32..2_000, any::<bool>(), 0u32..9, 0u32..9), 1..20),
    ) {
        let mut owner = Owner::new(Box::new(Sfq::default()));
        let (mut coming, mut depth, mut best_effort) = (settings.iter().cycle(), 4, u32::MAX);
        for (number, step) in steps.iter().enumerate() {
            if number % 7 == 0 {
                let (cause, weight, bounded, d, b) = *coming.next().expect("a cycle");
                let share = (weight > 100).then_some(Share { weight, best_effort: bounded });
                prop_assert!(owner.scheduler.set_share(cause, share));
                prop_assert!(owner.scheduler.set_depth(d, b));
                (depth, best_effort) = (d.max(1) as usize, b.max(1));
            }
            match step {
                Step::Add(request) => owner.add(*request),
                Step::Dispatch => drop(owner.dispatch()),
                Step::Complete(which) => owner.complete(*which),
                Step::Refuse(which) => owner.refuse(*which),
                Step::Pass(ns) => owner.now += ns,
            }
            while owner.waiting > 0 && matches!(owner.dispatch(), Dispatch::Request(_)) {}
            let least = depth.min(best_effort as usize).min(owner.waiting + owner.with_device.len());
            prop_assert!(owner.with_device.len() >= least, "{} with the device", owner.with_device.len());
        }
    }

    /// Every application that waits is served within two rounds of quanta, whatever its weight.
    #[test]
    fn quanta_starve_nobody_at_one_level(
        weights in proptest::collection::vec(1u32..1_000, 2..6),
        service_ms in 1u64..12,
        debt in any::<bool>(),
        work_conserving in any::<bool>(),
    ) {
        let settings = quanta::Settings { debt, work_conserving, ..Default::default() };
        let mut quanta = Box::new(Quanta::new(settings));
        for (who, weight) in weights.iter().enumerate() {
            quanta.set_share(who as u32, Some(Share { weight: *weight, best_effort: false }));
            quanta.add(Nanos(0), who as Index, &request(who, 100 * who as u64, 1));
        }
        let (mut now, mut last) = (0, vec![0u64; weights.len()]);
        // Overruns of a debt are at most a request's service, and the first request always goes.
        let round = 100 * MS + weights.len() as u64 * (MS + service_ms * MS);
        for _ in 0..500 {
            match quanta.dispatch(Nanos(now)) {
                Dispatch::Request(index) => {
                    now += service_ms * MS;
                    quanta.completed(Nanos(now), index, Nanos(service_ms * MS));
                    let who = usize::from(index);
                    prop_assert!(now - last[who] <= 2 * round, "{} waited {}", who, now - last[who]);
                    last[who] = now;
                    quanta.add(Nanos(now), index, &request(who, 100 * who as u64, 1));
                }
                Dispatch::Wait(until) => now = until.0,
                Dispatch::Idle => prop_assert!(false, "all wait"),
            }
        }
    }
}
