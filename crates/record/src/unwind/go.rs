//! Functions of Go programs, which keep their names in a table of their own when symbols are
//! stripped: `.gopclntab`, as of Go 1.18 (`runtime.pcHeader`).

/// A table's first bytes: Go 1.18 and 1.20. Earlier ones are not read.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Offsets of the header's words: number of functions, start of the code, and where names and
/// functions are.
const FUNCTIONS: usize = 8;
const TEXT: usize = 24;
const NAMES: usize = 32;
const TABLE: usize = 64;
/// More functions, and longer names, are not believed.
const FUNCTIONS_MAX: usize = 4 << 20;
const NAME_MAX: usize = 4_096;

/// Address, size and name of each function, by address. None are found in a table that is cut or of
/// another kind. `text` is the address of the section with the code.
pub fn functions(table: &[u8], text: u64) -> Vec<(u64, u64, &str)> {
    all(table, text).unwrap_or_default()
}

fn all(table: &[u8], text: u64) -> Option<Vec<(u64, u64, &str)>> {
    let magic = word(table, 0)?;
    let eight_bytes = table.get(7) == Some(&8);
    if !MAGICS.contains(&magic) || !eight_bytes {
        return None;
    }
    let start = match long(table, TEXT)? {
        // Where the linker left it to the loader.
        0 => text,
        start => start,
    };
    let count = usize::try_from(long(table, FUNCTIONS)?).ok().filter(|n| *n <= FUNCTIONS_MAX)?;
    let names = table.get(usize::try_from(long(table, NAMES)?).ok()?..)?;
    let functions = table.get(usize::try_from(long(table, TABLE)?).ok()?..)?;
    // A pair for each function, and the end of the last one.
    let pairs = functions.get(..count.checked_mul(8)?.checked_add(4)?)?;
    let mut found = Vec::with_capacity(count);
    for at in (0..count).map(|number| number * 8) {
        let (from, to) = (word(pairs, at)?, word(pairs, at + 8)?);
        let about = word(pairs, at + 4)? as usize;
        let name = names.get(word(functions, about.checked_add(4)?)? as usize..)?;
        let end = name.iter().take(NAME_MAX).position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&name[..end]).ok()?;
        found.push((start.checked_add(from.into())?, to.checked_sub(from)?.into(), name));
    }
    Some(found)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two functions, `main.main` and `runtime.mcall`.
    fn table() -> Vec<u8> {
        let names = b"main.main\0runtime.mcall\0";
        let mut table = vec![0; 72];
        table[..4].copy_from_slice(&MAGICS[1].to_le_bytes());
        (table[6], table[7]) = (1, 8);
        let mut put = |at: usize, value: usize| {
            table[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        };
        put(FUNCTIONS, 2);
        put(TEXT, 0x1000);
        put(NAMES, 72);
        put(TABLE, 72 + names.len());
        table.extend(names);
        // Starts and where more is said, the last one's end, and for each its start and name.
        for value in [0x10u32, 20, 0x50, 28, 0x80, 0x10, 0, 0x50, 10] {
            table.extend(value.to_le_bytes());
        }
        table
    }

    #[test]
    fn functions_of_a_stripped_program_are_found() {
        let wanted = [(0x1010, 0x40, "main.main"), (0x1050, 0x30, "runtime.mcall")];
        assert_eq!(functions(&table(), 0x9000), wanted);
        let mut moved = table();
        moved[TEXT..TEXT + 8].fill(0);
        assert_eq!(functions(&moved, 0x9000)[0], (0x9010, 0x40, "main.main"));
    }

    #[test]
    fn a_table_that_is_cut_has_no_functions() {
        let whole = table();
        for end in 0..whole.len() {
            assert!(functions(&whole[..end], 0).is_empty(), "{end}");
        }
    }

    #[test]
    fn a_garbled_table_does_no_harm() {
        for at in 0..table().len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut garbled = table();
                garbled[at] = value;
                let found = functions(&garbled, 0);
                assert!(found.len() <= 2 && found.iter().all(|(.., name)| name.len() < 64));
            }
        }
    }
}
