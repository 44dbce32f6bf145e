//! Making, finding and mapping a region.

use crate::clock;
use crate::control::Heartbeat;
use crate::file::{Descriptor, RegionError, create_file, errno};
use crate::handed::{TOKEN, Wanted, ask};
use crate::held::HeldRequest;
use crate::layout::{Header, MAGIC, Region, VERSION};
use crate::snapshot::Snapshot;
use core::ffi::CStr;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use headworks_policy::Nanos;

/// The PID namespace of this process, as the inode of its link in /proc; zero if that cannot be
/// told. The same number means another process in another namespace.
pub fn own_pid_ns() -> u64 {
    // SAFETY: the path is a C string, and all zero bytes are a valid stat buffer.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        match libc::stat(c"/proc/self/ns/pid".as_ptr(), &mut stat) {
            0 => stat.st_ino,
            _ => 0,
        }
    }
}

impl Region {
    /// Whether it was made in another PID namespace: none of its numbers of processes and threads
    /// means here what it means there. Not if either namespace is unknown.
    pub fn is_foreign(&self) -> bool {
        is_another(self.header.pid_ns.load(Ordering::Relaxed))
    }
}

pub(crate) fn is_another(pid_ns: u64) -> bool {
    let own = own_pid_ns();
    pid_ns != 0 && own != 0 && pid_ns != own
}

/// A region that can only be read, from any PID namespace. It stays mapped as long.
#[derive(Clone, Copy, Debug)]
pub struct View(&'static Region);

impl View {
    /// Maps an existing region without the right to write.
    pub fn open(path: &CStr) -> Result<View, RegionError> {
        let (file, _) = open(path, libc::O_RDONLY)?;
        // SAFETY: the file is as long as a `Region`, and every byte pattern is a valid one.
        unsafe { map(&file, libc::PROT_READ) }.map(View)
    }

    /// See [`Region::is_foreign`].
    pub fn is_foreign(self) -> bool {
        self.0.is_foreign()
    }

    /// See [`Region::snapshot`].
    pub fn snapshot(self, now: Nanos) -> Snapshot {
        self.0.snapshot(now)
    }

    /// See [`Region::held_requests`].
    pub fn held_requests(self) -> u64 {
        self.0.held_requests()
    }

    /// See [`Region::held_request`].
    pub fn held_request(self, number: u64) -> Option<HeldRequest> {
        self.0.held_request(number)
    }

    /// See [`Region::held_records`].
    pub fn held_records(self) -> impl Iterator<Item = HeldRequest> {
        self.0.held_records()
    }

    /// The daemon's heartbeat.
    pub fn heartbeat(&self) -> &Heartbeat {
        &self.0.heartbeat
    }
}

/// A mapped region. It stays mapped for the life of the process: threads may sleep in it.
#[derive(Clone, Copy, Debug)]
pub struct Mapping(&'static Region);

impl core::ops::Deref for Mapping {
    type Target = Region;
    fn deref(&self) -> &Region {
        self.0
    }
}

impl Mapping {
    /// The region itself, for the life of the process.
    pub fn region(self) -> &'static Region {
        self.0
    }

    /// Makes a new region, readable and writable by its owner only.
    pub fn create(path: &CStr, owner: Option<(u32, u32)>) -> Result<Mapping, RegionError> {
        let file = create_file(path, size_of::<Region>(), owner)?;
        // SAFETY: the file is as long as a `Region`, and every byte pattern is a valid one: it is
        // made of integers, atomics and cells.
        let region: &Region = unsafe { map(&file, libc::PROT_READ | libc::PROT_WRITE)? };
        let header = &region.header;
        header.pid_ns.store(own_pid_ns(), Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        header.bytes.store(size_of::<Region>() as u64, Ordering::Relaxed);
        header.created_ns.store(clock::now().0, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Mapping(region))
    }

    /// Maps an existing region that was made in this PID namespace. Does not allocate.
    pub fn open(path: &CStr) -> Result<Mapping, RegionError> {
        let (file, pid_ns) = open(path, libc::O_RDWR)?;
        Mapping::of(&file, pid_ns)
    }

    /// The same for a process that cannot open the file: it asks the daemon ([`crate::handed`]).
    pub fn asked_for(token: &[u8; TOKEN], wanted: Wanted) -> Result<Mapping, RegionError> {
        let file = ask(token, wanted)?;
        let found = file.examine()?;
        Mapping::of(&file, check(&file, found)?)
    }

    fn of(file: &Descriptor, pid_ns: u64) -> Result<Mapping, RegionError> {
        if is_another(pid_ns) {
            return Err(RegionError::PidNamespace { found: pid_ns });
        }
        // SAFETY: the file is as long as a `Region`, and every byte pattern is a valid one.
        unsafe { map(file, libc::PROT_READ | libc::PROT_WRITE) }.map(Mapping)
    }
}

/// Opens a file that is a region of this build; also says the PID namespace it was made in.
fn open(path: &CStr, how: i32) -> Result<(Descriptor, u64), RegionError> {
    let (file, found) = Descriptor::open(path, how)?;
    let pid_ns = check(&file, found)?;
    Ok((file, pid_ns))
}

/// Checks that a file of so many bytes is a region of this build. Says the PID namespace it was
/// made in.
fn check(file: &Descriptor, found: u64) -> Result<u64, RegionError> {
    let wanted = size_of::<Region>() as u64;
    // The version first: it explains a size that differs.
    let mut head = [0u64; size_of::<Header>() / 8];
    let bytes = size_of_val(&head);
    // SAFETY: reads at most as many bytes as the buffer has.
    let read = unsafe { libc::pread(file.0, head.as_mut_ptr().cast(), bytes, 0) };
    if read == bytes as isize {
        if head[offset_of!(Header, magic) / 8] != MAGIC {
            return Err(RegionError::NoRegion);
        }
        let [a, b, c, d, ..] = head[offset_of!(Header, version) / 8].to_ne_bytes();
        let version = u32::from_ne_bytes([a, b, c, d]);
        if version != VERSION {
            return Err(RegionError::Version { found: version });
        }
    }
    if found != wanted {
        return Err(RegionError::Size { found, wanted });
    }
    Ok(head[offset_of!(Header, pid_ns) / 8])
}

/// Maps the file of a region.
///
/// # Safety
/// The file is at least as long as a `T`, and every byte pattern is a valid `T`.
pub(crate) unsafe fn map<T>(file: &Descriptor, protection: i32) -> Result<&'static T, RegionError> {
    // SAFETY: a fresh shared mapping of a file that is long enough.
    let start = unsafe {
        libc::mmap(core::ptr::null_mut(), size_of::<T>(), protection, libc::MAP_SHARED, file.0, 0)
    };
    if start == libc::MAP_FAILED {
        return Err(RegionError::System("cannot map the region", errno()));
    }
    // SAFETY: the mapping is page aligned, long enough, and never unmapped; the rest is the
    // caller's duty.
    Ok(unsafe { &*start.cast::<T>() })
}
