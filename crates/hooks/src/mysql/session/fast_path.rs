//! Commands that arrive whole between two requests, as nearly all do. They are read at once,
//! without copying.
//!
//! Only clear cases are decided here. Everything else is left to the incremental parser. Tests
//! check that both agree.

use super::Session;
use crate::mysql::answer::Expect;
use crate::mysql::command::{Command, Request, RequestClass};
use crate::mysql::fast_path;
use crate::mysql::locks::Effect;
use crate::mysql::pending::Entry;
use crate::mysql::protocol::FULL_PACKET;

impl Session {
    /// Takes a packet that is a whole command; `None`, with nothing changed, if the incremental
    /// parser must decide.
    pub(super) fn whole_command(&mut self, header: [u8; 4], payload: &[u8]) -> Option<Request> {
        let len = u32::from_le_bytes(header);
        // With the sequence number 0 the header is the length.
        if len as usize != payload.len() || len >= FULL_PACKET || !self.at_boundary() {
            return None;
        }
        let (&byte, body) = payload.split_first()?;
        let command = Command(byte);
        let (expect, effect, class) = match command {
            Command::QUERY if !self.query_attributes => {
                (Expect::Results, fast_path::effect(body, self.multi)?, RequestClass::Gated)
            }
            Command::STMT_EXECUTE => {
                let takes = self.locks.execution(u32::from_le_bytes(*body.first_chunk()?));
                (Expect::Execution, Effect { takes, ..Effect::NONE }, RequestClass::Gated)
            }
            Command::PING => (Expect::One, Effect::NONE, command.class()),
            _ => return None,
        };
        self.pending.only(Entry { expect, effect });
        Some(Request { command, class })
    }
}
