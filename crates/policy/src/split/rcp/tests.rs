use super::slots::SLOTS_MAX;
use super::*;
use crate::split::{CauseSet, USUAL_LEVEL, dirty};

const CLIENT: Account = 1;
const CHECKPOINTER: Account = 2;
const OTHER: Account = 3;
const MS: u64 = 1_000_000;

fn call(account: Account, pieces: u32) -> Call {
    Call {
        account,
        pieces,
        bytes: u64::from(pieces) * 4096,
        criticality: if account == CHECKPOINTER {
            Criticality::Background
        } else {
            Criticality::Critical
        },
        ..Call::default()
    }
}

fn read(account: Account) -> Request {
    Request {
        operation: Operation::Read,
        sector: 0,
        sectors: 16,
        fua: false,
        sync: true,
        cause: account.into(),
        class: if account == CHECKPOINTER { IoClass::Idle } else { IoClass::BestEffort },
        level: 4,
        deadline: None,
        continues: false,
    }
}

#[test]
fn critical_calls_never_wait() {
    let mut rcp = Rcp::default();
    for task in 0..100 {
        let now = Nanos(u64::from(task) * MS);
        assert_eq!(rcp.fsync_entry(now, task, &call(CLIENT, 9_000)), Entry::Go);
        assert_eq!(rcp.write_entry(now, task, &call(CLIENT, 9_000)), Entry::Go);
        assert_eq!(rcp.req_add(now, task, &read(CLIENT)), Entry::Go);
    }
    assert_eq!(rcp.waiting(), 0);
}

#[test]
fn a_checkpoint_writes_back_in_small_batches_while_clients_commit() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(0);
    // The client's commit takes 10 ms alone and 2 ms more for each piece in flight.
    assert_eq!(rcp.fsync_entry(now, 9, &call(CHECKPOINTER, 300)), Entry::Wait);
    let (mut left, mut largest) = (300, 0);
    for round in 0..200 {
        assert_eq!(rcp.fsync_entry(now, 0, &call(CLIENT, 1)), Entry::Go);
        let mut ordered = 0;
        while let Step::Writeback { task: 9, pieces } = rcp.dispatch(now) {
            ordered += pieces;
        }
        if round > 20 {
            largest = largest.max(ordered);
        }
        let took = Nanos(10 * MS + u64::from(ordered) * 2 * MS);
        now += took;
        left -= ordered;
        if ordered > 0 {
            rcp.written_back(now, 9, ordered, left);
        }
        rcp.fsync_return(now, 0, &call(CLIENT, 1), took);
        now += Nanos(MS);
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "the checkpoint makes progress");
    assert!((1..=16).contains(&largest), "{largest} pieces in a batch");
    assert_eq!(rcp.dispatch(now), Step::Admit(9));
}

#[test]
fn reads_of_the_background_have_one_slot_while_clients_read() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    assert_eq!(rcp.req_add(now, 0, &read(CLIENT)), Entry::Go);
    assert_eq!(rcp.req_add(now, 1, &read(CHECKPOINTER)), Entry::Go);
    assert_eq!(rcp.req_add(now, 2, &read(CHECKPOINTER)), Entry::Wait);
    assert_eq!(rcp.req_add(now, 3, &read(CHECKPOINTER)), Entry::Wait);
    assert_eq!(rcp.dispatch(now), Step::Wait(now + READ_EVERY));
    now += READ_EVERY;
    assert_eq!(rcp.dispatch(now), Step::Admit(2), "one each 10 ms at least, in order");
    assert_eq!(rcp.dispatch(now), Step::Wait(now + READ_EVERY));
    rcp.req_complete(now, 1, &read(CHECKPOINTER), Nanos(MS));
    rcp.req_complete(now, 2, &read(CHECKPOINTER), Nanos(MS));
    assert_eq!(rcp.dispatch(now), Step::Admit(3));
}

#[test]
fn slots_double_when_no_client_reads_and_fall_back_at_once() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    let mut started = 0;
    for step in 0..20 {
        now += READ_EVERY;
        for task in 0..8 {
            let task = step * 8 + task;
            started += u32::from(rcp.req_add(now, task, &read(CHECKPOINTER)) == Entry::Go);
        }
        while let Step::Admit(_) = rcp.dispatch(now) {
            started += 1;
        }
    }
    assert!((64..=84).contains(&started), "64 slots and one each 10 ms: {started}");
    assert_eq!(rcp.req_add(now, 400, &read(CLIENT)), Entry::Go);
    assert_eq!(rcp.reads.count(), 1);
}

