//! Real clients.

use crate::rig::{Rig, has, run};

const TWO: &str = "\
[[volume]]
name = \"data\"
path = \"DIR/data.img\"
[[volume]]
name = \"memory\"
path = \"memory\"
size = \"32MiB\"
";

fn store() -> Rig {
    let mut rig = Rig::new(TWO);
    rig.file("data.img", 32 << 20);
    rig.serve();
    rig
}

#[test]
fn nbdinfo_sees_all_volumes_and_what_they_can() {
    if !has("nbdinfo") {
        return;
    }
    let rig = store();
    let said = run("nbdinfo", &["--list", &rig.uri("")]);
    for part in ["export=\"data\"", "export=\"memory\"", "can_multi_conn: true", "can_fua: true"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn nbdcopy_gets_back_what_it_put_by_many_connections() {
    if !has("nbdcopy") {
        return;
    }
    let rig = store();
    let (from, to) = (rig.file("from", 0), rig.file("to", 32 << 20));
    let noise: Vec<u8> =
        (0..32 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &noise).unwrap();
    for export in ["data", "memory"] {
        let uri = rig.uri(export);
        run("nbdcopy", &["--connections=4", from.to_str().unwrap(), &uri]);
        run("nbdcopy", &["--connections=4", &uri, to.to_str().unwrap()]);
        assert!(std::fs::read(&to).unwrap() == noise, "{export}");
    }
}

#[test]
fn qemu_io_writes_zeroes_discards_and_maps() {
    if !has("qemu-io") {
        return;
    }
    let rig = store();
    let said = run(
        "qemu-io",
        &[
            "-f",
            "raw",
            &rig.uri("data"),
            "-c",
            "write -P 5 0 1M",
            "-c",
            "flush",
            "-c",
            "write -f -P 6 1M 64k",
            "-c",
            "write -z 512k 64k",
            "-c",
            "discard 2M 1M",
            "-c",
            "read -P 0 512k 64k",
            "-c",
            "read -P 6 1M 64k",
            "-c",
            "read -P 5 0 512k",
            "-c",
            "map",
        ],
    );
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn nbdsh_gets_structured_replies_and_block_status() {
    if !has("nbdsh") {
        return;
    }
    let rig = store();
    let script = "\
h.pwrite(b'x' * 4096, 8192, nbd.CMD_FLAG_FUA)
assert h.get_structured_replies_negotiated()
seen = []
h.block_status(65536, 0, lambda m, o, e, err: seen.extend(e))
assert seen
assert h.pread(4096, 8192) == b'x' * 4096
h.flush(); h.trim(4096, 8192); h.zero(4096, 0); h.cache(4096, 0)
print('all is well')
";
    let words = ["--base-allocation", "-u", &rig.uri("memory"), "-c", script];
    assert!(run("nbdsh", &words).contains("all is well"));
}
