//! Tables and verdicts on a terminal.

use crate::record::Verdict;

/// One line for each verdict: whether it holds, what it says, what was measured.
pub(crate) fn verdict_lines(verdicts: &[Verdict], quick: bool) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        let mark = match verdict.ours {
            None => '–',
            Some(_) if verdict.holds => '✓',
            Some(_) => '✗',
        };
        let ours = verdict.ours.map_or("–".to_owned(), |value| format!("{value:.3}"));
        let note = match (verdict.ours, quick) {
            (Some(_), false) => String::new(),
            _ => format!(" ({})", verdict.note),
        };
        out += &format!("  {mark} {}: {ours}{note}\n", verdict.statement);
    }
    out
}

/// Columns as wide as their widest cell; the first to the left, numbers to the right.
pub(crate) fn align<const N: usize>(lines: &[[String; N]]) -> String {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out += &format!("  {}\n", cells.collect::<Vec<_>>().join("  "));
        if number == 0 {
            out += &format!("  {}\n", "─".repeat(widths.iter().sum::<usize>() + 2 * (N - 1)));
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
