//! A client of memcached, in its text protocol.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

/// Bytes of the value that the crowd reads.
const VALUE: usize = 1000;
/// How often in one request: with that a thread of the server is at work for a while.
const READS: usize = 300;

/// One connection.
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Takes the connection.
    pub fn new(stream: TcpStream) -> Result<Client> {
        let mut client = Client(BufReader::with_capacity(1 << 16, stream));
        let set = format!("set crowd 0 0 {VALUE}\r\n{}", "x".repeat(VALUE));
        let stored = client.ask(&set)?;
        ensure!(stored == "STORED", "set: {stored}");
        Ok(client)
    }

    /// Sends a command and reads one line.
    pub fn ask(&mut self, command: &str) -> Result<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.strip_suffix("\r\n").context("the server hung up")?.to_owned())
    }

    /// Reads one value again and again, in one pipeline. Another client may flush it meanwhile.
    pub fn work(&mut self) -> Result<()> {
        self.0.get_mut().write_all(&b"get crowd\r\n".repeat(READS))?;
        for _ in 0..READS {
            while self.line()? != "END" {}
        }
        Ok(())
    }
}
