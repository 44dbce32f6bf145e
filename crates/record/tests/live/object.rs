//! The committed object and its sources.

use object::{Object, ObjectSection};
use std::path::Path;
use std::process::Command;

#[test]
fn the_object_was_built_from_these_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let built = std::fs::read(folder.join("recorder.bpf.o")).expect("the object");
    let elf = object::File::parse(&*built).expect("ELF");
    let section = elf.section_by_name("source").expect("the hash of its sources");
    let has = String::from_utf8_lossy(section.data().expect("bytes")).into_owned();
    let hash = Command::new(folder.join("build")).arg("--hash").output().expect("sha256sum");
    let wanted = String::from_utf8_lossy(&hash.stdout).trim().to_owned();
    assert_eq!(
        has.trim_end_matches('\0'),
        wanted,
        "build it again and commit it: make record-bpf (needs clang and libbpf-dev)"
    );
}
