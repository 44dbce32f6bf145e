//! The system of an arm.

use anyhow::{Context, Result, anyhow};
use headworks_tad::model::{Problem, Remedy, Tad};
use headworks_tad::remedy::apply;
use headworks_tad::{file, systems};

use super::figure::{Arm, Figure};
use super::formula::Formula;

impl Figure {
    /// The system of an arm at a point.
    pub(super) fn tad(&self, arm: &Arm, point: f64) -> Result<Tad> {
        let mut tad = system(self.system_of(arm), &arm.maat)?;
        arm.adjust(&mut tad, point)?;
        Ok(tad)
    }
}

impl Arm {
    /// Applies the changes that this arm makes to the system at a point, beyond the remedies.
    fn adjust(&self, tad: &mut Tad, point: f64) -> Result<()> {
        let at = |formula: &Formula| formula.value(&|_| vec![point]);
        for (name, count) in &self.nodes {
            let node = tad.nodes.iter_mut().find(|node| node.name == *name);
            node.with_context(|| format!("the system has no nodes {name}"))?.count = *count;
        }
        for number in 0..tad.controls.len() {
            let Some(changed) = self.controls.get(tad.controls[number].name()) else { continue };
            let text = format!("remedies = [{}]", tad.controls[number].to_toml());
            let mut control: toml::Table = toml::from_str(&text)?;
            for (key, formula) in changed {
                control["remedies"][0][key.as_str()] = toml::Value::Integer(at(formula) as i64);
            }
            let read = file::read_remedies("a control", &control.to_string(), tad);
            tad.controls[number] = read.map_err(|errors| anyhow!("{errors}"))?.remove(0);
        }
        for (stage, threads) in &self.threads {
            let threads = at(threads) as u32;
            apply(tad, &Remedy::SetThreads { stage: stage.clone(), threads })?;
        }
        Ok(())
    }
}

/// A built-in system with remedies: letters as an [`Arm`] has them.
pub(crate) fn system(name: &str, maat: &str) -> Result<Tad> {
    let text = systems::text(name)
        .or_else(|| systems::problem_text(name))
        .ok_or_else(|| anyhow!("no system is named {name}"))?;
    let mut tad = file::read_tad(name, text).map_err(|errors| anyhow!("{errors}"))?.value;
    for (problem, letter) in Problem::ALL.into_iter().zip(maat.split('|')) {
        if letter == "?" {
            continue;
        }
        let alternatives = tad.remedies.get(&problem).cloned().unwrap_or_default();
        let chosen = alternatives
            .iter()
            .find(|each| each.letter == letter)
            .ok_or_else(|| anyhow!("system {name} has no remedy {letter} of {}", problem.name()))?;
        for remedy in &chosen.remedies {
            apply(&mut tad, remedy)?;
        }
    }
    Ok(tad)
}
