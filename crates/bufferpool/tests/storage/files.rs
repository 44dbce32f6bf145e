//! Real files: what they keep, which of them are refused, and a disk that is full.

use crate::small::{PAGE_SIZE, config, get, put};
use headworks_bufferpool::storage::{
    AsyncIo, FileOptions, FileStorage, IoKind, IoTag, PageRead, Storage,
};
use headworks_bufferpool::{
    AlignedBuffer, BufferPool, NoWal, PageId, PoolError, StorageError, StrategyKind,
};
use std::path::PathBuf;
use std::sync::Arc;

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn real_files_keep_pages_by_every_way() {
    for async_io in [AsyncIo::Uring, AsyncIo::Threads] {
        for direct in [true, false] {
            let path = scratch("pages");
            let options =
                FileOptions { page_size: PAGE_SIZE, direct, async_io, ..FileOptions::default() };
            let storage = match FileStorage::create(&path, 500, options) {
                Ok(storage) => storage,
                Err(StorageError::Open { message, .. }) if async_io == AsyncIo::Uring => {
                    println!("skipped: no io_uring here ({message})");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            println!("direct {direct}: {}, {async_io:?}", storage.is_direct());
            let pool = BufferPool::new(
                config(StrategyKind::LRU_C),
                Arc::new(storage),
                Arc::new(NoWal),
                None,
            )
            .unwrap();
            for page in 0..500 {
                put(&pool, page, (page % 251) as u8).unwrap();
            }
            pool.close().unwrap();
            let storage = Arc::new(FileStorage::open(&path, options).unwrap());
            let pool =
                BufferPool::new(config(StrategyKind::Vanilla), storage, Arc::new(NoWal), None)
                    .unwrap();
            for page in 0..500 {
                assert_eq!(get(&pool, page).unwrap(), (page % 251) as u8);
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A batch of reads that the kernel takes, one of buffers that it does not take as they are, and a
/// file that ends early.
#[test]
fn batches_of_reads_bring_what_single_reads_do() {
    let tag = IoTag::of(IoKind::Prefetch);
    for async_io in [AsyncIo::Auto, AsyncIo::Threads] {
        let path = scratch("batch");
        let options = FileOptions { page_size: PAGE_SIZE, async_io, ..FileOptions::default() };
        let storage = FileStorage::create(&path, 100, options).unwrap();
        for page in 0..100u8 {
            storage.write(PageId(page.into()), &[page; PAGE_SIZE], tag).unwrap();
        }
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        // The label comes first: page 89 is cut in half.
        file.set_len(90 * PAGE_SIZE as u64 + 2048).unwrap();
        for shift in [0, 8] {
            let mut buffer = AlignedBuffer::new(101 * PAGE_SIZE);
            let pages = (0..100).rev().map(PageId);
            let mut reads: Vec<_> = buffer[shift..]
                .chunks_mut(PAGE_SIZE)
                .zip(pages)
                .map(|(bytes, page)| PageRead { page, bytes, tag })
                .collect();
            let mut ends = vec![None; 100];
            storage.read_batch(&mut reads, &mut |at, end| {
                assert!(ends[at].replace(end.map_err(|error| error.to_string())).is_none());
            });
            for (read, end) in reads.iter().zip(ends) {
                match end.expect("every read ends") {
                    Ok(()) => {
                        assert!(read.bytes.iter().all(|&byte| u64::from(byte) == read.page.0))
                    }
                    Err(error) => assert!(read.page.0 >= 89, "{}: {error}", read.page),
                }
            }
            let mut nowhere =
                [PageRead { page: PageId(200), bytes: &mut buffer[..PAGE_SIZE], tag }];
            storage.read_batch(&mut nowhere, &mut |_, end| {
                assert!(matches!(end, Err(StorageError::OutOfRange { .. })), "{end:?}");
            });
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn truncated_and_foreign_files_are_refused_by_name() {
    let path = scratch("bad");
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    drop(FileStorage::create(&path, 50, options).unwrap());
    let wrong_size = FileOptions { page_size: 8192, ..options };
    assert!(matches!(FileStorage::open(&path, wrong_size), Err(StorageError::Foreign { .. })));

    // Truncated while it is open, then opened again.
    let storage = Arc::new(FileStorage::open(&path, options).unwrap());
    let pool =
        BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
    put(&pool, 3, 33).unwrap();
    pool.flush_all().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(20 * PAGE_SIZE as u64 + 100).unwrap();
    assert!(matches!(
        get(&pool, 40),
        Err(PoolError::Storage(StorageError::Short { page: PageId(40), .. }))
    ));
    assert_eq!(get(&pool, 3).unwrap(), 33);
    drop(pool);
    assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Short { .. })));

    let never = FileOptions { depth: 0, replace: true, ..options };
    assert!(matches!(FileStorage::create(&path, 5, never), Err(StorageError::Open { .. })));
    std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
    assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Foreign { .. })));
    // Nor is it written over.
    let error = FileStorage::create(&path, 50, options).err().unwrap();
    assert!(error.to_string().contains("holds something"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 100_000]);
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Foreign { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Open { .. })));
}

/// Two that write the same pages would destroy them; a lock ends with its owner.
#[test]
fn a_file_that_is_open_is_not_opened_again() {
    let path = scratch("twice");
    for direct in [true, false] {
        let options = FileOptions { page_size: PAGE_SIZE, direct, ..FileOptions::default() };
        let open = FileStorage::create(&path, 5, options).unwrap();
        assert!(matches!(FileStorage::open(&path, options), Err(StorageError::InUse { .. })));
        let replacing = FileOptions { replace: true, ..options };
        let error = FileStorage::create(&path, 1, replacing).err().unwrap();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(open);
        let error = FileStorage::create(&path, 1, options).err().unwrap();
        assert!(error.to_string().contains("to be replaced"), "{error}");
        assert_eq!(FileStorage::open(&path, options).unwrap().pages(), 5, "not cut by the refused");
        assert_eq!(FileStorage::create(&path, 7, replacing).unwrap().pages(), 7);
        std::fs::remove_file(&path).unwrap();
    }
}

/// File systems, volume managers and arrays leave the first sectors alone.
#[test]
fn what_begins_with_zeroes_may_be_somebody_elses() {
    let path = scratch("zeroes");
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    for at in [512, 1024 + 56, 64 << 10, 3 << 20] {
        let mut bytes = vec![0; 4 << 20];
        bytes[at] = 0x53;
        std::fs::write(&path, &bytes).unwrap();
        let error = FileStorage::create(&path, 10, options).err().unwrap();
        assert!(error.to_string().contains("holds something"), "{at}: {error}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{at}: it was written over");
    }
    std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
    drop(FileStorage::create(&path, 10, options).unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_grows_and_keeps_its_pages() {
    let path = scratch("grows");
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    let pool = |storage: FileStorage| {
        BufferPool::new(config(StrategyKind::LRU_C), Arc::new(storage), Arc::new(NoWal), None)
            .unwrap()
    };
    let small = pool(FileStorage::create(&path, 5, options).unwrap());
    (0..5).for_each(|page| put(&small, page, page as u8).unwrap());
    small.close().unwrap();
    assert_eq!(FileStorage::grow(&path, 3, options).unwrap().pages(), 5, "it never shrinks");
    let large = pool(FileStorage::grow(&path, 60, options).unwrap());
    (5..60).for_each(|page| put(&large, page, page as u8).unwrap());
    large.close().unwrap();
    let large = pool(FileStorage::open(&path, options).unwrap());
    (0..60).for_each(|page| assert_eq!(u64::from(get(&large, page).unwrap()), page));
    drop(large);
    std::fs::remove_file(&path).unwrap();
}

/// A label may say anything: sizes that no file can have are named, not computed with.
#[test]
fn labels_of_impossible_size_are_refused() {
    let path = scratch("label");
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    drop(FileStorage::create(&path, 5, options).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for pages in [u64::MAX, u64::MAX / PAGE_SIZE as u64, i64::MAX as u64 / PAGE_SIZE as u64] {
        let mut bytes = whole.clone();
        bytes[24..32].copy_from_slice(&pages.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Foreign { .. })));
        assert!(matches!(
            FileStorage::create(&path, pages, FileOptions { replace: true, ..options }),
            Err(StorageError::Open { .. })
        ));
    }
    for changed in [0, 15, 16] {
        let mut bytes = whole.clone();
        bytes[changed] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(FileStorage::open(&path, options), Err(StorageError::Foreign { .. })));
    }
    std::fs::remove_file(&path).unwrap();
}

/// A loop device over a file, detached when it is dropped.
struct LoopDevice {
    path: PathBuf,
    file: PathBuf,
}

impl LoopDevice {
    /// `None` where one may not attach devices.
    fn new(file: &std::path::Path) -> Option<Self> {
        let mut command = std::process::Command::new("losetup");
        let output = command.args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().into();
        let device = output.status.success().then(|| Self { path, file: file.into() })?;
        device.set_writable(true);
        Some(device)
    }

    /// Whether the kernel takes writes.
    fn set_writable(&self, writable: bool) {
        let option = if writable { "--setrw" } else { "--setro" };
        let mut command = std::process::Command::new("blockdev");
        // Shown where the next write does not do as expected.
        let _ = command.arg(option).arg(&self.path).status();
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // The device's number keeps that mark when it is detached, for the next user of that
        // number.
        self.set_writable(true);
        let _ = std::process::Command::new("losetup").arg("-d").arg(&self.path).output();
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn a_block_device_keeps_pages_and_is_refused_when_it_is_too_small() {
    let file = scratch("device");
    let sized = |pages: u64| {
        std::fs::File::create(&file).unwrap().set_len(pages * PAGE_SIZE as u64).unwrap();
        LoopDevice::new(&file)
    };
    let options = FileOptions { page_size: PAGE_SIZE, ..FileOptions::default() };
    let Some(device) = sized(101) else {
        println!("skipped: attaching a loop device needs root");
        let _ = std::fs::remove_file(&file);
        return;
    };
    let error = FileStorage::create(&device.path, 101, options).err().unwrap();
    assert!(matches!(error, StorageError::Open { .. }), "{error}");
    let storage = Arc::new(FileStorage::create(&device.path, 100, options).unwrap());
    assert!(matches!(FileStorage::open(&device.path, options), Err(StorageError::InUse { .. })));
    println!("{}: direct {}", device.path.display(), storage.is_direct());
    let pool =
        BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
    (0..100).for_each(|page| put(&pool, page, page as u8).unwrap());
    pool.close().unwrap();
    let storage = Arc::new(FileStorage::open(&device.path, options).unwrap());
    let pool =
        BufferPool::new(config(StrategyKind::Vanilla), storage, Arc::new(NoWal), None).unwrap();
    (0..100).for_each(|page| assert_eq!(u64::from(get(&pool, page).unwrap()), page));
    drop(pool);
    // A smaller page file in its place, which grows: nothing of the former one comes back.
    let replacing = FileOptions { replace: true, ..options };
    drop(FileStorage::create(&device.path, 10, replacing).unwrap());
    let storage = Arc::new(FileStorage::grow(&device.path, 90, options).unwrap());
    let pool =
        BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
    for page in 0..90 {
        assert!(matches!(get(&pool, page), Err(PoolError::NeverWritten { .. })), "{page}");
    }
    drop(pool);
    drop(FileStorage::grow(&device.path, 100, options).unwrap());
    // The label of a larger device on a smaller one.
    let mut label = vec![0; PAGE_SIZE];
    {
        use std::os::unix::fs::FileExt;
        std::fs::File::open(&device.path).unwrap().read_exact_at(&mut label, 0).unwrap();
        drop(device);
        let device = sized(50).unwrap();
        let plain = std::fs::OpenOptions::new().write(true).open(&device.path).unwrap();
        plain.write_all_at(&label, 0).unwrap();
        drop(plain);
        let error = FileStorage::open(&device.path, options).err().unwrap();
        assert!(matches!(error, StorageError::Short { .. }), "{error}");
    }
}

/// The kernel's own refusal of a write, by io_uring and by threads: a typed error, and nothing is
/// lost.
#[test]
fn a_device_that_refuses_writes_gets_them_later() {
    for async_io in [AsyncIo::Threads, AsyncIo::Auto] {
        let file = scratch("refuses");
        std::fs::File::create(&file).unwrap().set_len(501 * PAGE_SIZE as u64).unwrap();
        let Some(device) = LoopDevice::new(&file) else {
            println!("skipped: attaching a loop device needs root");
            let _ = std::fs::remove_file(&file);
            return;
        };
        let options = FileOptions { page_size: PAGE_SIZE, async_io, ..FileOptions::default() };
        let storage = Arc::new(FileStorage::create(&device.path, 500, options).unwrap());
        let pool =
            BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
        (0..20).for_each(|page| put(&pool, page, 1).unwrap());
        pool.flush_all().unwrap();
        device.set_writable(false);
        (0..20).for_each(|page| put(&pool, page, 2).unwrap());
        let error = pool.flush_all().unwrap_err();
        let refused =
            matches!(error, PoolError::Storage(StorageError::Io { operation: "write", .. }));
        assert!(refused, "{async_io:?}: {error:?}");
        (0..20).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 2));
        device.set_writable(true);
        pool.close().unwrap();
        let storage = Arc::new(FileStorage::open(&device.path, options).unwrap());
        let pool =
            BufferPool::new(config(StrategyKind::LRU_C), storage, Arc::new(NoWal), None).unwrap();
        (0..20).for_each(|page| assert_eq!(get(&pool, page).unwrap(), 2));
    }
}

/// A file system of a given size, unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where one may not mount.
    fn new(size: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("headworks-full-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let disk = Self(path);
        disk.mount(&format!("size={size}")).then_some(disk)
    }

    fn mount(&self, options: &str) -> bool {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "headworks-test"]).arg(&self.0);
        command.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Where the mount was refused there is only the directory.
        let _ = std::process::Command::new("umount").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// As above, with the kernel's own ENOSPC: the disk fills up, the pool keeps what has no room, and
/// writes it when the disk has grown.
#[test]
fn a_full_disk_takes_the_rest_when_it_has_room_again() {
    let Some(disk) = SmallDisk::new("256k") else {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    };
    for async_io in [AsyncIo::Threads, AsyncIo::Auto] {
        assert!(disk.mount("remount,size=256k"));
        let path = disk.0.join("data.pages");
        let options = FileOptions { page_size: PAGE_SIZE, async_io, ..FileOptions::default() };
        let storage = Arc::new(FileStorage::create(&path, 1000, options).unwrap());
        let config = config(StrategyKind::LRU_C);
        let pool = BufferPool::new(config, storage.clone(), Arc::new(NoWal), None).unwrap();
        let (mut accepted, mut retries) = (0, 0);
        let error = loop {
            match put(&pool, accepted, accepted as u8 + 1) {
                Ok(()) => accepted += 1,
                // On a busy machine the flusher may not have run for as long as a thread waits.
                Err(error) if !error.to_string().contains("no space left") && retries < 100 => {
                    retries += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("no space left"), "{error}");
        // 63 pages beside the label fit on the disk, 32 into the pool.
        assert!((63..=95).contains(&accepted), "{accepted} pages were accepted");
        let closed = pool.close().unwrap_err();
        assert!(matches!(closed.error, PoolError::Storage(StorageError::NoSpace { .. })));
        assert!(disk.mount("remount,size=16m"));
        closed.pool.close().unwrap();
        let pool = BufferPool::new(config, storage, Arc::new(NoWal), None).unwrap();
        for page in 0..accepted {
            assert_eq!(get(&pool, page).unwrap(), page as u8 + 1);
        }
        drop(pool);
        std::fs::remove_file(&path).unwrap();
    }
}
