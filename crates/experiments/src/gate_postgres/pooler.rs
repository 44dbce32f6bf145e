//! PgBouncer in transaction mode: what a user can put in front of PostgreSQL today.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_rig::{SUPERUSER, find_program};

use crate::running::Running;

/// The account without rights that PgBouncer runs as if root starts it.
const UNPRIVILEGED: u32 = 65_534;

/// Finds PgBouncer.
pub(crate) fn program() -> Result<PathBuf> {
    find_program("pgbouncer").context("pgbouncer is not installed (apt-get install pgbouncer)")
}

/// Its own words for its version.
pub(super) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").env_remove("LD_PRELOAD").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Starts a PgBouncer in front of the server at `server_port`; returns it and its port.
pub(crate) fn start(
    program: &Path,
    directory: &Path,
    server_port: u16,
    pool: u32,
) -> Result<(Running, u16)> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let settings = format!(
        "[databases]\npostgres = host=127.0.0.1 port={server_port} user={SUPERUSER}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = {pool}\n\
         max_client_conn = 1000\n"
    );
    let file = directory.join("pgbouncer.ini");
    fs::write(&file, settings).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new(program);
    command.arg("-q").arg(&file).env_remove("LD_PRELOAD").current_dir("/");
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    let running = Running::spawn("pgbouncer", command, &directory.join("pgbouncer.log"))?;
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        ensure!(begun.elapsed() < Duration::from_secs(10), "pgbouncer does not answer");
        sleep(Duration::from_millis(20));
    }
    Ok((running, port))
}
