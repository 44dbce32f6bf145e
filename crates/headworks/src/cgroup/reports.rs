//! The root helper's reports to the daemon about the groups: lines of JSON in a pipe.

use super::CgroupStatus;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

/// Longest line; a status with a group for each of 64 classes is a fifth of it.
const LINE_MAX: usize = 64 << 10;

/// The daemon's end.
#[derive(Debug)]
pub struct Reports {
    pipe: File,
    unread: Vec<u8>,
    latest: CgroupStatus,
}

impl Reports {
    /// Takes the reading end of a pipe.
    pub fn new(pipe: OwnedFd) -> Reports {
        nonblocking(&pipe);
        let latest = CgroupStatus { state: "starting".to_owned(), ..CgroupStatus::default() };
        Reports { pipe: File::from(pipe), unread: Vec::new(), latest }
    }

    /// The latest report.
    pub fn latest(&self) -> &CgroupStatus {
        &self.latest
    }

    /// Takes the reports that have come. Other lines are skipped.
    pub fn read(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => {
                    if self.latest.state == "active" {
                        self.latest = CgroupStatus {
                            state: "off".to_owned(),
                            reason: Some(
                                "the process that cared for the groups has ended".to_owned(),
                            ),
                            ..CgroupStatus::default()
                        };
                    }
                    return;
                }
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if let Ok(status) = serde_json::from_slice(&line) {
                    self.latest = status;
                }
            }
            if self.unread.len() > LINE_MAX {
                self.unread.clear();
            }
        }
    }
}

/// The root helper's end.
#[derive(Debug)]
pub struct Reporter {
    pipe: File,
    told: Option<CgroupStatus>,
}

impl Reporter {
    /// Takes the writing end of a pipe.
    pub fn new(pipe: OwnedFd) -> Reporter {
        nonblocking(&pipe);
        Reporter { pipe: File::from(pipe), told: None }
    }

    /// Reports the state if it has changed. If the reader is gone, the report is dropped.
    pub fn tell(&mut self, status: &CgroupStatus) {
        if self.told.as_ref() == Some(status) {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(status) else { return };
        line.push(b'\n');
        if self.pipe.write_all(&line).is_ok() {
            self.told = Some(status.clone());
        }
    }
}

fn nonblocking(pipe: &OwnedFd) {
    // SAFETY: the descriptor is open.
    unsafe {
        let flags = libc::fcntl(pipe.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::GroupStatus;

    #[test]
    fn the_latest_report_counts_and_the_end_is_noticed() {
        let (read, write) = crate::process::pipe().unwrap();
        let (mut reports, mut reporter) = (Reports::new(read), Reporter::new(write));
        reports.read();
        assert_eq!(reports.latest().state, "starting");
        let active = |threads| CgroupStatus {
            state: "active".to_owned(),
            version: 1,
            groups: vec![GroupStatus {
                class: "default".to_owned(),
                threads,
                ..GroupStatus::default()
            }],
            ..CgroupStatus::default()
        };
        reporter.tell(&active(3));
        reporter.tell(&active(5));
        reporter.pipe.write_all(b"nonsense\n").unwrap();
        reports.read();
        assert_eq!(reports.latest(), &active(5));
        drop(reporter);
        reports.read();
        assert_eq!(reports.latest().state, "off");
    }
}
