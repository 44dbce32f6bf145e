//! A volume whose bytes lie with an NBD server: ours, and nbdkit.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use headworks_policy::block::Operation;
use headworks_volume::nbd::{Export, Exports, Limits, Listener, Stop, serve};
use headworks_volume::store::nbd::{Address, Nbd, NbdError};
use headworks_volume::store::{Memory, Store};
use headworks_volume::{Buffer, Engine, EngineConfig};

use crate::served::{Asked, Folder, MIB, Served, asked, held, memory, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

fn address(path: &Path, export: &str) -> Address {
    Address::parse(&format!("nbd+unix:///{export}?socket={}", path.display())).unwrap()
}

fn open(path: &Path) -> Nbd {
    Nbd::open_with(address(path, "data"), 16 * MIB, 512, PATIENCE).unwrap()
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Threads, each with its own part of the volume, against a copy of what must be there.
fn random_requests(store: &Nbd) {
    const PART: u64 = MIB;
    std::thread::scope(|scope| {
        for part in 0..store.size_bytes() / PART {
            scope.spawn(move || {
                let mut random = Random(part);
                let mut model = vec![0u8; PART as usize];
                store.write_zeroes(part * PART, PART, false, true).unwrap();
                for step in 0..300u64 {
                    let first = random.below(PART / 512);
                    let count = 1 + random.below((PART / 512 - first).min(300));
                    let range = (first * 512) as usize..((first + count) * 512) as usize;
                    let offset = part * PART + first * 512;
                    let fua = random.below(4) == 0;
                    match random.below(10) {
                        0..4 => {
                            let mut found = vec![0xee; range.len()];
                            store.read(offset, &mut found).unwrap();
                            assert!(found == model[range], "part {part}, step {step}");
                        }
                        4..8 => {
                            model[range.clone()].fill((part * 7 + step) as u8);
                            store.write(offset, &model[range], fua).unwrap();
                        }
                        8 => {
                            model[range].fill(0);
                            store.write_zeroes(offset, count * 512, fua, step % 2 == 0).unwrap();
                        }
                        _ => store.flush().unwrap(),
                    }
                }
                let mut found = vec![0xee; PART as usize];
                store.read(part * PART, &mut found).unwrap();
                assert!(found == model, "part {part}");
            });
        }
    });
}

#[test]
fn random_requests_of_many_threads_meet_our_server() {
    let served = Served::memory(16 * MIB);
    let store = open(&served.path);
    random_requests(&store);
    assert_eq!(store.trouble(), None);
    drop(store);
    served.wait_empty();
}

/// nbdkit on a Unix socket, killed at the end.
struct Nbdkit {
    child: Child,
    path: PathBuf,
    _folder: Folder,
}

impl Nbdkit {
    /// None, with a word, where it is not installed.
    fn start(options: &[&str]) -> Option<Nbdkit> {
        let folder = Folder::new();
        let path = folder.0.join("socket");
        let child = match Nbdkit::serve(&path, options) {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: no nbdkit here ({error}): apt-get install nbdkit");
                return None;
            }
        };
        Some(Nbdkit { child, path, _folder: folder })
    }

    fn serve(path: &Path, options: &[&str]) -> std::io::Result<Child> {
        let child = Command::new("nbdkit")
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(path)
            .args(options)
            .stdout(Stdio::null())
            .spawn()?;
        // The file is there before the server listens.
        let listens = || UnixStream::connect(path).is_ok();
        wait_until(listens, || "nbdkit does not listen".to_owned());
        Ok(child)
    }

    /// Kills it, and starts another one.
    fn again(&mut self, options: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::remove_file(&self.path).unwrap();
        self.child = Nbdkit::serve(&self.path, options).unwrap();
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nbdkit_is_a_backing_with_and_without_chunks_and_abilities() {
    let ways: [&[&str]; 3] = [
        &["memory", "16M"],
        // Simple replies.
        &["--no-sr", "memory", "16M"],
        // No FUA, no zeroing, no trimming: the store makes do with writes and flushes.
        &["--filter=nozero", "--filter=fua", "memory", "16M"],
    ];
    for options in ways {
        let Some(nbdkit) = Nbdkit::start(options) else { return };
        let store = open(&nbdkit.path);
        println!("{options:?}");
        random_requests(&store);
    }
}

#[test]
fn what_is_asked_reaches_the_server_with_its_flags() {
    let (served, hand) = held(Limits::default());
    let store = open(&served.path);
    let ask = |act: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            scope.spawn(act);
            let (work, data, ticket) = hand.take(1).pop().unwrap();
            (ticket.done)(Ok(data));
            work
        })
    };
    let write = |fua| move |store: &Nbd| store.write(512, &[1; 1024], fua).unwrap();
    let written = asked(Operation::Write, 512, 1024);
    assert_eq!(ask(&|| write(false)(&store)), written);
    assert_eq!(ask(&|| write(true)(&store)), Asked { fua: true, ..written });
    assert_eq!(ask(&|| store.flush().unwrap()), asked(Operation::Flush, 0, 0));
    assert_eq!(ask(&|| store.discard(4096, 8192).unwrap()), asked(Operation::Discard, 4096, 8192));
    for unmap in [false, true] {
        assert_eq!(
            ask(&|| store.write_zeroes(0, 512, unmap, unmap).unwrap()),
            Asked { fua: unmap, unmap, ..asked(Operation::WriteZeroes, 0, 512) }
        );
    }
}

