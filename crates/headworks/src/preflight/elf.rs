//! As much of an ELF file as tells whether a program can be preloaded.
//!
//! Everything read is bounds-checked: the file may be cut off or hostile. Offsets are 64 bits
//! wide, additions are checked, and tables that cannot be right are refused instead of walked.

use std::collections::BTreeSet;
use std::path::Path;

/// What an ELF file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The machine's name, as in `std::env::consts::ARCH` where we know it.
    pub(crate) machine: String,
    /// 64-bit class.
    pub(crate) wide: bool,
    /// Little-endian.
    pub(crate) little: bool,
    /// It is a shared object or a position-independent program.
    pub(crate) shared: bool,
    /// The program that loads it; without one it is static, or a library.
    pub(crate) interpreter: Option<String>,
    /// Libraries that it wants.
    pub(crate) needed: Vec<String>,
    /// Names of the symbols that it takes from others.
    pub(crate) imports: BTreeSet<String>,
    /// Names of the functions that it offers to others.
    pub(crate) exports: BTreeSet<String>,
}

impl Elf {
    /// Whether this build's library can be loaded into it.
    pub(crate) fn is_ours(&self) -> bool {
        self.machine == super::OUR_MACHINE
            && self.wide == cfg!(target_pointer_width = "64")
            && self.little == cfg!(target_endian = "little")
    }
}

/// Why a file cannot be read as ELF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfFault {
    /// It begins with something else.
    #[error("it is no ELF file")]
    NoElf,
    /// A table lies outside the file or is larger than it can be.
    #[error("its {0} cannot be read: the file is damaged or cut off")]
    Damaged(&'static str),
}

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const SHT_STRTAB: u32 = 3;
const SHT_DYNAMIC: u32 = 6;
const SHT_DYNSYM: u32 = 11;
const DT_NEEDED: u64 = 1;

/// Sections, symbols and dynamic entries beyond this are no real file's.
const ENTRIES_MAX: u64 = 1 << 22;

/// Reads a file. Only for files that were found to be regular ones.
pub(crate) fn read(path: &Path) -> std::io::Result<Result<Elf, ElfFault>> {
    Ok(parse(&std::fs::read(path)?))
}

/// A file and how its numbers are written.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    all: &'a [u8],
    wide: bool,
    little: bool,
}

impl<'a> Bytes<'a> {
    fn part(self, at: u64, length: u64) -> Option<&'a [u8]> {
        let end = at.checked_add(length)?;
        self.all.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
    }

    fn number(self, at: u64, length: u64) -> Option<u64> {
        let bytes = self.part(at, length)?;
        let step = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.little {
            bytes.iter().rev().fold(0, step)
        } else {
            bytes.iter().fold(0, step)
        })
    }

    fn half(self, at: u64) -> Option<u64> {
        self.number(at, 2)
    }

    fn word(self, at: u64) -> Option<u32> {
        self.number(at, 4).map(|word| word as u32)
    }

    /// A number as wide as an address.
    fn address(self, at: u64) -> Option<u64> {
        self.number(at, if self.wide { 8 } else { 4 })
    }

    /// The offset that fits the class.
    fn pick(self, wide: u64, narrow: u64) -> u64 {
        if self.wide { wide } else { narrow }
    }
}

/// A text that ends with a zero byte.
fn text(strings: &[u8], at: u64) -> Option<String> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let length = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..length]).into_owned())
}

/// Reads what matters out of a file's bytes.
pub(crate) fn parse(all: &[u8]) -> Result<Elf, ElfFault> {
    let [0x7f, b'E', b'L', b'F', class @ (1 | 2), order @ (1 | 2), ..] = all else {
        return Err(ElfFault::NoElf);
    };
    let bytes = Bytes { all, wide: *class == 2, little: *order == 1 };
    let header = || ElfFault::Damaged("header");
    let kind = bytes.half(16).ok_or_else(header)?;
    let machine = bytes.half(18).ok_or_else(header)?;
    let mut elf = Elf {
        machine: machine_name(machine),
        wide: bytes.wide,
        little: bytes.little,
        shared: kind == 3,
        ..Elf::default()
    };
    segments(bytes, &mut elf).ok_or(ElfFault::Damaged("program headers"))?;
    sections(bytes, &mut elf).ok_or(ElfFault::Damaged("dynamic symbols"))?;
    Ok(elf)
}

fn machine_name(machine: u64) -> String {
    let known = match machine {
        3 => "x86",
        21 => "powerpc64",
        22 => "s390x",
        40 => "arm",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        258 => "loongarch64",
        other => return format!("machine {other}"),
    };
    known.to_owned()
}

