//! What `/proc` tells of processes and threads.

use super::networks::Networks;
use crate::trace::Process;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process and all that descend from it.
pub fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        numbers("/proc").into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

/// Processes of a control group and of the groups below it.
pub fn of_cgroup(group: &Path) -> std::io::Result<Vec<u32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    let mut found: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group that goes meanwhile has no processes.
            found.extend(of_cgroup(&entry.path()).unwrap_or_default());
        }
    }
    Ok(found)
}

/// Names of a folder that are numbers.
fn numbers(folder: impl AsRef<Path>) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(format!("/proc/{pid}/task"))
}

/// Whether it is alive. A process that has ended stays until its parent asks for its end. One whose
/// first thread has ended may have others.
pub fn alive(pid: u32) -> bool {
    stat(pid, 0).is_some_and(|state| !matches!(&*state, "Z" | "X") || threads(pid).len() > 1)
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid, 1)?.parse().ok()
}

/// When it began, in ticks since the machine did.
pub fn started(pid: u32) -> Option<u64> {
    stat(pid, 19)?.parse().ok()
}

/// Age of a process that started at this clock tick. A tick is a hundredth of a second in all that
/// `/proc` tells.
pub fn age(started: u64) -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_secs_f64((seconds - started as f64 / 100.0).max(0.0)))
}

/// Whether it is a thread of the kernel, which runs no program.
pub fn of_kernel(pid: u32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let flags = stat(pid, 6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// The process of a thread.
pub fn process_of(tid: u32) -> Option<u32> {
    Status::of(tid)?.field("Tgid:").next()?.parse().ok()
}

/// The number that a process or a thread has in its container, if it is in one.
pub fn inner(tid: u32) -> Option<u32> {
    Status::of(tid)?.inner()
}

/// What `/proc/PID/status` tells of a process, or of a thread.
pub struct Status(String);

impl Status {
    /// Of a process that is there.
    pub fn of(pid: u32) -> Option<Status> {
        fs::read_to_string(format!("/proc/{pid}/status")).ok().map(Status)
    }

    fn field(&self, name: &str) -> impl Iterator<Item = &str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        line.split_ascii_whitespace()
    }

    fn inner(&self) -> Option<u32> {
        self.field("NSpid:").skip(1).last()?.parse().ok()
    }

    /// The user and the group whose rights it has.
    pub fn user(&self) -> Option<(u32, u32)> {
        let of = |name: &str| self.field(name).nth(1)?.parse().ok();
        of("Uid:").zip(of("Gid:"))
    }

    /// Whether it has a handler for a signal.
    pub fn catches(&self, signal: i32) -> bool {
        let caught = self.field("SigCgt:").next().map(|mask| u64::from_str_radix(mask, 16));
        caught.is_some_and(|mask| mask.is_ok_and(|mask| mask >> (signal - 1) & 1 == 1))
    }
}

/// Whether what a process does is hidden from this user.
pub fn hidden(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// A field of `/proc/PID/stat`, counted from the state on.
fn stat(pid: u32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may contain any.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(field).map(str::to_owned)
}

/// Name of a thread: at most 15 characters.
pub fn name(pid: u32, tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// What a thread used until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub cpu_ns: u64,
    pub read_chars: u64,
    pub written_chars: u64,
    pub device_read: u64,
    pub device_written: u64,
    pub sleeps: u64,
}

impl std::ops::Sub for Used {
    type Output = Used;
    fn sub(self, before: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            read_chars: self.read_chars.saturating_sub(before.read_chars),
            written_chars: self.written_chars.saturating_sub(before.written_chars),
            device_read: self.device_read.saturating_sub(before.device_read),
            device_written: self.device_written.saturating_sub(before.device_written),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}

/// See [`Used`].
pub fn used(pid: u32, tid: u32) -> Used {
    let task = format!("/proc/{pid}/task/{tid}");
    let schedule = fs::read_to_string(format!("{task}/schedstat")).unwrap_or_default();
    let io = fs::read_to_string(format!("{task}/io")).unwrap_or_default();
    let status = fs::read_to_string(format!("{task}/status")).unwrap_or_default();
    let number = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    let field = |name: &str| number(&io, name);
    Used {
        cpu_ns: schedule.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0),
        sleeps: number(&status, "voluntary_ctxt_switches"),
        read_chars: field("rchar"),
        written_chars: field("wchar"),
        device_read: field("read_bytes"),
        device_written: field("write_bytes"),
    }
}

/// Time for which the threads of a process ran, and for which they waited for a processor. Of
/// threads that are alive. The counts by clock ticks miss who runs for microseconds.
pub fn scheduled(pid: u32) -> [Duration; 2] {
    let all = threads(pid).into_iter().map(|tid| scheduled_ns(pid, tid));
    let [ran, ready] = all.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    [ran, ready].map(Duration::from_nanos)
}

/// The same of one thread; nothing if it is gone.
pub fn scheduled_ns(pid: u32, tid: u32) -> [u64; 2] {
    let path = format!("/proc/{pid}/task/{tid}/schedstat");
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    [words.next().unwrap_or(0), words.next().unwrap_or(0)]
}

/// Base name of a process's program; of one that is known by several names, that by which it was
/// started.
pub fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let started = path.with_file_name(name(pid, pid)?);
    let path = if fs::canonicalize(&started).is_ok_and(|of| of == path) { started } else { path };
    Some(path.file_name()?.to_string_lossy().replace(" (deleted)", ""))
}

/// Whether a process runs the program that has this base name; `None` if that cannot be seen.
pub fn runs(pid: u32, program: &str) -> Option<bool> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let own = path.file_name()?.to_string_lossy().replace(" (deleted)", "");
    let alias = || fs::canonicalize(path.with_file_name(program)).is_ok_and(|of| of == path);
    Some(own == program || alias())
}