#[test]
fn many_requests_are_in_flight_and_answered_in_any_order() {
    const THREADS: u64 = 48;
    let (served, hand) = held(Limits::default());
    let store = open(&served.path);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut found = [0; 4096];
                store.read(number * 4096, &mut found).unwrap();
                assert_eq!(found, [number as u8 + 1; 4096]);
            });
        }
        // All at the same time, or this waits in vain.
        let mut works = hand.take(THREADS as usize);
        works.sort_by_key(|(work, ..)| work.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for (work, mut data, ticket) in works {
            assert_eq!(work.operation, Operation::Read);
            let offset = work.offset;
            data.fill((offset / 4096) as u8 + 1);
            (ticket.done)(Ok(data));
        }
    });
}

#[test]
fn errors_of_the_server_are_errors_of_the_store_and_end_nothing() {
    let (served, hand) = held(Limits::default());
    let store = open(&served.path);
    for errno in [libc::EIO, libc::ENOSPC, libc::EPERM] {
        let error = std::thread::scope(|scope| {
            let asked = scope.spawn(|| store.read(0, &mut [0; 512]).unwrap_err());
            let (_, _, ticket) = hand.take(1).pop().unwrap();
            (ticket.done)(Err(std::io::Error::from_raw_os_error(errno)));
            asked.join().unwrap()
        });
        assert_eq!(error.raw_os_error(), Some(errno));
    }
    let outside = store.read(16 * MIB, &mut [0; 512]).unwrap_err();
    assert_eq!(outside.raw_os_error(), Some(libc::EINVAL));
}

/// A server that can be ended and started again over the same bytes.
struct Again {
    store: Arc<Memory>,
    path: PathBuf,
    running: Option<(Stop, JoinHandle<()>)>,
    _folder: Folder,
}

impl Again {
    fn new() -> Again {
        let folder = Folder::new();
        let path = folder.0.join("socket");
        let store = Arc::new(Memory::new(16 * MIB, 16 * MIB));
        Again { store, path, running: None, _folder: folder }
    }

    fn start(&mut self) {
        let listener = Listener::unix(&self.path).unwrap();
        let engine = Engine::start(EngineConfig::raw(self.store.clone())).unwrap();
        let exports = Exports::new(vec![Export::new("data", Arc::new(Arc::new(engine)))]).unwrap();
        let stop = Stop::new().unwrap();
        let own = stop.clone();
        let thread =
            std::thread::spawn(move || serve(listener, exports, Limits::default(), &own).unwrap());
        self.running = Some((stop, thread));
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.stop();
            thread.join().unwrap();
        }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_server_that_comes_back_is_a_pause_if_nothing_was_unflushed() {
    let mut server = Again::new();
    server.start();
    let store = open(&server.path);
    store.write(0, &[5; 4096], false).unwrap();
    store.flush().unwrap();
    // Durable at once: needs no flush.
    store.write(4096, &[6; 4096], true).unwrap();
    server.end();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let mut found = [0; 8192];
            store.read(0, &mut found).unwrap();
            found
        });
        wait_until(|| store.trouble().is_some(), || "it is not missed".to_owned());
        server.start();
        let found = read.join().unwrap();
        assert_eq!((found[0], found[8191]), (5, 6));
    });
    assert_eq!(store.trouble(), None);
    store.write(0, &[7; 512], false).unwrap();
    store.flush().unwrap();
}

