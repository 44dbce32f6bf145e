//! What the kernel tells of a file, without its times.
//!
//! Since Linux 6.13, an answer with times marks them as seen. The next write then gives the inode
//! a finer time, and its `fsync` commits the journal although nothing else of the file has changed.

use libc::{c_char, c_int};

/// A file's device, inode and what kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub device: u64,
    pub inode: u64,
    /// `S_IFREG`, `S_IFDIR`, ….
    pub kind: libc::mode_t,
    /// The largest for a block device, whose size is not told.
    pub size: u64,
    /// Its names.
    pub links: u32,
    /// Which device a node stands for.
    pub node: u64,
}

impl Status {
    pub fn is_regular(&self) -> bool {
        self.kind == libc::S_IFREG
    }

    /// The device by which a process serves a file system (`/dev/fuse`).
    pub fn is_fuse(&self) -> bool {
        self.kind == libc::S_IFCHR && self.node == libc::makedev(10, 229)
    }

    pub fn is_block_device(&self) -> bool {
        self.kind == libc::S_IFBLK
    }
}

/// Of an open file.
pub(super) fn of(fd: c_int) -> Option<Status> {
    // SAFETY: the path is an empty C string.
    unsafe { at(fd, c"".as_ptr(), libc::AT_EMPTY_PATH) }
}

/// Of the file with this name.
///
/// # Safety
/// `path` is null or a C string.
#[inline(never)] // its buffer is gone from the stack when it returns
pub(super) unsafe fn at(dir: c_int, path: *const c_char, flags: c_int) -> Option<Status> {
    const WANTED: u32 = libc::STATX_TYPE | libc::STATX_INO | libc::STATX_SIZE | libc::STATX_NLINK;
    if path.is_null() {
        return None;
    }
    // SAFETY: all zero bytes are a valid buffer; the call only writes to it.
    unsafe {
        let mut found: libc::statx = core::mem::zeroed();
        // By system call: older C libraries do not have it.
        (libc::syscall(libc::SYS_statx, dir, path, flags, WANTED, &raw mut found) == 0).then(|| {
            let kind = libc::mode_t::from(found.stx_mode) & libc::S_IFMT;
            Status {
                device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
                inode: found.stx_ino,
                kind,
                size: if kind == libc::S_IFBLK { u64::MAX } else { found.stx_size },
                links: found.stx_nlink,
                node: libc::makedev(found.stx_rdev_major, found.stx_rdev_minor),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::time::{Duration, Instant};

    /// The kernel's clock of files, in nanoseconds. It moves by some milliseconds at a time.
    fn coarse() -> i64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call fills what it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }

    #[test]
    fn to_ask_for_a_file_does_not_make_the_next_write_change_its_inode() {
        let path = std::env::temp_dir().join(format!("headworks-status-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let until = Instant::now() + Duration::from_secs(2);
        let mut kept = false;
        while !kept && Instant::now() < until {
            // The times that were made finer so far are over when the clock moves.
            let before = coarse();
            while coarse() == before {
                std::hint::spin_loop();
            }
            file.write_at(b"before", 0).unwrap();
            assert_eq!(of(file.as_raw_fd()).unwrap().size, 6);
            let tick = coarse();
            file.write_at(b"behind", 0).unwrap();
            let meta = file.metadata().unwrap();
            // A later time is the next tick, or one that the kernel made finer. Other files may
            // have been given a finer one just then, but not each time.
            kept = meta.ctime() * 1_000_000_000 + meta.ctime_nsec() <= tick;
        }
        std::fs::remove_file(path).unwrap();
        assert!(kept, "each write after a question has changed the file's time");
    }

    #[test]
    fn the_answer_is_the_one_of_stat() {
        let path = std::env::current_exe().unwrap();
        let (file, meta) = (File::open(&path).unwrap(), path.metadata().unwrap());
        let found = of(file.as_raw_fd()).unwrap();
        assert!(found.is_regular());
        assert_eq!((found.device, found.inode), (meta.dev(), meta.ino()));
        assert_eq!((found.size, u64::from(found.links)), (meta.len(), meta.nlink()));
        assert_eq!(of(-1), None);
    }
}
