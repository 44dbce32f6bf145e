//! What goes wrong on one connection stays there; and what a Unix socket does not tell.

use headworks_hooks::barrier::{Of, guarded, guarded_under_io};
use headworks_hooks::conn::{self, Conn};
use headworks_hooks::{files, lifecycle, process, threads};
use headworks_policy::Nanos;
use headworks_policy::permit::Long;
use headworks_policy::split::SplitKind;
use headworks_region::control::{Count, Settings};
use headworks_region::io::IoMapping;
use headworks_region::layout::Counter;
use headworks_region::session::FLAG_UNFOLLOWED;
use headworks_region::{Entered, Mapping, PassReason, Protocol, Region, State, clock};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The region of this process, with one place and a daemon's heartbeat, for one test at a time.
fn alone() -> (&'static Region, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    static REGION: OnceLock<&'static Region> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let region = *REGION.get_or_init(|| {
        let path = format!("/dev/shm/headworks-contained-{}", std::process::id());
        let c_path = CString::new(path.as_str()).unwrap();
        let region = Mapping::create(&c_path, None).unwrap().region();
        std::fs::remove_file(&path).unwrap();
        region.set_protocol(Protocol::Generic);
        region.heartbeat.alive_ns.store(clock::now().0, Ordering::Relaxed);
        std::thread::spawn(move || {
            loop {
                // Of the future, so that a busy machine may pause for a second.
                let ahead = clock::now() + Nanos::from_millis(500);
                region.heartbeat.alive_ns.store(ahead.0, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        region
    });
    let settings = Settings { parallelism: 1, count: Count::Admitted, ..Settings::default() };
    region.apply(&Settings { idle_limit: Nanos::from_millis(1), ..settings });
    process::attach(region);
    (region, turn)
}

/// A client of this process over a Unix socket: both ends, and what is known of it.
struct Client {
    server: UnixStream,
    _client: UnixStream,
    conn: &'static Conn,
    session: u32,
}

impl Client {
    fn accept() -> Client {
        let (server, client) = UnixStream::pair().unwrap();
        lifecycle::accepted(server.as_raw_fd());
        let conn = conn::find(server.as_raw_fd()).unwrap();
        Client { session: conn.session_id().unwrap(), server, _client: client, conn }
    }

    fn state(&self, region: &Region) -> State {
        region.session(self.session).unwrap().state()
    }

    fn is_left_alone(&self, region: &Region) -> bool {
        let flags = region.session(self.session).unwrap().flags.load(Ordering::Relaxed);
        flags & FLAG_UNFOLLOWED != 0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        threads::closing(self.conn);
    }
}

/// Another session that wants the place.
fn waiting(region: &Region) -> u32 {
    let session = region.register(std::process::id(), clock::now()).unwrap();
    assert_eq!(region.enter_or_queue(session, region.begin_wait(clock::now())), None);
    session
}

#[test]
fn an_error_on_one_connection_leaves_that_one_alone_and_the_third_opens_the_gate() {
    let (region, _turn) = alone();
    std::panic::set_hook(Box::new(|_| {}));
    let one = Client::accept();
    threads::received(one.conn, b"request");
    assert_eq!(one.state(region), State::Running);
    let waiter = waiting(region);
    guarded(Of::Thread(one.conn), || panic!("on purpose"));
    assert!(one.is_left_alone(region) && !one.conn.is_followed());
    assert_eq!((one.state(region), region.counter(Counter::Panic)), (State::Idle, 1));
    // Its place is the next one's, and the gate goes on for all others.
    assert_eq!(region.session(waiter).unwrap().state(), State::Running);
    assert!(process::region().is_some() && region.control.enforcing());
    threads::received(one.conn, b"more");
    assert_eq!(one.state(region), State::Idle, "nothing of it is looked at");
    let second = waiting(region);
    region.leave(waiter);
    assert_eq!(region.session(second).unwrap().state(), State::Running);
    // Its slot is free once it is closed, and its number is another's then.
    let session = one.session;
    let fd = one.server.as_raw_fd();
    drop(one);
    assert_eq!(region.session(session).unwrap().state(), State::Free);
    let (again, _other) = UnixStream::pair().unwrap();
    assert_eq!(again.as_raw_fd(), fd, "the number is free");
    lifecycle::accepted(fd);
    assert!(conn::find(fd).unwrap().is_followed());
    threads::closing(conn::find(fd).unwrap());
    // No connection's, and then one too many.
    guarded(Of::Process, || panic!("on purpose"));
    assert!(region.control.enforcing());
    guarded(Of::Process, || panic!("on purpose"));
    assert!(process::region().is_none() && !region.control.enforcing());
    let counted = [Counter::Panic, Counter::PanicOpened].map(|it| region.counter(it));
    assert_eq!(counted, [3, 1]);
    let _ = std::panic::take_hook();
    region.set_off(false);
    for session in [waiter, second] {
        region.unregister(session);
    }
}

#[test]
fn an_error_at_a_file_ends_the_part_in_files_and_leaves_the_gate_alone() {
    let (region, _turn) = alone();
    let path = format!("/dev/shm/headworks-contained-io-{}", std::process::id());
    let io = IoMapping::create(&CString::new(path.as_str()).unwrap(), None).unwrap().region();
    std::fs::remove_file(&path).unwrap();
    io.start(SplitKind::Deadline, true);
    files::attach(io);
    assert!(files::is_on());
    std::panic::set_hook(Box::new(|_| {}));
    let before = region.counter(Counter::Panic);
    // SAFETY: errno is this thread's own.
    let errno = || unsafe { &mut *libc::__errno_location() };
    *errno() = libc::EAGAIN;
    guarded_under_io(|| {
        assert!(process::InHook::enter().is_none());
        *errno() = libc::EBADF;
        panic!("on purpose");
    });
    let _ = std::panic::take_hook();
    assert_eq!(*errno(), libc::EAGAIN);
    assert!(!files::is_on() && io.control.panics.load(Ordering::Relaxed) == 1);
    assert!(process::region().is_some() && region.control.enforcing());
    assert_eq!(region.counter(Counter::Panic), before);
    assert!(process::InHook::enter().is_some(), "the mark has its end");
}

#[test]
fn a_permit_is_lent_while_a_read_in_the_middle_of_a_request_waits() {
    let (region, _turn) = alone();
    let one = Client::accept();
    threads::sent(one.conn, b"greeting");
    threads::received(one.conn, b"a part");
    let waiter = waiting(region);
    threads::about_to_receive(one.conn);
    threads::about_to_block(one.conn, one.server.as_raw_fd());
    region.lend_unused(clock::now(), Long::by(None), |_, _| None);
    assert_eq!(one.state(region), State::Running, "not at once");
    region.lend_unused(clock::now() + Nanos::from_millis(2), Long::by(None), |_, _| None);
    assert_eq!(one.state(region), State::Lent);
    assert_eq!(region.session(waiter).unwrap().state(), State::Running);
    threads::received(one.conn, b"the rest");
    assert_eq!(one.state(region), State::Owed, "it goes on at once");
    assert!(!one.is_left_alone(region));
    threads::sent(one.conn, b"answer");
    threads::about_to_receive(one.conn);
    assert_eq!(one.state(region), State::Idle);
    region.unregister(waiter);
}

#[test]
fn a_unix_socket_whose_answers_are_never_seen_passes() {
    let (region, _turn) = alone();
    let before = region.counter(Counter::UnseenAnswers);
    let one = Client::accept();
    threads::received(one.conn, b"request");
    let waiter = waiting(region);
    // The server answers, and no hook sees it.
    threads::about_to_receive(one.conn);
    threads::about_to_block(one.conn, one.server.as_raw_fd());
    region.lend_unused(clock::now() + Nanos::from_millis(2), Long::by(None), |_, _| None);
    assert_eq!(one.state(region), State::Lent);
    threads::received(one.conn, b"another request");
    assert!(one.is_left_alone(region));
    assert_eq!(region.counter(Counter::UnseenAnswers), before + 1);
    // From here on it takes no permit.
    for _ in 0..3 {
        threads::about_to_receive(one.conn);
        threads::received(one.conn, b"another request");
        assert!(matches!(one.state(region), State::Idle | State::Passing));
    }
    assert_eq!(region.session(waiter).unwrap().state(), State::Running);
    region.unregister(waiter);
}

#[test]
fn a_held_user_that_is_left_alone_by_another_thread_goes_on_at_once() {
    let (region, _turn) = alone();
    let session = || region.register(std::process::id(), clock::now()).unwrap();
    let (occupant, held) = (session(), session());
    assert_eq!(region.enter(occupant, clock::now()), Entered::AtOnce);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let entered = region.enter(held, clock::now());
            region.leave(held);
            entered
        });
        while region.waiting() == 0 {
            std::thread::yield_now();
        }
        region.stop_following(held);
        assert_eq!(thread.join().unwrap(), Entered::Passed(PassReason::Cancelled));
    });
    assert_eq!(region.pending(), 0);
    region.unregister(occupant);
    region.unregister(held);
}
