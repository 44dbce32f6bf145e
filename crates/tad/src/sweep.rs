//! A scenario with one of its numbers at several values.

use crate::model::Tad;
use crate::scenario::{Arrivals, Change, Load, Scenario};
use crate::units;

/// Most values of a sweep.
const STEPS_MAX: u32 = 100;
/// Values without a number of them.
const STEPS: u32 = 5;

/// Why a sweep cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" cannot be swept: {why}\n  write rate=1000..3000, C2.threads=40..640/4 or C2.reply=\"10 KB..200 KB\": a load's rate, its threads \
     or a parameter of its request, for one client or all, and after / how many values"
)]
pub struct SweepError {
    text: String,
    why: String,
}

/// One number of a scenario, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    text: String,
    /// Whose loads; all clients' if none.
    client: Option<String>,
    /// `rate`, `threads` or a parameter.
    key: String,
    from: String,
    to: String,
    steps: u32,
}

impl Sweep {
    /// Reads `rate=1000..3000`, `C2.threads=40..640/4`, `C2.reply=10 KB..200 KB`.
    pub fn parse(text: &str) -> Result<Sweep, SweepError> {
        let wrong = |why: &str| SweepError { text: text.to_owned(), why: why.to_owned() };
        let (what, values) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        let (from, rest) = values.split_once("..").ok_or_else(|| wrong("there is no .."))?;
        let (to, steps) = match rest.rsplit_once('/') {
            Some((to, steps)) => {
                let steps = steps.trim().parse().ok();
                let steps = steps.filter(|steps| (2..=STEPS_MAX).contains(steps));
                (to, steps.ok_or_else(|| wrong("there are from 2 to 100 values"))?)
            }
            None => (rest, STEPS),
        };
        let (client, key) = match what.split_once('.') {
            Some((client, key)) => (Some(client.trim().to_owned()), key),
            None => (None, what),
        };
        let own = |text: &str| text.trim().to_owned();
        Ok(Sweep { text: own(text), client, key: own(key), from: own(from), to: own(to), steps })
    }

    /// What is swept, for people.
    pub fn name(&self) -> String {
        match &self.client {
            Some(client) => format!("{client}.{}", self.key),
            None => self.key.clone(),
        }
    }

    /// The scenarios, each with its value.
    pub fn scenarios(
        &self,
        tad: &Tad,
        scenario: &Scenario,
    ) -> Result<Vec<(String, Scenario)>, SweepError> {
        if let Some(client) = &self.client
            && scenario.clients.iter().all(|known| known.name != *client)
        {
            return Err(self.wrong(format!("the scenario has no client \"{client}\"")));
        }
        let all = (0..self.steps).map(|step| f64::from(step) / f64::from(self.steps - 1));
        all.map(|part| {
            let mut changed = scenario.clone();
            let mut set = None;
            for load in self.loads(&mut changed) {
                if let Some(value) = self.apply(tad, load, part)? {
                    set = Some(value);
                }
            }
            let value = set.ok_or_else(|| self.wrong(format!("no load has a {}", self.key)))?;
            Ok((value, changed))
        })
        .collect()
    }

    /// The loads that it is about, those of changes too.
    fn loads<'s>(&self, scenario: &'s mut Scenario) -> Vec<&'s mut Load> {
        let meant: Vec<bool> = scenario
            .clients
            .iter()
            .map(|client| self.client.as_ref().is_none_or(|name| client.name == *name))
            .collect();
        let mut loads: Vec<&mut Load> = Vec::new();
        for (client, meant) in scenario.clients.iter_mut().zip(&meant) {
            if *meant {
                loads.extend(&mut client.loads);
            }
        }
        for (_, change) in &mut scenario.changes {
            if let Change::Loads { client, loads: fresh } = change
                && meant[*client]
            {
                loads.extend(fresh);
            }
        }
        loads
    }

    /// Sets a load's number; gives its value for people, or nothing if it does not have one.
    fn apply(&self, tad: &Tad, load: &mut Load, part: f64) -> Result<Option<String>, SweepError> {
        let between = |from: f64, to: f64| from + (to - from) * part;
        match (self.key.as_str(), &mut load.arrivals) {
            ("rate", Arrivals::Open { rate_per_s }) => {
                let rate = between(self.number(&self.from)?, self.number(&self.to)?);
                *rate_per_s = rate;
                return Ok(Some(format!("{rate:.0}")));
            }
            ("threads", Arrivals::Closed { threads, .. }) => {
                let value = between(self.number(&self.from)?, self.number(&self.to)?).round();
                *threads = (value as u32).max(1);
                return Ok(Some(threads.to_string()));
            }
            ("rate" | "threads", _) => return Ok(None),
            _ => {}
        }
        let known = &tad.requests[load.request].parameters;
        let Some(at) = known.iter().position(|parameter| parameter.name == self.key) else {
            return Ok(None);
        };
        let amount = |text: &str| {
            units::amount(text, known[at].dimension).map_err(|error| self.wrong(error.to_string()))
        };
        let value = between(amount(&self.from)? as f64, amount(&self.to)? as f64);
        load.parameters[at] = value as u64;
        Ok(Some(format!("{value:.0}")))
    }

    fn number(&self, text: &str) -> Result<f64, SweepError> {
        let number = text.parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= 1e7);
        number.ok_or_else(|| self.wrong(format!("\"{text}\" is no number from above 0 to 1e7")))
    }

    fn wrong(&self, why: String) -> SweepError {
        SweepError { text: self.text.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read_scenario, read_tad};
    use crate::{scenarios, systems};

    fn swept(text: &str) -> Result<Vec<(String, Scenario)>, SweepError> {
        let tad = read_tad("hbase", systems::text("hbase").unwrap()).unwrap().value;
        let written = scenarios::find("hbase-replies").unwrap().text;
        let scenario = read_scenario("replies", written, &tad).unwrap().value;
        Sweep::parse(text)?.scenarios(&tad, &scenario)
    }

    #[test]
    fn values_go_from_one_end_to_the_other() {
        let all = swept("C2.threads=10..30/3").unwrap();
        let threads: Vec<&str> = all.iter().map(|(value, _)| value.as_str()).collect();
        assert_eq!(threads, ["10", "20", "30"]);
        let of = |scenario: &Scenario, client: usize| scenario.clients[client].loads[0].arrivals;
        assert_eq!(of(&all[2].1, 1), Arrivals::Closed { threads: 30, think_ns: 0 });
        assert_eq!(of(&all[2].1, 0), of(&all[0].1, 0), "C1 stays");
        let replies = swept("reply=10 KB..50 KB").unwrap();
        assert_eq!((replies.len(), replies[4].0.as_str()), (5, "50000"));
    }

    #[test]
    fn what_cannot_be_swept_is_told() {
        for (text, why) in [
            ("rate", "no ="),
            ("rate=1", "no .."),
            ("rate=1..2/1", "2 to 100"),
            ("rate=1000..3000", "no load has a rate"),
            ("C9.threads=1..2", "no client"),
            ("threads=0..2", "above 0"),
            ("reply=1..2", "unit"),
        ] {
            let error = swept(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("C2.threads"), "{text}: {error}");
        }
    }
}
