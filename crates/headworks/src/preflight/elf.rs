//! Reads the part of an ELF file that tells whether a program can be preloaded.
//!
//! The file may be cut off or hostile: impossible values are refused.

use object::Endianness;
use object::elf::{
    DT_NEEDED, EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64,
    ET_DYN, FileHeader32, FileHeader64, Machine, SHT_DYNSYM,
};
use object::read::StringTable;
use object::read::elf::{FileHeader, ProgramHeader, SectionTable, Sym};
use std::collections::BTreeSet;
use std::path::Path;

/// Facts from an ELF file.
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
    /// Its dynamic loader; without one it is static, or a library.
    pub(crate) interpreter: Option<String>,
    /// Libraries that it needs.
    pub(crate) needed: Vec<String>,
    /// Names of the symbols that it imports.
    pub(crate) imports: BTreeSet<String>,
    /// Names of the functions that it exports.
    pub(crate) exports: BTreeSet<String>,
    /// It was made by Go's compiler, whose programs call the kernel by their own instructions.
    pub(crate) go: bool,
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
    /// It does not begin like an ELF file.
    #[error("it is no ELF file")]
    NoElf,
    /// A table lies outside the file or is larger than it can be.
    #[error("its {0} cannot be read: the file is damaged or cut off")]
    Damaged(&'static str),
}

/// Reads a file. Only for files known to be regular.
pub(crate) fn read(path: &Path) -> std::io::Result<Result<Elf, ElfFault>> {
    Ok(parse(&std::fs::read(path)?))
}

/// Reads what matters out of a file's bytes.
pub(crate) fn parse(all: &[u8]) -> Result<Elf, ElfFault> {
    match all {
        [0x7f, b'E', b'L', b'F', 1, 1 | 2, ..] => parse_as::<FileHeader32<Endianness>>(all),
        [0x7f, b'E', b'L', b'F', 2, 1 | 2, ..] => parse_as::<FileHeader64<Endianness>>(all),
        _ => Err(ElfFault::NoElf),
    }
}

fn parse_as<H: FileHeader<Endian = Endianness>>(all: &[u8]) -> Result<Elf, ElfFault> {
    let (header, endian) = H::parse(all)
        .and_then(|header| Ok((header, header.endian()?)))
        .map_err(|_| ElfFault::Damaged("header"))?;
    let mut elf = Elf {
        machine: machine_name(header.e_machine(endian)),
        wide: header.is_type_64(),
        little: header.is_little_endian(),
        shared: header.e_type(endian) == ET_DYN,
        ..Elf::default()
    };
    segments(header, endian, all, &mut elf).map_err(|_| ElfFault::Damaged("program headers"))?;
    symbols(header, endian, all, &mut elf).map_err(|_| ElfFault::Damaged("dynamic symbols"))?;
    Ok(elf)
}

fn machine_name(machine: Machine) -> String {
    let known = match machine {
        EM_386 => "x86",
        EM_PPC64 => "powerpc64",
        EM_S390 => "s390x",
        EM_ARM => "arm",
        EM_X86_64 => "x86_64",
        EM_AARCH64 => "aarch64",
        EM_RISCV => "riscv64",
        EM_LOONGARCH => "loongarch64",
        other => return format!("machine {}", other.0),
    };
    known.to_owned()
}

fn segments<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    all: &[u8],
    elf: &mut Elf,
) -> object::Result<()> {
    for segment in header.program_headers(endian, all)? {
        if let Some(path) = segment.interpreter(endian, all)? {
            elf.interpreter = Some(text(path));
        }
        // Its contents are read through the sections; here it only has to exist.
        segment.dynamic(endian, all)?;
    }
    Ok(())
}

fn symbols<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    all: &[u8],
    elf: &mut Elf,
) -> object::Result<()> {
    // Sections are found by their kinds: their names do not matter, but for Go's.
    let names = header.sections(endian, all)?;
    elf.go = names.section_by_name(endian, b".go.buildinfo").is_some();
    let headers = header.section_headers(endian, all)?;
    let sections = SectionTable::<H>::new(headers, StringTable::default());
    let symbols = sections.symbols(endian, all, SHT_DYNSYM)?;
    for symbol in symbols.iter() {
        let name = symbol.name(endian, symbols.strings())?;
        if !name.is_empty() {
            let undefined = symbol.is_undefined(endian);
            let set = if undefined { &mut elf.imports } else { &mut elf.exports };
            set.insert(text(name));
        }
    }
    let dynamic = sections.dynamic_table(endian, all)?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        elf.needed.push(text(dynamic.string(entry)?));
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
    fn a_program_of_go_is_known() {
        let Ok(go) = super::super::resolve(Path::new("go")) else {
            println!("skipped: no Go (apt-get install golang-go)");
            return;
        };
        assert!(read(&go).unwrap().unwrap().go);
        assert!(!parse(&this_program()).unwrap().go);
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
