//! Quantities with units in a diagram's file: `"100 us"`, `"64 KB"`, `"1 Gbps"`.
//!
//! Every amount of work has a [`Dimension`]. A resource serves one dimension; an amount of another
//! is an error, never a conversion.

use core::fmt;

/// What an amount counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Clock cycles of a CPU. Written as cycles, or as time on a CPU of 1 GHz.
    Cycles,
    /// Bytes of a disk or a network.
    Bytes,
    /// Time for which a lock, a thread or the like is held, in nanoseconds.
    Time,
    /// Operations of a custom resource.
    Operations,
}

impl Dimension {
    /// Units that belong to it, for error messages.
    pub fn units(self) -> &'static str {
        match self {
            Dimension::Cycles => {
                "cycles, kcycles, Mcycles, or a time on a 1 GHz CPU (ns, us, ms, s)"
            }
            Dimension::Bytes => "B, KB, MB, GB, KiB, MiB, GiB",
            Dimension::Time => "ns, us, ms, s",
            Dimension::Operations => "op, kop, Mop",
        }
    }

    /// Units of a rate of it, for error messages.
    pub fn rate_units(self) -> &'static str {
        match self {
            Dimension::Cycles => "MHz, GHz",
            Dimension::Bytes => "B/s, KB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, Kbps, Mbps, Gbps",
            Dimension::Time => "(none: a lock has no rate)",
            Dimension::Operations => "op/s, kop/s, Mop/s",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dimension::Cycles => "cycles",
            Dimension::Bytes => "bytes",
            Dimension::Time => "time",
            Dimension::Operations => "operations",
        })
    }
}

/// Why a quantity cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// There is no number in front.
    #[error("\"{0}\" does not begin with a number")]
    NoNumber(String),
    /// The unit is unknown, or of another dimension.
    #[error("the unit of \"{text}\" does not fit: {dimension} are counted in {expected}")]
    Unit {
        /// What was written.
        text: String,
        /// What was asked for.
        dimension: Dimension,
        /// Units that would fit.
        expected: &'static str,
    },
    /// Negative, infinite or too large.
    #[error("\"{0}\" is out of range")]
    Range(String),
}

fn split(text: &str) -> Result<(f64, &str), UnitError> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let value: f64 =
        number.replace('_', "").parse().map_err(|_| UnitError::NoNumber(text.to_owned()))?;
    if !value.is_finite() || value < 0.0 {
        return Err(UnitError::Range(text.to_owned()));
    }
    Ok((value, unit.trim()))
}

fn rounded(value: f64, text: &str) -> Result<u64, UnitError> {
    // 2^53: every whole number up to here is exact in an f64.
    if value > 9_007_199_254_740_992.0 {
        return Err(UnitError::Range(text.to_owned()));
    }
    Ok(value.round() as u64)
}

/// An amount of work of one dimension: cycles, bytes, nanoseconds or operations.
pub fn amount(text: &str, dimension: Dimension) -> Result<u64, UnitError> {
    let (value, unit) = split(text)?;
    let factor = match (dimension, unit) {
        (Dimension::Cycles, "cycles" | "ns") => 1.0,
        (Dimension::Cycles, "kcycles" | "us" | "µs") => 1e3,
        (Dimension::Cycles, "Mcycles" | "ms") => 1e6,
        (Dimension::Cycles, "s") => 1e9,
        (Dimension::Bytes, _) => bytes(unit).ok_or_else(|| misfit(text, dimension, false))?,
        (Dimension::Time, "ns") => 1.0,
        (Dimension::Time, "us" | "µs") => 1e3,
        (Dimension::Time, "ms") => 1e6,
        (Dimension::Time, "s") => 1e9,
        (Dimension::Operations, "op" | "") => 1.0,
        (Dimension::Operations, "kop") => 1e3,
        (Dimension::Operations, "Mop") => 1e6,
        _ => return Err(misfit(text, dimension, false)),
    };
    rounded(value * factor, text)
}

/// A rate of one dimension, in units a second.
pub fn rate(text: &str, dimension: Dimension) -> Result<f64, UnitError> {
    let (value, unit) = split(text)?;
    let factor = match (dimension, unit) {
        (Dimension::Cycles, "MHz") => 1e6,
        (Dimension::Cycles, "GHz") => 1e9,
        (Dimension::Bytes, "Kbps") => 1e3 / 8.0,
        (Dimension::Bytes, "Mbps") => 1e6 / 8.0,
        (Dimension::Bytes, "Gbps") => 1e9 / 8.0,
        (Dimension::Bytes, _) => {
            unit.strip_suffix("/s").and_then(bytes).ok_or_else(|| misfit(text, dimension, true))?
        }
        (Dimension::Operations, "op/s") => 1.0,
        (Dimension::Operations, "kop/s") => 1e3,
        (Dimension::Operations, "Mop/s") => 1e6,
        _ => return Err(misfit(text, dimension, true)),
    };
    Ok(value * factor)
}

/// A span of time, in nanoseconds.
pub fn time(text: &str) -> Result<u64, UnitError> {
    amount(text, Dimension::Time)
}

fn misfit(text: &str, dimension: Dimension, rate: bool) -> UnitError {
    UnitError::Unit {
        text: text.trim().to_owned(),
        dimension,
        expected: if rate { dimension.rate_units() } else { dimension.units() },
    }
}

fn bytes(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_counted_in_the_base_unit_of_their_dimension() {
        assert_eq!(amount("100 us", Dimension::Cycles), Ok(100_000));
        assert_eq!(amount("1 KB", Dimension::Bytes), Ok(1_000));
        assert_eq!(amount("128KiB", Dimension::Bytes), Ok(131_072));
        assert_eq!(amount("1.5 ms", Dimension::Time), Ok(1_500_000));
        assert_eq!(amount("3", Dimension::Operations), Ok(3));
    }

    #[test]
    fn a_network_is_given_in_bits() {
        assert_eq!(rate("1 Gbps", Dimension::Bytes), Ok(125e6));
        assert_eq!(rate("100 MB/s", Dimension::Bytes), Ok(1e8));
        assert_eq!(rate("1 GHz", Dimension::Cycles), Ok(1e9));
    }

    #[test]
    fn units_of_another_dimension_are_refused() {
        let error = amount("100 us", Dimension::Bytes).unwrap_err();
        assert!(error.to_string().contains("KiB"), "{error}");
        assert!(rate("100 MB", Dimension::Bytes).is_err());
        assert!(amount("many", Dimension::Bytes).is_err());
        assert!(amount("-1 KB", Dimension::Bytes).is_err());
    }
}
