//! The I/O region: a waiter goes on at last, whatever happens to the others.

use headworks_policy::Nanos;
use headworks_policy::split::{ACCOUNTS, Account, Criticality, SplitKind, TASKS};
use headworks_region::clock;
use headworks_region::io::waits::{INHERITED, LONG, PROMOTED};
use headworks_region::io::{
    Blocker, CallKind, Foreground, Found, IoMapping, IoRegion, IoRule, Order, Piece, Subject,
    Ticket, Written,
};
use headworks_region::text::Text;
use headworks_region::{lock, thread};
use std::ffi::CString;
use std::time::{Duration, Instant};

fn region(kind: SplitKind) -> &'static IoRegion {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = format!("/dev/shm/headworks-io-{}-{number}", std::process::id());
    let path = CString::new(path).unwrap();
    let region = IoMapping::create(&path, None).unwrap().region();
    assert!(IoMapping::open(&path).is_ok());
    std::fs::remove_file(path.to_str().unwrap()).unwrap();
    region.start(kind, true);
    region
}

/// The calling thread's account, under this name.
fn account(region: &IoRegion, called: &str) -> Account {
    region.account(|names| names.name = Text::new(called.as_bytes()))
}

fn limit(region: &IoRegion, bytes_per_s: u64) {
    region.set_rules(&[IoRule {
        subject: Subject::Thread,
        pattern: Text::new(b"slow*"),
        deadline: Nanos(0),
        level: None,
        rate: bytes_per_s,
        burst: 1,
        foreground: Foreground::ByGate,
        application: Text::EMPTY,
    }]);
}

fn file(region: &IoRegion, inode: u64) -> u16 {
    let path = format!("/data/{inode}");
    let write = |text: &mut [u8; 256]| {
        text[..path.len()].copy_from_slice(path.as_bytes());
        path.len()
    };
    region.file(1, inode, write).unwrap().slot
}

/// Waits for the call's turn; how long that took.
fn wait(region: &IoRegion, ticket: &Ticket) -> Duration {
    let start = Instant::now();
    while !region.is_admitted(ticket) {
        assert_eq!(region.next_order(ticket, false), Order::Go);
    }
    start.elapsed()
}

/// An account whose tokens are used up for hours.
fn in_debt(region: &IoRegion) -> Account {
    limit(region, 1);
    let slow = account(region, "slow");
    region.wrote(slow, file(region, 1), 1 << 30, 4096);
    slow
}

