//! What passes between processes: requests from the side that connected, answers back.

use super::stages::Stages;
use super::waits::{Kind, Links};
use crate::trace::{Socket, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// How quickly requests follow one another on the connections of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// From a request to its answer: number and sum.
    pub answers: (u64, u64),
    /// From an answer to the next request.
    pub thinks: (u64, u64),
}

impl Pace {
    /// Mean time of an answer.
    pub fn answer_ns(&self) -> Option<u64> {
        self.answers.1.checked_div(self.answers.0)
    }

    /// Mean time from an answer to the next request.
    pub fn think_ns(&self) -> Option<u64> {
        self.thinks.1.checked_div(self.thinks.0)
    }
}

/// Transfers, and the messages that they make up: a message may be sent or read in several parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Transfers: how often something was seen.
    pub calls: u64,
    /// Messages.
    pub messages: u64,
}

impl Sent {
    fn add(&mut self, other: Sent) {
        self.calls += other.calls;
        self.messages += other.messages;
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// From a stage that connected to a stage that accepted.
    pub passed: BTreeMap<(usize, usize), Sent>,
    /// And back: who receives them, and who sent.
    pub answers: BTreeMap<(usize, usize), Sent>,
    /// Stages that receive from clients that are not recorded, with the messages.
    pub requests: Vec<(usize, u64)>,
    /// Stages that answer these clients.
    pub replies: BTreeMap<usize, Sent>,
    /// Connections of clients by stage.
    pub clients: BTreeMap<usize, usize>,
    /// Stages whose clients have several requests of a connection under way.
    pub several: BTreeSet<usize>,
    /// Stages that use a server that is not recorded: its port and messages.
    pub servers: BTreeMap<(usize, String), u64>,
    /// Times between transfers on the connections of clients.
    pub paces: BTreeMap<usize, Pace>,
    /// Answers of servers that are not recorded, by stage that asked: number and time.
    pub asked: BTreeMap<usize, (u64, u64)>,
    /// Messages that were sent on the connections of clients, by the stage that reads these.
    pub answered: BTreeMap<usize, u64>,
    /// Stages of which several threads read one connection: none has one to itself.
    pub roaming: BTreeSet<usize>,
    /// Clients that waited on average until they were accepted.
    pub backlog: BTreeMap<usize, f64>,
    /// Who reads the requests that others wait for.
    pub readers: BTreeMap<usize, usize>,
    /// Stages that send by sockets.
    pub sends: BTreeSet<usize>,
    /// Bytes by stage: all, and those to and from what is not recorded.
    pub bytes: Vec<(u64, u64)>,
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    senders: BTreeMap<usize, Sent>,
    receivers: BTreeMap<usize, u64>,
    turns: u64,
    /// Turns, and messages by their sizes, of what was sent and of what was read.
    by_size: [(u64, u64); 2],
    /// Several requests are under way.
    several: bool,
    pace: Pace,
    /// Bytes that were read, and sent.
    bytes: [u64; 2],
}

/// Several requests of a connection are under way at a time if both sides transfer so many more
/// messages than they take turns.
const SEVERAL: f64 = 1.1;

/// So many connections, with a request or two each, are more than clients are at a time.
const SHORT_MIN: usize = 50;

impl Way {
    /// Transfers of a stage. `told` is whether the recording tells which sends begin a message.
    fn add(&mut self, stage: usize, socket: &Socket, told: bool) {
        let size = &mut self.by_size[usize::from(socket.sends)];
        *size = (size.0 + socket.turns, size.1 + socket.messages);
        self.bytes[usize::from(socket.sends)] += socket.bytes;
        let times = if socket.sends { &mut self.pace.answers } else { &mut self.pace.thinks };
        times.0 += socket.after;
        times.1 += socket.after_ns;
        if socket.sends {
            let messages = if told { socket.turns } else { socket.n };
            self.senders.entry(stage).or_default().add(Sent { calls: socket.n, messages });
        } else {
            self.turns += socket.turns;
            *self.receivers.entry(stage).or_default() += socket.n;
        }
    }

    /// Whether the other end read about what this one sent, and sent what this one read. Else the
    /// kernel used addresses of Unix sockets again, and both are ends of servers.
    fn is_peer(&self, other: &Way) -> bool {
        let near = |a: u64, b: u64| a <= 2 * b && b <= 2 * a;
        near(self.bytes[0], other.bytes[1]) && near(self.bytes[1], other.bytes[0])
    }

    fn may_have_several(&self) -> bool {
        let more = |(turns, messages): (u64, u64)| messages as f64 > SEVERAL * turns as f64;
        self.by_size.into_iter().all(more)
    }

