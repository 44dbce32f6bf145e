//! Copies of stacks, and what is needed to unwind them again.
//!
//! A stack holds what its functions were given: it may have data of requests. So copies are kept
//! only if that was asked for (`--keep-stacks`).

use crate::unwind::{Frames, Unwind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

use super::Trace;

/// What a process had mapped when its stacks were copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Maps {
    /// Process.
    pub pid: u32,
    /// As `/proc/PID/maps` has it.
    pub maps: String,
    /// Numbers of the files that were read: a file of another number is another version.
    pub files: BTreeMap<String, u64>,
    /// Names of code that a virtual machine compiled.
    #[serde(default)]
    pub compiled: String,
}

/// The bytes of a stack, from its pointer outwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// Which one of the recording's stacks, from zero.
    pub stack: usize,
    /// Process.
    pub pid: u32,
    /// Registers: instruction, stack and frame pointer.
    pub registers: [u64; 3],
    /// In hexadecimal.
    #[serde(serialize_with = "to_hex", deserialize_with = "of_hex")]
    pub bytes: Vec<u8>,
}

fn to_hex<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |byte: u8| char::from(DIGITS[usize::from(byte)]);
    let text: String = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect();
    to.serialize_str(&text)
}

fn of_hex<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = || serde::de::Error::custom("a stack's bytes are not in hexadecimal");
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(wrong)
}

impl Trace {
    /// Unwinds the copied stacks again, with the files of this machine. Names that were recorded
    /// stay where a file is gone or another. Returns how many stacks were unwound.
    pub fn unwind_again(&mut self) -> usize {
        let mut done = 0;
        for maps in &self.maps {
            let mut unwind = Unwind::again(&maps.maps, &maps.files);
            unwind.add_compiled(&maps.compiled);
            for copied in self.copied.iter().filter(|copied| copied.pid == maps.pid) {
                let Some(stack) = self.stacks.get_mut(copied.stack) else { continue };
                let [ip, sp, bp] = copied.registers;
                let Frames { names, whole } = unwind.frames(ip, sp, bp, &copied.bytes);
                let known = |names: &[String]| names.iter().filter(|name| *name != "?").count();
                if known(&names) >= known(&stack.frames) && whole >= stack.whole {
                    (stack.frames, stack.whole) = (names, whole);
                    done += 1;
                }
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Head, SCHEMA, Stack};

    fn trace(copies: usize) -> Trace {
        let head = Head { schema: SCHEMA.to_owned(), ..Head::default() };
        let copied = |stack| Copied { stack, bytes: vec![0xa5; 1_000], ..Copied::default() };
        Trace { head, copied: (0..copies).map(copied).collect(), ..Trace::default() }
    }

    #[test]
    fn copies_that_find_no_room_in_the_file_are_counted() {
        let trace = trace(10);
        let mut all = Vec::new();
        trace.write(&mut all, u64::MAX).expect("a file");
        assert_eq!(Trace::read(&all[..]).expect("a recording"), trace);
        let limit = all.len() as u64 - 3_000;
        let mut part = Vec::new();
        trace.write(&mut part, limit).expect("a file");
        assert!(part.len() as u64 <= limit, "{} of {limit}", part.len());
        let read = Trace::read(&part[..]).expect("a recording");
        let lost: u64 = read.losses.iter().map(|loss| loss.n).sum();
        assert!(lost > 0, "{:?}", read.losses);
        assert_eq!(read.copied.len() as u64 + lost, 10);
    }

    #[test]
    fn names_that_were_recorded_stay_where_the_file_is_another_one() {
        let mut trace = trace(1);
        let frames = vec!["read".to_owned(), "main".to_owned()];
        trace.stacks = vec![Stack { frames: frames.clone(), ..Stack::default() }];
        let path = std::env::current_exe().expect("a program").display().to_string();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let here = copies_that_find_no_room_in_the_file_are_counted as *const () as u64;
        trace.copied[0].registers = [here, 0x1000, 0];
        trace.maps = vec![Maps { maps, files: [(path, 0)].into(), ..Maps::default() }];
        assert_eq!(trace.unwind_again(), 0);
        assert_eq!(trace.stacks[0].frames, frames);
    }
}
