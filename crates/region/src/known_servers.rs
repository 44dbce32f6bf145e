//! The servers that profiles know, for a gate whose server another program starts.
//!
//! A wrapper (`taskset mariadbd`) or a script says nothing of the server behind it. So the
//! preloaded library compares the name of each program that it is loaded into with these names. A
//! server asks the daemon for its profile when it starts, and waits until that is in force. A
//! script may start several, some of which only print their version or set up tables. So the
//! profile is final, with the server's settings, once a process listens, and as long as that
//! process lives.

use crate::text::{SharedText, Text};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Names that a region can hold.
pub const SERVERS: usize = 32;

/// The place of the name of a program that no profile knows.
pub const UNKNOWN: u32 = SERVERS as u32;

/// A process, and the place of its program's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number.
    pub pid: u32,
    /// See [`KnownServers::find`]; [`UNKNOWN`] if no profile knows it.
    pub place: u32,
}

/// A [`Server`] in one word; zero for none.
#[derive(Debug)]
#[repr(transparent)]
struct Word(AtomicU64);

headworks_policy::layout!(Word { 0 });

impl Word {
    fn get(&self) -> Option<Server> {
        let word = self.0.load(Ordering::Acquire);
        (word != 0).then_some(Server { pid: word as u32, place: (word >> 32) as u32 })
    }

    fn set(&self, server: Server) {
        self.0.store(Word::of(server), Ordering::Release);
    }

    fn of(server: Server) -> u64 {
        u64::from(server.pid) | u64::from(server.place) << 32
    }
}

/// The names. All zero bytes: none, as the profile is known.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct KnownServers {
    count: AtomicU32,
    /// A process that listens without the gate, as its profile is another one.
    beside: AtomicU32,
    asking: Word,
    answered: Word,
    serving: Word,
    names: [SharedText; SERVERS],
    /// The number of each name's profile.
    profiles: [AtomicU32; SERVERS],
}

headworks_policy::layout!(KnownServers {
    count,
    beside,
    asking,
    answered,
    serving,
    names,
    profiles
});

/// Whether a program's file has the name of a server that is known as `known`. What follows after
/// `-` or `_` does not matter.
pub fn is_named(known: &[u8], file: &[u8]) -> bool {
    file.strip_prefix(known).is_some_and(|rest| matches!(rest.first(), None | Some(b'-' | b'_')))
}

impl KnownServers {
    /// Whether the profile depends on which server is started.
    pub fn expected(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    /// The place of the name of a program with this file name, if it is one of them.
    pub fn find(&self, file: &[u8]) -> Option<u32> {
        let count = self.count.load(Ordering::Acquire) as usize;
        let mut names = self.names.iter().take(count);
        names.position(|name| is_named(name.get().bytes(), file)).map(|place| place as u32)
    }

    /// A server asks for its profile, unless another one does already.
    pub fn ask(&self, server: Server) {
        let asking = &self.asking.0;
        let word = Word::of(server);
        let _ = asking.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The process that asks, and its program's name; no text for one that no profile knows.
    pub fn asking(&self) -> Option<(Server, Text)> {
        let server = self.asking.get()?;
        let name = self.names.get(server.place as usize).map_or(Text::EMPTY, SharedText::get);
        Some((server, name))
    }

    /// The process that asked has ended; another may ask.
    pub fn ask_again(&self) {
        self.asking.0.store(0, Ordering::Release);
    }

    /// The profile of this server is in force, and its settings.
    pub fn answer(&self, server: Server) {
        self.answered.set(server);
        self.ask_again();
    }

    /// The server whose profile is in force; `None` if that is the one of the command line.
    pub fn answered(&self) -> Option<Server> {
        self.answered.get()
    }

    /// The last process that listened behind the gate. It may just have ended.
    pub fn serving(&self) -> Option<Server> {
        self.serving.get()
    }

    /// This process listens behind the gate: the profile is final while it lives.
    pub fn serves(&self, server: Server) {
        self.serving.set(server);
    }

    /// A process that has listened has ended. Its number may be given to another one.
    pub fn serving_ended(&self, server: Server) {
        let word = Word::of(server);
        let _ = self.serving.0.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether the programs at two places have one profile.
    pub fn is_alike(&self, one: u32, other: u32) -> bool {
        let profile =
            |place| self.profiles.get(place as usize).map(|number| number.load(Ordering::Relaxed));
        profile(one) == profile(other)
    }

    /// The last process that listened without the gate, as its profile is another one. It may have
    /// ended.
    pub fn beside(&self) -> Option<u32> {
        Some(self.beside.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// See [`beside`](KnownServers::beside).
    pub fn stays_beside(&self, pid: u32) {
        self.beside.store(pid, Ordering::Relaxed);
    }

    /// Leaves the choice of the profile to the server that starts. Each of `profiles` gives the
    /// names of its servers. Names beyond [`SERVERS`] are left out. Only before the first program
    /// starts.
    pub fn expect<'a>(&self, profiles: impl Iterator<Item = &'a [String]>) {
        let named = profiles.enumerate();
        let named = named.flat_map(|(number, names)| names.iter().map(move |name| (number, name)));
        let mut count = 0;
        for ((place, profile), (number, name)) in self.names.iter().zip(&self.profiles).zip(named) {
            place.set(name.as_bytes());
            profile.store(number as u32, Ordering::Relaxed);
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
    fn servers_ask_one_after_the_other_until_one_listens() {
        let path =
            std::ffi::CString::new(format!("/dev/shm/headworks-known-{}", std::process::id()));
        let path = path.unwrap();
        let region = crate::Mapping::create(&path, None).unwrap();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        let known = &region.known_servers;
        assert!(!known.expected() && known.find(b"mariadbd").is_none());
        let profiles = [vec!["mariadbd".to_owned(), "mysqld".to_owned()], vec!["postgres".into()]];
        known.expect(profiles.iter().map(Vec::as_slice));
        assert_eq!((known.find(b"postgres"), known.find(b"taskset")), (Some(2), None));
        assert!(known.is_alike(0, 1) && !known.is_alike(1, 2) && !known.is_alike(0, UNKNOWN));
        assert!(known.expected() && known.asking().is_none() && known.answered().is_none());
        let asking = || known.asking().map(|(server, name)| (server.pid, name.to_display()));
        let [first, second] = [Server { pid: 7, place: 0 }, Server { pid: 8, place: 2 }];
        known.ask(first);
        known.ask(second);
        assert_eq!(asking(), Some((7, "mariadbd".to_owned())));
        known.ask_again();
        known.ask(second);
        assert_eq!(asking(), Some((8, "postgres".to_owned())));
        known.answer(second);
        assert_eq!((asking(), known.answered()), (None, Some(second)));
        known.ask(Server { pid: 9, place: UNKNOWN });
        assert_eq!(asking(), Some((9, String::new())));
        assert!(known.serving().is_none() && known.beside().is_none());
        known.serves(second);
        known.stays_beside(7);
        assert_eq!((known.serving(), known.beside()), (Some(second), Some(7)));
        known.serving_ended(first);
        assert_eq!(known.serving(), Some(second));
        known.serving_ended(second);
        assert!(known.serving().is_none());
    }
}
