//! The curve of throughput over P as a picture.

use super::measured;
use crate::tuning::TuningReport;
use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// Draws the measurements, the model and the P in force.
pub(super) fn draw(report: &TuningReport) -> Result<String> {
    let mut svg = String::new();
    draw_into(report, &mut svg).map_err(|error| anyhow!("cannot draw the curve: {error}"))?;
    Ok(svg)
}

fn draw_into(report: &TuningReport, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let points = measured(report);
    let model = report.fitted.as_ref().map_or(&[][..], |fitted| &fitted.curve);
    let most = points.iter().map(|each| each.parallelism).max().unwrap_or(16).max(2);
    let top = points
        .iter()
        .map(|each| each.turns_per_s)
        .chain(model.iter().map(|(_, rate)| *rate))
        .fold(1.0, f64::max);
    let area = SVGBackend::with_string(svg, (860, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Throughput and sessions inside (P)", ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((1.0..f64::from(most) * 1.1).log_scale().base(2.0), 0.0..top * 1.15)?;
    chart
        .configure_mesh()
        .x_desc("P: sessions inside at once")
        .y_desc("turns (transactions) per second")
        .x_label_formatter(&|p| format!("{p:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    let grey = RGBColor(120, 120, 120);
    let blue = RGBColor(31, 90, 166);
    let red = RGBColor(190, 50, 40);
    if !model.is_empty() {
        chart
            .draw_series(LineSeries::new(
                model.iter().map(|(p, rate)| (f64::from(*p), *rate)),
                grey.stroke_width(2),
            ))?
            .label(match &report.fitted {
                Some(fitted) if fitted.outdated => "model (Eq. 2) of an earlier search's samples",
                _ => "model (Eq. 2) from the first three samples",
            })
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey.stroke_width(2)));
    }
    chart
        .draw_series(points.iter().map(|each| {
            let half = each.interval.unwrap_or(0.0) * each.turns_per_s;
            ErrorBar::new_vertical(
                f64::from(each.parallelism),
                each.turns_per_s - half,
                each.turns_per_s,
                each.turns_per_s + half,
                blue.filled(),
                8,
            )
        }))?
        .label("measured, 95 % interval")
        .legend(move |(x, y)| Circle::new((x + 9, y), 4, blue.filled()));
    let best = points.iter().filter(|each| each.parallelism == report.best);
    chart
        .draw_series(best.map(|each| {
            Circle::new((f64::from(each.parallelism), each.turns_per_s), 7, red.stroke_width(3))
        }))?
        .label(format!("best: P = {}", report.best))
        .legend(move |(x, y)| Circle::new((x + 9, y), 6, red.stroke_width(3)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.9))
        .border_style(grey)
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_drawn_with_and_without_a_model() {
        let mut report = super::super::tests::report();
        let svg = draw(&report).unwrap();
        assert!(svg.contains("best: P = 24") && svg.contains("model (Eq. 2)"));
        assert!(!svg.contains("of an earlier search"));
        report.fitted.as_mut().unwrap().outdated = true;
        assert!(draw(&report).unwrap().contains("model (Eq. 2) of an earlier search"));
        report.fitted = None;
        assert!(!draw(&report).unwrap().contains("model (Eq. 2)"));
        assert!(draw(&TuningReport::default()).unwrap().starts_with("<svg"));
    }
}
