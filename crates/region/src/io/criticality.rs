//! Who is foreground: whether a client waits for what the calling thread does (RCP, section 4.1).

use super::account::{AccountSlot, GUESSED};
use super::layout::IoRegion;
use super::notes::Blocker;
use super::rules::Foreground;
use super::waits::ClientWait;
use crate::lock::thread_id;
use crate::text::Text;
use crate::{clock, thread};
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Criticality};

impl IoRegion {
    /// Whether a client waits for what the calling thread does, whose account this is.
    pub fn criticality(&self, account: Account) -> Criticality {
        if !self.control.kind().puts_clients_first() {
            return Criticality::Critical;
        }
        if self.is_foreground(account) {
            return Criticality::Critical;
        }
        let slot = self.accounts.get(usize::from(account));
        let until = slot.map_or(0, |slot| slot.inherits_until_ns.load(Relaxed));
        match (until > clock::now().0, until & GUESSED != 0) {
            (true, false) => Criticality::Critical,
            (true, true) => Criticality::Guessed,
            (false, _) => Criticality::Background,
        }
    }

    /// Whether the scheduler may hold calls of the calling thread, whose account this is, since no
    /// client waits for them.
    pub fn is_background(&self, account: Account) -> bool {
        self.criticality(account) == Criticality::Background
    }

    /// Whether the calling thread, whose account this is, serves a client itself.
    pub(super) fn is_foreground(&self, account: Account) -> bool {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return true };
        // The operator's rules stand above what the program says of itself.
        let (in_background, said) =
            thread::with(|words| (words.background.get(), words.role.get()));
        match Foreground::from_word(slot.foreground_by_rule.load(Relaxed)) {
            Foreground::Yes => return true,
            Foreground::No => return false,
            Foreground::ByGate => {}
        }
        match said {
            _ if in_background => false,
            thread::DECLARED_FOREGROUND | thread::SERVES_CLIENTS | thread::SERVES_UNSEEN => true,
            thread::DECLARED_BACKGROUND => false,
            // Without a gate that knows, only threads that are said to be are background. Threads
            // beyond all accounts have no rules.
            _ => account == 0 || !self.control.gate_knows(),
        }
    }

    /// Whether the calling thread waits for work: a thread of the server's between two connections,
    /// or one that a rule names between two jobs. A background thread does not: it has work.
    pub(super) fn idles(&self, slot: &AccountSlot, on: Blocker) -> bool {
        let (serving, said) = thread::with(|words| (words.serving.get() != 0, words.role.get()));
        let idle = match said {
            thread::DECLARED_FOREGROUND | thread::SERVES_UNSEEN => false,
            thread::SERVES_CLIENTS => !serving && self.control.gate_knows(),
            _ => Foreground::from_word(slot.foreground_by_rule.load(Relaxed)) == Foreground::Yes,
        };
        idle && on == Blocker::Condition
    }

    /// The calling thread's session is one of the background: what is known of its last call does
    /// not hold for the next one.
    pub fn turns_to_background(&self) {
        let account = thread::with(|words| words.account.get());
        let own = |slot: &&AccountSlot| slot.tid.load(Relaxed) == thread_id();
        if let Some(slot) = self.accounts.get(usize::from(account)).filter(own) {
            slot.foreground.store(0, Relaxed);
        }
    }

    /// A wait of the calling thread, whose account this is; `None` if it serves no client itself. A
    /// thread that inherits does not count: the client's own thread does.
    pub(super) fn client_wait(
        &self,
        account: Account,
        cause: usize,
        began: Nanos,
        took: Nanos,
    ) -> Option<ClientWait> {
        let session = thread::with(|words| words.session.get()).checked_sub(1);
        let serves = match self.control.kind().puts_clients_first() {
            true => self.is_foreground(account),
            false => session.is_some(),
        };
        let slot = self.accounts.get(usize::from(account));
        serves.then(|| ClientWait {
            number: 0,
            session,
            thread: slot.map_or(0, |slot| slot.tid.load(Relaxed)),
            cause: cause as u32,
            holder: 0,
            done: 0,
            began,
            took,
            held: Nanos(0),
            of: Text::EMPTY,
        })
    }
}