#[test]
fn nobody_waits_for_longer_than_the_longest_hold() {
    let region = region(SplitKind::Token);
    region.set_hold_max(Nanos::from_millis(60));
    let slow = in_debt(region);
    let ticket = region.enter(CallKind::Write, slow, file(region, 1), 4096);
    assert!(!region.is_admitted(&ticket));
    assert!(wait(region, &ticket) >= Duration::from_millis(55));
    region.leave(ticket);
    assert_eq!(region.control.hold_limit.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(region.waiting(), 0);
}

#[test]
fn a_call_that_passed_takes_nobodys_room_with_it() {
    let region = region(SplitKind::Afq);
    region.set_hold_max(Nanos::from_millis(30));
    let own = account(region, "own");
    let enter = || region.enter(CallKind::Fsync, own, file(region, 1), 0);
    // A disk has room for two.
    let running = [enter(), enter()];
    assert!(running.iter().all(|ticket| region.is_admitted(ticket)));
    for _ in 0..3 {
        let passes = enter();
        assert!(!region.is_admitted(&passes), "both still run");
        wait(region, &passes);
        region.leave(passes);
    }
    for ticket in running {
        region.leave(ticket);
    }
    let next = enter();
    assert!(region.is_admitted(&next));
    region.leave(next);
}

#[test]
fn another_scheduler_lets_all_who_wait_pass() {
    let region = region(SplitKind::Token);
    region.set_hold_max(Nanos::from_millis(60_000));
    let waiter = std::thread::spawn(move || {
        let slow = in_debt(region);
        let ticket = region.enter(CallKind::Fsync, slow, file(region, 1), 0);
        let waited = wait(region, &ticket);
        region.leave(ticket);
        waited
    });
    while region.waiting() == 0 {
        std::thread::yield_now();
    }
    region.start(SplitKind::Noop, true);
    assert!(waiter.join().unwrap() < Duration::from_secs(30));
    assert_eq!(region.waiting(), 0);
}

#[test]
fn what_dead_threads_had_is_taken_back() {
    let region = region(SplitKind::Afq);
    region.set_hold_max(Nanos::from_millis(60_000));
    // A disk has room for two, and both end without a word.
    for _ in 0..2 {
        let ended = std::thread::spawn(move || {
            let own = account(region, "ends");
            let ticket = region.enter(CallKind::Fsync, own, file(region, 1), 0);
            assert!(region.is_admitted(&ticket));
            let _never_given_back = ticket;
        });
        ended.join().unwrap();
    }
    let own = account(region, "lives");
    let ticket = region.enter(CallKind::Fsync, own, file(region, 1), 0);
    assert!(!region.is_admitted(&ticket));
    assert!(wait(region, &ticket) < Duration::from_secs(30));
    region.leave(ticket);
}

#[test]
fn a_thread_that_has_ended_is_not_waited_for() {
    let region = region(SplitKind::Deadline);
    let committer = std::thread::spawn(move || {
        let own = account(region, "short");
        for _ in 0..2 {
            let ticket = region.enter(CallKind::Fsync, own, file(region, 1), 4096);
            region.leave(ticket);
        }
        lock::thread_id()
    });
    let ended = committer.join().unwrap();
    // A thread is joined a moment before it has no number any more.
    while lock::thread_exists(ended) {
        std::thread::yield_now();
    }
    let (own, file) = (account(region, "lives"), file(region, 2));
    for page in 0..32u64 {
        region.wrote(own, file, page * 64 * 4096, 4096);
    }
    for kind in [CallKind::Fsync, CallKind::WriteRange, CallKind::Write] {
        let ticket = region.enter(kind, own, file, 0);
        assert!(region.is_admitted(&ticket), "{kind:?}");
        region.leave(ticket);
    }
}

#[test]
fn a_big_fsync_is_written_back_piece_by_piece_and_then_goes() {
    let region = region(SplitKind::Deadline);
    let own = account(region, "big");
    let file = file(region, 7);
    for page in 0..200u64 {
        region.wrote(own, file, page * 64 * 4096, 4096);
    }
    let mut ticket = region.enter_fsync(own, file);
    assert_eq!((ticket.call.pieces, ticket.flushed.is_some()), (200, false));
    let (mut written, mut place, mut most) = (0, 0, 0);
    loop {
        match region.next_order(&ticket, false) {
            Order::Go => break,
            Order::Nothing => unreachable!("it is not busy"),
            Order::WriteBack(pieces) => {
                most = most.max(pieces);
                for _ in 0..pieces {
                    let Piece::Dirty { offset, bytes, taken } = region.take_piece(file, place)
                    else {
                        panic!("{written} of 200 pieces were there");
                    };
                    place = offset + bytes;
                    written += 1;
                    region.cleaned(&ticket, &Written { pieces: 1, taken });
                }
            }
        }
    }
    assert_eq!((written, most), (200, 32));
    region.begins_flush(&mut ticket);
    assert_eq!(ticket.flushed.unwrap().pages, 0);
    region.leave(ticket);
}

#[test]
fn an_fsync_that_may_run_begins_as_it_enters_and_a_write_after_that_is_the_next_ones() {
    let region = region(SplitKind::Token);
    let (own, file) = (account(region, "own"), file(region, 7));
    region.wrote(own, file, 0, 8192);
    let mut ticket = region.enter_fsync(own, file);
    assert!(region.is_admitted(&ticket));
    region.wrote(own, file, 8192, 4096);
    region.begins_flush(&mut ticket);
    assert_eq!(ticket.flushed.unwrap().pages, 2);
    region.leave(ticket);
    assert_eq!(region.file_state(file).unwrap().pages, 1);
}

#[test]
fn accounts_are_given_to_new_threads_when_their_own_have_ended() {
    let region = region(SplitKind::Afq);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3_000 {
        seen.insert(std::thread::spawn(move || account(region, "short")).join().unwrap());
    }
    assert!(!seen.contains(&0), "an account was there for each of them");
    let again = [account(region, "main"), account(region, "main")];
    assert_eq!(again[0], again[1]);
}

#[test]
fn a_region_with_another_layout_is_refused() {
    let path = format!("/dev/shm/headworks-io-{}-layout", std::process::id());
    let name = CString::new(path.clone()).unwrap();
    IoMapping::create(&name, None).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // The fourth word of the header.
    std::os::unix::fs::FileExt::write_all_at(&file, &7u64.to_le_bytes(), 24).unwrap();
    let error = IoMapping::open(&name).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("layout 0000000000000007, this build expects"), "{error}");
}

