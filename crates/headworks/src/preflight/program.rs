//! Which file a program's name means, and whether it can be preloaded.

use super::OUR_MACHINE;
use super::elf::{Elf, ElfFault};
use headworks_hooks::symbols::SYMBOLS;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories that are searched after those of `PATH`: servers lie there that users do not call.
const MORE_DIRECTORIES: &[&str] =
    &["/usr/local/sbin", "/usr/sbin", "/usr/libexec", "/usr/local/libexec", "/sbin"];

/// A program that can be preloaded.
#[derive(Clone, Debug)]
pub enum Binary {
    /// A dynamically linked program.
    Dynamic {
        /// The file.
        path: PathBuf,
        /// Its dynamic loader.
        interpreter: String,
        /// Symbols that it imports.
        imports: std::collections::BTreeSet<String>,
        /// Libraries that it needs.
        needed: Vec<String>,
        /// Go's compiler made it: it calls the kernel without the C library.
        go: bool,
    },
    /// A script; the programs that it starts are preloaded too, unless it clears the environment.
    Script {
        /// The file.
        path: PathBuf,
        /// What runs it.
        interpreter: String,
    },
}

impl Binary {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Binary::Dynamic { path, .. } | Binary::Script { path, .. } => path,
        }
    }

    /// Whether it makes its own system calls, so that no hook sees them.
    pub fn calls_the_kernel(&self) -> bool {
        matches!(self, Binary::Dynamic { go: true, .. })
    }

    /// Hooked symbols that the program itself imports. Its libraries may import more. Of programs
    /// that a script starts, nothing is known.
    pub fn hooks_seen(&self) -> Vec<&'static str> {
        match self {
            Binary::Dynamic { imports, .. } => SYMBOLS
                .iter()
                .map(|symbol| symbol.name)
                .filter(|name| imports.contains(*name))
                .collect(),
            Binary::Script { .. } => Vec::new(),
        }
    }

    /// Whether the gate will see what this program receives or sends by one of these calls; `None`
    /// for a script.
    pub fn calls_one_of(&self, calls: &[String]) -> Option<bool> {
        match self {
            Binary::Dynamic { imports, .. } => {
                Some(calls.iter().any(|name| imports.contains(name)))
            }
            Binary::Script { .. } => None,
        }
    }
}

/// Why a program cannot be put behind the gate.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// No such file.
    #[error("there is no program `{name}` {place}.\n  {mend}")]
    NotFound {
        /// As given.
        name: String,
        /// Where it was looked for.
        place: &'static str,
        /// The command that mends it.
        mend: String,
    },
    /// It may not be executed.
    #[error(
        "{} is not executable for this user.\n  \
         Name the server's program; if this is it: `sudo chmod a+x {}`.", path.display(), path.display()
    )]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error(
        "cannot read {}: {cause}.\n  \
         Its headers must be read to know whether it can be preloaded. Run Headworks as a user who may read it, for \
         example with sudo.", path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// It is neither a program nor a script.
    #[error(
        "{} is no program that this machine can run: {fault}.\n  \
         `file {}` says what it is; reinstall it if it should be the server.", path.display(), path.display()
    )]
    NoProgram {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: ElfFault,
    },
    /// It is linked statically.
    #[error(
        "{} is linked statically: it makes its own system calls, and no library can be preloaded into it. \
         Neither its clients nor its files would be governed.\n  \
         Use a dynamically linked build{}.", path.display(), dynamic_build(path)
    )]
    Static {
        /// The file.
        path: PathBuf,
    },
    /// It is for another machine.
    #[error(
        "{} is built for {found}, and this Headworks for {OUR_MACHINE}: the loader would refuse the library.\n  \
         Build Headworks for {found}, or use a server built for {OUR_MACHINE}.", path.display()
    )]
    OtherMachine {
        /// The file.
        path: PathBuf,
        /// What it is built for.
        found: String,
    },
    /// The loader would ignore LD_PRELOAD.
    #[error(
        "{} {why}, and for such programs the loader ignores LD_PRELOAD: the server would run without the gate.\n  \
         {mend}", path.display()
    )]
    Secure {
        /// The file.
        path: PathBuf,
        /// What makes it so.
        why: &'static str,
        /// The command that mends it.
        mend: String,
    },
}

