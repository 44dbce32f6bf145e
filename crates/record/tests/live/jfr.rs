//! A Java virtual machine's flight recorder tells what its threads wait on.

use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use serde_json::Value;
use std::fs::DirEntry;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Shop(Child);

impl Shop {
    fn open() -> Option<Shop> {
        let source = scratch("Shop.java");
        std::fs::write(&source, include_str!("Shop.java")).expect("a file");
        let mut java = Command::new("java");
        java.arg("-Xmx64m").arg(&source).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = java.spawn() else {
            println!("skipped: java is missing (apt-get install openjdk-17-jdk-headless)");
            return None;
        };
        let out = child.stdout.take().expect("a pipe");
        let shop = Shop(child);
        let ready = BufReader::new(out).lines().next().and_then(Result::ok);
        assert_eq!(ready.as_deref(), Some("ready"));
        Some(shop)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn jcmd(&self, words: &[&str]) -> String {
        said(&Command::new("jcmd").arg(self.pid()).args(words).output().expect("jcmd"))
    }

    /// The machine's recordings, when they are as wanted, or after some time.
    fn recordings(&self, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let check = self.jcmd(&["JFR.check"]);
            if wanted(&check) || Instant::now() > until {
                return check;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn report(&self, words: &[&str]) -> Value {
        let mut recording = recorder();
        recording.args(["record", "--json", "--pid", &self.pid(), "--for", "3s"]).args(words);
        recording.arg("-o").arg(scratch("shop.toml"));
        let child = recording.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the recorder");
        let number = child.id();
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(left_by(number), Vec::<PathBuf>::new());
        let wish = PathBuf::from(format!("/tmp/.attach_pid{}", self.pid()));
        assert!(!wish.exists(), "the wish that the machine listens");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files that a recorder left in the machine's folder.
fn left_by(recorder: u32) -> Vec<PathBuf> {
    let ours = format!("headworks-{recorder}-");
    let files = std::fs::read_dir("/tmp").expect("a folder").flatten();
    let named = |file: &DirEntry| file.file_name().to_string_lossy().starts_with(&ours);
    files.filter(named).map(|file| file.path()).collect()
}

/// The rows of one list whose fields are these.
fn has(report: &Value, list: &str, fields: &[(&str, &str)]) -> bool {
    let rows = report[list].as_array().expect("a list");
    rows.iter().any(|row| fields.iter().all(|(field, value)| row[field] == *value))
}

const SELLERS: &str = "a-seller-with-a-long-name";

#[test]
fn without_ebpf_locks_have_their_class_and_who_notifies_is_known() {
    let Some(shop) = Shop::open() else { return };
    let report = shop.report(&["--proc", "--jfr"]);
    for lock in ["Shop$Stock in Shop.order", "ReentrantLock in Shop.book"] {
        assert!(has(&report, "locks", &[("name", lock)]), "{lock}: {report:#}");
    }
    for (class, stage, by) in [
        ("Shop$Stock", SELLERS, "enter"),
        ("ReentrantLock", SELLERS, "park"),
        ("Shop$Basket", "biller", "wait"),
        ("LinkedBlockingQueue", "mailer", "park"),
    ] {
        let row = [("class", class), ("stage", stage), ("by", by)];
        assert!(has(&report, "monitors", &row), "{class}: {report:#}");
    }
    let arrow = [("from", SELLERS), ("to", "biller")];
    assert!(has(&report, "arrows", &arrow), "{report:#}");
    // The machine has no recording any more.
    let check = shop.jcmd(&["JFR.check"]);
    assert!(check.contains("No available recordings"), "{check}");
}

/// A machine that was just started has neither its library nor its threads.
#[test]
fn a_machine_that_the_recorder_starts_is_asked_for_names_once_it_answers() {
    let source = scratch("started-Shop.java");
    std::fs::write(&source, include_str!("Shop.java")).expect("a file");
    if Command::new("java").arg("-version").stderr(Stdio::null()).status().is_err() {
        println!("skipped: java is missing (apt-get install openjdk-17-jdk-headless)");
        return;
    }
    let diagram = scratch("started.toml");
    let mut recording = recorder();
    recording.args(["record", "--for", "8s", "-o"]).arg(&diagram);
    let output = recording.args(["--", "java", "-Xmx64m"]).arg(&source).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let text = std::fs::read_to_string(&diagram).expect("a diagram");
    assert!(text.contains(SELLERS), "{text}\n{}", said(&output));
}

#[test]
fn it_is_left_alone_unless_asked_for_and_if_it_is_in_use() {
    let Some(shop) = Shop::open() else { return };
    let none = |report: &Value, why: &str| {
        assert_eq!(report["monitors"], serde_json::json!([]));
        let unseen = report["unseen"].to_string();
        assert!(unseen.contains(why), "{unseen}");
    };
    none(&shop.report(&["--proc"]), "--jfr asks its flight recorder");
    let said = shop.jcmd(&["JFR.check"]);
    assert!(said.contains("No available recordings"), "{said}");
    let said = shop.jcmd(&["JFR.start", "name=theirs", "disk=false"]);
    assert!(said.contains("Started recording"), "{said}");
    none(&shop.report(&["--proc", "--jfr"]), "has the recording theirs");
    let said = shop.jcmd(&["JFR.check"]);
    assert!(said.contains("name=theirs") && !said.contains("headworks-"), "{said}");
}

#[test]
fn a_killed_recorder_leaves_a_machine_that_serves_and_whose_recording_ends() {
    let Some(mut shop) = Shop::open() else { return };
    let mut killed = recorder()
        .args(["record", "--proc", "--jfr", "--pid", &shop.pid(), "--for", "6s", "-o"])
        .arg(scratch("killed-shop.toml"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the recorder");
    let ours = |check: &str| check.contains("name=headworks-");
    let runs = |check: &str| check.lines().any(|line| ours(line) && line.ends_with("(running)"));
    let said = shop.recordings(runs);
    killed.kill().expect("it has not ended");
    killed.wait().expect("it ends");
    // It may have been about to remove its settings.
    left_by(killed.id()).iter().for_each(|file| std::fs::remove_file(file).expect("a file"));
    assert!(runs(&said), "{said}");
    let said = shop.recordings(|check| !runs(check));
    assert!(said.contains("ecording") && !runs(&said), "{said}");
    assert!(shop.0.try_wait().expect("a child").is_none(), "the machine ended");
    let report = shop.report(&["--proc", "--jfr"]);
    let row = [("class", "Shop$Stock"), ("stage", SELLERS)];
    assert!(has(&report, "monitors", &row), "{report:#}");
    // While it runs, the next recording ends it.
    let said = shop.jcmd(&["JFR.start", "name=headworks-4194305-1", "disk=false"]);
    assert!(said.contains("Started recording"), "{said}");
    let report = shop.report(&["--proc", "--jfr"]);
    assert!(has(&report, "monitors", &row), "{report:#}");
    let said = shop.jcmd(&["JFR.check"]);
    assert!(!runs(&said), "{said}");
}

#[test]
fn with_ebpf_it_is_asked_only_if_that_is_wanted() {
    if !can_record() {
        return;
    }
    let Some(shop) = Shop::open() else { return };
    let report = shop.report(&["--jfr", "--budget", "50%"]);
    for (class, stage) in [("Shop$Stock", SELLERS), ("ReentrantLock", SELLERS)] {
        let row = [("class", class), ("stage", stage)];
        assert!(has(&report, "monitors", &row), "{class}: {report:#}");
    }
    let report = shop.report(&["--budget", "50%"]);
    assert_eq!(report["monitors"], serde_json::json!([]));
}
