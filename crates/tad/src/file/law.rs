//! Amounts of work in a step: fixed, a parameter's, or drawn by a law.

use super::amounts::{example, quantity};
use super::error::Report;
use super::names::Names;
use super::section::Text;
use crate::model::{Law, Quantity};
use crate::units::{self, Dimension};

/// Largest shape of a Pareto law, and most entries of a histogram.
const SHAPE_MAX: f64 = 1_000.0;
const ENTRIES_MAX: usize = 10_000;

/// `100 us`, `$size`, `exponential 100 us`, `pareto 1.5 $size`, `histogram 4 KB: 9, 64 KB: 1`
pub(super) fn read(
    report: &mut Report,
    names: &mut Names,
    text: &Text,
    dimension: Dimension,
) -> Option<Quantity> {
    let (word, rest) = text.text.split_once(' ').unwrap_or((text.text.as_str(), ""));
    let rest = Text { text: rest.trim().to_owned(), at: text.at.clone() };
    match word {
        "exponential" => {
            let mean = mean(report, names, &rest, dimension)?;
            Some(Quantity::Drawn(Law::Exponential, Box::new(mean)))
        }
        "pareto" => {
            let (shape, mean_text) = rest.text.split_once(' ').unwrap_or((&rest.text, ""));
            let shape = shape.parse::<f64>().ok().filter(|s| *s > 1.0 && *s <= SHAPE_MAX);
            let Some(shape) = shape else {
                report.error(
                    &text.at,
                    "the shape of a Pareto law is a number above 1: up to 1 it has no mean",
                    format!("Write, for instance, \"pareto 1.5 {}\".", example(dimension)),
                );
                return None;
            };
            let mean_text = Text { text: mean_text.trim().to_owned(), at: rest.at };
            let mean = mean(report, names, &mean_text, dimension)?;
            // A shape of 1.0001 would be rounded to one without a mean.
            let thousandths = ((shape * 1e3).round() as u32).max(1_001);
            Some(Quantity::Drawn(Law::Pareto(thousandths), Box::new(mean)))
        }
        "histogram" => histogram(report, &rest, dimension),
        _ => mean(report, names, text, dimension),
    }
}

fn mean(
    report: &mut Report,
    names: &mut Names,
    text: &Text,
    dimension: Dimension,
) -> Option<Quantity> {
    match text.text.strip_prefix('$') {
        Some(parameter) => {
            Some(Quantity::Parameter(names.parameter(report, text, parameter, dimension)?))
        }
        None => {
            let value = units::amount(&text.text, dimension);
            Some(Quantity::Fixed(quantity(report, text, value, example(dimension))?))
        }
    }
}

fn histogram(report: &mut Report, text: &Text, dimension: Dimension) -> Option<Quantity> {
    let mut amounts = Vec::new();
    for entry in text.text.split(',').take(ENTRIES_MAX + 1) {
        let pair = entry.rsplit_once(':').and_then(|(amount, weight)| {
            let weight = weight.trim().parse::<u32>().ok()?;
            Some((units::amount(amount, dimension).ok()?, weight))
        });
        let Some(pair) = pair else {
            report.error(
                &text.at,
                format!("\"{}\" is no entry of a histogram of {dimension}", entry.trim()),
                format!(
                    "Write amounts with their counts: \"histogram {}: 9, …\".",
                    example(dimension)
                ),
            );
            return None;
        };
        amounts.push(pair);
    }
    let empty = amounts.iter().all(|(_, weight)| *weight == 0);
    if empty || amounts.len() > ENTRIES_MAX {
        report.error(
            &text.at,
            "a histogram has from 1 to 10000 entries, and not all counts are zero",
            "Merge entries that lie close together.",
        );
        return None;
    }
    Some(Quantity::Histogram(amounts))
}
