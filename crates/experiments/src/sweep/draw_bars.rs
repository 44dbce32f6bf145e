//! Draws categories with bars.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::draw::{SMALLEST, colour, number};
use super::found::{point, spread};
use super::panel::{Line, Panel};
use super::record::Record;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xeb);
/// On the vertical axis, about.
const LABELS: usize = 6;

/// A line of the panel, and its lowest, middle and highest value.
type Bar<'a> = (&'a Line, [f64; 3]);

/// Bars side by side in each category; a thin line from the lowest seed to the highest.
pub(super) fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    record: &Record,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    let value = |line: &Line| {
        let runs = &point(record, line.arm, line.at)?.runs;
        let values: Vec<f64> =
            runs.iter().filter_map(|run| run.numbers.get(&line.key).copied()).collect();
        spread(&values)
    };
    let mut categories: Vec<&str> = Vec::new();
    for line in &panel.lines {
        if !categories.contains(&line.category.as_str()) {
            categories.push(&line.category);
        }
    }
    let bars: Vec<Bar<'_>> =
        panel.lines.iter().map(|line| (line, value(line).unwrap_or_default())).collect();
    let height = |y: f64| if panel.tenfold { y.max(SMALLEST).log10() } else { y };
    let (bottom, top, labels) = axis(panel, &bars);
    let mut chart = ChartBuilder::on(area)
        .margin_right(12)
        .x_label_area_size(30)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..categories.len() as f64, bottom..top)?;
    let small = ("sans-serif", 13).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_labels(0)
        .y_labels(labels)
        .y_label_formatter(&|y| number(if panel.tenfold { 10f64.powf(*y) } else { *y }))
        .label_style(small.clone())
        .axis_desc_style(small)
        .y_desc(&panel.y_label)
        .draw()?;
    for (place, category) in categories.iter().enumerate() {
        let here: Vec<_> = bars.iter().filter(|(line, _)| line.category == **category).collect();
        let wide = 0.8 / here.len().max(1) as f64;
        for (index, (line, [low, value, high])) in here.into_iter().enumerate() {
            let left = place as f64 + 0.1 + index as f64 * wide;
            let centre = left + wide / 2.0;
            if *high == 0.0 {
                continue;
            }
            let [bar, from, to] = [*value, *low, *high].map(height);
            let corners = [(left + wide * 0.05, bottom), (left + wide * 0.95, bar)];
            chart.draw_series([Rectangle::new(corners, colour(line.colour).filled())])?;
            chart.draw_series([PathElement::new(
                vec![(centre, from), (centre, to)],
                INK.stroke_width(1),
            )])?;
            let label = Text::new(
                number(*value),
                (centre, to + (top - bottom) * 0.01),
                centred(12, VPos::Bottom),
            );
            chart.draw_series([label])?;
        }
        let at = chart.backend_coord(&(place as f64 + 0.5, bottom));
        let (x, y) = area.get_base_pixel();
        area.draw_text(category, &centred(13, VPos::Top), (at.0 - x, at.1 - y + 8))?;
    }
    Ok(())
}

/// Lowest and highest value of the vertical axis, and how many labels it has.
fn axis(panel: &Panel, bars: &[Bar<'_>]) -> (f64, f64, usize) {
    let top = bars.iter().map(|(_, [_, _, high])| *high).fold(panel.at_least, f64::max);
    let measured = bars.iter().map(|(_, [low, _, _])| *low).filter(|low| *low > 0.0);
    let bottom = measured.fold(top.max(SMALLEST), f64::min);
    match panel.tenfold {
        true => {
            let bottom = bottom.log10().floor();
            let top = top.max(SMALLEST).log10().ceil().max(bottom + 1.0);
            (bottom, top + 0.2, (top - bottom) as usize + 1)
        }
        false if top > 0.0 => (0.0, top * 1.12, LABELS),
        false => (0.0, 1.0, LABELS),
    }
}

/// Text of this size, centred above or below its point.
fn centred(size: i32, vertical: VPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font())
        .color(&INK)
        .pos(Pos::new(HPos::Center, vertical))
}
