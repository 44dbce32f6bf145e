//! Requests and their parameters.

use super::amounts::{example, quantity};
use super::error::{Report, list};
use super::marks::Marks;
use super::names::{Draft, Names, unique};
use super::section::{Section, Text};
use super::step;
use crate::model::{Parameter, RequestType, StepId, Tad};
use crate::units::{self, Dimension};

/// Reads a `[[request]]`.
pub(super) fn read(mut section: Section, report: &mut Report, tad: &mut Tad, marks: &mut Marks) {
    let taken = tad.requests.iter().map(|request| request.name.as_str());
    let name = unique(&mut section, report, "request", taken);
    let about = section.words(report, "about");
    let parameters = read_parameters(&mut section, report);
    let mut tables = section.tables(report, "step", "[[request.step]]");
    let mut steps: Vec<String> = Vec::new();
    let mut spans = Vec::new();
    for table in &mut tables {
        let text = unique(table, report, "step", steps.iter().map(String::as_str));
        steps.push(text.text);
        spans.push(text.at);
    }
    let mut names = Names { steps, parameters };
    let parts: Vec<_> = tables
        .into_iter()
        .zip(0..)
        .map(|(table, id)| step::read(table, report, tad, &mut names, id))
        .collect();
    if parts.is_empty() {
        report.error(
            &section.at,
            format!("request \"{}\" has no steps: no stage does anything for it", name.text),
            "Add a [[request.step]].",
        );
    }
    let first = match section.text(report, "first") {
        Some(text) => names.step(report, "first", &text).unwrap_or(0),
        None => 0,
    };
    let answered: Vec<StepId> = section
        .texts(report, "answered-by")
        .iter()
        .filter_map(|text| names.step(report, "answered-by", text))
        .collect();
    if !section.has("answered-by") || (answered.is_empty() && report.clean()) {
        report.error(
            &section.at,
            format!("request \"{}\" does not say when its client has the answer", name.text),
            format!(
                "Add `answered-by = [\"…\"]`: {}.",
                list(names.steps.iter().map(String::as_str))
            ),
        );
    }
    tad.requests.push(RequestType {
        name: name.text,
        about,
        parameters: names.parameters.iter().map(|draft| settle(draft, report)).collect(),
        steps: parts,
        first,
        answered_by: answered,
    });
    marks.requests.push(name.at);
    marks.steps.push(spans);
    section.finish(report);
}

fn read_parameters(section: &mut Section, report: &mut Report) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (name, value) in section.entries(report, "parameters") {
        match value.get_ref().as_str() {
            Some(text) => drafts.push(Draft {
                name,
                default: Text { text: text.to_owned(), at: value.span() },
                dimension: None,
            }),
            None => section.mistyped(report, &name.text, value, "an amount in quotes"),
        }
    }
    drafts
}

/// The default can be read once the dimension is known.
fn settle(draft: &Draft, report: &mut Report) -> Parameter {
    let dimension = draft.dimension.unwrap_or_else(|| {
        report.error(
            &draft.name.at,
            format!(
                "parameter \"{}\" is used by no step, so nothing says what it counts",
                draft.name.text
            ),
            format!("Use it (`uses = [\"network ${}\"]`) or remove it.", draft.name.text),
        );
        Dimension::Bytes
    });
    let default = if draft.dimension.is_some() {
        let value = units::amount(&draft.default.text, dimension);
        quantity(report, &draft.default, value, example(dimension)).unwrap_or(0)
    } else {
        0
    };
    Parameter { name: draft.name.text.clone(), dimension, default }
}
