//! What a figure consists of. A figure is data, a file of `figures`: arms, points, seeds, and what
//! must hold of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::formula::Formula;

/// A figure of the dissertation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Figure {
    /// The experiment's id.
    pub(super) id: String,
    /// One line that says what it shows.
    pub(super) title: String,
    /// Number of the figure.
    pub(super) figure: String,
    /// What is simulated, in a few sentences.
    pub(super) about: String,
    /// Name of the system of every arm that does not name another.
    pub(super) system: String,
    /// The scenario as its file would be, with [`PLACEHOLDERS`].
    pub(super) scenario: String,
    /// What changes from point to point.
    pub(super) axis: Axis,
    /// Systems that are compared.
    pub(super) arms: Vec<Arm>,
    /// For how long.
    pub(super) time: Time,
    /// Keys of what is recorded of every run; a `*` stands for anything.
    pub(super) keep: Vec<String>,
    /// Numbers that follow from those that are recorded. Also of old records.
    #[serde(default)]
    pub(super) derived: Vec<Derived>,
    /// What must hold.
    #[serde(rename = "claim")]
    pub(super) claims: Vec<Claim>,
    /// The picture.
    pub(super) panels: Vec<Panel>,
}

/// What a scenario text may have in it: the point, the simulated time, the time that is not
/// counted, and the moment in the middle at which something changes.
const PLACEHOLDERS: [&str; 4] = ["{x}", "{duration}", "{warmup}", "{middle}"];

/// Values on the horizontal axis.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Axis {
    /// Key in the record, with its unit.
    pub(super) key: String,
    /// For people.
    pub(super) label: String,
    pub(super) points: Vec<f64>,
}

/// A system with remedies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Arm {
    /// Its name in formulas.
    pub(super) name: String,
    /// For people, if that is another.
    #[serde(default)]
    label: String,
    /// Another system than the figure's.
    #[serde(default)]
    system: Option<String>,
    /// Letters of the remedies of the five problems, in their order, as the dissertation writes
    /// them: `d|i|?|?|?`.
    #[serde(default = "unchanged")]
    pub(super) maat: String,
    /// Queues have the policies of the system's file, and not the scenario's.
    #[serde(default)]
    pub(super) shipped: bool,
    /// Its place in the palette, if that is not its place among the arms.
    #[serde(default)]
    pub(super) colour: Option<usize>,
    /// Another number of nodes of a kind.
    #[serde(default)]
    pub(super) nodes: BTreeMap<String, u32>,
    /// Numbers of controls that differ, by the control's `do`: formulas of `x`, the point.
    #[serde(default)]
    pub(super) controls: BTreeMap<String, BTreeMap<String, Formula>>,
    /// Threads of stages: formulas of `x`.
    #[serde(default)]
    pub(super) threads: BTreeMap<String, Formula>,
}

fn unchanged() -> String {
    "?|?|?|?|?".to_owned()
}

/// Simulated time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Time {
    /// Counted in a full run, in seconds.
    pub(super) full_s: u64,
    /// Counted in a quick run.
    pub(super) quick_s: u64,
    /// Not counted, at the start.
    pub(super) warmup_s: u64,
    /// How long all runs take on two cores, full and quick.
    pub(super) takes_s: (u64, u64),
}

/// A number that follows from those of its run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Derived {
    pub(super) key: String,
    pub(super) is: Is,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Is {
    /// A formula of keys.
    Formula(Formula),
    Settled(Settled),
}

/// The time from a change until the first moment from which on a series is steady for a while. Not
/// until the end: a controller now and then overcorrects long after it has settled.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settled {
    pub(super) series: String,
    /// When the change is.
    pub(super) change_s: f64,
    /// How far a value may be from the final one, relative to that.
    pub(super) steady: f64,
    /// For how long it must be that near.
    pub(super) while_s: f64,
    /// How much of the end is taken for final.
    pub(super) final_s: f64,
}

/// What must hold: see [`crate::sweep::Claim`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Claim {
    pub(super) statement: String,
    pub(super) paper: String,
    /// The measured figure that is compared with the bound: its unit in words, and its formula.
    pub(super) unit: String,
    pub(super) ours: Formula,
    #[serde(default)]
    pub(super) at_least: Option<f64>,
    #[serde(default)]
    pub(super) at_most: Option<f64>,
    /// The paper's number for the same.
    #[serde(default)]
    pub(super) given: Option<f64>,
    #[serde(default)]
    pub(super) absolute: Vec<InUnits>,
    #[serde(default)]
    pub(super) note: String,
}

/// A number that the paper gives in its own unit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InUnits {
    pub(super) what: String,
    pub(super) paper: f64,
    pub(super) ours: Formula,
}

/// A part of the picture, or one for each arm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Panel {
    pub(super) kind: Kind,
    /// `{arm}` stands for the arm's name.
    pub(super) title: String,
    pub(super) unit: String,
    /// Arms that are drawn; all of them if there are none.
    #[serde(default)]
    pub(super) arms: Vec<String>,
    /// A panel for each arm.
    #[serde(default)]
    pub(super) each: bool,
    /// A line for each arm that shows this.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// Lines, if each arm has a panel; otherwise categories with a bar for each arm.
    #[serde(default)]
    pub(super) lines: Vec<Line>,
    /// The point of a series, if it is not the first one.
    #[serde(default)]
    pub(super) at: Option<f64>,
    #[serde(default)]
    pub(super) up_to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Sweep,
    Time,
    Bars,
}

/// A line, or a category of bars.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) key: String,
    /// The point, if it is not the first one.
    #[serde(default)]
    pub(super) at: Option<f64>,
    #[serde(default)]
    pub(super) colour: Option<usize>,
    #[serde(default)]
    pub(super) dashed: bool,
    /// Keys of a band around it.
    #[serde(default)]
    pub(super) band: Option<(String, String)>,
}

impl Figure {
    /// The name of an arm's system.
    pub(super) fn system_of<'a>(&'a self, arm: &'a Arm) -> &'a str {
        arm.system.as_deref().unwrap_or(&self.system)
    }

    /// The scenario at a point.
    pub(super) fn scenario_text(&self, point: f64, counted_s: u64) -> String {
        let duration_s = self.time.warmup_s + counted_s;
        let values = [
            format!("{point}"),
            format!("{duration_s} s"),
            format!("{} s", self.time.warmup_s),
            format!("{} ms", duration_s * 500),
        ];
        let text = self.scenario.clone();
        PLACEHOLDERS.iter().zip(values).fold(text, |text, (name, value)| text.replace(name, &value))
    }

    /// The arm of a name.
    pub(super) fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }
}

impl Arm {
    /// Its name for people, by which the record knows it.
    pub(super) fn label(&self) -> &str {
        if self.label.is_empty() { &self.name } else { &self.label }
    }
}
