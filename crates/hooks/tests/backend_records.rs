//! A backend whose TLS is seen as records alone. Its `recv` is called from within the server's TLS
//! library, which takes an interruption for an empty socket. So the wait must end with the bytes in
//! the server's hand.

use headworks_hooks::backend::{self, Receipt, Stage};
use headworks_hooks::process;
use headworks_policy::Nanos;
use headworks_region::control::Settings;
use headworks_region::{Mapping, Protocol, Region, State, clock};
use std::ffi::CString;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// One place, and a daemon's heartbeat.
fn region() -> &'static Region {
    let path = format!("/dev/shm/headworks-records-{}", std::process::id());
    let c_path = CString::new(path.as_str()).unwrap();
    let mapping = Mapping::create(&c_path, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    let region = mapping.region();
    region.set_protocol(Protocol::PostgreSql);
    region.apply(&Settings { parallelism: 1, ..Settings::default() });
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
}

#[test]
fn a_request_in_records_is_held_until_its_turn_however_long_that_takes() {
    const HELD: Duration = Duration::from_millis(700);
    let region = region();
    process::attach(region);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (served, _) = listener.accept().unwrap();
    backend::accepted(served.as_raw_fd());
    assert!(backend::inherit() && backend::serves(served.as_raw_fd()));
    backend::adopt();
    // The client asks for TLS, and the server agrees; its library is never called.
    assert_eq!(backend::received(&[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f]), Receipt::Go);
    backend::sent(b"S");
    assert_eq!(backend::received(&[22, 3, 1, 0, 2, 1, 2]), Receipt::Go, "of the handshake");
    backend::sent(&[22, 3, 3, 0, 2, 1, 2]);
    let occupant = region.register(std::process::id(), clock::now()).unwrap();
    region.enter(occupant, clock::now());
    let own = (0..region.high_water()).find(|&session| session != occupant).unwrap();
    let owner = std::thread::spawn(move || {
        std::thread::sleep(HELD);
        region.leave(occupant);
    });
    // The library reads a record by its head and its body.
    assert_eq!(backend::received(&[23, 3, 3, 0, 4]), Receipt::Go, "no data yet");
    let begun = Instant::now();
    assert_eq!(backend::received(&[9; 4]), Receipt::Go, "the server would not come back for it");
    assert!(begun.elapsed() >= HELD - Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(backend::deliver(&mut [0; 8]), None, "nothing is kept");
    owner.join().unwrap();
    assert_eq!(
        (region.session(own).unwrap().state(), backend::stage()),
        (State::Running, Stage::Busy)
    );
    // The answer, and the next read: the place is free again.
    backend::sent(&[23, 3, 3, 0, 2, 1, 2]);
    assert_eq!(backend::about_to_receive(), Receipt::Go);
    assert_eq!(region.session(own).unwrap().state(), State::Idle);
    backend::exiting();
}