fn segments(bytes: Bytes<'_>, elf: &mut Elf) -> Option<()> {
    let table = bytes.address(bytes.pick(32, 28))?;
    let size = bytes.half(bytes.pick(54, 42))?;
    let count = bytes.half(bytes.pick(56, 44))?;
    for entry in 0..count {
        let at = table.checked_add(entry.checked_mul(size)?)?;
        let offset = bytes.address(at.checked_add(bytes.pick(8, 4))?)?;
        let length = bytes.address(at.checked_add(bytes.pick(32, 16))?)?;
        match bytes.word(at)? {
            PT_INTERP => elf.interpreter = Some(text(bytes.part(offset, length)?, 0)?),
            // Its contents are read through the sections; here it only has to be there.
            PT_DYNAMIC => drop(bytes.part(offset, length)?),
            _ => {}
        }
    }
    Some(())
}

#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: u64,
    length: u64,
    link: u32,
    entry: u64,
}

fn section(bytes: Bytes<'_>, at: u64) -> Option<Section> {
    let field = |wide, narrow| at.checked_add(bytes.pick(wide, narrow));
    Some(Section {
        kind: bytes.word(field(4, 4)?)?,
        offset: bytes.address(field(24, 16)?)?,
        length: bytes.address(field(32, 20)?)?,
        link: bytes.word(field(40, 24)?)?,
        entry: bytes.address(field(56, 36)?)?,
    })
}

fn sections(bytes: Bytes<'_>, elf: &mut Elf) -> Option<()> {
    let table = bytes.address(bytes.pick(40, 32))?;
    let size = bytes.half(bytes.pick(58, 46))?;
    let count = if table == 0 { 0 } else { bytes.half(bytes.pick(60, 48))? };
    let nth = |at: u64| section(bytes, table.checked_add(at.checked_mul(size)?)?);
    for at in 0..count {
        let found = nth(at)?;
        if !matches!(found.kind, SHT_DYNSYM | SHT_DYNAMIC) {
            continue;
        }
        let names = nth(u64::from(found.link)).filter(|names| names.kind == SHT_STRTAB)?;
        let names = bytes.part(names.offset, names.length)?;
        let entry = if found.entry == 0 { return None } else { found.entry };
        let entries = found.length / entry;
        // Bounds the walk by what the file can hold.
        bytes.part(found.offset, found.length).filter(|_| entries <= ENTRIES_MAX)?;
        for at in 0..entries {
            let at = found.offset.checked_add(at.checked_mul(entry)?)?;
            match found.kind {
                SHT_DYNSYM => symbol(bytes, at, names, elf)?,
                _ if bytes.address(at)? == DT_NEEDED => {
                    let name = bytes.address(at.checked_add(bytes.pick(8, 4))?)?;
                    elf.needed.push(text(names, name)?);
                }
                _ => {}
            }
        }
    }
    Some(())
}

fn symbol(bytes: Bytes<'_>, at: u64, names: &[u8], elf: &mut Elf) -> Option<()> {
    let name = text(names, u64::from(bytes.word(at)?))?;
    let defined_in = bytes.half(at.checked_add(bytes.pick(6, 14))?)?;
    if !name.is_empty() {
        let set = if defined_in == 0 { &mut elf.imports } else { &mut elf.exports };
        set.insert(name);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_is_dynamic_and_imports_from_the_c_library() {
        let elf = parse(&this_program()).unwrap();
        assert!(elf.is_ours());
        assert!(elf.interpreter.is_some());
        assert!(elf.imports.contains("close"), "{:?}", elf.imports);
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.")), "{:?}", elf.needed);
    }

    #[test]
    fn another_machine_is_not_ours() {
        let mut bytes = this_program();
        bytes[18..20].copy_from_slice(&if cfg!(target_arch = "aarch64") {
            [62, 0]
        } else {
            [183, 0]
        });
        let elf = parse(&bytes).unwrap();
        assert!(!elf.is_ours());
        assert!(elf.machine == "aarch64" || elf.machine == "x86_64");
    }

    #[test]
    fn what_is_no_elf_is_refused() {
        assert_eq!(parse(b""), Err(ElfFault::NoElf));
        assert_eq!(parse(b"#!/bin/sh\n"), Err(ElfFault::NoElf));
        assert_eq!(parse(b"\x7fELF\x02\x01"), Err(ElfFault::Damaged("header")));
    }

    #[test]
    fn a_file_cut_anywhere_in_its_tables_is_refused_or_read_but_never_harmful() {
        let bytes = this_program();
        for length in
            (0..4096.min(bytes.len())).chain((4096..bytes.len()).step_by(bytes.len() / 50))
        {
            let _ = parse(&bytes[..length]);
        }
        assert!(parse(&bytes[..bytes.len() / 2]).is_err());
    }

    #[test]
    fn hostile_headers_never_panic() {
        let bytes = &this_program()[..8192];
        for at in 4..64 {
            for value in [0x00, 0x01, 0x7f, 0xff] {
                let mut hostile = bytes.to_vec();
                hostile[at] = value;
                hostile[at + 1] = value;
                let _ = parse(&hostile);
            }
        }
    }
}