#[test]
fn writes_that_were_not_flushed_may_be_lost_so_everything_fails() {
    let mut server = Again::new();
    server.start();
    let store = open(&server.path);
    store.write(0, &[5; 4096], false).unwrap();
    server.end();
    server.start();
    for _ in 0..2 {
        assert_eq!(store.flush().unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(store.read(0, &mut [0; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
    }
    let trouble = store.trouble().unwrap();
    assert!(trouble.contains("1 writes") && trouble.contains("volume umount"), "{trouble}");
    // Started again it serves again.
    let store = open(&server.path);
    store.read(0, &mut [0; 512]).unwrap();
}

#[test]
fn a_server_of_ours_that_comes_back_with_other_bytes_fails_everything_until_it_is_opened_anew() {
    let mut server = Again::new();
    server.start();
    let store = open(&server.path);
    store.write(0, &[5; 4096], true).unwrap();
    server.end();
    server.store = Arc::new(Memory::new(16 * MIB, 16 * MIB));
    server.start();
    for _ in 0..2 {
        assert_eq!(store.read(0, &mut [0; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(store.write(0, &[6; 512], true).unwrap_err().raw_os_error(), Some(libc::EIO));
    }
    let trouble = store.trouble().unwrap();
    assert!(trouble.contains("other bytes") && trouble.contains("volume umount"), "{trouble}");
    open(&server.path).read(0, &mut [0; 512]).unwrap();
}

/// Servers of others do not tell whose bytes they have. Of those only the size is known.
#[test]
fn nbdkit_that_comes_back_goes_on_unless_it_has_shrunk() {
    let Some(mut nbdkit) = Nbdkit::start(&["memory", "32M"]) else { return };
    let store =
        Nbd::open_with(address(&nbdkit.path, ""), 16 * MIB, 512, Duration::from_secs(20)).unwrap();
    for (size, goes_on) in [("32M", true), ("64M", true), ("16M", false)] {
        store.write(0, &[5; 512], true).unwrap();
        nbdkit.again(&["memory", size]);
        assert_eq!(store.read(0, &mut [0; 512]).is_ok(), goes_on, "{size}");
    }
    assert!(store.trouble().unwrap().contains("other bytes"), "{:?}", store.trouble());
}

#[test]
fn a_server_that_stays_away_or_says_nothing_gives_errors() {
    let mut server = Again::new();
    server.start();
    let patience = Duration::from_secs(2);
    let store = Nbd::open_with(address(&server.path, "data"), MIB, 512, patience).unwrap();
    server.end();
    assert_eq!(store.read(0, &mut [0; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(store.trouble().unwrap().contains("nbdinfo"), "{:?}", store.trouble());
    server.start();
    store.read(0, &mut [0; 512]).unwrap();
    drop(store);

    let (served, hand) = held(Limits::default());
    let store = Nbd::open_with(address(&served.path, "data"), MIB, 512, patience).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(store.read(0, &mut [0; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(began.elapsed() >= patience);
    for (_, data, ticket) in hand.take(1) {
        (ticket.done)(Ok::<Buffer, _>(data));
    }
}

#[test]
fn a_server_that_is_silent_for_a_while_is_asked_again() {
    let (served, hand) = held(Limits::default());
    let patience = Duration::from_secs(4);
    let store = Nbd::open_with(address(&served.path, "data"), MIB, 512, patience).unwrap();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let mut found = [0; 512];
            store.read(0, &mut found).map(|()| found)
        });
        // The answer to the first one is lost.
        let lost = hand.take(1);
        for (_, mut data, ticket) in hand.take(1) {
            data.fill(9);
            (ticket.done)(Ok::<Buffer, _>(data));
        }
        assert_eq!(read.join().unwrap().unwrap(), [9; 512]);
        for (_, data, ticket) in lost {
            (ticket.done)(Ok::<Buffer, _>(data));
        }
    });
    assert_eq!(store.trouble(), None);
}

#[test]
fn exports_that_cannot_hold_the_volume_are_refused_in_words() {
    let served = Served::new(vec![
        Export::new("data", memory(MIB)),
        Export::new("old", memory(MIB)).read_only(true),
    ]);
    let refused = |export, size| match Nbd::open(address(&served.path, export), size, 512) {
        Ok(_) => panic!("{export} was taken"),
        Err(error) => error,
    };
    let none = refused("nothing", MIB);
    assert!(matches!(none, NbdError::NoExport { .. }));
    assert!(none.to_string().contains("nbdinfo --list"), "{none}");
    let old = refused("old", MIB).to_string();
    assert!(old.contains("read-only"), "{old}");
    let small = refused("data", 2 * MIB).to_string();
    assert!(small.contains("1048576 bytes") && small.contains("2097152"), "{small}");
    let gone = Nbd::open(address(Path::new("/nonexistent/socket"), "data"), MIB, 512);
    let gone = gone.err().unwrap().to_string();
    assert!(gone.contains("is its server running"), "{gone}");
    if let Some(nbdkit) =
        Nbdkit::start(&["--filter=blocksize-policy", "memory", "1M", "blocksize-minimum=4096"])
    {
        let coarse = Nbd::open(address(&nbdkit.path, ""), MIB, 512).err().unwrap().to_string();
        assert!(coarse.contains("--block 4096"), "{coarse}");
        assert!(Nbd::open(address(&nbdkit.path, ""), MIB, 4096).is_ok());
    }
}
