//! The queue against a stand-in for the kernel: it copies data as the driver does, and gives a tag's
//! next request only when its last one was answered.

use super::abi::{
    IO_FUA, IO_NO_UNMAP, IoDescriptor, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES,
};
use super::control::Control;
use super::queue::{Event, Kernel, Outbox, Queue};
use super::request::TRANSFER_BYTES_MAX;
use super::{Unavailable, list, look};
use crate::VolumeConfig;
use crate::engine::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A request, and the data of a write.
struct Scripted {
    operation: u8,
    flags: u32,
    sector: u64,
    sectors: u32,
    data: Vec<u8>,
}

fn script(operation: u8, flags: u32, sector: u64, sectors: u32) -> Scripted {
    Scripted { operation, flags, sector, sectors, data: Vec::new() }
}

fn write(flags: u32, sector: u64, data: Vec<u8>) -> Scripted {
    let sectors = u32::try_from(data.len() / 512).unwrap();
    Scripted { data, ..script(OP_WRITE, flags, sector, sectors) }
}

/// What a request was answered: the code, and the data of a read.
type Answers = Arc<Mutex<Vec<(i32, Vec<u8>)>>>;

struct StandIn {
    outbox: Arc<Outbox>,
    waiting: VecDeque<Scripted>,
    /// Tags that were fetched and have no request: the address of each one's buffer.
    idle: BTreeMap<u16, u64>,
    running: BTreeMap<u16, (IoDescriptor, Scripted)>,
    answers: Answers,
    /// One request after the other, so that answers stand in the order of requests.
    one_by_one: bool,
}

impl Kernel for StandIn {
    fn fetch(&mut self, tag: u16, address: u64) -> io::Result<()> {
        assert_ne!(address, 0);
        assert!(self.idle.insert(tag, address).is_none(), "tag {tag} is fetched twice");
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32, address: u64) -> io::Result<()> {
        let (_, asked) = self.running.remove(&tag).expect("an answer to a request");
        let mut data = Vec::new();
        if asked.operation == OP_READ && result > 0 {
            let len = usize::try_from(result).unwrap();
            // SAFETY: the queue gave this address of a buffer of the longest transfer.
            data = unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec();
        }
        self.answers.lock().unwrap().push((result, data));
        self.fetch(tag, address)
    }

    fn descriptor(&self, tag: u16) -> IoDescriptor {
        self.running[&tag].0
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        while let Some((tag, addr)) = self.idle.pop_first() {
            let may_run = self.running.is_empty() || !self.one_by_one;
            let Some(asked) = may_run.then(|| self.waiting.pop_front()).flatten() else {
                self.idle.insert(tag, addr);
                break;
            };
            let descriptor = IoDescriptor {
                op_flags: u32::from(asked.operation) | asked.flags,
                nr_sectors: asked.sectors,
                start_sector: asked.sector,
                addr,
            };
            assert!(asked.data.len() <= TRANSFER_BYTES_MAX as usize);
            // SAFETY: as above, and the queue does not touch it before it hears of the request.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    asked.data.as_ptr(),
                    addr as *mut u8,
                    asked.data.len(),
                );
            }
            self.running.insert(tag, (descriptor, asked));
            events.push(Event::Request(tag));
        }
        if !events.is_empty() {
            return Ok(());
        }
        if self.running.is_empty() {
            // Nothing is left to do: the device stops.
            events.extend(self.idle.keys().copied().map(Event::Ended));
            return Ok(());
        }
        let mut fds = [PollFd::new(&self.outbox.event, PollFlags::IN)];
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1, "an answer wakes the queue");
        rustix::io::read(&self.outbox.event, &mut [0; 8]).unwrap();
        events.push(Event::Woken);
        Ok(())
    }
}

fn run(
    engine: &Arc<Engine>,
    depth: u16,
    one_by_one: bool,
    script: Vec<Scripted>,
) -> Vec<(i32, Vec<u8>)> {
    let outbox = Outbox::new().unwrap();
    let answers = Answers::default();
    let kernel = StandIn {
        outbox: Arc::clone(&outbox),
        waiting: script.into(),
        idle: BTreeMap::new(),
        running: BTreeMap::new(),
        answers: Arc::clone(&answers),
        one_by_one,
    };
    let mut queue = Queue::start(kernel, Arc::clone(engine), outbox, depth).unwrap();
    queue.run().unwrap();
    drop(queue);
    Arc::into_inner(answers).unwrap().into_inner().unwrap()
}

/// Without and with a queue of the engine: answered at once, and by its threads.
fn engines(layers: &[&str]) -> Vec<Arc<Engine>> {
    ["noop", "deadline"]
        .map(|scheduler| {
            let mut config = VolumeConfig::new(1 << 20, "memory");
            config.scheduler = scheduler.to_owned();
            config.layers = layers.iter().map(|layer| (*layer).to_owned()).collect();
            config.start().unwrap().engine
        })
        .to_vec()
}

