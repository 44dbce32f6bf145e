//! A server's answers, and the parsing of their packets.

use super::ClientError;
use crate::wire::{Fields, fixed_size, status};

/// One answer to one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Column names; empty for an answer without rows.
    pub columns: Vec<String>,
    /// Rows as text; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Rows affected.
    pub affected: u64,
    /// The last automatic id.
    pub last_insert_id: u64,
    /// Status flags, see [`status`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
}

impl Answer {
    /// Whether a transaction is open after this answer.
    pub fn in_transaction(&self) -> bool {
        self.status & status::IN_TRANSACTION != 0
    }

    /// The first column of the first row.
    pub fn value(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

/// A prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// The server's id of it.
    pub id: u32,
    /// Number of parameters.
    pub parameters: u16,
    /// Number of columns.
    pub columns: u16,
}

pub(super) fn ok_packet(packet: &[u8]) -> Result<Answer, ClientError> {
    let mut fields = Fields(packet);
    fields.take(1)?;
    Ok(Answer {
        affected: fields.encoded_integer()?.unwrap_or_default(),
        last_insert_id: fields.encoded_integer()?.unwrap_or_default(),
        status: fields.u16()?,
        warnings: fields.u16()?,
        ..Answer::default()
    })
}

pub(super) fn eof_packet(packet: &[u8]) -> Result<Answer, ClientError> {
    let mut fields = Fields(packet);
    fields.take(1)?;
    Ok(Answer { warnings: fields.u16()?, status: fields.u16()?, ..Answer::default() })
}

pub(super) fn server_error(packet: &[u8]) -> ClientError {
    let mut fields = Fields(packet);
    let Ok(code) = fields.take(1).and_then(|_| fields.u16()) else {
        return ClientError::Protocol("an error packet without an error");
    };
    let text = String::from_utf8_lossy(fields.0).into_owned();
    let (state, message) = match text.strip_prefix('#').and_then(|text| text.split_at_checked(5)) {
        Some((state, message)) => (state.to_owned(), message.to_owned()),
        None => (String::new(), text),
    };
    ClientError::Server { code, state, message }
}

pub(super) fn column_definition(packet: &[u8]) -> Result<(String, u8), ClientError> {
    let mut fields = Fields(packet);
    for _ in 0..4 {
        fields.encoded_bytes()?; // catalog, schema, table, original table
    }
    let name = String::from_utf8_lossy(fields.encoded_bytes()?.unwrap_or_default()).into_owned();
    fields.encoded_bytes()?; // original name
    fields.take(1 + 2 + 4)?; // length of what follows, character set, display width
    Ok((name, fields.byte()?))
}

pub(super) fn text_row(packet: &[u8], columns: usize) -> Result<Vec<Option<String>>, ClientError> {
    let mut fields = Fields(packet);
    (0..columns)
        .map(|_| {
            Ok(fields.encoded_bytes()?.map(|value| String::from_utf8_lossy(value).into_owned()))
        })
        .collect()
}

/// Integers and floats become decimal text, strings themselves, and times the hexadecimal of their
/// fields.
pub(super) fn binary_row(packet: &[u8], types: &[u8]) -> Result<Vec<Option<String>>, ClientError> {
    let mut fields = Fields(packet);
    fields.take(1)?;
    let nulls = fields.take((types.len() + 9) / 8)?;
    let value = |(column, column_type): (usize, &u8)| {
        let bit = column + 2;
        if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            return Ok(None);
        }
        let text = match (*column_type, fixed_size(*column_type)) {
            (0x04, _) => f32::from_bits(fields.u32()?).to_string(),
            (0x05, _) => f64::from_bits(fields.integer(8)?).to_string(),
            (_, Some(size)) => {
                let unused_bits = 64 - 8 * size as u32;
                (((fields.integer(size)? << unused_bits) as i64) >> unused_bits).to_string()
            }
            (0x07 | 0x0a | 0x0b | 0x0c, None) => {
                let length = usize::from(fields.byte()?);
                fields.take(length)?.iter().map(|byte| format!("{byte:02x}")).collect()
            }
            _ => String::from_utf8_lossy(fields.encoded_bytes()?.unwrap_or_default()).into_owned(),
        };
        Ok(Some(text))
    };
    types.iter().enumerate().map(value).collect()
}
