//! A Java virtual machine's flight recorder tells what its threads wait on.

use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

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

    fn report(&self, words: &[&str]) -> Value {
        let mut recording = recorder();
        recording.args(["record", "--json", "--pid", &self.pid(), "--for", "3s"]).args(words);
        let output = recording.arg("-o").arg(scratch("shop.toml")).output().expect("the recorder");
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let report = shop.report(&["--proc"]);
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
    // The machine has no recording any more, and its files are gone.
    let check = Command::new("jcmd").args([&shop.pid(), "JFR.check"]).output().expect("jcmd");
    assert!(said(&check).contains("No available recordings"), "{}", said(&check));
    let ours = |name: String| name.starts_with("headworks-") && name.contains(&shop.pid());
    let files = std::fs::read_dir("/tmp").expect("a folder").flatten();
    let left: Vec<String> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|n| ours(n.clone()))
        .collect();
    assert!(left.iter().all(|name| !name.ends_with(".jfr") && !name.ends_with(".jfc")), "{left:?}");
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
