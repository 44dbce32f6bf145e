//! The server's side of a session: the end of each answer, and what the connection holds after it.

use super::{HEAD, Phase, Session};
use crate::mysql::answer::{Answer, End, login_packet};
use crate::mysql::frames::whole;
use crate::mysql::locks::{Effect, Op, Takes};
use crate::mysql::pending::Entry;
use crate::mysql::protocol::status;

impl Session {
    pub(super) fn server_data(&mut self, data: &[u8]) {
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

    pub(super) fn server_packet(&mut self) {
        let head = self.head;
        let head = head.get(..usize::from(self.head_len)).unwrap_or(&[]);
        let failed = head.first() == Some(&0xFF);
        match self.phase {
            Phase::Refused => {}
            Phase::Greeting | Phase::Response | Phase::Authentication if failed => {
                self.phase = Phase::Refused
            }
            Phase::Greeting if self.greeting.version == 10 && self.greeting.complete() => {
                self.phase = Phase::Response
            }
            Phase::Greeting | Phase::Response => self.lost(),
            Phase::Authentication => {
                let verdict = login_packet(head, self.server_len);
                if verdict.end == End::Done {
                    self.phase = Phase::Commands;
                    self.status(verdict.status);
                }
            }
            Phase::Commands => match self.pending.front() {
                Some(entry) => self.answer_packet(entry, head, self.server_len),
                // The server tells an idle connection that it was killed or timed out.
                None if failed => {}
                None => self.lost(),
            },
        }
    }

    /// Takes whole packets that belong to an answer off the front of `bytes`, as nearly all do.
    /// None of them is copied. Packets that are cut are left to the incremental parser. Only while
    /// the server's side stands between packets.
    pub(super) fn whole_packets(&mut self, bytes: &mut &[u8]) {
        while self.opaque.is_none()
            && let Some(entry) = self.pending.front()
        {
            self.answer.skip(bytes);
            let Some((payload, rest)) = whole(bytes) else { return };
            *bytes = rest;
            // Less than 16 MiB, so it fits.
            self.answer_packet(entry, payload, payload.len() as u32);
        }
    }

    fn answer_packet(&mut self, entry: Entry, head: &[u8], len: u32) {
        let verdict = self.answer.packet(entry.expect, head, len, self.dialect);
        self.status(verdict.status);
        self.replication |=
            entry.effect.op == Op::Replicate && matches!(verdict.end, End::No | End::Done);
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
        if effect == Effect::NONE {
            return;
        }
        match effect.op {
            Op::Remember => self.locks.prepared(self.answer.statement(), effect.takes),
            // Of several in flight only the last one's names are known, and only its own answer
            // grants them.
            Op::ChangeUser if self.pending.logins() == 1 => {
                self.identity = self.asked;
                self.identities = self.identities.wrapping_add(1);
            }
            _ => {}
        }
        self.locks.succeeded(effect);
    }

    #[cold]
    fn failed(&mut self, effect: Effect, code: u16) {
        /// InnoDB rolls the whole transaction back.
        const ER_LOCK_DEADLOCK: u16 = 1213;
        // MariaDB reports a deadlock between user locks by the same code, and ends no transaction
        // then.
        let user_lock = effect.op == Op::GetLock || effect.takes.any(Takes::USER_LOCK);
        if code == ER_LOCK_DEADLOCK && !user_lock {
            self.in_transaction = false;
        }
        self.after_error |=
            !self.autocommit || effect.takes.any(Takes::MAY_BEGIN) && effect.op != Op::Remember;
        self.locks.failed(effect, code, self.answer.succeeded_before());
    }
}
