//! PostgreSQL's binary values, as far as workloads need them.
//!
//! The driver requires that a value has exactly the type of its column. Ours are converted to the
//! column's type, so that statements need no casts. A NUMERIC is a count of base-10,000 digits, the
//! weight of the first, a sign, the decimal places to show, and then the digits. All are 16-bit and
//! big-endian.

use std::error::Error;

use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::db::Value;
use crate::db::value::write_cents;

type Failure = Box<dyn Error + Sync + Send>;

/// A value for the server.
#[derive(Debug)]
pub(super) struct Parameter<'a>(pub(super) &'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let cents = match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                return Ok(IsNull::No);
            }
            Value::Int(value) => value.checked_mul(100),
            Value::Cents(cents) => Some(*cents),
        };
        let whole = match self.0 {
            Value::Int(value) => *value,
            _ => cents.unwrap_or_default() / 100,
        };
        match *ty {
            Type::INT2 => out.extend_from_slice(&i16::try_from(whole)?.to_be_bytes()),
            Type::INT4 => out.extend_from_slice(&i32::try_from(whole)?.to_be_bytes()),
            Type::INT8 => out.extend_from_slice(&whole.to_be_bytes()),
            Type::NUMERIC => write_numeric(cents.ok_or("number too large")?, out),
            _ => {
                let mut text = String::new();
                match self.0 {
                    Value::Int(value) => text = value.to_string(),
                    _ => write_cents(cents.unwrap_or_default(), &mut text),
                }
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        is_number(ty) || is_text(ty)
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let is_string = matches!(self.0, Value::Text(_));
        if !Self::accepts(ty) || (is_string && is_number(ty)) {
            return Err(format!("cannot convert {:?} to {ty}", self.0).into());
        }
        self.to_sql(ty, out)
    }
}

fn is_number(ty: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::NUMERIC].contains(ty)
}

fn is_text(ty: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::UNKNOWN].contains(ty)
}

/// Cents are already decimal: one fraction digit of base 10,000 (`cents % 100 × 100`), the rest is
/// the whole part.
fn write_numeric(cents: i64, out: &mut BytesMut) {
    let magnitude = cents.unsigned_abs();
    let mut digits = vec![(magnitude % 100 * 100) as u16];
    let mut whole = magnitude / 100;
    while whole > 0 {
        digits.push((whole % 10_000) as u16);
        whole /= 10_000;
    }
    let weight = digits.len() as i16 - 2;
    let sign: u16 = if cents < 0 { 0x4000 } else { 0 };
    for field in [digits.len() as u16, weight as u16, sign, 2] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    for digit in digits.iter().rev() {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// A value from the server.
pub(super) struct Cell(pub(super) Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(match *ty {
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::NUMERIC => Value::Text(read_numeric(raw).ok_or("cannot convert a NUMERIC")?),
            // Microseconds since 2000: workloads read dates, but do not use them.
            Type::TIMESTAMP | Type::TIMESTAMPTZ => {
                Value::Int(i64::from_be_bytes(raw.try_into().map_err(|_| "cannot convert a date")?))
            }
            _ => Value::Text(String::from_utf8_lossy(raw).into_owned()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failure> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn read_numeric(raw: &[u8]) -> Option<String> {
    let mut fields = raw.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let count = fields.next()?;
    let weight = i32::from(fields.next()?);
    let sign = fields.next()?;
    let places = usize::try_from(fields.next()?).ok()?;
    let digits: Vec<i16> = fields.collect();
    // 0x4000 is negative; anything else but 0 is NaN or an infinity.
    if digits.len() != usize::try_from(count).ok()? || (sign != 0 && sign != 0x4000) {
        return None;
    }
    let digit = |power: i32| {
        usize::try_from(weight - power).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut text = String::from(if sign == 0 { "" } else { "-" });
    text.push_str(&digit(weight.max(0)).to_string());
    for power in (0..weight.max(0)).rev() {
        text.push_str(&format!("{:04}", digit(power)));
    }
    if places > 0 {
        let fraction: String =
            (1..=places.div_ceil(4) as i32).map(|power| format!("{:04}", digit(-power))).collect();
        text.push('.');
        text.push_str(fraction.get(..places)?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_survive_the_way_there_and_back() {
        for (cents, text) in [
            (0, "0.00"),
            (1, "0.01"),
            (-1, "-0.01"),
            (-1205, "-12.05"),
            (100_000_000, "1000000.00"),
            (30_000_000_012, "300000000.12"),
        ] {
            let mut out = BytesMut::new();
            write_numeric(cents, &mut out);
            assert_eq!(read_numeric(&out).as_deref(), Some(text));
        }
        // 0.1234 as the server sends a tax: one digit of weight −1, four places.
        assert_eq!(read_numeric(&[0, 1, 255, 255, 0, 0, 0, 4, 4, 210]).as_deref(), Some("0.1234"));
        assert_eq!(read_numeric(&[0, 1]), None);
        assert_eq!(read_numeric(&[0, 0, 0, 0, 192, 0, 0, 0]), None, "NaN");
    }
}
