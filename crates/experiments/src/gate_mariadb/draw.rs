//! The picture: throughput and latency of every arm in one row each, and below them how equally
//! users were served.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{AS_IS, GATED, POOL, USERS_MANY, draw_fairness};
use crate::served::{MAX, P50, P95, P99, TPS};
use crate::sweep::record::{Point, Record};
use crate::table::thousands;
use headworks_policy::metrics::median;

/// A picture that is written to a string.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of the picture in pixels; its height follows from the number of arms.
const WIDTH: i32 = 1200;

/// Colours of text and lines.
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
pub(super) const FAINT: RGBColor = RGBColor(0x66, 0x70, 0x7a);
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xeb);

/// Left edge and width of the two upper panels.
const BARS: (i32, i32) = (190, 385);
const DOTS: (i32, i32) = (665, 500);

/// Top of the first row of arms, height of a row, and the gap before the arms with few users.
const ROWS_TOP: i32 = 150;
const ROW_HEIGHT: i32 = 62;
const GROUP_GAP: i32 = 26;

/// From the last row of arms to the title of the lower panel.
const FAIRNESS_GAP: i32 = 62;

/// A row of the picture: an arm with a number of users.
pub(super) struct Row<'a> {
    pub(super) label: &'a str,
    pub(super) point: &'a Point,
}

impl Row<'_> {
    /// What each round found.
    pub(super) fn rounds(&self, key: &str) -> Vec<f64> {
        self.point.runs.iter().filter_map(|run| run.numbers.get(key).copied()).collect()
    }

    /// The median of them; 0 if no request was served.
    fn median(&self, key: &str) -> f64 {
        median(&self.rounds(key)).unwrap_or_default()
    }

    pub(super) fn is_gated(&self) -> bool {
        self.label == GATED
    }

    /// Whether it belongs to the picture's lower panel.
    pub(super) fn is_crowded(&self) -> bool {
        self.point.at == USERS_MANY
    }
}

/// Arms with many users first.
fn rows(record: &Record) -> Vec<Row<'_>> {
    let arms = || record.arms.iter();
    let all = arms().flat_map(|arm| arm.points.iter().map(|point| Row { label: &arm.arm, point }));
    let mut rows: Vec<Row<'_>> = all.collect();
    rows.sort_by(|a, b| b.point.at.total_cmp(&a.point.at));
    rows
}

/// Draws the picture as SVG.
pub(super) fn picture(record: &Record) -> Result<String> {
    let rows = rows(record);
    let mut svg = String::new();
    let height = bottom(&places(&rows)) + FAIRNESS_GAP + draw_fairness::TOTAL_HEIGHT;
    let size = (WIDTH as u32, height as u32);
    {
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&canvas, record, &rows)
            .map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
        canvas.present().map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
    }
    Ok(svg)
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw(canvas: &Canvas<'_>, record: &Record, rows: &[Row<'_>]) -> Drawn {
    canvas.fill(&WHITE)?;
    text(canvas, (32, 40), &headline(rows), 24, INK, HPos::Left, true)?;
    let rounds = rows.iter().map(|row| row.point.runs.len()).max().unwrap_or(0);
    let workload = record.arms.first().and_then(|arm| arm.setup.get("workload"));
    let caption = format!(
        "{}, {} cores, {rounds} round{} of {} s{}",
        workload.map_or("", String::as_str),
        record.header.machine.cores,
        if rounds > 1 { "s" } else { "" },
        record.counted_s,
        if record.header.quick { " (quick run, no measurement)" } else { "" },
    );
    text(canvas, (32, 68), &caption, 15, FAINT, HPos::Left, false)?;

    text(canvas, (BARS.0, 112), "Throughput, transactions/s", 17, INK, HPos::Left, true)?;
    text(canvas, (BARS.0, 132), "bar: median · dots: rounds", 13, FAINT, HPos::Left, false)?;
    text(
        canvas,
        (DOTS.0, 112),
        "Latency of a transaction, ms (log scale)",
        17,
        INK,
        HPos::Left,
        true,
    )?;
    let places = places(rows);
    labels(canvas, rows, &places)?;
    bars(canvas, rows, &places)?;
    latencies(canvas, rows, &places)?;
    draw_fairness::draw(canvas, rows, bottom(&places) + FAIRNESS_GAP)
}

