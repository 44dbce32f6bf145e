//! Requests and their parameters.

use super::Marks;
use super::amounts::{example, quantity};
use super::error::{Report, list, suggest};
use super::section::{Section, Text};
use super::step;
use super::system::unique;
use crate::model::{Parameter, RequestType, StepId, Tad};
use crate::units::{self, Dimension};

/// A parameter whose dimension is not known before it is used.
#[derive(Debug)]
pub(super) struct Draft {
    name: Text,
    default: Text,
    dimension: Option<Dimension>,
}

/// Names of a request to which its steps refer.
#[derive(Debug)]
pub(super) struct Names {
    pub steps: Vec<String>,
    pub parameters: Vec<Draft>,
}

impl Names {
    /// The step of a name, reported if there is none.
    pub fn step(&self, report: &mut Report, key: &str, text: &Text) -> Option<StepId> {
        let found = self.steps.iter().position(|name| *name == text.text);
        if found.is_none() {
            report.error(
                &text.at,
                format!(
                    "`{key}` names the step \"{}\", which the request does not have",
                    text.text
                ),
                suggest(&text.text, self.steps.iter().map(String::as_str)),
            );
        }
        found
    }

    /// The parameter of a name, which is used for a resource of this dimension.
    pub fn parameter(
        &mut self,
        report: &mut Report,
        text: &Text,
        name: &str,
        dimension: Dimension,
    ) -> Option<usize> {
        let Some(index) = self.parameters.iter().position(|known| known.name.text == name) else {
            report.error(
                &text.at,
                format!("the request has no parameter \"{name}\""),
                suggest(name, self.parameters.iter().map(|known| known.name.text.as_str())),
            );
            return None;
        };
        let draft = &mut self.parameters[index];
        match draft.dimension {
            Some(other) if other != dimension => {
                report.error(
                    &text.at,
                    format!("parameter \"{name}\" counts {other} elsewhere and {dimension} here: one number cannot mean both"),
                    "Use two parameters.",
                );
                None
            }
            _ => {
                draft.dimension = Some(dimension);
                Some(index)
            }
        }
    }
}

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
