//! An application's dft, ask and share over time, as SVG.

use anyhow::{Result, anyhow};
use headworks_store::governor::Window;
use plotters::prelude::*;
use std::path::Path;

/// Draws the windows, the latest at the right.
pub fn draw(name: &str, windows: &[Window], output: &Path) -> Result<()> {
    let area = SVGBackend::new(output, (900, 600)).into_drawing_area();
    let failed =
        |error: &dyn std::fmt::Display| anyhow!("cannot draw {}: {error}", output.display());
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let (upper, lower) = area.split_vertically(300);
    let seconds = windows.len().max(2) as f64;
    let at = |index: usize| index as f64 + 1.0 - seconds;
    let series: [Series; 3] = [
        ("share", BLUE, |w| Some(100.0 * w.granted)),
        ("ask", RED, |w| (w.ask > 0.0).then_some(100.0 * w.ask)),
        ("used", GREEN, |w| Some(100.0 * w.used)),
    ];
    panel(
        &upper,
        &format!("{name}: % of the store"),
        (1.0 - seconds, 0.0),
        (0.0, 100.0),
        &series,
        windows,
        at,
    )
    .map_err(|error| failed(&error))?;
    let dft: [Series; 1] = [("dft", BLACK, |w| w.dft.map(|dft| 100.0 * dft.clamp(-1.0, 1.0)))];
    panel(
        &lower,
        "deviation from target, %",
        (1.0 - seconds, 0.0),
        (-100.0, 100.0),
        &dft,
        windows,
        at,
    )
    .map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))
}

type Series = (&'static str, RGBColor, fn(&Window) -> Option<f64>);

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    x: (f64, f64),
    y: (f64, f64),
    series: &[Series],
    windows: &[Window],
    at: impl Fn(usize) -> f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(44)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    chart.configure_mesh().x_desc("seconds").light_line_style(WHITE).draw()?;
    for (name, color, of) in series {
        let points = windows.iter().enumerate().filter_map(|(index, w)| Some((at(index), of(w)?)));
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(*name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *color));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    Ok(())
}
