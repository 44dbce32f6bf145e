//! Kernel, cores, C library, clock, limits.

use super::Finding;
use std::path::Path;

/// Oldest kernel that has all that the gate needs.
const KERNEL_LEAST: (u32, u32) = (5, 4);

/// Descriptors for a few hundred clients, their tables and logs.
const DESCRIPTORS_LEAST: u64 = 4096;

/// Contents of a small file in `/proc` or `/sys`, without the line's end.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}

pub(super) fn kernel() -> Finding {
    judge_kernel(&read("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn judge_kernel(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= KERNEL_LEAST => {
            Finding::ok("kernel", format!("Linux {release}"))
        }
        _ => Finding::warning(
            "kernel",
            format!(
                "Linux `{release}` is older than {}.{}, with which the gate was never run",
                KERNEL_LEAST.0, KERNEL_LEAST.1
            ),
            "sudo apt-get install linux-image-amd64   # then restart the machine",
        ),
    }
}

pub(super) fn cores() -> Finding {
    let cores = crate::config::cores();
    Finding::ok("cores", format!("{cores} may be used"))
}

pub(super) fn c_library() -> Finding {
    let name = "C library";
    if cfg!(target_env = "gnu") {
        return Finding::ok(name, format!("glibc {}", glibc_version()));
    }
    Finding::warning(
        name,
        "this Headworks is built against another C library than glibc; only servers with the same one can be governed",
        "rustup target add x86_64-unknown-linux-gnu && make build",
    )
}

#[cfg(target_env = "gnu")]
fn glibc_version() -> String {
    // SAFETY: returns a constant text that ends with a zero byte.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

#[cfg(not(target_env = "gnu"))]
fn glibc_version() -> String {
    String::new()
}

pub(super) fn clock() -> Finding {
    judge_clock(read("/sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref())
}

/// The gate reads the clock twice for each request.
fn judge_clock(source: Option<&str>) -> Finding {
    let name = "clock";
    match source {
        Some(
            source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"),
        ) => Finding::ok(name, format!("{source}: read without a system call")),
        Some(slow @ ("hpet" | "acpi_pm" | "xen" | "jiffies" | "refined-jiffies")) => {
            Finding::warning(
                name,
                format!(
                    "{slow}: each reading of the clock is a system call, and the gate reads it for each request"
                ),
                "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
            )
        }
        Some(other) => {
            Finding::ok(name, format!("{other}: not known; `make bench-shim` shows what it costs"))
        }
        None => Finding::ok(
            name,
            "this kernel does not tell its source; `make bench-shim` shows what it costs",
        ),
    }
}

pub(super) fn descriptors() -> Finding {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    judge_descriptors(limit.rlim_cur, limit.rlim_max)
}

fn judge_descriptors(soft: u64, hard: u64) -> Finding {
    let shown = |limit: u64| {
        if limit == libc::RLIM_INFINITY { "unlimited".to_owned() } else { limit.to_string() }
    };
    let detail = format!("ulimit -n is {} (at most {})", shown(soft), shown(hard));
    if soft >= DESCRIPTORS_LEAST {
        return Finding::ok("open files", detail);
    }
    Finding::warning(
        "open files",
        format!("{detail}: each client needs one"),
        match hard >= DESCRIPTORS_LEAST {
            true => "ulimit -n $(ulimit -Hn)   # in the shell that starts the server".to_owned(),
            false => "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/headworks.conf   # then log in again".to_owned(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn kernels() {
        for (release, state) in [
            ("6.1.0-18-amd64", State::Ok),
            ("5.4.0", State::Ok),
            ("5.3.9", State::Warning),
            ("4.19.0", State::Warning),
            ("10.0-rc1", State::Ok),
            ("", State::Warning),
        ] {
            assert_eq!(judge_kernel(release).state, state, "{release}");
        }
    }

    #[test]
    fn clocks() {
        for (source, state) in [
            (Some("tsc"), State::Ok),
            (Some("kvm-clock"), State::Ok),
            (Some("hpet"), State::Warning),
            (Some("acpi_pm"), State::Warning),
            (None, State::Ok),
        ] {
            assert_eq!(judge_clock(source).state, state, "{source:?}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(judge_descriptors(65_536, 65_536).state, State::Ok);
        assert!(judge_descriptors(1024, 65_536).mend.unwrap().starts_with("ulimit -n"));
        assert!(judge_descriptors(1024, 1024).mend.unwrap().contains("limits.d"));
        assert!(
            judge_descriptors(libc::RLIM_INFINITY, libc::RLIM_INFINITY)
                .detail
                .contains("unlimited")
        );
    }
}
