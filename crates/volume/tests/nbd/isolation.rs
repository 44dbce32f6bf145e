//! No request touches another export than its connection's.

use headworks_volume::nbd::Export;
use headworks_volume::nbd::export::Mode;
use headworks_volume::nbd::wire::command as cmd;

use crate::raw::{Client, MODES};
use crate::served::{MIB, Served, memory};

#[test]
fn two_exports_share_nothing_but_the_server() {
    let served =
        Served::new(vec![Export::new("a", memory(MIB)), Export::new("b", memory(2 * MIB))]);
    for mode in MODES {
        let mut a = Client::new(&served.path, mode, "a");
        let mut b = Client::new(&served.path, mode, "b");
        a.write(0, &vec![0xaa; MIB as usize]);
        b.write(0, &vec![0xbb; 2 * MIB as usize]);
        // Everything that a can do, at its borders and beyond them, by turns with b.
        for offset in [0, 512, MIB - 512, MIB, MIB + 512, 2 * MIB - 512, u64::MAX - 511] {
            for kind in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES, cmd::READ, cmd::CACHE] {
                let payload = if kind == cmd::WRITE { &[0xcc; 512][..] } else { &[] };
                let inside = offset < MIB;
                assert_eq!(a.ask(kind, 0, offset, 512, payload).error == 0, inside);
                assert_eq!(b.read(MIB, 512), [0xbb; 512]);
            }
        }
        assert_eq!(a.ask(cmd::TRIM, 0, 0, MIB, &[]).error, 0);
        assert!(b.read(0, 2 * MIB) == vec![0xbb; 2 * MIB as usize]);
        assert!(a.read(0, MIB) == vec![0; MIB as usize]);
    }
}

#[test]
fn connections_to_one_export_see_each_others_writes() {
    let served = Served::memory(MIB);
    let mut first = Client::new(&served.path, Mode::Simple, "data");
    let mut second = Client::new(&served.path, Mode::Extended, "");
    first.write(4096, &[9; 512]);
    assert_eq!(second.ask(cmd::FLUSH, 0, 0, 0, &[]).error, 0);
    assert_eq!(second.read(4096, 512), [9; 512]);
}