#[test]
fn the_next_read_of_a_client_is_waited_for_unless_they_come_alone() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    // The slots when a client's next read comes, after so long.
    let mut after = |pause: Nanos| {
        let end = now + pause;
        let mut slots = rcp.reads.count();
        while now < end {
            let _ = {
                let quiet = rcp.is_quiet(now, rcp.quiet);
                rcp.reads.has_room(now, quiet)
            };
            slots = rcp.reads.count();
            now += READ_EVERY;
        }
        rcp.begin_critical(now);
        rcp.end_critical(now);
        slots
    };
    after(Nanos(2_000 * MS));
    assert_eq!(after(Nanos(60 * MS)), 16, "it came alone: doubled after 20, 30, 40 and 50 ms");
    assert_eq!(after(Nanos(60 * MS)), 1, "they come one after the other");
    assert_eq!(after(Nanos(2_000 * MS)), SLOTS_MAX);
}

#[test]
fn a_background_writer_is_held_beyond_its_part_of_the_memory() {
    let mut rcp = Rcp::default();
    rcp.set_dirty_max(1 << 20);
    let now = Nanos(0);
    let write = |pieces| Call { bytes: 8192, ..call(CHECKPOINTER, pieces) };
    assert_eq!(rcp.write_entry(now, 0, &write(0)), Entry::Go);
    let dirtied = Dirtied { account: CHECKPOINTER, new_bytes: 1 << 20, ..Dirtied::default() };
    rcp.buffer_dirty(now, &dirtied);
    assert_eq!(rcp.write_entry(now, 1, &write(9)), Entry::Wait);
    assert_eq!(rcp.dispatch(now), Step::Writeback { task: 1, pieces: WRITER_PIECES });
    let cleaned =
        Cleaned { causes: CauseSet::of(CHECKPOINTER), bytes: 4 << 12, ..Cleaned::default() };
    rcp.buffer_clean(now, &cleaned);
    rcp.written_back(now, 1, WRITER_PIECES, 5);
    assert_eq!(rcp.dispatch(now), Step::Admit(1));
    assert_eq!(rcp.write_entry(now, 2, &write(5)), Entry::Go, "below again");
    assert_eq!(rcp.write_entry(now, 3, &call(CLIENT, 9_000)), Entry::Go);
}

#[test]
fn a_file_has_few_dirty_pieces_while_clients_commit() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(0) + DESERTED;
    let write = |pieces| Call { bytes: 8192, ..call(CHECKPOINTER, pieces) };
    assert_eq!(rcp.write_entry(now, 0, &write(900)), Entry::Go, "no client commits");
    assert_eq!(rcp.fsync_entry(now, 1, &call(CLIENT, 1)), Entry::Go);
    assert_eq!(rcp.write_entry(now, 2, &write(31)), Entry::Go);
    assert_eq!(rcp.write_entry(now, 3, &write(32)), Entry::Wait);
    rcp.fsync_return(now, 1, &call(CLIENT, 1), Nanos(MS));
    assert_eq!(rcp.dispatch(now), Step::Writeback { task: 3, pieces: 1 });
    now += QUIET + QUIET;
    assert_eq!(rcp.write_entry(now, 4, &write(32)), Entry::Wait, "clients think");
    now += DESERTED;
    assert_eq!(rcp.write_entry(now, 5, &write(32)), Entry::Go);
}

#[test]
fn held_calls_go_on_for_stuck_clients_one_at_a_time() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
    assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 2)), Entry::Wait);
    assert_eq!(rcp.fsync_entry(now, 2, &call(CHECKPOINTER, 2)), Entry::Wait);
    assert!(!rcp.may_block_clients(now, 1, Nanos(9 * MS)));
    assert!(!rcp.may_block_clients(now, 0, Nanos(10 * MS)), "it has much to write");
    now += GUESS_EVERY;
    assert!(rcp.may_block_clients(now, 1, Nanos(10 * MS)), "no client does I/O");
    assert!(!rcp.may_block_clients(now, 2, Nanos(10 * MS)));
    now += GUESS_EVERY;
    assert_eq!(rcp.fsync_entry(now, 3, &call(CLIENT, 1)), Entry::Go);
    now += STUCK_CALL;
    assert!(!rcp.may_block_clients(now, 2, Nanos(99 * MS)), "it may wait for that");
    assert!(rcp.may_block_clients(now, 2, STUCK_CALL));
    now += STUCK_BIG;
    assert!(rcp.may_block_clients(now, 0, STUCK_BIG));
}

