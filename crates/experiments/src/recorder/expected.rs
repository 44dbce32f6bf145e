//! What servers are known to consist of: stages, arrows, and what a version or a set-up does not
//! have. Of HBase these are the stages and arrows of the dissertation's Figure 3.2.

use headworks_record::infer::arrows::Meaning;

/// What is expected of one server.
pub(super) struct Expected {
    pub(super) stages: &'static [Stage],
    pub(super) arrows: &'static [Arrow],
    /// What is not there, and why.
    pub(super) absent: &'static [(&'static str, &'static str)],
    /// Letters of its problems in the dissertation's Table 4.5, if it is there.
    pub(super) letters: Option<&'static str>,
}

/// A stage.
pub(super) struct Stage {
    pub(super) name: &'static str,
    /// Its process; empty if there is one server.
    pub(super) process: &'static str,
    /// A part of its threads' name, loop function or title; all of it after `=`. Empty: the stage
    /// to which most requests of clients come.
    title: &'static str,
}

impl Stage {
    /// Whether it is a stage with such a title; `None` if titles do not tell.
    pub(super) fn called(&self, title: &str) -> Option<bool> {
        match self.title.strip_prefix('=') {
            Some(whole) => Some(title == whole),
            None => (!self.title.is_empty()).then(|| title.contains(self.title)),
        }
    }
}

/// An arrow between stages, or between one and `clients`.
pub(super) struct Arrow {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// The first is blocked until the other is done.
    waits: bool,
    /// Its label in the figure.
    label: &'static str,
}

impl Arrow {
    pub(super) fn meaning(&self) -> Meaning {
        if self.waits { Meaning::Blocking } else { Meaning::Data }
    }

    pub(super) fn words(&self) -> String {
        let words = words(self.from, self.to, self.waits);
        if self.label.is_empty() { words } else { format!("{words} ({})", self.label) }
    }
}

/// An arrow for people.
pub(super) fn words(from: &str, to: &str, waits: bool) -> String {
    format!("{from} {} {to}", if waits { "waits for" } else { "->" })
}

const fn stage(name: &'static str, process: &'static str, title: &'static str) -> Stage {
    Stage { name, process, title }
}

const fn data(from: &'static str, to: &'static str, label: &'static str) -> Arrow {
    Arrow { from, to, waits: false, label }
}

const fn waits(from: &'static str, to: &'static str, label: &'static str) -> Arrow {
    Arrow { from, to, waits: true, label }
}

/// MariaDB 10.11 with a thread for each connection.
pub(super) const MARIADB: Expected = Expected {
    stages: &[stage("connections", "", ""), stage("tasks of InnoDB", "", "tpool")],
    arrows: &[data("clients", "connections", ""), data("connections", "clients", "")],
    absent: &[],
    letters: None,
};

/// PostgreSQL 15: a process for each connection.
pub(super) const POSTGRES: Expected = Expected {
    stages: &[
        stage("backends", "", ""),
        stage("checkpointer", "", "checkpointer"),
        stage("background writer", "", "background writer"),
        stage("WAL writer", "", "walwriter"),
        stage("autovacuum launcher", "", "autovacuum launcher"),
    ],
    arrows: &[data("clients", "backends", ""), data("backends", "clients", "")],
    absent: &[],
    letters: None,
};

/// Redis 7 with an append-only file that is made durable each second.
pub(super) const REDIS: Expected = Expected {
    stages: &[
        stage("event loop", "", ""),
        stage("fsync of the log", "", "bio_aof"),
        stage("close of files", "", "bio_close_file"),
        stage("lazy free", "", "bio_lazy_free"),
    ],
    arrows: &[
        data("clients", "event loop", ""),
        data("event loop", "clients", ""),
        data("event loop", "fsync of the log", ""),
    ],
    absent: &[],
    letters: None,
};

