//! One connection: both directions of its bytes, the queue of its requests, and what it holds.

mod client;
mod fast_path;
mod server;

use super::answer::Answer;
use super::command::{Command, Request, RequestClass};
use super::frames::{Frames, Piece};
use super::lexer::Scan;
use super::locks::Locks;
use super::login::{Greeting, Login};
use super::pending::Pending;
use super::protocol::Dialect;
use crate::holding::Holding;
use crate::identity::Identity;
use crate::proxy_header::ProxyHeader;

/// What the client's bytes meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// Nothing that concerns the gate (yet).
    None,
    /// A request began. Reported once per command, as soon as its class is certain. That is at the
    /// command byte, or for COM_QUERY at the end of its first keyword. If that keyword is KILL,
    /// SHUTDOWN or XA, it is at the end of the text, since a second statement would make it gated.
    Request(Request),
}

/// Why the bytes of a connection cannot be followed. Final, but for [`Opaque::Tls`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// The client asked for TLS: see [`Session::inside_tls`].
    Tls,
    /// Both sides agreed on compression.
    Compressed,
    /// Bytes that do not parse, or more requests in flight than can be counted.
    Desynchronized,
}

impl Opaque {
    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Opaque::Tls => "tls",
            Opaque::Compressed => "compressed",
            Opaque::Desynchronized => "desynchronized",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Greeting,
    Response,
    Authentication,
    Commands,
    /// The server refused the connection and will close it.
    Refused,
}

/// The kind of the client packet that is arriving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Skip,
    Response,
    File {
        empty: bool,
    },
    /// A command whose first byte has not come.
    Command,
    Body(Command),
}

/// The bytes of a server packet that decide what it is: an OK packet's status ends at byte 21.
const HEAD: usize = 24;

/// The state of one connection, a good KiB of plain data. The [module](super) has its guarantees.
///
/// Feed it every byte of both directions, in the order in which the server's calls returned. It
/// never panics and never allocates, whatever the bytes are.
#[derive(Clone, Debug)]
#[repr(C, align(32))]
pub struct Session {
    /// The class of the command that is arriving was reported.
    reported: bool,
    route: Route,
    statement_have: u8,
    head_len: u8,
    statement: [u8; 4],
    server_len: u32,
    // From the last bytes of `locks` to the first of `pending`: what the commonest requests touch,
    // in two cache lines. The rest is for logins, split packets, texts for the lexer, and locks.
    locks: Locks,
    phase: Phase,
    opaque: Option<Opaque>,
    dialect: Dialect,
    /// Texts may hold several statements. Once true it stays: COM_SET_OPTION toggles it, and an
    /// unneeded check does no harm.
    multi: bool,
    query_attributes: bool,
    replication: bool,
    inside_tls: bool,
    known: bool,
    /// Counts the identities of the connection.
    identities: u8,
    in_transaction: bool,
    autocommit: bool,
    after_error: bool,
    client: Frames,
    server: Frames,
    answer: Answer,
    pending: Pending,
    head: [u8; HEAD],
    scan: Scan,
    proxy: ProxyHeader,
    greeting: Greeting,
    login: Login,
    identity: Identity,
    /// The identity that a COM_CHANGE_USER asks for, until the server accepts it.
    asked: Identity,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// A connection without any bytes yet.
    pub const fn new() -> Session {
        Session {
            phase: Phase::Greeting,
            opaque: None,
            dialect: Dialect::new(),
            multi: false,
            query_attributes: false,
            replication: false,
            inside_tls: false,
            known: false,
            identities: 0,
            in_transaction: false,
            autocommit: true,
            after_error: false,
            client: Frames::new(),
            server: Frames::new(),
            answer: Answer::new(),
            pending: Pending::new(),
            locks: Locks::new(),
            route: Route::Skip,
            reported: false,
            statement: [0; 4],
            statement_have: 0,
            head: [0; HEAD],
            head_len: 0,
            server_len: 0,
            scan: Scan::new(),
            proxy: ProxyHeader::new(),
            greeting: Greeting::new(),
            login: Login::new(),
            identity: Identity::new(),
            asked: Identity::new(),
        }
    }

    /// Bytes that the server's `recv` returned. If a chunk holds several commands, the first gated
    /// one is reported, else the first; all of them are counted.
    pub fn client_bytes(&mut self, bytes: &[u8]) -> ClientEvent {
        let mut rest = bytes;
        let mut event = ClientEvent::None;
        while self.opaque.is_none() {
            if self.proxy.reading() {
                self.proxy_header(&mut rest);
                if rest.is_empty() {
                    break;
                }
                continue;
            }
            let Some(piece) = self.client.next(&mut rest) else {
                break;
            };
            let Some(request) = self.client_piece(piece) else {
                continue;
            };
            let better = match event {
                ClientEvent::None => true,
                ClientEvent::Request(first) => {
                    first.class != RequestClass::Gated && request.class == RequestClass::Gated
                }
            };
            if better {
                event = ClientEvent::Request(request);
            }
        }
        event
    }