#[test]
fn a_read_that_did_not_ask_gives_nobodys_room_away() {
    let region = region(SplitKind::Afq);
    let own = account(region, "own");
    let enter = || region.enter(CallKind::Fsync, own, file(region, 1), 0);
    // A disk has room for two.
    let running = [enter(), enter()];
    region.read_unasked(own, 4096, Nanos::from_millis(1));
    let waits = enter();
    assert!(!region.is_admitted(&waits), "both still run");
    for ticket in running.into_iter().chain([waits]) {
        region.leave(ticket);
    }
}

#[test]
fn the_parts_of_a_batch_give_their_turns_back_at_once() {
    for kind in SplitKind::ALL {
        let region = region(kind);
        let own = account(region, "own");
        let file = file(region, 1);
        for _ in 0..1_000 {
            for call in [CallKind::Write, CallKind::Read, CallKind::Fsync] {
                let ticket = region.enter(call, own, file, 4096);
                assert!(region.is_admitted(&ticket), "{kind}");
                region.release(ticket);
            }
        }
        assert_eq!(region.waiting(), 0);
    }
}

#[test]
fn writes_past_the_cache_are_charged_and_leave_nothing_dirty() {
    let region = region(SplitKind::Token);
    region.set_hold_max(Nanos::from_millis(60_000));
    limit(region, 1_000_000_000);
    let slow = account(region, "slow");
    let own = file(region, 1);
    region.wrote_through(slow, own, 1 << 30, 64 << 20);
    assert_eq!(region.file_state(own).unwrap().pages, 0);
    let ticket = region.enter(CallKind::Write, slow, own, 4096);
    assert!(!region.is_admitted(&ticket), "64 MiB are charged");
    wait(region, &ticket);
    region.leave(ticket);
}

#[test]
fn a_cut_or_a_writeback_takes_its_pages_out_of_the_tally() {
    let region = region(SplitKind::Afq);
    let own = account(region, "own");
    let file = file(region, 1);
    region.wrote(own, file, 0, 100 * 4096);
    region.freed(file, 80 * 4096, u64::MAX);
    assert_eq!(region.file_state(file).unwrap().pages, 80);
    region.wrote_back(file, 0, 30 * 4096);
    assert_eq!(region.file_state(file).unwrap().pages, 50);
    region.freed(file, 0, u64::MAX);
    assert_eq!(region.file_state(file).unwrap().pages, 0);
}

#[test]
fn rings_are_counted_for_each_process() {
    let region = region(SplitKind::Afq);
    let own = std::process::id();
    region.unheld.ring_made(own);
    region.unheld.ring_made(own);
    region.unheld.ring_made(1);
    region.unheld.ring_ended(own);
    assert_eq!([own, 1, 2].map(|pid| region.unheld.rings(pid)), [1, 1, 0]);
    region.unheld.ring_ended(own);
    region.unheld.ring_ended(own);
    assert_eq!(region.unheld.rings(own), 0);
}

