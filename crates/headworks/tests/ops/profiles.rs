//! Profiles on the command line.

use std::fs;

use serde_json::Value;

use crate::support::RunDir;

#[test]
fn profiles_are_listed_shown_and_stood_in_for() {
    let run = RunDir::new();
    let list = run.ok(["profile", "list"]);
    for part in ["mariadb", "mysqld", "postgresql", "processes", "generic", "every other program"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let shown: Value =
        serde_json::from_str(&run.ok(["profile", "show", "mariadb", "--json"])).unwrap();
    assert_eq!((&shown["framing"], &shown["file"]), (&Value::from("mysql"), &Value::Null));
    let home = run.path().with_extension("home");
    let directory = home.join("headworks/profiles");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("mine.toml");
    let own = run.ok(["profile", "show", "mariadb", "--toml"]).replace("mysqld\"", "mydb\"");
    fs::write(&file, own).unwrap();
    let with_home = |args: &[&str]| {
        let mut command = run.headworks(args.iter().copied());
        let output = command.env("XDG_CONFIG_HOME", &home).output().unwrap();
        (output.status.success(), crate::support::text(&output))
    };
    let (ok, said) = with_home(&["profile", "show", "mariadb"]);
    assert!(ok && said.contains("mydb") && said.contains(file.to_str().unwrap()), "{said}");
    // A mistake is named wherever profiles are read, with file, line and key.
    fs::write(&file, "name = \"mine\"\nframing = \"mysql\"\n[programs]\nserver = [\"mydb\"]\n")
        .unwrap();
    for args in [&["profile", "list"][..], &["run", "--", "true"]] {
        let (ok, said) = with_home(args);
        let place = format!("{}:4:", file.display());
        assert!(!ok && said.contains(&place) && said.contains("`servers`"), "{said}");
    }
    // A service would rather start without the gate.
    let (ok, said) = with_home(&["run", "--fail-open", "--", "echo", "still here"]);
    assert!(ok && said.contains("still here") && said.contains("WITHOUT the gate"), "{said}");
    fs::remove_dir_all(&home).unwrap();
    let refusal = run.refused(["profile", "show", "mariadbb"]);
    assert!(refusal.contains("did you mean `mariadb`"), "{refusal}");
}

#[test]
fn services_are_left_alone_where_there_is_no_service_manager_or_no_right() {
    let run = RunDir::new();
    if !std::path::Path::new("/run/systemd/system").is_dir() {
        for command in ["enable", "disable"] {
            let said = run.refused([command, "mariadb"]);
            for part in [
                "no service to put behind",
                "nothing was changed",
                "headworks run --",
                "--root DIR",
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
        println!("skipped the rest: systemd does not run here");
        return;
    }
    // Without rights: by a user that can read this build, if there is one.
    use std::os::unix::process::CommandExt;
    let mut command = run.headworks(["enable", "mariadb"]);
    if crate::support::is_root() {
        command.uid(65_534).gid(65_534);
    }
    let Ok(output) = command.output() else {
        println!(
            "skipped: an unprivileged user may not run {}",
            crate::support::program().display()
        );
        return;
    };
    let said = crate::support::text(&output);
    assert!(!output.status.success() && said.contains("sudo headworks enable mariadb"), "{said}");
}
