//! Initialised data directories: made once, and copied for every server.
//!
//! `mariadb-install-db` takes seconds; copying its result takes a fraction of one. The template is
//! kept per server version in a cache directory that only its owner can write. It gets its name
//! there by rename, so that several test processes may race for it.

use std::collections::hash_map::DefaultHasher;
use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io};

use anyhow::{Context, Result, bail, ensure};

use crate::programs::Programs;

/// The account of a server that root starts, as MariaDB and memcached refuse to run as root.
pub(crate) const UNPRIVILEGED: &str = "nobody";

/// The redo log of a template. A server makes its own of the right size when it starts; a small one
/// copies fast.
const TEMPLATE_REDO_LOG: &str = "--innodb-log-file-size=4M";

/// The account that a server runs as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl Owner {
    /// `None` when servers may simply run as the current user.
    pub(crate) fn for_servers() -> Result<Option<Self>> {
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(None);
        }
        let entry = fs::read_to_string("/etc/passwd")
            .context("cannot read /etc/passwd to find an unprivileged account for the server")?;
        let fields: Vec<&str> = entry
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields[0] == UNPRIVILEGED)
            .with_context(|| {
                format!(
                    "no account `{UNPRIVILEGED}` to run the server as; start it as an ordinary user"
                )
            })?;
        ensure!(fields.len() > 3, "the entry of `{UNPRIVILEGED}` in /etc/passwd is damaged");
        Ok(Some(Self { uid: fields[2].parse()?, gid: fields[3].parse()? }))
    }

    /// The name to pass as `--user`.
    pub(crate) fn name(self) -> &'static str {
        UNPRIVILEGED
    }

    /// Makes a command run as this account.
    pub(crate) fn run_as(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Whether this account can reach a directory: it, or others, must be able to search every
    /// parent.
    pub(crate) fn can_reach(self, directory: &Path) -> bool {
        directory.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()).all(
            |parent| {
                parent.metadata().is_ok_and(|metadata| {
                    let mode = metadata.mode();
                    mode & 0o001 != 0 || (metadata.uid() == self.uid && mode & 0o100 != 0)
                })
            },
        )
    }

    /// Gives a directory and everything below it to this account.
    pub(crate) fn take(self, path: &Path) -> Result<()> {
        let name = CString::new(path.as_os_str().as_bytes()).context("a path with a NUL byte")?;
        // SAFETY: `name` is a NUL-terminated string that outlives the call.
        if unsafe { libc::lchown(name.as_ptr(), self.uid, self.gid) } != 0 {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("cannot chown {}", path.display()));
        }
        if path.symlink_metadata()?.is_dir() {
            for entry in fs::read_dir(path)? {
                self.take(&entry?.path())?;
            }
        }
        Ok(())
    }
}

/// Makes a directory that only the current user can enter; parents must exist.
pub(crate) fn private_directory(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create the directory {}", path.display()))
}

/// A fresh private directory below `parent`, with a short name because socket paths end at 107
/// bytes.
pub(crate) fn fresh_directory(parent: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let path = parent.join(format!(
            "hwrig-{}-{}",
            process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot create a directory in {}", parent.display()));
            }
        }
    }
    bail!("cannot find a free directory name in {}", parent.display())
}

/// The default cache directory: `HEADWORKS_RIG_CACHE`, or a private one among the temporary files.
pub(crate) fn default_cache() -> PathBuf {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    env::var_os("HEADWORKS_RIG_CACHE")
        .map_or_else(|| env::temp_dir().join(format!("headworks-rig-{uid}")), PathBuf::from)
}

/// Fills `data_directory` (which must not exist) from the template. Makes the template first if
/// needed.
pub(crate) fn new_data_directory(
    programs: &Programs,
    cache: &Path,
    owner: Option<Owner>,
    data_directory: &Path,
) -> Result<()> {
    let template = template(programs, cache, owner)?;
    copy_tree(&template, data_directory).with_context(|| {
        format!("cannot copy {} to {} (disk full?)", template.display(), data_directory.display())
    })?;
    owner.map_or(Ok(()), |owner| owner.take(data_directory))
}

fn template(programs: &Programs, cache: &Path, owner: Option<Owner>) -> Result<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    open_cache(cache)?;
    let mut hasher = DefaultHasher::new();
    programs.version()?.hash(&mut hasher);
    TEMPLATE_REDO_LOG.hash(&mut hasher);
    let wanted = cache.join(format!("template-{:016x}", hasher.finish()));
    if wanted.is_dir() {
        return Ok(wanted);
    }
    // Not inside the cache, which the server's account must not be able to enter.
    let workshop = fresh_directory(&env::temp_dir())?;
    let made = make_template(programs, owner, &workshop).and_then(|made| {
        let staged = cache.join(format!("staged-{}", process::id()));
        let _ = fs::remove_dir_all(&staged);
        copy_tree(&made, &staged)?;
        // If another process was faster, its template is as good.
        if fs::rename(&staged, &wanted).is_err() {
            let _ = fs::remove_dir_all(&staged);
        }
        Ok(())
    });
    let _ = fs::remove_dir_all(&workshop);
    made?;
    Ok(wanted)
}

/// The cache may have a guessable name among the temporary files: another user's directory there is
/// refused.
fn open_cache(cache: &Path) -> Result<()> {
    if !cache.exists() {
        if let Some(parent) = cache.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        // Another process may have been faster; only the owner counts.
        let _ = DirBuilder::new().mode(0o700).create(cache);
    }
    let metadata = cache
        .symlink_metadata()
        .with_context(|| format!("cannot use the cache {}", cache.display()))?;
    // SAFETY: geteuid has no preconditions.
    let ours = metadata.is_dir()
        && metadata.uid() == unsafe { libc::geteuid() }
        && metadata.mode() & 0o022 == 0;
    ensure!(
        ours,
        "{} is not a directory that only you can write; remove it or set HEADWORKS_RIG_CACHE",
        cache.display()
    );
    Ok(())
}

fn make_template(programs: &Programs, owner: Option<Owner>, workshop: &Path) -> Result<PathBuf> {
    let made = workshop.join("data");
    private_directory(&made)?;
    let mut command = Command::new(&programs.install_db);
    command
        .args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            TEMPLATE_REDO_LOG,
        ])
        .arg(format!("--datadir={}", made.display()))
        .env_remove("LD_PRELOAD");
    if let Some(owner) = owner {
        owner.take(workshop)?;
        command.arg(format!("--user={}", owner.name()));
    }
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", programs.install_db.display()))?;
    if !output.status.success() {
        bail!(
            "{} could not initialise a data directory ({}):\n{}{}",
            programs.install_db.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(made)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    private_directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("cannot copy to {}", target.display()))?;
        }
    }
    Ok(())
}
