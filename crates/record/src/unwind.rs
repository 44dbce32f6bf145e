//! Copied stacks become lists of functions.
//!
//! Programs are built without frame pointers, so the tables that compilers leave for exceptions
//! (`.eh_frame`) say where each caller's frame is. Nothing of the process is stopped or changed.

mod go;
mod modules;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder};
use modules::{Bytes, Modules};
use std::collections::BTreeMap;

/// More frames are not followed.
const FRAMES_MAX: usize = 128;
/// Words of a stack among which the caller of a function without tables is looked for.
const WORDS_MAX: usize = 256;

/// Functions of a stack, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Names; `file!offset` for a function without a name.
    pub names: Vec<String>,
    /// They go down to the thread's or the program's beginning.
    pub whole: bool,
}

/// One process's modules, and what is needed to unwind its stacks.
pub struct Unwind {
    modules: Modules,
    unwinder: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
}

impl Unwind {
    /// Reads what a process has mapped. To be called again when it maps more.
    pub fn of(pid: u32) -> Unwind {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        Self::with(maps, &format!("/proc/{pid}/root"), None)
    }

    /// Of what a process had mapped, with those of its files that are still there.
    pub fn again(maps: &str, files: &BTreeMap<String, u64>) -> Unwind {
        Self::with(maps.to_owned(), "", Some(files))
    }

    fn with(maps: String, root: &str, same: Option<&BTreeMap<String, u64>>) -> Unwind {
        let mut unwinder = UnwinderX86_64::new();
        let modules = Modules::of(maps, root, same, &mut unwinder);
        Unwind { modules, unwinder, cache: CacheX86_64::new() }
    }

    /// What the process had mapped, and the numbers of the files that were read.
    pub fn maps(&self) -> (&str, &BTreeMap<String, u64>) {
        (&self.modules.maps, &self.modules.files)
    }

    /// Symbols of code that a JVM compiled: `address size name` a line, in hexadecimal.
    pub fn add_compiled(&mut self, map: &str) {
        self.modules.add_compiled(map);
    }

    /// Whether an address lies in a file that is known.
    pub fn knows(&self, address: u64) -> bool {
        self.modules.knows(address)
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> Option<String> {
        self.modules.name(address)
    }

    /// The name of the data at an address.
    pub fn datum(&self, address: u64) -> Option<String> {
        self.modules.datum(address)
    }

    /// The functions of a stack.
    pub fn frames(&mut self, ip: u64, sp: u64, bp: u64, stack: &[u8]) -> Frames {
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).ok_or(())? as usize;
            let bytes = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| ())?))
        };
        let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut found = Frames::default();
        let mut addresses = Vec::new();
        let mut next = Some(FrameAddress::from_instruction_pointer(ip));
        while let Some(frame) = next.filter(|_| addresses.len() < FRAMES_MAX) {
            addresses.push(frame);
            let untabled = self.modules.lacks_table(frame.address_for_lookup());
            let mut before = registers;
            let caller =
                self.unwinder.unwind_frame(frame, &mut registers, &mut self.cache, &mut read);
            let believed = |caller: u64| !untabled || self.modules.follows_call(caller);
            next = match caller {
                Ok(Some(caller)) if believed(caller) => FrameAddress::from_return_address(caller),
                Ok(None) if !untabled => {
                    found.whole = true;
                    break;
                }
                _ if untabled => {
                    let caller = self.on_the_stack(&mut before, sp, stack);
                    registers = before;
                    // What nothing called is the beginning.
                    found.whole = caller.is_none() && addresses.len() > 1;
                    caller.and_then(FrameAddress::from_return_address)
                }
                _ => break,
            };
        }
        found.names = addresses.iter().map(|frame| self.frame(*frame)).collect();
        // A frame pointer of zero looks like a proper end. A thread begins in a known file.
        found.whole &= addresses
            .last()
            .is_some_and(|frame| self.knows(frame.address_for_lookup()) && addresses.len() > 1);
        found
    }

    /// The caller of a function without tables, as in musl's C library: the next word of the stack
    /// to which a function may return. A word that is left from an earlier call may be taken for
    /// it.
    fn on_the_stack(&self, registers: &mut UnwindRegsX86_64, sp: u64, stack: &[u8]) -> Option<u64> {
        let from = registers.sp().checked_sub(sp)? as usize;
        let words = stack.get(from..)?.chunks_exact(8).take(WORDS_MAX);
        for (at, word) in words.enumerate() {
            let word = u64::from_le_bytes(word.try_into().ok()?);
            if self.modules.follows_call(word) {
                registers.set_sp(sp + (from + at * 8 + 8) as u64);
                registers.set_ip(word);
                return Some(word);
            }
        }
        None
    }

    fn frame(&self, frame: FrameAddress) -> String {
        let address = frame.address_for_lookup();
        self.name(address).unwrap_or_else(|| "?".to_owned())
    }
}