#[test]
fn a_call_is_not_let_go_for_what_a_client_waited_for_before_it() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
    assert!(!rcp.may_block_clients(now, 0, STUCK_BIG));
    now += STUCK_BIG_ALONE;
    assert!(rcp.may_block_clients(now, 0, STUCK_BIG));
    assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
    now += GUESS_EVERY;
    assert!(!rcp.may_block_clients(now, 0, STUCK_BIG), "the next file of the same task");
}

#[test]
fn one_of_many_short_calls_is_let_go_for_a_client_that_has_waited_through_them() {
    let mut rcp = Rcp::default();
    let now = Nanos(1_000 * MS);
    assert_eq!(rcp.fsync_entry(now, 3, &call(CLIENT, 1)), Entry::Go);
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
    assert!(!rcp.may_block_clients(now, 0, Nanos(99 * MS)));
    assert!(rcp.may_block_clients(now, 0, STUCK_CALL), "the holder has made others before");
}

#[test]
fn what_is_dirty_and_never_reported_clean_holds_nobody_for_ever() {
    let mut rcp = Rcp::default();
    rcp.set_dirty_max(1 << 20);
    let mut now = Nanos(1_000 * MS);
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 0)), Entry::Go);
    let dirtied = Dirtied { account: CHECKPOINTER, new_bytes: 1 << 30, ..Dirtied::default() };
    rcp.buffer_dirty(now, &dirtied);
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 1)), Entry::Wait);
    rcp.cancel(now, 0);
    // The file is unlinked, or the kernel's flusher has visited it.
    now += dirty::PERIOD + dirty::PERIOD;
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 1)), Entry::Go);
}

#[test]
fn a_client_whose_write_is_blocked_paces_the_background() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    assert_eq!(rcp.fsync_entry(now, 9, &call(CLIENT, 1)), Entry::Go);
    rcp.fsync_return(now, 9, &call(CLIENT, 1), Nanos(5 * MS));
    assert_eq!(rcp.write_entry(now, 0, &Call { bytes: 8192, ..call(CLIENT, 1) }), Entry::Go);
    assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 300)), Entry::Wait);
    let mut ordered = 0;
    for _ in 0..1_000 {
        now += Nanos(MS);
        // Another client's writes are quick.
        assert_eq!(rcp.write_entry(now, 2, &call(OTHER, 1)), Entry::Go);
        rcp.write_return(now, 2, &call(OTHER, 1));
        if let Step::Writeback { task, pieces } = rcp.dispatch(now) {
            ordered += pieces;
            rcp.written_back(now, task, pieces, 300 - ordered);
        }
    }
    assert!(ordered <= 10, "{ordered} pieces within a second beside a client that waits");
    rcp.write_return(now, 0, &call(CLIENT, 1));
    now += pacer::ACTIVE;
    let step = rcp.dispatch(now);
    assert!(matches!(step, Step::Writeback { pieces: 11.., .. }), "{step:?}: no client waits");
}

#[test]
fn a_long_commit_paces_the_background() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    let commit = Call { bytes: 1 << 20, ..call(CLIENT, 40) };
    assert_eq!(rcp.fsync_entry(now, 0, &commit), Entry::Go);
    assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 300)), Entry::Wait);
    now += pacer::ACTIVE;
    let step = rcp.dispatch(now);
    assert!(matches!(step, Step::Writeback { pieces: 1, .. }), "{step:?}");
}

#[test]
fn a_promoted_task_goes_on_at_once() {
    let mut rcp = Rcp::default();
    let now = Nanos(1_000 * MS);
    assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
    assert!(!rcp.promote(now, 0, false), "a guess lets no big fsync go");
    assert!(rcp.promote(now, 0, true));
    assert!(!rcp.promote(now, 0, true), "it does not wait any more");
    assert_eq!(rcp.req_add(now, 1, &read(CLIENT)), Entry::Go);
    assert_eq!(rcp.req_add(now, 2, &read(CHECKPOINTER)), Entry::Go);
    assert_eq!(rcp.req_add(now, 3, &read(CHECKPOINTER)), Entry::Wait);
    assert!(rcp.promote(now, 3, false));
    assert_eq!(rcp.waiting(), 0);
    rcp.fsync_return(now, 0, &call(CHECKPOINTER, 0), Nanos(MS));
    rcp.req_complete(now, 3, &read(CHECKPOINTER), Nanos(MS));
}

