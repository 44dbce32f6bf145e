//! Block schedulers on device models: what they are for.

use headworks_policy::Nanos;
use headworks_policy::block::{
    Afq, BlockScheduler, Cfq, Deadline, IoClass, Noop, Operation, Quanta, Rcp, SECTOR_BYTES,
    SchedulerKind, Sfq, afq, cfq, deadline, quanta, rcp, sfq,
};
use headworks_volume::model::{Device, hdd};
use headworks_volume::sim::{Job, Outcome, Pattern, run};

const SPAN_SECTORS: u64 = 64 << 21;
const SECOND: u64 = 1_000_000_000;

fn preset(name: &str) -> Device {
    Device::preset(name).expect("a known device")
}

/// A disk without its own queue and cache, so that the scheduler's order is the disk's.
fn plain_disk() -> Device {
    let Device::Hdd(parameters) = preset("hdd") else { panic!("a disk") };
    Device::Hdd(hdd::Parameters { queue_depth: 1, cache_kib: 0, ..parameters })
}

fn simulate(
    scheduler: &mut dyn BlockScheduler,
    device: &Device,
    jobs: &[Job],
    time_s: u64,
) -> Vec<Outcome> {
    let mut model = device.model(SPAN_SECTORS * SECTOR_BYTES, 3);
    run(scheduler, model.as_mut(), jobs, Nanos(SECOND), Nanos(time_s * SECOND), 9)
}

fn random(operation: Operation, depth: u16) -> Job {
    Job::random(operation, depth, SPAN_SECTORS)
}

/// A reader of a separate file of 1 GiB, from its beginning to its end.
fn reader(cause: u32) -> Job {
    Job {
        pattern: Pattern::Sequential,
        block_bytes: 128 << 10,
        first_sector: u64::from(cause) << 21,
        sectors: 1 << 21,
        cause,
        ..random(Operation::Read, 1)
    }
}

/// The same seed, the same figures.
#[test]
fn a_simulation_repeats() {
    for kind in SchedulerKind::ALL {
        let jobs = [random(Operation::Read, 8), random(Operation::Write, 8), reader(4)];
        let figures = || {
            let outcomes = simulate(kind.build().as_mut(), &preset("ssd-c"), &jobs, 1);
            outcomes.into_iter().map(|outcome| outcome.latencies_ns).collect::<Vec<_>>()
        };
        assert!(figures() == figures(), "{kind}");
    }
}

/// Small writes in sequence, 32 outstanding at a disk that takes one: joined, they need one access.
#[test]
fn merging_makes_large_requests_of_small_ones() {
    for kind in SchedulerKind::ALL {
        let small = Job {
            pattern: Pattern::Sequential,
            block_bytes: 4_096,
            sync: false,
            ..random(Operation::Write, 32)
        };
        let other = Job { cause: 2, ..random(Operation::Write, 1) };
        let joined =
            simulate(kind.build().as_mut(), &plain_disk(), &[small, other], 10)[0].mb_per_s();
        let limits = headworks_policy::block::table::Limits { sectors: 0 };
        let mut apart: Box<dyn BlockScheduler> = match kind {
            SchedulerKind::Noop => Box::new(Noop::new(limits, Default::default())),
            SchedulerKind::Deadline => {
                Box::new(Deadline::new(deadline::Settings { limits, ..Default::default() }))
            }
            SchedulerKind::Cfq => {
                Box::new(Cfq::new(cfq::Settings { limits, ..Default::default() }))
            }
            SchedulerKind::Afq => {
                Box::new(Afq::new(afq::Settings { limits, ..Default::default() }))
            }
            SchedulerKind::Rcp => {
                Box::new(Rcp::new(rcp::Settings { limits, ..Default::default() }))
            }
            SchedulerKind::Sfq => {
                Box::new(Sfq::new(sfq::Settings { limits, ..Default::default() }))
            }
            SchedulerKind::Quanta => {
                Box::new(Quanta::new(quanta::Settings { limits, ..Default::default() }))
            }
        };
        let apart = simulate(apart.as_mut(), &plain_disk(), &[small, other], 10)[0].mb_per_s();
        println!("{kind}: {joined:.1} MB/s joined, {apart:.1} MB/s apart");
        assert!(joined > apart, "{kind}: {joined} and {apart}");
    }
}

