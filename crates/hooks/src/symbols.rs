//! Every symbol that the preloaded library exports.
//!
//! The list is the contract between the library, the doctor (which looks whether a server imports
//! what it needs) and the test that compares it with what the built library really exports.

/// One hooked function of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name as exported.
    pub name: &'static str,
    /// What the hook does there.
    pub does: &'static str,
}

const fn symbol(name: &'static str, does: &'static str) -> Symbol {
    Symbol { name, does }
}

/// See the module.
pub const SYMBOLS: &[Symbol] = &[
    symbol("accept", "a client has connected: give it a slot"),
    symbol("accept4", "a client has connected: give it a slot"),
    symbol("recv", "the last request is over; the next one has come and may wait here"),
    symbol("__recv_chk", "recv, as fortified builds call it"),
    symbol("send", "follow the answer: transaction and lock state"),
    symbol("poll", "a token kept while its client idles is lent out"),
    symbol("__poll_chk", "poll, as fortified builds call it"),
    symbol("ppoll", "poll, with another kind of time-out"),
    symbol("epoll_ctl", "where a backend waits for its client"),
    symbol("epoll_wait", "poll, for a server with a process for each connection"),
    symbol("shutdown", "whoever waits on this connection is released"),
    symbol("SSL_set_fd", "the conversation goes on inside TLS"),
    symbol("SSL_accept", "the same, for a server that has its own way to the socket"),
    symbol("SSL_do_handshake", "the same"),
    symbol("SSL_read", "recv, inside TLS"),
    symbol("SSL_read_ex", "recv, inside TLS"),
    symbol("SSL_write", "send, inside TLS"),
    symbol("SSL_write_ex", "send, inside TLS"),
    symbol("close", "everything the connection held is given back"),
];
