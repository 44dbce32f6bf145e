//! A log file of bounded size. A full file is renamed, and replaces the one that was renamed
//! before. Then an empty file begins.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl LogFile {
    /// Appends to an existing file. Only its owner may read it, as lines name accounts.
    pub(super) fn open(path: &Path, bytes_max: u64) -> Result<LogFile> {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), file, bytes, bytes_max })
    }

    /// Writes a line, or several, with the time (UTC) in front.
    pub(super) fn line(&mut self, text: &str, at: SystemTime) -> Result<()> {
        let line = format!("{} {text}\n", utc(at));
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            self.start_over()?;
        }
        self.file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn start_over(&mut self) -> Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        std::fs::rename(&self.path, older)
            .and_then(|()| open(&self.path).map(|file| self.file = file))
            // If no new file can be made, this one is emptied: it must not grow without end.
            .or_else(|_| self.file.set_len(0))?;
        self.bytes = 0;
        Ok(())
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// As RFC 3339 has it, to the millisecond.
fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    // SAFETY: all zero bytes are a valid structure, and both are ours.
    let date = unsafe {
        let mut date: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&raw const seconds, &raw mut date);
        date
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        date.tm_year + 1900,
        date.tm_mon + 1,
        date.tm_mday,
        date.tm_hour,
        date.tm_min,
        date.tm_sec,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("headworks-log-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn lines_have_a_time_and_go_on_where_the_file_ended() {
        let dir = scratch("lines");
        let path = dir.join("daemon.log");
        let at = UNIX_EPOCH + Duration::from_millis(1_795_361_034_007);
        for text in ["one", "two"] {
            LogFile::open(&path, 1_000).unwrap().line(text, at).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2026-11-22T15:23:54.007Z one\n2026-11-22T15:23:54.007Z two\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_files_of_bounded_size_have_the_latest_lines() {
        let dir = scratch("bounded");
        let path = dir.join("daemon.log");
        let mut log = LogFile::open(&path, 200).unwrap();
        for number in 0..100 {
            log.line(&format!("line {number}"), UNIX_EPOCH).unwrap();
        }
        let older = std::fs::read_to_string(dir.join("daemon.log.1")).unwrap();
        let newer = std::fs::read_to_string(&path).unwrap();
        assert!(older.len() <= 200 && newer.len() <= 200, "{} {}", older.len(), newer.len());
        let all = older + &newer;
        let numbers: Vec<u32> =
            all.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
        assert!(numbers.len() > 5 && numbers.ends_with(&[97, 98, 99]), "{numbers:?}");
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = scratch("link");
        let (path, target) = (dir.join("daemon.log"), dir.join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(LogFile::open(&path, 1_000).is_err());
        assert!(!target.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