#[test]
fn full_tables_let_calls_pass_and_count_them() {
    use std::sync::atomic::Ordering::Relaxed;
    let region = region(SplitKind::Token);
    let own = account(region, "own");
    let place = file(region, 1);
    let enter = || region.enter(CallKind::Fsync, own, place, 0);
    let running: Vec<Ticket> = (0..TASKS).map(|_| enter()).collect();
    let mut beyond = enter();
    assert!(region.is_admitted(&beyond));
    assert_eq!(region.control.tasks_full.load(Relaxed), 1);
    region.begins_flush(&mut beyond);
    region.leave(beyond);
    for ticket in running {
        region.leave(ticket);
    }
    let again = enter();
    assert!(region.is_admitted(&again) && region.control.tasks_full.load(Relaxed) == 1);
    region.leave(again);
    // Dirty files keep their slots; those that find none are not governed.
    let mut refused = 0;
    for inode in 0..20_000 {
        match region.file(1, inode, |_| 0) {
            Some(Found { slot, .. }) => assert!(region.wrote(own, slot, 0, 4096)),
            None => refused += 1,
        }
    }
    assert!(refused > 0);
    assert_eq!(region.control.files_full.load(Relaxed), refused);
}

#[test]
fn threads_beyond_all_accounts_share_the_first() {
    let region = region(SplitKind::Afq);
    let (count, barrier) = (ACCOUNTS + 10, std::sync::Barrier::new(ACCOUNTS + 10));
    let barrier = &barrier;
    let found: Vec<Account> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let work = move || {
                    let own = account(region, "many");
                    barrier.wait();
                    let ticket = region.enter(CallKind::Write, own, file(region, 1), 1);
                    assert!(region.is_admitted(&ticket));
                    region.leave(ticket);
                    own
                };
                std::thread::Builder::new().stack_size(1 << 17).spawn_scoped(scope, work).unwrap()
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let shared = found.iter().filter(|account| **account == 0).count();
    assert!(shared >= 10, "{shared}");
    assert_eq!(region.level(0), 4, "the usual one");
    let searches = region.control.accounts_full.load(std::sync::atomic::Ordering::Relaxed);
    assert!((1..10).contains(&searches), "{searches} searches among all threads");
    assert_eq!(region.waiting(), 0);
}

#[test]
fn nonsense_in_memory_ends_no_call_and_holds_nobody() {
    let seeds = 40_u64;
    for seed in 1..=seeds {
        let region = region(SplitKind::ALL[seed as usize % SplitKind::ALL.len()]);
        region.set_hold_max(Nanos::from_millis(50));
        let size = size_of::<IoRegion>();
        let bytes = core::ptr::from_ref(region).cast::<u8>().cast_mut();
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64) | 1;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            // SAFETY: within the mapping, which is writable; no other thread uses it at this time.
            unsafe { bytes.add((random >> 20) as usize % size).write_volatile(random as u8) };
        }
        let start = clock::now();
        for inode in 1..20 {
            let own = account(region, "some");
            let Some(Found { slot, .. }) = region.file(1, inode, |_| 0) else { continue };
            region.wrote(own, slot, (random >> 8) % (1 << 40), 10_000);
            for kind in [CallKind::Write, CallKind::Fsync, CallKind::Read, CallKind::Create] {
                let ticket = region.enter(kind, own, slot, 4096);
                while !region.is_admitted(&ticket) {
                    match region.next_order(&ticket, false) {
                        Order::WriteBack(pieces) => {
                            region.cleaned(&ticket, &Written { pieces, ..Written::default() });
                        }
                        Order::Go | Order::Nothing => break,
                    }
                    assert!(clock::now().since(start) < Nanos::from_millis(60_000));
                }
                region.leave(ticket);
            }
        }
    }
}

fn background(region: &IoRegion) {
    region.set_rules(&[IoRule {
        subject: Subject::Thread,
        pattern: Text::new(b"back*"),
        deadline: Nanos(0),
        level: None,
        rate: 0,
        burst: 0,
        foreground: Foreground::No,
        application: Text::EMPTY,
    }]);
}

