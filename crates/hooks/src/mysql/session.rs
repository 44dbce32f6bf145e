//! One connection: both directions of its bytes, the queue of its requests, and what it holds.

use super::answer::{Answer, End, Expect, login_packet};
use super::command::{Command, Request, RequestClass};
use super::frames::{Frames, Piece};
use super::holding::Holding;
use super::identity::Identity;
use super::locks::{Effect, Locks, Op, Takes};
use super::login::{Greeting, Login};
use super::pending::{Entry, Pending};
use super::protocol::{Dialect, caps, status};
use super::scan::Scan;

/// What the client's bytes meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// Nothing that concerns the gate (yet).
    None,
    /// A request began. Reported once per command, as soon as its class is certain: at the command byte, for COM_QUERY at the end of
    /// its first keyword, and at the end of the text if that keyword is KILL, SHUTDOWN or XA (a second statement would make it gated).
    Request(Request),
}

/// Why the bytes of a connection cannot be followed. Final.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// The client asked for TLS.
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

/// What the client packet that is arriving is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Skip,
    Response,
    File { empty: bool },
    /// A command whose first byte has not come.
    Command,
    Body(Command),
}

/// The bytes of a server packet that decide what it is: an OK packet's status ends at byte 21.
const HEAD: usize = 24;

/// The state of one connection, 1 KiB of plain data. See the [module](super) for what it promises.
///
/// Feed it every byte of both directions, in the order in which the server's calls returned. It never panics and
/// never allocates, whatever the bytes are.
#[derive(Clone, Debug)]
pub struct Session {
    phase: Phase,
    opaque: Option<Opaque>,
    dialect: Dialect,
    /// Texts may hold several statements. Once true it stays: COM_SET_OPTION toggles it, and looking too closely is harmless.
    multi: bool,
    query_attributes: bool,
    replication: bool,
    known: bool,
    in_transaction: bool,
    autocommit: bool,
    after_error: bool,
    client: Frames,
    server: Frames,
    route: Route,
    /// The class of the command that is arriving was reported.
    reported: bool,
    statement: [u8; 4],
    statement_have: u8,
    head: [u8; HEAD],
    head_len: u8,
    server_len: u32,
    greeting: Greeting,
    login: Login,
    identity: Identity,
    /// The identity that a COM_CHANGE_USER asks for, until the server agrees.
    asked: Identity,
    scan: Scan,
    pending: Pending,
    answer: Answer,
    locks: Locks,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// A connection of which no byte was seen.
    pub const fn new() -> Session {
        Session {
            phase: Phase::Greeting,
            opaque: None,
            dialect: Dialect::new(),
            multi: false,
            query_attributes: false,
            replication: false,
            known: false,
            in_transaction: false,
            autocommit: true,
            after_error: false,
            client: Frames::new(),
            server: Frames::new(),
            route: Route::Skip,
            reported: false,
            statement: [0; 4],
            statement_have: 0,
            head: [0; HEAD],
            head_len: 0,
            server_len: 0,
            greeting: Greeting::new(),
            login: Login::new(),
            identity: Identity::new(),
            asked: Identity::new(),
            scan: Scan::new(),
            pending: Pending::new(),
            answer: Answer::new(),
            locks: Locks::new(),
        }
    }

    /// Bytes that the server's `recv` returned. If a chunk holds several commands, the first gated one is
    /// reported, else the first; all of them are counted.
    pub fn client_bytes(&mut self, bytes: &[u8]) -> ClientEvent {
        let mut rest = bytes;
        let mut event = ClientEvent::None;
        while self.opaque.is_none() {
            let Some(piece) = self.client.next(&mut rest) else { break };
            let Some(request) = self.client_piece(piece) else { continue };
            let better = match event {
                ClientEvent::None => true,
                ClientEvent::Request(first) => first.class != RequestClass::Gated && request.class == RequestClass::Gated,
            };
            if better {
                event = ClientEvent::Request(request);
            }
        }
        event
    }

    /// Bytes that the server's `send` accepted.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none() {
            let Some(piece) = self.server.next(&mut rest) else { break };
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