    /// The stage that reads most.
    fn reader(&self) -> Option<usize> {
        self.receivers.iter().max_by_key(|(_, n)| **n).map(|(&stage, _)| stage)
    }

    /// Whether several transfers of a turn are the parts of one message. The parts of each request
    /// and of each answer are as many as those of others. `turns` and `handed` are those of the
    /// stage that reads: one that hands over to none handles one request after the other, and one
    /// that hands over more often than turns begin has several. So has a connection on which
    /// several threads answer in a turn.
    fn in_parts(&self, turns: u64, handed: u64) -> bool {
        /// A window cuts some.
        const WHOLE: f64 = 0.03;
        let whole = |(turns, messages): (u64, u64)| {
            let each = messages as f64 / turns.max(1) as f64;
            (each - each.round()).abs() <= WHOLE * each
        };
        let more = |n: u64, of: u64| n as f64 > SEVERAL * of as f64;
        let alone = self.senders.keys().all(|stage| self.receivers.contains_key(stage))
            && handed * 10 < turns;
        let answered: u64 = self.by_size[1].0;
        !more(handed, turns)
            && !more(answered, self.turns)
            && (alone || self.by_size.into_iter().all(whole))
    }

    /// Where several requests are under way, a turn has several messages. One call may read several
    /// of them, or send them: the side that has more is nearer to the truth.
    fn count_several(&mut self) {
        let messages = self.by_size.map(|(_, messages)| messages).into_iter().max().unwrap_or(0);
        let turns: u64 = self.senders.values().map(|sent| sent.messages).sum();
        for sent in self.senders.values_mut() {
            sent.messages = (sent.messages * messages).checked_div(turns).unwrap_or(0);
        }
        self.turns = messages;
    }

    /// What was sent, by stage. Where nothing ever comes back, no send is known to be a part.
    fn sent(&self) -> impl Iterator<Item = (usize, Sent)> {
        let stream = self.receivers.is_empty();
        self.senders.iter().map(move |(&stage, &sent)| {
            (stage, if stream { Sent { messages: sent.calls, ..sent } } else { sent })
        })
    }

