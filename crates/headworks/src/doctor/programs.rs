//! The library to preload, the server, the demo's load generator.

use super::Finding;
use crate::preflight::{self, Binary, OUR_MACHINE};
use crate::profile::Profiles;
use crate::run::few;
use headworks_hooks::symbols::SYMBOLS;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const SHIM: &str = "library to preload";

const INSTALL_ONE: &str = "sudo apt-get install mariadb-server";

/// Where a program itself cannot be governed.
pub(super) const GOVERN_ANOTHER: &str =
    "headworks run --io split-token --config FILE -- OTHER   # limits what disturbs it instead";

pub(super) fn shim(path: &Path) -> Finding {
    let shown = path.display();
    let elf = match preflight::read_elf(path) {
        Ok(Ok(elf)) => elf,
        Ok(Err(fault)) => return Finding::missing(SHIM, format!("{shown}: {fault}"), "make build"),
        Err(error) => return Finding::missing(SHIM, format!("{shown}: {error}"), "make build"),
    };
    if !elf.is_ours() || !elf.shared {
        let detail = format!("{shown} is for {}, and this machine is {OUR_MACHINE}", elf.machine);
        return Finding::missing(SHIM, detail, "make clean build");
    }
    let absent: Vec<&str> = SYMBOLS
        .iter()
        .map(|symbol| symbol.name)
        .filter(|name| !elf.exports.contains(*name))
        .collect();
    if !absent.is_empty() {
        let detail = format!("{shown} is of another version: it lacks {}", absent.join(", "));
        return Finding::missing(SHIM, detail, "make build");
    }
    let readable = std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0);
    if !readable {
        let detail = format!("{shown} cannot be read by other users, such as the database's");
        return Finding::warning(SHIM, detail, format!("chmod o+r {shown}"));
    }
    match loads(path) {
        Ok(()) => Finding::ok(SHIM, format!("{shown}, {} hooks", SYMBOLS.len())),
        Err(error) => Finding::missing(
            SHIM,
            format!("the loader refuses {shown}: {error}"),
            "make clean build",
        ),
    }
}

/// Has a small program load the library. The loader reports a refusal on standard error, and goes
/// on without the library.
fn loads(path: &Path) -> Result<(), String> {
    let output = Command::new("/bin/true")
        .env("LD_PRELOAD", path)
        .env_remove("HEADWORKS_REGION")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run /bin/true: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), said.lines().find(|line| line.contains("LD_PRELOAD"))) {
        (true, None) => Ok(()),
        (_, Some(line)) => Err(line.to_owned()),
        (false, None) => Err(format!("/bin/true ended with {}", output.status)),
    }
}

pub(super) fn server(program: Option<&Path>) -> Vec<Finding> {
    let name = if program.is_some() { "program" } else { "database" };
    let binary = match preflight::check_binary(program.unwrap_or(Path::new("mariadbd"))) {
        Ok(binary) => binary,
        Err(error) => {
            let error = error.to_string();
            let (what, mend) = error.split_once('\n').unwrap_or((&error, INSTALL_ONE));
            let mend = match program {
                None if what.starts_with("there is no program") => INSTALL_ONE,
                _ => mend.trim_start(),
            };
            return vec![Finding::missing(name, what, mend)];
        }
    };
    let shown = binary.path().display();
    if binary.calls_the_kernel() {
        let detail = format!(
            "{shown} is written in Go and makes its own system calls: neither its clients nor its \
             files are governed"
        );
        return vec![Finding::missing(name, detail, GOVERN_ANOTHER)];
    }
    match &binary {
        Binary::Script { interpreter, .. } => vec![Finding::warning(
            name,
            format!(
                "{shown} is a script ({interpreter}): what it starts is preloaded, unless it clears the environment"
            ),
            "headworks doctor PROGRAM   # looks at the program that it starts",
        )],
        Binary::Dynamic { interpreter, needed, .. } => {
            vec![judge_loader(name, interpreter, &shown.to_string()), hooks(name, &binary, needed)]
        }
    }
}

fn judge_loader(name: &str, interpreter: &str, shown: &str) -> Finding {
    let musl = interpreter.contains("musl");
    if musl == cfg!(target_env = "musl") {
        return Finding::ok(name, format!("{shown}, dynamic (loader {interpreter})"));
    }
    Finding::missing(
        name,
        format!("{shown} uses another C library ({interpreter}) than this Headworks"),
        "sudo apt-get install PROGRAM   # Debian's programs use glibc",
    )
}

fn hooks(name: &str, binary: &Binary, needed: &[String]) -> Finding {
    let name = &format!("hooks in the {name}");
    let seen = binary.hooks_seen();
    // Mistakes in profiles are reported by `profile list`.
    let (receive, send) = Profiles::read()
        .map(|all| all.of(binary.path()).calls.clone())
        .map(|calls| (calls.receive, calls.send))
        .unwrap_or_else(|_| (vec!["recv".to_owned()], vec!["send".to_owned()]));
    let does = match [&receive, &send]
        .map(|calls| calls.is_empty() || binary.calls_one_of(calls) == Some(true))
    {
        [true, true] => {
            // Those of its conversations first.
            let (mut names, others): (Vec<&str>, Vec<&str>) = seen.iter().partition(|seen| {
                [&receive, &send].iter().any(|calls| calls.iter().any(|call| call == *seen))
            });
            names.extend(others);
            return Finding::ok(name, format!("it calls {}", few(&names)));
        }
        [true, false] => "sends",
        _ => "receives",
    };
    Finding::warning(
        name,
        format!(
            "it {does} nothing through a hooked function itself; perhaps one of its libraries does: {}",
            needed.join(", ")
        ),
        format!(
            "headworks run --mode dry-run -- {}   # then: headworks status",
            binary.path().display()
        ),
    )
}

pub(super) fn sysbench() -> Finding {
    let name = "sysbench";
    match preflight::resolve(Path::new("sysbench")) {
        Ok(path) => Finding::ok(name, format!("{}: used by `make demo`", path.display())),
        Err(_) => Finding::warning(
            name,
            "not found: only `make demo` needs it",
            "sudo apt-get install sysbench",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_is_something_else_is_missing() {
        assert!(shim(Path::new("/nowhere/libheadworks.so")).is_missing());
        let other = shim(&std::env::current_exe().unwrap());
        assert!(other.is_missing() && other.detail.contains("it lacks "), "{other:?}");
        assert!(shim(Path::new("/proc/self/cmdline")).detail.contains("no ELF"));
    }

    #[test]
    fn what_the_loader_refuses_is_reported_in_its_words() {
        assert!(loads(Path::new("/nowhere/lib.so")).unwrap_err().contains("cannot be preloaded"));
    }

    #[test]
    fn a_missing_server_names_the_package() {
        let found = server(Some(Path::new("/nowhere/mariadbd")));
        assert!(found[0].is_missing());
        assert!(found[0].mend.as_deref().unwrap().contains("mariadb-server"), "{found:?}");
    }

    #[test]
    fn a_server_that_receives_otherwise_is_warned_of() {
        let found = server(Some(Path::new("/bin/true")));
        assert_eq!((found[0].state, found[1].state), (State::Ok, State::Warning), "{found:?}");
        assert_eq!(
            judge_loader("program", "/lib/ld-musl-x86_64.so.1", "x").is_missing(),
            cfg!(target_env = "gnu")
        );
    }
}