/// A process, if it is there.
pub fn process(pid: u32, networks: &mut Networks) -> Option<Process> {
    let program = program(pid);
    let name = name(pid, pid)?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    Some(Process {
        pid,
        parent: parent(pid).unwrap_or(0),
        started: started(pid).unwrap_or(0),
        program: program.unwrap_or_else(|| name.clone()),
        name,
        title: title(&line),
        java: maps.contains("/libjvm.so"),
        listens: networks.listens(pid),
        open: 0,
        backlog: 0.0,
        listens_unix: !networks.listens_unix(pid).is_empty(),
        open_unix: 0,
        host: String::new(),
    })
}

/// A title that a process wrote over its arguments, or the first argument. Arguments may hold
/// secrets, and are left out.
fn title(line: &[u8]) -> String {
    let end = line.iter().position(|&byte| byte == 0).unwrap_or(line.len());
    let first = String::from_utf8_lossy(&line[..end]).into_owned();
    if first.contains(": ") { first } else { first.rsplit('/').next().unwrap_or("").to_owned() }
}

/// What a sleeping thread is in: system call, first two arguments, stack and instruction pointer.
pub fn asleep_in(pid: u32, tid: u32) -> Option<(i16, u64, u64, u64, u64)> {
    let line = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let [number, first, second, .., sp, ip] = words[..] else { return None };
    Some((number.parse().ok()?, hex(first)?, hex(second)?, hex(sp)?, hex(ip)?))
}

