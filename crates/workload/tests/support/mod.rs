//! Servers for the tests: MariaDB from the rig, PostgreSQL in a temporary directory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::{Server, find_program, mariadb_or_skip};
use headworks_workload::db::Database;

/// A MariaDB that forgives losing a second at a power cut, so that tests do not wait for the disk.
pub fn mariadb() -> Option<Server> {
    mariadb_or_skip().then(|| {
        Server::builder()
            .options(["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=128M"])
            .start()
            .expect("MariaDB starts")
    })
}

/// Its address for a workload.
pub fn address(server: &Server) -> String {
    format!("mysql://app@127.0.0.1:{}/rig", server.port())
}

/// A PostgreSQL that goes away with this value.
pub struct PostgreSql {
    child: Child,
    guard: Child,
    directory: PathBuf,
}

/// Waits for the end of its input, which is the end of the test however it comes. Then it takes the
/// server down, if the process is still that server: its working directory is the server's.
const GUARD: &str = r#"
pid=$1; home=$2
read -r forever
[ "$(readlink "/proc/$pid/cwd")" = "$home/data" ] && kill -INT "$pid" && sleep 1
rm -rf -- "$home"
"#;

impl Drop for PostgreSql {
    fn drop(&mut self) {
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        // SIGINT: fast shutdown. The parent's exit takes its children along.
        // SAFETY: the child has not been waited for, so its process id is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None))
        {
            sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A PostgreSQL on a Unix socket, if it is installed; says so if it is not.
pub fn postgresql() -> Option<PostgreSql> {
    let debian = Path::new("/usr/lib/postgresql/15/bin");
    let find = |name: &str| {
        Some(debian.join(name)).filter(|path| path.exists()).or_else(|| find_program(name))
    };
    let (Some(initdb), Some(postgres)) = (find("initdb"), find("postgres")) else {
        println!("skipped: postgres is not installed (apt-get install postgresql)");
        return None;
    };
    Some(PostgreSql::start(&initdb, &postgres).expect("PostgreSQL starts"))
}

impl PostgreSql {
    fn start(initdb: &Path, postgres: &Path) -> Result<Self> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Short: a socket's path has 107 bytes.
        let directory = std::env::temp_dir().join(format!("hw-pg-{}-{count}", std::process::id()));
        fs::create_dir(&directory)?;
        // PostgreSQL refuses to serve as root; user and group 65534 have no rights on any Linux.
        // SAFETY: geteuid has no preconditions.
        let root = unsafe { libc::geteuid() } == 0;
        if root {
            std::os::unix::fs::chown(&directory, Some(65_534), Some(65_534))?;
        }
        let command = |program: &Path| {
            let mut command = Command::new(program);
            command.env_remove("LD_PRELOAD").env("TZ", "UTC").current_dir(&directory);
            command.stdin(Stdio::null()).process_group(0);
            if root {
                command.uid(65_534).gid(65_534);
            }
            command
        };
        let data = directory.join("data");
        let output = command(initdb)
            .args(["-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()?;
        ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let log = fs::File::create(directory.join("log"))?;
        let child = command(postgres)
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&directory)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off"])
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("postgres")?;
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "guard", &child.id().to_string()])
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let server = Self { child, guard, directory };
        let begun = Instant::now();
        let database: Database = server.address().parse()?;
        while let Err(error) = database.connect() {
            if begun.elapsed() > Duration::from_secs(30) {
                let log = fs::read_to_string(server.directory.join("log")).unwrap_or_default();
                bail!("PostgreSQL does not answer: {error}\n{log}");
            }
            sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Its address for a workload.
    pub fn address(&self) -> String {
        format!("postgres://app@/postgres?host={}", self.directory.display())
    }
}
