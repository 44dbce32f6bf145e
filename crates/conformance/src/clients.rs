//! Real clients, and how each runs a script.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headworks_rig::{find_program, java_class_path, postgres_program};

use crate::behaviour::{Behaviour, home};
use crate::database::{Database, Subject};

/// No behaviour takes this long, on any machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// The Node drivers, as far as behaviours ask for them first.
const DRIVERS: [&str; 5] = ["pg", "mysql2", "ioredis", "memjs", "mongodb"];

/// How a client ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Both streams, in the order of writing.
    pub text: String,
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
}

/// Where drivers that are not Debian's are kept: `make test-conformance` puts them there.
fn drivers() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
    target.join("conformance")
}

/// Why a behaviour cannot run here, if so.
pub fn missing(database: Database, behaviour: &Behaviour) -> Option<String> {
    let need = |program: &str, package: &str| {
        let here = find_program(program).is_some() || postgres_program(program).is_some();
        (!here).then(|| format!("{program} is not installed (apt-get install {package})"))
    };
    let fetched = |path: PathBuf| {
        (!path.exists())
            .then(|| format!("{} is not there (make test-conformance fetches it)", path.display()))
    };
    let modules = drivers().join("node/node_modules");
    match (behaviour.path.extension().and_then(|extension| extension.to_str()), database) {
        // Its driver is beside its server, without which nothing is asked at all.
        (Some("java"), Database::MongoDb) => None,
        (Some("java"), _) => need("java", "default-jdk-headless")
            .or_else(|| fetched(drivers().join("java/postgresql.jar"))),
        (Some("cjs"), _) => need("node", "nodejs")
            .or_else(|| DRIVERS.iter().find_map(|driver| fetched(modules.join(driver)))),
        (_, Database::MariaDb | Database::MariaDbPool) => need("mariadb", "mariadb-client"),
        (_, Database::PostgreSql) => need("psql", "postgresql-client"),
        (_, Database::Redis) => {
            need("redis-cli", "redis-tools").or_else(|| need("redis-benchmark", "redis-tools"))
        }
        (_, Database::Memcached) => need("memccapable", "libmemcached-tools"),
        (_, Database::MongoDb) => None,
    }
}

/// Runs a behaviour against the server at `port`. Scripts run in a fresh directory. They get the
/// server's `HOST` and `PORT`, and `DIRECT`, the port without a relay between. `TLS` and `JDBC` are
/// a client's options for encryption.
pub fn run(
    subject: Subject,
    behaviour: &Behaviour,
    port: u16,
    direct: u16,
    scratch: &Path,
) -> Result<Printed> {
    let mut command = command(subject, &behaviour.path, port)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let postgres = postgres_program("psql").unwrap_or_default();
    let postgres = postgres.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir(scratch)?;
    let output = File::create(scratch.with_extension("out"))?;
    command
        .current_dir(scratch)
        .env("PATH", format!("{}:{path}", postgres.display()))
        .env("HOST", "127.0.0.1")
        .env("PORT", port.to_string())
        .env("DIRECT", direct.to_string())
        .env("TLS", options_for_tls(subject))
        .env("JDBC", jdbc_for_tls(subject))
        .envs(subject.tls.then_some(("PGSSLMODE", "require")))
        .env("NODE_PATH", drivers().join("node/node_modules"))
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .envs([("PGHOST", "127.0.0.1"), ("PGUSER", "app"), ("PGDATABASE", "postgres")])
        .env("PGPORT", port.to_string())
        .stdin(input(behaviour, scratch)?)
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            // SAFETY: the group of a child that was not waited for.
            unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
            let _ = child.wait();
            let text = fs::read(scratch.with_extension("out"))?;
            bail!("{} is stuck; it printed:\n{}", behaviour.name, String::from_utf8_lossy(&text));
        }
        sleep(Duration::from_millis(5));
    };
    let text = String::from_utf8_lossy(&fs::read(scratch.with_extension("out"))?).into_owned();
    let kept = text.lines().map(without_times);
    let kept = kept.filter(|line| !behaviour.ignored.iter().any(|part| line.contains(part)));
    Ok(Printed { text: kept.collect::<Vec<_>>().join("\n"), code: status.code() })
}