/// A background thread enters an `fsync` of much dirty data while a client's runs, says so, and
/// goes on when it may.
fn held_in_the_background(
    region: &'static IoRegion,
) -> (std::thread::JoinHandle<()>, std::sync::mpsc::Receiver<u32>) {
    let (say, hear) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let back = account(region, "back");
        let much = file(region, 7);
        for page in 0..100 {
            region.wrote(back, much, page << 20, 4096);
        }
        let ticket = region.enter(CallKind::Fsync, back, much, 0);
        // SAFETY: no preconditions.
        say.send(unsafe { libc::gettid() } as u32).unwrap();
        // Its pieces are never written: only a client that waits lets it go on before the bound.
        while !region.is_admitted(&ticket) {
            let _ = region.next_order(&ticket, false);
        }
        region.leave(ticket);
    });
    (thread, hear)
}

/// A region, a client's account, and a thread whose `fsync` is held in it.
fn held_beside_a_client() -> (&'static IoRegion, Account, std::thread::JoinHandle<()>) {
    let region = region(SplitKind::Rcp);
    region.set_hold_max(Nanos::from_millis(600_000));
    background(region);
    let client = account(region, "client");
    let (thread, hear) = held_in_the_background(region);
    hear.recv().unwrap();
    (region, client, thread)
}

#[test]
fn a_call_goes_on_when_a_client_waits_for_its_thread() {
    let region = region(SplitKind::Rcp);
    region.set_hold_max(Nanos::from_millis(600_000));
    background(region);
    let client = account(region, "client");
    let running = region.enter(CallKind::Fsync, client, file(region, 1), 0);
    assert!(region.is_admitted(&running), "a client's call is never held");
    let (thread, hear) = held_in_the_background(region);
    let holder = hear.recv().unwrap();
    assert_eq!(region.waiting(), 1);
    region.blocks(client, Blocker::Mutex, Some(holder), true);
    thread.join().unwrap();
    std::thread::sleep(Duration::from_nanos(LONG.0));
    region.unblocks(client);
    region.leave(running);
    let [call, lock] = region.waits.long.latest().collect::<Vec<_>>()[..] else {
        panic!("two long waits of the client, and none of the background's")
    };
    assert_eq!((call.cause_name(), call.of.bytes(), call.holder), ("fsync", &b"/data/1"[..], 0));
    assert_eq!((lock.cause_name(), lock.of.bytes(), lock.holder), ("mutex", &b"back"[..], holder));
    assert_eq!(lock.done, INHERITED | PROMOTED);
    assert!(call.took >= lock.took && lock.took >= LONG && lock.began > call.began);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    assert_eq!(region.inheritance.by_blocker[Blocker::Mutex as usize].load(relaxed), 1);
    assert_eq!(region.inheritance.promoted.load(relaxed), 1);
    assert_eq!(region.waiting(), 0);
}

#[test]
fn a_call_goes_on_when_clients_wait_for_nobody_knows_whom_and_none_of_them_does_io() {
    let (region, client, thread) = held_beside_a_client();
    region.blocks(client, Blocker::Semaphore, None, false);
    thread.join().unwrap();
    region.unblocks(client);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    assert_eq!(region.inheritance.by_blocker[Blocker::Unknown as usize].load(relaxed), 1);
}

#[test]
fn a_server_that_nobody_knows_shows_that_it_has_clients() {
    let region = region(SplitKind::Rcp);
    let own = account(region, "flusher");
    assert_eq!(region.criticality(own), Criticality::Critical);
    region.control.gate_learns();
    assert_eq!(region.criticality(own), Criticality::Background);
    // One of its threads serves two clients.
    region.control.gate_cannot_know();
    region.control.gate_learns();
    assert_eq!(region.criticality(own), Criticality::Critical);
}

