//! A client that says exactly what a test wants.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
/// A note between programs of ours.
pub const NOTE: u16 = 0x4857;

const IHAVEOPT: &[u8; 8] = b"IHAVEOPT";
const EXPORT_NAME: u32 = 1;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const ACK: u32 = 1;

/// A stream of either kind.
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub fn try_clone(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    pub fn shutdown(&self, how: Shutdown) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        }
    }

    pub fn set_write_timeout(&self, time: Duration) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(Some(time)),
            Stream::Tcp(stream) => stream.set_write_timeout(Some(time)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A connection. One that names a session gets replies in chunks, others simple ones.
pub struct Raw {
    pub stream: Stream,
    cookie: u64,
    /// Bytes that each read waits for.
    reads: BTreeMap<u64, u32>,
    /// The first byte of the last answered read, whose bytes are all the same.
    byte: u8,
}

fn option(stream: &mut Stream, number: u32, data: &[u8]) -> std::io::Result<()> {
    let mut bytes = IHAVEOPT.to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// Reads the answers to an option up to the last one; false if that is an error.
fn acknowledged(stream: &mut Stream) -> std::io::Result<bool> {
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
        let len = u32::from_be_bytes(head[16..].try_into().unwrap());
        stream.read_exact(&mut vec![0; len as usize])?;
        if kind == ACK || kind >> 31 != 0 {
            return Ok(kind == ACK);
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

impl Raw {
    pub fn open(socket: &Path, export: &str) -> Raw {
        Raw::try_open(socket, export).unwrap()
    }

    pub fn try_open(socket: &Path, export: &str) -> std::io::Result<Raw> {
        Raw::over(Stream::Unix(UnixStream::connect(socket)?), export, None)
    }

    pub fn tcp(address: SocketAddr, export: &str) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw::over(Stream::Tcp(stream), export, None).unwrap()
    }

    /// As a program of ours, with a session.
    pub fn ours(socket: &Path, export: &str, session: &str) -> Raw {
        let stream = Stream::Unix(UnixStream::connect(socket).unwrap());
        Raw::over(stream, export, Some(session)).unwrap()
    }

    fn over(mut stream: Stream, export: &str, session: Option<&str>) -> std::io::Result<Raw> {
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&3_u32.to_be_bytes())?;
        match session {
            None => {
                option(&mut stream, EXPORT_NAME, export.as_bytes())?;
                stream.read_exact(&mut [0; 10])?;
            }
            Some(session) => {
                option(&mut stream, STRUCTURED_REPLY, &[])?;
                assert!(acknowledged(&mut stream)?);
                let mut query = text(export);
                query.extend(1_u32.to_be_bytes());
                query.extend(text(&format!("x-headworks:session={session}")));
                option(&mut stream, SET_META_CONTEXT, &query)?;
                assert!(acknowledged(&mut stream)?);
                let mut go = text(export);
                go.extend(0_u16.to_be_bytes());
                option(&mut stream, GO, &go)?;
                assert!(acknowledged(&mut stream)?);
            }
        }
        Ok(Raw { stream, cookie: 0, reads: BTreeMap::new(), byte: 0 })
    }

    /// The same connection: one thread sends, and another one reads the answers.
    pub fn copy(other: &Raw) -> Raw {
        let stream = other.stream.try_clone().unwrap();
        Raw { stream, cookie: 0, reads: BTreeMap::new(), byte: 0 }
    }

    /// An answer without an error, and so many bytes.
    pub fn skip_answer(&mut self, bytes: u32) -> std::io::Result<()> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        if head[4..8] != [0; 4] {
            return Err(std::io::Error::other("the store answers with an error"));
        }
        let mut from = (&mut self.stream).take(bytes.into());
        let count = std::io::copy(&mut from, &mut std::io::sink())?;
        if count < bytes.into() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Sends a request and does not wait; its cookie.
    pub fn send(&mut self, command: u16, offset: u64, len: u32, payload: &[u8]) -> u64 {
        self.try_send(command, offset, len, payload).unwrap()
    }

    pub fn try_send(
        &mut self,
        command: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> std::io::Result<u64> {
        self.cookie += 1;
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(0_u16.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(payload);
        if command == READ {
            self.reads.insert(self.cookie, len);
        }
        self.stream.write_all(&bytes)?;
        Ok(self.cookie)
    }

    /// The next answer: its cookie and its error.
    pub fn answer(&mut self) -> (u64, u32) {
        self.try_answer().unwrap()
    }

    pub fn try_answer(&mut self) -> std::io::Result<(u64, u32)> {
        let mut error = 0;
        loop {
            let mut head = [0; 16];
            self.stream.read_exact(&mut head)?;
            let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
            let word = u32::from_be_bytes(head[4..8].try_into().unwrap());
            if head[..4] == 0x6744_6698_u32.to_be_bytes() {
                let wanted = self.reads.remove(&cookie).filter(|_| word == 0);
                if let Some(wanted) = wanted {
                    self.take(wanted)?;
                }
                return Ok((cookie, word));
            }
            assert_eq!(head[..4], 0x668e_33ef_u32.to_be_bytes());
            let mut len = [0; 4];
            self.stream.read_exact(&mut len)?;
            let len = u32::from_be_bytes(len);
            match word as u16 {
                1 => {
                    self.stream.read_exact(&mut [0; 8])?;
                    self.take(len - 8)?;
                }
                kind => {
                    let mut words = vec![0; len as usize];
                    self.stream.read_exact(&mut words)?;
                    if kind >> 15 != 0 {
                        error = u32::from_be_bytes(words[..4].try_into().unwrap());
                    }
                }
            }
            if word >> 16 & 1 != 0 {
                self.reads.remove(&cookie);
                return Ok((cookie, error));
            }
        }
    }

    fn take(&mut self, len: u32) -> std::io::Result<()> {
        let mut block = vec![0; len as usize];
        self.stream.read_exact(&mut block)?;
        assert!(block.iter().all(|byte| *byte == block[0]), "a block is torn");
        self.byte = block[0];
        Ok(())
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
        self.byte
    }

    /// The same of many, asked for at once.
    pub fn read_all(&mut self, offsets: &[u64]) -> Vec<u8> {
        let at: BTreeMap<u64, usize> = offsets
            .iter()
            .enumerate()
            .map(|(at, offset)| (self.send(READ, *offset, 4096, &[]), at))
            .collect();
        let mut bytes = vec![0; offsets.len()];
        for _ in offsets {
            let (cookie, error) = self.answer();
            assert_eq!(error, 0);
            bytes[at[&cookie]] = self.byte;
        }
        bytes
    }
}
