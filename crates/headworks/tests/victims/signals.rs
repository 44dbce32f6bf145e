//! Signal handlers that call every hook while threads are held or in the midst of hooks.

use std::time::{Duration, Instant};

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};

#[test]
fn handlers_that_use_the_hooks_neither_block_nor_break_a_busy_server() {
    let Some(workshop) = Workshop::open() else { return };
    // A handler that looks at another thread's connection can hide an answer from the gate. The
    // permit that is then kept for nothing is lent after the usual time.
    let config = "[gate]\nparallelism = 2\n";
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), config, &["signals"]);
    let begun = Instant::now();
    let requests: u32 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let mut requests = 0;
                    while begun.elapsed() < Duration::from_secs(2) {
                        assert!(client.query("BEGIN").unwrap().in_transaction());
                        client.query("SELECT 1").unwrap();
                        client.query("raise").unwrap();
                        assert!(!client.query("COMMIT").unwrap().in_transaction());
                        requests += 4;
                    }
                    requests
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(requests > 0);
    assert_eq!(server.counter("panic"), 0);
    assert_eq!(server.figure("waiting"), 0);
    assert!(server.stop().0.success());
}

#[test]
fn handlers_run_while_threads_are_held() {
    let Some(workshop) = Workshop::open() else { return };
    // Without the timer: no answer is hidden from the gate, except perhaps by the last handlers.
    let config = PATIENT.replace("stall_ms = 3000000", "stall_ms = 1000");
    let server = MiniServer::start(&workshop.compile("miniserver.c", &[]), &config, &[]);
    let mut occupant = server.occupant();
    let mut held = server.held(5);
    let threads: Vec<libc::pid_t> = std::fs::read_dir(format!("/proc/{}/task", server.pid()))
        .unwrap()
        .map(|thread| thread.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    assert!(threads.len() > 6, "{threads:?}");
    for _ in 0..40 {
        for &thread in &threads {
            let process = server.pid() as libc::pid_t;
            // SAFETY: tgkill takes numbers only.
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGALRM) };
            assert_eq!(sent, 0);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.figure("waiting"), 5);
    occupant.query("COMMIT").unwrap();
    for client in &mut held {
        client.read_answer().unwrap();
    }
    assert_eq!(server.counter("panic"), 0);
    assert!(server.stop().0.success());
}
