//! Draws panels: the median of the runs, and the range from the lowest to the highest of them.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Presentation;
use super::found::{point, spread};
use super::panel::{Kind, Line, Panel};
use super::record::{Record, Run};

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const FAINT: RGBColor = RGBColor(0x66, 0x70, 0x7a);
const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xeb);

/// Colours that people with any colour vision can tell apart (after Okabe and Ito); the one that
/// stands for a system as it is comes first.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x8c, 0x8c),
    RGBColor(0x1f, 0x29, 0x33),
];

const WIDTH: i32 = 1200;
const MARGIN: i32 = 28;
/// On a horizontal axis, about.
const LABELS: usize = 7;
/// On a vertical axis, about.
const VALUES: usize = 6;
/// On a logarithmic vertical axis, less is drawn as this.
pub(super) const SMALLEST: f64 = 1e-3;
/// Points of a map from which on it has the whole width.
const WIDE_MAP: usize = 7;
const HEAD: i32 = 92;
/// Of a panel: its plot, the space above it for a title, and each line of its legend.
const PLOT_HEIGHT: i32 = 270;
const TITLE_HEIGHT: i32 = 30;
const LEGEND_LINE: i32 = 20;
pub(super) const LETTER: i32 = 7;

/// Draws the picture as SVG.
pub(super) fn picture(record: &Record, show: &Presentation<'_>) -> Result<String> {
    let mut all: Vec<f64> =
        record.arms.iter().flat_map(|arm| arm.points.iter().map(|point| point.at)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let panels: Vec<Panel> =
        show.panels.iter().map(|panel| panel.by_category(show.categories, &all)).collect();
    let panels = &panels[..];
    let points = record.arms.iter().map(|arm| arm.points.len()).max().unwrap_or(0);
    let maps = panels.iter().all(|panel| matches!(panel.kind, Kind::Heat(_)));
    let columns = match panels.len() {
        _ if maps && points > WIDE_MAP => 1,
        1 => 1,
        2 | 4 => 2,
        8 => 4,
        _ => 3,
    };
    let column_width = (WIDTH - 2 * MARGIN) / columns as i32;
    let heights: Vec<i32> = panels
        .chunks(columns)
        .map(|row| {
            let lines = row.iter().map(|panel| legend(panel, column_width - 20).len());
            TITLE_HEIGHT + PLOT_HEIGHT + lines.max().unwrap_or(0) as i32 * LEGEND_LINE + 16
        })
        .collect();
    let height = HEAD + heights.iter().sum::<i32>() + MARGIN / 2;
    let mut svg = String::new();
    {
        let canvas =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        let draw = || -> Drawn {
            canvas.fill(&WHITE)?;
            let header = &record.header;
            text(
                &canvas,
                (MARGIN, 36),
                &format!("{}: {}", show.figure, header.title),
                22,
                INK,
                true,
            )?;
            let runs = record.arms.iter().flat_map(|arm| &arm.points).map(|p| p.runs.len()).max();
            let of_several = match runs.unwrap_or(0) {
                0 | 1 => String::new(),
                runs => format!(
                    "; median of {runs} {}, shaded from the lowest to the highest",
                    show.runs
                ),
            };
            let quick = if header.quick { " · quick run" } else { "" };
            let caption = format!("{}{of_several}{quick}", show.caption);
            text(&canvas, (MARGIN, 64), &caption, 14, FAINT, false)?;
            let mut top = HEAD;
            for (row, height) in panels.chunks(columns).zip(&heights) {
                for (column, panel) in row.iter().enumerate() {
                    let left = MARGIN + column as i32 * column_width;
                    let area =
                        canvas.clone().shrink((left, top), (column_width - 16, *height - 16));
                    draw_panel(&area, record, show, panel, column_width - 20)?;
                }
                top += height;
            }
            Ok(())
        };
        draw().map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
        canvas.present().map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
    }
    Ok(svg)
}

/// One entry of each label, in lines that fit a width: where each begins, and what it says.
fn legend(panel: &Panel, width: i32) -> Vec<Vec<(i32, &Line)>> {
    let mut rows: Vec<Vec<(i32, &Line)>> = Vec::new();
    let mut x = width;
    let mut seen: Vec<&str> = Vec::new();
    // Rows of a map have their names beside them.
    let lines = if matches!(panel.kind, Kind::Heat(_)) { &[][..] } else { &panel.lines[..] };
    for line in lines {
        if line.label.is_empty() || seen.contains(&line.label.as_str()) {
            continue;
        }
        seen.push(&line.label);
        let wide = 30 + LETTER * line.label.chars().count() as i32 + 14;
        if x + wide > width {
            rows.push(Vec::new());
            x = 0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, line));
        }
        x += wide;
    }
    rows
}

