use super::plan::{DROP_IN, Place, Plan, add_settings};
use super::unit::{Unit, find};
use super::write::apply;
use crate::cli::{Cli, Command};
use crate::profile::Profiles;
use clap::Parser;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Debian 12's units, as far as they matter here.
const MARIADB: &str = "[Unit]\nDescription=MariaDB 10.11.19 database server\n[Service]\nType=notify\nUser=mysql\n\
    Group=mysql\nAmbientCapabilities=CAP_IPC_LOCK\nProtectSystem=full\nProtectHome=true\n\
    ExecStart=/bin/sh -c \"set -f; [ ! -e /usr/bin/galera_recovery ] && VAR= || \\\n \
    VAR=`/usr/bin/galera_recovery`; [ $? -eq 0 ] || exit 1; \\\n \
    exec /usr/sbin/mariadbd $MYSQLD_OPTS $_WSREP_NEW_CLUSTER $VAR\"\nKillSignal=SIGTERM\nPrivateTmp=false\n";
const MARIADB_AT: &str = "[Service]\nType=notify\n\
    ExecStartPre=/usr/bin/mariadb-install-db $MYSQLD_MULTI_INSTANCE --rpm\n\
    ExecStart=/usr/sbin/mariadbd $MYSQLD_MULTI_INSTANCE $MYSQLD_OPTS\n\
    Environment='MYSQLD_MULTI_INSTANCE=--defaults-group-suffix=.%I'\nUser=mysql\nGroup=mysql\n";
const POSTGRESQL: &str = "[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=on\n";
const POSTGRESQL_AT: &str = "[Service]\nType=forking\n\
    ExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start\nPIDFile=/run/postgresql/%i.pid\n";
const REDIS: &str = "[Service]\nType=notify\n\
    ExecStart=/usr/bin/redis-server /etc/redis/redis.conf --supervised systemd --daemonize no\nUser=redis\n\
    Group=redis\nPrivateTmp=true\nProtectHome=true\nProtectSystem=strict\nNoExecPaths=/\n\
    ExecPaths=/usr/bin/redis-server /usr/lib /lib\n[Install]\nAlias=redis.service\n";
const ENVIRONMENT: &str = "# environment variables for postgres processes\nLANG = 'C.UTF-8'\n";

/// An image of a machine.
struct Image(PathBuf);

