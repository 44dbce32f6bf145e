//! Properties of the Redis and memcached sessions: no bytes break them, no chunking changes them,
//! and what is held is what a server would say.

use headworks_hooks::holding::Holding;
use headworks_hooks::{memcached, redis};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;

/// Relative to the crate's folder, where cargo runs its tests.
const FAILURES: FileFailurePersistence =
    FileFailurePersistence::Direct("proptest-regressions/redis_props.txt");

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

fn feed(chunks: &[usize], bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let (mut rest, mut sizes) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        let (now, later) = rest.split_at(size);
        each(now);
        rest = later;
    }
}

/// What clients send, well formed.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<Vec<&'static str>> = vec![
        vec!["GET", "k"],
        vec!["SET", "k", "a longer value\r\n with lines"],
        vec!["multi"],
        vec!["EXEC"],
        vec!["DISCARD"],
        vec!["WATCH", "a", "b"],
        vec!["UNWATCH"],
        vec!["AUTH", "password"],
        vec!["AUTH", "app", "password"],
        vec!["HELLO", "3", "AUTH", "app", "pw", "SETNAME", "n"],
        vec!["HELLO"],
        vec!["SELECT", "3"],
        vec!["CLIENT", "SETNAME", "worker"],
        vec!["CLIENT", "REPLY", "OFF"],
        vec!["CLIENT", "REPLY", "SKIP"],
        vec!["CLIENT", "REPLY", "ON"],
        vec!["CLIENT"],
        vec!["SUBSCRIBE", "a", "b"],
        vec!["UNSUBSCRIBE"],
        vec!["MONITOR"],
        vec!["RESET"],
        vec!["PSYNC", "?", "-1"],
        vec!["BLPOP", "l", "0"],
        vec!["PING"],
    ];
    let inline =
        select(vec!["PING\r\n", "GET k\n", "\r\n", "auth \"app\" 'x'\r\n", "*0\r\n", "*-1\r\n"]);
    prop_oneof![
        6 => select(words.clone()).prop_map(|words| command(&words)),
        // A pipeline of one shape, as clients send most, which something else may follow.
        2 => (select(words), 2usize..20).prop_map(|(words, count)| command(&words).repeat(count)),
        1 => inline.prop_map(|line| line.as_bytes().to_vec()),
    ]
}

/// What servers answer.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    select(vec![
        "+OK\r\n",
        "+QUEUED\r\n",
        "+RESET\r\n",
        "+FULLRESYNC 0 0\r\n",
        "-ERR no\r\n",
        ":12\r\n",
        "$-1\r\n",
        "$5\r\na\r\nbc\r\n",
        "*-1\r\n",
        "*2\r\n$1\r\nx\r\n*1\r\n:0\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n",
        "%1\r\n+proto\r\n:3\r\n",
        ">2\r\n+message\r\n+x\r\n",
        "_\r\n",
        "\n",
    ])
    .prop_map(|text| text.as_bytes().to_vec())
}

/// Bytes of one side, now and then of no protocol.
fn side(part: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![30 => part, 1 => vec(any::<u8>(), 0..12)]
}

#[derive(Clone, Debug)]
enum Bytes {
    Client(Vec<u8>),
    Server(Vec<u8>),
}

fn conversation() -> impl Strategy<Value = Vec<Bytes>> {
    let client = vec(side(request()), 1..5).prop_map(|parts| Bytes::Client(parts.concat()));
    let server = vec(side(reply()), 1..5).prop_map(|parts| Bytes::Server(parts.concat()));
    vec(prop_oneof![client, server], 1..12)
}

fn play(conversation: &[Bytes], chunks: &[usize]) -> redis::Session {
    let mut session = redis::Session::new();
    for part in conversation {
        match part {
            Bytes::Client(bytes) => feed(chunks, bytes, |chunk| session.client_bytes(chunk)),
            Bytes::Server(bytes) => feed(chunks, bytes, |chunk| session.server_bytes(chunk)),
        }
    }
    session
}