    /// Whether the server, if it reads now, reads a new command: every answer is complete and both directions
    /// stand between packets. False before the login is done and for an opaque session.
    pub fn at_boundary(&self) -> bool {
        self.opaque.is_none() && self.phase == Phase::Commands && self.pending.is_empty() && self.client.idle() && self.server.idle()
    }

    /// The server came back to read at a boundary: drops what belonged to the finished requests.
    ///
    /// Lock state is already up to date: with pipelining it must follow each answer in order, so it is applied when
    /// the answer ends. Calling this twice, or away from a boundary, changes nothing.
    pub fn finish_request(&mut self) {
        if self.at_boundary() {
            self.scan.begin(false, false);
            self.answer = Answer::new();
        }
    }

    /// What the connection is estimated to hold after all answers that are complete; a request in flight
    /// counts only once it is answered (until then it owns its slot by executing).
    pub fn holding(&self) -> Holding {
        self.locks
            .holding()
            .with_if(Holding::TRANSACTION, self.in_transaction)
            .with_if(Holding::AUTOCOMMIT_OFF_AFTER_ERROR, self.after_error)
    }

    /// Who the client says it is; `None` until its handshake response was read, and always under TLS.
    pub fn identity(&self) -> Option<&Identity> {
        self.known.then_some(&self.identity)
    }

    /// Why the connection cannot be followed, if so.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// Whether the client acts as a replica: the server accepted a COM_REGISTER_SLAVE, COM_BINLOG_DUMP(_GTID) or
    /// COM_TABLE_DUMP. Asking is not enough, or any client could get past the gate by asking.
    pub fn replication(&self) -> bool {
        self.replication
    }

    fn lost(&mut self) {
        self.opaque = Some(Opaque::Desynchronized);
    }

    fn client_piece(&mut self, piece: Piece<'_>) -> Option<Request> {
        match piece {
            Piece::Start { len, sequence } => {
                self.route = self.client_route(len, sequence)?;
                None
            }
            Piece::Data(data) => self.client_data(data),
            Piece::End => self.client_end(),
        }
    }

    /// What a client packet is; `None` (and opaque) if it has no place here.
    fn client_route(&mut self, len: u32, sequence: u8) -> Option<Route> {
        let route = match self.phase {
            Phase::Response if sequence == 1 => {
                self.login.begin_response(self.greeting.capabilities);
                Some(Route::Response)
            }
            Phase::Authentication if sequence > 0 => Some(Route::Skip),
            Phase::Refused => Some(Route::Skip),
            Phase::Commands if self.answer.reads_file() && !self.pending.is_empty() => Some(Route::File { empty: len == 0 }),
            // A replica acknowledges events in its own packets (semi-synchronous replication).
            Phase::Commands if self.pending.front().is_some_and(|entry| entry.expect == Expect::Stream) => Some(Route::Skip),
            Phase::Commands if sequence == 0 => {
                self.reported = false;
                Some(Route::Command)
            }
            Phase::Commands if self.pending.iter().any(|entry| entry.expect == Expect::Login) => Some(Route::Skip),
            _ => None,
        };
        if route.is_none() {
            self.lost();
        }
        route
    }

    fn client_data(&mut self, data: &[u8]) -> Option<Request> {
        match self.route {
            Route::Response => {
                self.login.feed(data, &mut self.identity);
                None
            }
            Route::Command => {
                let (&byte, rest) = data.split_first()?;
                let begun = self.begin_command(Command(byte));
                let more = self.body(Command(byte), rest);
                begun.or(more)
            }
            Route::Body(command) => self.body(command, data),
            Route::Skip | Route::File { .. } => None,
        }
    }

    fn begin_command(&mut self, command: Command) -> Option<Request> {
        self.route = Route::Body(command);
        self.statement_have = 0;
        if let Some(expect) = command.answer()
            && !self.pending.open(expect)
        {
            self.lost();
        }
        match command {
            Command::QUERY => {
                self.scan.begin(self.multi, self.query_attributes);
                return None;
            }
            Command::STMT_PREPARE => self.scan.begin(self.multi, false),
            Command::CHANGE_USER => {
                self.asked = Identity::new();
                self.login.begin_change_user();
            }
            Command::SET_OPTION => self.multi = true,
            _ => {}
        }
        self.report(command, command.class())
    }

