//! The server's side of a session: the end of each answer, and what the session holds after it.

use super::{Opaque, Partial, Phase, SERVER_HEAD, Session};
use crate::identity::InlineStr;
use crate::postgres::frames::{Piece, whole};
use crate::postgres::protocol::{back, until_nul};

impl Session {
    /// Bytes that the server's `send` accepted.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none() && !rest.is_empty() {
            match self.phase {
                Phase::Over => return,
                // An error that ends the connection before a session exists.
                Phase::Startup => self.phase = Phase::Over,
                Phase::Encryption => self.encryption(&mut rest),
                Phase::Login | Phase::Commands => self.next_answer(&mut rest),
            }
        }
    }

    fn encryption(&mut self, rest: &mut &[u8]) {
        let Some((&answer, after)) = rest.split_first() else { return };
        *rest = after;
        match answer {
            b'S' => self.opaque = Some(Opaque::Tls),
            b'G' => self.opaque = Some(Opaque::Encrypted),
            b'N' => self.phase = Phase::Startup,
            _ => self.phase = Phase::Over,
        }
    }

    fn next_answer(&mut self, rest: &mut &[u8]) {
        if self.server.idle()
            && let Some((kind, body, after)) = whole(rest)
        {
            *rest = after;
            self.answer(kind, body.get(..SERVER_HEAD).unwrap_or(body));
            return;
        }
        match self.server.next(rest) {
            None => return,
            Some(Piece::Invalid) => return self.lost(),
            Some(Piece::Start { kind }) => self.from_server.begin(kind),
            Some(Piece::Data(data)) => self.from_server.feed(data),
        }
        if self.server.take_end() {
            let Partial { kind, head, len } = self.from_server;
            self.answer(kind, head.get(..len).unwrap_or(&head));
        }
    }

    /// A message of the server is complete: its kind, and its body or the first bytes of it.
    fn answer(&mut self, kind: u8, head: &[u8]) {
        match kind {
            back::READY => self.ready(head),
            back::DATA_ROW => {
                if self.locks.watches() {
                    self.locks.row(head);
                }
            }
            back::COMMAND_COMPLETE | back::EMPTY_QUERY | back::PORTAL_SUSPENDED => {
                if self.oldest_is_extended() {
                    self.locks.executed(self.answered, self.executes_done);
                    self.executes_done = self.executes_done.saturating_add(1);
                }
            }
            back::ERROR => {
                self.failed = true;
                self.copy_ends_by_error();
            }
            back::COPY_IN => self.copy_begins(),
            back::COPY_BOTH => self.replication = true,
            back::PARAMETER_STATUS => self.parameter(head),
            other if back::OTHERS.contains(&other) => {}
            _ => self.lost(),
        }
    }

    fn ready(&mut self, head: &[u8]) {
        match head {
            [b'I'] => self.in_transaction = false,
            [b'T' | b'E'] => self.in_transaction = true,
            _ => return self.lost(),
        }
        if self.phase == Phase::Login {
            self.phase = Phase::Commands;
            self.known = true;
            self.identities = self.identities.wrapping_add(1);
            self.replication |= self.asks_replication;
            self.failed = false;
            return;
        }
        self.locks.answered(self.answered, self.failed);
        // After a failed COPY there may be one ReadyForQuery more than expected: see `copy_begins`.
        self.owed = self.owed.saturating_sub(1);
        self.answered = self.answered.wrapping_add(1);
        self.failed = false;
        self.copying_in = false;
        self.executes_done = 0;
    }

    /// Whether the request being answered is of the extended protocol, complete or not.
    fn oldest_is_extended(&self) -> bool {
        match self.owed {
            0 => self.open,
            owed @ 1..=64 => self.ended_by_sync >> (owed - 1) & 1 == 1,
            // A client that pipelines so many requests separates them by Syncs.
            _ => true,
        }
    }

    /// The server asks for data. It ignores each Sync that it reads from here on. That includes
    /// every Sync that has come, as it reads none before the COPY is done. Clients send the first
    /// Sync before they know that the statement is a COPY, and another one after the data.
    fn copy_begins(&mut self) {
        self.copying_in = true;
        if self.owed > 0 && self.oldest_is_extended() {
            self.owed = 0;
        }
    }

    fn copy_ends_by_error(&mut self) {
        if self.copying_in {
            self.copying_in = false;
            // The server skips everything up to a Sync that is still to come.
            self.open |= self.owed == 0;
        }
    }

    fn parameter(&mut self, head: &[u8]) {
        let (name, value) = until_nul(head);
        if name != b"application_name" {
            return;
        }
        let mut application = InlineStr::new();
        until_nul(value).0.iter().for_each(|&byte| application.push(byte));
        if self.identity.application != application {
            self.identity.application = application;
            if self.known {
                self.identities = self.identities.wrapping_add(1);
            }
        }
    }
}
