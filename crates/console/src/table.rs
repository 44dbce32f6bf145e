//! Tables in text.

use crate::Ink;

/// A column's head, and on which side its cells stand.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    right: bool,
}

impl Column {
    /// Cells stand left.
    pub const fn left(head: &'static str) -> Self {
        Column { head, right: false }
    }

    /// Cells stand right.
    pub const fn right(head: &'static str) -> Self {
        Column { head, right: true }
    }
}

impl Column {
    /// What stands above it.
    pub fn head(self) -> &'static str {
        self.head
    }

    /// Whether its cells stand right, as numbers do.
    pub fn is_right(self) -> bool {
        self.right
    }
}

/// A table with a title and notes: a page of figures that is printed, or drawn on a screen.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// One line.
    pub title: String,
    /// What is unusual, a line each.
    pub notes: Vec<String>,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// One cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// As text, with at most `most` rows.
    pub fn text(&self, most: usize, width: usize, ink: Ink) -> String {
        let mut table = Table::new(&self.columns);
        self.rows.iter().take(most).for_each(|row| table.row(row.clone()));
        let mut text = format!("{}\n", self.title);
        self.notes.iter().for_each(|note| text += &format!("  {note}\n"));
        text += &table.render(width, ink);
        match self.rows.len().saturating_sub(most) {
            0 => text,
            more => text + &format!("  and {more} more\n"),
        }
    }
}

/// Rows under a head.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A text column is not cut below this.
const NARROWEST: usize = 8;

impl Table {
    /// Without rows.
    pub fn new(columns: &[Column]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row, one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The widest text columns give way until all fits; if that is not enough, the last columns
    /// are left out.
    pub fn render(&self, width: usize, ink: Ink) -> String {
        let widths = self.widths(width);
        let heads: Vec<&str> = self.columns.iter().map(|column| column.head).collect();
        let mut text = ink.faint(&self.line(&heads, &widths)) + "\n";
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            text += &self.line(&cells, &widths);
            text.push('\n');
        }
        text
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells =
                    self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0).max(self.columns[at].head.chars().count())
            })
            .collect();
        // Each column has two blanks before it.
        let total = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>();
        while total(&widths) > width {
            let widest = (0..widths.len())
                .filter(|&at| !self.columns[at].right && widths[at] > NARROWEST)
                .max_by_key(|&at| widths[at]);
            match widest {
                Some(at) => widths[at] -= 1,
                None if widths.len() > 1 => drop(widths.pop()),
                None => break,
            }
        }
        widths
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let cell = cut(cell, width);
            line += "  ";
            line +=
                &if column.right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A text of at most `width` characters; what is cut off shows as an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Ink = Ink { color: false };

    fn table() -> Table {
        let mut table =
            Table::new(&[Column::left("NAME"), Column::right("N"), Column::left("WHY")]);
        table.row(vec!["web".to_owned(), "7".to_owned(), "all places are taken".to_owned()]);
        table.row(vec!["a long name of a client".to_owned(), "1234".to_owned(), "-".to_owned()]);
        table
    }

    #[test]
    fn numbers_stand_right_and_texts_left() {
        assert_eq!(
            table().render(80, PLAIN),
            "  NAME                        N  WHY\n  \
               web                         7  all places are taken\n  \
               a long name of a client  1234  -\n"
        );
    }

    #[test]
    fn a_sheet_has_its_title_its_notes_and_tells_how_many_rows_are_left_out() {
        let sheet = Sheet {
            title: "web: 2 calls wait".to_owned(),
            notes: vec!["1 call passed".to_owned()],
            columns: vec![Column::left("NAME")],
            rows: ["a", "b", "c"].map(|name| vec![name.to_owned()]).into(),
        };
        let text = sheet.text(2, 80, PLAIN);
        assert_eq!(text, "web: 2 calls wait\n  1 call passed\n  NAME\n  a\n  b\n  and 1 more\n");
    }

    #[test]
    fn a_narrow_terminal_cuts_texts_before_it_loses_columns() {
        let text = table().render(36, PLAIN);
        assert!(text.lines().all(|line| line.chars().count() <= 36), "{text}");
        assert!(text.contains("a long name …") && text.contains("WHY"), "{text}");
        assert!(!table().render(20, PLAIN).contains("WHY"));
    }
}