#[test]
fn waits_are_followed_by_rcp_alone_and_not_without_inheritance() {
    assert!(!region(SplitKind::Deadline).follows_waits());
    let region = region(SplitKind::Rcp);
    assert!(region.follows_waits());
    region.set_inheritance(false);
    assert!(!region.follows_waits());
    region.set_inheritance(true);
    assert!(region.follows_waits());
}

#[test]
fn a_file_whose_held_calls_make_clients_wait_is_not_held_any_more() {
    let region = region(SplitKind::Rcp);
    region.set_hold_max(Nanos::from_millis(600_000));
    background(region);
    let client = account(region, "client");
    // On a busy machine a right guess may look wrong.
    for round in 0.. {
        assert!(round < 50, "it is held although every guess was right");
        let (thread, hear) = held_in_the_background(region);
        hear.recv().unwrap();
        if region.waiting() == 0 {
            thread.join().unwrap();
            assert!(round >= 2, "held at first");
            return;
        }
        region.blocks(client, Blocker::Semaphore, None, false);
        thread.join().unwrap();
        region.unblocks(client);
    }
}

#[test]
fn a_client_that_waits_for_work_is_not_stuck() {
    let (region, client, thread) = held_beside_a_client();
    // A thread between two connections.
    region.control.gate_learns();
    thread::with(|words| words.role.set(thread::SERVES_CLIENTS));
    region.blocks(client, Blocker::Condition, None, false);
    std::thread::sleep(Duration::from_millis(400));
    assert!(!thread.is_finished(), "the call goes on though no client waits for it");
    region.unblocks(client);
    // The same wait in the middle of a request.
    thread::with(|words| words.serving.set(1));
    region.blocks(client, Blocker::Condition, None, false);
    thread.join().unwrap();
    region.unblocks(client);
}

#[test]
fn a_call_goes_on_though_the_lock_had_another_owner_when_the_wait_began() {
    let (region, client, thread) = held_beside_a_client();
    // SAFETY: no preconditions.
    let owner = unsafe { libc::gettid() } as u32;
    region.blocks(client, Blocker::Mutex, Some(owner), true);
    thread.join().unwrap();
    region.unblocks(client);
}

#[test]
fn a_long_sequential_file_is_charged_for_its_bytes_only() {
    let region = region(SplitKind::Token);
    limit(region, 100 << 20);
    let me = account(region, "slow");
    let at = file(region, 1);
    let mut ticket = region.enter(CallKind::Write, me, at, 64 << 20);
    region.admitted(&mut ticket);
    region.wrote_and_left(ticket, 0, 64 << 20);
    let charged = region.file_state(at).unwrap().charged;
    let mut ticket = region.enter_fsync(me, at);
    region.begins_flush(&mut ticket);
    let flushed = ticket.flushed.unwrap();
    assert_eq!((flushed.pieces, flushed.charged), (256, charged));
    region.leave(ticket);
    // 64 MB are owed, and a seek of 1 MB; 256 seeks would be 2.5 s more than the longest hold.
    let start = Instant::now();
    region.set_hold_max(Nanos::from_millis(20_000));
    let ticket = region.enter(CallKind::Write, me, at, 4096);
    wait(region, &ticket);
    region.leave(ticket);
    assert!(start.elapsed() < Duration::from_millis(2_000), "{:?}", start.elapsed());
}

#[test]
fn a_read_that_passed_is_charged() {
    let region = region(SplitKind::Token);
    limit(region, 4 << 20);
    region.set_hold_max(Nanos::from_millis(1));
    let me = account(region, "slow");
    let at = file(region, 1);
    for _ in 0..5 {
        let mut ticket = region.enter(CallKind::Read, me, at, 4096);
        wait(region, &ticket);
        region.admitted(&mut ticket);
        std::thread::sleep(Duration::from_millis(10));
        region.leave(ticket);
    }
    // Each costs a seek, a megabyte. The first one alone would be paid after 0.25 s.
    region.set_hold_max(Nanos::from_millis(20_000));
    let ticket = region.enter(CallKind::Read, me, at, 4096);
    assert!(wait(region, &ticket) >= Duration::from_millis(700));
    region.leave(ticket);
}