/// Options with which a client of the command line encrypts, whatever the certificate says.
fn options_for_tls(subject: Subject) -> &'static str {
    match subject.database {
        database if database.is_mariadb() && subject.tls => "--ssl --skip-ssl-verify-server-cert",
        Database::Redis if subject.tls => "--tls --insecure",
        // Of `openssl s_client`: it adds no text, and stays until the server hangs up.
        Database::Memcached if subject.tls => "-quiet",
        _ => "",
    }
}

/// Parameters with which a JDBC driver encrypts, whatever the certificate says.
fn jdbc_for_tls(subject: Subject) -> &'static str {
    match subject.database {
        database if database.is_mariadb() && subject.tls => "&sslMode=trust",
        Database::PostgreSql if subject.tls => "&sslmode=require",
        _ => "",
    }
}

/// Standard input: the commands of a script for a client that takes them from there.
fn input(behaviour: &Behaviour, scratch: &Path) -> Result<Stdio> {
    if behaviour.path.extension().is_none_or(|extension| extension != "redis") {
        return Ok(Stdio::null());
    }
    let text = fs::read_to_string(&behaviour.path)?;
    let commands = text.lines().filter(|line| !line.starts_with("# "));
    let file = scratch.with_extension("in");
    fs::write(&file, commands.flat_map(|line| [line, "\n"]).collect::<String>())?;
    Ok(File::open(file)?.into())
}

fn command(subject: Subject, script: &Path, port: u16) -> Result<Command> {
    let extension = script.extension().and_then(|extension| extension.to_str());
    let tls = options_for_tls(subject).split_whitespace();
    let mut command = match (extension, subject.database) {
        (Some("sql"), Database::MariaDb | Database::MariaDbPool) => {
            let mut command = Command::new("mariadb");
            command.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-uapp"]).args(tls);
            command.arg(format!("-P{port}"));
            command.args(["--table", "-vv", "--force", "--show-warnings", "rig"]);
            command.arg("-e").arg(format!("source {}", script.display()));
            return Ok(command);
        }
        (Some("sql"), Database::PostgreSql) => {
            let mut command = Command::new("psql");
            command.args(["-X", "-a", "-f"]);
            command
        }
        (Some("redis"), Database::Redis) => {
            let mut command = Command::new("redis-cli");
            command.arg("-p").arg(port.to_string()).args(tls);
            return Ok(command);
        }
        (Some("sh"), _) => {
            let mut command = Command::new("bash");
            command.arg("-eu");
            command
        }
        (Some("cjs"), _) => Command::new("node"),
        (Some("java"), database) => {
            let mut command = Command::new("java");
            let path = match database {
                Database::MongoDb => java_class_path(),
                _ => drivers().join("java/*").into_os_string(),
            };
            command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(path);
            command
        }
        _ => bail!("nothing runs {}", script.display()),
    };
    command.arg(script);
    Ok(command)
}

/// A line without `(0.123 sec)` at its end.
fn without_times(line: &str) -> &str {
    let Some((head, time)) = line.rsplit_once(" (") else { return line };
    let Some(time) = time.strip_suffix(" sec)") else { return line };
    if time.parse::<f64>().is_ok() { head } else { line }
}

/// Where the drivers are described.
pub fn describe() -> String {
    format!("drivers: {} (from {})", drivers().display(), home().join("clients").display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_no_part_of_an_answer() {
        assert_eq!(without_times("1 row in set (0.001 sec)"), "1 row in set");
        assert_eq!(without_times("f (x sec)"), "f (x sec)");
        assert_eq!(without_times("a (b)"), "a (b)");
    }
}
