//! Figures with units that people read.

/// A time given in milliseconds, in µs, ms, s or min, with three significant digits.
pub fn duration(ms: f64) -> String {
    if !ms.is_finite() {
        return "-".to_owned();
    }
    match ms.abs() {
        0.0 => "0".to_owned(),
        x if x < 0.9995 => format!("{} µs", three(ms * 1e3)),
        x if x < 999.5 => format!("{} ms", three(ms)),
        x if x < 600_000.0 => format!("{} s", three(ms / 1e3)),
        _ => format!("{:.0} min", ms / 60e3),
    }
}

/// As [`duration`], or a dash.
pub fn maybe_duration(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), duration)
}

/// A ratio with three digits, or a dash.
pub fn maybe_ratio(ratio: Option<f64>) -> String {
    ratio
        .filter(|ratio| ratio.is_finite())
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// Events per second.
pub fn rate(per_s: f64) -> String {
    match per_s {
        x if !x.is_finite() => "-".to_owned(),
        x if x >= 99_999.5 => count(x as u64),
        x if x >= 99.95 => format!("{x:.0}"),
        0.0 => "0".to_owned(),
        x => format!("{x:.1}"),
    }
}

/// A count; large ones in thousands (k), millions (M) or billions (G).
pub fn count(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..10_000_000 => format!("{} k", count / 1_000),
        10_000_000..10_000_000_000 => format!("{} M", count / 1_000_000),
        _ => format!("{} G", count / 1_000_000_000),
    }
}

fn three(x: f64) -> String {
    match x.abs() {
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// A text from outside without what could steer a terminal: clients choose their names.
pub fn printable(text: &str) -> String {
    let harmless = |c: char| {
        let steers = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if steers { '\u{fffd}' } else { c }
    };
    text.chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_readable_units() {
        for (ms, text) in [
            (0.0, "0"),
            (0.0123, "12.3 µs"),
            (0.5, "500 µs"),
            (0.9996, "1.00 ms"),
            (1.5, "1.50 ms"),
            (277.4, "277 ms"),
            (999.6, "1.00 s"),
            (2_500.0, "2.50 s"),
            (3_600_000.0, "60 min"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(duration(ms), text, "{ms}");
        }
    }

    #[test]
    fn rates_and_counts_stay_short() {
        assert_eq!(
            [rate(0.0), rate(3.25), rate(1001.4), rate(2.5e6)],
            ["0", "3.2", "1001", "2500 k"]
        );
        assert_eq!([count(99_999), count(123_456), count(12_345_678)], ["99999", "123 k", "12 M"]);
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n\u{202e}"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
    }
}