/// The system call that a thread is in; none while it runs outside of one.
pub fn call_of(pid: u32, tid: u32) -> Option<i64> {
    let line = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Bytes of another process's memory; fewer if less is mapped.
pub fn memory(pid: u32, at: u64, bytes: &mut [u8]) -> usize {
    let to_page_end = 4096 - (at as usize & 4095);
    for length in [bytes.len(), to_page_end.min(bytes.len())] {
        let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
        let other = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
        // SAFETY: `own` is within `bytes`. The kernel checks the other process's addresses.
        let read = unsafe {
            libc::process_vm_readv(pid as i32, &raw const own, 1, &raw const other, 1, 0)
        };
        if read > 0 {
            return read as usize;
        }
    }
    0
}

/// Where glibc keeps the start routine of a thread, from the beginning of the thread's descriptor:
/// found in a thread of this process. None if the C library is another one.
pub fn start_offset() -> Option<u32> {
    /// Larger descriptors are not known.
    const WORDS: usize = 0x1000 / 8;
    extern "C" fn look(argument: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: it has no preconditions. The descriptor is read by the kernel, which checks.
        let own = unsafe { libc::pthread_self() } as usize;
        let mut bytes = [0u8; WORDS * 8];
        let read = memory(std::process::id(), own as u64, &mut bytes);
        let words: Vec<usize> = bytes[..read]
            .chunks_exact(8)
            .map(|word| usize::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let found = words
            .windows(2)
            .position(|pair| pair[0] == look as *const () as usize && pair[1] == argument as usize);
        found.map_or(0, |at| at * 8) as *mut libc::c_void
    }
    let marker = 0u8;
    let mut thread = 0;
    let mut found = std::ptr::null_mut();
    // SAFETY: `look` takes one pointer, which it does not follow, and the thread is joined here.
    unsafe {
        let argument = std::ptr::from_ref(&marker).cast_mut().cast();
        if libc::pthread_create(&raw mut thread, std::ptr::null(), look, argument) != 0 {
            return None;
        }
        libc::pthread_join(thread, &raw mut found);
    }
    (!found.is_null()).then_some(found as usize as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_out_of_titles() {
        assert_eq!(title(b"/usr/sbin/mariadbd\0--password=x\0"), "mariadbd");
        assert_eq!(title(b"postgres: walwriter \0\0"), "postgres: walwriter ");
        assert_eq!(title(b""), "");
    }

    #[test]
    fn this_process_and_its_threads_are_read() {
        let own = std::process::id();
        assert!(threads(own).contains(&own));
        assert!(tree(own).contains(&own));
        let seen = |pid| process(pid, &mut Networks::default());
        assert!(seen(own).is_some_and(|process| !process.java && !process.program.is_empty()));
        assert_eq!(seen(u32::MAX), None);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        assert!(Networks::default().listens(own).contains(&port));
        assert_eq!(Networks::default().open(own, &[port]), 0);
        let clients = [0; 2].map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
        let mut networks = Networks::default();
        assert_eq!([networks.open(own, &[port]), networks.open(own, &[])], [clients.len(), 0]);
    }

    #[test]
    fn a_program_has_the_name_by_which_it_was_started() {
        let folder = std::env::temp_dir().join(format!("headworks-alias-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let real = fs::canonicalize(&folder).unwrap().join("checker");
        fs::copy("/bin/sleep", &real).unwrap();
        std::os::unix::fs::symlink("checker", real.with_file_name("serves")).unwrap();
        for (started, other) in [("serves", "sleep"), ("checker", "sleep")] {
            let mut command = std::process::Command::new(real.with_file_name(started));
            // Another test's child may have the copied file open for a moment.
            let mut child = loop {
                match command.arg("60").spawn() {
                    Err(busy) if busy.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                    started => break started.unwrap(),
                }
            };
            let pid = child.id();
            assert_eq!(program(pid).as_deref(), Some(started));
            let known = ["serves", "checker", other].map(|name| runs(pid, name));
            assert_eq!(known, [Some(true), Some(true), Some(false)]);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_status_tells_numbers_users_and_signals() {
        let text = "Name:\tjava\nNSpid:\t4711\t131\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
                    SigCgt:\t2000000181005ccf\n";
        let status = Status(text.to_owned());
        assert_eq!((status.inner(), status.user()), (Some(131), Some((2, 6))));
        assert!(status.catches(libc::SIGQUIT));
        let status = Status("NSpid:\t4711\nSigCgt:\t0000000000004002\n".to_owned());
        assert_eq!((status.inner(), status.user()), (None, None));
        assert!(!status.catches(libc::SIGQUIT));
    }

    #[test]
    fn a_process_that_ended_is_not_alive_although_its_parent_has_not_asked() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while alive(pid) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Path::new(&format!("/proc/{pid}")).exists() && !alive(pid));
        child.wait().unwrap();
        assert!(!alive(pid) && alive(std::process::id()));
    }

    #[test]
    fn the_start_routine_is_where_the_kernels_side_looks_for_it() {
        // Another C library has none: that is an answer, too.
        if let Some(offset) = start_offset() {
            assert!(offset.is_multiple_of(8) && offset < 0x1000, "{offset}");
            assert_eq!(start_offset(), Some(offset));
        }
    }
}
