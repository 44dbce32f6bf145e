//! A cluster of Debian's PostgreSQL, started by Debian's own program, with its gate beside it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use headworks_rig::{find_program, postgres_program};
use serde_json::Value;

use crate::support::{is_root, shim, text, wait_until};

const NAME: &str = "cluster";

/// Everything in one directory, whose owner all of it runs as.
struct Cluster {
    directory: std::path::PathBuf,
    version: String,
    companion: Option<Child>,
}

impl Cluster {
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir("/")
            .env("PG_CLUSTER_CONF_ROOT", self.directory.join("conf"))
            .env("HEADWORKS_RUN_DIR", self.directory.join("run"))
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null());
        if is_root() {
            command.uid(65_534).gid(65_534);
        }
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }

    /// Our program and library, where the cluster's user can read them.
    fn own(&self) -> std::path::PathBuf {
        self.directory.join("headworks")
    }

    fn status(&self) -> Option<Value> {
        let output = self.run(&self.own(), &["status", "--json", "--name", NAME]);
        serde_json::from_slice(&output.stdout).ok()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(program) = find_program("pg_ctlcluster") {
            self.run(&program, &[&self.version, "main", "-m", "immediate", "stop"]);
        }
        if let Some(companion) = &mut self.companion {
            let _ = companion.kill();
            let _ = companion.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The name of Debian's cluster is a part of its processes' titles: the profile's rules fit them.
fn files_are_scheduled(cluster: &Cluster, ask: &dyn Fn(&str) -> String) {
    let of = |name: &str| {
        let output = cluster.run(&cluster.own(), &["io", "top", "--json", "--name", NAME]);
        let top: Value = serde_json::from_slice(&output.stdout).unwrap();
        let accounts = top["accounts"].as_array().unwrap().clone();
        let calls =
            accounts.iter().filter(|account| account["name"].as_str().unwrap().contains(name));
        let count = |key: &str| calls.clone().map(|account| account[key].as_u64().unwrap()).sum();
        let (critical, background): (u64, u64) = (count("critical"), count("background"));
        (critical, background)
    };
    ask("CREATE TABLE numbers (n int)");
    ask("CHECKPOINT");
    let memory = cluster.run(Path::new("/usr/bin/stat"), &["-f", "-c", "%T", "/tmp"]);
    if text(&memory).contains("tmpfs") {
        println!("skipped: the cluster's files do not lie on storage (/tmp)");
        return;
    }
    assert!(of("checkpointer").1 > 0, "no client waits for a checkpoint");
    wait_until("the log writer has made the log durable", || {
        ask("SET synchronous_commit = off; INSERT INTO numbers SELECT generate_series(1, 1000)");
        of("walwriter").0 > 0
    });
    assert_eq!(of("walwriter").1, 0, "commits wait for it");
}

#[test]
fn a_cluster_of_debian_finds_its_gate_by_its_environment_file() {
    let (Some(create), Some(control), Some(postgres)) = (
        find_program("pg_createcluster"),
        find_program("pg_ctlcluster"),
        postgres_program("postgres"),
    ) else {
        println!("skipped: no pg_ctlcluster (apt-get install postgresql)");
        return;
    };
    let version = postgres.iter().rev().nth(2).unwrap().to_str().unwrap().to_owned();
    let directory = std::env::temp_dir().join(format!("headworks-cluster-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    for part in ["conf", "data", "run"] {
        fs::create_dir_all(directory.join(part)).unwrap();
    }
    if is_root() {
        for path in ["", "conf", "data", "run"] {
            std::os::unix::fs::chown(directory.join(path), Some(65_534), Some(65_534)).unwrap();
        }
    }
    let mut cluster = Cluster { directory: directory.clone(), version, companion: None };
    let library = directory.join("libheadworks.so");
    // By another process: a child that another test forks while this one has the file open for
    // writing keeps it busy.
    let copied = Command::new("cp").arg(crate::support::program()).arg(cluster.own()).status();
    assert!(copied.unwrap().success());
    fs::copy(shim(), &library).unwrap();
    let path = |part: &str| directory.join(part).to_str().unwrap().to_owned();
    let port = headworks_rig::free_port().unwrap();
    let made = cluster.run(
        &create,
        &[
            &cluster.version,
            "main",
            "-d",
            &path("data/main"),
            "-s",
            &path("run"),
            "-l",
            &path("log"),
            "-p",
            &port.to_string(),
            "--start-conf",
            "manual",
            "--",
            "--no-sync",
            "-A",
            "trust",
            "-U",
            "app",
        ],
    );
    if !made.status.success() {
        println!("skipped: pg_createcluster refuses a private cluster here: {}", text(&made));
        return;
    }
    // What `enable` writes there.
    let file = directory.join("conf").join(&cluster.version).join("main/environment");
    let instance = directory.join("run").join(NAME);
    let environment = fs::read_to_string(&file).unwrap()
        + &format!(
            "LD_PRELOAD = '{}'\nHEADWORKS_REGION = '{}'\nHEADWORKS_IO = '{}'\n",
            library.display(),
            instance.join("region").display(),
            instance.join("io").display()
        );
    fs::write(&file, environment).unwrap();
    let attend = ["attend", "--name", NAME, "--profile", "postgresql", "--io", "rcp"];
    cluster.companion = Some(cluster.command(&cluster.own(), &attend).spawn().unwrap());
    wait_until("the gate is ready", || cluster.status().is_some());
    let started = cluster.run(&control, &[&cluster.version, "main", "start"]);
    assert!(started.status.success(), "{}", text(&started));
    let psql = postgres_program("psql").unwrap();
    let sql = ["-X", "-At", "-h", &path("run"), "-p", &port.to_string(), "-U", "app", "postgres"];
    let ask = |sql_text: &str| {
        let output = cluster.run(&psql, &[&["-c", sql_text], &sql[..]].concat());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    wait_until("it serves", || ask("SELECT 7") == "7");
    let postmaster = fs::read_to_string(directory.join("data/main/postmaster.pid")).unwrap();
    let postmaster: u64 = postmaster.lines().next().unwrap().parse().unwrap();
    wait_until("the gate knows its server", || {
        cluster.status().is_some_and(|status| {
            status["server_pid"] == postmaster
                && status["classes"][0]["requests"].as_u64() >= Some(1)
        })
    });
    files_are_scheduled(&cluster, &ask);
    let stopped = cluster.run(&control, &[&cluster.version, "main", "-m", "fast", "stop"]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    wait_until("the gate waits for the next one", || {
        cluster.status().is_some_and(|status| status["server_pid"] == 0)
    });
}
