//! A program must not be able to tell that the library is there.

use std::path::Path;
use std::process::{Command, Output};

use crate::compile::Workshop;
use crate::miniserver::{MiniServer, PATIENT};
use crate::support::{RunDir, program, shim, text};

fn alone(program: &Path) -> Output {
    Command::new(program).env_remove("LD_PRELOAD").output().unwrap()
}

/// Under the library, with `HEADWORKS_REGION` as given.
fn preloaded(victim: &Path, region: Option<&Path>) -> Output {
    program();
    let mut command = Command::new(victim);
    command.env("LD_PRELOAD", shim()).env_remove("HEADWORKS_REGION");
    if let Some(region) = region {
        command.env("HEADWORKS_REGION", region);
    }
    command.output().unwrap()
}

#[test]
fn results_and_errno_are_those_of_the_c_library() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("errors.c", &[]);
    let expected = alone(&victim);
    assert!(expected.status.success(), "{expected:?}");
    let words = text(&expected);
    for errno in [libc::EBADF, libc::EAGAIN, libc::EFAULT, libc::EINTR, libc::ECONNRESET] {
        assert!(words.contains(&format!("-1 {errno}\n")), "errno {errno} does not occur: {words}");
    }
    assert_eq!(text(&preloaded(&victim, None)), words, "without a region");

    let run = RunDir::new();
    let gated = run.headworks(["run", "--name", "v", "--"]).arg(&victim).output().unwrap();
    let bytes = String::from_utf8_lossy(&gated.stdout);
    assert_eq!((&*bytes, gated.status), (&*words, expected.status), "with a region");
    run.assert_nothing_left("the victim ended");
}

#[test]
fn a_region_that_cannot_be_used_costs_one_line_and_nothing_else() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("errors.c", &[]);
    let expected = alone(&victim);
    let run = RunDir::new();
    let nonsense = run.file("nonsense", &"no region at all ".repeat(100));
    let short = run.file("short", "hdwrks");
    let version = run.file("version", "");
    // A region of another version, as long as a real one begins.
    let mut bytes = headworks_region::layout::MAGIC.to_ne_bytes().to_vec();
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.resize(1 << 20, 0);
    std::fs::write(&version, bytes).unwrap();
    let missing = run.path().join("missing/region");
    for region in [&nonsense, &short, &version, &missing, &run.path().to_owned()] {
        let output = preloaded(&victim, Some(region));
        assert!(output.stdout == expected.stdout, "{}: {}", region.display(), text(&output));
        assert_eq!(output.status, expected.status, "{}", region.display());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{}: {said}", region.display());
        assert!(said.contains("HEADWORKS_REGION") && said.contains("headworks run"), "{said}");
    }
}

/// Its runtime ends a program in which it is not the first library.
#[test]
fn address_sanitizer_works_whether_the_caller_preloads_its_runtime_or_not() {
    let Some(workshop) = Workshop::open() else { return };
    let Some(runtime) = workshop.library("libasan.so") else {
        return println!("skipped: no libasan (apt-get install libgcc-12-dev)");
    };
    let victim = workshop.compile("sanitized.c", &["-g", "-fsanitize=address"]);
    let run = RunDir::new();
    let file = run.path().join("written");
    let runtime = runtime.to_str().unwrap();
    for (preloaded, options) in [("", None), (runtime, None), ("", Some("halt_on_error=1"))] {
        for io in [&[][..], &["--io", "rcp"]] {
            let options = options.map(|options| ("ASAN_OPTIONS", options));
            let words = [&["run", "--name", "v", "--profile", "generic"][..], io, &["--"]].concat();
            let mut command = run.headworks(words);
            command.arg(&victim).arg(&file).env("LD_PRELOAD", preloaded).envs(options);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!((&*said, output.status.code()), ("done\n", Some(0)), "{output:?}");
            let output = command.arg("too-far").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("heap-buffer-overflow"), "it still finds faults: {said}");
            std::fs::remove_file(&file).unwrap();
            run.assert_nothing_left("the victim ended");
        }
    }
}

#[test]
fn another_preloaded_library_still_sees_every_call() {
    let Some(workshop) = Workshop::open() else { return };
    let counter = workshop.compile("counter.c", &["-shared", "-fPIC"]);
    let victim = workshop.compile("miniserver.c", &[]);
    let environment = [("LD_PRELOAD", counter.to_str().unwrap())];
    let server = MiniServer::start_with(&victim, PATIENT, &[], &environment);
    let mut client = server.connect();
    for _ in 0..20 {
        client.query("SELECT 1").unwrap();
    }
    drop(client);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
    assert!(maps.contains("libheadworks.so") && maps.contains("libcounter.so"));
    let (status, output) = server.stop();
    assert!(status.success(), "{status}");
    // Two calls at least for each of the requests: header and body.
    let counted =
        output.trim().strip_prefix("counted ").and_then(|count| count.parse::<u32>().ok());
    assert!(counted.is_some_and(|count| count >= 40), "{output}");
}