#[test]
fn reads_do_not_pile_up_on_a_slow_device() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    let mut started = 0;
    for step in 0..50 {
        now += READ_EVERY;
        // A client commits all the time, and the device has ended nothing yet.
        assert_eq!(rcp.fsync_entry(now, 900, &call(CLIENT, 1)), Entry::Go);
        rcp.fsync_return(now, 900, &call(CLIENT, 1), Nanos(MS));
        started += u32::from(rcp.req_add(now, step, &read(CHECKPOINTER)) == Entry::Go);
        while let Step::Admit(_) = rcp.dispatch(now) {
            started += 1;
        }
    }
    assert_eq!(started, 2, "one slot, and one more after a while");
    assert_eq!(rcp.dispatch(now), Step::Wait(now + READ_EVERY), "it does not spin");
}

#[test]
fn a_clients_read_that_did_not_ask_and_a_promoted_call_set_the_slots_back() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    let grow = |rcp: &mut Rcp, now: &mut Nanos| {
        for _ in 0..20 {
            *now += QUIET;
            let _ = {
                let quiet = rcp.is_quiet(*now, rcp.quiet);
                rcp.reads.has_room(*now, quiet)
            };
        }
        assert_eq!(rcp.reads.count(), SLOTS_MAX);
    };
    grow(&mut rcp, &mut now);
    rcp.req_complete(now, Task::MAX, &read(CLIENT), Nanos(MS));
    assert_eq!(rcp.reads.count(), 1);
    grow(&mut rcp, &mut now);
    assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 9)), Entry::Wait);
    assert!(rcp.promote(now, 1, true));
    assert_eq!(rcp.reads.count(), 1);
}

#[test]
fn what_an_account_dirtied_in_the_background_is_taken_back_after_it_has_become_critical() {
    let mut rcp = Rcp::default();
    rcp.set_dirty_max(1 << 20);
    let now = Nanos(0);
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 0)), Entry::Go);
    let dirtied = Dirtied { account: CHECKPOINTER, new_bytes: 1 << 20, ..Dirtied::default() };
    rcp.buffer_dirty(now, &dirtied);
    // A client waits for it for one write.
    let critical = Call { criticality: Criticality::Critical, ..call(CHECKPOINTER, 0) };
    assert_eq!(rcp.write_entry(now, 0, &critical), Entry::Go);
    let causes = CauseSet::of(CHECKPOINTER);
    rcp.buffer_clean(now, &Cleaned { causes, bytes: 1 << 20, ..Cleaned::default() });
    assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 1)), Entry::Go, "nothing is dirty");
}

#[test]
fn a_limit_holds_the_background_and_no_client() {
    let mut rcp = Rcp::default();
    let now = Nanos(1_000 * MS);
    let limit = AccountSettings { level: USUAL_LEVEL, rate: Some(1e6), ..Default::default() };
    for account in [CLIENT, CHECKPOINTER] {
        rcp.set_account(now, account, &limit);
    }
    // Ten seconds' worth of tokens are used up by what the background did.
    for (task, account) in [(0, CLIENT), (1, CHECKPOINTER)] {
        assert_eq!(rcp.write_entry(now, task, &call(account, 0)), Entry::Go);
        let cost = Nanos(100 * MS);
        rcp.buffer_dirty(now, &Dirtied { account, new_bytes: 4096, cost, ..Dirtied::default() });
    }
    assert_eq!(rcp.write_entry(now, 0, &call(CLIENT, 0)), Entry::Go);
    assert_eq!(rcp.req_add(now, 0, &read(CLIENT)), Entry::Go);
    rcp.req_complete(now, 0, &read(CLIENT), Nanos(MS));
    assert_eq!(rcp.write_entry(now, 1, &call(CHECKPOINTER, 0)), Entry::Wait);
    assert_eq!(rcp.req_add(now, 2, &read(CHECKPOINTER)), Entry::Wait);
    assert_eq!(rcp.fsync_entry(now, 3, &call(CHECKPOINTER, 0)), Entry::Go, "it was charged");
    assert_eq!(rcp.waiting(), 2);
    let Step::Wait(paid) = rcp.dispatch(now) else { panic!("they wait for tokens") };
    assert!(paid > now + Nanos(5_000 * MS), "{paid}");
    // A client that waits for one of them does not wait for tokens.
    assert!(rcp.promote(now, 2, true));
    assert_eq!(rcp.dispatch(paid), Step::Admit(1));
    assert_eq!(rcp.waiting(), 0);
}

