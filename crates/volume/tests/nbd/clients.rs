//! Debian's NBD clients. Each test says why it is skipped where its program is missing.

use std::path::Path;
use std::process::{Command, Output};

use headworks_volume::nbd::Export;

use crate::served::{Folder, MIB, Served, memory};

/// Whether the program of a Debian package is here; says so when it is not.
fn have(program: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    });
    if !found {
        println!("skipped: no {program} on this machine (apt-get install {package})");
    }
    found
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("it starts")
}

/// Debian's Python, which has Debian's module, also where another one comes first in PATH.
const PYTHON: &str = "/usr/bin/python3";

fn have_python_module() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: Python has no nbd module (apt-get install python3-libnbd)");
    }
    found
}

/// What it printed. It must succeed.
fn out(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file of `mib` MiB with data, holes and data.
fn image(folder: &Path, mib: u64) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let len = usize::try_from(mib * MIB).unwrap();
    let mut bytes = vec![0; len];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        if (at / 8192) % 3 != 1 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
    }
    let path = folder.join("image");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn nbdinfo_lists_every_export() {
    if !have("nbdinfo", "libnbd-bin") {
        return;
    }
    let served = Served::new(vec![
        Export::new("data", memory(64 * MIB)).description("tables"),
        Export::new("log", memory(MIB)).read_only(true),
        Export::new("with space / and ü", memory(2 * MIB)).rotational(true),
    ]);
    let listed = out("nbdinfo", &["--list", "--json", &served.uri("")]);
    for words in [
        "\"export-name\": \"data\"",
        "\"description\": \"tables\"",
        "\"export-name\": \"log\"",
        "\"export-name\": \"with space / and ü\"",
        "\"base:allocation\"",
        "\"is_read_only\": true",
        "\"is_rotational\": true",
        "\"structured\": true",
        "\"can_multi_conn\": true",
    ] {
        assert!(listed.contains(words), "{words} is not in {listed}");
    }
    assert_eq!(out("nbdinfo", &["--size", &served.uri("log")]).trim(), MIB.to_string());
    assert!(!run("nbdinfo", &["--size", &served.uri("nothing")]).status.success());
}

#[test]
fn nbdcopy_brings_an_image_in_and_out_unharmed() {
    if !have("nbdcopy", "libnbd-bin") {
        return;
    }
    let served = Served::new(vec![
        Export::new("data", memory(48 * MIB)),
        Export::new("fast", memory(48 * MIB)).fast_zeroes(true),
    ]);
    let folder = Folder::new();
    let image = image(&folder.0, 48);
    let back = folder.0.join("back");
    for export in ["data", "fast"] {
        for connections in ["--connections=1", "--connections=4"] {
            out("nbdcopy", &["--flush", connections, &image, &served.uri(export)]);
            out("nbdcopy", &[connections, &served.uri(export), back.to_str().unwrap()]);
            assert!(std::fs::read(&back).unwrap() == std::fs::read(&image).unwrap());
            std::fs::remove_file(&back).unwrap();
        }
    }
    if have("nbdinfo", "libnbd-bin") {
        let map = out("nbdinfo", &["--map", "--totals", &served.uri("data")]);
        assert!(map.contains("hole"), "the holes of the image are holes of the volume: {map}");
    }
}

#[test]
fn python_meets_the_errors_of_the_protocol() {
    if !have_python_module() {
        return;
    }
    let served = Served::new(vec![
        Export::new("data", memory(MIB)),
        Export::new("old", memory(MIB)).read_only(true),
    ]);
    let script = r#"
import errno
import nbd
import sys
h = nbd.NBD()
uri = sys.argv[1]
def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        raise AssertionError("it succeeded")
h.set_strict_mode(0)
h.set_handshake_flags(3)
h.connect_uri(uri)
size = h.get_size()
h.pwrite(b"x" * 512, 0, nbd.CMD_FLAG_FUA)
assert h.pread(512, 0, nbd.CMD_FLAG_DF) == b"x" * 512
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.EINVAL, lambda: h.pread(100, 3))
fails(errno.ENOSPC, lambda: h.pwrite(b"x" * 512, size))
fails(errno.ENOTSUP, lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO))
h.zero(512, 0, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(512, 0) == b"\0" * 512
h.trim(512, 0); h.cache(512, 0); h.flush()
h.shutdown()
"#;
    out(PYTHON, &["-c", script, &served.uri("data")]);
    let script = r#"
import errno
import nbd
import sys
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
assert h.is_read_only()
for call in [lambda: h.pwrite(b"x" * 512, 0), lambda: h.trim(512, 0), lambda: h.zero(512, 0)]:
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == errno.EPERM, error
    else:
        raise AssertionError("it succeeded")
"#;
    out(PYTHON, &["-c", script, &served.uri("old")]);
}

