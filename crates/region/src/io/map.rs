//! Making, finding and mapping an I/O region.

use super::layout::IoRegion;
use crate::file::{Descriptor, RegionError, create_file};
use crate::handed::{TOKEN, Wanted, ask};
use crate::map::{is_another, map, own_pid_ns};
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use headworks_policy::layout::Layout;

/// First bytes of every I/O region.
const MAGIC: u64 = u64::from_le_bytes(*b"hdwrkio\x01");

const PROTECTION: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapped I/O region. It stays mapped for the life of the process: threads may sleep in it.
#[derive(Clone, Copy, Debug)]
pub struct IoMapping(&'static IoRegion);

impl core::ops::Deref for IoMapping {
    type Target = IoRegion;
    fn deref(&self) -> &IoRegion {
        self.0
    }
}

impl IoMapping {
    /// The region itself, for the life of the process.
    pub fn region(self) -> &'static IoRegion {
        self.0
    }

    /// Makes a new region, readable and writable by its owner only.
    pub fn create(path: &CStr, owner: Option<(u32, u32)>) -> Result<IoMapping, RegionError> {
        let file = create_file(path, size_of::<IoRegion>(), owner)?;
        // SAFETY: the file is as long as an `IoRegion`, and every byte pattern is a valid one: it
        // is made of integers, atomics and cells.
        let region: &IoRegion = unsafe { map(&file, PROTECTION)? };
        region.header.pid_ns.store(own_pid_ns(), Relaxed);
        region.header.version.store(IoRegion::HASH, Relaxed);
        region.header.bytes.store(size_of::<IoRegion>() as u64, Relaxed);
        region.header.magic.store(MAGIC, Release);
        Ok(IoMapping(region))
    }

    /// Maps an existing region. Does not allocate.
    pub fn open(path: &CStr) -> Result<IoMapping, RegionError> {
        let (file, found) = Descriptor::open(path, libc::O_RDWR)?;
        IoMapping::of(&file, found)
    }

    /// The same for a process that cannot open the file: it asks the daemon.
    pub fn asked_for(token: &[u8; TOKEN]) -> Result<IoMapping, RegionError> {
        let file = ask(token, Wanted::Io)?;
        let found = file.examine()?;
        IoMapping::of(&file, found)
    }

    fn of(file: &Descriptor, found: u64) -> Result<IoMapping, RegionError> {
        let wanted = size_of::<IoRegion>() as u64;
        if found != wanted {
            return Err(RegionError::Size { found, wanted });
        }
        // SAFETY: as above.
        let mapping = IoMapping(unsafe { map(file, PROTECTION)? });
        mapping.check(wanted).inspect_err(|_| {
            // SAFETY: no other code has this mapping yet.
            unsafe { mapping.unmap() };
        })?;
        Ok(mapping)
    }

    fn check(&self, wanted: u64) -> Result<(), RegionError> {
        let region = self.0;
        if region.header.magic.load(Acquire) != MAGIC || region.header.bytes.load(Relaxed) != wanted
        {
            return Err(RegionError::NoRegion);
        }
        let version = region.header.version.load(Relaxed);
        if version != IoRegion::HASH {
            return Err(RegionError::Layout { found: version, wanted: IoRegion::HASH });
        }
        let found = region.header.pid_ns.load(Relaxed);
        if is_another(found) {
            return Err(RegionError::PidNamespace { found });
        }
        Ok(())
    }

    /// Keeps it in memory, so that no look at it waits for the file system that it is on. Refused
    /// without the rights: then such a look may wait.
    pub fn stay_in_memory(&self) {
        // SAFETY: the mapping has this start and length.
        unsafe { libc::mlock(core::ptr::from_ref(self.0).cast(), size_of::<IoRegion>()) };
    }

    /// Takes the mapping away, for a process that only looks at regions of others.
    ///
    /// # Safety
    /// No copy of it and no reference into it is used afterwards.
    pub unsafe fn unmap(self) {
        // SAFETY: the mapping has this start and length; the rest is the caller's duty.
        unsafe {
            libc::munmap(core::ptr::from_ref(self.0).cast_mut().cast(), size_of::<IoRegion>())
        };
    }
}
