//! Names that only a Java virtual machine knows, by its own `jcmd`.
//!
//! `jcmd` attaches to the virtual machine, which writes a file and runs on. A machine that refuses
//! is recorded without: its threads then have the 15 characters that the kernel keeps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A virtual machine that does not answer is left alone after this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Full names of threads, by their numbers.
pub fn names(pid: u32) -> Option<BTreeMap<u32, String>> {
    let found = threads(&jcmd(pid, &["Thread.print"])?);
    (!found.is_empty()).then_some(found)
}

/// Addresses and names of compiled code. The file that the machine writes is removed again.
pub fn compiled(pid: u32) -> Option<String> {
    let own = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let inner = own.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inner = inner.and_then(|line| line.split_ascii_whitespace().last()?.parse().ok());
    let file = PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{}.map", inner.unwrap_or(pid)));
    let was_there = file.exists();
    jcmd(pid, &["Compiler.perfmap"])?;
    let map = std::fs::read_to_string(&file).ok();
    if !was_there {
        // If it stays, it is a file of a few hundred kilobytes in /tmp.
        let _ = std::fs::remove_file(&file);
    }
    map
}

fn jcmd(pid: u32, words: &[&str]) -> Option<String> {
    let mut child = Command::new("jcmd")
        .arg(pid.to_string())
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut out = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut text).map(|_| text)
    });
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            let text = reader.join().ok()?.ok()?;
            return status.success().then(|| String::from_utf8_lossy(&text).into_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// `"name" #12 daemon prio=5 … nid=0x1a2b waiting on condition`. JDK 21 writes the number in
/// decimal.
fn threads(print: &str) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for line in print.lines() {
        let Some(rest) = line.strip_prefix('"') else { continue };
        let Some((name, rest)) = rest.rsplit_once('"') else { continue };
        let Some(number) = rest.split_ascii_whitespace().find_map(|word| word.strip_prefix("nid="))
        else {
            continue;
        };
        let number = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        if let Ok(number) = number {
            found.insert(number, name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_both_kinds_of_print() {
        let print = "Full thread dump\n\
\"main\" #1 prio=5 os_prio=0 cpu=99ms tid=0x00007f nid=0x10 runnable  [0x7f]\n\
   java.lang.Thread.State: RUNNABLE\n\
\"DataXceiver for \"x\" at 1\" #9 [33] daemon prio=5 tid=0x1 nid=33 waiting on condition\n";
        let found = threads(print);
        assert_eq!(found[&16], "main");
        assert_eq!(found[&33], "DataXceiver for \"x\" at 1");
        assert_eq!(found.len(), 2);
    }
}
