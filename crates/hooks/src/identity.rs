//! Who a connection is, as told at its login.

use core::fmt;
use core::sync::atomic::Ordering;
use headworks_region::layout::{Counter, Region};
use headworks_region::rules;
use headworks_region::session::SessionSlot;

/// A short string kept in place: up to 64 bytes. Longer input is cut (at a character's border when
/// shown).
///
/// 64 bytes hold any database name. A MariaDB account name may have 128 characters and is cut, so
/// two accounts with the same first 64 bytes share a class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InlineStr {
    bytes: [u8; InlineStr::CAPACITY],
    len: u8,
}

impl InlineStr {
    /// The greatest number of bytes kept.
    pub const CAPACITY: usize = 64;

    /// The empty string.
    pub const fn new() -> InlineStr {
        InlineStr { bytes: [0; InlineStr::CAPACITY], len: 0 }
    }

    /// The bytes as the client sent them, cut to the capacity.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The longest prefix that is valid UTF-8.
    pub fn as_str(&self) -> &str {
        let bytes = self.as_bytes();
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bytes
                .get(..error.valid_up_to())
                .and_then(|valid| core::str::from_utf8(valid).ok())
                .unwrap_or(""),
        }
    }

    /// Whether the client sent nothing for this field.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(usize::from(self.len)) {
            *slot = byte;
            self.len += 1;
        }
    }
}

impl Default for InlineStr {
    fn default() -> InlineStr {
        InlineStr::new()
    }
}

impl fmt::Debug for InlineStr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl fmt::Display for InlineStr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Who a connection is, read from the client's part of the login. A successful COM_CHANGE_USER
/// (MySQL) replaces it; the server's report (PostgreSQL) replaces the application's name alone.
///
/// The account is what the client claims. It is proven only once the connection reaches the command
/// phase. `database` is that of the login: a later `USE` does not change the class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub(crate) account: InlineStr,
    pub(crate) database: InlineStr,
    pub(crate) application: InlineStr,
}

impl Identity {
    /// An identity of empty fields.
    pub const fn new() -> Identity {
        Identity {
            account: InlineStr::new(),
            database: InlineStr::new(),
            application: InlineStr::new(),
        }
    }

    /// The account name without host, as the client sent it (at most 64 bytes).
    pub fn account(&self) -> &[u8] {
        self.account.as_bytes()
    }

    /// The initial database, empty if none was asked for (at most 64 bytes).
    pub fn database(&self) -> &[u8] {
        self.database.as_bytes()
    }

    /// The connection attribute `program_name` or the parameter `application_name`, empty if the
    /// client sends none (at most 64 bytes).
    pub fn application(&self) -> &[u8] {
        self.application.as_bytes()
    }
}

/// Writes down who a session is, and puts it into the class that the rules name.
pub(crate) fn apply_identity(region: &Region, session_id: u32, identity: &Identity) {
    let Some(slot) = region.session(session_id) else { return };
    slot.account.set(identity.account());
    slot.database.set(identity.database());
    slot.application.set(identity.application());
    assign_class(region, session_id);
}

/// Puts a session into the class that the rules name.
pub(crate) fn assign_class(region: &Region, session_id: u32) {
    let Some(slot) = region.session(session_id) else { return };
    let (verdict, epoch) = region.rules.classify(&identity_of(slot));
    if verdict.bypass {
        region.count(Counter::Administrator);
    }
    region.classify(session_id, verdict.class, verdict.bypass, epoch);
}

/// What the rules see of a session.
pub fn identity_of(slot: &SessionSlot) -> rules::Identity {
    rules::Identity {
        account: slot.account.get(),
        database: slot.database.get(),
        application: slot.application.get(),
        address: slot.address.get(),
        local_port: slot.local_port.load(Ordering::Relaxed),
    }
}