#[test]
fn every_kind_of_request_is_done_and_answered() {
    for engine in engines(&[]) {
        let (ones, twos) = (vec![1; 8192], vec![2; 4096]);
        let answers = run(
            &engine,
            2,
            true,
            vec![
                write(0, 8, ones.clone()),
                write(IO_FUA, 24, twos.clone()),
                script(OP_READ, 0, 8, 24),
                script(OP_FLUSH, 0, 0, 0),
                script(OP_WRITE_ZEROES, IO_NO_UNMAP, 8, 8),
                script(OP_DISCARD, 0, 1024, 512),
                script(OP_READ, 0, 0, 24),
                script(OP_WRITE_ZEROES, 0, 16, 8),
                script(OP_READ, 0, 16, 16),
                script(OP_READ, 0, 2040, 16),
                script(4, 0, 0, 8),
            ],
        );
        let told: Vec<i32> = answers.iter().map(|(result, _)| *result).collect();
        let refused = [-libc::EINVAL, -libc::EOPNOTSUPP];
        assert_eq!(told[..9], [8192, 4096, 12288, 0, 0, 0, 12288, 0, 8192]);
        assert_eq!(told[9..], refused);
        assert!(answers[2].1 == [ones, twos.clone()].concat());
        assert!(answers[6].1 == [vec![0; 8192], vec![1; 4096]].concat());
        assert!(answers[8].1 == [vec![0; 4096], twos].concat());
        let counts = engine.counts();
        assert_eq!((counts.flush.requests, counts.discard.requests), (1, 1));
        assert_eq!((counts.write.requests, counts.write_zeroes.requests), (2, 2));
    }
}

#[test]
fn many_requests_at_a_time_keep_their_data_apart() {
    let sectors = TRANSFER_BYTES_MAX / 512 / 64;
    let block = |n: u8| vec![n; sectors as usize * 512];
    for engine in engines(&[]) {
        let at = |n: u8| u64::from(n) * u64::from(sectors);
        let writes = (0..100).map(|n| write(0, at(n), block(n))).collect();
        assert!(run(&engine, 16, false, writes).iter().all(|(told, _)| *told > 0));
        // Lengths differ, so that buffers are used for shorter and longer ones in turn.
        let reads = (0..100).map(|n| script(OP_READ, 0, at(n), 1 + u32::from(n) % sectors));
        let mut seen = [false; 100];
        for (told, data) in run(&engine, 16, false, reads.collect()) {
            let n = data[0];
            assert_eq!(told, 512 * (1 + i32::from(n) % i32::try_from(sectors).unwrap()));
            assert!(data.iter().all(|byte| *byte == n));
            assert!(!std::mem::replace(&mut seen[usize::from(n)], true));
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}

#[test]
fn what_fails_is_told_and_its_tag_serves_on() {
    for engine in engines(&["error:op=write,kind=enospc,count=3"]) {
        let writes = (0..5).map(|n| write(0, n * 8, vec![7; 4096])).collect();
        let told: Vec<i32> = run(&engine, 1, true, writes).into_iter().map(|it| it.0).collect();
        assert_eq!(told, [-libc::ENOSPC, -libc::ENOSPC, -libc::ENOSPC, 4096, 4096]);
    }
}

#[test]
fn a_queue_ends_when_the_kernel_refuses() {
    struct Refuses;
    impl Kernel for Refuses {
        fn fetch(&mut self, _: u16, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn commit(&mut self, _: u16, _: i32, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn descriptor(&self, _: u16) -> IoDescriptor {
            IoDescriptor::default()
        }
        fn submit(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
            events.push(Event::Refused(0, libc::EINVAL));
            Ok(())
        }
    }
    let engine = engines(&[]).remove(0);
    let mut queue = Queue::start(Refuses, engine, Outbox::new().unwrap(), 1).unwrap();
    assert_eq!(queue.run().unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn absence_is_told_with_what_would_give_it() {
    let missing = Control::open_at(Path::new("/nonexistent/ublk-control")).err().unwrap();
    assert!(matches!(missing, Unavailable::Missing));
    let said = missing.to_string();
    assert!(said.contains("modprobe ublk_drv") && said.contains("6.0 or later"), "{said}");
    assert!(!missing.reason().contains('\n'));
    if Path::new(super::control::NODE).exists() {
        return println!("skipped: this machine has ublk");
    }
    assert!(matches!(look(), Err(Unavailable::Missing)));
    assert!(list().is_empty());
}

/// A node that is no ublk driver refuses every command, in either encoding, and says so.
#[test]
fn what_is_no_driver_refuses_commands() {
    match Control::open_at(Path::new("/dev/zero")) {
        Ok(mut control) => {
            let refused = control.info(0).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP), "{refused}");
        }
        Err(Unavailable::Ring(error)) => println!("skipped: no io_uring here: {error}"),
        Err(other) => panic!("{other}"),
    }
}
