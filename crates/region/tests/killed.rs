//! Processes that are killed or stopped at the worst moment, and memory that runs out.

#[allow(dead_code)] // each test program uses a part of it
mod common;

use common::{enforcing, session, stop_beating};
use headworks_policy::Nanos;
use headworks_region::control::PERMITS;
use headworks_region::layout::Counter;
use headworks_region::{Entered, Mapping, Region, RegionError, State, View, clock};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A child process that runs `work` until it is killed.
struct Child(libc::pid_t);

impl Child {
    fn start(work: impl Fn()) -> Child {
        // SAFETY: the child only uses the region, which needs neither allocation nor a lock of
        // this process, and never returns.
        match unsafe { libc::fork() } {
            0 => {
                headworks_region::lock::forget_thread_id();
                loop {
                    work();
                }
            }
            pid => Child(pid),
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child.
        unsafe { libc::kill(self.0, signal) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

#[test]
fn places_survive_whoever_is_killed_while_handing_them_over() {
    let region = enforcing(4);
    let end = Instant::now() + Duration::from_millis(1_500);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let session = session(region);
                while Instant::now() < end {
                    region.enter(session, clock::now());
                    region.leave(session);
                }
                region.unregister(session);
            });
        }
        while Instant::now() < end {
            let child = Child::start(|| region.dispatch_all());
            std::thread::sleep(Duration::from_millis(2));
            drop(child);
        }
    });
    let mut seen = [0; PERMITS];
    region.reclaim(&mut seen);
    region.reclaim(&mut seen);
    for _ in 0..4 {
        assert_eq!(region.enter(session(region), clock::now()), Entered::AtOnce);
    }
}

#[test]
fn places_survive_users_that_are_killed_wherever_they_are() {
    const P: usize = 3;
    let region = enforcing(P as u32);
    let end = Instant::now() + Duration::from_millis(2_000);
    let mut seen = [0; PERMITS];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let session = session(region);
                while Instant::now() < end {
                    region.enter(session, clock::now());
                    region.leave(session);
                }
                region.unregister(session);
            });
        }
        let mut looked = Instant::now();
        while Instant::now() < end {
            let children = [0, 1].map(|_| {
                Child::start(|| {
                    let session = session(region);
                    loop {
                        region.enter(session, clock::now());
                        region.lend(session, headworks_region::Pause::Thinking);
                        region.reenter(session);
                        region.leave(session);
                    }
                })
            });
            std::thread::sleep(Duration::from_millis(2));
            for child in children {
                let pid = child.0 as u32;
                drop(child);
                region.reclaim_from_previous_process(pid);
            }
            // What the daemon does, in a hurry.
            region.dispatch_all();
            if looked.elapsed() > Duration::from_millis(50) {
                looked = Instant::now();
                region.reclaim(&mut seen);
            }
        }
    });
    region.reclaim(&mut seen);
    region.reclaim(&mut seen);
    assert_eq!((region.pending(), region.waiting()), (0, 0));
    for _ in 0..P {
        assert_eq!(region.enter(session(region), clock::now()), Entered::AtOnce);
    }
    let next = session(region);
    assert_eq!(
        region.enter_or_queue(next, region.begin_wait(clock::now())),
        None,
        "no more than P"
    );
}

#[test]
fn a_slot_that_was_claimed_anew_is_not_given_back_for_its_last_user() {
    const GONE: u32 = 4_000_000;
    let region = enforcing(1);
    let reaped = || region.counter(Counter::Reaped);
    let last = region.register(GONE, clock::now()).unwrap();
    let slot = region.session(last).unwrap();
    slot.thread.store(GONE, Ordering::Relaxed);
    region.enter(last, clock::now());
    // A scan finds the session dead, and is overtaken before it acts.
    region.unregister(last);
    let names = || (slot.pid.load(Ordering::Relaxed), slot.thread.load(Ordering::Relaxed));
    assert_eq!(names(), (0, 0), "it has no owner");
    assert_eq!(session(region), last);
    region.release_dead_session(last, GONE);
    assert_eq!((slot.state(), names().0, reaped()), (State::Idle, std::process::id(), 0));
    region.unregister(last);
    // Twice at the same time: once is enough.
    assert_eq!(region.register(GONE, clock::now()), Some(last));
    region.release_dead_session(last, GONE);
    region.release_dead_session(last, GONE);
    assert_eq!((slot.state(), names().0, reaped()), (State::Free, 0, 1));
}

#[test]
fn a_slot_whose_claimer_died_at_once_comes_back() {
    const GONE: u32 = 4_000_000;
    let region = enforcing(1);
    let slot = region.session(0).unwrap();
    slot.pid.store(GONE, Ordering::Relaxed);
    assert_eq!(session(region), 1, "the first one is taken");
    assert_eq!(region.high_water(), 2, "a scan for the dead sees it");
    region.release_dead_session(0, GONE);
    assert_eq!(session(region), 0);
    assert_eq!(region.counter(Counter::Reaped), 0, "it held nothing");
}

