//! Kernel features for parts other than the gate: measurements, files and storage. The gate works
//! without them.

use super::Finding;
use super::machine::read;
use crate::cgroup::{Place, Refusal};
use std::path::Path;

pub(super) fn all() -> Vec<Finding> {
    vec![pressure(), cgroup(), cpu_weights(), cachestat()]
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
    let (name, what) = ("cgroup v2", "rules of `[[io.thread]]` for control groups");
    let mounted = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|place| Path::new(place).join("cgroup.controllers").exists());
    match mounted {
        Some(place) => Finding::ok(name, format!("mounted at {place}: {what}")),
        None => Finding::warning(
            name,
            format!("not mounted: {what}"),
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
    let (name, what) =
        ("cachestat", "schedulers of files (`--io`) see by it what is dirty and what is cached");
    if result == -1 && errno == Some(libc::EBADF) {
        return Finding::ok(name, format!("there: {what}"));
    }
    Finding::warning(
        name,
        format!("this kernel does not have it (Linux 6.5 does): {what}"),
        "sudo apt-get install -t bookworm-backports linux-image-amd64   # then restart the machine",
    )
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
