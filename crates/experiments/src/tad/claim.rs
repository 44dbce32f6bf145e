//! What must hold of a figure.

use super::figure::{Claim, Figure};
use super::formula::Formula;
use crate::sweep::{self, Absolute, Bound, Ours, Seed};

/// The claims of a figure.
pub(super) fn claims(figure: &'static Figure) -> Vec<sweep::Claim> {
    let claim = |claim: &'static Claim| sweep::Claim {
        statement: &claim.statement,
        paper: &claim.paper,
        unit: &claim.unit,
        ours: ours(figure, &claim.ours),
        bound: match (claim.at_least, claim.at_most) {
            (Some(least), Some(most)) => Bound::Between(least, most),
            (Some(least), None) => Bound::AtLeast(least),
            (None, most) => Bound::AtMost(most.unwrap_or(f64::NAN)),
        },
        given: claim.given,
        absolute: claim
            .absolute
            .iter()
            .map(|each| Absolute {
                what: &each.what,
                paper: each.paper,
                ours: ours(figure, &each.ours),
            })
            .collect::<Vec<_>>()
            .leak(),
        note: &claim.note,
    };
    figure.claims.iter().map(claim).collect()
}

fn ours(figure: &'static Figure, formula: &'static Formula) -> Ours {
    let value = move |seed: &Seed<'_>| formula.value(&|word| reading(figure, seed, word));
    Ours::Formula(Box::leak(Box::new(value)))
}

/// `ARM:KEY@POINT` is a number of a run, `ARM:KEY` that at all points; with `early:` or `late:`
/// before, the mean of a series over a half of the time.
fn reading(figure: &Figure, seed: &Seed<'_>, word: &str) -> Vec<f64> {
    let (part, word) = match word.split_once(':') {
        Some((part @ ("early" | "late"), rest)) => (part, rest),
        _ => ("", word),
    };
    let Some((arm, key)) = word.split_once(':') else { return Vec::new() };
    let (key, point) = key.split_once('@').unwrap_or((key, ""));
    let Some(arm) = figure.arm(arm).map(|arm| arm.label()) else { return Vec::new() };
    let at = |point: f64| match part {
        "early" => seed.early(arm, point, key),
        "late" => seed.late(arm, point, key),
        _ => seed.get(arm, point, key),
    };
    match point.parse() {
        Ok(point) => vec![at(point)],
        Err(_) => seed.points(arm).into_iter().map(at).collect(),
    }
}
