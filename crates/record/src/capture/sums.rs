//! From the kernel's tables to lines of a recording.

use super::layout::{Edge, EdgeKey, Group, SocketKey, Traffic};
use crate::trace::{How, Socket, Thread, Unit, Wait};
use std::collections::{BTreeMap, HashMap};

/// Units of newborn threads that the kernel's side split by their names.
#[derive(Default)]
pub struct Splits {
    named: HashMap<(u32, Vec<u8>), u32>,
    /// Units whose threads get names, and the largest unit of these.
    pub nameless: HashMap<u32, u32>,
}

/// Of so many newborn threads one may still be without its name: those at the recording's end.
const UNNAMED: u64 = 8;

impl Splits {
    /// From what the kernel's side has.
    pub fn of(groups: &[(u32, Group)]) -> Splits {
        let mut splits = Splits::default();
        let mut largest: HashMap<u32, (u64, u32)> = HashMap::new();
        let mut all: HashMap<u32, u64> = HashMap::new();
        for (number, group) in groups.iter().filter(|(_, group)| group.parent > 0) {
            let name = group.name.iter().copied().take_while(|&byte| byte != 0).collect();
            splits.named.insert((group.parent, name), *number);
            let most = largest.entry(group.parent).or_default();
            *most = (*most).max((group.births, *number));
            *all.entry(group.parent).or_default() += group.births;
        }
        for (number, group) in groups {
            // Threads that were taken out of a unit before it was empty make it less than that.
            let left = u64::try_from(group.births as i64).unwrap_or(0);
            if let Some((_, most)) = largest.get(number).filter(|_| left * UNNAMED <= all[number]) {
                splits.nameless.insert(*number, *most);
            }
        }
        splits
    }

    /// The unit of a thread that was seen before it had its name. `None` if it has none yet, and
    /// the others of its unit have: of which stage it will be is not known.
    pub fn unit(&self, unit: u32, names: &[String]) -> Option<u32> {
        let digit = |byte: u8| if byte.is_ascii_digit() { b'#' } else { byte };
        let found = names.iter().rev().find_map(|name| {
            let name: Vec<u8> = name.bytes().map(digit).collect();
            self.named.get(&(unit, name))
        });
        found.copied().or((!self.nameless.contains_key(&unit)).then_some(unit))
    }
}

/// Adds to a unit what became a part of it.
pub fn add_unit(units: &mut BTreeMap<u32, Unit>, unit: Unit) {
    let Some(all) = units.get_mut(&unit.unit) else {
        units.insert(unit.unit, unit);
        return;
    };
    all.run_ns += unit.run_ns;
    all.queued_ns += unit.queued_ns;
    all.asleep_ns += unit.asleep_ns;
    all.sleeps += unit.sleeps;
    all.preempted += unit.preempted;
    all.births += unit.births;
    all.deaths += unit.deaths;
    all.dead_cpu_ns += unit.dead_cpu_ns;
    all.cache_misses += unit.cache_misses;
    all.named |= unit.named;
    all.lost += unit.lost;
    all.idle_wakes.0 += unit.idle_wakes.0;
    all.idle_wakes.1 += unit.idle_wakes.1;
    if all.name.is_empty() {
        all.name = unit.name;
    }
    for (sum, more) in all.bios.iter_mut().zip(unit.bios) {
        *sum += more;
    }
}

/// Gives units the time that their threads ran or slept across the borders of windows. The kernel's
/// side adds a run when it ends, so it misses those that a window's begin or end cuts: all of a
/// thread that never waits; and a sleep when that ends. What threads used in the whole recording,
/// times the part of it that was counted, is the least that they ran, if they did not sleep or wait
/// for a processor meanwhile.
pub fn add_cut_runs<'a>(
    units: &mut BTreeMap<u32, Unit>,
    threads: impl Iterator<Item = &'a Thread>,
    counted_part: f64,
    counted_ns: u64,
) {
    let mut used: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for thread in threads {
        let sum = used.entry(thread.unit).or_default();
        *sum = (sum.0 + thread.cpu_ns, sum.1 + counted_ns);
    }
    for (number, (cpu_ns, all_ns)) in used {
        if let Some(unit) = units.get_mut(&number) {
            let least = (cpu_ns as f64 * counted_part) as u64;
            let left = all_ns.saturating_sub(unit.queued_ns + unit.asleep_ns);
            unit.run_ns = unit.run_ns.max(least.min(left));
            // What is left is the last sleep of each, which has not ended.
            if unit.births + unit.deaths == 0 {
                unit.asleep_ns += left.saturating_sub(unit.run_ns);
            }
        }
    }
}

/// A line of the recording.
pub fn wait_of(key: &EdgeKey, edge: &Edge) -> Wait {
    Wait {
        waker: key.waker,
        wakee: key.wakee,
        object: key.object,
        sleep: key.sleep_nr,
        op: key.sleep_op,
        wake: key.wake_nr,
        how: match key.how {
            1 => How::Futex,
            2 => How::Ready,
            3 => How::Signal,
            4 => How::Exit,
            5 => How::Device,
            6 => How::Timer,
            _ => How::None,
        },
        all: key.all != 0,
        n: edge.n,
        off_ns: edge.off_ns,
        queued_ns: edge.queued_ns,
        max_ns: edge.max_ns,
        histogram: edge.histogram.to_vec(),
    }
}

/// Adds waits of the same kind.
pub fn add_wait(all: &mut Wait, wait: &Wait) {
    all.n += wait.n;
    all.off_ns += wait.off_ns;
    all.queued_ns += wait.queued_ns;
    all.max_ns = all.max_ns.max(wait.max_ns);
    for (sum, more) in all.histogram.iter_mut().zip(&wait.histogram) {
        *sum += more;
    }
}

