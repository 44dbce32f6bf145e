//! Tables on a terminal.

/// `1,234`; small numbers keep one digit behind the point.
pub(crate) fn thousands(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Columns as wide as their widest cell; the first to the left, numbers to the right.
pub(crate) fn align(lines: &[impl AsRef<[String]>]) -> String {
    let columns = lines.first().map_or(0, |line| line.as_ref().len());
    let cell = |line: &[String], column: usize| line[column].chars().count();
    let width = |at: usize| lines.iter().map(|line| cell(line.as_ref(), at)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells =
            line.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
        out += &format!("  {}\n", cells.collect::<Vec<_>>().join("  "));
        if number == 0 {
            out += &format!("  {}\n", "─".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let lines = [["arm", "tx/s"], ["gated", "1,100"], ["as it is", "9"]]
            .map(|line| line.map(str::to_owned));
        let text = align(&lines);
        assert!(text.lines().all(|line| line.chars().count() == 17), "{text}");
        assert!(text.contains("  as it is      9\n"), "{text}");
    }
}
