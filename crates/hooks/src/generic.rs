//! Framing for unknown protocols: data that arrives after an answer is a request.
//!
//! Problem. The gate must know when a request begins and ends, but sees only bytes come and go. The
//! primitive is one bit: whether the server has written anything since the request began. The first
//! bytes from the client begin a request. It is over when the server has written something and
//! reads again. Bytes that come before the answer's first belong to the request. What the server
//! sends unasked (a greeting, a notice) answers nothing.
//!
//! A server may write in a way that no hook sees. When it reads during a request, the kernel is
//! asked whether it has written ([`crate::traffic`]).
//!
//! Not visible here: who the client is, transactions, locks, and requests sent ahead (pipelining),
//! which count as one. A session that owns a lock may therefore be held; the stall detector then
//! helps.
//!
//! With TLS inside the server, the bytes are records (RFC 8446, section 5.1): one byte of type, two
//! of version, two of length. Only records of application data (type 23) begin a request, so no
//! session is held during a handshake of an older TLS version. The last records of a TLS 1.3
//! handshake look like data and count as a request.
//!
//! Example: `GET a` → begins; `VALUE` ← answered; the server reads: over; `GET b` → begins.

#![forbid(unsafe_code)]

/// Type of a record of application data.
const APPLICATION_DATA: u8 = 23;

/// Follows the TLS records of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Records {
    head: [u8; 5],
    have: u8,
    left: u16,
}

impl Records {
    /// Takes the next bytes; returns whether a record of application data is among them or
    /// continues.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut data = false;
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.left > 0 {
                let take = bytes.len().min(usize::from(self.left));
                // At most `left`, so it fits.
                self.left -= take as u16;
                data |= self.head[0] == APPLICATION_DATA;
                bytes = &bytes[take..];
                continue;
            }
            self.head[usize::from(self.have)] = byte;
            self.have += 1;
            bytes = rest;
            if self.have == 5 {
                self.have = 0;
                self.left = u16::from_be_bytes([self.head[3], self.head[4]]);
            }
        }
        data
    }
}

/// The state of one connection: plain data, a few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    asked: bool,
    answered: bool,
    /// The state of the records, where TLS is not read.
    records: Option<Records>,
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// A connection without any bytes yet.
    pub const fn new() -> Session {
        Session { asked: false, answered: false, records: None }
    }

    /// A connection on which TLS begins that is not read.
    pub fn of_records() -> Session {
        Session { records: Some(Records::default()), ..Session::new() }
    }

    /// Bytes that the server received; returns whether they begin a request.
    pub fn client_bytes(&mut self, bytes: &[u8]) -> bool {
        if bytes.is_empty() || !self.records.as_mut().is_none_or(|records| records.feed(bytes)) {
            return false;
        }
        let begins = !self.asked || self.answered;
        (self.asked, self.answered) = (true, false);
        begins
    }

    /// Bytes that the server sent.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        self.answered |= !bytes.is_empty();
    }

    /// The server sent something.
    pub fn answer(&mut self) {
        self.answered = true;
    }

    /// Whether no request is open when the server reads now.
    pub fn at_boundary(&self) -> bool {
        !self.asked || self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_begins_with_data_and_is_over_after_an_answer() {
        let mut session = Session::new();
        session.server_bytes(b"hello");
        assert!(session.at_boundary(), "a greeting answers nothing");
        assert!(session.client_bytes(b"GET"));
        assert!(!session.at_boundary());
        assert!(!session.client_bytes(b" a\n"), "the rest of it");
        assert!(!session.client_bytes(b""));
        session.server_bytes(b"VAL");
        session.server_bytes(b"UE\n");
        assert!(session.at_boundary());
        assert!(session.client_bytes(b"GET b\n"));
    }

    #[test]
    fn only_application_data_begins_a_request_however_the_records_are_cut() {
        let record = |kind: u8, length: usize| {
            let mut bytes = vec![kind, 3, 3, (length >> 8) as u8, length as u8];
            bytes.resize(5 + length, 0x17);
            bytes
        };
        let stream = [record(22, 300), record(20, 1), record(22, 40), record(23, 500)].concat();
        let data_at = stream.len() - 500;
        for size in [1, 3, 5, 7, 100, 1000] {
            let mut session = Session::of_records();
            let mut began = None;
            for (nth, chunk) in stream.chunks(size).enumerate() {
                session.server_bytes(b"");
                if session.client_bytes(chunk) {
                    assert!(began.is_none(), "once");
                    began = Some(nth * size + chunk.len());
                }
            }
            let began = began.unwrap();
            assert!(began > data_at && began <= data_at + size, "{size}: {began}, {data_at}");
        }
    }
}
