//! Databases under `--io noop`: the same answers by the same calls on files.

use crate::support::{RunDir, is_root, program};
use headworks_rig::{find_program, postgres_program};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const CALLS: &str = "trace=openat,read,pread64,write,pwrite64,pwritev,fsync,fdatasync,\
    sync_file_range,ftruncate,rename,unlink,fallocate,mkdir";

const UNPRIVILEGED: u32 = 65_534;

/// Who runs a database, and where.
struct Place {
    directory: PathBuf,
    run: RunDir,
    as_nobody: bool,
}

impl Place {
    fn new(name: &str, as_nobody: bool) -> Place {
        let name = format!("headworks-noop-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        if as_nobody {
            chown(&directory, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
        Place { directory, run: RunDir::new(), as_nobody }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all: Vec<&str> = Vec::new();
        if self.as_nobody {
            all.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        all.extend(words);
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).current_dir(&self.directory).env("LC_ALL", "C");
        command
    }

    /// Runs the database on what `input` says, alone or governed, directly or under strace.
    fn run(&self, governed: bool, traced: bool, database: &[&str], input: &str) -> Output {
        let trace = self.directory.join("trace");
        let program = program().to_str().unwrap();
        let mut words = Vec::new();
        if governed {
            words.extend([program, "run", "--name", "noop", "--io", "noop"]);
            words.extend(["--profile", "generic", "--"]);
        }
        if traced {
            words.extend(["strace", "-f", "-y", "-s", "0", "-e", CALLS, "-o"]);
            words.push(trace.to_str().unwrap());
        }
        words.extend(database);
        let mut command = self.command(&words);
        command.env("HEADWORKS_RUN_DIR", self.directory.join("run"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// The calls of the trace on files below `data`, without numbers of processes and descriptors.
    fn calls(&self, data: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.join("trace")).unwrap();
        let data = data.to_str().unwrap();
        // Their names or contents differ each time.
        let ours = |line: &&str| {
            line.contains(data) && !line.contains("postmaster.pid") && !line.contains("/dev/shm/")
        };
        let without_numbers = |line: &str| {
            let call = line.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == ' ');
            let (name, rest) = call.split_once('(').unwrap_or((call, ""));
            let rest = match rest.split_once('<') {
                Some((number, rest)) if number.parse::<u32>().is_ok() => format!("<{rest}"),
                _ => rest.to_owned(),
            };
            let end = rest.rfind(" = ").filter(|_| name == "openat").unwrap_or(rest.len());
            format!("{name}({}", &rest[..end])
        };
        text.lines().filter(ours).map(without_numbers).collect()
    }

    /// Both ways: the same answers, the same files, the same calls.
    fn compare(&self, database: &[&str], input: &str, fresh: impl Fn(&Path), wanted: &str) {
        let data = self.directory.join("data");
        let both = [false, true].map(|governed| {
            fresh(&data);
            let answers = String::from_utf8(self.run(governed, false, database, input).stdout);
            let answers = answers.unwrap();
            assert!(answers.contains(wanted), "{answers}");
            if find_program("strace").is_none() {
                println!("without strace (apt-get install strace): only answers are compared");
                return (answers, Vec::new());
            }
            fresh(&data);
            self.run(governed, true, database, input);
            let calls = self.calls(&data);
            assert!(calls.len() > 30, "{calls:?}");
            (answers, calls)
        });
        assert_eq!(both[0].0, both[1].0);
        for (plain, governed) in both[0].1.iter().zip(&both[1].1) {
            assert_eq!(plain, governed);
        }
        assert_eq!(both[0].1.len(), both[1].1.len());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.run.assert_nothing_left("the database ended");
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

const SQLITE: &str = r#"
import hashlib, sqlite3
for mode in "delete", "wal", "truncate":
    name = "data/" + mode
    base = sqlite3.connect(name)
    base.execute("pragma journal_mode=" + mode)
    base.execute("create table t(a integer primary key, b text)")
    for part in range(5):
        with base:
            rows = [(i, "row %d" % (i * 7919 % 1000)) for i in range(part * 200, part * 200 + 200)]
            base.executemany("insert into t values(?, ?)", rows)
    with base:
        base.execute("delete from t where a % 3 = 0")
    print(base.execute("select count(*), sum(a), max(b) from t").fetchall())
    print(base.execute("pragma integrity_check").fetchall())
    base.close()
    print(mode, hashlib.sha256(open(name, "rb").read()).hexdigest())
"#;

#[test]
fn sqlite_does_the_same_by_the_same_calls() {
    let Some(python) = find_program("python3") else {
        println!("skipped: no python3 (apt-get install python3)");
        return;
    };
    let place = Place::new("sqlite", false);
    let fresh = |data: &Path| {
        let _ = std::fs::remove_dir_all(data);
        std::fs::create_dir(data).unwrap();
    };
    place.compare(&[python.to_str().unwrap(), "-"], SQLITE, fresh, "[('ok',)]");
}

#[test]
fn sqlites_command_line_has_a_profile_of_its_own() {
    let Some(sqlite) = find_program("sqlite3") else {
        println!("skipped: no sqlite3 (apt-get install sqlite3)");
        return;
    };
    let place = Place::new("sqlite-line", false);
    let sql = "create table t(a); insert into t values(7); select a from t;";
    let mut command = place.run.headworks(["run", "--name", "sqlite", "--io", "split-deadline"]);
    let output = command.arg("--").arg(sqlite).args(["data", sql]).current_dir(&place.directory);
    let output = output.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("profile sqlite,") && !said.contains("warning: no profile"), "{said}");
    assert!(!said.contains("the gate sees"), "there are no clients to see: {said}");
}

const POSTGRES: &str = "create table t(a int primary key, b text)
insert into t select i, md5(i::text) from generate_series(1,3000) i
select count(*), md5(string_agg(b, ',' order by a)) from t
checkpoint
delete from t where a % 3 = 0
vacuum t
select sum(a), md5(string_agg(b, ',' order by a)) from t
";

#[test]
fn postgresql_does_the_same_by_the_same_calls() {
    let (Some(server), Some(initdb)) = (postgres_program("postgres"), postgres_program("initdb"))
    else {
        println!("skipped: no PostgreSQL (apt-get install postgresql)");
        return;
    };
    let place = Place::new("postgres", is_root());
    let template = place.directory.join("template");
    let template_name = template.to_str().unwrap();
    let words = [initdb.to_str().unwrap(), "-D", template_name, "-A", "trust", "-N"];
    let made = place.command(&words).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let fresh = |data: &Path| {
        let _ = std::fs::remove_dir_all(data);
        assert!(Command::new("cp").arg("-a").arg(&template).arg(data).status().unwrap().success());
    };
    let data = place.directory.join("data");
    let database = [server.to_str().unwrap(), "--single", "-D", data.to_str().unwrap(), "postgres"];
    place.compare(&database, POSTGRES, fresh, "md5 = ");
}