#[test]
fn python_goes_by_the_oldest_way_too() {
    if !have_python_module() {
        return;
    }
    let served = Served::memory(MIB);
    // No fixed newstyle (hence only the export's name), and zeroes after the answer.
    for flags in 0..4 {
        let script = format!(
            "import nbd\nh = nbd.NBD()\nh.set_handshake_flags({flags})\nh.connect_uri({:?})\n\
             h.pwrite(b'y' * 512, 512)\nassert h.pread(512, 512) == b'y' * 512\nh.shutdown()",
            served.uri("data")
        );
        out(PYTHON, &["-c", &script]);
    }
}

#[test]
fn qemu_img_converts_and_compares() {
    if !have("qemu-img", "qemu-utils") {
        return;
    }
    let served = Served::memory(48 * MIB);
    let folder = Folder::new();
    let image = image(&folder.0, 48);
    let (uri, back) = (served.uri("data"), folder.0.join("back.qcow2"));
    let back = back.to_str().unwrap();
    out("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image, &uri]);
    out("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &uri]);
    out("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, back]);
    out("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &image, back]);
    let map = out("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(map.contains("\"zero\": true") && map.contains("\"zero\": false"), "{map}");
}

#[test]
fn qemu_io_verifies_patterns_through_discards_and_zeroes() {
    if !have("qemu-io", "qemu-utils") {
        return;
    }
    let served = Served::memory(48 * MIB);
    let uri = served.uri("data");
    let commands = [
        "write -P 0x11 0 8M",
        "write -P 0x22 -f 1M 64k",
        "read -P 0x11 0 1M",
        "read -P 0x22 1M 64k",
        "write -z 2M 1M",
        "read -P 0 2M 1M",
        "write -z -u 4M 1M",
        "read -P 0 4M 1M",
        "discard 6M 1M",
        "read -P 0x11 5M 1M",
        "aio_write -P 0x44 16M 4M",
        "aio_write -P 0x55 20M 4M",
        "aio_flush",
        "read -P 0x44 16M 4M",
        "read -P 0x55 20M 4M",
        "writev -P 0x66 24M 4k 8k 512",
        "read -P 0x66 24M 12800",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw", "-t", "writeback", "-d", "unmap"];
    for command in &commands {
        arguments.extend(["-c", command]);
    }
    arguments.push(&uri);
    let output = run("qemu-io", &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("Pattern verification failed"), "{said}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio", "fio") {
        return;
    }
    if !out("fio", &["--enghelp"]).split_whitespace().any(|word| word == "nbd") {
        println!("skipped: this fio has no nbd engine (Debian's has one)");
        return;
    }
    let served = Served::memory(32 * MIB);
    let uri = format!("--uri={}", served.uri("data"));
    for (pattern, depth) in [("randwrite", "32"), ("write", "4"), ("randtrimwrite", "16")] {
        let (rw, depth) = (format!("--rw={pattern}"), format!("--iodepth={depth}"));
        let arguments = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            &rw,
            &depth,
            "--bsrange=512-64k",
            "--blockalign=512",
            "--size=32M",
            "--io_size=48M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--randseed=7",
            "--output-format=terse",
        ];
        let arguments: Vec<_> = arguments.into_iter().collect();
        out("fio", &arguments);
    }
}
