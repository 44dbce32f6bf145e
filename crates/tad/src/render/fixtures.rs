//! Systems built by hand, for tests and to look at.

use super::Mark;
use crate::model::*;
use crate::remedy::{Problem, Remedy};
use std::collections::BTreeMap;

/// A system in the making.
pub(super) struct Builder {
    pub tad: Tad,
}

/// The queue of a thread pool.
pub(super) const IMPLICIT: Queue = Queue {
    explicit: false,
    pluggable: false,
    ordered: false,
    ordered_per_client: false,
    policy: Policy::Fifo,
};
pub(super) const EXPLICIT: Queue = Queue { explicit: true, ..IMPLICIT };
pub(super) const PLUGGABLE: Queue = Queue { explicit: true, pluggable: true, ..IMPLICIT };
pub(super) const ORDERED: Queue = Queue { explicit: true, ordered: true, ..IMPLICIT };

impl Builder {
    pub fn new(name: &str, version: &str, about: &str) -> Builder {
        Builder {
            tad: Tad {
                name: name.into(),
                version: version.into(),
                about: about.into(),
                source: "built by hand for the tests of the picture".into(),
                nodes: vec![],
                processes: vec![],
                resources: vec![],
                stages: vec![],
                flows: vec![],
                requests: vec![],
                shared_queues: vec![],
                controls: vec![],
                remedies: BTreeMap::new(),
            },
        }
    }

    /// A kind of node with one of each resource; processes that follow run on it.
    pub fn node(&mut self, title: &str, count: u32) {
        let node = self.tad.nodes.len();
        self.tad.nodes.push(NodeKind { name: format!("n{node}"), title: title.into(), count });
        for kind in [
            ResourceKind::Cpu,
            ResourceKind::Io,
            ResourceKind::Network,
            ResourceKind::Lock,
            ResourceKind::Custom,
        ] {
            self.tad.resources.push(Resource {
                name: kind.name().into(),
                title: kind.name().into(),
                kind,
                node,
                rate_per_s: 1e9,
                parallelism: 1,
                discipline: Discipline::Fifo,
                device: Device::Plain,
            });
        }
    }

    /// A process on the last node; stages that follow run in it.
    pub fn process(&mut self, title: &str) {
        let (name, node) = (format!("p{}", self.tad.processes.len()), self.tad.nodes.len() - 1);
        self.tad.processes.push(Process { name, title: title.into(), node });
    }

    /// A stage in the last process. What it uses: `c`pu, `i`/o, `n`etwork, `l`ock, cust`x`om; a
    /// capital is one that it may use. No threads: on demand.
    pub fn stage(&mut self, title: &str, threads: u32, queue: Queue, uses: &str) -> StageId {
        let process = self.tad.processes.len() - 1;
        let first = self.tad.processes[process].node * 5;
        let uses = uses.chars().filter_map(|letter| {
            let kind = "cinlx".find(letter.to_ascii_lowercase())?;
            Some(Use { resource: first + kind, may: letter.is_ascii_uppercase() })
        });
        self.tad.stages.push(Stage {
            name: title.to_lowercase().replace(' ', "_"),
            title: title.into(),
            process,
            threads: if threads == 0 { Threads::OnDemand } else { Threads::Bounded(threads) },
            threads_label: None,
            queue,
            uses: uses.collect(),
            instances: 1,
            asynchronous: false,
        });
        self.tad.stages.len() - 1
    }

    pub fn flow(&mut self, kind: FlowKind, from: End, to: End, label: &str) -> &mut Flow {
        self.tad.flows.push(Flow { from, to, kind, label: label.into(), remote: false });
        self.tad.flows.last_mut().expect("just pushed")
    }

    pub fn data(&mut self, from: StageId, to: StageId, label: &str) -> &mut Flow {
        self.flow(FlowKind::Data, End::Stage(from), End::Stage(to), label)
    }

    /// `blocked` waits for `downstream`.
    pub fn blocks(&mut self, blocked: StageId, downstream: StageId, label: &str) {
        self.flow(FlowKind::Blocking, End::Stage(blocked), End::Stage(downstream), label);
    }

    pub fn request(&mut self, name: &str, about: &str, steps: Vec<Step>, answered_by: Vec<StepId>) {
        self.tad.requests.push(RequestType {
            name: name.into(),
            about: about.into(),
            parameters: vec![],
            steps,
            first: 0,
            answered_by,
        });
    }
}

/// A step that submits others and then waits for some.
pub(super) fn step(stage: StageId, submits: &[StepId], waits: &[StepId], then: &[StepId]) -> Step {
    Step {
        name: format!("at {stage}"),
        stage,
        place: Place::Same,
        uses: vec![],
        cache: None,
        submits: submits.to_vec(),
        waits: waits.to_vec(),
        uses_after: vec![],
        then: then.to_vec(),
    }
}

/// Two stages in one process.
pub(super) fn small() -> Tad {
    let mut b = Builder::new("Small", "1.0", "Two stages, as small as a system gets.");
    b.node("Server", 3);
    b.process("Server process");
    let reader = b.stage("Reader", 2, IMPLICIT, "n");
    let handler = b.stage("Handler", 10, PLUGGABLE, "cIl");
    b.flow(FlowKind::Data, End::Clients, End::Stage(reader), "1");
    b.data(reader, handler, "2");
    b.data(handler, reader, "3");
    b.flow(FlowKind::Data, End::Stage(reader), End::Clients, "4");
    b.request(
        "get",
        "reads a record",
        vec![
            step(reader, &[], &[], &[1]),
            step(handler, &[], &[], &[2]),
            step(reader, &[], &[], &[]),
        ],
        vec![2],
    );
    b.tad
}

