//! Files that a process has mapped, with their symbols.

use framehop::x86_64::UnwinderX86_64;
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// A larger file is not read: a map of shared memory may claim any size.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// Files whose functions carry the file's name.
const LIBRARIES: [&str; 5] = ["libc.so", "libstdc++", "ld-linux", "ld-musl", "libpthread"];

/// Part of a mapped file.
#[derive(Clone)]
pub struct Bytes {
    file: Arc<memmap2::Mmap>,
    from: usize,
    to: usize,
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.file[self.from..self.to]
    }
}

/// A file's tables. The same for all processes that map it.
struct Image {
    name: String,
    /// Lowest address that the file's segments ask for.
    base: u64,
    sections: ExplicitModuleSectionInfo<Bytes>,
    /// Address, size and name of functions, by address.
    functions: Vec<(u64, u64, Arc<str>)>,
    /// The same of data: what a virtual table is of.
    data: Vec<(u64, u64, Arc<str>)>,
    /// Where functions begin, from the table of the exceptions.
    begins: Vec<u64>,
    /// First and last address of functions of which the tables tell where the caller is.
    tabled: Vec<(u64, u64)>,
    /// Its tables have another order, or its functions keep frame pointers, as Go's do.
    otherwise: bool,
}

struct Mapped {
    low: u64,
    high: u64,
    /// Added to the file's addresses.
    bias: u64,
    image: Arc<Image>,
}

/// All files of a process.
#[derive(Default)]
pub struct Modules {
    mapped: Vec<Mapped>,
    /// First and last address, and name, of code compiled at run time.
    compiled: BTreeMap<u64, (u64, String)>,
    /// As `/proc/PID/maps` had it.
    pub maps: String,
    /// Numbers of the files that were read.
    pub files: BTreeMap<String, u64>,
}

/// Files that were read, by device and number.
type Images = Mutex<HashMap<(u64, u64), Option<Arc<Image>>>>;

impl Modules {
    /// Reads the files of these maps, below `root`: only the same ones as before, if they are told.
    pub fn of(
        maps: String,
        root: &str,
        same: Option<&BTreeMap<String, u64>>,
        unwinder: &mut UnwinderX86_64<Bytes>,
    ) -> Modules {
        let mut modules = Modules::default();
        for (path, (low, high, start)) in files(&maps) {
            let Some(file) = file_of(&path, root, (low, &maps)) else { continue };
            let Ok(number) = std::fs::metadata(&file).map(|known| known.ino()) else { continue };
            if same.is_some_and(|same| same.get(&path) != Some(&number)) {
                continue;
            }
            let name = path.strip_suffix(DELETED).unwrap_or(&path);
            let Some(image) = image(&file, name) else { continue };
            modules.files.insert(path.clone(), number);
            let module = Module::new(path.clone(), low..high, start, image.sections.clone());
            unwinder.add_module(module);
            modules.mapped.push(Mapped { low, high, bias: start.wrapping_sub(image.base), image });
        }
        modules.maps = maps;
        modules
    }

