//! An instance: one directory for each database behind a gate. It holds the region, the control
//! socket and a note of how it was started.

use anyhow::{Context, Result, bail};
use headworks_region::io::IoMapping;
use headworks_region::{Mapping, RegionError, View, clock};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod run_dir;

use run_dir::{CHOOSE_RUN_DIR, make_run_dir, refuse_unreachable, run_dirs};
pub use run_dir::{KEEP_RUN_DIR, StartLock, goes_at_logout, run_dir};

/// Directory of one instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Its directory, which belongs to the database's user and is closed to others.
    pub dir: PathBuf,
}

/// What has this name below the run directory is no instance: volumes run there.
pub const VOLUMES: &str = "volumes";

/// How an instance was started; kept beside the region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Process of the database.
    pub server_pid: u32,
    /// When that process started, in clock ticks since boot: tells it from a later one that got
    /// the same number.
    pub server_started_ticks: u64,
    /// The command.
    pub command: Vec<String>,
    /// Absolute path of the configuration file.
    pub config: Option<PathBuf>,
    /// Port on which administrators pass.
    pub extra_port: Option<u16>,
    /// Name of the profile, and its file; `None` for a built-in profile.
    #[serde(default)]
    pub profile: String,
    /// See `profile`.
    #[serde(default)]
    pub profile_file: Option<PathBuf>,
    /// The daemon was started before the server, and stays when that ends (`headworks attend`).
    #[serde(default)]
    pub attended: bool,
    /// Threads get processor time by the weights of their sessions' classes.
    #[serde(default)]
    pub cpu_weights: bool,
    /// Shows the daemon that a process belongs to this instance (see [`headworks_region::handed`]).
    #[serde(default)]
    pub token: Option<String>,
}

impl Note {
    /// A note for a server that has attached; `None` if that has ended already.
    pub fn of_server(&self, server_pid: u32) -> Option<Note> {
        let server_started_ticks = started_ticks(server_pid)?;
        Some(Note { server_pid, server_started_ticks, ..self.clone() })
    }
}

/// Clock tick at which a process started; `None` if there is no such process, or only a zombie.
pub fn started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    if fields.first().is_some_and(|state| *state == "Z" || *state == "X") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

impl Instance {
    /// The instance of this name, whether it exists or not.
    pub fn named(name: &str) -> Result<Instance> {
        let plain = !name.is_empty()
            && name.len() <= 40
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !name.starts_with('.');
        if !plain {
            bail!(
                "`{name}` is no name for an instance: up to 40 letters, digits, `-`, `_` and `.`, not beginning with a dot"
            );
        }
        if name == VOLUMES {
            bail!("`{VOLUMES}` is where volumes run\n  choose another name: --name NAME");
        }
        Ok(Instance { name: name.to_owned(), dir: run_dir().join(name) })
    }

