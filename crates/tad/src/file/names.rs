//! Names: those that are given, and those that refer to something.

use super::error::{Report, suggest};
use super::section::{Section, Text};
use crate::model::{StageId, StepId, Tad};
use crate::units::Dimension;

/// An index that a later look-up with `get` does not find: of something that was reported missing.
pub(super) const NOWHERE: usize = usize::MAX;

/// A name that is not taken yet, reported otherwise.
pub(super) fn unique<'n>(
    section: &mut Section,
    report: &mut Report,
    what: &str,
    mut taken: impl Iterator<Item = &'n str>,
) -> Text {
    let Some(name) = section.need_text(report, "name") else {
        return Text { text: String::new(), at: section.at.clone() };
    };
    if name.text.is_empty() {
        report.error(&name.at, format!("the name of a {what} is empty"), "Give it a name.");
    } else if taken.any(|other| other == name.text) {
        report.error(
            &name.at,
            format!("there are two of {what} \"{}\": a reference could mean either", name.text),
            "Give one of them another name.",
        );
    }
    name
}

/// Finds a stage by its name, and reports a name that no stage has.
pub(super) fn stage(report: &mut Report, tad: &Tad, text: &Text) -> Option<StageId> {
    let found = tad.stage(&text.text);
    if found.is_none() {
        report.error(
            &text.at,
            format!("there is no stage \"{}\"", text.text),
            suggest(&text.text, tad.stages.iter().map(|stage| stage.name.as_str())),
        );
    }
    found
}

/// A parameter whose dimension is not known before it is used.
#[derive(Debug)]
pub(super) struct Draft {
    pub name: Text,
    pub default: Text,
    pub dimension: Option<Dimension>,
}

/// Names of a request to which its steps refer.
#[derive(Debug)]
pub(super) struct Names {
    pub steps: Vec<String>,
    pub parameters: Vec<Draft>,
}

impl Names {
    /// Finds a step by its name. An unknown name is reported.
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
