//! A client that says exactly what a test wants.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;

/// A connection with simple replies.
pub struct Raw {
    pub stream: UnixStream,
    cookie: u64,
}

impl Raw {
    pub fn open(socket: &Path, export: &str) -> Raw {
        Raw::try_open(socket, export).unwrap()
    }

    pub fn try_open(socket: &Path, export: &str) -> std::io::Result<Raw> {
        let mut stream = UnixStream::connect(socket)?;
        let mut hello = [0; 18];
        stream.read_exact(&mut hello)?;
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(b"IHAVEOPT");
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend((export.len() as u32).to_be_bytes());
        bytes.extend(export.as_bytes());
        stream.write_all(&bytes)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Raw { stream, cookie: 0 })
    }

    /// Sends a request and does not wait; its cookie.
    pub fn send(&mut self, command: u16, offset: u64, len: u32, payload: &[u8]) -> u64 {
        self.cookie += 1;
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(0_u16.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(payload);
        self.stream.write_all(&bytes).unwrap();
        self.cookie
    }

    /// The next answer: its cookie and its error.
    pub fn answer(&mut self) -> (u64, u32) {
        self.try_answer().unwrap()
    }

    pub fn try_answer(&mut self) -> std::io::Result<(u64, u32)> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
    }

    pub fn write(&mut self, offset: u64, byte: u8) {
        let cookie = self.send(WRITE, offset, 4096, &[byte; 4096]);
        assert_eq!(self.answer(), (cookie, 0));
    }

    pub fn flush(&mut self) {
        let cookie = self.send(FLUSH, 0, 0, &[]);
        assert_eq!(self.answer(), (cookie, 0));
    }

    /// The first byte of a block, whose bytes are all the same.
    pub fn read(&mut self, offset: u64) -> u8 {
        let cookie = self.send(READ, offset, 4096, &[]);
        assert_eq!(self.answer(), (cookie, 0));
        let mut block = [0; 4096];
        self.stream.read_exact(&mut block).unwrap();
        assert!(block.iter().all(|byte| *byte == block[0]), "a block is torn");
        block[0]
    }
}
