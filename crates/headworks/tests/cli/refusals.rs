//! Whatever is in the way of `headworks run` is said once, with its cause and what mends it, and
//! leaves nothing behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use headworks_rig::{find_program, mariadb_or_skip};

use crate::support::{RunDir, is_root, program, text, wait_until};

/// Runs `headworks run` with these arguments, which must be refused with all of these words.
fn refuse(run: &RunDir, args: &[&str], words: &[&str]) {
    let args: Vec<&str> = ["run"].iter().chain(args).copied().collect();
    let output = run.headworks(args.iter().copied()).output().unwrap();
    let code = output.status.code();
    assert!(code.is_some_and(|code| code != 0), "{args:?}: {:?}", output.status);
    assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(said.contains(word), "{args:?}: no {word:?} in: {said}");
    }
    assert_eq!(said.matches("headworks: ").count(), 1, "more than one message: {said}");
    assert!(!said.contains("panicked"), "{said}");
    run.assert_nothing_left(&said);
}

#[test]
fn mistakes_in_the_configuration_are_named_with_their_line() {
    let run = RunDir::new();
    for (content, words) in [
        ("[gate]\nparalelism = 4\n", &[":2:", "paralelism", "parallelism"][..]),
        ("[gate]\nmode = \"enforced\"\n", &[":2:", "enforced", "\"enforce\""]),
        ("[gate]\nparallelism = 0\n", &[":2:", "parallelism", "out of range", "1"]),
        ("[gate]\nhold_ms_max = 100\nstall_ms = 200\n", &["hold_ms_max", "stall_ms", "longer"]),
        ("[[rule]]\naccount = \"a\"\nclass = \"gold\"\n", &[":3:", "gold"]),
        ("[[class]]\nname = \"a\"\n[[class]]\nname = \"a\"\n", &[":4:", "twice"]),
        ("[gate\n", &[":1:"]),
    ] {
        let file = run.file("toml", content);
        let path = file.to_str().unwrap();
        let words: Vec<&str> = words.iter().copied().chain([path]).collect();
        refuse(&run, &["--config", path, "--", "true"], &words);
    }
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let run = RunDir::new();
    let words = ["/no/such/file.toml", "No such file", "--config"];
    refuse(&run, &["--config", "/no/such/file.toml", "--", "true"], &words);
}

#[test]
fn programs_that_cannot_be_preloaded_are_refused() {
    let run = RunDir::new();
    refuse(&run, &["--", "/nowhere/mariadbd"], &["/nowhere/mariadbd", "apt-get install"]);
    refuse(
        &run,
        &["--", "no-such-program-at-all"],
        &["no-such-program-at-all", "PATH", "spelling"],
    );
    let plain = run.file("plain", "no program");
    refuse(&run, &["--", plain.to_str().unwrap()], &["not executable", "chmod a+x"]);
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
    refuse(&run, &["--", plain.to_str().unwrap()], &["no program", "file "]);

    let suid = run.file("suid", "");
    fs::copy(find_program("true").expect("a program"), &suid).unwrap();
    fs::set_permissions(&suid, fs::Permissions::from_mode(0o4755)).unwrap();
    refuse(&run, &["--", suid.to_str().unwrap()], &["set-user-ID", "LD_PRELOAD", "chmod u-s"]);
}

#[test]
fn a_static_program_is_refused() {
    let Some(compiler) = find_program("cc") else {
        println!("skipped: no C compiler (apt-get install gcc libc6-dev)");
        return;
    };
    let run = RunDir::new();
    let source = run.file("static.c", "int main(void) { return 0; }\n");
    let made = run.file("static", "");
    let compiled =
        Command::new(compiler).args(["-static", "-o"]).args([&made, &source]).output().unwrap();
    if !compiled.status.success() {
        println!("skipped: no static C library (apt-get install libc6-dev)");
        return;
    }
    let words = ["linked statically", "preloaded", "dynamically linked build"];
    refuse(&run, &["--", made.to_str().unwrap()], &words);
}