#[test]
fn reads_of_the_background_have_shares_by_priority() {
    let mut rcp = Rcp::default();
    let accounts: [Account; 2] = [CHECKPOINTER, OTHER];
    for (account, level) in accounts.into_iter().zip([0, 4]) {
        let settings = AccountSettings { level, ..AccountSettings::default() };
        rcp.set_account(Nanos(0), account, &settings);
    }
    let idle = |account| Request { class: IoClass::Idle, ..read(account) };
    let (mut now, mut served, mut running) = (Nanos(1_000 * MS), [0; 2], Vec::new());
    // A client reads all the time, and so do two threads of each account.
    let of = |task: Task| usize::from(task % 2);
    let mut calls: Vec<Task> = (1..5).collect();
    for _ in 0..800 {
        assert_eq!(rcp.req_add(now, 0, &read(CLIENT)), Entry::Go);
        for task in calls.drain(..) {
            if rcp.req_add(now, task, &idle(accounts[of(task)])) == Entry::Go {
                running.push(task);
            }
        }
        while let Step::Admit(task) = rcp.dispatch(now) {
            running.push(task);
        }
        now += Nanos(5 * MS);
        rcp.req_complete(now, 0, &read(CLIENT), Nanos(5 * MS));
        for task in running.drain(..) {
            rcp.req_complete(now, task, &idle(accounts[of(task)]), Nanos(5 * MS));
            served[of(task)] += 1;
            calls.push(task);
        }
    }
    let share = f64::from(served[0]) / f64::from(served[1]);
    assert!((1.8..=2.2).contains(&share), "weights 8 and 4: {served:?}");
}

#[test]
fn direct_writes_of_the_background_take_turns_with_commits() {
    let mut rcp = Rcp::default();
    let mut now = Nanos(1_000 * MS);
    let write = Call { bytes: 16 << 10, direct: 1, ..call(CHECKPOINTER, 0) };
    for task in 10..40 {
        let direct = Call { criticality: Criticality::Critical, ..write };
        assert_eq!(rcp.write_entry(now, task, &direct), Entry::Go, "a client's never waits");
        rcp.write_return(now, task, &direct);
    }
    assert_eq!(rcp.fsync_entry(now, 0, &call(CLIENT, 1)), Entry::Go);
    let gone = (10..40).filter(|task| rcp.write_entry(now, *task, &write) == Entry::Go).count();
    assert!(gone <= 1, "{gone} went at once beside a commit");
    now += Nanos(10 * MS);
    rcp.fsync_return(now, 0, &call(CLIENT, 1), Nanos(10 * MS));
    let mut admitted = Vec::new();
    while let Step::Admit(task) = rcp.dispatch(now) {
        admitted.push(task);
    }
    assert!((0..=4).contains(&admitted.len()), "{admitted:?}");
    // Without commits they go as fast as the device does them.
    now += Nanos(1_000 * MS);
    for _ in 0..100 {
        while let Step::Admit(task) = rcp.dispatch(now) {
            admitted.push(task);
        }
        for task in admitted.drain(..) {
            rcp.write_return(now, task, &write);
        }
        now += Nanos(MS);
    }
    assert_eq!(rcp.waiting(), 0);
}

#[test]
fn who_reads_alone_for_long_does_not_wait_until_a_newcomer_has_read_as_much() {
    let mut rcp = Rcp::default();
    let accounts: [Account; 2] = [CHECKPOINTER, OTHER];
    for (account, level) in accounts.into_iter().zip([3, 5]) {
        let settings = AccountSettings { level, ..AccountSettings::default() };
        rcp.set_account(Nanos(0), account, &settings);
    }
    let idle = |account| Request { class: IoClass::Idle, ..read(account) };
    let mut now = Nanos(1_000 * MS);
    for _ in 0..1_000 {
        assert_eq!(rcp.req_add(now, 1, &idle(CHECKPOINTER)), Entry::Go);
        now += Nanos(9 * MS);
        rcp.req_complete(now, 1, &idle(CHECKPOINTER), Nanos(9 * MS));
    }
    // A client reads: there is one slot, and the newcomer has four threads.
    assert_eq!(rcp.req_add(now, 0, &read(CLIENT)), Entry::Go);
    for task in 2..6 {
        let _ = rcp.req_add(now, task, &idle(OTHER));
    }
    let _ = rcp.req_add(now, 1, &idle(CHECKPOINTER));
    let mut steps = 0;
    loop {
        now += READ_EVERY;
        match rcp.dispatch(now) {
            Step::Admit(1) => break,
            Step::Admit(task) => {
                rcp.req_complete(now, task, &idle(OTHER), Nanos(9 * MS));
                let _ = rcp.req_add(now, task, &idle(OTHER));
            }
            _ => {}
        }
        steps += 1;
        assert!(steps < 20, "it waits for its old debts");
    }
}