fn draw_panel(
    area: &Canvas<'_>,
    record: &Record,
    show: &Presentation<'_>,
    panel: &Panel,
    width: i32,
) -> Drawn {
    text(area, (0, 12), &panel.title, 16, INK, true)?;
    let rows = legend(panel, width);
    for (row, entries) in rows.iter().enumerate() {
        let y = TITLE_HEIGHT + row as i32 * LEGEND_LINE + 4;
        for (x, line) in entries {
            let colour = PALETTE[line.colour % PALETTE.len()];
            if panel.kind == Kind::Bars {
                area.draw(&Rectangle::new([(*x, y - 6), (*x + 20, y + 6)], colour.filled()))?;
            } else {
                stroke(area, &[(*x, y), (*x + 22, y)], colour, line.dashed)?;
            }
            text(area, (*x + 28, y), &line.label, 13, INK, false)?;
        }
    }
    let top = TITLE_HEIGHT + rows.len() as i32 * LEGEND_LINE;
    let (all_width, all_height) = area.dim_in_pixel();
    let plot = area.clone().shrink((0, top), (all_width as i32, all_height as i32 - top));
    match panel.kind {
        Kind::Bars => super::draw_bars::draw(&plot, record, panel),
        Kind::Heat(best) => super::draw_heat::draw(&plot, record, show.sweep_label, panel, best),
        Kind::Sweep | Kind::Time => draw_lines(&plot, record, show, panel),
    }
}

/// A dashed line is made of short ones, because the SVG of a line knows no dashes.
fn stroke(area: &Canvas<'_>, ends: &[(i32, i32); 2], colour: RGBColor, dashed: bool) -> Drawn {
    let style = colour.stroke_width(2);
    if dashed {
        area.draw(&DashedPathElement::new(ends.to_vec(), 6, 4, style))?;
    } else {
        area.draw(&PathElement::new(ends.to_vec(), style))?;
    }
    Ok(())
}

/// A curve: place, lowest, middle, highest.
type Curve = Vec<(f64, [f64; 3])>;

fn curve(record: &Record, panel: &Panel, line: &Line) -> Curve {
    match panel.kind {
        Kind::Time => over_time(record, line),
        _ => {
            let arm = record.arms.iter().find(|arm| arm.arm == line.arm);
            let points = arm.map_or(&[][..], |arm| &arm.points[..]);
            let value = |at: f64| {
                let runs = &point(record, line.arm, at)?.runs;
                let values: Vec<f64> =
                    runs.iter().filter_map(|run| run.numbers.get(&line.key).copied()).collect();
                Some((at, spread(&values)?))
            };
            points.iter().filter_map(|point| value(point.at)).collect()
        }
    }
}

fn over_time(record: &Record, line: &Line) -> Curve {
    let Some(found) = point(record, line.arm, line.at) else { return Vec::new() };
    let bucket_s = found.runs.first().map_or(1.0, |run| run.bucket_s);
    let whole = ((record.counted_s + record.warmup_s) / bucket_s).round() as usize;
    let length = |run: &Run| run.series.get(&line.key).map_or(0, Vec::len);
    // An arm may run for longer than the others. Where it does not, a last bucket has hardly begun.
    let buckets = found.runs.iter().map(length).max().filter(|&all| all > whole + 2);
    let whole = buckets.unwrap_or(whole);
    let of = |key: &str, bucket: usize| -> Vec<f64> {
        let values = found.runs.iter().filter_map(|run| run.series.get(key)?.get(bucket).copied());
        values.collect()
    };
    let value = |bucket: usize| {
        let [mut low, middle, mut high] = spread(&of(&line.key, bucket))?;
        if let Some((below, above)) = &line.band {
            low = spread(&of(below, bucket))?[1];
            high = spread(&of(above, bucket))?[1];
        }
        Some(((bucket as f64 + 0.5) * bucket_s, [low, middle, high]))
    };
    (0..whole).filter_map(value).collect()
}

/// The ends of an axis that shows all these places. The drawing library never returns if an end is
/// infinite, as it is without a point, and with a zero on a logarithmic axis.
fn ends(places: impl Iterator<Item = f64>) -> (f64, f64) {
    let wider = |(left, right): (f64, f64), x: f64| (left.min(x), right.max(x));
    let (left, right) = places.fold((f64::INFINITY, f64::NEG_INFINITY), wider);
    if !(left.is_finite() && right.is_finite()) {
        (0.0, 1.0)
    } else if right <= left {
        (0.0, right.max(left) + 1.0)
    } else {
        (left, right)
    }
}

