//! A self-signed certificate for a server of a test.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use headworks_rig::find_program;

/// A directory with `certificate.pem` and `key.pem`, removed whatever becomes of the test.
pub struct Certificate(PathBuf);

impl Certificate {
    /// `None`, with a printed reason, if there is nothing to make one with.
    pub fn make() -> Option<Certificate> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Some(openssl) = find_program("openssl") else {
            println!("skipped: no openssl on this machine (apt-get install openssl)");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("headworks-tls-{}-{number}", std::process::id());
        let it = Certificate(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&it.0).unwrap();
        let made = Command::new(openssl)
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-keyout", &it.key(), "-out", &it.certificate()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            // The servers of the rig run as user 65534 then, and PostgreSQL wants the key closed to
            // others.
            std::os::unix::fs::chown(it.key(), Some(65_534), Some(65_534)).unwrap();
        }
        std::fs::set_permissions(it.key(), PermissionsExt::from_mode(0o600)).unwrap();
        Some(it)
    }

    pub fn certificate(&self) -> String {
        self.0.join("certificate.pem").to_str().unwrap().to_owned()
    }

    pub fn key(&self) -> String {
        self.0.join("key.pem").to_str().unwrap().to_owned()
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
