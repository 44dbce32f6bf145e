//! The picture: for each workload and protocol, throughput beside PostgreSQL as it is, and the tail of the latencies.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::analyse::{Row, ratio, row};
use super::arms::{Arm, Config, Load, Mode};
use super::record::Record;

const WIDTH: i32 = 1200;
const TOP: i32 = 120;
const BAR_HEIGHT: i32 = 15;
const GROUP_GAP: i32 = 24;
/// Left edge and width of the two panels.
const RATIO: (i32, i32) = (230, 380);
const TAIL: (i32, i32) = (760, 380);

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
const FAINT: RGBColor = RGBColor(0x66, 0x70, 0x7a);

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Draws the picture as SVG.
pub(super) fn picture(record: &Record, rows: &[Row]) -> Result<String> {
    let mut svg = String::new();
    let groups = (Load::ALL.len() * Mode::ALL.len()) as i32;
    let height = TOP + groups * (Config::ALL.len() as i32 * BAR_HEIGHT + GROUP_GAP) + 20;
    {
        let canvas =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        draw(&canvas, record, rows).map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
        canvas.present().map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
    }
    Ok(svg)
}

fn draw(canvas: &Canvas<'_>, record: &Record, rows: &[Row]) -> Drawn {
    canvas.fill(&WHITE)?;
    write(canvas, (32, 30), &record.header.title, 22, INK, HPos::Left)?;
    let caption = format!(
        "pgbench scale {}, {} cores, P = pool = {}, {} s a run, medians{}",
        record.scale,
        record.header.machine.cores,
        record.parallelism,
        record.window_s,
        if record.header.quick { " (quick run, no measurement)" } else { "" },
    );
    write(canvas, (32, 56), &caption, 14, FAINT, HPos::Left)?;
    write(canvas, (RATIO.0, 90), "Throughput, × PostgreSQL as it is", 16, INK, HPos::Left)?;
    write(canvas, (TAIL.0, 90), "p99 latency, ms (log scale)", 16, INK, HPos::Left)?;
    let largest = rows.iter().filter_map(|row| versus(rows, row)).fold(1.0, f64::max);
    let tails = || rows.iter().map(|row| row.median.p99_ms).filter(|ms| *ms > 0.0);
    let low = tails().fold(f64::MAX, f64::min).ln();
    let high = tails().fold(f64::MIN, f64::max).ln();
    let mut y = TOP;
    for load in Load::ALL {
        for mode in Mode::ALL {
            let title = format!("{}, {}", load.name(), mode.name());
            write(canvas, (32, y - 8), &title, 14, INK, HPos::Left)?;
            for config in Config::ALL {
                let Some(row) = row(rows, load, mode, config) else { continue };
                label(canvas, row.arm, y)?;
                if let Some(ratio) = versus(rows, row) {
                    let note = format!("{ratio:.2} ({:.0} tx/s)", row.median.throughput_tps);
                    bar(canvas, RATIO, y, ratio / largest, config, &note)?;
                }
                if row.median.p99_ms > 0.0 {
                    let share = (row.median.p99_ms.ln() - low) / (high - low).max(f64::EPSILON);
                    let note = format!("{:.1}", row.median.p99_ms);
                    bar(canvas, TAIL, y, 0.05 + 0.95 * share, config, &note)?;
                }
                y += BAR_HEIGHT;
            }
            y += GROUP_GAP;
        }
    }
    Ok(())
}

fn versus(rows: &[Row], row: &Row) -> Option<f64> {
    let Arm { load, mode, config } = row.arm;
    ratio(rows, (load, mode), config, config.baseline(), |n| n.throughput_tps)
}

fn label(canvas: &Canvas<'_>, arm: Arm, y: i32) -> Drawn {
    write(canvas, (RATIO.0 - 10, y + 6), arm.config.name(), 13, FAINT, HPos::Right)
}

/// A bar over this share of its panel, with a note behind it.
fn bar(
    canvas: &Canvas<'_>,
    (left, width): (i32, i32),
    y: i32,
    share: f64,
    config: Config,
    note: &str,
) -> Drawn {
    let (r, g, b) = config.colour();
    let room = f64::from(width - 110);
    // A share of a few hundred pixels.
    let right = left + (share.clamp(0.0, 1.0) * room).round() as i32;
    let corners = [(left, y), (right.max(left + 1), y + BAR_HEIGHT - 3)];
    canvas.draw(&Rectangle::new(corners, RGBColor(r, g, b).filled()))?;
    write(canvas, (right + 6, y + 6), note, 12, INK, HPos::Left)
}

fn write(
    canvas: &Canvas<'_>,
    at: (i32, i32),
    text: &str,
    size: i32,
    colour: RGBColor,
    side: HPos,
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
    canvas.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}