fn draw_lines(area: &Canvas<'_>, record: &Record, show: &Presentation<'_>, panel: &Panel) -> Drawn {
    let place = |x: f64| if panel.logarithmic { x.log2() } else { x };
    let height = |y: f64| if panel.tenfold { y.max(SMALLEST).log10() } else { y };
    let curves = panel.lines.iter().map(|line| {
        let curve = curve(record, panel, line).into_iter();
        (line, curve.map(|(x, values)| (place(x), values.map(height))).collect())
    });
    let curves: Vec<(&Line, Curve)> = curves.collect();
    let points = || curves.iter().flat_map(|(_, curve)| curve);
    let top = points().map(|(_, [_, _, high])| *high).fold(panel.at_least, f64::max);
    let bottom = points().map(|(_, [low, _, _])| *low).fold(top, f64::min);
    let (bottom, top) = match panel.tenfold {
        true => (bottom.floor(), top.ceil().max(bottom.floor() + 1.0)),
        false if top > 0.0 => (0.0, top * 1.05),
        false => (0.0, 1.0),
    };
    let (mut left, mut right) = ends(points().map(|(x, _)| *x));
    if panel.kind == Kind::Time {
        (left, right) = (0.0, right.ceil().max(record.counted_s + record.warmup_s));
    }
    let mut chart = ChartBuilder::on(area)
        .margin_right(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, bottom..top)?;
    // A label for each power of two.
    let labels = if panel.logarithmic { (right - left) as usize + 1 } else { LABELS };
    let x_label = if panel.kind == Kind::Time { show.time_label } else { show.sweep_label };
    let shown = |x: &f64| number(if panel.logarithmic { x.exp2() } else { *x });
    let values = |y: &f64| number(if panel.tenfold { 10f64.powf(*y) } else { *y });
    let powers = if panel.tenfold { (top - bottom) as usize + 1 } else { VALUES };
    mesh(&mut chart, (x_label, labels, &shown), (&panel.y_label, powers, &values))?;
    for (line, curve) in &curves {
        let colour = PALETTE[line.colour % PALETTE.len()];
        let band = curve.iter().map(|(x, [low, _, _])| (*x, *low));
        let band = band.chain(curve.iter().rev().map(|(x, [_, _, high])| (*x, *high)));
        chart.draw_series([Polygon::new(band.collect::<Vec<_>>(), colour.mix(0.18).filled())])?;
    }
    for (number, (line, curve)) in curves.iter().enumerate() {
        let colour = PALETTE[line.colour % PALETTE.len()];
        // What is drawn first is thicker, so that it can be seen under a line with the same values.
        let under = (curves.len() - 1 - number).min(2) as u32;
        let middle: Vec<(f64, f64)> = curve.iter().map(|(x, [_, y, _])| (*x, *y)).collect();
        let style = colour.stroke_width(2 + under);
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(middle.clone(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(middle.clone(), style))?;
        }
        if panel.kind == Kind::Sweep {
            let dots = middle.iter().map(|at| Circle::new(*at, 3 + under, colour.filled()));
            chart.draw_series(dots)?;
        }
    }
    Ok(())
}

/// What an axis says, how many labels it has, and how they are written.
type Axis<'a> = (&'a str, usize, &'a dyn Fn(&f64) -> String);

fn mesh<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    (x_label, x_labels, x_shown): Axis<'_>,
    (y_label, y_labels, y_shown): Axis<'_>,
) -> Drawn
where
    X: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    let small = ("sans-serif", 13).into_font().color(&INK);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .x_labels(x_labels)
        .y_labels(y_labels)
        .x_label_formatter(&x_shown)
        .y_label_formatter(&y_shown)
        .label_style(small.clone())
        .axis_desc_style(small)
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()?;
    Ok(())
}

/// `12,000`, `0.25`: as short as it can be read.
pub(super) fn number(value: f64) -> String {
    if value.abs() >= 10.0 || value == 0.0 {
        return crate::table::thousands(value.round());
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes text that begins here, with its middle at this height.
pub(super) fn text(
    canvas: &Canvas<'_>,
    at: (i32, i32),
    content: &str,
    size: i32,
    colour: RGBColor,
    bold: bool,
) -> Drawn {
    let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let style = TextStyle::from(("sans-serif", size, weight).into_font())
        .color(&colour)
        .pos(Pos::new(HPos::Left, VPos::Center));
    canvas.draw_text(content, &style, at)?;
    Ok(())
}

/// The colour of a place in the palette.
pub(super) fn colour(place: usize) -> RGBColor {
    PALETTE[place % PALETTE.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_an_axis_are_finite() {
        assert_eq!(ends([3.0, 1.0].into_iter()), (1.0, 3.0));
        assert_eq!(ends([2.0].into_iter()), (0.0, 3.0));
        assert_eq!(ends(std::iter::empty()), (0.0, 1.0));
        assert_eq!(ends([0.0_f64.log2(), 3.0].into_iter()), (0.0, 1.0));
    }
}