impl Image {
    fn new(name: &str) -> Image {
        let path =
            std::env::temp_dir().join(format!("headworks-image-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let image = Image(path);
        for (file, text) in [
            ("lib/systemd/system/mariadb.service", MARIADB),
            ("lib/systemd/system/mariadb@.service", MARIADB_AT),
            ("lib/systemd/system/postgresql.service", POSTGRESQL),
            ("lib/systemd/system/postgresql@.service", POSTGRESQL_AT),
            ("lib/systemd/system/redis-server.service", REDIS),
            ("etc/postgresql/15/main/postgresql.conf", "port = 5432\n"),
            ("etc/postgresql/15/main/environment", ENVIRONMENT),
            ("usr/local/lib/headworks/libheadworks.so", ""),
            // For the check that the units' programs exist.
            ("usr/local/bin/headworks", "#!/bin/sh\n"),
            ("bin/sh", "#!/bin/sh\n"),
            ("bin/kill", "#!/bin/sh\n"),
            ("usr/bin/redis-server", "#!/bin/sh\n"),
            ("usr/bin/pg_ctlcluster", "#!/bin/sh\n"),
            ("etc/passwd", "mysql:x:101:101::/:/bin/false\npostgres:x:102:102::/:/bin/false\n"),
        ] {
            image.write(file, text);
        }
        std::os::unix::fs::symlink(
            "mariadb.service",
            image.0.join("lib/systemd/system/mysql.service"),
        )
        .unwrap();
        image
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o640 };
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .unwrap();
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Every file and what is in it.
    fn all(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(directory: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() && !path.is_symlink() {
                    into.insert(path.clone(), Vec::new());
                    walk(&path, into);
                } else {
                    into.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.0, &mut all);
        all
    }

    /// Runs the command on this image; returns its output or its error.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        let root = self.0.to_str().unwrap();
        let words = [&["headworks"], words, &["--root", root]].concat();
        let profiles = Profiles::read().unwrap();
        let result = match Cli::try_parse_from(words).unwrap().command {
            Command::Enable(args) => Place::find(&args.root).and_then(|place| {
                let units = find(&place.root, &args.service, args.all, &profiles)?;
                let plans =
                    units.into_iter().map(|unit| Plan::to_enable(&place, unit, &args, &profiles));
                carry_out(&place, plans.collect::<anyhow::Result<_>>()?, args.dry_run)
            }),
            Command::Disable(args) => Place::find(&args.root).and_then(|place| {
                let units = find(&place.root, &args.service, args.all, &profiles)?;
                let plans = units.into_iter().map(|unit| Plan::to_disable(&place, unit));
                carry_out(&place, plans.collect::<anyhow::Result<_>>()?, args.dry_run)
            }),
            other => panic!("{other:?}"),
        };
        result.map_err(|error| format!("{error:#}"))
    }
}

fn carry_out(place: &Place, plans: Vec<Plan>, dry_run: bool) -> anyhow::Result<String> {
    let text: String = plans.iter().map(|plan| plan.text(place)).collect();
    let changes: Vec<_> = plans.iter().flat_map(|plan| &plan.changes).collect();
    if !dry_run {
        apply(&changes)?;
    }
    Ok(text)
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SYSTEM: &str = "etc/systemd/system";

#[test]
fn enable_writes_a_companion_and_a_drop_in_and_disable_removes_just_that() {
    let image = Image::new("mariadb");
    let before = image.all();
    let plan = image.run(&["enable", "mariadb", "--dry-run"]).unwrap();
    assert_eq!(image.all(), before, "a dry run writes nothing");
    for part in ["headworks-mariadb.service", DROP_IN, "LD_PRELOAD=/usr/local/lib", "Wants="] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    image.run(&["enable", "mysql.service"]).unwrap(); // an alias
    let companion = image.read(&format!("{SYSTEM}/headworks-mariadb.service"));
    for line in [
        "Type=notify",
        "User=mysql",
        "Group=mysql",
        "Before=mariadb.service",
        "PartOf=mariadb.service",
        "RuntimeDirectory=headworks/mariadb",
        "ExecStart=/usr/local/bin/headworks attend --name mariadb --profile mariadb",
    ] {
        assert!(companion.lines().any(|each| each == line), "{line}: {companion}");
    }
    let drop_in = image.read(&format!("{SYSTEM}/mariadb.service.d/{DROP_IN}"));
    assert!(drop_in.contains("Environment=HEADWORKS_REGION=/run/headworks/mariadb/region\n"));
    assert!(!drop_in.contains("ExecStart") && !drop_in.contains("ReadWritePaths"), "{drop_in}");
    assert!(image.run(&["enable", "mariadb"]).unwrap().contains("nothing to write"));
    image.run(&["disable", "mariadb"]).unwrap();
    let mut after = image.all();
    after.retain(|path, _| !path.ends_with("etc/systemd") && !path.ends_with(SYSTEM));
    assert_eq!(after, before);
    assert!(image.run(&["disable", "mariadb"]).unwrap().contains("nothing to write"));
}

#[test]
fn a_service_is_enabled_with_a_scheduler_of_its_files() {
    let image = Image::new("mariadb");
    let companion = || image.read(&format!("{SYSTEM}/headworks-mariadb.service"));
    let drop_in = || image.read(&format!("{SYSTEM}/mariadb.service.d/{DROP_IN}"));
    let names_it =
        |text: &str| text.contains("Environment=HEADWORKS_IO=/run/headworks/mariadb/io\n");
    image.run(&["enable", "mariadb"]).unwrap();
    assert!(!drop_in().contains("HEADWORKS_IO") && !companion().contains("--io"));
    image.run(&["enable", "mariadb", "--io", "rcp"]).unwrap();
    assert!(
        names_it(&drop_in()) && companion().contains("--profile mariadb --io rcp --io-region\n")
    );
    image.write("etc/headworks/mariadb.toml", "[io]\nscheduler = \"split-deadline\"\n");
    image.run(&["enable", "mariadb"]).unwrap();
    assert!(
        names_it(&drop_in()) && companion().contains("mariadb.toml --io-region\n"),
        "the companion reads the file"
    );
    let allowed = "[Service]\nSystemCallFilter=@system-service\nSystemCallFilter=~@resources\n";
    image.write(&format!("{SYSTEM}/mariadb.service.d/10-filter.conf"), allowed);
    image.run(&["disable", "mariadb"]).unwrap();
    let plan = image.run(&["enable", "mariadb"]).unwrap();
    assert!(plan.contains("SystemCallFilter: where it does not allow cachestat"), "{plan}");
    assert!(!drop_in().contains("SystemCallFilter"), "alone it would forbid all other calls");
    let image = Image::new("postgresql");
    image.run(&["enable", "postgresql", "--io", "rcp"]).unwrap();
    let environment = image.read("etc/postgresql/15/main/environment");
    assert!(environment.contains("HEADWORKS_IO = '/run/headworks/postgresql-15-main/io'\n"));
    image.run(&["disable", "postgresql"]).unwrap();
    let environment = image.read("etc/postgresql/15/main/environment");
    assert!(!environment.contains("HEADWORKS"), "{environment}");
}

#[test]
fn postgresqls_wrapper_stands_for_its_clusters() {
    let image = Image::new("postgresql");
    let before = image.all();
    for name in ["postgresql", "postgresql.service", "postgresql@15-main"] {
        let plan = image.run(&["enable", name, "--dry-run"]).unwrap();
        assert!(plan.contains("postgresql@15-main.service behind the gate"), "{name}: {plan}");
    }
    image.run(&["enable", "postgresql"]).unwrap();
    // pg_ctlcluster passes on this environment, and not the unit's.
    let environment = image.read("etc/postgresql/15/main/environment");
    assert!(environment.starts_with(ENVIRONMENT), "{environment}");
    for line in [
        "LD_PRELOAD = '/usr/local/lib/headworks/libheadworks.so'",
        "HEADWORKS_REGION = '/run/headworks/postgresql-15-main/region'",
    ] {
        assert!(environment.lines().any(|each| each == line), "{environment}");
    }
    let drop_in = image.read(&format!("{SYSTEM}/postgresql@15-main.service.d/{DROP_IN}"));
    assert!(
        !drop_in.contains("[Service]") && drop_in.contains("Wants=headworks-postgresql-15-main")
    );
    let companion = image.read(&format!("{SYSTEM}/headworks-postgresql-15-main.service"));
    assert!(companion.contains("User=postgres\n"), "from the profile: {companion}");
    image.run(&["disable", "postgresql"]).unwrap();
    let mut after = image.all();
    after.retain(|path, _| !path.ends_with("etc/systemd") && !path.ends_with(SYSTEM));
    assert_eq!(after, before);
    // A second cluster, and another preloaded library.
    image.write("etc/postgresql/16/shop/postgresql.conf", "");
    let error = image.run(&["enable", "postgresql"]).unwrap_err();
    assert!(error.contains("2 services") && error.contains("postgresql@16-shop"), "{error}");
    let plan = image.run(&["enable", "postgresql", "--all", "--dry-run"]).unwrap();
    assert!(plan.contains("postgresql-16-shop"), "{plan}");
    image.write("etc/postgresql/16/shop/environment", "LD_PRELOAD = '/opt/x.so'\n");
    let before = image.all();
    let error = image.run(&["enable", "postgresql", "--all"]).unwrap_err();
    assert!(error.contains("stands there already") && error.contains("16/shop"), "{error}");
    assert_eq!(image.all(), before, "not even the first cluster");
}

#[test]
fn confined_services_and_instances_of_templates() {
    let image = Image::new("confined");
    image.run(&["enable", "redis-server", "--profile", "generic"]).unwrap();
    let drop_in = image.read(&format!("{SYSTEM}/redis-server.service.d/{DROP_IN}"));
    assert!(drop_in.contains("ReadWritePaths=-/run/headworks/redis-server\n"), "{drop_in}");
    assert!(drop_in.contains("ExecPaths=-/usr/local/lib/headworks/libheadworks.so\n"), "{drop_in}");
    image.run(&["enable", "mariadb@shop"]).unwrap();
    let drop_in = image.read(&format!("{SYSTEM}/mariadb@shop.service.d/{DROP_IN}"));
    assert!(drop_in.contains("/run/headworks/mariadb-shop/region"), "{drop_in}");
    // Other preloaded libraries stay, after ours. systemd reads `override.conf` before ours.
    assert!(*"override.conf" < *DROP_IN);
    image.write(
        "etc/systemd/system/mariadb.service.d/malloc.conf",
        "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/libjemalloc.so.2\"\n",
    );
    image.write("etc/headworks/mariadb.toml", "[gate]\nparallelism = 4\n");
    image.write("etc/apparmor.d/usr.sbin.mariadbd", "/usr/sbin/mariadbd { }\n");
    image.write("etc/selinux/config", "SELINUX=enforcing\n");
    let plan = image.run(&["enable", "mariadb"]).unwrap();
    assert!(
        plan.contains("AppArmor: /etc/apparmor.d/usr.sbin.mariadbd") && plan.contains("SELinux:"),
        "{plan}"
    );
    let drop_in = image.read(&format!("{SYSTEM}/mariadb.service.d/{DROP_IN}"));
    assert!(drop_in.contains("libheadworks.so:/usr/lib/libjemalloc.so.2\n"), "{drop_in}");
    let companion = image.read(&format!("{SYSTEM}/headworks-mariadb.service"));
    assert!(companion.contains("--config /etc/headworks/mariadb.toml\n"), "{companion}");
    image.run(&["disable", "mariadb"]).unwrap();
    assert!(image.0.join("etc/systemd/system/mariadb.service.d/malloc.conf").exists());
}

#[test]
fn a_unit_without_the_right_to_open_our_files_gets_it() {
    let image = Image::new("memcached");
    image.write(
        "lib/systemd/system/memcached.service",
        "[Service]\nExecStart=/usr/share/memcached/scripts/systemd-memcached-wrapper /etc/memcached.conf\n\
         CapabilityBoundingSet=CAP_SETGID CAP_SETUID CAP_SYS_RESOURCE\n",
    );
    // The script is no program that a profile knows.
    image.run(&["enable", "memcached"]).unwrap();
    let drop_in = image.read(&format!("{SYSTEM}/memcached.service.d/{DROP_IN}"));
    assert!(drop_in.contains("CapabilityBoundingSet=CAP_DAC_OVERRIDE\n"), "{drop_in}");
    let companion = image.read(&format!("{SYSTEM}/headworks-memcached.service"));
    assert!(companion.contains("User=memcache\n") && companion.contains("--profile memcached\n"));
}

#[test]
fn another_library_by_an_environment_file_is_refused() {
    let image = Image::new("preload");
    image.write("etc/default/mariadb", "LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    let unit = "[Service]\nEnvironmentFile=-/etc/default/mariadb\n";
    image.write(&format!("{SYSTEM}/mariadb.service.d/env.conf"), unit);
    let before = image.all();
    let error = image.run(&["enable", "mariadb"]).unwrap_err();
    assert!(error.contains("etc/default/mariadb sets LD_PRELOAD"), "{error}");
    assert_eq!(image.all(), before);
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let image = Image::new("refusals");
    image.write("lib/systemd/system/other.service", "[Service]\nExecStart=/usr/bin/other\n");
    image.write("etc/headworks/bad.toml", "[gate]\nparalelism = 4\n");
    let before = image.all();
    for (words, parts) in [
        (
            &["enable", "mysqld-shop"][..],
            &["no service `mysqld-shop`", "mariadb.service", "headworks run"][..],
        ),
        (&["enable", "other"], &["no profile knows", "/usr/bin/other", "--profile"]),
        (&["enable", "mariadb@"], &["no service `mariadb@`"]),
        (
            &["enable", "mariadb", "--config", "/etc/headworks/bad.toml"],
            &["bad.toml:2:", "parallelism"],
        ),
        (&["enable", "mariadb", "--profile", "postgre"], &["no profile `postgre`"]),
    ] {
        let error = image.run(words).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{words:?}: {part}: {error}");
        }
        assert_eq!(image.all(), before, "{words:?}");
    }
    // A file that was changed since is neither overwritten nor removed.
    image.run(&["enable", "mariadb"]).unwrap();
    let path = format!("{SYSTEM}/mariadb.service.d/{DROP_IN}");
    let edited = image.read(&path) + "Nice=5\n";
    image.write(&path, &edited);
    let before = image.all();
    for words in [["enable", "mariadb"], ["disable", "mariadb"]] {
        let error = image.run(&words).unwrap_err();
        assert!(error.contains("was changed since") && error.contains("rm "), "{error}");
        assert_eq!(image.all(), before);
    }
    image.write(&path, "[Service]\nNice=5\n");
    assert!(image.run(&["disable", "mariadb"]).unwrap_err().contains("is not ours"));
}

#[test]
fn a_server_that_forks_itself_is_refused() {
    let image = Image::new("forking");
    image.write("usr/sbin/mysqld", "\x7fELF");
    image.write("usr/sbin/served", "\x7fELF");
    image.write("etc/init.d/served", "#!/bin/sh\n");
    image.write("etc/redis.conf", "port 1\ndaemonize yes\n");
    image.write("etc/mongod.conf", "net:\n  port: 1\nprocessManagement:\n  fork: true\n");
    let unit = |name: &str, kind: &str, start: &str| {
        let text = format!("[Service]\nType={kind}\nExecStart={start}\n");
        image.write(&format!("lib/systemd/system/{name}.service"), &text);
    };
    unit("a", "forking", "/usr/sbin/mysqld --daemonize --pid-file=/run/mysqld/mysqld.pid $OPTS");
    unit("b", "simple", "/usr/bin/redis-server /etc/redis.conf --port 7000");
    unit("c", "forking", "/usr/bin/redis-server /etc/redis.conf --daemonize no");
    unit("d", "simple", "/usr/bin/memcached -u memcache -d");
    unit("e", "exec", "/usr/bin/mongod --config /etc/mongod.conf");
    unit("f", "forking", "/usr/sbin/served");
    let before = image.all();
    for (words, parts) in [
        (&["enable", "a"][..], &["a.service starts /usr/sbin/mysqld", "without: --daemonize"][..]),
        (&["enable", "b"], &["b.service starts /usr/bin/redis-server", "--daemonize no"]),
        (&["enable", "d"], &["d.service starts /usr/bin/memcached", "without: -d"]),
        (&["enable", "e"], &["e.service starts /usr/bin/mongod", "without: --fork"]),
        (&["enable", "f", "--profile", "generic"], &["f.service has Type=forking", "stay.conf"]),
    ] {
        let error = image.run(words).unwrap_err();
        for part in parts.iter().chain(&["nothing was changed", "enable it again"]) {
            assert!(error.contains(part), "{words:?}: {part}: {error}");
        }
        assert_eq!(image.all(), before, "{words:?}");
    }
    // The command line keeps the server in the foreground; the unit's type contradicts it.
    image.write("usr/bin/redis-server", "\x7fELF");
    assert!(image.run(&["enable", "c"]).unwrap_err().contains("--supervised systemd"));
    // A script starts the server as a separate program.
    unit("f", "forking", "/etc/init.d/served start");
    let plan = image.run(&["enable", "f", "--profile", "generic", "--dry-run"]).unwrap();
    assert!(plan.contains("note: Type=forking") && plan.contains("status --name f"), "{plan}");
    // A server that reports readiness stays. A known starter program does not.
    unit("b", "notify", "/usr/bin/redis-server /etc/redis.conf --supervised systemd");
    for name in ["b", "postgresql"] {
        let plan = image.run(&["enable", name, "--dry-run"]).unwrap();
        assert!(plan.contains("behind the gate") && !plan.contains("Type=forking"), "{plan}");
    }
}

#[test]
fn the_companion_is_told_of_a_pool_of_threads() {
    let with = |handling: &str| {
        let settings = crate::preflight::ServerSettings {
            thread_handling: Some(handling.to_owned()),
            extra_port: Some(3307),
            ..Default::default()
        };
        let mut command = "attend".to_owned();
        add_settings(&mut command, &settings);
        command
    };
    assert_eq!(with("one-thread-per-connection"), "attend --extra-port 3307");
    assert_eq!(with("pool-of-threads"), "attend --extra-port 3307 --pool-of-threads");
}

#[test]
fn a_change_that_fails_undoes_those_before_it() {
    let image = Image::new("undone");
    // A directory where the new file would be written.
    image.write("etc/systemd/system/mariadb.service.d/zz-headworks.headworks-new/x", "");
    let before = image.all();
    let error = image.run(&["enable", "mariadb"]).unwrap_err();
    assert!(error.contains("nothing was changed"), "{error}");
    assert_eq!(image.all(), before);
}

#[test]
fn a_companion_whose_file_is_gone_is_stopped_by_name() {
    let image = Image::new("stopped");
    image.run(&["enable", "mariadb"]).unwrap();
    let place = Place::find(&image.0).unwrap();
    let unit = || Unit::read(&image.0, "mariadb.service").unwrap().unwrap();
    let commands = Plan::to_disable(&place, unit()).unwrap().commands();
    let last = commands.last().unwrap().join(" ");
    assert_eq!(last, "systemctl stop headworks-mariadb.service", "{commands:?}");
    assert_eq!(commands[1].join(" "), "systemctl restart mariadb.service", "before that");
}

#[test]
fn units_are_read_as_systemd_reads_them() {
    let image = Image::new("units");
    image.write(
        "etc/systemd/system/mariadb.service.d/a.conf",
        "[Service]\nUser=\nUser=maria\n[Unit]\nUser=no\n",
    );
    image.write("lib/systemd/system/mariadb.service.d/a.conf", "[Service]\nUser=weaker\n");
    let unit = Unit::read(&image.0, "mariadb.service").unwrap().unwrap();
    assert_eq!((unit.last("User"), unit.all("Group")), (Some("maria"), vec!["mysql"]));
    assert!(unit.words().contains(&"/usr/sbin/mariadbd".to_owned()), "{:?}", unit.words());
    assert!(unit.yes("ProtectHome") && !unit.yes("PrivateTmp"));
    assert!(Unit::read(&image.0, "absent.service").unwrap().is_none());
}

/// Has systemd check the written units, where there is a systemd.
#[test]
fn systemd_takes_what_is_written() {
    let image = Image::new("verify");
    image.run(&["enable", "mariadb"]).unwrap();
    image.run(&["enable", "postgresql"]).unwrap();
    image.run(&["enable", "redis-server", "--profile", "generic"]).unwrap();
    for unit in [
        "mariadb.service",
        "headworks-mariadb.service",
        "redis-server.service",
        "headworks-redis-server.service",
    ] {
        let output = std::process::Command::new("systemd-analyze")
            .arg("--root")
            .arg(&image.0)
            .args(["--man=no", "verify", unit])
            .output();
        let Ok(output) = output else {
            println!("skipped: no systemd-analyze (apt-get install systemd)");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        // The image lacks the targets that the units name.
        let wrong: Vec<&str> = said
            .lines()
            .filter(|line| {
                ["Unknown", "invalid", "Invalid", "Failed to parse", "not executable", "ignoring"]
                    .iter()
                    .any(|word| line.contains(word))
            })
            .collect();
        assert!(wrong.is_empty(), "{unit}: {said}");
    }
}