    /// All instances that this user can see on this machine, running or left over. Root sees those
    /// that other users started, too.
    pub fn all() -> Vec<Instance> {
        let mut all: Vec<Instance> = run_dirs()
            .iter()
            .filter_map(|dir| std::fs::read_dir(dir).ok())
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| {
                let named = Instance::named(&entry.file_name().to_string_lossy()).ok()?;
                Some(Instance { dir: entry.path(), ..named })
            })
            .filter(|instance| instance.region_path().exists())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The instance that a command is about: the named one, or the only one there is.
    pub fn find(name: Option<&str>) -> Result<Instance> {
        let all = Instance::all();
        if let Some(name) = name {
            let own = Instance::named(name)?;
            if own.region_path().exists() {
                return Ok(own);
            }
            let called: Vec<&Instance> = all.iter().filter(|one| one.name == name).collect();
            return match called.as_slice() {
                [one] => Ok((*one).clone()),
                [] => {
                    refuse_unreachable(Some(name))?;
                    bail!(
                        "there is no instance `{name}` in {}\n  {}",
                        run_dir().display(),
                        if all.is_empty() {
                            "none is running; start one: headworks run -- mariadbd …".to_owned()
                        } else {
                            format!("running: {}", names(&all))
                        }
                    )
                }
                several => {
                    let dir =
                        |one: &&Instance| one.dir.parent().map(|dir| dir.display().to_string());
                    let dirs: Vec<String> = several.iter().filter_map(dir).collect();
                    bail!(
                        "several users have an instance `{name}`\n  say whose: HEADWORKS_RUN_DIR={}",
                        dirs.join(" or ")
                    )
                }
            };
        }
        match all.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                refuse_unreachable(None)?;
                bail!(
                    "nothing runs by headworks (looked in {})\n  start a database: headworks run -- mariadbd …\n  \
                     or any program whose files it governs: headworks run --io split-deadline -- PROGRAM\n  \
                     instances of another user are only visible to that user and to root",
                    run_dir().display()
                )
            }
            _ => bail!("several instances run: {}\n  say which: --name NAME", names(&all)),
        }
    }

    /// The shared-memory region.
    pub fn region_path(&self) -> PathBuf {
        self.dir.join("region")
    }

    /// The control socket.
    pub fn socket_path(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    /// The socket for Prometheus.
    pub fn metrics_path(&self) -> PathBuf {
        self.dir.join("metrics.sock")
    }

    /// Log of the daemon's decisions (see [`crate::log`]). It is removed with the instance.
    pub fn log_path(&self) -> PathBuf {
        self.dir.join("daemon.log")
    }

    /// Path of the daemon's log, if there is one.
    pub fn log(&self) -> Option<String> {
        let path = self.log_path();
        path.exists().then(|| path.display().to_string())
    }

    fn note_path(&self) -> PathBuf {
        self.dir.join("instance.json")
    }

    /// How it was started.
    pub fn note(&self) -> Result<Note> {
        let path = self.note_path();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes how it was started, for the database's user to read. Only before
    /// [`Instance::hand_over`]: root must not write where another user may put links.
    pub fn write_note(&self, note: &Note, owner: Option<(u32, u32)>) -> Result<()> {
        let path = self.note_path();
        let text = serde_json::to_string_pretty(note)?;
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                match owner {
                    Some((uid, gid)) => std::os::unix::fs::fchown(&file, Some(uid), Some(gid)),
                    None => Ok(()),
                }
            })
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Replaces the note of one's own instance.
    pub fn rewrite_note(&self, note: &Note) -> Result<()> {
        let _ = std::fs::remove_file(self.note_path());
        self.write_note(note, None)
    }

    /// Whether its database runs.
    pub fn is_running(&self) -> bool {
        self.note()
            .is_ok_and(|note| started_ticks(note.server_pid) == Some(note.server_started_ticks))
    }

    /// The oldest process with the preloaded library that has mapped the region. A server maps the
    /// region at its start, and names itself there with its first client. Commands and daemons map
    /// it, too, but without the library.
    pub fn mapped_by(&self) -> Option<u32> {
        let pids = std::fs::read_dir("/proc")
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| self.is_mapped_by(pid) == Some(true))
            .filter_map(|pid| Some((started_ticks(pid)?, pid)))
            .min()
            .map(|(_, pid)| pid)
    }

    /// Whether a process with the preloaded library has mapped the region. `None` if this user may
    /// not know.
    pub fn is_mapped_by(&self, pid: u32) -> Option<bool> {
        let region = std::fs::metadata(self.region_path()).ok()?;
        let (device, inode) = (region.dev(), region.ino().to_string());
        let device = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let has_region = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(3);
            fields.next() == Some(&device) && fields.next() == Some(&inode)
        };
        Some(text.contains("libheadworks") && text.lines().any(has_region))
    }

    /// Maps its region.
    pub fn open_region(&self) -> Result<Mapping> {
        Mapping::open(&self.region_c_path()?).map_err(|error| self.explain(error))
    }

    /// Maps its region for reading, from any PID namespace.
    pub fn view_region(&self) -> Result<View> {
        View::open(&self.region_c_path()?).map_err(|error| self.explain(error))
    }

    fn region_c_path(&self) -> Result<CString> {
        Ok(CString::new(self.region_path().as_os_str().as_bytes())?)
    }

    fn explain(&self, error: RegionError) -> anyhow::Error {
        let mend = match error {
            RegionError::System(_, libc::EACCES) => {
                "it belongs to the database's user: run this command as that user or as root"
            }
            RegionError::Version { .. } | RegionError::Size { .. } => {
                "the database was started by another version of headworks: use that one, or restart the database"
            }
            RegionError::PidNamespace { .. } => {
                "from here its sessions would look dead. Run this command beside the database: \
                 docker exec CONTAINER headworks …\n  \
                 or, with the database's process: nsenter --target PID --pid --mount headworks …"
            }
            _ => "restart the database: headworks run -- …",
        };
        anyhow::anyhow!(
            "cannot use the region of instance `{}`: {error}\n  file: {}\n  {mend}",
            self.name,
            self.region_path().display(),
        )
    }

    /// Whether it was made in another PID namespace. It is then unknown whether its processes live.
    pub fn is_foreign(&self) -> bool {
        self.view_region().is_ok_and(View::is_foreign)
    }

    /// Whether a daemon in another PID namespace sends heartbeats. Waits long enough to notice a
    /// daemon that was just killed.
    pub fn lives_elsewhere(&self) -> bool {
        let Some(view) = self.view_region().ok().filter(|view| view.is_foreign()) else {
            return false;
        };
        let sign = || view.heartbeat().alive_ns.load(Ordering::Relaxed);
        let first = sign();
        while !view.heartbeat().stale(clock::now()) {
            if sign() != first {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Fails if it lives in another PID namespace.
    pub fn refuse_elsewhere(&self) -> Result<()> {
        if self.lives_elsewhere() {
            bail!(
                "instance `{}` runs already, in another PID namespace (another container, or the host)\n  \
                 give this one another name (--name NAME) or directory (HEADWORKS_RUN_DIR=…)\n  \
                 or run both in one namespace: docker run --pid=container:NAME, shareProcessNamespace in Kubernetes",
                self.name
            );
        }
        Ok(())
    }

    /// Makes its directory, which still belongs to the caller, and its region for the database's
    /// user.
    pub fn create(&self, owner: Option<(u32, u32)>) -> Result<Mapping> {
        std::fs::create_dir(&self.dir)
            .with_context(|| format!("cannot make {}\n  {CHOOSE_RUN_DIR}", self.dir.display()))?;
        std::fs::set_permissions(&self.dir, std::fs::Permissions::from_mode(0o700))?;
        let path = CString::new(self.region_path().as_os_str().as_bytes())?;
        Ok(Mapping::create(&path, owner)?)
    }

    /// Makes the region of the I/O scheduler.
    pub fn create_io(&self, owner: Option<(u32, u32)>) -> Result<IoMapping> {
        let path = CString::new(self.io_path().as_os_str().as_bytes())?;
        Ok(IoMapping::create(&path, owner)?)
    }

    /// The region of the I/O scheduler of a running instance.
    pub fn open_io(&self) -> Result<IoMapping> {
        let path = self.io_path();
        if !path.exists() {
            bail!(
                "the files of instance `{}` are not governed\n  \
                 start it with a scheduler: headworks run --io split-deadline -- … (a service: headworks enable --io)",
                self.name
            );
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        IoMapping::open(&path).with_context(|| {
            format!("the I/O region of `{}` is of another version; restart the program", self.name)
        })
    }

    /// Where the region of the I/O scheduler is.
    pub fn io_path(&self) -> PathBuf {
        self.dir.join("io")
    }

    /// As [`Instance::create`], for the caller's own user, in a directory that may exist.
    pub fn create_in_place(&self) -> Result<Mapping> {
        if self.dir.is_dir() {
            let path = CString::new(self.region_path().as_os_str().as_bytes())?;
            return Ok(Mapping::create(&path, None)?);
        }
        if let Some(parent) = self.dir.parent() {
            make_run_dir(parent)?;
        }
        self.create(None)
    }

    /// Removes the files of an earlier instance from the directory, except its log.
    pub fn empty(&self) -> Result<()> {
        let own = [
            self.region_path(),
            self.io_path(),
            self.socket_path(),
            self.metrics_path(),
            self.note_path(),
        ];
        for path in own {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives the directory to the database's user, who may change anything in it from then on.
    pub fn hand_over(&self, owner: Option<(u32, u32)>) -> Result<()> {
        let Some((uid, gid)) = owner else { return Ok(()) };
        std::os::unix::fs::chown(&self.dir, Some(uid), Some(gid))
            .with_context(|| format!("cannot give {} to the database's user", self.dir.display()))
    }

    /// Owner of the instance's directory.
    pub fn owner(&self) -> Result<(u32, u32)> {
        let meta = std::fs::metadata(&self.dir)?;
        Ok((meta.uid(), meta.gid()))
    }

    /// Removes everything that belongs to the instance.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn names(instances: &[Instance]) -> String {
    instances.iter().map(|instance| instance.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_the_run_directory() {
        for bad in ["", "..", "a/b", ".hidden", "a b", VOLUMES, &"x".repeat(41)] {
            assert!(Instance::named(bad).is_err(), "{bad}");
        }
        assert!(Instance::named("mariadbd-2.test").is_ok());
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = std::process::id();
        assert!(started_ticks(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started_ticks(u32::MAX - 1), None);
    }
}
