//! The state machine that finds the end of an answer ("MariaDB protocol documentation": server
//! response packets, result set packets, COM_STMT_PREPARE response, LOCAL INFILE packet). One call
//! per server packet.

use super::frames::skip;
use super::protocol::{
    Dialect, FULL_PACKET, end_status, is_progress, lenenc, ok_status, status, u16_at,
};

/// The shape of the answer to a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expect {
    /// One OK, EOF or ERR packet; also for commands that we do not know.
    One,
    /// OK, ERR, LOCAL INFILE or a result set, possibly several in a row.
    Results,
    /// As `Results`, in the binary protocol, where a cursor may leave out the rows.
    Execution,
    /// COM_STMT_PREPARE.
    Prepared,
    /// COM_STMT_FETCH: rows up to an EOF.
    Rows,
    /// COM_FIELD_LIST: definitions up to an EOF.
    Definitions,
    /// One packet of text.
    Text,
    /// COM_CHANGE_USER: any number of authentication rounds up to OK or ERR.
    Login,
    /// A binary log: events up to EOF or ERR, usually for ever.
    Stream,
}

/// Where the next packet stands inside an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    First,
    /// The client is sending a file; its empty packet leads back to `First`.
    Infile,
    Definitions,
    DefinitionsEnd,
    Rows,
    Parameters,
    ParametersEnd,
    Columns,
    ColumnsEnd,
}

/// What a packet did to its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The answer goes on.
    No,
    /// It ended well.
    Done,
    /// It ended with this error code.
    Failed(u16),
    /// The packet cannot belong to this answer.
    Invalid,
}

/// The outcome of one packet: the status word in it, if any, and whether it ended the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) status: Option<u16>,
    pub(super) end: End,
}

impl Verdict {
    const MORE: Verdict = Verdict { status: None, end: End::No };
    const INVALID: Verdict = Verdict { status: None, end: End::Invalid };
    const DONE: Verdict = Verdict { status: None, end: End::Done };
}

/// The answer at the head of the queue.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    stage: Stage,
    /// Definitions still to come in this stage.
    left: u16,
    /// COM_STMT_PREPARE: column definitions that follow the parameters.
    columns: u16,
    /// An earlier result of the same answer succeeded, so an ERR no longer means that nothing ran.
    succeeded_before: bool,
    /// The id that COM_STMT_PREPARE was given.
    statement: u32,
}

impl Answer {
    pub(super) const fn new() -> Answer {
        Answer { stage: Stage::First, left: 0, columns: 0, succeeded_before: false, statement: 0 }
    }

    /// Takes whole packets off the front of `bytes` that need only be counted. These are rows whose
    /// first byte is not that of an EOF, OK or ERR packet, and all definitions of a result but the
    /// last.
    pub(super) fn skip(&mut self, bytes: &mut &[u8]) {
        match self.stage {
            Stage::Rows => {
                skip(bytes, u32::MAX, 0xFE);
            }
            Stage::Definitions => {
                // At most `left`, so it fits.
                self.left -= skip(bytes, u32::from(self.left.saturating_sub(1)), 0xFF) as u16;
            }
            _ => {}
        }
    }

    pub(super) const fn succeeded_before(&self) -> bool {
        self.succeeded_before
    }

    pub(super) const fn statement(&self) -> u32 {
        self.statement
    }

    /// Whether the client's packets carry a file and not commands.
    pub(super) fn reads_file(&self) -> bool {
        self.stage == Stage::Infile
    }

    /// The client sent the empty packet that ends its file.
    pub(super) fn file_ended(&mut self) {
        if self.stage == Stage::Infile {
            self.stage = Stage::First;
        }
    }