    fn report(&mut self, command: Command, class: RequestClass) -> Option<Request> {
        if core::mem::replace(&mut self.reported, true) {
            return None;
        }
        Some(Request { command, class })
    }

    fn body(&mut self, command: Command, data: &[u8]) -> Option<Request> {
        match command {
            Command::QUERY => {
                self.scan.feed(data);
                let class = self.scan.class_so_far()?;
                return self.report(command, class);
            }
            Command::STMT_PREPARE => self.scan.feed(data),
            Command::CHANGE_USER => self.login.feed(data, &mut self.asked),
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE | Command::STMT_CLOSE => {
                for &byte in data {
                    let Some(slot) = self.statement.get_mut(usize::from(self.statement_have)) else { break };
                    *slot = byte;
                    self.statement_have += 1;
                }
            }
            _ => {}
        }
        None
    }

    fn client_end(&mut self) -> Option<Request> {
        let route = core::mem::replace(&mut self.route, Route::Skip);
        match route {
            Route::Skip => None,
            Route::Response => {
                self.response_read();
                None
            }
            Route::File { empty } => {
                if empty {
                    self.answer.file_ended();
                }
                None
            }
            Route::Command => {
                // A server takes an empty packet for COM_SLEEP and answers with an error.
                let request = self.begin_command(Command::SLEEP);
                self.command_read(Command::SLEEP);
                request
            }
            Route::Body(command) => self.command_read(command),
        }
    }

    fn response_read(&mut self) {
        let (client, server) = (self.login.capabilities, self.greeting.capabilities);
        let both = client & server;
        if !self.login.has_capabilities() || client & caps::PROTOCOL_41 == 0 {
            // An old client: answers without status words. A TLS request has all 32 bytes of the fixed part.
            return self.lost();
        }
        if both & caps::SSL != 0 {
            self.opaque = Some(Opaque::Tls);
            return;
        }
        self.known = true;
        if both & (caps::COMPRESS | caps::ZSTD) != 0 {
            self.opaque = Some(Opaque::Compressed);
            return;
        }
        let cached = self.login.extended & self.greeting.extended & caps::EXTENDED_CACHE_METADATA != 0;
        let optional = both & caps::OPTIONAL_METADATA != 0;
        self.dialect = Dialect {
            deprecate_eof: both & caps::DEPRECATE_EOF != 0,
            metadata_flag: cached || optional,
            metadata_mysql: optional,
        };
        self.multi = client & caps::MULTI_STATEMENTS != 0;
        self.query_attributes = both & caps::QUERY_ATTRIBUTES != 0;
        self.phase = Phase::Authentication;
    }

    fn command_read(&mut self, command: Command) -> Option<Request> {
        let id = u32::from_le_bytes(self.statement);
        let effect = match command {
            Command::QUERY => {
                self.scan.finish();
                self.locks.dynamic |= self.scan.is_dynamic();
                self.scan.effect(self.locks.dynamic)
            }
            Command::STMT_PREPARE => {
                self.scan.finish();
                self.locks.dynamic |= self.scan.is_dynamic();
                self.prepare_effect()
            }
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE if self.statement_have == 4 => {
                // The statement may still be in preparation, its id guessed by the client.
                let preparing = self.pending.iter().filter(|entry| entry.effect.op == Op::Remember);
                let takes = preparing.fold(self.locks.execution(id), |takes, entry| takes.with(entry.effect.takes));
                Effect { takes, ..Effect::NONE }
            }
            Command::STMT_CLOSE if self.statement_have == 4 => {
                self.locks.closed(id);
                return None;
            }
            Command::RESET_CONNECTION => Effect { op: Op::Reset, ..Effect::NONE },
            Command::CHANGE_USER => Effect { op: Op::ChangeUser, ..Effect::NONE },
            _ if command.replicates() => Effect { op: Op::Replicate, ..Effect::NONE },
            _ => Effect::NONE,
        };
        if command.answer().is_some() {
            self.pending.close(effect);
        }
        if command == Command::QUERY { self.report(command, self.scan.class()) } else { None }
    }