/// After Fig. 3.2: HBase on HDFS.
pub(super) fn big() -> (Tad, Vec<Mark>) {
    let mut b = Builder::new(
        "HBase/HDFS",
        "2.0.0 / 2.7.1",
        "A table store on a distributed file system; after Fig. 3.2.",
    );
    b.node("Data nodes", 7);
    b.process("RegionServer");
    let read = b.stage("RPC Read", 10, IMPLICIT, "n");
    let handle = b.stage("RPC Handle", 30, PLUGGABLE, "cnI");
    let respond = b.stage("RPC Respond", 1, IMPLICIT, "n");
    let flush = b.stage("MemStore Flush", 2, EXPLICIT, "c");
    let append = b.stage("LOG Append", 1, ORDERED, "c");
    let sync = b.stage("LOG Sync", 5, ORDERED, "");
    let stream = b.stage("Data Stream", 0, IMPLICIT, "n");
    let ack = b.stage("Ack Process", 0, IMPLICIT, "n");
    b.process("DataNode");
    let xceive = b.stage("Data Xceive", 0, IMPLICIT, "cni");
    let packet = b.stage("Packet Ack", 0, IMPLICIT, "n");
    b.node("Master", 1);
    b.process("Namenode");
    let name_read = b.stage("RPC Read", 1, IMPLICIT, "n");
    let name_handle = b.stage("RPC Handle", 10, PLUGGABLE, "l");
    let name_respond = b.stage("RPC Respond", 1, IMPLICIT, "n");
    b.process("HMaster");
    let assign = b.stage("Region Assign", 5, EXPLICIT, "cL");
    b.flow(FlowKind::Data, End::Clients, End::Stage(read), "");
    b.flow(FlowKind::Data, End::Stage(respond), End::Clients, "");
    b.data(read, handle, "1");
    b.data(handle, respond, "2");
    b.data(handle, flush, "f1");
    b.data(handle, append, "a1");
    b.data(append, sync, "a2");
    b.blocks(handle, sync, "a3");
    b.data(append, stream, "w1");
    b.data(flush, stream, "f2");
    b.data(stream, xceive, "w2");
    b.data(stream, ack, "spawns");
    b.data(xceive, xceive, "w3").remote = true;
    b.data(xceive, packet, "w4");
    b.data(packet, packet, "w5").remote = true;
    b.data(packet, ack, "w6");
    b.blocks(sync, ack, "w7");
    b.data(handle, xceive, "r1");
    b.blocks(handle, xceive, "r2");
    b.data(handle, name_read, "m1");
    b.data(name_read, name_handle, "m2");
    b.data(name_handle, name_respond, "m3");
    b.blocks(handle, name_respond, "m4");
    b.flow(FlowKind::Information, End::Stage(assign), End::Stage(handle), "regions");
    let put = vec![
        step(read, &[], &[], &[1]),
        step(handle, &[2], &[3], &[8]),
        step(append, &[], &[], &[3, 4]),
        step(sync, &[], &[7], &[]),
        step(stream, &[], &[], &[5]),
        step(xceive, &[], &[], &[6]),
        step(packet, &[], &[], &[7]),
        step(ack, &[], &[], &[]),
        step(respond, &[], &[], &[]),
    ];
    b.request("put", "writes a cell to the log and to three copies of it", put, vec![8]);
    let mark = |stage, problem, mitigated| Mark { stage, problem, mitigated };
    let marks = vec![
        mark(read, Problem::HiddenContention, false),
        mark(handle, Problem::UnknownUsage, true),
        mark(handle, Problem::Blocking, false),
        mark(append, Problem::OrderingConstraint, false),
        mark(sync, Problem::Blocking, false),
        mark(sync, Problem::OrderingConstraint, false),
        mark(stream, Problem::NoScheduling, false),
        mark(ack, Problem::NoScheduling, false),
        mark(xceive, Problem::NoScheduling, false),
        mark(xceive, Problem::HiddenContention, true),
        mark(packet, Problem::NoScheduling, false),
    ];
    (b.tad, marks)
}

/// Every feature of the notation that the other two lack: stacks, a custom resource, order for each
/// client, a shared queue and controls.
pub(super) fn rich() -> (Tad, Vec<Mark>) {
    let mut b = Builder::new("Ring", "3.1", "Partitions on a ring, after their remedies.");
    b.node("Ring node", 6);
    b.process("Virtual machine");
    let request = b.stage("Req Process", 0, IMPLICIT, "cn");
    let command = b.stage("Cmd Handle", 1, Queue { ordered_per_client: true, ..ORDERED }, "ix");
    b.tad.stages[command].instances = 8;
    b.tad.stages[command].threads_label = Some("1 per partition".into());
    let read = b.stage("Read", 32, EXPLICIT, "cI");
    let write = b.stage("Mutation", 32, EXPLICIT, "cI");
    b.flow(FlowKind::Data, End::Clients, End::Stage(request), "get, put");
    b.data(request, command, "2").remote = true;
    b.data(request, command, "2");
    b.data(request, read, "3");
    b.data(request, write, "4");
    b.blocks(request, command, "5");
    b.tad.shared_queues.push(SharedQueue {
        name: "database work".into(),
        stages: vec![read, write],
        concurrency: 40,
        policy: Policy::Drf,
    });
    b.tad.controls.push(Remedy::RateLimit {
        stage: "cmd_handle".into(),
        resource: "disk".into(),
        period_ns: 100_000_000,
    });
    b.tad.controls.push(Remedy::CongestionFeedback {
        stage: "req_process".into(),
        downstream: "cmd_handle".into(),
        backlog: 4,
        wrong_per_mille: 0,
    });
    let marks = vec![Mark { stage: command, problem: Problem::HiddenContention, mitigated: true }];
    (b.tad, marks)
}