/// Finds a program and checks that it can be preloaded. A name without `/` is searched in `PATH`
/// and in the directories of servers.
pub fn check_binary(path: &Path) -> Result<Binary, PreflightError> {
    let path = resolve(path)?;
    let unreadable = |cause| PreflightError::Unreadable { path: path.clone(), cause };
    secure(&path)?;
    let start = read_start(&path).map_err(unreadable)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let interpreter = String::from_utf8_lossy(line).trim().to_owned();
        return Ok(Binary::Script { path, interpreter });
    }
    let elf = super::elf::read(&path)
        .map_err(unreadable)?
        .map_err(|fault| PreflightError::NoProgram { path: path.clone(), fault })?;
    judge(path, elf)
}

fn judge(path: PathBuf, elf: Elf) -> Result<Binary, PreflightError> {
    if !elf.is_ours() {
        let width = if elf.wide { "" } else { " (32 bits)" };
        return Err(PreflightError::OtherMachine {
            path,
            found: format!("{}{width}", elf.machine),
        });
    }
    match elf.interpreter {
        Some(interpreter) => {
            let (imports, needed, go) = (elf.imports, elf.needed, elf.go);
            Ok(Binary::Dynamic { path, interpreter, imports, needed, go })
        }
        None => Err(PreflightError::Static { path }),
    }
}

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(256).read_to_end(&mut start)?;
    Ok(start)
}

/// The file that a program's name means.
pub(crate) fn resolve(name: &Path) -> Result<PathBuf, PreflightError> {
    let named = name.as_os_str().as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if named {
        vec![name.to_owned()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(MORE_DIRECTORIES.iter().map(PathBuf::from))
            .chain(version_directories())
            .map(|directory| directory.join(name))
            .collect()
    };
    let mut files = candidates.into_iter().filter(|path| path.is_file()).peekable();
    let first = files.peek().cloned();
    if let Some(found) = files.find(|path| is_executable(path)) {
        // Relative names would depend on the current directory.
        return Ok(std::path::absolute(&found).unwrap_or(found));
    }
    Err(match first {
        Some(path) => PreflightError::NotExecutable { path },
        None => PreflightError::NotFound {
            name: name.display().to_string(),
            place: if named {
                "on this machine"
            } else {
                "in PATH, /usr/sbin, /usr/libexec or /usr/lib/postgresql"
            },
            mend: not_found_mend(name),
        },
    })
}

/// Where Debian puts PostgreSQL's programs: one directory for each version, the newest first.
fn version_directories() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        versions.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.iter().map(|version| format!("/usr/lib/postgresql/{version}/bin").into()).collect()
}

fn not_found_mend(name: &Path) -> String {
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    match &*name {
        "mariadbd" | "mysqld" | "mariadbd-safe" | "mysqld_safe" => {
            "Install it with `sudo apt-get install mariadb-server`, or give its full path after `--`.".to_owned()
        }
        "postgres" | "postmaster" => {
            "Install it with `sudo apt-get install postgresql`, or give its full path after `--`.".to_owned()
        }
        other => format!("Check the spelling, or give its full path after `--`; `dpkg -S {other}` finds its package."),
    }
}

/// Where a dynamically linked build comes from, for servers that we know.
fn dynamic_build(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("mariadbd" | "mysqld") => ", such as Debian's: `sudo apt-get install mariadb-server`",
        Some("postgres") => ", such as Debian's: `sudo apt-get install postgresql`",
        _ => "",
    }
}

