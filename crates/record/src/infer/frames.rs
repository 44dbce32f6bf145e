//! Which functions are of an application, and what a sleep is for by the functions around it.

/// Runtimes' functions at the beginning of threads. They are the same for all stages.
const BEGINNINGS: [&str; 43] = [
    "_start",
    "__libc_start",
    "start_thread",
    "clone",
    "__clone",
    "execute_native_thread_routine",
    "pfs_spawn_thread",
    "std::thread::",
    "void std::__invoke",
    "std::__invoke",
    "std::invoke",
    "std::sys::",
    "std::sys_common::",
    "std::panic",
    "std::rt::",
    "core::ops::function",
    "alloc::boxed",
    "<alloc::",
    "<std::",
    "<core::",
    "<() as std::",
    "__rust_try",
    "thread_native_entry",
    "os::",
    "Monitor::",
    "PlatformMonitor::",
    "ObjectMonitor::",
    "ObjectSynchronizer::",
    "ThreadsSMRSupport::",
    "Threads::remove",
    "Thread::call_run",
    "JavaThread::",
    "JavaCalls::",
    "thread_entry",
    "Interpreter",
    "call_stub",
    "StubRoutines",
    "java.lang.Thread.run",
    "java.util.concurrent.ThreadPoolExecutor",
    "void java.lang.Thread.run",
    "void java.util.concurrent.ThreadPoolExecutor",
    "?",
    "[unknown]",
];

/// Files whose functions are not of the application.
const LIBRARIES: [&str; 6] =
    ["libc.so", "libstdc++", "ld-linux", "ld-musl", "libpthread", "libjvm.so!"];

/// Whether a function belongs to a runtime or a library.
pub fn is_generic(function: &str) -> bool {
    BEGINNINGS.iter().any(|known| function.starts_with(known))
        || LIBRARIES.iter().any(|known| function.starts_with(known))
}

/// Threads of a Java virtual machine itself.
const VIRTUAL_MACHINE: [&str; 21] = [
    "JFR ",
    "Permissionless ",
    "GC Thread",
    "G# ",
    "C# Compiler",
    "VM Thread",
    "VM Periodic",
    "Sweeper",
    "Signal Dispatch",
    "Finalizer",
    "Reference Handl",
    "Attach Listener",
    "Common-Cleaner",
    "Monitor Deflati",
    "Service Thread",
    "Notification Th",
    "DestroyJavaVM",
    "VirtualThread-",
    "Read-Poller",
    "Write-Poller",
    "MasterPoller",
];

/// Whether a virtual machine's thread serves the machine and not the application.
pub fn is_machine(name: &str) -> bool {
    VIRTUAL_MACHINE.iter().any(|known| name.starts_with(known))
}

/// What a thread waits for, by the functions it is in, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// A condition, a semaphore or a park: something handed over, or an answer.
    Condition,
    /// A lock.
    Lock,
    /// A time.
    Time,
    /// No request: a virtual machine's own work when threads begin and end, and when it stops them;
    /// and threads of Go that have no goroutine to run.
    Machine,
}

/// Whether this project's library holds a session there, in a database.
pub fn is_gate(function: &str) -> bool {
    ["headworks_region::admission", "headworks_region::waiting"]
        .iter()
        .any(|known| function.contains(known))
}

/// Functions that take a lock.
const LOCKS: [&str; 20] = [
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_",
    "pthread_spin_lock",
    "__lll_lock_wait",
    "mutex::futex::Mutex",
    "rwlock::futex::RwLock",
    "parking_lot::raw_mutex::RawMutex::lock",
    "parking_lot::raw_rwlock",
    "ObjectMonitor::enter",
    "ObjectSynchronizer::enter",
    "LWLockAcquire",
    "ProcSleep",
    "AbstractQueuedSynchronizer.acquire",
    "ReentrantLock.lock",
    "ReentrantReadWriteLock",
    "ssux_lock",
    "rw_lock::",
    "srw_lock",
];
/// Functions that wait for something.
const CONDITIONS: [&str; 15] = [
    "pthread_cond_",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "condvar::futex::Condvar",
    "condition_variable",
    "std::thread::park",
    "Condition.await",
    "ConditionObject.await",
    "BlockingQueue.take",
    "BlockingQueue.poll",
    "Parker::park",
    "ObjectMonitor::wait",
    "__atomic_futex_unsigned",
    "_M_load_and_test",
];
const TIMES: [&str; 6] =
    ["JavaThread::sleep", "nanosleep", "usleep", "std::thread::sleep", "Thread.sleep", "pg_sleep"];
/// Functions that take Python's lock of its interpreter, which is built on a condition.
pub(super) const INTERPRETER: [&str; 4] =
    ["PyEval_RestoreThread", "PyEval_AcquireThread", "PyGILState_Ensure", "take_gil"];
/// Frames that decide. What is further out is the application's purpose, not the wait.
const DEPTH: usize = 14;
/// Frames from a condition to the sleep that is built on it.
const SLEEP_DEPTH: usize = 3;

