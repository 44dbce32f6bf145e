//! Log records and their bytes.

use headworks_bufferpool::{Lsn, PageId};

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Sets or removes a row of a tree.
    Put { table: u32, key: Vec<u8>, value: Option<Vec<u8>> },
    /// Adds a row to a heap file.
    Append { table: u32, row: Vec<u8> },
}

/// What a mini-transaction does to one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Insert { slot: u16, key: Vec<u8>, value: Vec<u8> },
    Remove { slot: u16 },
    Set { slot: u16, value: Vec<u8> },
    Link { to: PageId },
    Image { front: Vec<u8>, back: Vec<u8> },
}

/// A change of a page, with the LSN that the page had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageChange {
    pub(crate) page: PageId,
    /// 0 for a page that was made by this. It distinguishes pages that lack changes from others.
    pub(crate) before: Lsn,
    pub(crate) change: Change,
}

/// Which write of which commit a mini-transaction applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// LSN of the commit record.
    pub(crate) commit: u64,
    pub(crate) index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Commit(Vec<Write>),
    Mini {
        origin: Option<Origin>,
        changes: Vec<PageChange>,
    },
    /// Damaged bytes that a repair has skipped.
    Gap,
    /// Storage returned a page without the change of this LSN.
    Newest {
        page: PageId,
        lsn: Lsn,
    },
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Rows and images are shorter than a page.
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Insert { slot, key, value } => {
                out.push(1);
                out.extend(slot.to_le_bytes());
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Change::Remove { slot } => {
                out.push(2);
                out.extend(slot.to_le_bytes());
            }
            Change::Set { slot, value } => {
                out.push(3);
                out.extend(slot.to_le_bytes());
                put_bytes(out, value);
            }
            Change::Link { to } => {
                out.push(4);
                out.extend(to.0.to_le_bytes());
            }
            Change::Image { front, back } => {
                out.push(5);
                put_bytes(out, front);
                put_bytes(out, back);
            }
        }
    }
}

impl Record {
    /// The first byte of a gap's payload. The bytes after it mean nothing.
    pub(crate) const GAP: u8 = 3;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Record::Commit(writes) => {
                out.push(1);
                for write in writes {
                    match write {
                        Write::Put { table, key, value } => {
                            out.push(if value.is_some() { 1 } else { 2 });
                            out.extend(table.to_le_bytes());
                            put_bytes(&mut out, key);
                            put_bytes(&mut out, value.as_deref().unwrap_or_default());
                        }
                        Write::Append { table, row } => {
                            out.push(3);
                            out.extend(table.to_le_bytes());
                            put_bytes(&mut out, row);
                        }
                    }
                }
            }
            Record::Mini { origin, changes } => {
                out.push(2);
                let origin = origin.unwrap_or(Origin { commit: 0, index: 0 });
                out.extend(origin.commit.to_le_bytes());
                out.extend(origin.index.to_le_bytes());
                for PageChange { page, before, change } in changes {
                    out.extend(page.0.to_le_bytes());
                    out.extend(before.0.to_le_bytes());
                    change.encode(&mut out);
                }
            }
            Record::Gap => out.push(Self::GAP),
            Record::Newest { page, lsn } => {
                out.push(4);
                out.extend(page.0.to_le_bytes());
                out.extend(lsn.0.to_le_bytes());
            }
        }
        out
    }

    /// `None`: the bytes are not a record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            1 => {
                let mut writes = Vec::new();
                while !reader.0.is_empty() {
                    let kind = reader.byte()?;
                    let table = reader.u32()?;
                    writes.push(match kind {
                        1 | 2 => {
                            let key = reader.bytes()?;
                            let value = reader.bytes()?;
                            Write::Put { table, key, value: (kind == 1).then_some(value) }
                        }
                        3 => Write::Append { table, row: reader.bytes()? },
                        _ => return None,
                    });
                }
                Some(Record::Commit(writes))
            }
            2 => {
                let origin = Origin { commit: reader.u64()?, index: reader.u32()? };
                let mut changes = Vec::new();
                while !reader.0.is_empty() {
                    let (page, before) = (PageId(reader.u64()?), Lsn(reader.u64()?));
                    changes.push(PageChange { page, before, change: reader.change()? });
                }
                Some(Record::Mini { origin: (origin.commit != 0).then_some(origin), changes })
            }
            Self::GAP => Some(Record::Gap),
            4 => {
                let (page, lsn) = (PageId(reader.u64()?), Lsn(reader.u64()?));
                reader.0.is_empty().then_some(Record::Newest { page, lsn })
            }
            _ => None,
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head.to_vec())
    }

    fn change(&mut self) -> Option<Change> {
        Some(match self.byte()? {
            1 => Change::Insert { slot: self.u16()?, key: self.bytes()?, value: self.bytes()? },
            2 => Change::Remove { slot: self.u16()? },
            3 => Change::Set { slot: self.u16()?, value: self.bytes()? },
            4 => Change::Link { to: PageId(self.u64()?) },
            5 => Change::Image { front: self.bytes()?, back: self.bytes()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_way_through_bytes() {
        let writes = vec![
            Write::Put { table: 3, key: b"k".to_vec(), value: Some(b"v".to_vec()) },
            Write::Put { table: 4, key: b"gone".to_vec(), value: None },
            Write::Append { table: 5, row: vec![9; 300] },
        ];
        let changes = vec![
            (PageId(1), Change::Insert { slot: 7, key: vec![1], value: vec![2, 3] }),
            (PageId(2), Change::Remove { slot: 8 }),
            (PageId(3), Change::Set { slot: 9, value: vec![] }),
            (PageId(4), Change::Link { to: PageId(99) }),
            (PageId(5), Change::Image { front: vec![1; 50], back: vec![2; 60] }),
        ];
        let changes: Vec<_> = (500..)
            .zip(changes)
            .map(|(lsn, (page, change))| PageChange { page, before: Lsn(lsn), change })
            .collect();
        let origin = Some(Origin { commit: 77, index: 2 });
        for record in [
            Record::Commit(writes),
            Record::Mini { origin, changes },
            Record::Mini { origin: None, changes: vec![] },
            Record::Newest { page: PageId(6), lsn: Lsn(7) },
        ] {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record));
            assert_eq!(Record::decode(&bytes[..bytes.len() - 1]).is_some(), bytes.len() == 1);
        }
    }
}
