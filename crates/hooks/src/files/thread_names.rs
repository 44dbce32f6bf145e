//! The name by which rules know a thread.

use crate::room::Room;
use core::ffi::CStr;
use headworks_region::io::{IoRegion, Names};
use headworks_region::text::{TEXT_BYTES, Text};
use headworks_region::thread;

/// Of the calling thread. They are put where they belong, as its stack may be small.
#[cold]
pub(super) fn of_this_thread(region: &IoRegion, names: &mut Names) {
    // SAFETY: the room has the 16 bytes that the call writes, with a zero at the end.
    unsafe { libc::prctl(libc::PR_GET_NAME, names.name.room().as_mut_ptr()) };
    read(c"/proc/self/cmdline", names.title.room());
    let class = thread::with(|words| words.class.get()).checked_sub(1).and_then(|class| {
        let gate = crate::process::region()?;
        gate.classes.get(usize::from(class))
    });
    if let Some(class) = class {
        names.class = class.name.get();
    }
    if region.asks_for_cgroups()
        && let Some(mut groups) = Room::<[u8; 1024]>::make()
    {
        let cgroup = cgroup_of(read(c"/proc/self/cgroup", &mut *groups));
        names.cgroup = Text::new(&cgroup[cgroup.len().saturating_sub(TEXT_BYTES)..]);
    }
}

/// The path in the line of the unified hierarchy, `0::/system.slice/db.service`.
fn cgroup_of(text: &[u8]) -> &[u8] {
    let lines = text.split(|byte| *byte == b'\n');
    lines.into_iter().find_map(|line| line.strip_prefix(b"0::")).unwrap_or(&[])
}

/// The beginning of a file. By system calls: `open`, `read` and `close` are hooks of ours.
fn read<'a>(path: &CStr, into: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: the path is a C string, the buffer has its length, the descriptor is ours.
    unsafe {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let fd = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags);
        if fd < 0 {
            return &[];
        }
        let count = libc::syscall(libc::SYS_read, fd, into.as_mut_ptr(), into.len());
        libc::syscall(libc::SYS_close, fd);
        &into[..usize::try_from(count).unwrap_or(0).min(into.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_is_that_of_the_unified_hierarchy() {
        assert_eq!(cgroup_of(b"1:name=x:/y\n0::/a.slice/b.service\n"), b"/a.slice/b.service");
        assert_eq!(cgroup_of(b"5:cpu:/a\n"), b"");
        assert_eq!(cgroup_of(b""), b"");
    }
}