#[test]
fn ports_and_sockets_in_use_name_their_owner() {
    if !mariadb_or_skip() {
        return;
    }
    let run = RunDir::new();
    let owner = format!("pid {}", std::process::id());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let option = format!("--port={port}");
    let command = ["--", "mariadbd", "--no-defaults", "--bind-address=127.0.0.1"];
    refuse(
        &run,
        &[&command[..], &[&option]].concat(),
        &["port", &port, "in use", &owner, "--port="],
    );
    let option = format!("--extra-port={port}");
    let command = [&command[..], &["--skip-networking=0", "--port=0", &option]].concat();
    refuse(&run, &command, &[&port, "in use", &owner]);

    let path = run.file("sock", "");
    fs::remove_file(&path).unwrap();
    let _listener = UnixListener::bind(&path).unwrap();
    let option = format!("--socket={}", path.display());
    refuse(
        &run,
        &["--", "mariadbd", "--no-defaults", "--skip-networking", &option],
        &[path.to_str().unwrap(), "listens on", &owner, "--socket="],
    );
}

#[test]
fn a_user_that_the_machine_does_not_have_is_refused() {
    if !is_root() || !mariadb_or_skip() {
        println!("skipped: only root may start a server as another user");
        return;
    }
    let run = RunDir::new();
    let command = ["--", "mariadbd", "--no-defaults", "--skip-networking", "--user=nosuchuser"];
    refuse(&run, &command, &["nosuchuser", "--user=", "useradd"]);
}

#[test]
fn names_that_are_none_are_refused() {
    let run = RunDir::new();
    for name in ["../evil", "a/b", ".hidden", "", "with blank", &"x".repeat(41)] {
        refuse(&run, &["--name", name, "--", "true"], &["no name for an instance", "letters"]);
    }
}

#[test]
fn a_name_that_is_in_use_is_refused_and_the_instance_left_alone() {
    let run = RunDir::new();
    let mut first = run
        .headworks(["run", "--name", "twice", "--", "sleep", "60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it runs", || run.listens("twice"));
    let said = run.refused(["run", "--name", "twice", "--", "sleep", "60"]);
    for word in ["twice", "runs already", &first.id().to_string(), "--name"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(run.figure("twice", "server_pid"), u64::from(first.id()));
    first.kill().unwrap();
    first.wait().unwrap();
    run.assert_nothing_left("the database was killed");
}

#[test]
fn a_directory_for_instances_that_cannot_be_used_is_named() {
    let run = RunDir::new();
    let file = run.file("file", "");
    let below = file.join("below");
    let refused = |dir: &Path| {
        let mut command = run.headworks(["run", "--", "true"]);
        let output = command.env("HEADWORKS_RUN_DIR", dir).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        let said = text(&output);
        assert!(said.contains(dir.to_str().unwrap()), "{said}");
        assert!(said.contains("HEADWORKS_RUN_DIR"), "{said}");
        said
    };
    refused(&below);
    refused(&file);
    // Any user could put another region in the place of ours.
    let open = run.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&open).contains("other users"));
    assert!(fs::read_dir(&open).unwrap().next().is_none());
    fs::remove_dir(&open).unwrap();
    run.assert_nothing_left("refusals");
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let (true, Some(setpriv)) = (is_root(), find_program("setpriv")) else {
        println!("skipped: only root may become another user, with setpriv (util-linux)");
        return;
    };
    let run = RunDir::new();
    let output = Command::new(setpriv)
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program())
        .args(["run", "--", "true"])
        .env("HEADWORKS_RUN_DIR", run.path())
        .output()
        .unwrap();
    let said = text(&output);
    if said.contains("failed to execute") {
        println!("skipped: an unprivileged user may not execute the command here");
        return;
    }
    assert!(!output.status.success());
    assert!(said.contains("Permission denied") && said.contains("HEADWORKS_RUN_DIR"), "{said}");
    run.assert_nothing_left("a refusal");
}

#[test]
fn a_daemon_that_cannot_start_keeps_the_database_from_starting() {
    let run = RunDir::new();
    // The control socket's name must fit into a socket address.
    let deep = run.path().join("d".repeat(100));
    fs::create_dir(&deep).unwrap();
    let mut command = run.headworks(["run", "--name", "deep", "--", "touch"]);
    let mark = deep.join("started");
    let output = command.arg(&mark).env("HEADWORKS_RUN_DIR", &deep).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("daemon did not start") && said.contains("control.sock"), "{said}");
    assert!(!mark.exists());
    assert!(fs::read_dir(&deep).unwrap().next().is_none(), "something is left");
    fs::remove_dir(&deep).unwrap();
    run.assert_nothing_left("a refusal");
}
