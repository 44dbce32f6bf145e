//! The kernel's side: loaded, switched on for windows, read at the end.
//!
//! Everything hangs on this process's descriptors. If it is killed, the kernel removes programs,
//! maps and links.

use super::budget::Budget;
use super::layout::{
    BORN_FIRST, CallKey, Control, Edge, EdgeKey, Event, Group, LOSSES, SocketKey, Traffic, UNITS,
};
use anyhow::{Context, Result, anyhow, bail};
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::uprobe::{UProbeLinkId, UProbeScope};
use aya::programs::{BtfTracePoint, Program, UProbe};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/recorder.bpf.o");

/// Time that the kernel needs to enter a program, which its statistics leave out. Measured by
/// ping-pong on one processor: 0.10 to 0.15 us.
const ENTRY_NS: u64 = 120;
/// The same of a probe in a program: it traps into the kernel twice.
const PROBE_NS: u64 = 1_500;
/// The probe of calls that take a lock, and the function of the C library.
const LOCKED: &str = "locked";
pub const LOCK_FUNCTION: &str = "pthread_mutex_lock";

/// Programs and their events: those of windows, which cost something at each switch.
const WINDOWED: [(&str, &str); 6] = [
    ("waking", "sched_waking"),
    ("switched", "sched_switch"),
    ("sent", "sock_send_length"),
    ("received", "sock_recv_length"),
    ("queued", "block_bio_queue"),
    ("missed", "mm_filemap_add_to_page_cache"),
];
/// And those of rare events, which stay.
const LASTING: [(&str, &str); 2] = [("created", "task_newtask"), ("ended", "sched_process_exit")];

/// See the module.
pub struct Kernel {
    ebpf: Ebpf,
    settings: Array<MapData, Control>,
    processes: HashMap<MapData, u32, u32>,
    served: HashMap<MapData, u16, u8>,
    members: HashMap<MapData, u32, u32>,
    ring: RingBuf<MapData>,
    events: RingBuf<MapData>,
    links: Vec<(&'static str, BtfTracePointLinkId)>,
    /// How long attaching took the last time.
    attach_took: Duration,
    /// Attaching and detaching, all together.
    pub attaching: Duration,
    /// Context switches while windows were open.
    pub switches: u64,
    /// Those until the window was opened.
    switches_before: u64,
    /// Events of windows that this kernel has.
    windowed: Vec<&'static str>,
    /// Those that it lacks.
    pub lacking: Vec<&'static str>,
    _statistics: Option<OwnedFd>,
}

/// What the programs took until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Runs of all programs.
    pub runs: u64,
    /// Runs of the program at context switches.
    pub switches: u64,
    /// Their time and their entries.
    pub ns: u64,
}

