//! Kernel features for parts other than the gate: measurements and storage. The gate works without
//! them.

use super::Finding;
use super::machine::read;
use crate::cgroup::{Place, Refusal};
use std::os::fd::AsRawFd;
use std::path::Path;

pub(super) fn all() -> Vec<Finding> {
    vec![pressure(), cgroup(), cpu_weights(), cachestat(), nowait(), tracefs(), bpf()]
}

/// Adds what a feature is used for.
fn later(found: &str, for_what: &str) -> String {
    format!("{found}; used by later parts: {for_what}")
}

fn pressure() -> Finding {
    let (name, what) = ("pressure (PSI)", "experiments note with it how busy the machine was");
    if read("/proc/pressure/cpu").is_some() {
        return Finding::ok(name, format!("/proc/pressure is there: {what}"));
    }
    Finding::warning(
        name,
        format!("/proc/pressure is not readable: {what}"),
        "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&psi=1 /' /etc/default/grub && sudo update-grub   # then restart the machine",
    )
}

fn cpu_weights() -> Finding {
    cpu_weights_finding(crate::cgroup::locate(std::process::id()))
}

fn cpu_weights_finding(found: Result<Place, Refusal>) -> Finding {
    let (name, what) =
        ("CPU weights", "processor time by weights of classes, `headworks run --cgroups`");
    match found {
        Ok(Place { version, dir }) => Finding::ok(
            name,
            format!(
                "control groups, version {}, below {}: {what}",
                version.number(),
                dir.display()
            ),
        ),
        Err(Refusal { reason, mend }) => Finding::warning(
            name,
            format!("{reason}: {what}"),
            mend.unwrap_or_else(|| "sudo headworks doctor".to_owned()),
        ),
    }
}

fn cgroup() -> Finding {
    let (name, what) = ("cgroup v2", "limits of memory and I/O in storage experiments");
    let mounted = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|place| Path::new(place).join("cgroup.controllers").exists());
    match mounted {
        Some(place) => Finding::ok(name, later(&format!("mounted at {place}"), what)),
        None => Finding::warning(
            name,
            later("not mounted", what),
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&systemd.unified_cgroup_hierarchy=1 /' /etc/default/grub && sudo update-grub   # then restart",
        ),
    }
}

/// Number of the system call, the same on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

fn cachestat() -> Finding {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: with a descriptor that is none the kernel stops before it reads any pointer.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, -1, none, none, 0) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    let (name, what) = ("cachestat", "counts of dirty pages for write scheduling");
    if result == -1 && errno == Some(libc::EBADF) {
        return Finding::ok(name, later("there", what));
    }
    Finding::warning(
        name,
        later("this kernel does not have it (Linux 6.5 does)", what),
        newer_kernel(),
    )
}

fn newer_kernel() -> &'static str {
    "sudo apt-get install -t bookworm-backports linux-image-amd64   # then restart the machine"
}

fn nowait() -> Finding {
    let (name, what) = ("RWF_NOWAIT", "tells whether a read would find its page in memory");
    if nowait_works().unwrap_or(false) {
        return Finding::ok(name, later("there", what));
    }
    Finding::warning(
        name,
        later("not there, or not for the file system of this program", what),
        newer_kernel(),
    )
}

fn nowait_works() -> std::io::Result<bool> {
    let file = std::fs::File::open(std::env::current_exe()?)?;
    let mut buffer = [0u8; 16];
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the vector names one buffer that outlives the call, and the descriptor is open.
    let result =
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, 0, libc::RWF_NOWAIT) };
    let would_wait = std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
    Ok(result >= 0 || would_wait)
}

fn tracefs() -> Finding {
    let (name, what) = ("tracefs", "tracepoints of the block layer and the scheduler");
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Finding::ok(name, later("only root can see it", what));
    }
    match places.into_iter().find(|place| Path::new(place).join("events").is_dir()) {
        Some(place) => Finding::ok(name, later(&format!("mounted at {place}"), what)),
        None => Finding::warning(
            name,
            later("not mounted", what),
            "sudo mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}

fn bpf() -> Finding {
    let (name, what) = ("eBPF", "tracing wake-ups, and the causes of disk writes");
    let types = Path::new("/sys/kernel/btf/vmlinux").exists();
    let unprivileged = read("/proc/sys/kernel/unprivileged_bpf_disabled");
    match (types, unprivileged) {
        (true, Some(_)) => {
            Finding::ok(name, later("there, with type information (BTF); needs root", what))
        }
        (_, None) => Finding::warning(
            name,
            later("this kernel is built without it", what),
            "sudo apt-get install linux-image-amd64   # then restart the machine",
        ),
        (false, _) => Finding::warning(
            name,
            later("there, without type information (BTF)", what),
            "sudo apt-get install linux-image-amd64   # Debian's kernels have it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn cpu_weights_are_there_or_missing_with_the_command_that_gives_them() {
        let here = crate::cgroup::locate(std::process::id());
        assert_eq!(cpu_weights_finding(here.clone()).state == State::Ok, here.is_ok());
        let refusal = Refusal { reason: "no".to_owned(), mend: Some("echo +cpu".to_owned()) };
        let missing = cpu_weights_finding(Err(refusal));
        assert_eq!((missing.state, missing.mend.as_deref()), (State::Warning, Some("echo +cpu")));
    }
}