/// WiredTiger 3.2 behind a thread for each connection, as MongoDB's workers are (Figure 3.3): it
/// reads a request, does all of it in the engine, and answers. The engine's threads are fed by the
/// clock and by memory that they share; there is one node, so that nothing is replicated.
pub(super) const WIREDTIGER: Expected = Expected {
    stages: &[
        stage("workers", "", ""),
        stage("checkpoints", "", "make_checkpoints"),
        stage("eviction", "", "thread_run"),
        stage("log, closing files", "", "log_file_server"),
        stage("log, what is written", "", "log_wrlsn_server"),
        stage("log, archive", "", "log_server"),
    ],
    arrows: &[
        data("clients", "workers", ""),
        data("workers", "clients", ""),
        data("workers", "log, what is written", "a record is in the log's buffer"),
    ],
    absent: &[
        (
            "sweep of handles",
            "it works for a moment every ten seconds: it is among those that slept",
        ),
        (
            "Net Interface, Fetcher, Batcher, Oplog Writer, Writer, Feedback",
            "they replicate to secondary nodes",
        ),
        ("a limit of 128 workers at work", "the small server has none"),
    ],
    letters: None,
};

/// Cassandra 4.1 as one node: the part of Figure 3.4 that one node has, and the threads of its log
/// and its tables.
pub(super) const CASSANDRA: Expected = Expected {
    stages: &[
        stage("event loop (C-Respond)", "", "EventLoopGroup"),
        stage("workers (C-ReqHandle, Read, Mutation)", "", "Native-Transport"),
        stage("log, sync", "", "COMMIT-LOG-SYNC"),
        stage("log, segments", "", "COMMIT-LOG-ALLO"),
        stage("flush", "", "MemtableFlushWriter"),
        stage("after a flush", "", "MemtablePostFlush"),
    ],
    arrows: &[
        data("clients", "event loop (C-Respond)", ""),
        data("event loop (C-Respond)", "workers (C-ReqHandle, Read, Mutation)", ""),
        data("workers (C-ReqHandle, Read, Mutation)", "event loop (C-Respond)", ""),
        data("event loop (C-Respond)", "clients", ""),
    ],
    absent: &[
        (
            "C-ReqHandle, Read and Mutation as three stages, and the arrows 1 and 7 between them",
            "they share threads, which change their names at work, and what concerns this node is done by the thread \
             that coordinates it wherever a permit is free",
        ),
        ("Msg Out, Msg In, Respond, and the arrows 2 to 6", "there is one node"),
        (
            "View-Mutation, Counter-Mutation, Read-Repair, Anti-Entropy, Tracing",
            "no request needs them",
        ),
    ],
    letters: None,
};

const REGION: &str = "regionserver";
const DATA: &str = "datanode";
const NAME: &str = "namenode";
const MASTER: &str = "master";

const ONE_DATANODE: &[(&str, &str)] = &[
    (
        "Packet Ack -> Ack Process (w6) as an arrow of requests",
        "acknowledgements answer packets: Ack Process waits for Packet Ack",
    ),
    ("Data Xceive -> Data Xceive (w3)", "there is one DataNode, so a block has one replica"),
    ("Packet Ack -> Packet Ack (w5)", "there is one DataNode"),
];

