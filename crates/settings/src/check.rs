//! Values that must be one of a few words, or within a range.

use crate::{Mistake, Place, did_you_mean};
use std::ops::RangeInclusive;
use toml::Spanned;

/// Index of one of a few words, or `None` if the file does not say it.
///
/// # Errors
/// Another word.
pub fn choice(
    key: &str,
    value: &Option<Spanned<String>>,
    known: &[&str],
    place: &Place<'_>,
) -> Result<Option<usize>, Mistake> {
    value.as_ref().map(|value| word(key, value, known, place)).transpose()
}

/// Index of one of a few words.
///
/// # Errors
/// Another word.
pub fn word(
    key: &str,
    value: &Spanned<String>,
    known: &[&str],
    place: &Place<'_>,
) -> Result<usize, Mistake> {
    let found = value.get_ref().as_str();
    if let Some(at) = known.iter().position(|known| *known == found) {
        return Ok(at);
    }
    let quoted: Vec<String> = known.iter().map(|known| format!("\"{known}\"")).collect();
    let mend = did_you_mean(found, known.iter().copied(), '"')
        + &format!("Write one of {}.", quoted.join(", "));
    Err(place.at_key(value.span(), format!("`{key}` knows no \"{found}\""), mend))
}

/// Refuses a number outside of its range. `mend` begins with "Write".
///
/// # Errors
/// A number outside of it.
pub fn within(
    key: &str,
    value: &Spanned<f64>,
    range: RangeInclusive<f64>,
    mend: &str,
    place: &Place<'_>,
) -> Result<f64, Mistake> {
    let found = *value.get_ref();
    if range.contains(&found) {
        return Ok(found);
    }
    let what = format!("`{key}` is {found}, which is out of range");
    Err(place.at_key(value.span(), what, mend.to_owned()))
}
