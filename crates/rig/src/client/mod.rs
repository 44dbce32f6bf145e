//! A raw MySQL client: the test controls every byte, and has convenient calls for everything else.
//!
//! The client buffers nothing beyond the packet it reads. It never compresses, never encrypts, and
//! sends nothing unasked: a dropped [`Client`] just closes its socket, without `COM_QUIT`. Accounts
//! must have an empty password.

mod answer;
mod error;
mod options;
mod stream;

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

pub use answer::{Answer, Statement};
use answer::{binary_row, column_definition, eof_packet, ok_packet, server_error, text_row};
pub use error::ClientError;
pub use options::{Address, ConnectOptions};
pub use stream::Stream;

use crate::wire::{Fields, capability, command, packet, put_encoded, status};

/// Flags that every connection asks for.
const BASIC: u32 = capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS;

/// The largest payload of one packet; longer ones continue in the next.
const PACKET_BYTES_MAX: usize = 0xff_ffff;

/// A connection that has logged in.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    capabilities: u32,
    connection_id: u32,
    server_version: String,
    sequence: u8,
    local_file: Vec<u8>,
}

impl Client {
    /// Connects and logs in.
    pub fn connect(options: &ConnectOptions) -> Result<Self, ClientError> {
        let mut client = Self {
            stream: Stream::open(options)?,
            capabilities: 0,
            connection_id: 0,
            server_version: String::new(),
            sequence: 0,
            local_file: Vec::new(),
        };
        let offered = client.read_greeting()?;
        client.capabilities = (BASIC | options.capabilities) & offered;
        client.log_in(options)?;
        Ok(client)
    }

    fn read_greeting(&mut self) -> Result<u32, ClientError> {
        let greeting = self.read_packet()?;
        if greeting.first() == Some(&0xff) {
            return Err(server_error(&greeting));
        }
        let mut fields = Fields(&greeting);
        if fields.byte()? != 10 {
            return Err(ClientError::Protocol("the server does not greet in protocol version 10"));
        }
        self.server_version = String::from_utf8_lossy(fields.until_nul()).into_owned();
        self.connection_id = fields.u32()?;
        fields.take(9)?; // the first part of the scramble, which an empty password does not need
        let low = fields.u16()?;
        fields.take(3)?; // character set, status
        let high = fields.u16()?;
        Ok(u32::from(low) | u32::from(high) << 16)
    }

