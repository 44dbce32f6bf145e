//! Power cuts under databases: after each one the file system recovers, the database recovers, and
//! every commit that a client was told of is there.

use crate::rig::{KINDS, Rig, can_make_or_skip, can_mount_or_skip, cuts_or};
use headworks_rig::{PostgresServer, Server, mariadb_or_skip, postgres_or_skip, server_can_reach};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clients that commit at the same time.
const CLIENTS: u64 = 4;

/// Commits before a cut: so many and up to twice as many.
const COMMITS: u64 = 60;

/// The I/O schedulers that a database has in turn.
const SCHEDULERS: [&str; 6] = ["split-deadline", "rcp", "afq", "split-token", "scs-token", "noop"];

/// A database on a volume.
trait Database: Sized {
    type Client;
    /// Behind this I/O scheduler, if any.
    fn start(data: &Path, io: &[OsString]) -> Self;
    fn connect(&self) -> Self::Client;
    /// Runs a statement; whether it was acknowledged.
    fn run(client: &mut Self::Client, sql: &str) -> bool;
    fn identifiers(client: &mut Self::Client) -> BTreeSet<u64>;
    /// Kills it and all its processes.
    fn kill(self);
    /// Stops it as an operator would.
    fn stop(self);
}

impl Database for Server {
    type Client = headworks_rig::Client;

    fn start(data: &Path, io: &[OsString]) -> Self {
        Server::builder()
            .prefix(io)
            .data_directory(data)
            // Pages by calls that the file hooks see.
            .options([
                "--innodb-use-native-aio=0",
                "--innodb-log-file-size=16M",
                "--innodb-buffer-pool-size=16M",
            ])
            .start()
            .unwrap()
    }

    fn connect(&self) -> Self::Client {
        Server::connect(self).unwrap()
    }

    fn run(client: &mut Self::Client, sql: &str) -> bool {
        client.query(sql).is_ok()
    }

    fn identifiers(client: &mut Self::Client) -> BTreeSet<u64> {
        // Longer lists than this one would be several rows.
        assert!(Self::run(client, "set session group_concat_max_len = 100000000"));
        let answer = client.query("select group_concat(id order by id) from acknowledged").unwrap();
        let list = answer.value().unwrap_or_default();
        list.split(',').filter_map(|id| id.parse().ok()).collect()
    }

    fn kill(mut self) {
        Server::kill(&mut self).unwrap();
    }

    fn stop(mut self) {
        Server::stop(&mut self, Duration::from_secs(60)).unwrap();
    }
}

impl Database for PostgresServer {
    type Client = postgres::Client;

    fn start(data: &Path, io: &[OsString]) -> Self {
        PostgresServer::builder()
            .prefix(io)
            .data_directory(data)
            .setting("fsync", "on")
            .setting("synchronous_commit", "on")
            .setting("full_page_writes", "on")
            .setting("shared_buffers", "16MB")
            .setting("max_wal_size", "64MB")
            .start()
            .unwrap()
    }

    fn connect(&self) -> Self::Client {
        let text = format!(
            "host=127.0.0.1 port={} user={} dbname=postgres",
            self.port(),
            headworks_rig::SUPERUSER
        );
        postgres::Client::connect(&text, postgres::NoTls).unwrap()
    }

    fn run(client: &mut Self::Client, sql: &str) -> bool {
        client.batch_execute(sql).is_ok()
    }

    fn identifiers(client: &mut Self::Client) -> BTreeSet<u64> {
        let rows = client.query("select id from acknowledged", &[]).unwrap();
        rows.iter().map(|row| u64::try_from(row.get::<_, i64>(0)).unwrap()).collect()
    }

    fn kill(mut self) {
        // Its processes are several. The postmaster ends the others at once. Without it, those that
        // wait for a lock of a dead one would wait for ever.
        self.end(libc::SIGQUIT, Duration::from_secs(60)).unwrap();
    }

    fn stop(mut self) {
        self.end(libc::SIGINT, Duration::from_secs(60)).unwrap();
    }
}

/// A file and the programs that have it open. The first one does nothing but name the region of the
/// others.
struct Sqlite {
    file: PathBuf,
    first: Option<Child>,
}