    pub fn add_compiled(&mut self, map: &str) {
        for line in map.lines() {
            let mut words = line.splitn(3, ' ');
            let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(from), Some(size)) = (hex(), hex()) else { continue };
            let name = line.splitn(3, ' ').nth(2).unwrap_or("?").to_owned();
            self.compiled.insert(from, (from.saturating_add(size), name));
        }
    }

    fn mapped(&self, address: u64) -> Option<&Mapped> {
        self.mapped.iter().find(|each| (each.low..each.high).contains(&address))
    }

    pub fn knows(&self, address: u64) -> bool {
        self.mapped(address).is_some()
    }

    /// Whether an address is of a file, and no table says where its function's caller is.
    pub fn lacks_table(&self, address: u64) -> bool {
        self.mapped(address).is_some_and(|mapped| {
            let at = address.wrapping_sub(mapped.bias);
            let after = mapped.image.tabled.partition_point(|(from, _)| *from <= at);
            let last = after.checked_sub(1).map(|at| mapped.image.tabled[at].1);
            !mapped.image.otherwise && last.is_none_or(|last| at >= last)
        })
    }

    /// Whether a call is just before an address: then it may be one to which a function returns.
    pub fn follows_call(&self, address: u64) -> bool {
        let Some(mapped) = self.mapped(address) else { return false };
        let at = address.wrapping_sub(mapped.bias);
        let sections = &mapped.image.sections;
        let (Some(range), Some(text)) = (&sections.text_svma, &sections.text) else { return false };
        let Some(end) = at.checked_sub(range.start).map(|end| end as usize) else { return false };
        let before = |bytes: usize| {
            let from = end.checked_sub(bytes)?;
            text.get(from..end)
        };
        // E8 and four bytes; FF /2 with a register or a place in memory.
        let indirect = |bytes: usize, kinds: &[u8]| {
            before(bytes).is_some_and(|code| {
                code[0] == 0xff && code[1] >> 3 & 7 == 2 && kinds.contains(&(code[1] >> 6))
            })
        };
        before(5).is_some_and(|code| code[0] == 0xe8)
            || indirect(2, &[0, 3])
            || indirect(3, &[0, 1])
            || indirect(6, &[0, 2])
            || indirect(7, &[2])
    }

    pub fn name(&self, address: u64) -> Option<String> {
        if let Some(mapped) = self.mapped(address) {
            return Some(mapped.image.function(address.wrapping_sub(mapped.bias)));
        }
        let (_, (end, name)) = self.compiled.range(..=address).next_back()?;
        (address < *end).then(|| name.clone())
    }

    pub fn datum(&self, address: u64) -> Option<String> {
        let mapped = self.mapped(address)?;
        let at = address.wrapping_sub(mapped.bias);
        let found = covering(&mapped.image.data, at);
        Some(found.map_or_else(|| format!("{}!{at:x}", mapped.image.name), readable))
    }
}

impl Image {
    fn function(&self, at: u64) -> String {
        let begin = match self.begins.partition_point(|begin| *begin <= at) {
            0 => at,
            after => self.begins[after - 1],
        };
        let after = self.functions.partition_point(|function| function.0 <= at);
        if let Some((from, size, name)) = after.checked_sub(1).map(|at| &self.functions[at])
            && (at - from < (*size).max(1) || *from == begin)
        {
            // Of the C library it is told apart: it is never what a thread is for.
            let library = LIBRARIES.iter().any(|known| self.name.starts_with(known));
            let name = readable(name);
            return if library { format!("{}!{name}", self.name) } else { name };
        }
        format!("{}!{begin:x}", self.name)
    }
}

fn covering(symbols: &[(u64, u64, Arc<str>)], at: u64) -> Option<&str> {
    let after = symbols.partition_point(|symbol| symbol.0 <= at);
    let (from, size, name) = &symbols[after.checked_sub(1)?];
    (at - from < *size).then_some(name)
}

/// A name as the source has it.
fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    cpp_demangle::Symbol::new(name)
        .ok()
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or_else(|| name.to_owned())
}

/// What the kernel adds to the path of a file that was removed or replaced.
const DELETED: &str = " (deleted)";

/// Where a mapped file is read. One that was removed, or replaced by an upgrade, is still there
/// below `/proc`. `root` is empty if the process is gone.
fn file_of(path: &str, root: &str, (low, maps): (u64, &str)) -> Option<String> {
    if !path.ends_with(DELETED) {
        return Some(format!("{root}{path}"));
    }
    let process = root.strip_suffix("/root")?;
    let first = maps.lines().find_map(|line| line.strip_prefix(&format!("{low:08x}-")))?;
    let high = u64::from_str_radix(first.split_ascii_whitespace().next()?, 16).ok()?;
    let mapped = format!("{process}/map_files/{low:x}-{high:x}");
    if std::fs::metadata(&mapped).is_ok() {
        return Some(mapped);
    }
    // Only root may follow that. The program itself has a second way.
    let exe = format!("{process}/exe");
    let same = std::fs::read_link(&exe).is_ok_and(|target| target.as_os_str() == path);
    same.then_some(exe)
}

