//! The client's side of a session: what each of its packets is, and what a command will do once it
//! is answered.

use super::{Phase, Route, Session};
use crate::identity::Identity;
use crate::mysql::answer::Expect;
use crate::mysql::command::{Command, Request, RequestClass};
use crate::mysql::frames::{Frames, Piece};
use crate::mysql::locks::{Effect, Op, Takes};
use crate::mysql::protocol::{Dialect, caps};
use crate::mysql::session::Opaque;

impl Session {
    pub(super) fn client_piece(&mut self, piece: Piece<'_>) -> Option<Request> {
        match piece {
            Piece::Start { len, sequence } if self.begins_with_proxy_header(len, sequence) => None,
            Piece::Start { len, sequence } => {
                self.route = self.client_route(len, sequence)?;
                None
            }
            Piece::Data(data) => self.client_data(data),
            Piece::End => self.client_end(),
        }
    }

    /// Whether what looks like a packet's start is that of a proxy's header. The server looks for
    /// one as long as the login lasts, also inside TLS. No packet of a login has these numbers.
    fn begins_with_proxy_header(&mut self, len: u32, sequence: u8) -> bool {
        let [a, b, c, _] = len.to_le_bytes();
        let begins =
            matches!(self.phase, Phase::Greeting | Phase::Response | Phase::Authentication)
                && self.proxy.begin([a, b, c, sequence]);
        if begins {
            self.client = Frames::new();
        }
        begins
    }

    pub(super) fn proxy_header(&mut self, rest: &mut &[u8]) {
        let before = self.proxy.address();
        if self.proxy.feed(rest).is_none() {
            self.lost();
        }
        if self.known && self.proxy.address() != before {
            self.identities = self.identities.wrapping_add(1);
        }
    }

    /// The kind of a client packet; `None` (and opaque) if it is not expected here.
    fn client_route(&mut self, len: u32, sequence: u8) -> Option<Route> {
        let route = match self.phase {
            // The request for TLS had number 1.
            Phase::Response if sequence == 1 + u8::from(self.inside_tls) => {
                self.login.begin_response(self.greeting.capabilities);
                Some(Route::Response)
            }
            Phase::Authentication if sequence > 0 => Some(Route::Skip),
            Phase::Refused => Some(Route::Skip),
            Phase::Commands if self.answer.reads_file() && !self.pending.is_empty() => {
                Some(Route::File { empty: len == 0 })
            }
            // A replica acknowledges events in its own packets (semi-synchronous replication).
            Phase::Commands
                if self.pending.front().is_some_and(|entry| entry.expect == Expect::Stream) =>
            {
                Some(Route::Skip)
            }
            Phase::Commands if sequence == 0 => {
                self.reported = false;
                Some(Route::Command)
            }
            Phase::Commands if self.pending.iter().any(|entry| entry.expect == Expect::Login) => {
                Some(Route::Skip)
            }
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
                if self.opaque.is_some() {
                    return begun;
                }
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
                    let Some(slot) = self.statement.get_mut(usize::from(self.statement_have))
                    else {
                        break;
                    };
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
            // An old client: its answers have no status words. A TLS request has all 32 bytes of
            // the fixed part.
            return self.lost();
        }
        if both & caps::SSL != 0 && !self.inside_tls {
            self.opaque = Some(Opaque::Tls);
            return;
        }
        self.known = true;
        self.identities = self.identities.wrapping_add(1);
        if both & (caps::COMPRESS | caps::ZSTD) != 0 {
            self.opaque = Some(Opaque::Compressed);
            return;
        }
        let cached =
            self.login.extended & self.greeting.extended & caps::EXTENDED_CACHE_METADATA != 0;
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
                // The statement may still be in preparation, and the client may have guessed its
                // id.
                let preparing = self.pending.iter().filter(|entry| entry.effect.op == Op::Remember);
                let takes = preparing
                    .fold(self.locks.execution(id), |takes, entry| takes.with(entry.effect.takes));
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

    /// What a prepared text takes each time it is executed. Its releases do not count, and its user
    /// locks are not counted by name: a name may be a parameter.
    fn prepare_effect(&mut self) -> Effect {
        let text = self.scan.effect(self.locks.dynamic);
        let named = if text.op == Op::GetLock { Takes::USER_LOCK } else { Takes::NONE };
        let takes = text.takes.with(named);
        self.locks.preparing(takes);
        Effect { takes, op: Op::Remember, ..Effect::NONE }
    }
}