/// See [`Site`].
pub fn site(frames: &[String]) -> Option<Site> {
    let has = |frame: &str, known: &[&str]| known.iter().any(|word| frame.contains(word));
    if of_machine(frames) {
        return Some(Site::Machine);
    }
    if interpreter(frames).is_some() || gate(frames).is_some() {
        return Some(Site::Lock);
    }
    if is_musl(frames) {
        return of_musl(frames);
    }
    let mut found = None;
    for (at, frame) in frames.iter().enumerate().take(DEPTH) {
        if has(frame, &LOCKS) {
            // A lock's own queue is built on a park or a semaphore.
            return Some(Site::Lock);
        }
        if found.is_none() && has(frame, &TIMES) {
            found = Some(Site::Time);
        }
        if found.is_none() && has(frame, &CONDITIONS) {
            found = Some(Site::Condition);
            // What waits for a plain condition looks for no lock further out, except where a
            // lock is built on it.
            if !frame.contains("park") && !frame.contains("sem_") {
                // A sleep of a virtual machine is built on one, too.
                if around_of(frames, at).any(|frame| has(frame, &TIMES)) {
                    return Some(Site::Time);
                }
                // And so is a virtual machine's monitor. What else parks may be a queue.
                if !around_of(frames, at).any(|frame| frame.starts_with("ObjectMonitor::E")) {
                    return found;
                }
            }
        }
    }
    found
}

fn around_of(frames: &[String], at: usize) -> impl Iterator<Item = &String> {
    frames.iter().skip(at + 1).take(SLEEP_DEPTH)
}

/// musl's C library has no tables for unwinding: of the functions within it, only the outermost is
/// sure, which the application called.
fn of_musl(frames: &[String]) -> Option<Site> {
    let kind = |frame: &String| {
        let has = |known: &[&str]| known.iter().any(|word| frame.contains(word));
        let kinds = [
            (Site::Lock, &LOCKS[..]),
            (Site::Condition, &CONDITIONS[..]),
            (Site::Time, &TIMES[..]),
        ];
        kinds.into_iter().find(|(_, words)| has(words)).map(|(site, _)| site)
    };
    match frames.iter().take_while(|frame| in_musl(frame)).last() {
        Some(called) => kind(called),
        // A program that is linked statically has its functions in one file with them.
        None => frames.iter().take(DEPTH).filter_map(kind).next_back(),
    }
}

/// What musl waits in, where it is a part of the program.
const MUSL: [&str; 3] = ["__syscall_cp_", "__timedwait", "__futexwait"];

/// Whether a stack's innermost function is of musl's C library.
pub(super) fn is_musl(frames: &[String]) -> bool {
    frames
        .first()
        .is_some_and(|frame| in_musl(frame) || MUSL.iter().any(|known| frame.starts_with(known)))
}

fn in_musl(frame: &str) -> bool {
    ["libc.so!", "ld-musl"].iter().any(|known| frame.starts_with(known))
}

/// Functions of a Java virtual machine for threads' beginnings and ends, and for its pauses; and of
/// Go for threads that have no goroutine to run.
const MACHINE: [&str; 8] = [
    "os::create_thread",
    "JavaThread::exit",
    "ThreadsSMRSupport::",
    "Threads::remove",
    "SafepointSynchronize::",
    "VMThread::execute",
    "runtime.notesleep",
    "runtime.notetsleep",
];

/// A new thread waits until it may run, too, and its creator until it is there.
fn of_machine(frames: &[String]) -> bool {
    let near = &frames[..frames.len().min(DEPTH)];
    let known = |frame: &String| MACHINE.iter().any(|known| frame.starts_with(known));
    let begins = |pair: &[String]| {
        pair[0].contains("Monitor::wait") && pair[1].starts_with("thread_native_entry")
    };
    near.iter().any(known) || near.windows(2).any(begins)
}

/// Whether a thread waits for Python's lock of its interpreter.
pub(super) fn is_interpreter(frames: &[String]) -> bool {
    interpreter(frames).is_some()
}

fn interpreter(frames: &[String]) -> Option<&str> {
    let known = |frame: &&String| INTERPRETER.contains(&&***frame);
    frames.iter().take(DEPTH).find(known).map(String::as_str)
}

fn gate(frames: &[String]) -> Option<&str> {
    frames.iter().take(DEPTH).find(|frame| is_gate(frame)).map(String::as_str)
}

/// Functions between the application and the wait.
const PLUMBING: [&str; 20] = [
    "__syscall_cp_",
    "__timedwait",
    "java.lang.Object.wait",
    "std::sync::",
    "PlatformEvent",
    "Unsafe",
    "LockSupport",
    "java.util.concurrent",
    "std::mutex",
    "futex",
    "syscall",
    "PGSemaphore",
    "LWLock",
    "LockAcquire",
    "WaitEventSetWait",
    "WaitLatch",
    "epoll_wait",
    "Parker",
    "ObjectMonitor",
    "ObjectLocker",
];

