//! Files and their errors.

use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, size: u64) -> Scratch {
        // Beside the build's output: a real file system, where /tmp may be memory.
        let dir = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let path = dir.join(format!("store-{name}-{}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn bytes_come_back_through_aligned_and_other_memory() {
    let scratch = Scratch::new("bytes", MIB);
    let store = File::open(&scratch.0, MIB).unwrap();
    let data: Vec<u8> = (0..8192 + 1).map(|n| (n % 253) as u8).collect();
    // One of the two slices is not aligned, whatever the vector's address.
    for (offset, slice) in [(0, &data[..8192]), (65_536, &data[1..])] {
        for fua in [false, true] {
            store.write(offset, slice, fua).unwrap();
            let mut back = Buffer::new(8192);
            store.read(offset, &mut back).unwrap();
            assert_eq!(&back[..], slice);
            let mut odd = vec![0; 8193];
            store.read(offset, &mut odd[1..]).unwrap();
            assert_eq!(&odd[1..], slice);
        }
    }
    store.flush().unwrap();
}

#[test]
fn what_is_in_the_page_cache_is_read_and_written_at_once() {
    let scratch = Scratch::new("cached", MIB);
    let store = File::open_cached(&scratch.0, MIB).unwrap();
    assert!(!store.is_direct());
    let mut back = vec![0; 8192];
    assert!(store.try_write(4096, &[7; 8192]).unwrap());
    assert!(store.try_read(4096, &mut back).unwrap());
    assert_eq!(back, [7; 8192]);
    assert!(store.try_read(MIB - 4096, &mut back).is_err(), "outside");
    // After one that was held up, others must not hold up who asks.
    store.held_up_ns.store(clock::now().0, Ordering::Relaxed);
    assert!(!store.try_write(4096, &[8; 8192]).unwrap());
    store.read(4096, &mut back).unwrap();
    assert_eq!(back, [7; 8192]);
    let direct = Scratch::new("direct", MIB);
    let store = File::open(&direct.0, MIB).unwrap();
    assert!(!store.try_read(0, &mut back).unwrap() && !store.try_write(0, &back).unwrap());
}

#[test]
fn zeroed_and_discarded_ranges_read_as_zeros_and_keep_the_size() {
    let scratch = Scratch::new("zeroes", MIB);
    let store = File::open(&scratch.0, MIB).unwrap();
    let mut back = Buffer::new(MIB as usize);
    for what in 0..3 {
        store.write(0, &vec![0xee; MIB as usize], false).unwrap();
        match what {
            0 => store.discard(4096, 8192).unwrap(),
            1 => store.write_zeroes(4096, 8192, true, true).unwrap(),
            _ => store.write_zeroes(4096, 8192, false, false).unwrap(),
        }
        store.read(0, &mut back).unwrap();
        let zeros = back.iter().filter(|byte| **byte == 0).count();
        assert_eq!((zeros, back[4095], back[4096], back[12_288]), (8192, 0xee, 0, 0xee));
    }
    store.write_zeroes(MIB - 512, 512, true, true).unwrap();
    assert_eq!(std::fs::metadata(&scratch.0).unwrap().len(), MIB);
}

#[test]
fn extents_follow_holes() {
    let scratch = Scratch::new("extents", 8 * MIB);
    let store = File::open(&scratch.0, 8 * MIB).unwrap();
    store.write(2 * MIB, &vec![1; MIB as usize], true).unwrap();
    let list = store.extents(MIB, 6 * MIB).unwrap();
    assert_eq!(list.iter().map(|extent| extent.len).sum::<u64>(), 6 * MIB);
    let data: Vec<_> = list.iter().filter(|extent| extent.allocated).collect();
    // A file system without holes reports one extent for everything.
    if list.len() > 1 {
        assert_eq!((data[0].offset, data[0].len), (2 * MIB, MIB));
    }
}

#[test]
fn what_cannot_hold_the_volume_is_refused_in_words() {
    let scratch = Scratch::new("refused", MIB);
    let small = File::open(&scratch.0, 2 * MIB).unwrap_err().to_string();
    assert!(small.contains("truncate -s 2097152"), "{small}");
    let held = File::open(&scratch.0, MIB).unwrap();
    assert!(matches!(File::open(&scratch.0, MIB), Err(OpenError::Busy { .. })));
    drop(held);
    assert!(File::open(&scratch.0, MIB).is_ok());
    let missing = File::open(Path::new("/nonexistent/disk"), MIB).unwrap_err().to_string();
    assert!(missing.contains("make it first"), "{missing}");
    assert!(matches!(File::open(Path::new("/dev/null"), MIB), Err(OpenError::Kind { .. })));
}

#[test]
fn a_range_outside_is_refused() {
    let scratch = Scratch::new("outside", 2 * MIB);
    let store = File::open(&scratch.0, MIB).unwrap();
    let error = store.write(MIB - 512, &[0; 1024], false).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}
