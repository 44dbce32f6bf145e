//! Queries of the system: mounts, file systems on a device, and features of the kernel.

use super::state::FileSystem;
use anyhow::{Context, Result, bail};
use headworks_volume::VolumeConfig;
use std::ffi::CString;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The source of the mount: a device or a name.
    pub source: PathBuf,
    /// Where.
    pub dir: PathBuf,
    /// The kind, for example `ext4` or `fuse`.
    pub kind: String,
}

/// Everything that is mounted.
pub fn mounts() -> Vec<Mounted> {
    let text = std::fs::read("/proc/self/mounts").unwrap_or_default();
    parse_mounts(&text)
}

/// Where the device of this number, `MAJOR:MINOR`, is mounted for a process.
pub fn mounts_of(pid: u32, number: &str) -> Vec<Mounted> {
    let text = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let of_device = |line: &[u8]| {
        // Number, parent, device, root, directory, options, tags, a dash, kind, source.
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let path = |field: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(unescape(field)));
        (*fields.get(2)? == number.as_bytes()).then_some(())?;
        Some(Mounted {
            source: path(fields.get(dash + 2)?),
            dir: path(fields.get(4)?),
            kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        })
    };
    text.split(|byte| *byte == b'\n').filter_map(of_device).collect()
}

/// Makes durable what the file system of this directory holds.
pub fn sync(dir: &Path) -> std::io::Result<()> {
    let dir = std::fs::File::open(dir)?;
    // SAFETY: an open descriptor.
    match unsafe { libc::syncfs(dir.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn parse_mounts(text: &[u8]) -> Vec<Mounted> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let path = |field: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(unescape(field)));
            let (source, dir) = (path(fields.next()?), path(fields.next()?));
            let kind = String::from_utf8_lossy(fields.next()?).into_owned();
            Some(Mounted { source, dir, kind })
        })
        .collect()
}

/// Blanks and backslashes are written as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let code = (*byte == b'\\' && after.len() >= 3)
            .then(|| std::str::from_utf8(&after[..3]).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = &after[3..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

/// Fails unless this user may mount and this kernel has FUSE and loop devices.
pub fn can_serve() -> Result<()> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        bail!("block devices and mounts are root's: run this command as root");
    }
    for (node, what, module) in [
        ("/dev/fuse", "FUSE (file systems in user space)", "fuse"),
        ("/dev/loop-control", "loop devices", "loop"),
    ] {
        if !Path::new(node).exists() {
            bail!(
                "{node} is missing: this kernel has no {what}, or its module is not loaded\n  \
                 load it: modprobe {module}; over NBD volumes need neither: headworks volume serve NAME \
                 --nbd unix:PATH"
            );
        }
    }
    Ok(())
}

/// Whether the kernel supports a file system; it may load a module for it.
pub fn knows(kind: &str) -> bool {
    let known = || {
        std::fs::read_to_string("/proc/filesystems").is_ok_and(|text| {
            text.lines().any(|line| line.trim_start_matches("nodev").trim() == kind)
        })
    };
    known() || {
        let _ = Command::new("modprobe").args(["-q", kind]).status();
        known()
    }
}

/// Mounts the device of a volume.
pub fn mount(device: &Path, dir: &Path, kind: FileSystem, volume: &VolumeConfig) -> Result<()> {
    let source = CString::new(device.as_os_str().as_bytes())?;
    let target = CString::new(dir.as_os_str().as_bytes())?;
    let name = CString::new(kind.name())?;
    // Inode tables that ext4 would write in the background disturb measurements. The memory of
    // what is deleted goes back at once.
    let options = match (kind, volume.in_memory()) {
        (FileSystem::Ext4, true) => c"noinit_itable,discard",
        (FileSystem::Ext4, false) => c"noinit_itable",
        (FileSystem::Xfs, true) => c"discard",
        (FileSystem::Xfs, false) => c"",
    };
    // Where it can be checked once the device is gone again.
    let image = if volume.is_nbd() { "DEVICE" } else { &volume.backing };
    // SAFETY: four C strings that outlive the call.
    let done = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), name.as_ptr(), 0, options.as_ptr().cast())
    };
    if done == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    let hint = match error.raw_os_error() {
        Some(libc::ENODEV) => format!("this kernel has no {0}: modprobe {0}", kind.name()),
        Some(libc::EINVAL | libc::EUCLEAN) => {
            format!("no valid file system found: dmesg | tail; {}", kind.check(image))
        }
        Some(libc::EBADMSG) => format!(
            "a checksum of the file system is wrong: a power cut may tear what is larger than a sector\n  \
             mend it: {}",
            kind.check(image)
        ),
        Some(libc::EIO) => "the volume fails: is a fault layer at work? dmesg | tail".to_owned(),
        _ => "dmesg | tail may say more".to_owned(),
    };
    Err(error).with_context(|| {
        format!("cannot mount {} on {}\n  {hint}", device.display(), dir.display())
    })
}