impl Kernel {
    /// Loads the programs; no event is counted yet.
    pub fn load() -> Result<Kernel> {
        initial_namespace()?;
        let btf = Btf::from_sys_fs()
            .context("the kernel does not describe its types (/sys/kernel/btf/vmlinux)")?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .allow_unsupported_maps()
            .load(OBJECT)
            .context("the kernel refuses eBPF: it takes root, or CAP_BPF and CAP_PERFMON")?;
        let (mut windowed, mut lacking) = (Vec::new(), Vec::new());
        for (name, event) in WINDOWED.into_iter().chain(LASTING) {
            let program: &mut BtfTracePoint =
                ebpf.program_mut(name).ok_or_else(|| anyhow!("no program {name}"))?.try_into()?;
            match program.load(event, &btf) {
                Ok(()) if WINDOWED.iter().any(|(known, _)| *known == name) => windowed.push(name),
                Ok(()) => {}
                Err(error) if matches!(name, "waking" | "switched") => {
                    return Err(error).with_context(|| format!("the kernel refuses {event}"));
                }
                Err(_) => lacking.push(event),
            }
        }
        let settings = Array::try_from(take(&mut ebpf, "settings")?)?;
        let processes = HashMap::try_from(take(&mut ebpf, "processes")?)?;
        let served = HashMap::try_from(take(&mut ebpf, "served")?)?;
        let members = HashMap::try_from(take(&mut ebpf, "members")?)?;
        let ring = RingBuf::try_from(take(&mut ebpf, "stacks")?)?;
        let events = RingBuf::try_from(take(&mut ebpf, "events")?)?;
        let statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime).ok();
        Ok(Kernel {
            ebpf,
            settings,
            processes,
            served,
            members,
            ring,
            events,
            links: Vec::new(),
            attach_took: Duration::ZERO,
            attaching: Duration::ZERO,
            switches: 0,
            switches_before: 0,
            windowed,
            lacking,
            _statistics: statistics,
        })
    }

    /// Begins to note births and ends of threads.
    pub fn begin(&mut self, follow: bool, events: bool, start_offset: u32) -> Result<()> {
        self.change(|control| {
            control.follow = u32::from(follow);
            control.events = u32::from(events);
            control.start_offset = start_offset;
        })?;
        for (name, event) in LASTING {
            if !self.lacking.contains(&event) {
                self.program(name)?.attach()?;
            }
        }
        Ok(())
    }

    fn program(&mut self, name: &str) -> Result<&mut BtfTracePoint> {
        let program = self.ebpf.program_mut(name).ok_or_else(|| anyhow!("no program {name}"))?;
        Ok(program.try_into()?)
    }

    /// Opens a window: events count from the time that is returned. `stacks` are copied for each
    /// unit and object.
    pub fn open(&mut self, stacks: u32) -> Result<Instant> {
        self.change(|control| {
            control.epoch += 1;
            control.stacks = stacks;
        })?;
        let begun = Instant::now();
        if self.links.len() < self.windowed.len() {
            while let Some(&name) = self.windowed.get(self.links.len()) {
                let link = self.program(name)?.attach()?;
                self.links.push((name, link));
            }
            self.attach_took = begun.elapsed();
            self.attaching += self.attach_took;
        }
        self.switches_before = self.cost().switches;
        // This thread may lose its processor here: the kernel's side counts from the same time.
        let mut opened = begun;
        self.change(|control| {
            (control.opened, opened) = (monotonic_ns(), Instant::now());
            control.counted = control.counted.max(1);
            control.on = 1;
        })?;
        Ok(opened)
    }

    /// Closes the window at the time that is returned.
    pub fn close(&mut self) -> Result<Instant> {
        // No event is counted any more when the time is taken.
        self.change(|control| control.on = 0)?;
        let mut closed = Instant::now();
        self.change(|control| {
            // By this clock a sleep goes on in the next window.
            control.counted += monotonic_ns().saturating_sub(control.opened);
            closed = Instant::now();
        })?;
        self.switches += self.cost().switches.saturating_sub(self.switches_before);
        Ok(closed)
    }

    /// Detaches the programs for a pause of this length, if that is worth it.
    pub fn rest(&mut self, pause: Duration) -> Result<()> {
        if Budget::detaches(pause, self.attach_took) {
            let begun = Instant::now();
            for (name, link) in std::mem::take(&mut self.links) {
                self.program(name)?.detach(link)?;
            }
            self.attaching += begun.elapsed();
        }
        Ok(())
    }

    /// Changes the settings, which the kernel's side only reads.
    fn change(&mut self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut control = self.settings.get(&0, 0)?;
        change(&mut control);
        self.settings.set(0, control, 0)?;
        Ok(())
    }

    /// Records a process.
    pub fn watch(&mut self, pid: u32) -> Result<()> {
        self.processes.insert(pid, 1, 0).context("too many processes")
    }

    /// A recorded process listens on this port.
    pub fn serve(&mut self, port: u16) {
        // Without room, the smaller port of a connection is taken for its server's.
        let _ = self.served.insert(port, 1, 0);
    }

    /// Records a process that ended no longer: its number may come again.
    pub fn forget(&mut self, pid: u32) {
        // One that is not there is forgotten already.
        let _ = self.processes.remove(&pid);
    }

    /// Processes that are recorded, children included.
    pub fn watched(&self) -> Vec<u32> {
        self.processes.keys().flatten().collect()
    }

    /// Puts a thread into a unit.
    pub fn put(&mut self, tid: u32, unit: u32) -> Result<()> {
        self.members.insert(tid, unit, 0).context("too many threads")
    }

    /// The unit of a thread.
    pub fn unit(&self, tid: u32) -> Option<u32> {
        self.members.get(&tid, 0).ok()
    }

    /// Makes the kernel's side look up units again.
    pub fn regroup(&mut self) -> Result<()> {
        self.change(|control| control.generation += 1)
    }

    /// Stacks that were copied since the last call.
    pub fn stacks(&mut self, mut each: impl FnMut(&[u8])) {
        while let Some(item) = self.ring.next() {
            each(&item);
        }
    }

    /// Entries of the time line since the last call, as many as are taken in one go: a system that
    /// makes them faster than they are written would else never let go. What then finds no room is
    /// counted.
    pub fn events(&mut self, mut each: impl FnMut(Event)) {
        const AT_ONCE: usize = 20_000;
        for _ in 0..AT_ONCE {
            let Some(item) = self.events.next() else { break };
            if let Some(event) = Event::of(&item) {
                each(event);
            }
        }
    }

    /// Makes no more entries of the time line.
    pub fn without_events(&mut self) -> Result<()> {
        self.change(|control| control.events = 0)
    }

    /// Processes that are not recorded and send to those that are.
    pub fn peers(&self) -> Result<Vec<u32>> {
        Ok(self.table::<u32, u64>("peers")?.into_iter().map(|(pid, _)| pid).collect())
    }

    /// What the programs took until now.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        for (name, program) in self.ebpf.programs() {
            let Ok(info) = program_info(program) else { continue };
            let runs = info.run_count();
            cost.runs += runs;
            let entry = if name == LOCKED { PROBE_NS } else { ENTRY_NS };
            cost.ns += info.run_time().as_nanos() as u64 + runs * entry;
            if name == "switched" {
                cost.switches += runs;
            }
        }
        cost
    }

    /// Probes a process's calls that take a lock, until [`Kernel::leave_locks`]. `library` is its C
    /// library.
    pub fn look_at_locks(&mut self, pid: NonZeroU32, library: &Path) -> Result<UProbeLinkId> {
        let program = self.ebpf.program_mut(LOCKED).ok_or_else(|| anyhow!("no program"))?;
        let program: &mut UProbe = program.try_into()?;
        if program.fd().is_err() {
            program.load().context("the kernel refuses probes of programs")?;
        }
        let scope = UProbeScope::OneProcess(pid);
        program
            .attach(LOCK_FUNCTION, library, scope)
            .with_context(|| format!("no probe of {LOCK_FUNCTION} in {}", library.display()))
    }

    /// Takes a probe out of the process again.
    pub fn leave_locks(&mut self, link: UProbeLinkId) -> Result<()> {
        let program = self.ebpf.program_mut(LOCKED).ok_or_else(|| anyhow!("no program"))?;
        let program: &mut UProbe = program.try_into()?;
        Ok(program.detach(link)?)
    }

    /// Calls that took a lock, by unit and lock.
    pub fn calls(&self) -> Result<Vec<(CallKey, u64)>> {
        self.table("calls")
    }

    /// All waits.
    pub fn edges(&self) -> Result<Vec<(EdgeKey, Edge)>> {
        self.table("edges")
    }

    /// All transfers: of connections, and of those for which there was no room, together.
    pub fn sockets(&self) -> Result<[Vec<(SocketKey, Traffic)>; 2]> {
        Ok([self.table("sockets")?, self.table("crowds")?])
    }

    fn table<K: aya::Pod, V: aya::Pod>(&self, name: &str) -> Result<Vec<(K, V)>> {
        let map = self.ebpf.map(name).ok_or_else(|| anyhow!("no table {name}"))?;
        let map: HashMap<_, K, V> = HashMap::try_from(map)?;
        Ok(map.iter().flatten().collect())
    }

    /// Units with anything in them.
    pub fn groups(&self) -> Result<Vec<(u32, Group)>> {
        let map = self.ebpf.map("groups").ok_or_else(|| anyhow!("no table"))?;
        let map: Array<_, Group> = Array::try_from(map)?;
        Ok((0..UNITS)
            .filter_map(|unit| Some((unit, map.get(&unit, 0).ok()?)))
            .filter(|(_, group)| [group.voluntary, group.involuntary, group.births] != [0; 3])
            .collect())
    }

    /// Time for which threads of a unit ran or were ready.
    pub fn busy_ns(&self, unit: u32) -> u64 {
        let map = self.ebpf.map("groups").and_then(|map| Array::<_, Group>::try_from(map).ok());
        let group = map.and_then(|map| map.get(&unit, 0).ok());
        group.map_or(0, |group| group.run_ns + group.queued_ns)
    }

    /// Units of threads that were born.
    pub fn born(&self) -> std::ops::Range<u32> {
        let map = self.ebpf.map("born_count").and_then(|map| Array::<_, u64>::try_from(map).ok());
        let count = map.and_then(|map| map.get(&0, 0).ok()).unwrap_or(0);
        BORN_FIRST..UNITS.min(BORN_FIRST + count.min(u64::from(UNITS)) as u32)
    }

    /// Losses by kind, those that happened.
    pub fn losses(&self) -> Result<Vec<(&'static str, u64)>> {
        let map = self.ebpf.map("losses").ok_or_else(|| anyhow!("no table"))?;
        let map: Array<_, u64> = Array::try_from(map)?;
        let counts = LOSSES.iter().zip(0u32..);
        Ok(counts
            .filter_map(|(what, at)| Some((*what, map.get(&at, 0).ok()?)))
            .filter(|(_, n)| *n > 0)
            .collect())
    }
}

/// The clock of `bpf_ktime_get_ns`.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn take(ebpf: &mut Ebpf, name: &str) -> Result<aya::maps::Map> {
    ebpf.take_map(name).ok_or_else(|| anyhow!("no table {name}"))
}

fn program_info(program: &Program) -> Result<aya::programs::ProgramInfo> {
    Ok(program.info()?)
}

/// The kernel counts processes by the numbers of the initial namespace.
fn initial_namespace() -> Result<()> {
    /// Number of the initial PID namespace, in the kernel's interface since 3.8.
    const INITIAL: &str = "pid:[4026531836]";
    let own = std::fs::read_link("/proc/self/ns/pid").context("no /proc")?;
    if own.as_os_str() != INITIAL {
        bail!("this is a container with its own process numbers; record from the machine itself");
    }
    Ok(())
}
