//! Remedies that a search may choose: those of the system's file, and those that the checks advise.

use super::cost::{Costs, stages};
use crate::check;
use crate::file::read_remedies;
use crate::model::Tad;
use crate::remedy::{Problem, Remedy, apply};
use serde::Serialize;

/// One choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Its letter in the system's file; none for advice of the checks.
    pub problem: Problem,
    /// Its letter in the system's file; none for what the checks advise.
    pub letter: Option<String>,
    /// In words.
    pub about: String,
    /// The file's cost for all of it.
    #[serde(skip)]
    pub fixed_cost: Option<u32>,
    /// What is done, in order.
    #[serde(skip)]
    pub remedies: Vec<Remedy>,
}

impl Candidate {
    /// `no-scheduling.d`, or the advised remedies in the file's form.
    pub fn name(&self) -> String {
        match &self.letter {
            Some(letter) => format!("{}.{letter}", self.problem.name()),
            None => {
                let words: Vec<String> = self
                    .remedies
                    .iter()
                    .map(|remedy| format!("{} {}", remedy.name(), stages(remedy).join("+")))
                    .collect();
                words.join(", ")
            }
        }
    }
}

/// All choices, in the order in which they are applied. `own` leaves out the checks' advice.
/// `reached` tells which stages the workloads reach: a choice that touches none of them has no
/// effect.
pub fn candidates(tad: &Tad, own: bool, reached: impl Fn(&str) -> bool) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for (&problem, alternatives) in &tad.remedies {
        for alternative in alternatives {
            found.push(Candidate {
                problem,
                letter: Some(alternative.letter.clone()),
                about: alternative.about.clone(),
                fixed_cost: alternative.cost,
                remedies: alternative.remedies.clone(),
            });
        }
    }
    if !own {
        advised(tad, &mut found);
        // A remedy may reveal a hidden problem (section 4.3): a stage that gets a pool can run out
        // of threads. So the checks run again after each direct remedy.
        for at in 0..found.len() {
            let mut changed = tad.clone();
            let direct = found[at].remedies.iter().all(|remedy| !remedy.is_control());
            let applied = found[at].remedies.iter().all(|r| apply(&mut changed, r).is_ok());
            if direct && applied {
                advised(&changed, &mut found);
            }
        }
    }
    found.retain(|each| each.remedies.iter().any(|r| stages(r).into_iter().any(&reached)));
    // Stable: within a problem, the file's come first.
    found.sort_by_key(|each| each.problem);
    found
}

/// Adds the checks' advice, unless it is there already.
fn advised(tad: &Tad, found: &mut Vec<Candidate>) {
    for finding in check::check(tad) {
        for advice in &finding.remedies {
            let text = format!("remedies = [{}]", advice.remedies.join(", "));
            // Advice can always be parsed; if it could not, it could not be applied either.
            let Ok(remedies) = read_remedies("advice", &text, tad) else { continue };
            if found.iter().all(|other| other.remedies != remedies) {
                found.push(Candidate {
                    problem: finding.problem,
                    letter: None,
                    about: advice.about.to_owned(),
                    fixed_cost: None,
                    remedies,
                });
            }
        }
    }
}

/// The remedies of several choices without duplicates, and their building cost.
pub fn together(tad: &Tad, chosen: &[&Candidate], costs: &Costs) -> (Vec<Remedy>, u32) {
    let mut remedies: Vec<Remedy> = Vec::new();
    let mut cost = 0;
    for candidate in chosen {
        cost += candidate.fixed_cost.unwrap_or(0);
        for remedy in &candidate.remedies {
            if remedies.contains(remedy) {
                continue;
            }
            if candidate.fixed_cost.is_none() {
                cost += costs.of(tad, remedy);
            }
            remedies.push(remedy.clone());
        }
    }
    (remedies, cost)
}