/// In the order of sectors the arm travels less.
#[test]
fn sorting_makes_a_disk_faster() {
    let jobs = [random(Operation::Read, 128)];
    let noop = simulate(&mut *Box::new(Noop::default()), &plain_disk(), &jobs, 60)[0].iops();
    let deadline =
        simulate(&mut *Box::new(Deadline::default()), &plain_disk(), &jobs, 60)[0].iops();
    println!("128 random readers: {noop:.0} a second in order of arrival, {deadline:.0} sorted");
    assert!(deadline > 1.3 * noop, "{deadline} and {noop}");
}

/// Split, section 2.5.2 and Table 2.4: A writes a block at a time, B a great many. With 10 ms for
/// A's blocks and 100 ms for B's, A no longer waits for its sector's turn.
#[test]
fn a_cause_with_a_short_deadline_goes_ahead() {
    let a = Job {
        block_bytes: 4_096,
        think: Nanos::from_millis(20),
        cause: 1,
        ..random(Operation::Write, 1)
    };
    let b = Job { block_bytes: 4_096, cause: 2, sync: false, ..random(Operation::Write, 512) };
    let latency = |own: bool| {
        let settings = deadline::Settings { fifo_batch: 1, ..Default::default() };
        let mut scheduler = Box::new(Deadline::new(settings));
        if own {
            let (a_ms, b_ms) = (Nanos::from_millis(10), Nanos::from_millis(100_000));
            assert!(scheduler.set_cause_deadlines(1, a_ms, a_ms));
            assert!(scheduler.set_cause_deadlines(2, b_ms, b_ms));
        }
        simulate(scheduler.as_mut(), &plain_disk(), &[a, b], 60)[0].latency(0.99)
    };
    let (own, common) = (latency(true), latency(false));
    println!("p99 of A: {own} with its own deadlines, {common} without");
    assert!(own < Nanos::from_millis(60), "{own}");
    assert!(common > Nanos::from_millis(1_000), "{common}");
}

/// Split, figure 2.13(a): eight sequential readers, levels 0 to 7, on a disk. Device time is shared
/// in the proportion 9 to 2, and what is read follows it, but for the seeks at each turn.
#[test]
fn cfq_shares_a_disk_by_level() {
    let jobs: Vec<Job> =
        (0..8).map(|level| Job { level, ..reader(u32::from(level) + 1) }).collect();
    let outcomes = simulate(&mut *Box::new(Cfq::default()), &preset("hdd"), &jobs, 100);
    let total: f64 = outcomes.iter().map(Outcome::mb_per_s).sum();
    for (level, outcome) in outcomes.iter().enumerate() {
        let (share, goal) = (outcome.mb_per_s() / total, (9 - level) as f64 / 44.0);
        println!("level {level}: {:.1} % for {:.1} %", 100.0 * share, 100.0 * goal);
        assert!((share / goal - 1.0).abs() < 0.15, "level {level}: {share} for {goal}");
    }
    assert!(total > 140.0, "{total} MB/s of 180: turns are long enough for few seeks");
    let noop = simulate(&mut *Box::new(Noop::default()), &preset("hdd"), &jobs, 100);
    let unordered: f64 = noop.iter().map(Outcome::mb_per_s).sum();
    println!("{total:.0} MB/s with turns, {unordered:.0} MB/s in order of arrival");
    assert!(unordered * 2.0 < total, "{unordered}");
}