/// HBase 2.6 with `SimpleRpcServer` and `FSHLog`: the architecture of Figure 3.2.
pub(super) const CLASSIC: Expected = Expected {
    stages: &[
        stage("RPC Read", REGION, "Reader=#"),
        stage("RPC Handle", REGION, "RpcServer.default"),
        stage("RPC Respond", REGION, "RpcServer.responder"),
        stage("LOG Append", REGION, "append-pool"),
        stage("LOG Sync", REGION, "sync.#"),
        stage("Mem Flush", REGION, "MemStoreFlusher"),
        stage("Data Stream", REGION, "DataStreamer"),
        stage("Ack Process", REGION, "ResponseProcess"),
        stage("Data Xceive", DATA, "=DataXceiver"),
        stage("Packet Ack", DATA, "PacketResponder"),
        stage("HMaster", MASTER, "RpcServer.default"),
        stage("Namenode RPC Read", NAME, "Socket Reader"),
        stage("Namenode RPC Handle", NAME, "IPC Server handler"),
        stage("Namenode RPC Respond", NAME, "IPC Server Responder"),
    ],
    arrows: &[
        data("clients", "RPC Read", ""),
        data("RPC Read", "RPC Handle", "1"),
        data("RPC Handle", "RPC Respond", "2"),
        data("RPC Handle", "clients", "an idle connection is answered past RPC Respond"),
        data("Namenode RPC Read", "Namenode RPC Handle", "m2"),
        data("RPC Handle", "Data Xceive", "r1"),
        waits("RPC Handle", "Data Xceive", "r2"),
        data("RPC Handle", "LOG Append", "a1"),
        data("LOG Append", "LOG Sync", "a2"),
        waits("RPC Handle", "LOG Sync", "a3"),
        data("RPC Handle", "Mem Flush", "f1"),
        data("LOG Sync", "Data Stream", "w1"),
        data("Mem Flush", "Data Stream", "w1"),
        data("Data Stream", "Data Xceive", "w2"),
        data("Data Xceive", "Packet Ack", "w4"),
        waits("Ack Process", "Packet Ack", "w6"),
        waits("LOG Sync", "Ack Process", "w7"),
        waits("Mem Flush", "Ack Process", "w7"),
    ],
    absent: &[
        (
            "LOG Append -> Data Stream (w1)",
            "entries fill no packet: LOG Sync, which flushes, hands them over",
        ),
        ONE_DATANODE[0],
        ONE_DATANODE[1],
        ONE_DATANODE[2],
    ],
    letters: Some("NUCBO"),
};

/// HBase 2.6 as it comes: Netty's event loops read and answer, and the log is written by
/// `AsyncFSWAL`, whose event loops speak to the DataNode.
pub(super) const DEFAULT: Expected = Expected {
    stages: &[
        stage("event loops", REGION, "RS-EventLoopGroup"),
        stage("RPC Handle", REGION, "RpcServer.default"),
        stage("LOG Append", REGION, "AsyncFSWAL"),
        stage("Mem Flush", REGION, "MemStoreFlusher"),
        stage("Data Stream", REGION, "DataStreamer"),
        stage("Ack Process", REGION, "ResponseProcess"),
        stage("Data Xceive", DATA, "=DataXceiver"),
        stage("Packet Ack", DATA, "PacketResponder"),
        stage("HMaster", MASTER, "RpcServer.default"),
        stage("Namenode RPC Read", NAME, "Socket Reader"),
        stage("Namenode RPC Handle", NAME, "IPC Server handler"),
        stage("Namenode RPC Respond", NAME, "IPC Server Responder"),
    ],
    arrows: &[
        data("clients", "event loops", ""),
        data("event loops", "RPC Handle", "1"),
        data("RPC Handle", "event loops", "2"),
        data("event loops", "clients", "2"),
        data("Namenode RPC Read", "Namenode RPC Handle", "m2"),
        data("RPC Handle", "Data Xceive", "r1"),
        waits("RPC Handle", "Data Xceive", "r2"),
        data("RPC Handle", "LOG Append", "a1"),
        waits("RPC Handle", "LOG Append", "a3"),
        data("LOG Append", "event loops", "w1"),
        data("RPC Handle", "Mem Flush", "f1"),
        data("Mem Flush", "Data Stream", "w1"),
        data("event loops", "Data Xceive", "w2"),
        data("Data Stream", "Data Xceive", "w2"),
        data("Data Xceive", "Packet Ack", "w4"),
        waits("Ack Process", "Packet Ack", "w6"),
        waits("Mem Flush", "Ack Process", "w7"),
    ],
    absent: &[
        ("RPC Read, RPC Respond", "Netty's event loops do both"),
        (
            "LOG Sync, and its arrows a2 and w7",
            "AsyncFSWAL has one thread, which tells handlers itself",
        ),
        ONE_DATANODE[0],
        ONE_DATANODE[1],
        ONE_DATANODE[2],
    ],
    letters: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_a_part_of_the_name_or_all_of_it() {
        let named = |title| stage("x", "", title);
        assert_eq!(named("sync.#").called("sync.#"), Some(true));
        assert_eq!(named("Xceiver").called("DataXceiverServer"), Some(true));
        assert_eq!(named("=DataXceiver").called("DataXceiverServer"), Some(false));
        assert_eq!(named("").called("main"), None);
    }
}