/// Regular files with code, each with its lowest and highest address and where it begins.
fn files(maps: &str) -> BTreeMap<String, (u64, u64, u64)> {
    let mut ranges: BTreeMap<String, (u64, u64, Option<u64>, bool)> = BTreeMap::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights), Some(offset)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some(path) = line.find('/').map(|at| &line[at..]) else { continue };
        // `/dev/zero (deleted)` is anonymous memory without end, and so are files in memory.
        if ["/dev/", "/SYSV", "/memfd:"].iter().any(|known| path.starts_with(known)) {
            continue;
        }
        let Some((low, high)) = range.split_once('-') else { continue };
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (Some(low), Some(high), Some(offset)) = (number(low), number(high), number(offset))
        else {
            continue;
        };
        let entry = ranges.entry(path.to_owned()).or_insert((low, high, None, false));
        entry.0 = entry.0.min(low);
        entry.1 = entry.1.max(high);
        if offset == 0 {
            entry.2.get_or_insert(low);
        }
        entry.3 |= rights.contains('x');
    }
    let with_code = ranges.into_iter().filter(|(_, (.., code))| *code);
    with_code
        .filter_map(|(path, (low, high, start, _))| Some((path, (low, high, start?))))
        .collect()
}

fn image(path: &str, name: &str) -> Option<Arc<Image>> {
    static IMAGES: std::sync::LazyLock<Images> = std::sync::LazyLock::new(Images::default);
    // The kind is asked before the file is opened: opening a pipe or a device may block or act.
    let known = std::fs::metadata(path).ok().filter(|known| known.is_file())?;
    if known.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    images
        .entry((known.dev(), known.ino()))
        .or_insert_with(|| read(path, name).map(Arc::new))
        .clone()
}

fn read(path: &str, name: &str) -> Option<Image> {
    let file = std::fs::File::open(path).ok()?;
    // SAFETY: the map is read only. If the file is cut meanwhile, reading it raises SIGBUS: program
    // files in use are replaced, not cut, as cutting would end the program itself.
    let file = Arc::new(unsafe { memmap2::Mmap::map(&file) }.ok()?);
    let elf = object::File::parse(&**file).ok()?;
    let base = elf.segments().map(|segment| segment.address()).min().unwrap_or(0) & !0xfff;
    let range = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let bytes = |name: &str| {
        let (from, size) = elf.section_by_name(name)?.file_range()?;
        let (from, to) = (from as usize, (from + size) as usize);
        (to <= file.len()).then(|| Bytes { file: file.clone(), from, to })
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: base,
        text_svma: range(".text"),
        text: bytes(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        stubs_svma: None,
        stub_helper_svma: None,
        unwind_info: None,
        debug_frame: None,
        text_segment_svma: None,
        text_segment: None,
    };
    let begins = range(".eh_frame_hdr")
        .zip(sections.eh_frame_hdr.as_deref())
        .map(|(range, table)| begins(range.start, table))
        .unwrap_or_default();
    let tables = sections.eh_frame.as_deref().zip(sections.eh_frame_svma.clone());
    let mut tabled: Vec<(u64, u64)> = match tables {
        Some((table, range)) => tabled(range.start, table),
        None => Vec::new(),
    };
    tabled.sort_unstable();
    // A program that is linked statically may have no list of them.
    let begins =
        if begins.is_empty() { tabled.iter().map(|(from, _)| *from).collect() } else { begins };
    let mut functions = symbols(&elf, SymbolKind::Text);
    // Position-independent programs have the second name.
    let table = bytes(".gopclntab").or_else(|| bytes(".data.rel.ro.gopclntab"));
    let go = table.is_some();
    if let (Some(table), Some(text)) = (table, &sections.text_svma) {
        let found = super::go::functions(&table, text.start);
        functions.extend(found.into_iter().map(|(at, size, name)| (at, size, name.into())));
        in_order(&mut functions);
    }
    Some(Image {
        name: name.rsplit('/').next().unwrap_or(name).to_owned(),
        base,
        functions,
        data: symbols(&elf, SymbolKind::Data),
        begins,
        otherwise: go || tabled.is_empty() && sections.eh_frame.is_some(),
        tabled,
        sections,
    })
}

fn symbols(elf: &object::File, kind: SymbolKind) -> Vec<(u64, u64, Arc<str>)> {
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let mut symbols: Vec<(u64, u64, Arc<str>)> = all
        .filter(|symbol| symbol.kind() == kind && symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.into())))
        .collect();
    in_order(&mut symbols);
    symbols
}

