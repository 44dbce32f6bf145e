//! The header that a proxy or load balancer sends before its client's own bytes (HAProxy, "The
//! PROXY protocol", versions 1 and 2). MariaDB reads it where `proxy_protocol_networks` allows.
//!
//! Each of several proxies may put one before what it passes on, and MariaDB takes one wherever a
//! packet of the login may begin. The last one that names an address counts. Whether the server
//! accepts a header is not known here. If it does not, it ends the connection.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest header of version 1, with its end of line.
const LINE_MAX: u16 = 107;
/// Length of the part of version 2 whose length is fixed.
const FIXED: u16 = 16;
/// Stands for the fields after a family that is unknown.
const IGNORED: u8 = 254;
const FAMILY: u8 = 2;
const ADDRESS: u8 = 4;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No header is arriving.
    Between,
    /// Version 1, a line of text: twice the number of the field that is arriving, and one more in
    /// the blanks after it.
    Text(u8),
    Binary,
}

/// Reads headers as they arrive. Plain data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyHeader {
    state: State,
    /// Bytes read.
    read: u16,
    /// Length of the whole header of version 2.
    length: u16,
    /// Of version 2: command, and family with transport.
    kind: [u8; 2],
    /// The client's address: text in version 1, bytes in version 2. IPv6 has 39 characters at most.
    address: [u8; 39],
    address_len: u8,
    /// The address that the headers before this one have named.
    named: Option<IpAddr>,
}

impl Default for ProxyHeader {
    fn default() -> ProxyHeader {
        ProxyHeader::new()
    }
}

impl ProxyHeader {
    /// No header.
    pub const fn new() -> ProxyHeader {
        ProxyHeader {
            state: State::Between,
            read: 0,
            length: FIXED,
            kind: [0; 2],
            address: [0; 39],
            address_len: 0,
            named: None,
        }
    }

    /// Begins to read one if the first four bytes of a packet are a header's; returns whether they
    /// are.
    pub fn begin(&mut self, first: [u8; 4]) -> bool {
        let state = match &first {
            b"PROX" => State::Text(0),
            b"\r\n\r\n" => State::Binary,
            _ => return false,
        };
        *self = ProxyHeader { state, read: 4, named: self.named, ..ProxyHeader::new() };
        true
    }

    /// Whether its end has not come.
    pub const fn reading(&self) -> bool {
        !matches!(self.state, State::Between)
    }

