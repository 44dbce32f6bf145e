//! The client's side of a session: where requests begin and end, and what their texts do.

use super::{ClientEvent, HEAD, Opaque, Partial, PassReason, Phase, Request, Session};
use crate::postgres::frames::{Piece, whole};
use crate::postgres::locks::{Mark, Op};
use crate::postgres::protocol::{front, until_nul};
use crate::postgres::startup::{Asks, Startup};
use crate::postgres::statement::{self, EXACT_MAX, Exact};

impl Session {
    /// Bytes that the server's `recv` returned.
    pub fn client_bytes(&mut self, bytes: &[u8]) -> ClientEvent {
        let mut rest = bytes;
        let mut event = ClientEvent::None;
        while self.opaque.is_none() && !rest.is_empty() {
            match self.phase {
                Phase::Over => return event,
                Phase::Startup => self.first_packet(&mut rest),
                // Bytes that came before the server agreed are not part of the encrypted stream.
                Phase::Encryption => self.lost(),
                Phase::Login | Phase::Commands => {
                    let Some(request) = self.next_message(&mut rest) else { continue };
                    if event == ClientEvent::None || request == Request::Gated {
                        event = ClientEvent::Request(request);
                    }
                }
            }
        }
        event
    }

    fn first_packet(&mut self, rest: &mut &[u8]) {
        let Some(asks) = self.startup.feed(rest) else { return };
        match asks {
            Asks::Encryption => {
                self.phase = Phase::Encryption;
                self.startup = Startup::new();
            }
            Asks::Session => {
                self.identity = self.startup.who();
                self.asks_replication = self.startup.replication();
                self.phase = Phase::Login;
            }
            Asks::Cancel | Asks::Nonsense => self.phase = Phase::Over,
            Asks::TlsAtOnce => self.opaque = Some(Opaque::Tls),
        }
    }

    /// Takes a message, or a part of one, off the front of `rest`.
    fn next_message(&mut self, rest: &mut &[u8]) -> Option<Request> {
        if self.client.idle()
            && let Some((kind, body, after)) = whole(rest)
        {
            *rest = after;
            if self.has_text(kind) {
                self.mention.begin();
                self.mention.feed(body);
            }
            return self.message(kind, body.get(..HEAD).unwrap_or(body), body.len() <= HEAD);
        }
        match self.client.next(rest)? {
            Piece::Invalid => self.lost(),
            Piece::Start { kind } => {
                self.from_client.begin(kind);
                self.mention.begin();
            }
            Piece::Data(data) => {
                self.from_client.feed(data);
                if self.has_text(self.from_client.kind) {
                    self.mention.feed(data);
                }
            }
        }
        if !self.client.take_end() {
            return None;
        }
        let Partial { kind, head, len } = self.from_client;
        self.message(kind, head.get(..len).unwrap_or(&head), len <= HEAD)
    }

    fn has_text(&self, kind: u8) -> bool {
        self.phase == Phase::Commands && matches!(kind, front::QUERY | front::PARSE)
    }

    /// A message is complete: its kind, the first [`HEAD`] bytes of its body, and whether that is
    /// `all` of it.
    fn message(&mut self, kind: u8, head: &[u8], all: bool) -> Option<Request> {
        if self.phase == Phase::Login {
            // A client that hangs up during the login sends nothing else.
            if !matches!(kind, front::PASSWORD | front::TERMINATE) {
                self.lost();
            }
            return None;
        }
        if self.copying_in {
            return self.message_while_copying(kind);
        }
        match kind {
            front::QUERY => return Some(self.query(head, all)),
            front::FUNCTION_CALL => {
                if takes_by_number(head) {
                    self.locks.takes_unseen();
                }
                self.request_ends(false);
            }
            front::SYNC => {
                let alone = !self.open;
                self.request_ends(true);
                return alone.then_some(Request::Pass(PassReason::Sync));
            }
            front::FLUSH => return (!self.open).then_some(Request::Pass(PassReason::Sync)),
            front::TERMINATE => return Some(Request::Pass(PassReason::Quit)),
            front::PARSE => self.parse(head, all),
            front::BIND => self.bind(head),
            front::EXECUTE => self.execute(),
            front::DESCRIBE => self.open = true,
            front::CLOSE => {
                self.open = true;
                if let Some((b'S', name)) = head.split_first() {
                    self.locks.closed(until_nul(name).0);
                }
            }
            // Late: the server has already ended the COPY, and drops them.
            front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => return None,
            _ => {
                self.lost();
                return None;
            }
        }
        Some(Request::Gated)
    }

    /// The server ignores Sync and Flush then.
    fn message_while_copying(&mut self, kind: u8) -> Option<Request> {
        match kind {
            front::COPY_DONE | front::COPY_FAIL => {
                self.copying_in = false;
                // In the extended protocol a Sync must follow.
                self.open |= self.owed == 0;
            }
            front::COPY_DATA | front::SYNC | front::FLUSH => {}
            front::TERMINATE => return Some(Request::Pass(PassReason::Quit)),
            // The server ends the COPY with an error, and drops even a Query.
            _ => self.open |= self.owed == 0,
        }
        None
    }

    fn query(&mut self, head: &[u8], all: bool) -> Request {
        let mentions = self.mention.finish();
        let exact = if all { exact_of(until_nul(head).0) } else { None };
        let alone = self.owed == 0 && !self.open;
        let op = Op::of(exact, mentions);
        self.locks.expect(Mark { request: self.arriving(), execute: None, op });
        self.request_ends(false);
        match exact {
            Some(Exact::Signal) if alone => Request::Pass(PassReason::Signal),
            Some(Exact::FinishPrepared) if alone => Request::Pass(PassReason::FinishPrepared),
            _ => Request::Gated,
        }
    }

    fn parse(&mut self, head: &[u8], all: bool) {
        self.open = true;
        let mentions = self.mention.finish();
        let (name, rest) = until_nul(head);
        let (text, parameters) = until_nul(rest);
        // Cut: the text, or even the name, may go on.
        let whole = all || !parameters.is_empty();
        let exact = if whole { exact_of(text) } else { None };
        self.locks.prepared(name, Op::of(exact, mentions));
    }

    fn bind(&mut self, head: &[u8]) {
        self.open = true;
        let (portal, rest) = until_nul(head);
        let (statement, _) = until_nul(rest);
        self.bound = self.locks.execution(statement);
        // Portals are not followed: which one an Execute means is unknown.
        if !portal.is_empty() && self.bound != Op::None {
            self.bound = Op::Takes;
        }
    }

    fn execute(&mut self) {
        self.open = true;
        let (request, execute) = (self.arriving(), Some(self.executes_sent));
        self.locks.expect(Mark { request, execute, op: self.bound });
        self.executes_sent = self.executes_sent.saturating_add(1);
    }

    /// Number of the request that is arriving.
    fn arriving(&self) -> u32 {
        self.answered.wrapping_add(self.owed)
    }

    fn request_ends(&mut self, by_sync: bool) {
        self.open = false;
        self.executes_sent = 0;
        self.owed = self.owed.saturating_add(1);
        self.ended_by_sync = self.ended_by_sync << 1 | u64::from(by_sync);
    }
}

fn exact_of(text: &[u8]) -> Option<Exact> {
    // Texts below this length are never cut, however the message arrives.
    if text.len() < EXACT_MAX { statement::parse(text) } else { None }
}

/// Whether a FunctionCall names a function that takes session locks. It does so by the numbers in
/// `pg_proc`, which are fixed.
fn takes_by_number(head: &[u8]) -> bool {
    let number = head.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    matches!(number, Some(2880..=2883 | 2886..=2889))
}
