//! Where the group of a process lies in the file system of control groups, and whether groups with
//! CPU weights can be made below it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller; any thread goes anywhere.
    V1,
    /// One hierarchy; threads of a process stay below its group, in *threaded* ones.
    V2,
}

impl Version {
    /// 1 or 2.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}

/// The group of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Version of the interface.
    pub version: Version,
    /// Its directory.
    pub dir: PathBuf,
}

/// Why there are no groups, and the command that mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way.
    pub reason: String,
    /// What to do about it.
    pub mend: Option<String>,
}

impl Refusal {
    pub(super) fn new(reason: impl Into<String>, mend: Option<&str>) -> Refusal {
        Refusal { reason: reason.into(), mend: mend.map(str::to_owned) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Finds the group of a process, and checks whether groups with weights can be made below it.
/// Changes nothing.
pub fn locate(pid: u32) -> Result<Place, Refusal> {
    let read = |path: String| std::fs::read(&path).unwrap_or_default();
    let place =
        place(&read("/proc/self/mountinfo".to_owned()), &read(format!("/proc/{pid}/cgroup")))?;
    usable(&place)?;
    Ok(place)
}

/// A mounted hierarchy.
struct Mounted<'a> {
    /// The part of the hierarchy that is mounted, and where.
    root: PathBuf,
    dir: PathBuf,
    kind: &'a [u8],
    options: &'a [u8],
}

/// Lines of `/proc/self/mountinfo`: proc_pid_mountinfo(5).
fn mounts(mountinfo: &[u8]) -> impl Iterator<Item = Mounted<'_>> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = words.iter().position(|word| *word == b"-")?;
        let path = |word: &[u8]| PathBuf::from(OsString::from_vec(word.to_vec()));
        Some(Mounted {
            root: path(words.get(3)?),
            dir: path(words.get(4)?),
            kind: words.get(dash + 1)?,
            options: words.get(dash + 3)?,
        })
    })
}

/// From the mounts and a process's `/proc/PID/cgroup` to its group. A CPU controller of version 1
/// is searched for first: a controller belongs to one version at a time.
fn place(mountinfo: &[u8], cgroup: &[u8]) -> Result<Place, Refusal> {
    let listed =
        |list: &[u8], name: &[u8]| list.split(|byte| *byte == b',').any(|word| word == name);
    let lines = || {
        cgroup.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b':');
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
    };
    let below = |mounted: &Mounted<'_>, path: &[u8]| {
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        // A container sees only a part of the hierarchy.
        let rest = path.strip_prefix(&mounted.root).ok()?.to_owned();
        Some(if rest.as_os_str().is_empty() { mounted.dir.clone() } else { mounted.dir.join(rest) })
    };
    for (_, _, path) in lines().filter(|(_, controllers, _)| listed(controllers, b"cpu")) {
        let mounted =
            mounts(mountinfo).filter(|m| m.kind == b"cgroup" && listed(m.options, b"cpu"));
        if let Some(dir) = mounted.filter_map(|mounted| below(&mounted, path)).next() {
            return Ok(Place { version: Version::V1, dir });
        }
    }
    for (_, _, path) in lines().filter(|(number, names, _)| *number == b"0" && names.is_empty()) {
        let mounted = mounts(mountinfo).filter(|mounted| mounted.kind == b"cgroup2");
        if let Some(dir) = mounted.filter_map(|mounted| below(&mounted, path)).next() {
            return Ok(Place { version: Version::V2, dir });
        }
    }
    Err(Refusal::new(
        "no hierarchy of control groups is mounted that this process can see",
        Some("sudo mount -t cgroup2 none /sys/fs/cgroup   # or, in a container, allow it there"),
    ))
}

/// Whether groups with CPU weights can be made there.
fn usable(place: &Place) -> Result<(), Refusal> {
    let Place { version, dir } = place;
    let shown = dir.display();
    if *version == Version::V2 {
        let controllers =
            std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            let above = dir.parent().unwrap_or(dir).join("cgroup.subtree_control");
            return Err(Refusal {
                reason: format!("the group {shown} has no CPU controller of version 2"),
                mend: Some(format!("echo +cpu | sudo tee {}", above.display())),
            });
        }
    } else if !dir.join("cpu.shares").exists() {
        return Err(Refusal::new(
            format!(
                "{shown} has no `cpu.shares`: this kernel is built without CONFIG_FAIR_GROUP_SCHED"
            ),
            Some("sudo apt-get install linux-image-amd64   # Debian's kernels have it"),
        ));
    }
    if !writable(dir) {
        return Err(Refusal::new(
            format!("this user cannot make groups in {shown}"),
            Some("sudo headworks run --cgroups …   # or give the service `Delegate=cpu`"),
        ));
    }
    Ok(())
}

fn writable(dir: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else { return false };
    let how = libc::W_OK | libc::X_OK;
    // SAFETY: the path is a C string that outlives the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), how, libc::AT_EACCESS) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[u8] = b"25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        26 25 0:23 / /sys/fs/cgroup/cpuset rw shared:5 - cgroup cgroup rw,cpuset\n\
        27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct\n\
        28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2: &[u8] =
        b"30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_controller_of_version_1_is_found_by_its_name() {
        let found = place(V1, b"3:cpuset:/\n2:cpu,cpuacct:/system/db\n0::/x\n").unwrap();
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.dir, Path::new("/sys/fs/cgroup/cpu,cpuacct/system/db"));
        // `cpuset` is not `cpu`.
        let found = place(V1, b"3:cpuset:/\n0::/x\n").unwrap();
        assert_eq!(
            (found.version, found.dir.as_path()),
            (Version::V2, Path::new("/sys/fs/cgroup/unified/x"))
        );
    }

    #[test]
    fn the_one_hierarchy_of_version_2_is_found() {
        let found = place(V2, b"0::/system.slice/mariadb.service\n").unwrap();
        assert_eq!(found.version, Version::V2);
        assert_eq!(found.dir, Path::new("/sys/fs/cgroup/system.slice/mariadb.service"));
        let found = place(V2, b"0::/\n").unwrap();
        assert_eq!(found.dir, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn a_container_sees_a_part() {
        let part = b"30 20 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let found = place(part, b"0::/docker/abc/db\n").unwrap();
        assert_eq!(found.dir, Path::new("/sys/fs/cgroup/db"));
        // Outside of what is mounted there is nothing to write to.
        assert!(place(part, b"0::/docker/other\n").is_err());
    }

    #[test]
    fn without_a_hierarchy_it_says_what_to_mount() {
        let refusal = place(b"", b"0::/\n").unwrap_err();
        assert!(refusal.mend.unwrap().contains("mount -t cgroup2"));
    }

    #[test]
    fn what_is_missing_in_a_group_is_named() {
        let dir = std::env::temp_dir().join(format!("headworks-hierarchy-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let on = |version| usable(&Place { version, dir: dir.clone() });
        let refusal = on(Version::V1).unwrap_err();
        assert!(refusal.reason.contains("cpu.shares"), "{refusal}");
        std::fs::write(dir.join("cgroup.controllers"), "memory pids\n").unwrap();
        let refusal = on(Version::V2).unwrap_err();
        assert!(refusal.reason.contains("no CPU controller"), "{refusal}");
        assert!(refusal.mend.unwrap().contains("echo +cpu"));
        std::fs::write(dir.join("cgroup.controllers"), "cpuset cpu\n").unwrap();
        assert_eq!(on(Version::V2), Ok(()));
        std::fs::write(dir.join("cpu.shares"), "1024\n").unwrap();
        assert_eq!(on(Version::V1), Ok(()));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