    fn log_in(&mut self, options: &ConnectOptions) -> Result<(), ClientError> {
        let mut flags = self.capabilities;
        flags |= if options.database.is_some() { capability::CONNECT_WITH_DB } else { 0 };
        let mut body = Vec::new();
        body.extend_from_slice(&flags.to_le_bytes());
        body.extend_from_slice(&(1_u32 << 30).to_le_bytes()); // largest packet accepted
        body.push(45); // utf8mb4
        body.extend_from_slice(&[0; 23]);
        body.extend_from_slice(options.account.as_bytes());
        body.extend_from_slice(&[0, 0]); // end of the account; an empty authentication response
        if let Some(database) = &options.database {
            body.extend_from_slice(database.as_bytes());
            body.push(0);
        }
        body.extend_from_slice(b"mysql_native_password\0");
        if flags & capability::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            for (name, value) in &options.attributes {
                put_encoded(&mut attributes, name.as_bytes());
                put_encoded(&mut attributes, value.as_bytes());
            }
            put_encoded(&mut body, &attributes);
        }
        self.write_packet(&body)?;
        loop {
            let answer = self.read_packet()?;
            match answer.first() {
                Some(0x00) => return Ok(()),
                Some(0xfe) => self.write_packet(&[])?, // another plugin: an empty password stays empty
                Some(0xff) => return Err(server_error(&answer)),
                _ => return Err(ClientError::Protocol("an unexpected answer to the login")),
            }
        }
    }

    /// The server's id of this connection, as in `KILL id`.
    pub fn connection_id(&self) -> u32 {
        self.connection_id
    }

    /// The version in the server's greeting.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// The capability flags in force.
    pub fn capabilities(&self) -> u32 {
        self.capabilities
    }

    /// The socket, to read, write, shut down or measure it directly.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// How long one read may wait; `None` waits for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// What `LOAD DATA LOCAL` sends, whatever file it names. Empty at first.
    pub fn set_local_file(&mut self, content: &[u8]) {
        self.local_file = content.to_vec();
    }

    /// Runs a text statement and reads everything the server answers; returns the last of several
    /// results.
    pub fn query(&mut self, sql: &str) -> Result<Answer, ClientError> {
        self.send_query(sql)?;
        self.read_answer()
    }

    /// Runs a text of several statements ([`capability::MULTI_STATEMENTS`]) and returns all their
    /// results.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<Answer>, ClientError> {
        self.send_query(sql)?;
        self.read_answers()
    }

    /// Sends a statement without waiting for its answer.
    pub fn send_query(&mut self, sql: &str) -> Result<(), ClientError> {
        self.send_command(command::QUERY, sql.as_bytes())
    }

    /// Sends any command without waiting for its answer.
    pub fn send_command(&mut self, command: u8, body: &[u8]) -> Result<(), ClientError> {
        self.send_raw(&packet(command, body))?;
        self.sequence = 1;
        Ok(())
    }

    /// Reads everything that belongs to one command and returns the last result.
    pub fn read_answer(&mut self) -> Result<Answer, ClientError> {
        self.read_answers().map(|mut answers| answers.pop().unwrap_or_default())
    }

    /// Reads everything that belongs to one command.
    pub fn read_answers(&mut self) -> Result<Vec<Answer>, ClientError> {
        self.read_results(false)
    }

    /// Whether bytes of the server arrive within this time. Consumes none; a closed connection
    /// counts as readable.
    pub fn readable_within(&self, timeout: Duration) -> io::Result<bool> {
        let mut poll =
            libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `poll` is one valid pollfd, and 1 is its count.
        match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
            -1 => Err(io::Error::last_os_error()),
            ready => Ok(ready > 0),
        }
    }

    /// Asks whether the server is alive.
    pub fn ping(&mut self) -> Result<Answer, ClientError> {
        self.send_command(command::PING, &[])?;
        self.read_answer()
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, ClientError> {
        self.send_command(command::STMT_PREPARE, sql.as_bytes())?;
        let answer = self.read_ok_or_error()?;
        let mut fields = Fields(&answer);
        fields.take(1)?;
        let statement =
            Statement { id: fields.u32()?, columns: fields.u16()?, parameters: fields.u16()? };
        for definitions in [statement.parameters, statement.columns] {
            for _ in 0..definitions {
                self.read_packet()?;
            }
            if definitions > 0 && !self.deprecate_eof() {
                self.read_packet()?;
            }
        }
        Ok(statement)
    }

    /// Runs a prepared statement without parameters and reads its binary rows.
    pub fn execute(&mut self, statement: Statement) -> Result<Answer, ClientError> {
        self.send_execute(statement, 0)?;
        self.read_results(true).map(|mut answers| answers.pop().unwrap_or_default())
    }

    /// Sends `COM_STMT_EXECUTE` without parameters; `cursor` is 0, or 1 for a read-only cursor.
    pub fn send_execute(&mut self, statement: Statement, cursor: u8) -> Result<(), ClientError> {
        let mut body = statement.id.to_le_bytes().to_vec();
        body.push(cursor);
        body.extend_from_slice(&1_u32.to_le_bytes());
        self.send_command(command::STMT_EXECUTE, &body)
    }

    /// Forgets a prepared statement; the server does not answer.
    pub fn close_statement(&mut self, statement: Statement) -> Result<(), ClientError> {
        self.send_command(command::STMT_CLOSE, &statement.id.to_le_bytes())
    }

    /// Says goodbye and waits until the server has closed the connection.
    pub fn quit(mut self) -> Result<(), ClientError> {
        self.send_command(command::QUIT, &[])?;
        let mut rest = [0; 64];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes).map_err(ClientError::Io)
    }

    /// Sends bytes in pieces of these sizes with a pause between them; what is left over goes last.
    pub fn send_split(
        &mut self,
        bytes: &[u8],
        sizes: &[usize],
        pause: Duration,
    ) -> Result<(), ClientError> {
        let mut rest = bytes;
        for size in sizes {
            let (piece, tail) = rest.split_at((*size).min(rest.len()));
            self.send_raw(piece)?;
            std::thread::sleep(pause);
            rest = tail;
        }
        self.send_raw(rest)
    }

    /// Reads the payload of one packet, joining the parts of one that is longer than 16 MiB.
    pub fn read_packet(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            self.stream.read_exact(&mut header)?;
            self.sequence = header[3].wrapping_add(1);
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.stream.read_exact(&mut payload[start..])?;
            if length < PACKET_BYTES_MAX {
                return Ok(payload);
            }
        }
    }

    /// Sends one payload under the next sequence number.
    pub fn write_packet(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        assert!(
            payload.len() < PACKET_BYTES_MAX,
            "a payload of more than 16 MiB needs several packets"
        );
        let mut bytes = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        bytes.push(self.sequence);
        bytes.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.send_raw(&bytes)
    }

    fn deprecate_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }

    fn read_ok_or_error(&mut self) -> Result<Vec<u8>, ClientError> {
        let answer = self.read_packet()?;
        if answer.first() == Some(&0xff) { Err(server_error(&answer)) } else { Ok(answer) }
    }

    fn read_results(&mut self, binary: bool) -> Result<Vec<Answer>, ClientError> {
        let mut answers = Vec::new();
        loop {
            let answer = self.read_result(binary)?;
            let more = answer.status & status::MORE_RESULTS != 0;
            answers.push(answer);
            if !more {
                return Ok(answers);
            }
        }
    }

    fn read_result(&mut self, binary: bool) -> Result<Answer, ClientError> {
        let first = self.read_ok_or_error()?;
        match first.first() {
            Some(0x00) => ok_packet(&first),
            Some(0xfb) => {
                let content = std::mem::take(&mut self.local_file);
                if !content.is_empty() {
                    self.write_packet(&content)?;
                }
                self.local_file = content;
                self.write_packet(&[])?;
                self.read_result(binary)
            }
            _ => {
                let count = Fields(&first)
                    .encoded_integer()?
                    .ok_or(ClientError::Protocol("no column count"))?;
                self.read_rows(count as usize, binary)
            }
        }
    }

    fn read_rows(&mut self, columns: usize, binary: bool) -> Result<Answer, ClientError> {
        let mut answer = Answer::default();
        // Bytes of the server are not trusted before the definitions have come.
        let mut types = Vec::new();
        for _ in 0..columns {
            let (name, column_type) = column_definition(&self.read_packet()?)?;
            answer.columns.push(name);
            types.push(column_type);
        }
        if !self.deprecate_eof() {
            let eof = self.read_packet()?;
            let mut fields = Fields(&eof);
            fields.take(1)?;
            (answer.warnings, answer.status) = (fields.u16()?, fields.u16()?);
            if answer.status & status::CURSOR_EXISTS != 0 {
                return Ok(answer); // the rows stay on the server until they are fetched
            }
        }
        loop {
            let packet = self.read_ok_or_error()?;
            if packet.first() == Some(&0xfe)
                && packet.len() < PACKET_BYTES_MAX
                && self.is_end_of_rows(&packet)
            {
                let end =
                    if self.deprecate_eof() { ok_packet(&packet)? } else { eof_packet(&packet)? };
                return Ok(Answer { columns: answer.columns, rows: answer.rows, ..end });
            }
            answer.rows.push(if binary {
                binary_row(&packet, &types)?
            } else {
                text_row(&packet, columns)?
            });
        }
    }

    /// A row may begin with 0xfe too, but only if its first value is longer than 16 MiB.
    fn is_end_of_rows(&self, packet: &[u8]) -> bool {
        self.deprecate_eof() || packet.len() < 9
    }
}