/// The application's function that waits: the first that is neither of a library nor of a lock.
pub fn waiting(frames: &[String]) -> Option<&str> {
    let plumbing = |frame: &str| {
        is_generic(frame)
            || LOCKS.iter().chain(&CONDITIONS).chain(&PLUMBING).any(|word| frame.contains(word))
    };
    if let Some(lock) = interpreter(frames).or_else(|| gate(frames)) {
        return Some(lock);
    }
    // Who calls the kernel without the C library is the lock itself.
    let raw = frames.first().is_some_and(|frame| frame.ends_with("syscall"));
    let own: Vec<&str> = frames
        .iter()
        .skip(if raw { 2 } else { 0 })
        .map(String::as_str)
        .filter(|frame| !plumbing(frame))
        .collect();
    let near = own.iter().take(4).find(|frame| !frame.contains('!'));
    near.or(own.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn locks_and_conditions_are_told_apart() {
        let lock = frames(&["libc.so.6!89f20", "pthread_mutex_lock", "work", "stage"]);
        assert_eq!(site(&lock), Some(Site::Lock));
        assert_eq!(waiting(&lock), Some("work"));
        // A monitor, where the C library's functions have names.
        let enters = [
            "libc.so.6!pthread_cond_timedwait",
            "os::PlatformEvent::park(long)",
            "ObjectMonitor::EnterI(JavaThread*)",
            "ObjectMonitor::enter(JavaThread*)",
        ];
        assert_eq!(site(&frames(&enters)), Some(Site::Lock));
        let waits = [enters[0], enters[1], "ObjectMonitor::wait(long, bool, JavaThread*)"];
        assert_eq!(site(&frames(&waits)), Some(Site::Condition));
        let sleeps = [enters[0], enters[1], "JavaThread::sleep(long)"];
        assert_eq!(site(&frames(&sleeps)), Some(Site::Time));
        let python =
            ["libc.so.6!pthread_cond_timedwait", "python3.11!4f92c0", "PyEval_RestoreThread"];
        let python = frames(&python);
        assert_eq!(site(&python), Some(Site::Lock));
        assert_eq!(waiting(&python), Some("PyEval_RestoreThread"));
        let condition = frames(&["libc.so.6!8a0", "pthread_cond_wait", "pop", "stage"]);
        assert_eq!(site(&condition), Some(Site::Condition));
        let sleep = [
            "libc.so.6!pthread_cond_timedwait",
            "os::PlatformEvent::park(long)",
            "JavaThread::sleep(long)",
            "JVM_Sleep",
        ];
        assert_eq!(site(&frames(&sleep)), Some(Site::Time));
        assert_eq!(site(&frames(&sleep[..2])), Some(Site::Condition));
        const WAITS: &str = "Monitor::wait_without_safepoint_check(long)";
        let birth = [sleep[0], WAITS, "thread_native_entry(Thread*)"];
        assert_eq!(site(&frames(&birth)), Some(Site::Machine));
        let creator = [sleep[0], WAITS, "os::create_thread(Thread*, os::ThreadType)", "submit"];
        assert_eq!(site(&frames(&creator)), Some(Site::Machine));
        let ends = [sleep[0], "ObjectSynchronizer::enter(Handle)", "JavaThread::exit(bool)"];
        assert_eq!(site(&frames(&ends)), Some(Site::Machine));
        let other = [sleep[0], WAITS, "CompileQueue::get()", "thread_native_entry(Thread*)"];
        assert_eq!(site(&frames(&other)), Some(Site::Condition));
        let sleeps = frames(&["libc.so.6!epoll_wait", "WaitEventSetWait", "WaitLatch", "pg_sleep"]);
        assert_eq!(site(&sleeps), Some(Site::Time));
        let postgres = frames(&["libc.so.6!8a0", "sem_wait", "PGSemaphoreLock", "LWLockAcquire"]);
        assert_eq!(site(&postgres), Some(Site::Lock));
        let idle =
            frames(&["runtime.futex", "runtime.notesleep", "runtime.stopm", "runtime.mcall"]);
        assert_eq!(site(&idle), Some(Site::Machine));
        assert_eq!(site(&frames(&["libc.so.6!1", "main"])), None);
        // A word that an earlier call left on the stack is no function that waits.
        let musl = ["ld-musl-x86_64.so.1!15", "ld-musl-x86_64.so.1!pthread_cond_timedwait"];
        let locks = frames(&[musl[0], musl[1], "libc.so!pthread_mutex_timedlock", "work"]);
        assert_eq!(site(&locks), Some(Site::Lock));
        assert_eq!(site(&frames(&[musl[0], musl[1], "work"])), Some(Site::Condition));
        let part =
            ["__syscall_cp_c", "__timedwait_cp", "__pthread_cond_timedwait", "sem_timedwait"];
        let locks = frames(&[&part[..3], &["__pthread_mutex_timedlock", "work"]].concat());
        assert_eq!((site(&locks), waiting(&locks)), (Some(Site::Lock), Some("work")));
        assert_eq!(site(&frames(&part)), Some(Site::Condition));
    }

    #[test]
    fn runtimes_are_not_the_application() {
        assert!(is_generic("start_thread") && is_generic("libc.so.6!27110"));
        assert!(!is_generic("handle_one_connection") && !is_generic("main"));
    }
}
