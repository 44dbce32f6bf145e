use super::*;
use crate::store::Memory;

const MIB: u64 = 1 << 20;

fn volume(settings: PowerCutSettings) -> (Arc<Memory>, PowerCut) {
    let memory = Arc::new(Memory::new(MIB, MIB));
    (Arc::clone(&memory), PowerCut::new(memory, settings, 512))
}

fn byte_at(store: &dyn Store, offset: u64) -> u8 {
    let mut sector = [0; SECTOR];
    store.read(offset / SECTOR_BYTES * SECTOR_BYTES, &mut sector).unwrap();
    sector[(offset % SECTOR_BYTES) as usize]
}

#[test]
fn an_unflushed_write_is_read_but_not_stored() {
    let (memory, cut) = volume(PowerCutSettings { keep: 0.0, ..Default::default() });
    cut.write(1024, &[7; 1024], false).unwrap();
    assert_eq!((byte_at(&cut, 1024), byte_at(&*memory, 1024)), (7, 0));
    let report = cut.cut();
    assert_eq!((report.dropped, report.kept, report.torn), (2, 0, 0));
    assert_eq!(cut.read(0, &mut [0; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(cut.flush().unwrap_err().raw_os_error(), Some(libc::EIO));
    cut.restore();
    assert_eq!(byte_at(&cut, 1024), 0);
}

#[test]
fn flush_and_fua_make_durable_what_they_cover_and_no_more() {
    let (_, cut) = volume(PowerCutSettings { keep: 0.0, ..Default::default() });
    cut.write(0, &[1; 4096], false).unwrap();
    cut.flush().unwrap();
    cut.write(4096, &[2; 4096], false).unwrap();
    cut.write(8192, &[3; 512], true).unwrap();
    // The later write counts, although the earlier one to these sectors was never flushed.
    cut.write(12_288, &[4; 4096], false).unwrap();
    cut.write(12_288, &[5; 512], true).unwrap();
    assert_eq!(cut.cut().dropped, 8 + 7);
    cut.restore();
    let left = [0, 4096, 8192, 12_288, 12_800].map(|offset| byte_at(&cut, offset));
    assert_eq!(left, [1, 0, 3, 5, 0]);
}

#[test]
fn a_full_cache_writes_out_by_itself() {
    let (memory, cut) =
        volume(PowerCutSettings { cache_bytes: 64 << 10, keep: 0.0, ..Default::default() });
    for block in 0..64 {
        cut.write(block * 4096, &[9; 4096], false).unwrap();
    }
    assert_eq!(cut.unflushed_bytes(), 64 << 10);
    let out = (0..64).filter(|block| byte_at(&*memory, block * 4096) == 9).count();
    assert_eq!(out, 64 - 16);
    assert_eq!(byte_at(&cut, 63 * 4096), 9);
}

#[test]
fn zeroes_are_as_volatile_as_data_and_discards_are_not() {
    let (_, cut) = volume(PowerCutSettings { keep: 0.0, ..Default::default() });
    cut.write(0, &[1; 16_384], false).unwrap();
    cut.flush().unwrap();
    cut.write_zeroes(512, 512, false, true).unwrap();
    cut.write_zeroes(4096, 4096, true, true).unwrap();
    cut.discard(8192, 4096).unwrap();
    assert_eq!((byte_at(&cut, 512), byte_at(&cut, 4096), byte_at(&cut, 8192)), (0, 0, 0));
    cut.cut();
    cut.restore();
    assert_eq!((byte_at(&cut, 512), byte_at(&cut, 4096), byte_at(&cut, 8192)), (1, 0, 0));
}

#[test]
fn fates_follow_their_fractions_and_the_seed() {
    let run = |seed| {
        let settings =
            PowerCutSettings { seed: Some(seed), keep: 0.3, torn: 0.2, ..Default::default() };
        let (memory, cut) = volume(settings);
        cut.write(0, &vec![0xaa; MIB as usize], false).unwrap();
        let report = cut.cut();
        let mut after = vec![0; MIB as usize];
        memory.read(0, &mut after).unwrap();
        (report, after)
    };
    let (report, after) = run(1);
    // Of 2,048 sectors: 614 ± 5 · 21 are kept, 410 ± 5 · 18 torn.
    assert!((509..=719).contains(&report.kept), "{report:?}");
    assert!((320..=500).contains(&report.torn), "{report:?}");
    let (mut kept, mut torn) = (0, 0);
    for sector in after.chunks(SECTOR) {
        let new = sector.iter().take_while(|byte| **byte == 0xaa).count();
        assert!(sector[new..].iter().all(|byte| *byte == 0), "new bytes first, then old ones");
        kept += u64::from(new == SECTOR);
        torn += u64::from(new > 0 && new < SECTOR);
    }
    assert_eq!((kept, torn), (report.kept, report.torn));
    assert_eq!(run(1).1, after);
    assert_ne!(run(2).1, after);
}

#[test]
fn a_sector_is_as_large_as_the_volumes_block() {
    for sector in [512, 1024, 2048, 4096_u32] {
        let settings = PowerCutSettings { seed: Some(3), ..Default::default() };
        let memory = Arc::new(Memory::new(MIB, MIB));
        let cut = PowerCut::new(Arc::clone(&memory) as _, settings, sector);
        cut.write(0, &vec![0xaa; MIB as usize], false).unwrap();
        let report = cut.cut();
        let mut after = vec![0; MIB as usize];
        memory.read(0, &mut after).unwrap();
        let mut found = CutReport { seed: 3, ..CutReport::default() };
        for sector in after.chunks(sector as usize) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "old or new as a whole");
            *(if sector[0] == 0 { &mut found.dropped } else { &mut found.kept }) += 1;
        }
        assert_eq!(found, report, "sectors of {sector}");
        assert!(report.kept > 0 && report.dropped > 0, "{report:?}");
    }
}

#[test]
fn a_torn_large_sector_is_new_up_to_one_byte_and_a_part_of_one_keeps_the_rest() {
    let settings = PowerCutSettings { seed: Some(1), torn: 1.0, keep: 0.0, ..Default::default() };
    let memory = Arc::new(Memory::new(MIB, MIB));
    let cut = PowerCut::new(Arc::clone(&memory) as _, settings, 4096);
    cut.write(0, &[1; 4096], true).unwrap();
    cut.write(0, &[2; 4096], false).unwrap();
    assert_eq!(cut.cut().torn, 1);
    let mut sector = [0; 4096];
    memory.read(0, &mut sector).unwrap();
    let new = sector.iter().take_while(|byte| **byte == 2).count();
    assert!(new > 0 && new < 4096 && sector[new..].iter().all(|byte| *byte == 1), "{new}");

    let settings = PowerCutSettings { keep: 1.0, torn: 0.0, ..settings };
    let cut = PowerCut::new(Arc::clone(&memory) as _, settings, 4096);
    cut.write(0, &[1; 4096], true).unwrap();
    cut.write(512, &[2; 512], false).unwrap();
    assert_eq!(cut.cut().kept, 1);
    memory.read(0, &mut sector).unwrap();
    assert_eq!([0, 511, 512, 1023, 1024, 4095].map(|at| sector[at]), [1, 1, 2, 2, 1, 1]);
}

#[test]
fn the_power_goes_at_the_write_that_was_chosen() {
    let (_, cut) = volume(PowerCutSettings { after_writes: Some(3), ..Default::default() });
    cut.write(0, &[1; 512], false).unwrap();
    cut.write_zeroes(512, 512, false, false).unwrap();
    assert!(cut.is_on());
    assert!(cut.write(1024, &[1; 512], false).is_err());
    assert!(!cut.is_on());
}

#[test]
fn fractions_that_exceed_one_are_refused() {
    assert!(PowerCutSettings::parse("powercut:keep=0.7,torn=0.4").is_err());
    let parsed = PowerCutSettings::parse("powercut:seed=9,cache=1M,keep=0,torn=1").unwrap();
    assert_eq!((parsed.seed, parsed.cache_bytes, parsed.torn), (Some(9), MIB, 1.0));
}
