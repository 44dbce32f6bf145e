//! What the hooks of file calls cost: through the hook and directly, in turn, in one process.
//!
//! Started plainly, it starts itself again with each I/O scheduler (`headworks run --io`).
//! Governed: cached reads and buffered writes of 8 KiB. Not governed: files of tmpfs and of /proc,
//! and a pipe. Aims: at most 10 % more for governed calls, 3 % for an `fsync` of an overwritten
//! page, 2 % for the others.

mod harness;

use core::ffi::{c_int, c_void};
use harness::{Pair, symbol};
use headworks_policy::split::SplitKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Short, so that most of them are not disturbed by others.
const BATCH: usize = 10;
const BATCHES: usize = 4000;
const BLOCK: usize = 8192;
const FILE_BYTES: i64 = 16 << 20;
/// Of `fsync`s, each of which takes a device's time.
const FLUSHES: usize = 20;

type Pread = unsafe extern "C" fn(c_int, *mut c_void, usize, i64) -> isize;
type Pwrite = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;
type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;
type Fsync = unsafe extern "C" fn(c_int) -> c_int;
type Write = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;

#[derive(Clone, Copy)]
struct Calls {
    pread: Pread,
    pwrite: Pwrite,
    read: Read,
    write: Write,
    fsync: Fsync,
}

fn direct() -> Calls {
    // SAFETY: the C library's functions of these names have these types.
    unsafe {
        Calls {
            pread: std::mem::transmute::<*mut c_void, Pread>(symbol(c"pread64")),
            pwrite: std::mem::transmute::<*mut c_void, Pwrite>(symbol(c"pwrite64")),
            read: std::mem::transmute::<*mut c_void, Read>(symbol(c"read")),
            write: std::mem::transmute::<*mut c_void, Write>(symbol(c"write")),
            fsync: std::mem::transmute::<*mut c_void, Fsync>(symbol(c"fsync")),
        }
    }
}

fn compare(work: impl FnMut(&Calls, usize)) -> Pair {
    compare_in(BATCHES, work)
}

fn compare_in(batches: usize, work: impl FnMut(&Calls, usize)) -> Pair {
    let hooked = Calls {
        pread: libc::pread64,
        pwrite: libc::pwrite64,
        read: libc::read,
        write: libc::write,
        fsync: libc::fsync,
    };
    harness::compare(&hooked, &direct(), (batches, BATCH), work)
}

fn measure(name: &str, directory: &Path) {
    let mut block = vec![7u8; BLOCK];
    let buffer = block.as_mut_ptr().cast::<c_void>();
    let place = |at: usize| (at as i64 * 5 * BLOCK as i64) % FILE_BYTES;
    let file = |directory: &Path| {
        let path = directory.join(format!("headworks-bench-{}", std::process::id()));
        let mut options = std::fs::File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; FILE_BYTES as usize], 0).unwrap();
        file
    };
    let line = |what: &str, limit: f64, Pair { hooked, direct }: Pair| {
        let ratio = hooked / direct;
        let word = if ratio <= limit { "" } else { "  above the aim" };
        println!(
            "{name:<15} {what:<24} {direct:>8.0} {hooked:>8.0} {:>+7.1} %{word}",
            (ratio - 1.0) * 100.0
        );
    };
    let stored = file(directory);
    let fd = stored.as_raw_fd();
    let read = |fd| {
        move |calls: &Calls, at| {
            // SAFETY: the buffer has the length that is given, here and below.
            assert_eq!(unsafe { (calls.pread)(fd, buffer, BLOCK, place(at)) }, BLOCK as isize);
        }
    };
    let write = |fd| {
        move |calls: &Calls, at| {
            // SAFETY: as above.
            assert_eq!(unsafe { (calls.pwrite)(fd, buffer, BLOCK, place(at)) }, BLOCK as isize);
        }
    };
    line("governed, cached read", 1.10, compare(read(fd)));
    line("governed, buffered write", 1.10, compare(write(fd)));
    let flush = |calls: &Calls, at| {
        write(fd)(calls, at);
        // SAFETY: as above.
        assert_eq!(unsafe { (calls.fsync)(fd) }, 0);
    };
    line("overwritten page, fsync", 1.03, compare_in(FLUSHES, flush));
    let memory = file(Path::new("/dev/shm"));
    line("tmpfs, read", 1.02, compare(read(memory.as_raw_fd())));
    line("tmpfs, write", 1.02, compare(write(memory.as_raw_fd())));
    let status = std::fs::File::open("/proc/self/status").unwrap();
    let of_proc = |calls: &Calls, _| {
        // SAFETY: as above.
        assert!(unsafe { (calls.pread)(status.as_raw_fd(), buffer, BLOCK, 0) } > 0);
    };
    line("/proc, read", 1.02, compare(of_proc));
    let (from, to) = std::io::pipe().unwrap();
    let through = |calls: &Calls, _| {
        // SAFETY: as above.
        unsafe {
            assert_eq!((calls.write)(to.as_raw_fd(), buffer, 1024), 1024);
            assert_eq!((calls.read)(from.as_raw_fd(), buffer, 1024), 1024);
        }
    };
    line("pipe, write and read", 1.02, compare(through));
}

fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let directory = given.map_or_else(|| std::env::current_dir().unwrap(), PathBuf::from);
    if let Ok(name) = std::env::var("HEADWORKS_BENCH_FILES") {
        return measure(&name, &directory);
    }
    println!("{:<15} {:<24} {:>8} {:>8}", "scheduler", "call", "plain ns", "hooked");
    for kind in SplitKind::ALL {
        let mut again = harness::behind(Some(kind.name()), &[directory.to_str().unwrap()]);
        let done = again.command.env("HEADWORKS_BENCH_FILES", kind.name()).status().unwrap();
        assert!(done.success(), "{kind}: {done}");
    }
}