fn is_executable(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a C string that outlives the call. AT_EACCESS: as exec will judge it.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// Refuses programs that run with AT_SECURE set.
fn secure(path: &Path) -> Result<(), PreflightError> {
    let shown = path.display();
    let mode = match std::fs::metadata(path) {
        Ok(file) => file.permissions().mode(),
        Err(cause) => return Err(PreflightError::Unreadable { path: path.to_owned(), cause }),
    };
    let refuse = |why, mend| Err(PreflightError::Secure { path: path.to_owned(), why, mend });
    if mode & libc::S_ISUID != 0 {
        return refuse(
            "is set-user-ID",
            format!("`sudo chmod u-s {shown}`; let the server change its user with --user=mysql."),
        );
    }
    // Without the execute bit for the group, this bit once meant mandatory locking, not a group.
    if mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 {
        return refuse("is set-group-ID", format!("`sudo chmod g-s {shown}`"));
    }
    if has_capabilities(path) {
        return refuse(
            "has file capabilities",
            format!(
                "`getcap {shown}` shows them, `sudo setcap -r {shown}` removes them; a service manager can give them instead."
            ),
        );
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both are C strings that outlive the call; without a buffer only the size is told.
    let size = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    size > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of these bytes and this mode, gone when dropped.
    struct Given(PathBuf);

    impl Given {
        fn new(name: &str, bytes: &[u8], mode: u32) -> Given {
            let path = std::env::temp_dir()
                .join(format!("headworks-preflight-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Given(path)
        }
    }

    impl Drop for Given {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_dynamic_program_is_accepted_with_the_hooks_that_it_meets() {
        let binary = check_binary(&std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(binary, Binary::Dynamic { .. }));
        assert!(binary.hooks_seen().contains(&"close"), "{:?}", binary.hooks_seen());
    }

    #[test]
    fn a_name_is_looked_for_in_path() {
        assert!(check_binary(Path::new("sh")).unwrap().path().is_absolute());
    }

    #[test]
    fn a_script_is_accepted_and_reported() {
        let given = Given::new("script", b"#!/bin/sh -e\nexec mariadbd\n", 0o755);
        match check_binary(&given.0).unwrap() {
            Binary::Script { interpreter, .. } => assert_eq!(interpreter, "/bin/sh -e"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_missing_program_names_the_package() {
        let error = check_binary(Path::new("/nowhere/mariadbd")).unwrap_err().to_string();
        assert!(error.contains("no program `/nowhere/mariadbd`"), "{error}");
        assert!(error.contains("apt-get install mariadb-server"), "{error}");
    }

    #[test]
    fn a_file_without_the_execute_bit_is_refused() {
        let given = Given::new("plain", &this_program(), 0o644);
        assert!(matches!(check_binary(&given.0), Err(PreflightError::NotExecutable { .. })));
    }

    #[test]
    fn setuid_and_setgid_programs_are_refused() {
        for (name, mode, word) in
            [("suid", 0o4755, "set-user-ID"), ("sgid", 0o2755, "set-group-ID")]
        {
            let given = Given::new(name, &this_program(), mode);
            let error = check_binary(&given.0).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("ignores LD_PRELOAD"), "{error}");
            assert!(error.contains("sudo chmod"), "{error}");
        }
    }

    #[test]
    fn what_cannot_run_here_is_refused() {
        let given = Given::new("text", b"hello", 0o755);
        assert!(matches!(
            check_binary(&given.0),
            Err(PreflightError::NoProgram { fault: ElfFault::NoElf, .. })
        ));
        let elf = Elf { machine: "m68k".to_owned(), wide: false, ..Elf::default() };
        let error = judge(PathBuf::from("mariadbd"), elf).unwrap_err().to_string();
        assert!(error.contains("built for m68k (32 bits)"), "{error}");
    }

    #[test]
    fn a_static_program_is_refused() {
        let elf = Elf {
            machine: OUR_MACHINE.to_owned(),
            wide: cfg!(target_pointer_width = "64"),
            little: cfg!(target_endian = "little"),
            ..Elf::default()
        };
        let error = |name| judge(PathBuf::from(name), elf.clone()).unwrap_err().to_string();
        assert!(error("mariadbd").contains("linked statically"), "{}", error("mariadbd"));
        assert!(error("mariadbd").contains("apt-get install mariadb-server"));
        assert!(!error("busybox").contains("mariadb"), "{}", error("busybox"));
    }
}
