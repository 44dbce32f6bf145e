//! Tests of the pure parts: no socket, no thread.

mod arbitrary;
mod exports;
mod handshake;
mod intake;
mod replies;
mod requests;

use std::sync::Arc;

use super::backend::Backend;
use super::export::{Export, Exports, Facts};
use super::handshake::{Handshake, Step};
use super::wire::{OPTION_MAGIC, OPTION_REPLY_MAGIC, u32_at, u64_at};
use crate::engine::Submission;

/// A volume with only a size: no test here calls it.
struct Size(u64);

impl Backend for Size {
    fn size_bytes(&self) -> u64 {
        self.0
    }

    fn submit(&self, _: Submission) {
        unreachable!("pure tests submit nothing");
    }
}

fn volume(size_bytes: u64) -> Arc<dyn Backend> {
    Arc::new(Size(size_bytes))
}

const MIB: u64 = 1 << 20;

/// "data" (1 MiB, the default), "log" (64 MiB, described), "old" (2 MiB, read-only, rotational).
fn three() -> Exports {
    Exports::new(vec![
        Export::new("data", volume(MIB)),
        Export::new("log", volume(64 * MIB)).description("redo log").fast_zeroes(true),
        Export::new("old", volume(2 * MIB)).read_only(true).rotational(true),
    ])
    .unwrap()
}

fn facts(size_bytes: u64) -> Facts {
    *Export::new("", volume(size_bytes)).facts()
}

/// An option as a client sends it.
fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Data of `INFO` and `GO`.
fn info_data(name: &str, wishes: &[u16]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(u16::try_from(wishes.len()).unwrap().to_be_bytes());
    data.extend(wishes.iter().flat_map(|wish| wish.to_be_bytes()));
    data
}

/// Data of the options about metadata contexts.
fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    for query in queries {
        data.extend(u32::try_from(query.len()).unwrap().to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// A client in its handshake with a server of [`three`].
struct Talk {
    exports: Exports,
    handshake: Handshake,
}

impl Talk {
    /// After the client's flags.
    fn with_flags(flags: u32) -> (Talk, Step) {
        let mut talk = Talk { exports: three(), handshake: Handshake::default() };
        let mut out = Vec::new();
        let (used, step) = talk.handshake.step(&talk.exports, &flags.to_be_bytes(), &mut out);
        assert_eq!((used, out.len()), (4, 0));
        (talk, step)
    }

    fn new() -> Talk {
        let (talk, step) = Talk::with_flags(3);
        assert_eq!(step, Step::Again);
        talk
    }

    /// Sends an option; the raw answer and the step.
    fn raw(&mut self, number: u32, data: &[u8]) -> (Vec<u8>, Step) {
        let bytes = option(number, data);
        let mut out = Vec::new();
        let (used, step) = self.handshake.step(&self.exports, &bytes, &mut out);
        assert_eq!(used, bytes.len());
        (out, step)
    }

    /// Sends an option; kinds and payloads of the replies, and the step.
    fn ask(&mut self, number: u32, data: &[u8]) -> (Vec<(u32, Vec<u8>)>, Step) {
        let (out, step) = self.raw(number, data);
        (replies(&out, number), step)
    }

    /// Sends an option that gets one reply without data that matter.
    fn verdict(&mut self, number: u32, data: &[u8]) -> u32 {
        let (replies, step) = self.ask(number, data);
        assert_eq!(step, Step::Again);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    }
}

/// Takes replies to options apart.
fn replies(mut bytes: &[u8], number: u32) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(u64_at(bytes, 0), Some(OPTION_REPLY_MAGIC));
        assert_eq!(u32_at(bytes, 8), Some(number));
        let kind = u32_at(bytes, 12).unwrap();
        let end = 20 + u32_at(bytes, 16).unwrap() as usize;
        found.push((kind, bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    found
}
