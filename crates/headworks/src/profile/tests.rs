use super::*;

fn builtin() -> Profiles {
    Profiles::read_from(&[]).unwrap()
}

const LEAST: &str = "name = \"x\"\nframing = \"generic\"\n[programs]\nservers = [\"xd\"]\n";

fn refused(text: &str) -> String {
    Profile::parse(text, Path::new("/p/x.toml")).unwrap_err().to_string()
}

#[test]
fn a_program_is_known_by_its_name() {
    let all = builtin();
    for (program, name) in [
        ("/usr/sbin/mariadbd", "mariadb"),
        ("mysqld_safe", "mariadb"),
        ("mariadbd-safe", "mariadb"),
        ("/usr/lib/postgresql/15/bin/postgres", "postgresql"),
        ("postmaster", "postgresql"),
        ("/usr/bin/redis-server", "redis"),
        ("memcached", "memcached"),
        ("/usr/bin/mongod", "mongodb"),
        ("/usr/bin/sqlite3", "sqlite"),
        ("/usr/bin/qemu-system-x86_64", "qemu"),
        ("something-else", "generic"),
    ] {
        assert_eq!(all.of(Path::new(program)).name, name, "{program}");
    }
    assert!(all.known(Path::new("postgrest")).is_none());
    let started = all.started_by(Path::new("/usr/bin/pg_ctl")).map(|p| p.name.as_str());
    assert_eq!(started, Some("postgresql"));
    assert!(all.started_by(Path::new("postgres")).is_none());
}

#[test]
fn each_profile_that_comes_along_says_all_that_is_used() {
    for profile in builtin().all() {
        // They serve no clients.
        let files_only = ["sqlite", "qemu"].contains(&profile.name.as_str());
        let sessions = !files_only;
        assert_eq!(!profile.calls.receive.is_empty(), sessions, "{}", profile.name);
        assert_eq!(!profile.calls.accept.is_empty(), sessions, "{}", profile.name);
        assert!(!profile.notes.is_empty() && !profile.title.is_empty(), "{}", profile.name);
        // No package has a unit for a server under a JVM, or for a command line.
        let without = files_only || [GENERIC, "mongodb-loops"].contains(&profile.name.as_str());
        assert_eq!(profile.units.is_empty(), without, "{}", profile.name);
    }
}

#[test]
fn a_mistake_names_file_line_and_key() {
    for (text, line, parts) in [
        ("name = \"x\"\nframming = \"mysql\"\n", 2, &["`framming`", "`framing`"][..]),
        ("name = \"x\"\nframing = \"mysl\"\n[programs]\n", 2, &["`framing` knows no", "mysql"]),
        ("name = \"a b\"\nframing = \"mysql\"\n[programs]\n", 1, &["`name`"]),
        ("name = 7\n", 1, &["`name`", "quotes"]),
        ("framing = \"mysql\"\n[programs]\n", 1, &["`name`", "missing"]),
        (&format!("{LEAST}[locks]\nacquire = \"one\"\n"), 6, &["`acquire`", "list"]),
        (&format!("{LEAST}[locks]\nrelease = [\"a\"]\n"), 6, &["release", "3 to"]),
        (&format!("{LEAST}[calls]\nreceive = [\"reev\"]\n"), 6, &["receive", "\"recv\""]),
        (&format!("{LEAST}[[bypass]]\naccount = \"*\"\n"), 5, &["fits every connection"]),
        (&format!("{LEAST}[preflight]\nrun_as = \"root\"\n"), 6, &["`run_as`", "data-owner"]),
        (&format!("{LEAST}[systemd]\nunits = [\"x.socket\"]\n"), 6, &["units", "x.socket"]),
        (&format!("{LEAST}[stop]\nsignal = \"SIGKILL\"\n"), 6, &["`signal`", "SIGTERM"]),
    ] {
        let error = refused(text);
        assert!(error.starts_with(&format!("/p/x.toml:{line}:")), "{error}");
        for part in parts {
            assert!(error.contains(part), "{part} in\n{error}");
        }
    }
    let contradiction =
        "name = \"x\"\nframing = \"mysql\"\nserved_by = \"processes\"\n[programs]\n";
    assert!(refused(contradiction).contains("/p/x.toml:3:1: `served_by`"));
}

#[test]
fn a_file_of_the_same_name_stands_in_and_another_one_is_added() {
    let dir = std::env::temp_dir().join(format!("headworks-profiles-{}", std::process::id()));
    let (near, far) = (dir.join("near"), dir.join("far"));
    for each in [&near, &far] {
        std::fs::create_dir_all(each).unwrap();
    }
    let own = "name = \"mariadb\"\nframing = \"mysql\"\n[programs]\nservers = [\"mydb\"]\n";
    std::fs::write(near.join("a.toml"), own).unwrap();
    std::fs::write(far.join("b.toml"), own.replace("mydb", "farther")).unwrap();
    std::fs::write(far.join("x.toml"), LEAST).unwrap();
    std::fs::write(far.join("README"), "no profile").unwrap();
    let all = Profiles::read_from(&[near.clone(), far.clone(), dir.join("absent")]).unwrap();
    assert_eq!(all.of(Path::new("mydb")).file.as_deref(), Some(&*near.join("a.toml")));
    assert_eq!(all.of(Path::new("mariadbd")).name, GENERIC, "replaced as a whole");
    assert_eq!(all.of(Path::new("farther")).name, GENERIC);
    assert_eq!(all.of(Path::new("xd")).name, "x");
    assert!(all.named("postgresq").unwrap_err().to_string().contains("`postgresql`?"));
    std::fs::write(far.join("y.toml"), "name = \n").unwrap();
    let error = Profiles::read_from(&[near, far]).unwrap_err().to_string();
    assert!(error.contains("y.toml:1:"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}