/// A server's own view: what it answers, and what the client holds then.
#[derive(Default)]
struct Model {
    multi: bool,
    watch: bool,
}

impl Model {
    /// Runs a command; the answer.
    fn run(&mut self, name: &str, allowed: bool) -> &'static str {
        if !allowed {
            return "-NOPERM no\r\n";
        }
        match name {
            "MULTI" if self.multi => "-ERR nested\r\n",
            "MULTI" => {
                self.multi = true;
                "+OK\r\n"
            }
            "EXEC" | "DISCARD" if !self.multi => "-ERR without MULTI\r\n",
            "EXEC" | "DISCARD" => {
                (self.multi, self.watch) = (false, false);
                if name == "EXEC" { "*1\r\n:1\r\n" } else { "+OK\r\n" }
            }
            "WATCH" if self.multi => "-ERR inside MULTI\r\n",
            _ if self.multi => "+QUEUED\r\n",
            "WATCH" => {
                self.watch = true;
                "+OK\r\n"
            }
            "UNWATCH" => {
                self.watch = false;
                "+OK\r\n"
            }
            _ => "$1\r\nx\r\n",
        }
    }

    fn holding(&self) -> Holding {
        let mut holding = Holding::NONE;
        if self.multi {
            holding = holding.union(Holding::TRANSACTION);
        }
        if self.watch {
            holding = holding.union(Holding::WATCH);
        }
        holding
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: Some(Box::new(FAILURES)), ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_break_a_session(parts in vec((any::<bool>(), vec(any::<u8>(), 0..300)), 0..8)) {
        let (mut one, mut other) = (redis::Session::new(), memcached::Session::new());
        for (client, bytes) in parts {
            if client {
                one.client_bytes(&bytes);
                other.client_bytes(&bytes);
            } else {
                one.server_bytes(&bytes);
            }
            let _ = (one.holding(), one.identity(), one.at_boundary());
        }
    }

    #[test]
    fn no_chunking_changes_a_session(talk in conversation(), chunks in vec(1usize..40, 1..6)) {
        let whole = play(&talk, &[usize::MAX]);
        prop_assert_eq!(play(&talk, &chunks).meaning(), whole.meaning());
        prop_assert_eq!(play(&talk, &[1]).meaning(), whole.meaning());
    }

    /// Pipelines of any length: at each boundary the session holds what the server says.
    #[test]
    fn what_is_held_is_what_the_server_says(
        batches in vec(vec((select(vec!["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "GET"]), any::<u8>()), 1..24), 1..12),
    ) {
        let (mut session, mut model) = (redis::Session::new(), Model::default());
        for batch in batches {
            // At most as many commands in flight as are noted.
            let mut answers = String::new();
            for (name, luck) in batch.iter().take(16) {
                session.client_bytes(&command(&[*name, "k"][..if *name == "WATCH" || *name == "GET" { 2 } else { 1 }]));
                answers += model.run(name, luck % 8 != 0);
            }
            session.server_bytes(answers.as_bytes());
            prop_assert!(session.at_boundary());
            prop_assert_eq!(session.holding(), model.holding());
        }
    }

    #[test]
    fn no_chunking_changes_memcached(
        parts in vec(select(vec![
            "set k 0 0 3\r\nabc\r\n", "get a b\r\n", "ms k 2\r\nhi\r\n", "mg k v\r\n", "mn\r\n", "cas k 0 0 1 9\r\nx\r\n",
            "set k 0 0 nan\r\n", "version\n", "\r\n", "incr k 1\r\n", "watch\r\n", "add k 1 2 0 noreply\r\n\r\n",
        ]), 1..12),
        chunks in vec(1usize..40, 1..6),
    ) {
        let bytes = parts.concat().into_bytes();
        let play = |chunks: &[usize]| {
            let mut session = memcached::Session::new();
            feed(chunks, &bytes, |chunk| session.client_bytes(chunk));
            session.meaning()
        };
        prop_assert_eq!(play(&chunks), play(&[usize::MAX]));
        prop_assert_eq!(play(&[1]), play(&[usize::MAX]));
    }
}
