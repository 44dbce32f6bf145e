//! A process, as /proc shows it. Read without allocating.

use crate::thread::keeping_errno;

/// The state of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process that started it, or took it over.
    pub parent: u32,
    /// In ticks since the machine started.
    pub started: u64,
    /// Its parent has not waited for it yet.
    pub ended: bool,
    /// By a signal or a debugger.
    pub stopped: bool,
}

impl Process {
    /// `None` if the process is gone, or this user may not read its /proc. Keeps errno.
    pub fn of(pid: u32) -> Option<Process> {
        use core::fmt::Write;
        let mut path = Text { bytes: [0; 32], length: 0 };
        write!(path, "/proc/{pid}/stat\0").ok()?;
        let mut text = [0u8; 512];
        let count = keeping_errno(|| read_file(&path.bytes, &mut text))?;
        Process::parse(text.get(..count)?)
    }

    /// The program's name may contain anything, even spaces and parentheses.
    fn parse(stat: &[u8]) -> Option<Process> {
        let after = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = core::str::from_utf8(stat.get(after + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        let (ended, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        Some(Process { parent, started, ended, stopped })
    }
}

/// A text of fixed capacity.
struct Text {
    bytes: [u8; 32],
    length: usize,
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Reads the beginning of a file, by system calls: no allocation, no hook. The path ends with a
/// zero.
fn read_file(path: &[u8; 32], into: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string, and the buffer has its length.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0);
        if file < 0 {
            return None;
        }
        let count = libc::syscall(libc::SYS_read, file, into.as_mut_ptr(), into.len());
        libc::syscall(libc::SYS_close, file);
        usize::try_from(count).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let fields = (5..22).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("7 (a) S 9 (b) S 3 {fields} 4711 23");
        let process = Process::parse(stat.as_bytes());
        assert_eq!(
            process,
            Some(Process { parent: 3, started: 4711, ended: false, stopped: false })
        );
        assert_eq!(Process::parse(b"7 (a) S"), None);
    }
}