    /// What a prepared text will take each time it is executed. Its releases are not believed, and its
    /// user locks not counted: a name may be a parameter.
    fn prepare_effect(&mut self) -> Effect {
        let text = self.scan.effect(self.locks.dynamic);
        let named = if text.op == Op::GetLock { Takes::USER_LOCK } else { Takes::NONE };
        let takes = text.takes.with(named);
        self.locks.preparing(takes);
        Effect { takes, op: Op::Remember, ..Effect::NONE }
    }

    fn server_data(&mut self, data: &[u8]) {
        if self.phase == Phase::Greeting {
            self.greeting.feed(data);
        }
        let have = usize::from(self.head_len);
        if have == 0
            && let Some(start) = data.first_chunk()
        {
            self.head = *start;
            self.head_len = HEAD as u8;
            return;
        }
        let free = self.head.get_mut(have..).unwrap_or(&mut []);
        let take = free.len().min(data.len());
        for (slot, &byte) in free.iter_mut().zip(data) {
            *slot = byte;
        }
        // At most HEAD, so it fits.
        self.head_len = (have + take) as u8;
    }

    fn server_packet(&mut self) {
        let head = self.head;
        let head = head.get(..usize::from(self.head_len)).unwrap_or(&[]);
        let failed = head.first() == Some(&0xFF);
        match self.phase {
            Phase::Refused => {}
            Phase::Greeting | Phase::Response | Phase::Authentication if failed => self.phase = Phase::Refused,
            Phase::Greeting if self.greeting.version == 10 && self.greeting.complete() => self.phase = Phase::Response,
            Phase::Greeting | Phase::Response => self.lost(),
            Phase::Authentication => {
                let verdict = login_packet(head, self.server_len);
                if verdict.end == End::Done {
                    self.phase = Phase::Commands;
                    self.status(verdict.status);
                }
            }
            Phase::Commands => match self.pending.front() {
                Some(entry) => self.answer_packet(entry, head),
                // An idle connection is told that it was killed or timed out.
                None if failed => {}
                None => self.lost(),
            },
        }
    }

    fn answer_packet(&mut self, entry: Entry, head: &[u8]) {
        let verdict = self.answer.packet(entry.expect, head, self.server_len, self.dialect);
        self.status(verdict.status);
        self.replication |= entry.effect.op == Op::Replicate && matches!(verdict.end, End::No | End::Done);
        match verdict.end {
            End::No => return,
            End::Invalid => return self.lost(),
            End::Done => self.succeeded(entry.effect),
            End::Failed(code) => self.failed(entry.effect, code),
        }
        self.pending.pop();
        self.answer = Answer::new();
    }

    fn status(&mut self, bits: Option<u16>) {
        let Some(bits) = bits else { return };
        self.in_transaction = bits & (status::IN_TRANS | status::IN_TRANS_READONLY) != 0;
        self.autocommit = bits & status::AUTOCOMMIT != 0;
        self.after_error = false;
    }

    fn succeeded(&mut self, effect: Effect) {
        match effect.op {
            Op::Remember => self.locks.prepared(self.answer.statement(), effect.takes),
            Op::ChangeUser => self.identity = self.asked,
            _ => {}
        }
        self.locks.succeeded(effect);
    }

    fn failed(&mut self, effect: Effect, code: u16) {
        /// InnoDB rolls the whole transaction back.
        const ER_LOCK_DEADLOCK: u16 = 1213;
        // MariaDB reports a deadlock between user locks by the same code, and ends no transaction then.
        let user_lock = effect.op == Op::GetLock || effect.takes.any(Takes::USER_LOCK);
        if code == ER_LOCK_DEADLOCK && !user_lock {
            self.in_transaction = false;
        }
        self.after_error |= !self.autocommit || effect.takes.any(Takes::MAY_BEGIN) && effect.op != Op::Remember;
        self.locks.failed(effect, code, self.answer.succeeded_before());
    }
}

const _: () = assert!(size_of::<Session>() <= 1024, "one session per file descriptor: keep it small");