/// The result in the picture's title, whatever it is.
fn headline(rows: &[Row<'_>]) -> String {
    let of = |label: &str, key: &str| {
        let row = rows.iter().find(|row| row.is_crowded() && row.label == label)?;
        Some(row.median(key)).filter(|value| *value > 0.0)
    };
    let ratio = |key: &str| Some(of(GATED, key)? / of(AS_IS, key)?);
    let (tps, p95) = (ratio(TPS), ratio(P95));
    match (tps, p95) {
        (Some(tps), Some(p95)) => {
            format!(
                "MariaDB with 256 users: the gate gives {tps:.2} × the throughput, {p95:.2} × the p95 latency"
            )
        }
        _ => "MariaDB with 256 users".to_owned(),
    }
}

/// The vertical middle of every row; arms with few users stand apart.
fn places(rows: &[Row<'_>]) -> Vec<i32> {
    let mut y = ROWS_TOP + ROW_HEIGHT / 2;
    let mut before = None;
    rows.iter()
        .map(|row| {
            if before.is_some_and(|users| users != row.point.at) {
                y += GROUP_GAP;
            }
            before = Some(row.point.at);
            let place = y;
            y += ROW_HEIGHT;
            place
        })
        .collect()
}

fn bottom(places: &[i32]) -> i32 {
    places.last().map_or(ROWS_TOP, |y| y + ROW_HEIGHT / 2)
}

fn labels(canvas: &Canvas<'_>, rows: &[Row<'_>], places: &[i32]) -> Drawn {
    for (row, &y) in rows.iter().zip(places) {
        let right = BARS.0 - 14;
        text(canvas, (right, y - 8), row.label, 16, INK, HPos::Right, row.is_gated())?;
        text(
            canvas,
            (right, y + 11),
            &format!("{} users", row.point.at),
            13,
            FAINT,
            HPos::Right,
            false,
        )?;
    }
    Ok(())
}

fn bars(canvas: &Canvas<'_>, rows: &[Row<'_>], places: &[i32]) -> Drawn {
    let largest = rows.iter().flat_map(|row| row.rounds(TPS)).fold(1.0, f64::max);
    // Room for the number behind the longest bar.
    let scale = f64::from(BARS.1 - 70) / largest;
    for (row, &y) in rows.iter().zip(places) {
        let colour = colour(row);
        let end = BARS.0 + (row.median(TPS) * scale) as i32;
        canvas.draw(&Rectangle::new([(BARS.0, y - 17), (end, y + 17)], colour.filled()))?;
        let mut rightmost = end;
        for tps in row.rounds(TPS) {
            let x = BARS.0 + (tps * scale) as i32;
            rightmost = rightmost.max(x + 5);
            canvas.draw(&Circle::new((x, y), 5, WHITE.filled()))?;
            canvas.draw(&Circle::new((x, y), 5, INK.stroke_width(2)))?;
        }
        let label = thousands(row.median(TPS));
        text(canvas, (rightmost + 8, y), &label, 17, INK, HPos::Left, row.is_gated())?;
    }
    let top = ROWS_TOP;
    canvas.draw(&PathElement::new(
        vec![(BARS.0, top), (BARS.0, bottom(places))],
        INK.stroke_width(1),
    ))?;
    Ok(())
}