    /// What was read, by stage: each message once, although several calls may read it.
    fn read(&self) -> impl Iterator<Item = (usize, Sent)> {
        let all: u64 = self.receivers.values().sum();
        self.receivers.iter().map(move |(&stage, &calls)| {
            let messages = (self.turns * calls).checked_div(all).unwrap_or(0);
            (stage, Sent { calls, messages })
        })
    }
}

/// From transfers to links.
pub fn links(trace: &Trace, stages: &Stages, wakes: &Links) -> Sockets {
    let listening = listening(trace, stages);
    let mut found = Sockets { bytes: vec![(0, 0); stages.stages.len()], ..Sockets::default() };
    // Older recordings do not tell which sends begin a message.
    let told = trace.sockets.iter().any(|socket| socket.sends && socket.turns > 0);
    let ends: BTreeSet<(&str, &str)> =
        trace.sockets.iter().map(|each| (each.local.as_str(), each.remote.as_str())).collect();
    // The key is the end at which the stage is: local, then remote. The kernel uses the addresses
    // of Unix sockets again: what one connection accepted, another may have connected.
    let mut own: BTreeMap<(&str, &str, bool), Way> = BTreeMap::new();
    for socket in &trace.sockets {
        let Some(&stage) = stages.of.get(&socket.unit) else { continue };
        let peer = ends.contains(&(socket.remote.as_str(), socket.local.as_str()));
        if socket.sends {
            found.sends.insert(stage);
        }
        found.bytes[stage].0 += socket.bytes;
        found.bytes[stage].1 += if peer { 0 } else { socket.bytes };
        let accepted = accepted(socket, stages.stages[stage].place, &listening);
        let way = own.entry((&socket.local, &socket.remote, accepted)).or_default();
        way.add(stage, socket, told);
    }
    several(&mut own, wakes);
    let mut by_unix: BTreeMap<usize, usize> = BTreeMap::new();
    for (&(local, remote, accepted), way) in &own {
        let others = [!accepted, accepted].map(|accepted| (remote, local, accepted));
        let mut peers = others.into_iter().filter_map(|key| Some((key.2, own.get(&key)?)));
        let known = |(by_accept, peer): &(bool, &Way)| {
            // What was counted together has one end for all.
            let unix = local.starts_with("unix:");
            local != remote && (!unix || *by_accept != accepted || way.is_peer(peer))
        };
        match peers.find(known) {
            Some((peer_accepted, peer)) if !accepted || peer_accepted => {
                between(&mut found, way, peer);
            }
            Some(_) => {}
            None if accepted => {
                outside(&mut found, way);
                if local.starts_with("unix:") {
                    for &stage in way.receivers.keys() {
                        *by_unix.entry(stage).or_default() += 1;
                    }
                }
            }
            None => asks(&mut found, way, remote),
        }
    }
    found.requests.sort_by_key(|(stage, n)| (std::cmp::Reverse(*n), *stage));
    found.roaming = roaming(trace, stages);
    at_a_time(trace, stages, &by_unix, &mut found);
    found
}

/// Connections that come and go: as many clients as were open at a time. `by_unix` has those by
/// Unix sockets.
fn at_a_time(
    trace: &Trace,
    stages: &Stages,
    by_unix: &BTreeMap<usize, usize>,
    found: &mut Sockets,
) {
    for (stage, clients) in &mut found.clients {
        let place = Some(&stages.stages[*stage].place);
        let own = || trace.processes.iter().filter(|(pid, _)| stages.place_of.get(pid) == place);
        let counts = own().map(|(_, process)| (process.open, process.open_unix));
        let (open, open_unix) =
            counts.fold((0, 0), |most, each| (most.0.max(each.0), most.1.max(each.1)));
        let by_unix = by_unix.get(stage).copied().unwrap_or(0);
        // One that is there for a request alone may be open at no look.
        let n = found.requests.iter().find(|(at, _)| at == stage).map_or(0, |(_, n)| *n);
        let short = *clients > SHORT_MIN && n <= 2 * *clients as u64;
        let at_a_time = |seen: usize, open: usize| match open {
            0 if short => seen.min(1),
            0 => seen,
            _ => seen.min(open),
        };
        *clients = at_a_time(clients.saturating_sub(by_unix), open) + at_a_time(by_unix, open_unix);
        let waiting = own().map(|(_, process)| process.backlog).fold(0.0, f64::max);
        if waiting > 0.0 {
            found.backlog.insert(*stage, waiting);
        }
    }
}

/// Finds the connections on which several requests are under way at a time.
fn several(own: &mut BTreeMap<(&str, &str, bool), Way>, wakes: &Links) {
    let mut turns: BTreeMap<usize, u64> = BTreeMap::new();
    for way in own.values() {
        if let Some(reader) = way.reader() {
            *turns.entry(reader).or_default() += way.turns;
        }
    }
    let handed = handed(wakes);
    let of = |sums: &BTreeMap<usize, u64>, stage| sums.get(&stage).copied().unwrap_or(0);
    for way in own.values_mut().filter(|way| way.may_have_several()) {
        let one = |reader| way.in_parts(of(&turns, reader), of(&handed, reader));
        if !way.reader().is_some_and(one) {
            way.several = true;
            way.count_several();
        }
    }
}

/// How often each stage woke the other stage that it wakes most often.
fn handed(wakes: &Links) -> BTreeMap<usize, u64> {
    let mut pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let hands = |kind: Kind| matches!(kind, Kind::Handover | Kind::Ready);
    for link in wakes.all.iter().filter(|link| hands(link.kind)) {
        if let Some(waker) = link.waker.filter(|waker| *waker != link.wakee) {
            *pairs.entry((waker, link.wakee)).or_default() += link.n;
        }
    }
    let mut most: BTreeMap<usize, u64> = BTreeMap::new();
    for ((waker, _), n) in pairs {
        let of = most.entry(waker).or_default();
        *of = n.max(*of);
    }
    most
}

/// Stages of which several threads read one connection.
fn roaming(trace: &Trace, stages: &Stages) -> BTreeSet<usize> {
    /// A thread that becomes part of a crowd meanwhile has two entries of a connection.
    const ENTRIES: usize = 2;
    let mut readers: BTreeMap<(usize, &str, &str), (BTreeSet<u32>, usize)> = BTreeMap::new();
    for socket in trace.sockets.iter().filter(|socket| !socket.sends) {
        if let Some(&stage) = stages.of.get(&socket.unit) {
            let of = readers.entry((stage, &socket.local, &socket.remote)).or_default();
            of.0.insert(socket.unit);
            of.1 += 1;
        }
    }
    let mut all: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    for ((stage, ..), (units, entries)) in readers {
        let several = units.len() > 1 || entries > ENTRIES;
        all.entry(stage).or_default()[usize::from(several)] += 1;
    }
    all.into_iter().filter(|(_, [one, several])| several > one).map(|(stage, _)| stage).collect()
}

impl Sockets {
    /// Makes a stage the entry of what another one reads.
    pub fn entrust(&mut self, reader: usize, listener: usize) {
        let n: u64 = self.requests.extract_if(.., |(at, _)| *at == reader).map(|(_, n)| n).sum();
        match self.requests.iter_mut().find(|(at, _)| *at == listener) {
            Some((_, sum)) => *sum += n,
            None => self.requests.push((listener, n)),
        }
        self.requests.sort_by_key(|(stage, n)| (std::cmp::Reverse(*n), *stage));
        if let Some(clients) = self.clients.remove(&reader) {
            *self.clients.entry(listener).or_default() += clients;
        }
        if let Some(answered) = self.answered.remove(&reader) {
            *self.answered.entry(listener).or_default() += answered;
        }
        if let Some(pace) = self.paces.remove(&reader) {
            let all = self.paces.entry(listener).or_default();
            for (sum, more) in [(&mut all.answers, pace.answers), (&mut all.thinks, pace.thinks)] {
                *sum = (sum.0 + more.0, sum.1 + more.1);
            }
        }
        if let Some(waiting) = self.backlog.remove(&reader) {
            self.backlog.insert(listener, waiting);
        }
        if self.several.remove(&reader) {
            self.several.insert(listener);
        }
        self.readers.insert(listener, reader);
    }
}

/// Both ends are recorded; `way` is the end that connected.
fn between(found: &mut Sockets, way: &Way, peer: &Way) {
    if let Some((&receiver, _)) = peer.receivers.iter().max_by_key(|(_, n)| **n) {
        for (sender, sent) in way.sent() {
            found.passed.entry((sender, receiver)).or_default().add(sent);
        }
    }
    if let Some((&sender, _)) = peer.senders.iter().max_by_key(|(_, sent)| sent.calls) {
        for (receiver, read) in way.read() {
            found.answers.entry((receiver, sender)).or_default().add(read);
        }
    }
}

/// The other end is a server that is not recorded.
fn asks(found: &mut Sockets, way: &Way, remote: &str) {
    let port = remote.rsplit(':').next().unwrap_or(remote).to_owned();
    for (stage, sent) in way.sent() {
        *found.servers.entry((stage, port.clone())).or_default() += sent.messages;
    }
    // Who reads the answer waits for it.
    if let Some((&stage, _)) = way.receivers.iter().max_by_key(|(_, n)| **n) {
        let asked = found.asked.entry(stage).or_default();
        asked.0 += way.pace.thinks.0;
        asked.1 += way.pace.thinks.1;
    }
}

/// The other end is a client that is not recorded.
fn outside(found: &mut Sockets, way: &Way) {
    for (stage, Sent { messages, .. }) in way.read() {
        *found.clients.entry(stage).or_default() += 1;
        if way.several {
            found.several.insert(stage);
        }
        match found.requests.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += messages,
            None => found.requests.push((stage, messages)),
        }
    }
    if let Some((&stage, _)) = way.receivers.iter().max_by_key(|(_, n)| **n) {
        let sent: u64 = way.sent().map(|(_, sent)| sent.messages).sum();
        *found.answered.entry(stage).or_default() += sent;
        let pace = found.paces.entry(stage).or_default();
        for (sum, more) in
            [(&mut pace.answers, way.pace.answers), (&mut pace.thinks, way.pace.thinks)]
        {
            sum.0 += more.0;
            sum.1 += more.1;
        }
    }
    for (stage, sent) in way.sent() {
        found.replies.entry(stage).or_default().add(sent);
    }
}

/// Boxes with the TCP ports on which they listen; port 0 stands for Unix sockets.
fn listening(trace: &Trace, stages: &Stages) -> BTreeSet<(usize, u16)> {
    let mut found = BTreeSet::new();
    for (pid, process) in &trace.processes {
        let Some(&place) = stages.place_of.get(pid) else { continue };
        found.extend(process.listens.iter().map(|&port| (place, port)));
        if process.listens_unix {
            found.insert((place, 0));
        }
    }
    found
}

/// Whether a socket was accepted (else its process connected).
fn accepted(socket: &Socket, place: usize, listening: &BTreeSet<(usize, u16)>) -> bool {
    let port = |end: &str| end.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    if socket.local.starts_with("unix:") {
        return listening.contains(&(place, 0));
    }
    let (Some(local), Some(remote)) = (port(&socket.local), port(&socket.remote)) else {
        return false;
    };
    if listening.contains(&(place, local)) {
        return true;
    }
    // A server may have closed its listening socket. Then the lower port is the server's.
    let known = listening.iter().any(|(_, port)| *port == remote);
    !known && local < remote && local < 32768
}
