//! What the heads of the split schedulers promise, for any callers, on a simulated device.

mod machine;

use headworks_policy::Nanos;
use headworks_policy::split::pacer::OVERDUE_MAX;
use headworks_policy::split::{
    Account, AccountSettings, Afq, Criticality, Deadline, DeviceCost, Rcp, Scheduler, Token, afq,
};
use machine::{Caller, Work, page, run, times};
use proptest::prelude::*;

const SECOND: Nanos = Nanos::from_millis(1_000);

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        (1u32..3).prop_map(Work::Fsync),
        (3u32..400).prop_map(Work::Fsync),
        (1u32..64).prop_map(Work::Write),
        Just(Work::Read),
    ]
}

fn caller() -> impl Strategy<Value = Caller> {
    let background = any::<bool>();
    (0..5 as Account, background, work(), 20u64..3_000, 1u64..200).prop_map(
        |(account, background, work, deadline, thinks)| Caller {
            account: account + 1,
            criticality: if background { Criticality::Background } else { Criticality::Critical },
            work,
            deadline: Nanos::from_millis(deadline),
            thinks: Nanos::from_millis(thinks),
        },
    )
}

fn callers() -> impl Strategy<Value = Vec<Caller>> {
    prop::collection::vec(caller(), 1..8)
}

fn is_critical(caller: &Caller) -> bool {
    caller.criticality == Criticality::Critical
}

/// Each call ends. One that is held for its writeback ends after its periods.
fn ends(scheduler: &mut dyn Scheduler, callers: &[Caller], never_held: fn(&Caller) -> bool) {
    let machine = run(scheduler, callers, times(SECOND, 10), never_held);
    assert_eq!(machine.wrongly_held, 0, "held against the promise");
    assert_eq!(machine.scheduler.waiting(), 0);
    // The call that is in the device's queue when a period ends is waited for, too.
    let slack = times(SECOND, 60);
    for done in &machine.done {
        let deadline = callers[done.caller].deadline;
        let most = times(deadline, 1 + OVERDUE_MAX as u32) + slack;
        assert!(done.admitted - done.called <= most, "{done:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn under_split_deadline_every_call_ends_and_no_commit_waits(callers in callers()) {
        let commits = |caller: &Caller| matches!(caller.work, Work::Fsync(1..=2));
        ends(&mut *Box::new(Deadline::default()), &callers, commits);
    }

    #[test]
    fn under_rcp_every_call_ends_and_no_critical_call_waits(callers in callers()) {
        ends(&mut *Box::new(Rcp::default()), &callers, is_critical);
    }

    #[test]
    fn under_afq_and_split_token_every_call_ends(callers in callers()) {
        ends(&mut *Box::new(Afq::default()), &callers, |_| false);
        ends(&mut *Box::new(Token::default()), &callers, |_| true);
    }

    /// Two accounts whose threads always have a call under way have device time by their weights.
    #[test]
    fn afq_shares_the_device_by_weight(
        levels in prop::array::uniform2(0u8..8),
        pieces in prop::array::uniform2(1u32..5),
        threads in 3usize..6,
        depth in 1u32..3,
    ) {
        let settings = afq::Settings { depth, ..afq::Settings::for_device(true) };
        let mut afq = Box::new(Afq::new(settings));
        for (account, level) in levels.iter().enumerate() {
            let settings = AccountSettings { level: *level, ..AccountSettings::default() };
            afq.set_account(Nanos(0), account as Account, &settings);
        }
        let caller = |account: usize| Caller {
            account: account as Account,
            criticality: Criticality::Critical,
            work: Work::Fsync(pieces[account]),
            deadline: SECOND,
            thinks: Nanos::from_micros(50),
        };
        let callers: Vec<Caller> = (0..2 * threads).map(|thread| caller(thread % 2)).collect();
        let machine = run(&mut *afq, &callers, times(SECOND, 60), |_| false);
        let end = Nanos::from_millis(160_000);
        let mut used = [0.0f64; 2];
        for done in machine.done.iter().filter(|done| done.returned < end) {
            used[done.caller % 2] += done.charged.0 as f64;
        }
        let weight = |at: usize| f64::from(8 - levels[at]);
        let task = |at: usize| times(page(), pieces[at] + 1).0 as f64 / weight(at);
        let apart = (used[0] / weight(0) - used[1] / weight(1)).abs();
        // Each thread has been charged for one call that waits.
        let most = (task(0) + task(1)) * (threads + 1) as f64;
        prop_assert!(apart <= most, "{used:?}: {apart} of {most}");
    }

    /// Over any time, an account uses what its rate and its burst allow, and a call for each
    /// thread.
    #[test]
    fn limits_hold_over_any_time(
        work in prop::collection::vec(work(), 1..5),
        rate in 100_000u64..20_000_000,
        burst in 1u64..5_000_000,
        background in any::<bool>(),
    ) {
        let limit = AccountSettings { level: 4, rate: Some(rate as f64), burst, ..Default::default() };
        let callers: Vec<Caller> = work
            .iter()
            // The charge of an `fsync` under `rcp` is a write's, which has waited for its tokens.
            .filter(|work| !background || !matches!(work, Work::Fsync(_)))
            .map(|work| Caller {
                account: 1,
                criticality: if background { Criticality::Background } else { Criticality::Critical },
                work: *work,
                deadline: SECOND,
                thinks: Nanos::from_millis(5),
            })
            .collect();
        let mut scheduler: Box<dyn Scheduler> = match background {
            true => Box::new(Rcp::default()),
            false => Box::new(Token::new(DeviceCost::DISK)),
        };
        scheduler.set_account(Nanos::from_millis(100_000), 1, &limit);
        let machine = run(&mut *scheduler, &callers, times(SECOND, 10), |_| false);
        let bytes = |done: &machine::Done| DeviceCost::DISK.bytes(done.charged);
        let mut done = machine.done.clone();
        done.sort_by_key(|done| done.admitted);
        let largest: u64 = callers.iter().enumerate().map(|(at, _)| {
            done.iter().filter(|done| done.caller == at).map(bytes).max().unwrap_or(0)
        }).sum();
        for (first, from) in done.iter().enumerate() {
            let mut used = 0;
            for to in &done[first..] {
                used += bytes(to);
                let time = (to.admitted - from.admitted).0;
                let most = u128::from(rate) * u128::from(time) / 1_000_000_000
                    + u128::from(burst + 2 * largest);
                prop_assert!(u128::from(used) <= most, "{used} of {most} in {} ms", time / 1_000_000);
            }
        }
    }
}
