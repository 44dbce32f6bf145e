//! One connection: both directions of its bytes, its unanswered requests, and what it holds.

mod client;
mod server;

use super::frames::Frames;
use super::lock_names::Mention;
use super::locks::Locks;
use super::startup::Startup;
use super::statement::EXACT_MAX;
use crate::holding::Holding;
use crate::identity::Identity;

/// Why a request passes the gate at any load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PassReason {
    /// Terminate: the session ends.
    Quit,
    /// A Sync or Flush with nothing before it.
    Sync,
    /// A single call of pg_cancel_backend or pg_terminate_backend.
    Signal,
    /// COMMIT PREPARED or ROLLBACK PREPARED: others may wait for the locks of a transaction that no
    /// session owns.
    FinishPrepared,
}

impl PassReason {
    /// Stable, lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            PassReason::Quit => "quit",
            PassReason::Sync => "sync",
            PassReason::Signal => "signal",
            PassReason::FinishPrepared => "finish-prepared",
        }
    }
}

/// A request that the server is about to work on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// It waits for a permit unless the session holds something.
    Gated,
    /// It passes, for this reason.
    Pass(PassReason),
}

/// What the client's bytes meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// Nothing that concerns the gate (yet).
    None,
    /// A message of a request is complete. Reported once for each chunk that completes one; of
    /// several messages, a gated one takes precedence.
    Request(Request),
}

/// Why the bytes of a connection cannot be followed. Final, but for [`Opaque::Tls`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// Both sides agreed on TLS: see [`Session::inside_tls`].
    Tls,
    /// Both sides agreed on encryption by GSSAPI.
    Encrypted,
    /// Bytes that do not parse.
    Desynchronized,
}

impl Opaque {
    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Opaque::Tls => "tls",
            Opaque::Encrypted => "encrypted",
            Opaque::Desynchronized => "desynchronized",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The client's first packet is expected.
    Startup,
    /// The client asked for encryption; the server answers by one byte.
    Encryption,
    /// The client has named itself and is proving it.
    Login,
    /// Requests.
    Commands,
    /// There is no session, and none will follow.
    Over,
}

/// Bytes of a message that are kept: a name of 63 bytes, and a text that may be exact.
const HEAD: usize = 64 + EXACT_MAX;
/// Bytes of a server's message that are kept: `application_name`, and its value.
const SERVER_HEAD: usize = 17 + 65;

/// A message that is arriving in pieces.
#[derive(Clone, Copy, Debug)]
struct Partial<const N: usize> {
    kind: u8,
    head: [u8; N],
    /// Bytes of the body so far, kept or not.
    len: usize,
}

impl<const N: usize> Partial<N> {
    const fn new() -> Self {
        Partial { kind: 0, head: [0; N], len: 0 }
    }

    fn begin(&mut self, kind: u8) {
        (self.kind, self.len) = (kind, 0);
    }

    fn feed(&mut self, data: &[u8]) {
        for (slot, &byte) in self.head.iter_mut().skip(self.len).zip(data) {
            *slot = byte;
        }
        self.len += data.len();
    }
}

/// The state of one connection: plain data of fixed size. See the [module](super) for its
/// guarantees.
///
/// Feed it every byte of both directions, in the order in which the server's calls returned. It
/// never panics and never allocates, whatever the bytes are.
#[derive(Clone, Debug)]
pub struct Session {
    phase: Phase,
    opaque: Option<Opaque>,
    /// The client asked for a replication log, and the server let it in or began to send one.
    asks_replication: bool,
    replication: bool,
    known: bool,
    /// Counts the identities of the connection.
    identities: u8,
    identity: Identity,
    startup: Startup,
    client: Frames,
    server: Frames,
    from_client: Partial<HEAD>,
    from_server: Partial<SERVER_HEAD>,
    mention: Mention,
    /// Complete requests that no ReadyForQuery has answered.
    owed: u32,
    /// For each of them, the latest in the lowest bit: whether a Sync ended it.
    ended_by_sync: u64,
    /// Requests answered, since the session began.
    answered: u32,
    /// Messages of the extended protocol came since the last Sync.
    open: bool,
    /// The client sends data for a COPY.
    copying_in: bool,
    /// A statement of the request being answered failed.
    failed: bool,
    in_transaction: bool,
    /// Executes of the arriving request, and executes already done of the request being answered.
    executes_sent: u16,
    executes_done: u16,
    /// What the statement of the latest Bind does.
    bound: super::locks::Op,
    locks: Locks,
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
            phase: Phase::Startup,
            opaque: None,
            asks_replication: false,
            replication: false,
            known: false,
            identities: 0,
            identity: Identity::new(),
            startup: Startup::new(),
            client: Frames::new(),
            server: Frames::new(),
            from_client: Partial::new(),
            from_server: Partial::new(),
            mention: Mention::new(),
            owed: 0,
            ended_by_sync: 0,
            answered: 0,
            open: false,
            copying_in: false,
            failed: false,
            in_transaction: false,
            executes_sent: 0,
            executes_done: 0,
            bound: super::locks::Op::None,
            locks: Locks::new(),
        }
    }

    /// Whether the server, if it reads now, reads a new request: all complete messages are
    /// answered. The server does not work on an incomplete message. False before the login is done
    /// and for an opaque session.
    pub fn at_boundary(&self) -> bool {
        self.opaque.is_none()
            && self.phase == Phase::Commands
            && self.owed == 0
            && !self.open
            && !self.copying_in
            && self.server.idle()
    }

    /// What the session is estimated to hold after all complete answers. A request in flight counts
    /// only once it is answered; until then it keeps its permit by running.
    pub fn holding(&self) -> Holding {
        self.locks.holding().with_if(Holding::TRANSACTION, self.in_transaction)
    }

    /// Requests answered since the session began; wraps around.
    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// Who the client is; `None` until the server let it in, and always under encryption.
    pub fn identity(&self) -> Option<&Identity> {
        self.known.then_some(&self.identity)
    }

    /// A number that differs after every change of [`identity`](Session::identity): when the server
    /// let the client in, and each time it reported another application name.
    pub fn identity_number(&self) -> u8 {
        self.identities
    }

    /// Why the connection cannot be followed, if it cannot.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// The TLS that both sides agreed on has begun. The bytes from here on are those inside it.
    pub fn inside_tls(&mut self) {
        if self.opaque == Some(Opaque::Tls) {
            self.opaque = None;
            self.phase = Phase::Startup;
            self.startup = Startup::new();
        }
    }

    /// Whether a replication log is sent to the client: the client asked for it at its login, and
    /// the server let it in. Asking is not enough, or any client could get past the gate by asking.
    pub fn replication(&self) -> bool {
        self.replication
    }

    /// For tests: all state that decides what later bytes mean. It is equal for two sessions that
    /// saw the same conversation, however it was cut.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        if self.opaque.is_some() {
            // Final: the state before it has no meaning any more.
            return format!("{:?}", self.opaque);
        }
        format!(
            "{:?}",
            (
                (self.phase, self.asks_replication, self.replication, self.known, self.identities),
                (self.identity, self.client.idle(), self.server.idle(), self.owed, self.answered),
                (self.open, self.copying_in, self.failed, self.in_transaction, self.bound),
                (self.executes_sent, self.executes_done, &self.locks),
            )
        )
    }

    fn lost(&mut self) {
        self.opaque = Some(Opaque::Desynchronized);
    }
}
