//! Copies of stacks: kept if that was asked for, and never else.

use crate::leaves::{recorder, said, scratch};
use headworks_record::trace::Trace;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a request might have left on a stack.
const SECRET: &str = "select card from customers where name = ";

/// Sleeps with a request's text on its stack.
fn hold(text: &str, stop: &AtomicBool) {
    let mut place = [0u8; 64];
    place[..text.len()].copy_from_slice(text.as_bytes());
    while !stop.load(Ordering::Relaxed) {
        black_box(&mut place);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Records this process.
fn record(raw: &Path, diagram: &Path, more: &[&str]) {
    let output = recorder()
        .args(["record", "--pid", &std::process::id().to_string(), "--for", "1s", "--name", "x"])
        .args(["--budget", "50%", "--raw"])
        .arg(raw)
        .arg("-o")
        .arg(diagram)
        .args(more)
        .output()
        .expect("the recorder");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn stacks_are_in_the_file_only_if_that_was_asked_for_and_can_be_unwound_again() {
    let text = format!("{SECRET}{}", std::process::id());
    let stop = AtomicBool::new(false);
    let (plain, kept) = (scratch("plain.ndjson"), scratch("kept.ndjson"));
    let (first, second) = (scratch("kept-1.toml"), scratch("kept-2.toml"));
    std::thread::scope(|scope| {
        let held = || hold(&text, &stop);
        let thread = std::thread::Builder::new().name("holds-a-text".to_owned());
        thread.spawn_scoped(scope, held).expect("a thread");
        record(&plain, &scratch("plain.toml"), &[]);
        record(&kept, &first, &["--keep-stacks"]);
        stop.store(true, Ordering::Relaxed);
    });
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a file");
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let (without, with) = (read(&plain), read(&kept));
    assert!(without.contains("holds-a-text"), "the thread was not recorded");
    assert!(!without.contains(&hex) && !without.contains(SECRET));
    assert!(with.contains(&hex), "no stack with the text was kept");
    // Without the names that were recorded: they come from the copies alone.
    let mut trace = Trace::read(with.as_bytes()).expect("a recording");
    let names = |trace: &Trace| -> Vec<Vec<String>> {
        trace.copied.iter().map(|copied| trace.stacks[copied.stack].frames.clone()).collect()
    };
    let before = names(&trace);
    for copied in &trace.copied {
        trace.stacks[copied.stack].frames.clear();
    }
    let mut file = std::fs::File::create(&kept).expect("a file");
    trace.write(&mut file, u64::MAX).expect("a recording");
    trace.unwind_again();
    assert_eq!(names(&trace), before);
    let mut analyse = recorder();
    analyse.arg("analyse").arg(&kept).args(["--name", "x", "-o"]).arg(&second);
    let output = analyse.output().expect("the recorder");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(read(&first), read(&second));
}
