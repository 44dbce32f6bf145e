//! `headworks bench`, `controller`, `hbase`, `store` and `tad` are separate programs, which the
//! command finds.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{RunDir, program, text};

fn is_built(name: &str) -> bool {
    let built = program().with_file_name(name).exists();
    if !built {
        eprintln!("skipped: {name} is not built (cargo build --workspace)");
    }
    built
}

/// The command alone in a directory, as where only the package for servers is installed.
fn alone(run: &RunDir) -> PathBuf {
    let file = run.path().join("bin/headworks");
    fs::create_dir(run.path().join("bin")).unwrap();
    // By another process: a child that another test forks while this one has the file open for
    // writing keeps it busy.
    assert!(Command::new("cp").arg(program()).arg(&file).status().unwrap().success());
    file
}

/// Says its process, then its arguments, one a line; ends by 7.
fn script(directory: &Path, name: &str) {
    fs::create_dir_all(directory).unwrap();
    let (draft, file) = (directory.join("draft"), directory.join(name));
    fs::write(&draft, "#!/bin/sh\necho \"$$\"\nprintf '%s\\n' \"$0\" \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    // By another process, as above.
    assert!(Command::new("cp").arg("-p").arg(&draft).arg(&file).status().unwrap().success());
}

#[test]
fn they_are_listed_whether_or_not_they_are_installed() {
    let run = RunDir::new();
    let headworks = alone(&run);
    for help in ["--help", "help"] {
        let output = Command::new(&headworks).arg(help).output().unwrap();
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        for line in [
            "\n  bench ",
            "\n  controller ",
            "\n  hbase ",
            "\n  store ",
            "\n  tad ",
            "Run experiments",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
    }
}

#[test]
fn one_that_is_missing_is_named_with_what_installs_it() {
    let run = RunDir::new();
    let headworks = alone(&run);
    for (words, name) in [
        (&["tad", "list"][..], "headworks-tad"),
        (&["bench", "run", "x"], "headworks-bench"),
        (&["help", "tad"], "headworks-tad"),
        (&["store", "status"], "headworks-store"),
        (&["hbase", "doctor"], "headworks-hbase"),
        (&["controller", "status"], "headworks-controller"),
    ] {
        let output = Command::new(&headworks).args(words).env("PATH", "/no/such").output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for word in [name, "PATH", "make install"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[test]
fn it_becomes_the_program_beside_it_else_the_one_in_path() {
    let run = RunDir::new();
    let headworks = alone(&run);
    let elsewhere = run.path().join("elsewhere");
    script(&elsewhere, "headworks-tad");
    let odd = OsStr::from_bytes(b"\xff odd");
    let path = format!("{}:/usr/bin:/bin", elsewhere.display());
    let ask = || {
        let mut command = Command::new(&headworks);
        command.args(["tad", "check", "--", "--help", ""]).arg(odd).env("PATH", &path);
        let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let number = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        let lines: Vec<Vec<u8>> =
            output.stdout.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        // The same process: Ctrl-C and other signals reach it.
        assert_eq!(lines[0], number.to_string().into_bytes());
        assert_eq!(lines[2..7], [&b"check"[..], b"--", b"--help", b"", odd.as_bytes()]);
        PathBuf::from(OsStr::from_bytes(&lines[1]))
    };
    assert_eq!(ask(), elsewhere.join("headworks-tad"));
    script(&run.path().join("bin"), "headworks-tad");
    assert_eq!(ask(), run.path().join("bin/headworks-tad"));
}

#[test]
fn what_they_print_and_how_they_end_is_theirs() {
    let run = RunDir::new();
    if is_built("headworks-tad") {
        assert!(run.ok(["tad", "list"]).contains("hbase"));
        for (words, code) in [
            (&["tad", "check", "hbase"][..], 1),
            (&["tad", "check", "no/such.toml"], 2),
            (&["tad", "nosuch"], 2),
        ] {
            let output = run.headworks(words.iter().copied()).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        }
        assert!(run.ok(["tad", "check", "--help"]).contains("Usage: headworks tad check"));
        assert!(run.ok(["help", "tad", "check"]).contains("Usage: headworks tad check"));
    }
    if is_built("headworks-store") {
        assert!(run.ok(["store", "serve", "--help"]).contains("Usage: headworks store serve"));
        let refusal = run.refused(["store", "serve", "--config", "no/such.toml"]);
        assert!(refusal.contains("cannot read no/such.toml"), "{refusal}");
    }
    if is_built("headworks-bench") {
        let list: serde_json::Value =
            serde_json::from_str(&run.ok(["bench", "list", "--json"])).unwrap();
        assert!(list.as_array().is_some_and(|list| !list.is_empty()), "{list}");
        assert!(run.ok(["bench", "run", "--help"]).contains("Usage: headworks bench run"));
        let refusal = run.refused(["bench", "run", "no-such-thing"]);
        assert!(refusal.contains("headworks bench list"), "{refusal}");
    }
}
