//! The lower panel: the requests of every user, from the least to the best served, as a share of
//! the mean.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::draw::{Canvas, FAINT, GRID, INK, Row, colour, text};
use crate::served::{SHARES, UNFAIRNESS};
use crate::sweep::record::Run;
use headworks_policy::metrics::median;

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// Left and right edge; room for labels stays to the right.
const LEFT: i32 = 100;
const RIGHT: i32 = 935;

/// Height of the whole panel, from the middle of its title to the picture's edge.
pub(super) const TOTAL_HEIGHT: i32 = HEIGHT + 84;

/// Height of the plot, and the least distance between two labels.
const HEIGHT: i32 = 200;
const LABEL_DISTANCE: f64 = 21.0;

/// Draws the panel with its title at `top`.
pub(super) fn draw(canvas: &Canvas<'_>, rows: &[Row<'_>], top: i32) -> Drawn {
    text(canvas, (LEFT, top), "Service per user, 256 users", 17, INK, HPos::Left, true)?;
    let caption = "requests of each user relative to the mean, from the least to the best served; flat is fair";
    text(canvas, (LEFT, top + 20), caption, 13, FAINT, HPos::Left, false)?;
    let curves: Vec<(&Row<'_>, &Vec<f64>)> = rows
        .iter()
        .filter(|row| row.is_crowded())
        .filter_map(|row| {
            Some((row, middle_round(row)?.series.get(SHARES).filter(|all| !all.is_empty())?))
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, shares)| shares.iter().copied());
    let low = (all().fold(0.9, f64::min) * 10.0).floor() / 10.0;
    let high = (all().fold(1.1, f64::max) * 10.0).ceil() / 10.0;
    let (upper, lower) = (top + 40, top + 40 + HEIGHT);
    let y = |share: f64| lower - ((share - low) / (high - low) * f64::from(HEIGHT)) as i32;
    let step = [0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| (high - low) / step <= 6.0)
        .unwrap_or(50.0);
    let mut tick = (low / step).ceil() * step;
    while tick <= high + 1e-9 {
        let width = if (tick - 1.0).abs() < 1e-9 { 2 } else { 1 };
        canvas.draw(&PathElement::new(
            vec![(LEFT, y(tick)), (RIGHT, y(tick))],
            GRID.stroke_width(width),
        ))?;
        text(canvas, (LEFT - 10, y(tick)), &format!("{tick:.2} ×"), 13, FAINT, HPos::Right, false)?;
        tick += step;
    }
    canvas.draw(&PathElement::new(vec![(LEFT, upper), (LEFT, lower)], GRID.stroke_width(1)))?;
    for (row, shares) in &curves {
        let last = (shares.len().max(2) - 1) as f64;
        let line: Vec<(i32, i32)> = shares
            .iter()
            .enumerate()
            .map(|(place, share)| {
                (LEFT + (place as f64 / last * f64::from(RIGHT - LEFT)) as i32, y(*share))
            })
            .collect();
        canvas.draw(&PathElement::new(
            line,
            colour(row).stroke_width(if row.is_gated() { 4 } else { 3 }),
        ))?;
    }
    text(canvas, (LEFT, lower + 16), "least served user", 13, FAINT, HPos::Left, false)?;
    text(canvas, (RIGHT, lower + 16), "best served user", 13, FAINT, HPos::Right, false)?;
    labels(canvas, &curves, y)
}

/// Labels stand at the ends of their curves, moved apart where those are close.
fn labels(canvas: &Canvas<'_>, curves: &[(&Row<'_>, &Vec<f64>)], y: impl Fn(f64) -> i32) -> Drawn {
    let wanted: Vec<f64> = curves
        .iter()
        .map(|(_, shares)| f64::from(y(shares.last().copied().unwrap_or(1.0))))
        .collect();
    for ((row, _), place) in curves.iter().zip(spread(&wanted, LABEL_DISTANCE)) {
        let unfairness =
            median(&row.rounds(UNFAIRNESS)).map_or("–".to_owned(), |value| format!("{value:.3}"));
        let label = format!("{}: U_f {unfairness}", row.label);
        let (x, y) = (RIGHT + 16, place as i32);
        canvas.draw(&Circle::new((x, y), 6, colour(row).filled()))?;
        text(canvas, (x + 12, y), &label, 14, INK, HPos::Left, row.is_gated())?;
    }
    Ok(())
}

/// Moves places apart until neighbours keep their distance, as little as a pass in either direction
/// allows.
fn spread(wanted: &[f64], distance: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    for pair in order.windows(2).rev() {
        places[pair[0]] = places[pair[0]].min(places[pair[1]] - distance);
    }
    places
}

/// The round whose unfairness is the median one.
fn middle_round<'a>(row: &Row<'a>) -> Option<&'a Run> {
    let unfairness = |run: &Run| run.numbers.get(UNFAIRNESS).copied().unwrap_or(f64::MAX);
    let mut runs: Vec<&Run> = row.point.runs.iter().collect();
    runs.sort_by(|a, b| unfairness(a).total_cmp(&unfairness(b)));
    runs.get(runs.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance() {
        assert_eq!(spread(&[100.0, 50.0], 20.0), [100.0, 50.0]);
        // Both at 100: the first of the order moves up to 80. A third at 90 lies between and pushes
        // further.
        assert_eq!(spread(&[100.0, 100.0], 20.0), [80.0, 100.0]);
        assert_eq!(spread(&[100.0, 90.0, 100.0], 20.0), [80.0, 60.0, 100.0]);
    }
}
