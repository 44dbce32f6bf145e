//! Claims, held against a record. Pure.

use super::claim::Claim;
use super::found::{Seed, spread};
use super::record::{Record, Run};
use crate::record::Verdict;

/// Adds what follows from the recorded numbers, to a copy.
pub(crate) fn derived(derive: &dyn Fn(&mut Run), record: &Record) -> Record {
    let mut record = record.clone();
    for run in record.arms.iter_mut().flat_map(|arm| &mut arm.points).flat_map(|p| &mut p.runs) {
        derive(run);
    }
    record
}

/// All verdicts, in the order of the claims. `runs` is what one run is called.
pub(crate) fn verdicts(claims: &[Claim], runs: &str, record: &Record) -> Vec<Verdict> {
    claims.iter().map(|claim| verdict(claim, runs, record)).collect()
}

fn verdict(claim: &Claim, runs: &str, record: &Record) -> Verdict {
    let counts = record.arms.iter().flat_map(|arm| &arm.points).map(|point| point.runs.len());
    let seeds = counts.min().unwrap_or(0);
    let values: Vec<f64> = (0..seeds).map(|index| claim.ours.of(&Seed { record, index })).collect();
    let measured = !values.is_empty() && values.iter().all(|value| value.is_finite());
    let holding = values.iter().filter(|value| claim.bound.holds(**value)).count();
    let found = spread(&values).filter(|_| measured);
    let note = match found {
        None => "not measured: the record lacks what it needs".to_owned(),
        Some([low, _, high]) => format!(
            "{}; {holding} of {seeds} {runs}, {} to {}{}{}",
            claim.bound.text(),
            significant(low),
            significant(high),
            if claim.note.is_empty() { "" } else { "; " },
            claim.note,
        ),
    };
    Verdict {
        statement: claim.statement.to_owned(),
        paper: claim.paper.to_owned(),
        ours: found.map(|[_, middle, _]| middle),
        unit: claim.unit.to_owned(),
        holds: found.is_some_and(|[_, middle, _]| claim.bound.holds(middle)),
        ratio: found.zip(claim.given).map(|([_, middle, _], given)| middle / given),
        absolute: absolute(claim, record, seeds),
        note,
    }
}

/// Numbers in the paper's own units: ours and the paper's.
fn absolute(claim: &Claim, record: &Record, seeds: usize) -> String {
    let each = claim.absolute.iter().map(|number| {
        let values: Vec<f64> =
            (0..seeds).map(|index| number.ours.of(&Seed { record, index })).collect();
        let ours = spread(&values).map_or("–".to_owned(), |[_, middle, _]| significant(middle));
        format!("{}: {ours}, the paper {}", number.what, significant(number.paper))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The ratio of ours to the paper's number, for people.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{} ×", significant(ratio)))
}

/// Three digits that matter.
pub(crate) fn significant(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        tens if tens >= 10.0 => 1,
        ones if ones >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
