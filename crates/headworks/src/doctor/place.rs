//! Where instances live, and which ones exist.

use super::Finding;
use crate::instance::{Instance, VOLUMES};
use crate::preflight::socket_in_use;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(super) fn run_directory(dir: &Path) -> Vec<Finding> {
    vec![writable(dir), memory(dir)]
}

/// The directory itself, or its nearest existing parent.
fn existing(dir: &Path) -> &Path {
    dir.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"))
}

fn c_path(path: &Path) -> CString {
    // A path with a zero byte names no file; an empty path has the same result.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

fn writable(dir: &Path) -> Finding {
    let name = "run directory";
    let (there, shown) = (existing(dir), dir.display());
    let mode = std::fs::metadata(there).map_or(0, |meta| meta.permissions().mode());
    // SAFETY: the path is a C string that outlives the call.
    let writes = unsafe {
        libc::faccessat(
            libc::AT_FDCWD,
            c_path(there).as_ptr(),
            libc::W_OK | libc::X_OK,
            libc::AT_EACCESS,
        ) == 0
    };
    if !there.is_dir() {
        let detail = format!("{} is a file, so {shown} cannot be made", there.display());
        return Finding::missing(name, detail, format!("rm {}", there.display()));
    }
    if !writes {
        return Finding::missing(
            name,
            format!(
                "{} belongs to others: this user cannot put an instance into {shown}",
                there.display()
            ),
            "export HEADWORKS_RUN_DIR=/dev/shm/headworks-$(id -u)   # or run Headworks with sudo",
        );
    }
    if there == dir && mode & 0o022 != 0 && mode & libc::S_ISVTX == 0 {
        return Finding::warning(
            name,
            format!("{shown} has mode {:04o}: others could replace an instance", mode & 0o7777),
            format!("chmod go-w {shown}"),
        );
    }
    let state = if there == dir {
        format!("mode {:04o}", mode & 0o7777)
    } else {
        "will be made".to_owned()
    };
    Finding::ok(name, format!("{shown} ({state})"))
}

/// The region is written all the time. On a disk's file system the kernel would write it back.
fn memory(dir: &Path) -> Finding {
    let name = "shared memory";
    let there = existing(dir);
    // SAFETY: all zero bytes are a valid buffer, and the path is a C string.
    let in_memory = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        libc::statfs(c_path(there).as_ptr(), &raw mut stat) == 0 && stat.f_type == libc::TMPFS_MAGIC
    };
    if in_memory {
        return Finding::ok(name, format!("{} is in memory (tmpfs)", there.display()));
    }
    Finding::warning(
        name,
        format!(
            "{} lies on a disk: the kernel would keep writing the region to it",
            there.display()
        ),
        match Path::new("/dev/shm").is_dir() {
            true => "export HEADWORKS_RUN_DIR=/dev/shm/headworks-$(id -u)",
            false => "sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        },
    )
}

/// What crashed volumes left.
pub(super) fn volumes() -> Option<Finding> {
    let left = crate::volume::left();
    let detail = format!("left by crashed volumes: {}", left.join(", "));
    let mend = "headworks volume doctor";
    (!left.is_empty()).then(|| Finding::warning("volumes", detail, mend))
}

pub(super) fn instances(dir: &Path) -> Vec<Finding> {
    let name = "instances";
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return vec![Finding::ok(name, "none")];
        }
        Err(error) => {
            let detail = format!("cannot look into {}: {error}", dir.display());
            return vec![Finding::warning(name, detail, "sudo headworks doctor")];
        }
    };
    let mut found: Vec<Finding> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir() && entry.file_name() != VOLUMES)
        .map(|entry| instance(&entry.file_name().to_string_lossy(), &entry.path()))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.is_empty() {
        found.push(Finding::ok(name, "none"));
    }
    found
}

