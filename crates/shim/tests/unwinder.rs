//! The unwinder is loaded when a panic needs it, and not before.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "../src/unwinder.rs"]
#[allow(dead_code)] // a server loads it ahead
mod unwinder;

struct Noted<'a>(&'a std::cell::Cell<u32>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn is_loaded() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("libgcc_s")
}

#[test]
fn a_panic_is_caught_by_an_unwinder_that_is_loaded_for_it() {
    std::panic::set_hook(Box::new(|_| {}));
    assert!(!is_loaded());
    let dropped = std::cell::Cell::new(0);
    for round in 1..=3 {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _noted = Noted(&dropped);
            assert!(round > 3, "round {round}");
        }));
        assert_eq!(dropped.get(), round);
        assert_eq!(*caught.unwrap_err().downcast::<String>().unwrap(), format!("round {round}"));
    }
    assert!(is_loaded());
}
