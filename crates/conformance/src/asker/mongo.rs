//! A client of MongoDB's protocol: a few commands as OP_MSG with one document, written by hand.
//!
//! A message begins with a header of four little-endian 32-bit numbers: length, request, answer to
//! what, kind. Flags follow, and a section of kind 0, which is a BSON document.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};

const OP_MSG: i32 = 2013;
/// Header, flags and the section's kind.
const BEFORE_DOCUMENT: usize = 16 + 4 + 1;

/// One connection with one logical session.
pub struct Client {
    stream: TcpStream,
    request: i32,
    session: u64,
    transaction: i64,
}

/// A BSON document that is being written.
#[derive(Default)]
struct Document(Vec<u8>);

impl Document {
    fn field(mut self, kind: u8, name: &str, bytes: &[u8]) -> Document {
        self.0.push(kind);
        self.0.extend(name.as_bytes());
        self.0.push(0);
        self.0.extend(bytes);
        self
    }

    fn int(self, name: &str, value: i32) -> Document {
        self.field(0x10, name, &value.to_le_bytes())
    }

    fn long(self, name: &str, value: i64) -> Document {
        self.field(0x12, name, &value.to_le_bytes())
    }

    fn boolean(self, name: &str, value: bool) -> Document {
        self.field(0x08, name, &[u8::from(value)])
    }

    fn text(self, name: &str, value: &str) -> Document {
        let length = value.len() as u32 + 1;
        self.field(0x02, name, &[&length.to_le_bytes(), value.as_bytes(), &[0]].concat())
    }

    fn document(self, name: &str, value: Document) -> Document {
        self.field(0x03, name, &value.bytes())
    }

    /// An array of one document.
    fn array(self, name: &str, only: Document) -> Document {
        self.field(0x04, name, &Document::default().document("0", only).bytes())
    }

    /// A UUID, of subtype 4, with this number at its end.
    fn uuid(self, name: &str, value: u64) -> Document {
        let mut bytes = 16u32.to_le_bytes().to_vec();
        bytes.push(4);
        bytes.extend([0; 8]);
        bytes.extend(value.to_be_bytes());
        self.field(0x05, name, &bytes)
    }

    fn bytes(self) -> Vec<u8> {
        let length = self.0.len() as u32 + 5;
        [&length.to_le_bytes(), &self.0[..], &[0]].concat()
    }
}

impl Client {
    /// Says hello as the application `name`.
    pub fn new(stream: TcpStream, name: &str) -> Result<Client> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let session = u64::from(std::process::id()) << 32
            | NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFFF_FFFF;
        let mut client = Client { stream, request: 0, session, transaction: 0 };
        let driver = Document::default().text("name", "conformance").text("version", "1");
        let metadata = Document::default()
            .document("application", Document::default().text("name", name))
            .document("driver", driver)
            .document("os", Document::default().text("type", "Linux"));
        let hello = Document::default().int("isMaster", 1).document("client", metadata);
        let answer = client.command(hello.text("$db", "admin"))?;
        ensure!(ok(&answer), "hello was refused: {}", answer.escape_ascii());
        Ok(client)
    }

    /// Sends a command of no arguments but a collection; returns what `ok` is.
    pub fn ask(&mut self, command: &str) -> Result<String> {
        let question = Document::default().text(command, "nothing").text("$db", "crowd");
        Ok(if ok(&self.command(question)?) { "1" } else { "0" }.to_owned())
    }

    /// Writes a number into the document of a client, and counts the documents of that client with
    /// that number: whether there is one.
    pub fn stamp(&mut self, client: u32, stamp: u64) -> Result<bool> {
        let own = || Document::default().int("_id", client as i32);
        let set = Document::default().document("$set", Document::default().long("v", stamp as i64));
        let change = Document::default().document("q", own()).document("u", set);
        let change = change.boolean("upsert", true);
        let update = Document::default().text("update", "stamps").array("updates", change);
        ensure!(ok(&self.command(update.text("$db", "crowd"))?), "the update was refused");
        let query = own().long("v", stamp as i64);
        let count = Document::default().text("count", "stamps").document("query", query);
        let answer = self.command(count.text("$db", "crowd"))?;
        ensure!(ok(&answer), "the count was refused");
        let one = [b"\x10n\0".as_slice(), &1i32.to_le_bytes()].concat();
        Ok(answer.windows(one.len()).any(|window| window == one))
    }

    /// Begins a transaction by reading.
    pub fn begin(&mut self) -> Result<()> {
        self.transaction += 1;
        let find = Document::default().text("find", "nothing");
        let find = self.of_transaction(find).boolean("startTransaction", true);
        self.command(find.boolean("autocommit", false).text("$db", "crowd")).map(drop)
    }

    /// Ends it.
    pub fn commit(&mut self) -> Result<()> {
        let commit = Document::default().int("commitTransaction", 1);
        let commit = self.of_transaction(commit).boolean("autocommit", false);
        // A server without transactions refuses it, which ends it all the same.
        self.command(commit.text("$db", "admin")).map(drop)
    }

    fn of_transaction(&self, command: Document) -> Document {
        let session = Document::default().uuid("id", self.session);
        command.document("lsid", session).long("txnNumber", self.transaction)
    }

    /// Sends a command and returns the document of its answer.
    fn command(&mut self, command: Document) -> Result<Vec<u8>> {
        self.request += 1;
        let document = command.bytes();
        let length = i32::try_from(BEFORE_DOCUMENT + document.len())?;
        let mut message = Vec::new();
        for number in [length, self.request, 0, OP_MSG, 0] {
            message.extend(number.to_le_bytes());
        }
        message.push(0);
        message.extend(document);
        self.stream.write_all(&message)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).context("no answer")?;
        let rest = (u32::from_le_bytes(length) as usize).saturating_sub(4);
        if !(BEFORE_DOCUMENT - 4..1 << 26).contains(&rest) {
            bail!("an answer of {rest} bytes");
        }
        let mut answer = vec![0; rest];
        self.stream.read_exact(&mut answer)?;
        Ok(answer.split_off(BEFORE_DOCUMENT - 4))
    }
}

/// Whether a document of an answer has an `ok` of one, as either kind of number.
fn ok(document: &[u8]) -> bool {
    let double = [b"\x01ok\0".as_slice(), &1f64.to_le_bytes()].concat();
    let int = [b"\x10ok\0".as_slice(), &1i32.to_le_bytes()].concat();
    let has = |wanted: &[u8]| document.windows(wanted.len()).any(|window| window == wanted);
    has(&double) || has(&int)
}