fn instance(name: &str, dir: &Path) -> Finding {
    let instance = Instance { name: name.to_owned(), dir: dir.to_owned() };
    let title = format!("instance {name}");
    if let Err(error) = std::fs::read_dir(dir) {
        return Finding::ok(&title, format!("of another user: {error}"));
    }
    if instance.is_foreign() {
        let detail = match instance.lives_elsewhere() {
            true => "runs in another PID namespace: only reading commands work from here",
            false => "of another PID namespace, and its daemon sends no heartbeat",
        };
        return Finding::ok(&title, detail);
    }
    if instance.view_region().is_ok_and(|view| view.heartbeat().ungoverned()) {
        return Finding::warning(
            &title,
            "its server was started by another version of Headworks: all requests pass until it is restarted",
            format!("sudo systemctl restart {name}"),
        );
    }
    if let Ok(note) = instance.note() {
        let beside = || crate::daemon::beside(instance.open_region().ok()?.region(), &note);
        if let Some(ungoverned) = crate::daemon::outside(&instance, note.server_pid).or_else(beside)
        {
            return Finding::warning(&title, ungoverned, "headworks status");
        }
    }
    let mut unheld = crate::io::unheld(&instance);
    unheld.retain(|line| line.starts_with("not governed"));
    if unheld.iter().any(|line| line.contains("io_uring")) {
        return Finding::warning(
            &title,
            format!(
                "{}. The library does not see what a program puts into such a ring: it is linked \
                 with liburing itself, calls the kernel directly, or lets a thread of the kernel \
                 empty the ring",
                unheld.join("; ")
            ),
            "let the program do without io_uring, for example: innodb_use_native_aio = OFF",
        );
    }
    if !unheld.is_empty() {
        return Finding::warning(&title, unheld.join("; "), super::programs::GOVERN_ANOTHER);
    }
    match (instance.is_running(), socket_in_use(&instance.socket_path()).is_some()) {
        (true, true) => Finding::ok(&title, "runs, and its daemon listens"),
        (true, false) => Finding::warning(
            &title,
            match crate::io::holds(&instance) {
                Some(scheduler) => format!(
                    "its database runs, but its daemon does not: all requests pass. Calls on files \
                     need no daemon: {scheduler} still holds them. To let them pass, too: headworks \
                     io set --scheduler noop --name {name}"
                ),
                None => "its database runs, but its daemon does not: all requests pass".to_owned(),
            },
            format!("headworks daemon --name {name}"),
        ),
        (false, true) => Finding::warning(
            &title,
            "its database is gone, but its daemon still listens; it should end soon",
            format!("headworks status --name {name}"),
        ),
        (false, false) => Finding::warning(
            &title,
            "left behind: neither its database nor its daemon runs",
            format!("rm -r {}", dir.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("headworks-place-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_directory_that_does_not_exist_yet_will_be_made() {
        let finding = writable(&scratch("absent").join("deeper"));
        assert!(
            finding.state == State::Ok && finding.detail.contains("will be made"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_directory_that_others_may_write_is_warned_of() {
        let dir = scratch("open");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        let open = writable(&dir);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        let closed = writable(&dir);
        std::fs::remove_dir(&dir).unwrap();
        assert!(open.state == State::Warning && open.detail.contains("0777"), "{open:?}");
        assert!(closed.state == State::Ok && closed.detail.contains("0700"), "{closed:?}");
    }

    #[test]
    fn a_file_in_the_way_is_found() {
        let file = scratch("file");
        std::fs::write(&file, b"").unwrap();
        let finding = writable(&file.join("headworks"));
        std::fs::remove_file(&file).unwrap();
        assert!(finding.is_missing() && finding.mend.unwrap().starts_with("rm "));
    }

    #[test]
    fn an_instance_left_behind_is_found_and_volumes_are_none() {
        let dir = scratch("run");
        std::fs::create_dir_all(dir.join("old")).unwrap();
        // What runs there would be out of reach.
        std::fs::create_dir_all(dir.join(VOLUMES).join("disk")).unwrap();
        let found = instances(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].detail.contains("left behind"), "{found:?}");
        assert_eq!(instances(&dir), [Finding::ok("instances", "none")]);
    }
}