/// Unmounts a directory. `lazily`: even if it is in use; it then ends with its last user.
pub fn unmount(dir: &Path, lazily: bool) -> std::io::Result<()> {
    let target = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazily { libc::MNT_DETACH } else { 0 };
    // SAFETY: a C string that outlives the call.
    match unsafe { libc::umount2(target.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// What lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing but zeros at its beginning.
    Empty,
    /// One of our file systems.
    FileSystem(FileSystem),
    /// Something.
    Other,
}

/// Bytes checked at the beginning of a device. Every common file system, partition table and
/// database has something there.
const CHECKED_BYTES: usize = 128 << 10;

/// Checks the beginning of a device.
pub fn contents(device: &Path) -> Result<Contents> {
    let mut head = vec![0; CHECKED_BYTES];
    let mut file =
        std::fs::File::open(device).with_context(|| format!("cannot open {}", device.display()))?;
    let mut len = 0;
    while len < head.len() {
        match file.read(&mut head[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", device.display()));
            }
        }
    }
    Ok(contents_of(&head[..len]))
}

fn contents_of(head: &[u8]) -> Contents {
    if head.iter().all(|byte| *byte == 0) {
        Contents::Empty
    } else if head.starts_with(b"XFSB") {
        Contents::FileSystem(FileSystem::Xfs)
    } else if head.get(0x438..0x43a) == Some(&[0x53, 0xef]) {
        Contents::FileSystem(FileSystem::Ext4)
    } else {
        Contents::Other
    }
}

/// Makes a file system.
pub fn make_file_system(device: &Path, kind: FileSystem) -> Result<()> {
    let (program, package, arguments): (_, _, &[&str]) = match kind {
        FileSystem::Ext4 => ("mkfs.ext4", "e2fsprogs", &["-q", "-F"]),
        FileSystem::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(program)
        .args(arguments)
        .arg(device)
        // Users' paths often lack the directories of these programs.
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{program} is not installed: apt-get install {package}")
        }
        other => other.with_context(|| format!("cannot run {program}"))?,
    };
    if !output.status.success() {
        bail!(
            "{program} failed on {}:\n  {}",
            device.display(),
            String::from_utf8_lossy(&output.stderr).trim().replace('\n', "\n  ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_mount_points_are_read() {
        let text = b"/dev/loop3 /mnt/my\\040data\\134x ext4 rw 0 0\nnone /proc proc rw 0 0\n";
        let list = parse_mounts(text);
        assert_eq!(list[0].dir, Path::new("/mnt/my data\\x"));
        assert_eq!((list[0].kind.as_str(), list.len()), ("ext4", 2));
    }

    #[test]
    fn file_systems_are_known_by_their_marks() {
        let mut head = vec![0; CHECKED_BYTES];
        assert_eq!(contents_of(&head), Contents::Empty);
        head[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(contents_of(&head), Contents::FileSystem(FileSystem::Ext4));
        head[..4].copy_from_slice(b"XFSB");
        assert_eq!(contents_of(&head), Contents::FileSystem(FileSystem::Xfs));
        let mut other = vec![0; CHECKED_BYTES];
        other[CHECKED_BYTES - 1] = 1;
        assert_eq!(contents_of(&other), Contents::Other);
    }
}
