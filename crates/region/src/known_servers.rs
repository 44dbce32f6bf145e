//! The servers that profiles know, for a gate whose server another program starts.
//!
//! A wrapper (`taskset mariadbd`) or a script says nothing of the server behind it. So the
//! preloaded library compares the name of each program that it is loaded into with these names. The
//! first server asks the daemon for its profile, and waits until that is in force.

use crate::text::{SharedText, Text};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Names that a region can hold.
pub const SERVERS: usize = 32;

/// The names. All zero bytes: none, as the profile is known.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct KnownServers {
    count: AtomicU32,
    /// Process that asks for its profile, and above it the place of its name; zero if none does.
    asking: AtomicU64,
    names: [SharedText; SERVERS],
}

headworks_policy::layout!(KnownServers { count, asking, names });

/// Whether a program's file has the name of a server that is known as `known`. What follows after
/// `-` or `_` does not matter.
pub fn is_named(known: &[u8], file: &[u8]) -> bool {
    file.strip_prefix(known).is_some_and(|rest| matches!(rest.first(), None | Some(b'-' | b'_')))
}

impl KnownServers {
    /// Whether the server's profile is still to be chosen.
    pub fn expected(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    /// The place of the name of a program with this file name, if it is one of them.
    pub fn find(&self, file: &[u8]) -> Option<u32> {
        let count = self.count.load(Ordering::Acquire) as usize;
        let mut names = self.names.iter().take(count);
        names.position(|name| is_named(name.get().bytes(), file)).map(|place| place as u32)
    }

    /// A process whose name has this place asks for its profile.
    pub fn ask(&self, pid: u32, place: u32) {
        let word = u64::from(pid) | u64::from(place) << 32;
        let _ = self.asking.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The process that asks, and the server's name.
    pub fn asking(&self) -> Option<(u32, Text)> {
        let word = self.asking.load(Ordering::Acquire);
        let name = self.names.get((word >> 32) as usize)?;
        (word != 0).then(|| (word as u32, name.get()))
    }

    /// The process that asked has ended; another may ask.
    pub fn ask_again(&self) {
        self.asking.store(0, Ordering::Release);
    }

    /// The profile is chosen, and in force.
    pub fn chosen(&self) {
        self.count.store(0, Ordering::Release);
    }

    /// Leaves the choice of the profile to the server that starts. Names beyond [`SERVERS`] are
    /// left out. Only before the first program starts.
    pub fn expect<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut count = 0;
        for (place, name) in self.names.iter().zip(names) {
            place.set(name.as_bytes());
            count += 1;
        }
        self.count.store(count, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_from_programs_with_similar_names() {
        for name in ["mysqld", "mysqld-debug", "mysqld_safe"] {
            assert!(is_named(b"mysqld", name.as_bytes()), "{name}");
        }
        for name in ["mysqldump", "mysql", "postgrest", ""] {
            assert!(!is_named(b"mysqld", name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_first_server_asks_until_its_profile_is_chosen() {
        let path =
            std::ffi::CString::new(format!("/dev/shm/headworks-known-{}", std::process::id()));
        let path = path.unwrap();
        let region = crate::Mapping::create(&path, None).unwrap();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        let known = &region.known_servers;
        assert!(!known.expected() && known.find(b"mariadbd").is_none());
        known.expect(["mariadbd", "postgres"].into_iter());
        assert_eq!((known.find(b"postgres"), known.find(b"taskset")), (Some(1), None));
        assert!(known.expected() && known.asking().is_none());
        let asking = || known.asking().map(|(pid, name)| (pid, name.to_display()));
        known.ask(7, 0);
        known.ask(8, 1);
        assert_eq!(asking(), Some((7, "mariadbd".to_owned())));
        known.ask_again();
        known.ask(8, 1);
        assert_eq!(asking(), Some((8, "postgres".to_owned())));
        known.chosen();
        assert!(!known.expected() && known.find(b"postgres").is_none());
    }
}