#[test]
fn a_second_big_fsync_waits_while_the_first_makes_progress() {
    let region = region(SplitKind::Deadline);
    region.set_hold_max(Nanos::from_millis(300));
    let me = account(region, "checkpointer");
    let tickets = [1, 2].map(|inode| {
        let at = file(region, inode);
        for page in 0..200u64 {
            region.wrote(me, at, page * (1 << 20), 4096);
        }
        region.enter(CallKind::Fsync, me, at, 0)
    });
    assert!(tickets.iter().all(|ticket| !region.is_admitted(ticket)));
    let Order::WriteBack(pieces) = region.next_order(&tickets[0], false) else {
        panic!("the first one has orders");
    };
    let begun = Instant::now();
    for _ in 0..pieces.min(8) {
        std::thread::sleep(Duration::from_millis(60));
        region.cleaned(&tickets[0], &Written { pieces: 1, ..Written::default() });
    }
    assert!(begun.elapsed() > Duration::from_millis(400));
    assert_eq!(region.next_order(&tickets[1], true), Order::Nothing, "held, and in its turn");
    assert_eq!(region.control.hold_limit.load(std::sync::atomic::Ordering::Relaxed), 0);
    region.start(SplitKind::Noop, true);
    for ticket in tickets {
        assert!(region.is_admitted(&ticket));
        region.leave(ticket);
    }
}

#[test]
fn a_removed_file_owes_nothing_and_its_number_is_another_files() {
    let region = region(SplitKind::Deadline);
    let me = account(region, "sorter");
    let Found { slot: at, generation, .. } = region.file(1, 7, |_| 0).unwrap();
    region.wrote(me, at, 0, 1 << 20);
    assert_eq!(region.file_state(at).unwrap().pages, 256);
    region.removed(1, 7);
    assert!(!region.is_current(at, generation));
    let Found { slot: again, generation: next, .. } = region.file(1, 7, |_| 0).unwrap();
    assert_eq!(region.file_state(again).unwrap().pages, 0);
    assert!(again != at || next != generation);
}

#[test]
fn a_file_follows_other_rules_and_another_name() {
    let region = region(SplitKind::Deadline);
    let rule = |ms: u64| {
        region.set_rules(&[IoRule {
            subject: Subject::File,
            pattern: Text::new(b"/data/log*"),
            deadline: Nanos::from_millis(ms),
            level: None,
            rate: 0,
            burst: 0,
            foreground: Foreground::ByGate,
            application: Text::EMPTY,
        }]);
    };
    let named = |name: &'static str| {
        let write = move |text: &mut [u8; 256]| {
            text[..name.len()].copy_from_slice(name.as_bytes());
            name.len()
        };
        let at = region.file(1, 7, write).unwrap().slot;
        region.file_state(at).unwrap().deadline
    };
    rule(20);
    assert_eq!(named("/data/log.1"), Nanos::from_millis(20));
    rule(50);
    assert_eq!(named("/data/log.1"), Nanos::from_millis(50));
    region.renamed(1, 7);
    assert_eq!(named("/data/old.1"), Nanos(0));
}

#[test]
fn a_program_that_begins_in_a_held_thread_takes_nobodys_room() {
    let region = region(SplitKind::Afq);
    let me = account(region, "shell");
    let at = file(region, 1);
    for _ in 0..2 {
        // `exec` in another thread: this one never returns from its call.
        let ticket = region.enter(CallKind::Fsync, me, at, 4096);
        assert!(region.is_admitted(&ticket));
    }
    region.program_begins(headworks_region::lock::thread_id());
    std::thread::sleep(Duration::from_millis(600));
    region.tidy();
    let ticket = region.enter(CallKind::Fsync, me, at, 4096);
    assert!(region.is_admitted(&ticket));
    region.leave(ticket);
}

