//! Values exchanged between a workload and a database.

use std::fmt::Write;

use super::DbError;

/// A parameter of a statement or a column of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// An integer.
    Int(i64),
    /// Money with two decimal places, in cents.
    Cents(i64),
    /// A string, and every number that a database returns as one.
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl Value {
    /// Appends the value as an SQL literal. Strings are quoted so that neither a quote nor, in
    /// MariaDB, a backslash ends them; `backslash_escapes` says whether a backslash is special in
    /// the server's literals.
    pub fn write_literal(&self, sql: &mut String, backslash_escapes: bool) {
        match self {
            Self::Null => sql.push_str("NULL"),
            Self::Int(value) => {
                let _ = write!(sql, "{value}");
            }
            Self::Cents(cents) => write_cents(*cents, sql),
            Self::Text(text) => {
                sql.push('\'');
                for character in text.chars() {
                    match character {
                        '\'' => sql.push_str("''"),
                        '\\' if backslash_escapes => sql.push_str("\\\\"),
                        // PostgreSQL stores no NUL, and MariaDB needs none of ours.
                        '\0' => {}
                        other => sql.push(other),
                    }
                }
                sql.push('\'');
            }
        }
    }
}

/// Writes `-12.34` for −1234.
pub(crate) fn write_cents(cents: i64, text: &mut String) {
    let sign = if cents < 0 { "-" } else { "" };
    let magnitude = cents.unsigned_abs();
    let _ = write!(text, "{sign}{}.{:02}", magnitude / 100, magnitude % 100);
}

/// Replaces every `?` of `sql` by a literal.
pub(crate) fn interpolate(
    sql: &str,
    parameters: &[Value],
    backslash_escapes: bool,
) -> Result<String, DbError> {
    let mut text = String::with_capacity(sql.len() + 16 * parameters.len());
    let mut pieces = sql.split('?');
    text.push_str(pieces.next().unwrap_or_default());
    let mut parameters = parameters.iter();
    for piece in pieces {
        let parameter = parameters
            .next()
            .ok_or_else(|| DbError::usage(format!("too few parameters for: {sql}")))?;
        parameter.write_literal(&mut text, backslash_escapes);
        text.push_str(piece);
    }
    match parameters.next() {
        None => Ok(text),
        Some(_) => Err(DbError::usage(format!("too many parameters for: {sql}"))),
    }
}

/// One row of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(pub Vec<Value>);

impl Row {
    fn at(&self, column: usize) -> &Value {
        self.0.get(column).unwrap_or(&Value::Null)
    }

    fn unexpected(&self, column: usize, wanted: &str) -> DbError {
        DbError::data(format!("column {column} should be {wanted} and is {:?}", self.at(column)))
    }

    /// Whether the column is NULL or missing.
    pub fn is_null(&self, column: usize) -> bool {
        *self.at(column) == Value::Null
    }

    /// The column as an integer.
    pub fn int(&self, column: usize) -> Result<i64, DbError> {
        match self.at(column) {
            Value::Int(value) => Some(*value),
            // A sum of integers is a decimal in both databases: `123` or `123.0000`.
            Value::Text(text) => decimal(text, 0),
            _ => None,
        }
        .ok_or_else(|| self.unexpected(column, "an integer"))
    }

    /// The column as money, in cents.
    pub fn cents(&self, column: usize) -> Result<i64, DbError> {
        match self.at(column) {
            Value::Cents(cents) => Some(*cents),
            Value::Int(whole) => whole.checked_mul(100),
            Value::Text(text) => decimal(text, 2),
            Value::Null => None,
        }
        .ok_or_else(|| self.unexpected(column, "money"))
    }

    /// The column as a string.
    pub fn text(&self, column: usize) -> Result<String, DbError> {
        match self.at(column) {
            Value::Text(text) => Ok(text.clone()),
            Value::Int(value) => Ok(value.to_string()),
            _ => Err(self.unexpected(column, "a string")),
        }
    }
}

/// Reads a decimal number as an integer with `places` implied; further digits are cut off.
fn decimal(text: &str, places: usize) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value: i64 = whole.parse().ok().filter(|value| *value >= 0)?;
    let mut fraction = fraction.bytes();
    for _ in 0..places {
        let digit = fraction.next().unwrap_or(b'0');
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_be_broken_out_of() {
        let sql = |backslash| {
            interpolate(
                "SELECT ?, ?, ?, ?",
                &[Value::Null, 5.into(), Value::Cents(-1205), r"a'b\".into()],
                backslash,
            )
            .unwrap()
        };
        assert_eq!(sql(true), r"SELECT NULL, 5, -12.05, 'a''b\\'");
        assert_eq!(sql(false), r"SELECT NULL, 5, -12.05, 'a''b\'");
        assert!(interpolate("?", &[], true).is_err());
        assert!(interpolate("", &[Value::Null], true).is_err());
    }

    #[test]
    fn numbers_are_read_from_what_either_database_returns() {
        let row = Row(vec!["-12.3".into(), "300000.0000".into(), 7.into(), Value::Null]);
        assert_eq!(row.cents(0).unwrap(), -1230);
        assert_eq!(row.int(1).unwrap(), 300_000);
        assert_eq!(row.cents(2).unwrap(), 700);
        assert!(row.int(3).is_err());
        assert!(row.is_null(3) && row.is_null(4));
        assert!(Row(vec!["x".into()]).int(0).is_err());
    }
}