fn in_order(symbols: &mut Vec<(u64, u64, Arc<str>)>) {
    symbols.sort();
    symbols.dedup_by_key(|symbol| symbol.0);
}

/// First and last addresses of the functions of `.eh_frame`. Each entry has its length, a
/// reference, where the function begins (from there) and its length; the first ones of each kind
/// refer to none.
fn tabled(at: u64, table: &[u8]) -> Vec<(u64, u64)> {
    let word = |from: usize| {
        let bytes = table.get(from..from + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let (Some(length), Some(reference)) = (word(from), word(from + 4)) {
        if length == 0 || length == u32::MAX {
            break;
        }
        if let (true, Some(begin), Some(size)) = (reference != 0, word(from + 8), word(from + 12)) {
            let begin = (at + from as u64 + 8).wrapping_add(i64::from(begin as i32) as u64);
            found.push((begin, begin.wrapping_add(u64::from(size))));
        }
        from += 4 + length as usize;
    }
    found
}

/// First addresses of functions: the sorted table of `.eh_frame_hdr` has pairs of offsets from its
/// own begin.
fn begins(at: u64, table: &[u8]) -> Vec<u64> {
    /// Signed four bytes, from the section's begin: what linkers write.
    const SORTED_PAIRS: u8 = 0x3b;
    if table.len() < 12 || table[3] != SORTED_PAIRS {
        return Vec::new();
    }
    let word = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let count = word(&table[8..12]) as usize;
    let pairs = table[12..].chunks_exact(8).take(count);
    pairs.map(|pair| at.wrapping_add(i64::from(word(pair)) as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_code_that_are_still_there_are_read() {
        let maps = "\
55a0-55b0 r--p 00000000 08:01 11 /usr/bin/server\n\
55b0-55c0 r-xp 00001000 08:01 11 /usr/bin/server\n\
7f00-8f00 rw-s 00000000 00:01 12 /dev/zero (deleted)\n\
9f00-9f10 r-xp 00000000 00:01 13 /tmp/lib.so (deleted)\n\
a000-a100 r--s 00000000 08:01 14 /usr/share/locale\n\
b000-b100 r-xp 00000000 00:00 0 [vdso]\n";
        let found = files(maps);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found["/usr/bin/server"], (0x55a0, 0x55c0, 0x55a0));
        // One that was replaced is still there for who has it mapped.
        assert_eq!(found["/tmp/lib.so (deleted)"].0, 0x9f00);
        assert_eq!(file_of("/tmp/lib.so (deleted)", "", (0x9f00, maps)), None);
    }

    #[test]
    fn a_function_is_found_by_its_address() {
        let mut unwinder = UnwinderX86_64::new();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let modules = Modules::of(maps, "", None, &mut unwinder);
        let here = a_function_is_found_by_its_address as *const () as u64;
        let name = modules.name(here).unwrap_or_default();
        assert!(name.contains("a_function_is_found_by_its_address"), "{name}");
    }

    #[test]
    fn code_of_a_virtual_machine_is_named_by_its_map() {
        let mut modules = Modules::default();
        modules.add_compiled("7f10 20 java.lang.Thread.run\n7f40 10 Interpreter\n");
        assert_eq!(modules.name(0x7f1f).as_deref(), Some("java.lang.Thread.run"));
        assert_eq!(modules.name(0x7f30), None);
    }
}