/// A line of the recording.
pub fn socket_of(unit: u32, key: &SocketKey, traffic: &Traffic) -> Socket {
    let end = |address: u32, port: u16, number: u64| {
        if key.family == libc::AF_UNIX as u16 {
            return format!("unix:{number:x}");
        }
        let address = std::net::Ipv4Addr::from(u32::from_be(address));
        format!("{address}:{port}")
    };
    Socket {
        unit,
        sends: key.sends != 0,
        local: end(key.local, key.local_port, key.own),
        remote: end(key.remote, key.remote_port, key.peer),
        n: traffic.n,
        bytes: traffic.bytes,
        turns: traffic.turns,
        messages: messages(traffic),
        after: traffic.after,
        after_ns: traffic.after_ns,
    }
}

/// Messages by the sizes of transfers. A transfer counts if turns begin with its size. A size with
/// which no turn begins is that of bodies. Of large transfers only those that begin a turn count,
/// as a large message takes several calls.
fn messages(traffic: &Traffic) -> u64 {
    /// A size begins messages if it begins at least this part of its share of the turns.
    const PART: f64 = 0.25;
    /// From 8 KiB on, by the logarithm.
    const LARGE: usize = 13;
    let due = traffic.turns as f64 / traffic.n.max(1) as f64 * PART;
    let sizes = traffic.sizes.iter().zip(&traffic.starts).enumerate();
    let heads = sizes
        .filter(|(_, (n, starts))| **starts > 0 && f64::from(**starts) >= f64::from(**n) * due);
    heads.map(|(size, (n, starts))| u64::from(if size >= LARGE { *starts } else { *n })).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_no_message_and_answers_of_several_sizes_are() {
        let traffic = |transfers: &[(usize, u32, u32)]| {
            let mut traffic = Traffic::default();
            for &(size, n, starts) in transfers {
                (traffic.sizes[size], traffic.starts[size]) = (n, starts);
                traffic.n += u64::from(n);
                traffic.turns += u64::from(starts);
            }
            messages(&traffic)
        };
        // A head of 4 bytes and a body of 1 kB, four messages in a turn. A window cut a few.
        assert_eq!(traffic(&[(2, 4_000, 1_000), (10, 4_000, 5)]), 4_000);
        // Four answers in a turn, as large ones and small ones come.
        assert_eq!(traffic(&[(3, 2_000, 500), (10, 2_000, 500)]), 4_000);
        assert_eq!(traffic(&[(3, 7_000, 1_700), (10, 1_000, 300)]), 8_000);
        // One in a turn, in two parts.
        assert_eq!(traffic(&[(5, 900, 900), (12, 900, 0)]), 900);
        // One of a megabyte in a turn, in parts that have one size.
        assert_eq!(traffic(&[(15, 1_600, 100)]), 100);
        // Another thread reads the heads: no turn begins with a body.
        assert_eq!(traffic(&[(9, 500, 0)]), 0);
        assert_eq!(traffic(&[]), 0);
    }
    use crate::capture::layout::BORN_FIRST;

    fn group(births: u64, parent: u32, name: &[u8]) -> Group {
        let mut group = Group { births, parent, ..Group::default() };
        group.name[..name.len()].copy_from_slice(name);
        group
    }

    #[test]
    fn a_thread_that_never_leaves_its_processor_runs_all_the_time() {
        let mut units: BTreeMap<u32, Unit> = BTreeMap::new();
        for (unit, run_ns) in [(3, 60), (4, 1_000)] {
            units.insert(unit, Unit { unit, run_ns, ..Unit::default() });
        }
        // Half of the time was counted. Of the second unit's threads one has ended.
        let thread = |unit, cpu_ns| Thread { unit, cpu_ns, ..Thread::default() };
        let threads = [thread(3, 1_900), thread(3, 100), thread(4, 100), thread(5, 100)];
        add_cut_runs(&mut units, threads.iter(), 0.5, 1_000);
        assert_eq!((units[&3].run_ns, units[&4].run_ns, units.len()), (1_000, 1_000, 2));
        // Beside that it slept: times add up to no more than what was counted.
        let unit = Unit { unit: 3, run_ns: 60, asleep_ns: 1_900, ..Unit::default() };
        units.insert(3, unit);
        add_cut_runs(&mut units, threads.iter(), 0.5, 1_000);
        assert_eq!(units[&3].run_ns, 100);
    }

    #[test]
    fn a_thread_that_has_not_got_its_name_yet_is_of_no_stage() {
        let names = |name: &str| vec!["server".to_owned(), name.to_owned()];
        for (left, waits) in [(2, true), (30, false)] {
            let groups = [
                (BORN_FIRST, group(left, 0, b"")),
                (BORN_FIRST + 1, group(40, BORN_FIRST, b"reads-#")),
                (BORN_FIRST + 2, group(60, BORN_FIRST, b"writes-#")),
                (BORN_FIRST + 3, group(5, 0, b"")),
            ];
            let splits = Splits::of(&groups);
            assert_eq!(splits.unit(BORN_FIRST, &names("reads-7")), Some(BORN_FIRST + 1));
            let unnamed = splits.unit(BORN_FIRST, &names("server"));
            assert_eq!(unnamed, (!waits).then_some(BORN_FIRST), "{left}");
            let part_of = splits.nameless.get(&BORN_FIRST).copied();
            assert_eq!(part_of, waits.then_some(BORN_FIRST + 2), "{left}");
            assert_eq!(splits.unit(BORN_FIRST + 3, &names("server")), Some(BORN_FIRST + 3));
        }
    }
}