#[test]
fn a_lock_whose_owner_stands_still_costs_little_once_the_daemon_is_silent() {
    let region = enforcing(1);
    let first = session(region);
    region.enter(first, clock::now());
    let second = session(region);
    std::thread::scope(|scope| {
        scope.spawn(move || region.enter(second, clock::now()));
        while region.session(second).unwrap().state() != State::Queued {
            std::thread::yield_now();
        }
        let child = Child::start(|| {
            region.die_with_the_lock();
            // SAFETY: sleeps until it is killed.
            unsafe { libc::pause() };
        });
        stop_beating(region);
        // Until the heartbeat is old; the waiter passes then.
        while region.session(second).unwrap().state() == State::Queued {
            std::thread::sleep(Duration::from_millis(20));
        }
        // With the limit of the lock's wait each of them would take 100 ms.
        let five = || {
            let start = Instant::now();
            for _ in 0..5 {
                region.leave(first);
                region.enter(first, clock::now());
            }
            start.elapsed()
        };
        let shortest = std::iter::repeat_with(five).take(20).min().unwrap();
        assert!(shortest < Duration::from_millis(400), "{shortest:?}");
        drop(child);
    });
}

#[test]
fn who_needs_no_place_is_no_sign_that_places_move() {
    let region = enforcing(1);
    let admin = session(region);
    region.classify(admin, 0, true, 0);
    let before = region.completed();
    for _ in 0..10 {
        region.enter(admin, clock::now());
        region.spend(region.session(admin).unwrap());
        region.leave(admin);
    }
    assert_eq!(region.completed(), before);
    let ordinary = session(region);
    region.enter(ordinary, clock::now());
    region.spend(region.session(ordinary).unwrap());
    region.leave(ordinary);
    assert_eq!(region.completed(), before + 1);
    // And who leaves takes nothing back.
    region.unregister(ordinary);
    assert_eq!(session(region), ordinary);
    assert_eq!(region.completed(), before + 1);
}

#[test]
fn a_region_that_finds_no_room_is_refused_at_once() {
    let dir = format!("/dev/shm/headworks-small-{}", std::process::id());
    std::fs::create_dir(&dir).unwrap();
    let mount = |program: &str, args: &[&str]| {
        std::process::Command::new(program)
            .args(args)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs", &dir]) {
        std::fs::remove_dir(&dir).unwrap();
        println!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let path = CString::new(format!("{dir}/region")).unwrap();
    let made = Mapping::create(&path, None);
    let left = std::fs::read_dir(&dir).unwrap().count();
    assert!(mount("umount", &[&dir]));
    std::fs::remove_dir(&dir).unwrap();
    assert!(matches!(made, Err(RegionError::System(_, libc::ENOSPC))), "{made:?}");
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_second_name_for_the_file_or_no_file_at_all_is_no_region() {
    let dir = format!("/dev/shm/headworks-links-{}", std::process::id());
    std::fs::create_dir(&dir).unwrap();
    let path = |name: &str| CString::new(format!("{dir}/{name}")).unwrap();
    Mapping::create(&path("region"), None).unwrap();
    let found = Mapping::open(&path("region")).map(|region| region.waiting());
    std::fs::hard_link(format!("{dir}/region"), format!("{dir}/twin")).unwrap();
    let twin = Mapping::open(&path("twin"));
    std::os::unix::fs::symlink("/dev/zero", format!("{dir}/zero")).unwrap();
    let zero = Mapping::open(&path("zero"));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(found, Ok(0));
    assert!(matches!(twin, Err(RegionError::NoRegion)));
    assert!(zero.is_err());
}

#[test]
fn no_request_is_held_longer_than_the_ceiling_whatever_the_region_says() {
    let region: &Region = enforcing(1);
    let settings = headworks_region::control::Settings {
        hold_max: Nanos(u64::MAX),
        ..region.control.settings()
    };
    region.apply(&settings);
    assert_eq!(region.control.hold_max(), headworks_region::control::HOLD_CEILING);
}

#[test]
fn a_region_of_another_pid_namespace_can_only_be_read() {
    let path = format!("/dev/shm/headworks-foreign-{}", std::process::id());
    let c_path = CString::new(path.as_str()).unwrap();
    let own = Mapping::create(&c_path, None).unwrap();
    assert!(!own.is_foreign());
    assert!(Mapping::open(&c_path).is_ok());
    let namespace = headworks_region::map::own_pid_ns();
    let bytes = std::fs::read(&path).unwrap();
    let words = bytes[..64].chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let at = words.into_iter().position(|word| word == namespace).expect("the header names it");
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&7u64.to_ne_bytes(), at as u64 * 8).unwrap();
    let refused = Mapping::open(&c_path);
    let view = View::open(&c_path);
    // Unknown is not another.
    file.write_all_at(&0u64.to_ne_bytes(), at as u64 * 8).unwrap();
    let unknown = Mapping::open(&c_path).map(|region| region.is_foreign());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(refused.err(), Some(RegionError::PidNamespace { found: 7 }));
    assert_eq!(view.unwrap().snapshot(headworks_region::clock::now()).sessions.len(), 0);
    assert_eq!(unknown, Ok(false));
}