    /// Takes its bytes off the front of `bytes`; `None` if they are none of a header.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Option<()> {
        while self.reading() {
            let Some((&byte, rest)) = bytes.split_first() else { break };
            *bytes = rest;
            match self.state {
                State::Text(field) => self.text(field, byte)?,
                _ => self.binary(byte)?,
            }
        }
        Some(())
    }

    fn text(&mut self, field: u8, byte: u8) -> Option<()> {
        self.read += 1;
        if byte == b'\n' {
            self.end();
            return Some(());
        }
        if self.read >= LINE_MAX {
            return None;
        }
        // MariaDB takes any number of blanks of any kind, as `scanf` does.
        if byte.is_ascii_whitespace() {
            self.state = State::Text(field | 1);
            return Some(());
        }
        let begins = field & 1 == 1 && field < IGNORED;
        let field = if begins { field + 1 } else { field };
        self.state = State::Text(match field {
            FAMILY if begins && byte == b'U' => IGNORED,
            _ => field,
        });
        if field == ADDRESS {
            self.keep(byte);
        }
        Some(())
    }

    fn binary(&mut self, byte: u8) -> Option<()> {
        let at = self.read;
        self.read = at.checked_add(1)?;
        match at {
            4..12 if SIGNATURE.get(usize::from(at)) != Some(&byte) => return None,
            12 => self.kind[0] = byte,
            13 => self.kind[1] = byte,
            14 => self.length = u16::from(byte) << 8,
            15 => self.length = (self.length | u16::from(byte)).checked_add(FIXED)?,
            16..32 => self.keep(byte),
            _ => {}
        }
        if at >= 15 && self.read >= self.length {
            self.end();
        }
        Some(())
    }

    fn end(&mut self) {
        self.state = State::Between;
        self.named = self.address_in_this_one().or(self.named);
    }

    fn keep(&mut self, byte: u8) {
        if let Some(slot) = self.address.get_mut(usize::from(self.address_len)) {
            *slot = byte;
        }
        // Beyond the room it is no address any more.
        self.address_len = self.address_len.saturating_add(1);
    }

    /// The client's address, by the last header that named one. A proxy's own connections have
    /// headers without an address.
    pub const fn address(&self) -> Option<IpAddr> {
        self.named
    }

    fn address_in_this_one(&self) -> Option<IpAddr> {
        const PROXIED: u8 = 0x21;
        const TCP4: u8 = 0x11;
        const TCP6: u8 = 0x21;
        let kept = self.address.get(..usize::from(self.address_len))?;
        match self.kind {
            [PROXIED, TCP4] => Some(Ipv4Addr::from(*kept.first_chunk::<4>()?).into()),
            [PROXIED, TCP6] => Some(Ipv6Addr::from(*kept.first_chunk::<16>()?).into()),
            // Version 1 has no kind.
            [0, 0] => core::str::from_utf8(kept).ok()?.parse().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a stream in chunks: what comes after the header, and the address in it.
    fn read(stream: &[u8], chunk: usize) -> Option<(Vec<u8>, Option<IpAddr>)> {
        let (mut header, mut after) = (ProxyHeader::new(), Vec::new());
        let (first, rest) = stream.split_first_chunk()?;
        header.begin(*first).then_some(())?;
        for mut part in rest.chunks(chunk) {
            header.feed(&mut part)?;
            after.extend_from_slice(part);
        }
        (!header.reading()).then(|| (after, header.address()))
    }

    fn version2(kind: [u8; 2], body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &kind, &length, body].concat()
    }

    #[test]
    fn both_versions_name_the_client_however_they_are_cut() {
        let four: IpAddr = [10, 1, 2, 3].into();
        let six: IpAddr = "2001:db8::7".parse().unwrap();
        let IpAddr::V6(bytes) = six else { unreachable!() };
        let with_more = [&[10, 1, 2, 3, 127, 0, 0, 1, 1, 2, 3, 4][..], &[4, 0, 1, 9]].concat();
        for (header, address) in [
            (b"PROXY TCP4 10.1.2.3 127.0.0.1 4711 3306\r\n".to_vec(), Some(four)),
            (b"PROXY TCP6 2001:db8:0::7 ::1 4711 3306\r\n".to_vec(), Some(six)),
            (b"PROXY  TCP4\t10.1.2.3  127.0.0.1 4711 3306\r\n".to_vec(), Some(four)),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff:: ::1 1 2\r\n".to_vec(), None),
            (version2([0x21, 0x11], &with_more), Some(four)),
            (version2([0x21, 0x21], &[&bytes.octets()[..], &[0; 20]].concat()), Some(six)),
            (version2([0x20, 0], &[]), None),
            (version2([0x20, 0x11], &with_more), None),
            (version2([0x21, 0x31], &[b'/'; 216]), None),
            (version2([0x21, 0x11], &[1]), None),
        ] {
            for chunk in 1..=header.len() {
                let stream = [&header[..], b"login"].concat();
                let expected = Some((b"login".to_vec(), address));
                assert_eq!(read(&stream, chunk), expected, "{}", header.escape_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_header_is_told() {
        for stream in
            [&b"\r\n\r\nGET /"[..], b"\x4a\0\0\x01abc", &[&b"PROX"[..], &[b'Y'; 200]].concat()]
        {
            assert_eq!(read(stream, 3), None, "{}", stream.escape_ascii());
        }
        let mut header = ProxyHeader::new();
        assert!(header.begin(*b"PROX"));
        header.feed(&mut &b"Y UNKNOWN\r\n"[..]).unwrap();
        assert!(!header.reading());
    }

    #[test]
    fn the_last_header_that_names_an_address_counts() {
        let mut header = ProxyHeader::new();
        let local = version2([0x20, 0], &[]);
        for (bytes, address) in [
            (&b"PROXY TCP4 10.1.2.3 127.0.0.1 4711 3306\r\n"[..], [10, 1, 2, 3]),
            (&version2([0x21, 0x11], &[10, 9, 9, 9, 127, 0, 0, 1, 1, 2, 3, 4]), [10, 9, 9, 9]),
            (&local, [10, 9, 9, 9]),
            (b"PROXY UNKNOWN\r\n", [10, 9, 9, 9]),
            (b"PROXY TCP4 10.8.1.2 127.0.0.1 4711 3306\r\n", [10, 8, 1, 2]),
        ] {
            let (first, mut rest) = bytes.split_first_chunk().unwrap();
            assert!(header.begin(*first));
            header.feed(&mut rest).unwrap();
            assert!(!header.reading() && rest.is_empty());
            assert_eq!(header.address(), Some(address.into()), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it_and_no_cut_changes_it(
            second in any::<bool>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            chunk in 1usize..40,
        ) {
            let signature = if second { &SIGNATURE[..] } else { b"PROXY TCP4 " };
            let stream = [signature, &bytes].concat();
            prop_assert_eq!(read(&stream, chunk), read(&stream, 1));
        }
    }
}
