//! Pictures of a run's time series.

use anyhow::{Result, anyhow};
use headworks_tad::sim::Outcome;
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 400);

/// Most lines of a picture: more cannot be told apart. The largest are drawn.
const LINES: usize = 8;

/// Okabe and Ito's colours, which colour-blind readers can tell apart too.
const COLOURS: [RGBColor; LINES] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 140, 40),
];

struct Line {
    name: String,
    values: Vec<f64>,
}

/// Name and text of each picture.
pub fn all(run: &Outcome) -> Result<Vec<(&'static str, String)>> {
    let throughput = run
        .clients
        .iter()
        .map(|client| Line { name: client.name.clone(), values: client.series_per_s.clone() });
    let utilization = run.resources.iter().map(|resource| Line {
        name: format!("{} {}", resource.node, resource.name),
        values: resource.series.iter().map(|[mean, _, _]| mean * 100.0).collect(),
    });
    let by_stage = |series: fn(&headworks_tad::sim::StageOutcome) -> &Vec<Vec<f64>>| {
        let lines = run.stages.iter().flat_map(move |stage| {
            run.clients.iter().enumerate().map(move |(client, named)| Line {
                name: format!("{}, {}", stage.name, named.name),
                values: series(stage).iter().map(|clients| clients[client]).collect(),
            })
        });
        lines.collect::<Vec<Line>>()
    };
    Ok(vec![
        ("throughput.svg", draw(run, "Throughput, requests/s", throughput.collect())?),
        ("utilization.svg", draw(run, "Used, % of each resource", utilization.collect())?),
        ("queues.svg", draw(run, "Waiting requests", by_stage(|stage| &stage.waiting_series))?),
        (
            "threads.svg",
            draw(run, "Threads, busy or blocked", by_stage(|stage| &stage.serving_series))?,
        ),
    ])
}

fn draw(run: &Outcome, title: &str, mut lines: Vec<Line>) -> Result<String> {
    let peak = |line: &Line| line.values.iter().copied().fold(0.0, f64::max);
    // Stable: lines of the same height stay in their order.
    lines.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    lines.truncate(LINES);
    lines.retain(|line| peak(line) > 0.0);
    let top = lines.first().map_or(1.0, peak) * 1.05;
    let end = run.sample_s * lines.iter().map(|line| line.values.len()).max().unwrap_or(1) as f64;
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let caption = format!("{title}: {} with {}, seed {}", run.system, run.scenario, run.seed);
        chart(&canvas, &caption, run.sample_s, &lines, (end, top))
            .map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
    }
    Ok(svg)
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn chart(
    canvas: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    caption: &str,
    sample_s: f64,
    lines: &[Line],
    (end, top): (f64, f64),
) -> Drawn {
    canvas.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(canvas)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart.configure_mesh().light_line_style(WHITE).x_desc("seconds").draw()?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        // A value is the mean of its bucket: drawn in the middle of it.
        let points = line.values.iter().enumerate();
        let points = points.map(|(at, value)| ((at as f64 + 0.5) * sample_s, *value));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(line.name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 1), (x + 16, y + 1)], colour.filled()));
    }
    if !lines.is_empty() {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .position(SeriesLabelPosition::UpperLeft)
            .draw()?;
    }
    canvas.present()?;
    Ok(())
}