    /// One client packet, header and payload, that came at once or whose header was kept until its
    /// payload came: the same as [`client_bytes`](Session::client_bytes) with both.
    pub fn client_packet(&mut self, header: [u8; 4], payload: &[u8]) -> ClientEvent {
        if let Some(request) = self.whole_command(header, payload) {
            return ClientEvent::Request(request);
        }
        let first = self.client_bytes(&header);
        match self.client_bytes(payload) {
            ClientEvent::None => first,
            event => event,
        }
    }

    /// Bytes that the server's `send` accepted.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none() {
            if self.server.idle() {
                self.whole_packets(&mut rest);
            }
            let Some(piece) = self.server.next(&mut rest) else {
                break;
            };
            match piece {
                Piece::Start { len, .. } => {
                    self.head_len = 0;
                    self.server_len = len;
                }
                Piece::Data(data) => self.server_data(data),
                Piece::End => self.server_packet(),
            }
        }
    }

    /// Whether the server, if it reads now, reads a new command: every answer is complete and both
    /// directions stand between packets. False before the login is done and for an opaque session.
    pub fn at_boundary(&self) -> bool {
        self.opaque.is_none()
            && self.phase == Phase::Commands
            && self.pending.is_empty()
            && self.client.idle()
            && self.server.idle()
    }

    /// What the connection is estimated to hold after all complete answers. A request in flight
    /// counts only once it is answered; until then it keeps its permit by running.
    pub fn holding(&self) -> Holding {
        self.locks
            .holding()
            .with_if(Holding::TRANSACTION, self.in_transaction)
            .with_if(Holding::AUTOCOMMIT_OFF_AFTER_ERROR, self.after_error)
    }

    /// Who the client says it is; `None` until its handshake response was read, and always under
    /// TLS.
    pub fn identity(&self) -> Option<&Identity> {
        self.known.then_some(&self.identity)
    }

    /// The client's address, if a proxy has named it.
    pub fn client_address(&self) -> Option<core::net::IpAddr> {
        self.proxy.address()
    }

    /// A number that differs after every change of [`identity`](Session::identity): when the client
    /// named itself, and each time the server accepted a COM_CHANGE_USER.
    pub fn identity_number(&self) -> u8 {
        self.identities
    }

    /// Why the connection cannot be followed, if it cannot.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// The TLS that the client asked for has begun. The bytes from here on are those inside it.
    pub fn inside_tls(&mut self) {
        if self.opaque == Some(Opaque::Tls) {
            self.opaque = None;
            self.inside_tls = true;
            self.phase = Phase::Response;
            (self.client, self.server) = (Frames::new(), Frames::new());
        }
    }

    /// Whether the client acts as a replica: the server accepted a COM_REGISTER_SLAVE,
    /// COM_BINLOG_DUMP(_GTID) or COM_TABLE_DUMP. Asking is not enough, or any client could get past
    /// the gate by asking.
    pub fn replication(&self) -> bool {
        self.replication
    }

    /// For tests: all state that decides what later bytes mean. It is equal for two sessions that
    /// saw the same conversation, however it was cut.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        if self.opaque.is_some() {
            // Final: the state before it has no meaning any more.
            return format!("{:?} {}", self.opaque, self.holding());
        }
        let queue: Vec<_> = self.pending.counted().collect();
        format!(
            "{:?}",
            (
                (self.phase, self.opaque, self.dialect, self.multi, self.query_attributes),
                (
                    self.replication,
                    self.known,
                    self.identities,
                    self.identity,
                    self.asked,
                    self.proxy
                ),
                (self.in_transaction, self.autocommit, self.after_error),
                (self.client.idle(), self.server.idle(), &self.answer, queue, &self.locks),
            )
        )
    }

    fn lost(&mut self) {
        self.opaque = Some(Opaque::Desynchronized);
    }
}

const _: () = {
    assert!(size_of::<Session>() <= 1088, "one session per file descriptor: keep it small");
    let begin = core::mem::offset_of!(Session, locks) + Locks::HOT;
    let end = core::mem::offset_of!(Session, pending) + Pending::HOT;
    assert!(begin.is_multiple_of(64) && end <= begin + 128, "two lines for most requests");
};
