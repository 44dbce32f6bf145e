//! A server loads the unwinder ahead, so that a panic is caught when no descriptor is left.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "../src/unwinder.rs"]
mod unwinder;

#[test]
fn a_panic_is_caught_without_a_descriptor_left() {
    std::panic::set_hook(Box::new(|_| {}));
    assert!(unwinder::load());
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: only reads what it is given.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
    assert!(std::fs::File::open("/dev/null").is_err());
    assert!(std::panic::catch_unwind(|| panic!("to be caught")).is_err());
}
