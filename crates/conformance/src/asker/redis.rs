//! A client of Redis, in RESP2.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

/// One connection.
pub struct Client(BufReader<TcpStream>);

/// What a command was answered.
pub enum Reply {
    /// A text, a number, or several of them with a space between.
    Value(String),
    /// An error; the connection goes on.
    Error(String),
}

impl Client {
    /// Names the connection.
    pub fn new(stream: TcpStream, name: &str) -> Result<Client> {
        let mut client = Client(BufReader::new(stream));
        client.ask(&format!("CLIENT SETNAME {name}"))?;
        Ok(client)
    }

    /// Sends a command, whose words are separated by spaces; an error as an answer is an error.
    pub fn ask(&mut self, command: &str) -> Result<String> {
        match self.converse(command)? {
            Reply::Value(value) => Ok(value),
            Reply::Error(text) => bail!("{command}: {text}"),
        }
    }

    /// Sends a command and takes any answer.
    pub fn converse(&mut self, command: &str) -> Result<Reply> {
        let words: Vec<&str> = command.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(bytes.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").context("the server hung up")?;
        let (kind, rest) = line.split_at_checked(1).context("an empty line")?;
        Ok(Reply::Value(match kind {
            "+" | ":" => rest.to_owned(),
            "-" => return Ok(Reply::Error(rest.to_owned())),
            "$" => self.bulk(rest.parse()?)?,
            "*" => {
                let mut values = Vec::new();
                for _ in 0..rest.parse::<i64>()?.max(0) {
                    match self.reply()? {
                        Reply::Value(value) | Reply::Error(value) => values.push(value),
                    }
                }
                values.join(" ")
            }
            _ => bail!("not RESP2: {line}"),
        }))
    }

    /// Of no length is none.
    fn bulk(&mut self, length: i64) -> Result<String> {
        let Ok(length) = usize::try_from(length) else { return Ok(String::new()) };
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