fn latencies(canvas: &Canvas<'_>, rows: &[Row<'_>], places: &[i32]) -> Drawn {
    let values =
        || rows.iter().flat_map(|row| [row.median(P50), row.median(MAX)]).filter(|ms| *ms > 0.0);
    let low = values().fold(f64::INFINITY, f64::min).min(10.0).log10().floor();
    let high = values().fold(100.0, f64::max).log10() + 0.08;
    let x = |ms: f64| {
        let share = (ms.max(1e-3).log10() - low) / (high - low);
        DOTS.0 + (share * f64::from(DOTS.1)) as i32
    };
    let below = bottom(places);
    for decade in low as i32..=high.floor() as i32 {
        let ms = 10_f64.powi(decade);
        canvas.draw(&PathElement::new(
            vec![(x(ms), ROWS_TOP), (x(ms), below)],
            GRID.stroke_width(1),
        ))?;
        let label = if decade < 0 { format!("{ms}") } else { thousands(ms) };
        text(canvas, (x(ms), below + 14), &label, 13, FAINT, HPos::Center, false)?;
    }
    legend(canvas)?;
    for (row, &y) in rows.iter().zip(places) {
        let colour = colour(row);
        let [p50, p95, p99, max] = [P50, P95, P99, MAX].map(|key| x(row.median(key)));
        canvas.draw(&PathElement::new(vec![(p50, y), (max, y)], colour.stroke_width(3)))?;
        marks(canvas, [p50, p95, p99, max], y, colour)?;
        let label = format!("p95 {}", thousands(row.median(P95)));
        text(canvas, (p95, y - 19), &label, 14, INK, HPos::Center, row.is_gated())?;
    }
    Ok(())
}

fn legend(canvas: &Canvas<'_>) -> Drawn {
    let y = 132;
    for (offset, name) in [(0, "p50"), (62, "p95"), (124, "p99"), (186, "max")] {
        let x = DOTS.0 + 7 + offset;
        text(canvas, (x + 13, y), name, 13, FAINT, HPos::Left, false)?;
        mark(canvas, name, x, y, FAINT)?;
    }
    Ok(())
}

fn marks(canvas: &Canvas<'_>, [p50, p95, p99, max]: [i32; 4], y: i32, colour: RGBColor) -> Drawn {
    for (name, x) in [("max", max), ("p99", p99), ("p50", p50), ("p95", p95)] {
        mark(canvas, name, x, y, colour)?;
    }
    Ok(())
}

/// Shapes differ so that the marks can be told apart without their colour.
fn mark(canvas: &Canvas<'_>, name: &str, x: i32, y: i32, colour: RGBColor) -> Drawn {
    match name {
        "p50" => canvas.draw(&Circle::new((x, y), 6, colour.filled()))?,
        "p95" => {
            let diamond = vec![(x - 9, y), (x, y - 9), (x + 9, y), (x, y + 9)];
            canvas.draw(&Polygon::new(diamond, colour.filled()))?;
        }
        "p99" => {
            canvas.draw(&Circle::new((x, y), 5, WHITE.filled()))?;
            canvas.draw(&Circle::new((x, y), 5, colour.stroke_width(2)))?;
        }
        _ => {
            canvas.draw(&PathElement::new(vec![(x, y - 8), (x, y + 8)], colour.stroke_width(3)))?
        }
    }
    Ok(())
}

/// Colours that people with any colour vision can tell apart (after Okabe and Ito).
pub(super) fn colour(row: &Row<'_>) -> RGBColor {
    match (row.label, row.is_crowded()) {
        (GATED, true) => RGBColor(0x00, 0x72, 0xb2),
        (GATED, false) => RGBColor(0x56, 0xb4, 0xe9),
        (POOL, _) => RGBColor(0xe6, 0x9f, 0x00),
        (_, true) => RGBColor(0xd5, 0x5e, 0x00),
        (_, false) => RGBColor(0x8c, 0x8c, 0x8c),
    }
}

/// Writes text whose anchor is at the given side and at half its height.
pub(super) fn text(
    canvas: &Canvas<'_>,
    at: (i32, i32),
    content: &str,
    size: i32,
    colour: RGBColor,
    side: HPos,
    bold: bool,
) -> Drawn {
    let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let style = TextStyle::from(("sans-serif", size, weight).into_font())
        .color(&colour)
        .pos(Pos::new(side, VPos::Center));
    canvas.draw_text(content, &style, at)?;
    Ok(())
}
