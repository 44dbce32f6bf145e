//! Where a conversation's bytes are seen: on the socket or at a TLS library ([`crate::tls`]).

/// Where the conversation's bytes are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// On the socket.
    #[default]
    Socket = 0,
    /// TLS was agreed on; which code does it is not known yet.
    Awaited = 1,
    /// At the TLS library.
    Library = 2,
}