/// The same by AFQ, whose shares are 8 to 1 (Split, section 2.5.1).
#[test]
fn afq_shares_a_disk_by_level() {
    let jobs: Vec<Job> =
        (0..8).map(|level| Job { level, ..reader(u32::from(level) + 1) }).collect();
    let outcomes = simulate(&mut *Box::new(Afq::default()), &preset("hdd"), &jobs, 100);
    let total: f64 = outcomes.iter().map(Outcome::mb_per_s).sum();
    for (level, outcome) in outcomes.iter().enumerate() {
        let (share, goal) = (outcome.mb_per_s() / total, (8 - level) as f64 / 36.0);
        println!("level {level}: {:.1} % for {:.1} %", 100.0 * share, 100.0 * goal);
        assert!((share / goal - 1.0).abs() < 0.2, "level {level}: {share} for {goal}");
    }
    let noop = simulate(&mut *Box::new(Noop::default()), &preset("hdd"), &jobs, 100);
    let unordered: f64 = noop.iter().map(Outcome::mb_per_s).sum();
    println!("{total:.0} MB/s with turns, {unordered:.0} MB/s in order of arrival");
    assert!(unordered * 1.5 < total, "{unordered}");
}

/// On flash, readers with more waiting than the device takes get what their levels say.
#[test]
fn afq_shares_flash_by_level() {
    let jobs: Vec<Job> = [0, 4, 6]
        .map(|level| Job { level, cause: u32::from(level), ..random(Operation::Read, 64) })
        .to_vec();
    let mut scheduler = SchedulerKind::Afq.build_for(false);
    let outcomes = simulate(scheduler.as_mut(), &preset("ssd-c"), &jobs, 5);
    let total: f64 = outcomes.iter().map(Outcome::iops).sum();
    for (outcome, goal) in outcomes.iter().zip([8.0 / 14.0, 4.0 / 14.0, 2.0 / 14.0]) {
        let share = outcome.iops() / total;
        println!("{:.1} % for {:.1} %", 100.0 * share, 100.0 * goal);
        assert!((share / goal - 1.0).abs() < 0.05, "{share} for {goal}");
    }
    assert!(total > 39_000.0, "{total} reads a second: the device is kept busy");
}

/// Split, section 2.2: an idle-priority writer beside a reader. At the block level, and as long as
/// nothing above buffers its writes, the class holds.
#[test]
fn the_idle_class_leaves_a_reader_alone() {
    let idle = Job {
        class: IoClass::Idle,
        cause: 2,
        sync: false,
        fua: true,
        ..random(Operation::Write, 64)
    };
    for device in [preset("hdd"), preset("ssd-c")] {
        for kind in [SchedulerKind::Cfq, SchedulerKind::Afq] {
            let mut alone = kind.build_for(device.is_rotational());
            let alone = simulate(alone.as_mut(), &device, &[reader(1)], 20)[0].mb_per_s();
            let mut beside = kind.build_for(device.is_rotational());
            let beside = simulate(beside.as_mut(), &device, &[reader(1), idle], 20)[0].mb_per_s();
            let mut noop = Noop::default();
            let without = simulate(&mut noop, &device, &[reader(1), idle], 20)[0].mb_per_s();
            println!(
                "reader: {alone:.1} MB/s alone, {beside:.1} beside, {without:.1} without classes"
            );
            assert!(beside > 0.97 * alone, "{beside} of {alone}");
            assert!(without < 0.5 * alone, "{without} of {alone}");
        }
    }
}

/// A flush after each write is what a database's log does; its time is in the outcome.
#[test]
fn flushes_are_measured() {
    let log = Job {
        pattern: Pattern::Sequential,
        block_bytes: 4_096,
        flush_every: 1,
        ..random(Operation::Write, 1)
    };
    let outcome = simulate(&mut Noop::default(), &preset("ssd-c"), &[log], 2).swap_remove(0);
    assert!(outcome.flushes_ns.len().abs_diff(outcome.latencies_ns.len()) <= 1);
    let median_ns = outcome.flushes_ns[outcome.flushes_ns.len() / 2];
    assert!(median_ns > 5 * outcome.latency(0.5).0, "{median_ns} ns");
}