    /// One server packet: its first bytes (at least 21, or all) and the length of its first
    /// physical packet.
    pub(super) fn packet(
        &mut self,
        expect: Expect,
        head: &[u8],
        len: u32,
        dialect: Dialect,
    ) -> Verdict {
        let first = head.first().copied();
        if first == Some(0xFF) {
            return error(head);
        }
        match self.stage {
            Stage::Rows => self.row(expect, head, len, dialect),
            Stage::First => self.first(expect, head, len, dialect),
            Stage::Infile => self.first(expect, head, len, dialect),
            Stage::Definitions => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.stage =
                        if dialect.deprecate_eof { Stage::Rows } else { Stage::DefinitionsEnd };
                }
                Verdict::MORE
            }
            Stage::DefinitionsEnd => {
                self.stage = Stage::Rows;
                if first != Some(0xFE) || len >= 9 {
                    return self.row(expect, head, len, dialect);
                }
                let status = end_status(head, len);
                match status {
                    Some(bits)
                        if expect == Expect::Execution && bits & status::CURSOR_EXISTS != 0 =>
                    {
                        self.result_ended(status)
                    }
                    _ => Verdict { status, end: End::No },
                }
            }
            Stage::Parameters | Stage::ParametersEnd | Stage::Columns | Stage::ColumnsEnd => {
                self.prepared_next(dialect)
            }
        }
    }

    fn first(&mut self, expect: Expect, head: &[u8], len: u32, dialect: Dialect) -> Verdict {
        let first = head.first().copied();
        match expect {
            Expect::One => match first {
                Some(0x00) => Verdict { status: ok_status(head), end: End::Done },
                Some(0xFE) => Verdict { status: end_status(head, len), end: End::Done },
                _ => Verdict::DONE,
            },
            Expect::Text => Verdict::DONE,
            Expect::Stream => Verdict {
                status: None,
                end: if first == Some(0xFE) && len < 9 { End::Done } else { End::No },
            },
            Expect::Login => login_packet(head, len),
            Expect::Rows => self.row(expect, head, len, dialect),
            Expect::Definitions if first == Some(0xFE) => {
                Verdict { status: end_status(head, len), end: End::Done }
            }
            Expect::Definitions => Verdict::MORE,
            Expect::Prepared => self.prepared_first(head, dialect),
            Expect::Results | Expect::Execution => match first {
                Some(0x00) if len >= 7 => self.result_ended(ok_status(head)),
                Some(0xFE) if len < 9 => self.result_ended(end_status(head, len)),
                Some(0xFB) => {
                    self.stage = Stage::Infile;
                    Verdict::MORE
                }
                _ => self.column_count(head, dialect),
            },
        }
    }

    fn column_count(&mut self, head: &[u8], dialect: Dialect) -> Verdict {
        let Some((count, size)) = lenenc(head) else {
            return Verdict::INVALID;
        };
        // A table has at most 4,096 columns (MySQL manual, limits); a select list may have more,
        // never 65,536.
        let Ok(count) = u16::try_from(count) else {
            return Verdict::INVALID;
        };
        if count == 0 {
            return Verdict::INVALID;
        }
        let defined = !dialect.metadata_flag || head.get(size).is_none_or(|&flag| flag != 0);
        self.left = count;
        self.stage = if defined {
            Stage::Definitions
        } else if dialect.deprecate_eof || dialect.metadata_mysql {
            Stage::Rows
        } else {
            Stage::DefinitionsEnd
        };
        Verdict::MORE
    }

    /// A row, or the packet that ends the rows. A text row may begin with 0xFE too: then its first
    /// value is longer than 16 MiB and the packet is full.
    fn row(&mut self, expect: Expect, head: &[u8], len: u32, dialect: Dialect) -> Verdict {
        let ends = head.first() == Some(&0xFE)
            && if dialect.deprecate_eof { len < FULL_PACKET } else { len < 9 };
        if !ends {
            return Verdict::MORE;
        }
        let status = end_status(head, len);
        if expect == Expect::Rows {
            return Verdict {
                status,
                end: if status.is_some() { End::Done } else { End::Invalid },
            };
        }
        self.result_ended(status)
    }

    fn result_ended(&mut self, status: Option<u16>) -> Verdict {
        let Some(bits) = status else {
            return Verdict::INVALID;
        };
        if bits & status::MORE_RESULTS != 0 {
            self.stage = Stage::First;
            self.succeeded_before = true;
            return Verdict { status, end: End::No };
        }
        Verdict { status, end: End::Done }
    }

    #[cold]
    fn prepared_first(&mut self, head: &[u8], dialect: Dialect) -> Verdict {
        let (Some(0), Some(low), Some(high), Some(columns), Some(parameters)) =
            (head.first(), u16_at(head, 1), u16_at(head, 3), u16_at(head, 5), u16_at(head, 7))
        else {
            return Verdict::INVALID;
        };
        self.statement = u32::from(high) << 16 | u32::from(low);
        let defined = !dialect.metadata_mysql || head.get(12).is_none_or(|&flag| flag != 0);
        self.columns = if defined { columns } else { 0 };
        self.left = if defined { parameters } else { 0 };
        if self.left > 0 {
            self.stage = Stage::Parameters;
            return Verdict::MORE;
        }
        self.prepared_columns()
    }

    fn prepared_columns(&mut self) -> Verdict {
        if self.columns == 0 {
            return Verdict::DONE;
        }
        self.left = self.columns;
        self.stage = Stage::Columns;
        Verdict::MORE
    }

    #[cold]
    fn prepared_next(&mut self, dialect: Dialect) -> Verdict {
        match self.stage {
            Stage::ParametersEnd => return self.prepared_columns(),
            Stage::ColumnsEnd => return Verdict::DONE,
            _ => {}
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Verdict::MORE;
        }
        match (self.stage, dialect.deprecate_eof) {
            (Stage::Parameters, true) => self.prepared_columns(),
            (Stage::Parameters, false) => {
                self.stage = Stage::ParametersEnd;
                Verdict::MORE
            }
            (_, true) => Verdict::DONE,
            (_, false) => {
                self.stage = Stage::ColumnsEnd;
                Verdict::MORE
            }
        }
    }
}

#[cold]
fn error(head: &[u8]) -> Verdict {
    if is_progress(head) {
        return Verdict::MORE;
    }
    Verdict { status: None, end: End::Failed(u16_at(head, 1).unwrap_or(0)) }
}

/// A packet of an authentication exchange. OK is 0x00 with zero counts; anything else but ERR (auth
/// switch 0xFE, more data 0x01, a plugin's own data) asks the client for more.
pub(super) fn login_packet(head: &[u8], len: u32) -> Verdict {
    if len >= 7 && head.starts_with(&[0, 0, 0]) {
        return Verdict { status: ok_status(head), end: End::Done };
    }
    Verdict::MORE
}
