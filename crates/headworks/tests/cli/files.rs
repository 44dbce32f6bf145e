//! Who may read and write what an instance consists of.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::process::Command;

use headworks_rig::{Server, mariadb_or_skip};

use crate::support::{RunDir, program};

#[test]
fn region_and_socket_belong_to_the_databases_user_alone() {
    if !mariadb_or_skip() {
        return;
    }
    let run = RunDir::new();
    let prefix = [program().to_str().unwrap(), "run", "--name", "db", "--"];
    let server = Server::builder()
        .prefix(prefix)
        .env("HEADWORKS_RUN_DIR", run.path())
        .remove_when_orphaned(run.path())
        .start()
        .unwrap();
    let owner = std::fs::metadata(format!("/proc/{}", server.pid())).unwrap().uid();
    let look = |path| {
        let meta = std::fs::symlink_metadata(path).unwrap();
        (meta.permissions().mode() & 0o7777, meta.uid(), meta.file_type())
    };
    let (mode, uid, kind) = look(run.instance("db"));
    assert_eq!((mode, uid, kind.is_dir()), (0o700, owner, true));
    let (mode, uid, kind) = look(run.instance("db").join("region"));
    assert_eq!((mode, uid, kind.is_file()), (0o600, owner, true));
    let (mode, uid, kind) = look(run.instance("db").join("control.sock"));
    assert_eq!((mode, uid, kind.is_socket()), (0o600, owner, true));
    let daemon = std::fs::metadata(format!("/proc/{}", run.daemon("db"))).unwrap().uid();
    assert_eq!(daemon, owner, "the daemon runs as another user");
}

/// A strict umask of the service manager, and a directory that is not there yet.
#[test]
fn the_callers_umask_is_no_obstacle() {
    if !mariadb_or_skip() {
        return;
    }
    let run = RunDir::new();
    let dir = run.path().join("fresh");
    let script = "umask 077 && exec \"$0\" run --name db -- \"$@\"";
    let server = Server::builder()
        .prefix(["/bin/sh", "-c", script, program().to_str().unwrap()])
        .env("HEADWORKS_RUN_DIR", &dir)
        .remove_when_orphaned(run.path())
        .start()
        .unwrap();
    let status = |command: &mut Command| command.env("HEADWORKS_RUN_DIR", &dir).output().unwrap();
    let output = status(&mut run.headworks(["status", "--json", "--name", "db"]));
    assert!(output.status.success(), "{}", crate::support::text(&output));
    assert!(server.has_mapped("libheadworks").unwrap());
    drop(server);
    crate::support::wait_until("the instance is gone", || !dir.join("db").exists());
}