/// A separate `sqlite3`.
struct SqliteShell {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl SqliteShell {
    /// The answer's lines; none if the program has ended, as it does at an error.
    fn ask(&mut self, sql: &str) -> Option<Vec<String>> {
        const END: &str = "that is all";
        self.to.write_all(format!("{sql};\nselect '{END}';\n").as_bytes()).ok()?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.from.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) if line.trim_end() == END => return Some(lines),
                Ok(_) => lines.push(line.trim_end().to_owned()),
            }
        }
    }
}

impl Drop for SqliteShell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Database for Sqlite {
    type Client = SqliteShell;

    fn start(data: &Path, io: &[OsString]) -> Self {
        std::fs::create_dir_all(data).unwrap();
        let first = io.split_first().map(|(program, words)| {
            let mut command = Command::new(program);
            command.args(words).args(["cat"]).stdin(Stdio::piped()).spawn().unwrap()
        });
        Sqlite { file: data.join("database"), first }
    }

    fn connect(&self) -> SqliteShell {
        let mut command = Command::new("sqlite3");
        if let Some(first) = &self.first {
            let began = Instant::now();
            // Those of `headworks` itself come first.
            let environment = loop {
                let read = std::fs::read(format!("/proc/{}/environ", first.id())).unwrap();
                let environment = String::from_utf8(read).unwrap();
                if environment.contains("HEADWORKS_IO=") {
                    break environment;
                }
                assert!(began.elapsed() < Duration::from_secs(60), "it does not start");
                std::thread::sleep(Duration::from_millis(1));
            };
            command.env_clear().envs(environment.split('\0').filter_map(|set| set.split_once('=')));
        }
        let mut process = command
            .args(["-batch", "-bail"])
            .arg(&self.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut shell = SqliteShell { process, to, from: BufReader::new(from) };
        // Checkpoints are frequent, so that cuts meet them, too.
        let settings = "pragma journal_mode = wal; pragma synchronous = full; \
            pragma wal_autocheckpoint = 20;\n.timeout 60000\nselect 1";
        assert!(shell.ask(settings).is_some());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", shell.process.id())).unwrap();
        assert_eq!(maps.contains("libheadworks"), self.first.is_some());
        shell
    }

    fn run(client: &mut SqliteShell, sql: &str) -> bool {
        client.ask(sql).is_some()
    }

    fn identifiers(client: &mut SqliteShell) -> BTreeSet<u64> {
        let lines = client.ask("select id from acknowledged").unwrap();
        lines.iter().map(|id| id.parse().unwrap()).collect()
    }

    fn kill(self) {
        self.stop();
    }

    fn stop(mut self) {
        if let Some(first) = &mut self.first {
            first.kill().unwrap();
            first.wait().unwrap();
        }
    }
}

/// The command that starts a program behind an I/O scheduler.
fn behind(name: &str, scheduler: &str) -> Vec<OsString> {
    let name = format!("cut-{name}-{}", std::process::id());
    let words = ["run", "--io", scheduler, "--io-device", "disk", "--name", &name, "--"];
    let program = OsString::from(env!("CARGO_BIN_EXE_headworks"));
    std::iter::once(program).chain(words.map(OsString::from)).collect()
}

/// Clients that insert and remember until nothing is acknowledged any more.
fn commit_until_the_end<D: Database>(
    database: &D,
    first: u64,
    count: &Arc<AtomicU64>,
) -> Vec<std::thread::JoinHandle<Vec<u64>>>
where
    D::Client: Send + 'static,
{
    let client = |number: u64| {
        let mut client = database.connect();
        let count = Arc::clone(count);
        std::thread::spawn(move || {
            let mut acknowledged = Vec::new();
            for id in (first + number..).step_by(CLIENTS as usize) {
                let payload = "x".repeat(100 + (id % 1_900) as usize);
                let sql = format!("insert into acknowledged values ({id}, '{payload}')");
                if !D::run(&mut client, &sql) {
                    break;
                }
                acknowledged.push(id);
                count.fetch_add(1, Ordering::SeqCst);
            }
            acknowledged
        })
    };
    (0..CLIENTS).map(client).collect()
}

/// On the first two kinds of volume, each behind half of the schedulers; in the long test on all.
fn survives_power_cuts<D: Database>(name: &str, seed: u64)
where
    D::Client: Send + 'static,
{
    let half = SCHEDULERS.len() as u64 / 2;
    let cuts = cuts_or(half);
    let kinds = &KINDS[..if cuts > half { KINDS.len() } else { 2 }];
    for ((file_system, block), seed) in kinds.iter().zip(seed..) {
        if can_make_or_skip(file_system) {
            survives_on::<D>(name, (file_system, block), (cuts, seed));
        }
    }
}

fn survives_on<D: Database>(
    name: &str,
    (file_system, block): (&str, &str),
    (cuts, seed): (u64, u64),
) where
    D::Client: Send + 'static,
{
    let rig = Rig::new();
    if !server_can_reach(&rig.mnt()) {
        return println!("skipped: the servers' account cannot enter {}", rig.dir.display());
    }
    let image = rig.image("d");
    let layer = "powercut:cache=32M,keep=0.5";
    // Flushes take their time, as those of a drive do: else most cuts would find nothing to lose.
    let slow = "delay:flush=3ms";
    let create = ["create", "d", "--size", "1G", "--backing", &image, "--fs", file_system];
    let rest = ["--block", block, "--layer", slow, "--layer", layer];
    rig.ok(&[&create[..], &rest].concat());
    rig.mount("d");
    let data = rig.mnt().join("data");
    let database = D::start(&data, &[]);
    let table = "create table acknowledged (id bigint primary key, payload text)";
    assert!(D::run(&mut database.connect(), table));
    database.stop();
    rig.umount("d");

    let mut acknowledged = BTreeSet::new();
    let mut next = 1;
    let (mut harmful, mut mended) = (0, 0);
    for cut in 0..cuts {
        rig.mount("d");
        let scheduler = SCHEDULERS[(cut + seed * cuts) as usize % SCHEDULERS.len()];
        let database = D::start(&data, &behind(name, scheduler));
        let count = Arc::new(AtomicU64::new(0));
        let clients = commit_until_the_end(&database, next, &count);
        let enough = COMMITS + (cut * 37 + seed) % COMMITS;
        let began = Instant::now();
        while count.load(Ordering::SeqCst) < enough {
            assert!(began.elapsed() < Duration::from_secs(120), "{name} does not get on");
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = rig.ok(&["powercut", "d"]);
        // It may have noticed, or still try: its answers do not count from here on.
        database.kill();
        for client in clients {
            let list = client.join().unwrap();
            next = next.max(list.last().map_or(0, |last| last + 2 * CLIENTS));
            acknowledged.extend(list);
        }
        let cut_found = &rig.stat("d")["figures"]["power"]["last_cut"];
        let sectors = ["dropped", "kept", "torn"].map(|what| cut_found[what].as_u64().unwrap());
        harmful += u64::from(sectors.iter().sum::<u64>() > 0);
        println!(
            "{name}, {scheduler}, cut {}: {} commits; {}",
            cut + 1,
            acknowledged.len(),
            said.trim()
        );
        rig.umount("d");

        mended += u64::from(rig.mount_after_cut("d", &image, block));
        let database = D::start(&data, &[]);
        let found = D::identifiers(&mut database.connect());
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "{name} lost {} acknowledged commits: {lost:?}", lost.len());
        next = next.max(found.last().copied().unwrap_or(0) + 1);
        database.stop();
        rig.umount("d");
        rig.assert_sound(&image);
    }
    println!(
        "{name} on {file_system}, sectors of {block}: {cuts} cuts, {harmful} with unflushed sectors, \
         {mended} needed e2fsck; {} commits were acknowledged, none is lost",
        acknowledged.len()
    );
    // A few cuts may all fall between two writes.
    assert!(cuts < 20 || harmful * 4 >= cuts, "{harmful} cuts found unflushed sectors");
}

#[test]
fn mariadb_keeps_every_acknowledged_commit() {
    if can_mount_or_skip() && mariadb_or_skip() {
        survives_power_cuts::<Server>("MariaDB", 21);
    }
}

#[test]
fn postgres_keeps_every_acknowledged_commit() {
    if can_mount_or_skip() && postgres_or_skip() {
        survives_power_cuts::<PostgresServer>("PostgreSQL", 22);
    }
}

#[test]
fn sqlite_keeps_every_acknowledged_commit() {
    if !can_mount_or_skip() {
        return;
    }
    if Command::new("sqlite3").arg("--version").output().is_err() {
        return println!("skipped: needs sqlite3");
    }
    survives_power_cuts::<Sqlite>("SQLite", 23);
}
