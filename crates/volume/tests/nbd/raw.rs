//! A client that can say anything.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use headworks_volume::nbd::export::Mode;
use headworks_volume::nbd::wire::{
    EXTENDED_REPLY_MAGIC, EXTENDED_REQUEST_MAGIC, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, chunk, command as cmd, option as opt, u16_at, u32_at, u64_at,
};

pub const MODES: [Mode; 3] = [Mode::Simple, Mode::Structured, Mode::Extended];

/// A reply, whatever its form.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub cookie: u64,
    /// Zero for success.
    pub error: u32,
    pub data: Vec<u8>,
    /// Lengths and flags.
    pub extents: Vec<(u64, u32)>,
}

/// An option.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// What a client sends to get to an export in a mode, with block status.
pub fn hello(mode: Mode, export: &str) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    match mode {
        Mode::Simple => {}
        Mode::Structured => bytes.extend(option(opt::STRUCTURED_REPLY, &[])),
        Mode::Extended => bytes.extend(option(opt::EXTENDED_HEADERS, &[])),
    }
    if mode != Mode::Simple {
        let mut data = string(export);
        data.extend(1_u32.to_be_bytes());
        data.extend(string("base:allocation"));
        bytes.extend(option(opt::SET_META_CONTEXT, &data));
    }
    let mut data = string(export);
    data.extend([0, 0]);
    bytes.extend(option(opt::GO, &data));
    bytes
}

/// A request without its payload.
pub fn request(mode: Mode, kind: u16, flags: u16, cookie: u64, offset: u64, len: u64) -> Vec<u8> {
    let extended = mode == Mode::Extended;
    let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
    let flags = if extended && kind == cmd::WRITE { flags | 32 } else { flags };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(len.to_be_bytes());
    } else {
        bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
    }
    bytes
}

pub struct Client {
    pub socket: UnixStream,
    pub mode: Mode,
    next: u64,
}

impl Client {
    /// Connects without a word.
    pub fn mute(path: &Path) -> UnixStream {
        let socket = UnixStream::connect(path).unwrap();
        // A test that waits in vain is to fail, not to hang.
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// Connects and takes an export.
    pub fn new(path: &Path, mode: Mode, export: &str) -> Client {
        let mut socket = Client::mute(path);
        socket.write_all(&hello(mode, export)).unwrap();
        read(&mut socket, 18).unwrap();
        let options = if mode == Mode::Simple { 1 } else { 3 };
        for _ in 0..options {
            loop {
                let head = read(&mut socket, 20).unwrap();
                read(&mut socket, u32_at(&head, 16).unwrap() as usize).unwrap();
                let kind = u32_at(&head, 12).unwrap();
                assert!(kind < 1 << 31, "the server refused with {kind:#x}");
                if kind == 1 {
                    break;
                }
            }
        }
        Client { socket, mode, next: 1 }
    }

    /// The same connection, for another thread that only sends.
    pub fn again(&self) -> Client {
        let socket = self.socket.try_clone().unwrap();
        Client { socket, mode: self.mode, next: self.next }
    }

    /// Sends a request and returns its cookie.
    pub fn send(&mut self, kind: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let mut bytes = request(self.mode, kind, flags, cookie, offset, len);
        bytes.extend(payload);
        self.socket.write_all(&bytes).unwrap();
        cookie
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, kind: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) -> Answer {
        let read = if kind == cmd::READ { len } else { 0 };
        let cookie = self.send(kind, flags, offset, len, payload);
        let answer = self.answer(read);
        assert_eq!(answer.cookie, cookie);
        answer
    }

    pub fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let answer = self.ask(cmd::READ, 0, offset, len, &[]);
        assert_eq!(answer.error, 0);
        assert_eq!(answer.data.len() as u64, len);
        answer.data
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.ask(cmd::WRITE, 0, offset, data.len() as u64, data).error, 0);
    }

    /// The next answer. A simple reply does not tell how many bytes follow: `read` of them, if it
    /// is the answer to a read that succeeded.
    pub fn answer(&mut self, read: u64) -> Answer {
        self.try_answer(read).expect("an answer")
    }

    pub fn try_answer(&mut self, read_len: u64) -> io::Result<Answer> {
        let socket = &mut self.socket;
        let mut head = read(socket, 16)?;
        let cookie = u64_at(&head, 8).unwrap();
        let magic = u32_at(&head, 0).unwrap();
        let mut answer = Answer { cookie, ..Answer::default() };
        if magic == SIMPLE_REPLY_MAGIC {
            assert_ne!(self.mode, Mode::Extended);
            answer.error = u32_at(&head, 4).unwrap();
            if answer.error == 0 {
                assert!(self.mode == Mode::Simple || read_len == 0, "a read gets a chunk");
                answer.data = read(socket, read_len)?;
            }
            return Ok(answer);
        }
        let extended = self.mode == Mode::Extended;
        assert_eq!(magic, if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
        head.extend(read(socket, if extended { 16_u64 } else { 4 })?);
        let len = if extended {
            u64_at(&head, 24).unwrap()
        } else {
            u64::from(u32_at(&head, 16).unwrap())
        };
        let payload = read(socket, len)?;
        assert_eq!(u16_at(&head, 4), Some(1), "this server answers in one chunk");
        match u16_at(&head, 6).unwrap() {
            chunk::NONE => assert!(payload.is_empty()),
            chunk::OFFSET_DATA => answer.data = payload[8..].to_vec(),
            chunk::ERROR => answer.error = u32_at(&payload, 0).unwrap(),
            chunk::BLOCK_STATUS => {
                let pairs = payload[4..].chunks_exact(8);
                let pair = |d: &[u8]| (u64::from(u32_at(d, 0).unwrap()), u32_at(d, 4).unwrap());
                answer.extents = pairs.map(pair).collect();
            }
            chunk::BLOCK_STATUS_EXT => {
                let pairs = payload[8..].chunks_exact(16);
                answer.extents =
                    pairs.map(|d| (u64_at(d, 0).unwrap(), u32_at(d, 12).unwrap())).collect();
            }
            other => panic!("a chunk of type {other}"),
        }
        Ok(answer)
    }

    /// Whether the server hung up.
    pub fn is_over(&mut self) -> bool {
        matches!(self.socket.read(&mut [0]), Ok(0))
    }
}

/// Exactly `len` bytes.
pub fn read(socket: &mut UnixStream, len: impl TryInto<usize>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len.try_into().unwrap_or_else(|_| panic!("too long"))];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}
