//! A self-signed certificate for the servers of a suite.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use headworks_rig::find_program;
use headworks_rig::gated::RunDirectory;

/// The account that servers started by root run as.
const UNPRIVILEGED: u32 = 65_534;

/// A certificate and its key in a separate directory, which is removed when this is dropped.
#[derive(Debug)]
pub struct Certificate {
    _directory: RunDirectory,
    certificate: String,
    key: String,
}

impl Certificate {
    /// Makes one, valid for two days.
    pub fn make() -> Result<Certificate> {
        let openssl = find_program("openssl").context("openssl is not installed")?;
        let directory = RunDirectory::new()?;
        let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let (certificate, key) = (path("certificate.pem"), path("key.pem"));
        let it = Certificate { _directory: directory, certificate, key };
        let output = Command::new(openssl)
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-keyout", &it.key, "-out", &it.certificate])
            .output()
            .context("openssl req")?;
        ensure!(
            output.status.success(),
            "openssl req: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            std::os::unix::fs::chown(&it.key, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
        }
        // PostgreSQL takes no key that others can read.
        std::fs::set_permissions(&it.key, PermissionsExt::from_mode(0o600))?;
        Ok(it)
    }

    /// The certificate's file.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key's file.
    pub fn key(&self) -> &str {
        &self.key
    }
}
