//! Programs that were compiled with `_FORTIFY_SOURCE`, as distributions do.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};
use crate::support::{program, shim, text};

const FORTIFIED: &[&str] = &["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"];

#[test]
fn fortified_calls_are_followed_as_the_plain_ones() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("miniserver.c", &["-DFORTIFIED"]);
    let server = MiniServer::start(&victim, PATIENT, &[]);
    let mut occupant = server.occupant();
    let mut held = server.held(2);
    occupant.query("COMMIT").unwrap();
    for client in &mut held {
        client.read_answer().unwrap();
    }
    drop((occupant, held));
    assert!(server.stop().0.success());
}

#[test]
fn an_overflow_is_still_caught() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("overflow.c", FORTIFIED);
    program();
    let run = |args: &[&str], preload: Option<&Path>| -> Output {
        let mut command = Command::new(&victim);
        command.args(args).env_remove("LD_PRELOAD");
        preload.map(|preload| command.env("LD_PRELOAD", preload));
        command.output().unwrap()
    };
    for args in [&[][..], &["recv"], &["poll", "too"]] {
        let (alone, ours) = (run(args, None), run(args, Some(&shim())));
        assert_eq!((text(&ours), ours.status), (text(&alone), alone.status), "{args:?}");
        let aborted = alone.status.signal() == Some(libc::SIGABRT);
        assert_eq!(aborted, !args.is_empty(), "{args:?}: {alone:?}");
    }
}
