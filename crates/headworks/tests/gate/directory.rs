//! Where the instances of a test live.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the daemon may take to remove its own part.
const DEADLINE: Duration = Duration::from_secs(20);

/// A private directory for instances, in memory.
pub struct RunDirectory(pub PathBuf);

impl RunDirectory {
    pub fn new() -> RunDirectory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/dev/shm/headworks-gate-{}-{number}", std::process::id());
        fs::create_dir(&path).unwrap();
        // The server's own account, which is not ours when root starts it, has to enter.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o711)).unwrap();
        RunDirectory(path.into())
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // The daemon removes its own part at the same time.
        let begun = Instant::now();
        while fs::remove_dir_all(&self.0).is_err() && self.0.exists() && begun.elapsed() < DEADLINE
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
