//! Draws a map: a row for each line, a column for each point of the sweep, and a value in each
//! cell.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::draw::{LETTER, number};
use super::found::{point, spread};
use super::panel::{Best, Panel};
use super::record::Record;

type Drawn = Result<(), Box<dyn std::error::Error>>;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const MISSING: RGBColor = RGBColor(0xe3, 0xe7, 0xeb);
const FRAME: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// Of the smallest and the largest value; the lightness falls steadily in between.
const LIGHT: RGBColor = RGBColor(0xf0, 0xf5, 0xfa);
const DARK: RGBColor = RGBColor(0x0b, 0x3c, 0x6f);

/// Ratio of the values from which colours follow their logarithms.
const WIDE: f64 = 20.0;

/// Beside the rows, for their names; more if these are long.
const LEFT: i32 = 64;
const BELOW: i32 = 42;

/// The median of the runs in each cell; the best cell has a frame.
pub(super) fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    record: &Record,
    x_label: &str,
    panel: &Panel,
    best: Best,
) -> Drawn {
    let columns = columns(record, panel);
    let rows: Vec<Vec<Option<f64>>> = panel
        .lines
        .iter()
        .map(|line| {
            let cell = |&at: &f64| {
                let runs = &point(record, line.arm, at)?.runs;
                let values: Vec<f64> =
                    runs.iter().filter_map(|run| run.numbers.get(&line.key).copied()).collect();
                spread(&values).map(|[_, middle, _]| middle)
            };
            columns.iter().map(cell).collect()
        })
        .collect();
    let (low, high) = range(rows.iter().flatten().flatten().copied());
    let framed = if best == Best::High { high } else { low };
    let (width, height) = area.dim_in_pixel();
    let letters = panel.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let side = LEFT.max(LETTER * letters as i32 + 12);
    let cell_width = (width as i32 - side - 12) / columns.len().max(1) as i32;
    let cell_height = (height as i32 - BELOW) / rows.len().max(1) as i32;
    let mut frame = None;
    for (y, (row, line)) in rows.iter().zip(&panel.lines).enumerate() {
        let top = y as i32 * cell_height;
        label(area, (side - 8, top + cell_height / 2), &line.label, 13, INK, HPos::Right)?;
        for (x, value) in row.iter().enumerate() {
            let left = side + x as i32 * cell_width;
            let corners = [(left + 1, top + 1), (left + cell_width - 1, top + cell_height - 1)];
            let share = value.map(|value| share(value, low, high));
            let fill = share.map_or(MISSING, shade);
            area.draw(&Rectangle::new(corners, fill.filled()))?;
            let text = value.map_or("–".to_owned(), number);
            let ink = if share.is_some_and(|share| share > 0.5) { WHITE } else { INK };
            let middle = (left + cell_width / 2, top + cell_height / 2);
            label(area, middle, &text, 13, ink, HPos::Center)?;
            if *value == Some(framed) {
                frame = Some(corners);
            }
        }
    }
    if let Some(corners) = frame {
        area.draw(&Rectangle::new(corners, FRAME.stroke_width(3)))?;
    }
    let below = rows.len() as i32 * cell_height;
    for (x, at) in columns.iter().enumerate() {
        let middle = (side + x as i32 * cell_width + cell_width / 2, below + 12);
        label(area, middle, &number(*at), 13, INK, HPos::Center)?;
    }
    let middle = (side + columns.len() as i32 * cell_width / 2, below + 32);
    label(area, middle, x_label, 13, INK, HPos::Center)
}

/// Points at which any line was measured, ascending.
fn columns(record: &Record, panel: &Panel) -> Vec<f64> {
    let arms = record.arms.iter().filter(|arm| panel.lines.iter().any(|l| l.arm == arm.arm));
    let mut columns: Vec<f64> = arms.flat_map(|arm| &arm.points).map(|point| point.at).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup();
    columns
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Where a value lies between the smallest and the largest: 0 to 1.
fn share(value: f64, low: f64, high: f64) -> f64 {
    if high <= low {
        return 0.0;
    }
    if low > 0.0 && high / low > WIDE {
        return (value / low).ln() / (high / low).ln();
    }
    (value - low) / (high - low)
}

fn shade(share: f64) -> RGBColor {
    let mix = |from: u8, to: u8| {
        let value = f64::from(from) + (f64::from(to) - f64::from(from)) * share.clamp(0.0, 1.0);
        // Between two bytes.
        value.round() as u8
    };
    RGBColor(mix(LIGHT.0, DARK.0), mix(LIGHT.1, DARK.1), mix(LIGHT.2, DARK.2))
}

fn label(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    at: (i32, i32),
    content: &str,
    size: i32,
    colour: RGBColor,
    anchor: HPos,
) -> Drawn {
    let style = TextStyle::from(("sans-serif", size).into_font())
        .color(&colour)
        .pos(Pos::new(anchor, VPos::Center));
    area.draw_text(content, &style, at)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_values_and_wide_ranges_their_logarithms() {
        assert_eq!((share(10.0, 10.0, 30.0), share(30.0, 10.0, 30.0)), (0.0, 1.0));
        assert_eq!(share(15.0, 10.0, 30.0), 0.25);
        // From 0.01 to 1 is a factor of 100: 0.1 lies in the middle of the logarithms.
        assert!((share(0.1, 0.01, 1.0) - 0.5).abs() < 1e-12);
        assert_eq!(share(5.0, 5.0, 5.0), 0.0);
        assert_eq!(shade(0.0), LIGHT);
        assert_eq!(shade(1.0), DARK);
    }
}