#[test]
fn of_a_threads_deadline_and_a_files_the_shorter_holds() {
    let region = region(SplitKind::Deadline);
    let rule = |subject, pattern: &[u8], ms| IoRule {
        subject,
        pattern: Text::new(pattern),
        deadline: Nanos::from_millis(ms),
        level: None,
        rate: 0,
        burst: 0,
        foreground: Foreground::ByGate,
        application: Text::EMPTY,
    };
    region.set_rules(&[
        rule(Subject::File, b"/data/1", 20),
        rule(Subject::File, b"/data/2", 900),
        rule(Subject::Thread, b"check*", 200),
    ]);
    let deadline = |me, at| {
        let ticket = region.enter(CallKind::Fsync, me, at, 0);
        let deadline = ticket.call.deadline;
        region.leave(ticket);
        deadline
    };
    let me = account(region, "checkpointer");
    for (inode, ms) in [(1, 20), (2, 200), (3, 200)] {
        assert_eq!(deadline(me, file(region, inode)), Nanos::from_millis(ms), "file {inode}");
    }
    assert_eq!(deadline(0, file(region, 3)), Nanos(0), "another thread");
}

#[test]
fn a_scheduler_begins_on_the_stack_of_a_small_thread() {
    let region = region(SplitKind::Noop);
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let begin = || {
        for kind in SplitKind::ALL {
            region.start(kind, true);
        }
    };
    std::thread::scope(|scope| {
        small.spawn_scoped(scope, begin).unwrap().join().unwrap();
    });
    assert_eq!(region.control.kind(), SplitKind::Rcp);
}

#[test]
fn a_threads_deadline_is_one_of_its_fsyncs_only() {
    let region = region(SplitKind::Deadline);
    region.set_rules(&[IoRule {
        subject: Subject::Thread,
        pattern: Text::new(b"backup*"),
        deadline: Nanos::from_millis(9_000),
        level: None,
        rate: 0,
        burst: 0,
        foreground: Foreground::ByGate,
        application: Text::EMPTY,
    }]);
    let me = account(region, "backup");
    let ticket = region.enter(CallKind::Write, me, file(region, 3), 4096);
    assert_eq!(ticket.call.deadline, Nanos(0), "its writes are held by the file's");
    region.leave(ticket);
    let ticket = region.enter(CallKind::Fsync, me, u16::MAX, 0);
    assert_eq!(ticket.call.deadline, Nanos::from_millis(9_000), "a directory's, too");
    region.leave(ticket);
}

#[test]
fn direct_writes_in_sequence_cost_no_seeks() {
    let region = region(SplitKind::Token);
    region.set_hold_max(Nanos::from_millis(60_000));
    limit(region, 1 << 30);
    let slow = account(region, "slow");
    let at = file(region, 1);
    // 8 MiB are 8 ms of the limit. A seek of 8 ms would be another megabyte each.
    for part in 0..512u64 {
        region.wrote_through(slow, at, part * (16 << 10), 16 << 10);
    }
    let ticket = region.enter(CallKind::WriteDirect, slow, at, 4096);
    assert!(wait(region, &ticket) < Duration::from_millis(250), "512 seeks are half a second");
    region.leave(ticket);
}

#[test]
fn the_kind_of_device_is_learned_from_small_fsyncs_unless_it_was_named() {
    let taken_for_a_disk = |learns: bool, pages: u64| {
        let region = region(SplitKind::Deadline);
        region.control.learn_device(learns);
        let (account, file) = (account(region, "commits"), file(region, 1));
        for number in 0..64 {
            region.wrote(account, file, number * pages * 4096, pages * 4096);
            let mut ticket = region.enter(CallKind::Fsync, account, file, 0);
            wait(region, &ticket);
            region.admitted(&mut ticket);
            // Quicker than any disk turns.
            region.begins_flush(&mut ticket);
            region.leave(ticket);
        }
        region.control.rotational()
    };
    assert!(!taken_for_a_disk(true, 1));
    assert!(taken_for_a_disk(false, 1), "an operator said so");
    assert!(taken_for_a_disk(true, 17), "to write many pages takes its time");
}
