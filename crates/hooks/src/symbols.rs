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
    symbol("poll", "a permit kept while its client idles is lent out"),
    symbol("__poll_chk", "poll, as fortified builds call it"),
    symbol("ppoll", "poll, with another kind of time-out"),
    symbol("epoll_create", "an event loop is made"),
    symbol("epoll_create1", "an event loop is made"),
    symbol("epoll_ctl", "a client joins or leaves an event loop, or says what it waits for"),
    symbol(
        "epoll_wait",
        "events of sessions that must wait are held back; in a process for one connection, as poll",
    ),
    symbol("epoll_pwait", "epoll_wait, with a mask of signals"),
    symbol("epoll_pwait2", "epoll_wait, with another kind of time-out"),
    symbol("read", "recv; in an event loop: follow the requests"),
    symbol("__read_chk", "read, as fortified builds call it"),
    symbol("readv", "read, into several buffers"),
    symbol("recvfrom", "read, with flags"),
    symbol("__recvfrom_chk", "recvfrom, as fortified builds call it"),
    symbol("recvmsg", "read, into several buffers and with flags"),
    symbol("write", "follow the answer"),
    symbol("writev", "write, from several buffers"),
    symbol("sendmsg", "write, from several buffers and with flags"),
    symbol("sendto", "send, with an address"),
    symbol("sendmmsg", "sendmsg, several at once"),
    symbol("sendfile", "an answer that is a file"),
    symbol("sendfile64", "sendfile, as builds for large files call it"),
    symbol("splice", "an answer out of a pipe"),
    symbol("shutdown", "whoever waits on this connection is released"),
    symbol("SSL_set_fd", "the conversation goes on inside TLS"),
    symbol("SSL_accept", "the same, for a server that has its own way to the socket"),
    symbol("SSL_do_handshake", "the same"),
    symbol("SSL_read", "recv, inside TLS"),
    symbol("SSL_read_ex", "recv, inside TLS"),
    symbol("SSL_write", "send, inside TLS"),
    symbol("SSL_write_ex", "send, inside TLS"),
    symbol("close", "everything the connection held is given back"),
    symbol("close_range", "close, of many"),
    symbol("closefrom", "close, of all from one on"),
    symbol("dup2", "the descriptor that it replaces is closed"),
    symbol("dup3", "dup2, with flags"),
    symbol("open", "a file may be made; its descriptor is a new one"),
    symbol("open64", "open"),
    symbol("openat", "open, in a directory"),
    symbol("openat64", "openat"),
    symbol("creat", "a file is made"),
    symbol("creat64", "creat"),
    symbol("pread", "a read of a file that is not cached waits its turn"),
    symbol("pread64", "pread"),
    symbol("preadv", "pread, into several buffers"),
    symbol("preadv64", "preadv"),
    symbol("pwrite", "a write to a file waits its turn; its pages are noted"),
    symbol("pwrite64", "pwrite"),
    symbol("pwritev", "pwrite, from several buffers"),
    symbol("pwritev64", "pwritev"),
    symbol("fsync", "waits until it costs others no deadline"),
    symbol("fdatasync", "fsync, without times"),
    symbol("ftruncate", "dirty pages are given up"),
    symbol("ftruncate64", "ftruncate"),
    symbol("rename", "a metadata call waits its turn"),
    symbol("unlink", "a metadata call waits its turn"),
    symbol("mkdir", "a metadata call waits its turn"),
    symbol("pthread_cond_wait", "a request that sleeps for long lends its permit"),
    symbol("pthread_cond_timedwait", "pthread_cond_wait, with a time-out"),
    symbol("pthread_cond_clockwait", "pthread_cond_timedwait, by another clock"),
];
