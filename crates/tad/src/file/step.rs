//! Steps of a request.

use super::error::{Report, suggest};
use super::names::{NOWHERE, Names, stage};
use super::section::{Section, Text, items};
use crate::model::{Consumption, Lookup, Place, StageId, Step, StepId, Tad};
use toml::de::DeValue;

/// Reads a `[[request.step]]`. Its name was read before, with those of the others.
pub(super) fn read(
    mut section: Section,
    report: &mut Report,
    tad: &Tad,
    names: &mut Names,
    id: StepId,
) -> Step {
    let stage = section.need_text(report, "stage").and_then(|text| stage(report, tad, &text));
    let place = read_place(&mut section, report, tad, stage);
    let uses = read_uses(&mut section, report, tad, names, stage, "uses");
    let cache = read_cache(&mut section, report, tad, stage, &uses);
    let uses_after = read_uses(&mut section, report, tad, names, stage, "uses-after");
    let mut steps = |section: &mut Section, key: &'static str| -> Vec<StepId> {
        let mut found = Vec::new();
        for text in section.texts(report, key) {
            let Some(step) = names.step(report, key, &text) else { continue };
            if step == id {
                report.error(
                    &text.at,
                    format!("`{key}`: a step cannot be its own successor"),
                    "Name another step.",
                );
            } else if found.contains(&step) {
                report.error(
                    &text.at,
                    format!("`{key}` names the step \"{}\" twice", text.text),
                    "Name it once.",
                );
            } else {
                found.push(step);
            }
        }
        found
    };
    let mut submits = steps(&mut section, "submits");
    let mut waits = steps(&mut section, "waits");
    // `calls` says both: it is what synchronous code does.
    for step in steps(&mut section, "calls") {
        submits.push(step);
        if !waits.contains(&step) {
            waits.push(step);
        }
    }
    let then = steps(&mut section, "then");
    let enough = section.count(report, "enough");
    if let Some(wanted) = enough.filter(|&enough| enough as usize > waits.len()) {
        report.error(
            &section.at("enough"),
            format!(
                "the step waits for {} steps, and {wanted} of them are to be enough",
                waits.len()
            ),
            "Write a number up to that of the steps in `waits`, or leave it out for all of them.",
        );
    }
    let read = Step {
        name: names.steps[id].clone(),
        stage: stage.unwrap_or(NOWHERE),
        place,
        uses,
        cache,
        submits,
        waits,
        enough,
        uses_after,
        then,
    };
    section.finish(report);
    read
}

/// `cache = { name = "block-cache", entries = 1000, keys = 10000, skips = ["io"] }`
fn read_cache(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    stage: Option<StageId>,
    uses: &[Consumption],
) -> Option<Lookup> {
    const HINT: &str =
        "Write `cache = { name = \"cache\", entries = 1000, keys = 10000, skips = [\"io\"] }`.";
    let mut table = section.tables(report, "cache", "`cache`").into_iter().next()?;
    let name = table.need_text(report, "name");
    let mut number = |table: &mut Section, key: &'static str| {
        if !table.has(key) {
            report.error(&table.at, format!("the cache does not say `{key}`"), HINT);
        }
        table.count(report, key)
    };
    let (entries, keys) = (number(&mut table, "entries"), number(&mut table, "keys"));
    let at = table.at("skips");
    let texts = table.texts(report, "skips");
    table.finish(report);
    let stage = &tad.stages[stage?];
    let mut skips = Vec::new();
    for text in &texts {
        let used = stage.uses.iter().find(|u| tad.resources[u.resource].name == text.text);
        match used {
            Some(used) if used.may => skips.push(used.resource),
            Some(_) => report.error(
                &text.at,
                format!("whether the cache saves \"{0}\" is not known while a request waits, and stage \"{1}\" declares it for all", text.text, stage.name),
                format!("Write \"{}?\" in `uses` of the stage.", text.text),
            ),
            None => report.error(
                &text.at,
                format!("stage \"{}\" does not use \"{}\"", stage.name, text.text),
                suggest(&text.text, stage.uses.iter().map(|u| tad.resources[u.resource].name.as_str())),
            ),
        }
    }
    let saved: Vec<bool> = uses.iter().map(|each| skips.contains(&each.resource)).collect();
    let first = saved.iter().position(|saved| *saved);
    let last = saved.iter().rposition(|saved| *saved);
    let in_a_row =
        first.zip(last).is_some_and(|(first, last)| saved[first..=last].iter().all(|s| *s));
    if !in_a_row && skips.len() == texts.len() {
        report.error(
            &at,
            "a hit saves consumptions of `uses` that follow one another, and at least one",
            HINT,
        );
    }
    Some(Lookup { name: name?.text, entries: entries?, keys: keys?, skips })
}

fn read_place(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    stage: Option<StageId>,
) -> Place {
    const HINT: &str = "Write \"same\", \"any\", \"other\", \"partition\", \"origin\" or \"node 3\" (they count from 0).";
    let Some(text) = section.text(report, "at") else { return Place::Same };
    let place = match text.text.as_str() {
        "same" => Some(Place::Same),
        "any" => Some(Place::Any),
        "other" => Some(Place::Other),
        "partition" => Some(Place::Partition),
        "origin" => Some(Place::Origin),
        other => other.strip_prefix("node ").and_then(|n| n.trim().parse().ok()).map(Place::Fixed),
    };
    let Some(place) = place else {
        report.error(&text.at, format!("\"{}\" is no place", text.text), HINT);
        return Place::Same;
    };
    let kind = stage
        .and_then(|stage| tad.processes.get(tad.stages[stage].process))
        .and_then(|process| tad.nodes.get(process.node));
    if let (Place::Fixed(node), Some(kind)) = (place, kind)
        && node >= kind.count
    {
        report.error(
            &text.at,
            format!(
                "there is no node {node}: \"{}\" has {} of them, from 0",
                kind.name, kind.count
            ),
            HINT,
        );
    }
    place
}

/// `["cpu 100 us", "network $reply"]` or `{ cpu = "100 us", network = "$reply" }`
fn read_uses(
    section: &mut Section,
    report: &mut Report,
    tad: &Tad,
    names: &mut Names,
    stage: Option<StageId>,
    key: &'static str,
) -> Vec<Consumption> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let mut pairs: Vec<(Text, Text)> = Vec::new();
    if let DeValue::Table(table) = value.get_ref() {
        for (name, amount) in super::section::entries(table) {
            match amount.get_ref().as_str() {
                Some(text) => pairs.push((name, Text { text: text.to_owned(), at: amount.span() })),
                None => section.mistyped(report, key, amount, "an amount in quotes"),
            }
        }
    } else {
        for item in items(value) {
            let Some(text) = item.get_ref().as_str() else {
                section.mistyped(report, key, item, "a list like [\"cpu 100 us\"]");
                continue;
            };
            let (name, amount) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
            pairs.push((
                Text { text: name.to_owned(), at: item.span() },
                Text { text: amount.trim().to_owned(), at: item.span() },
            ));
        }
    }
    let Some(stage) = stage else { return Vec::new() };
    pairs
        .iter()
        .filter_map(|(name, amount)| consumption(report, tad, names, stage, name, amount))
        .collect()
}

fn consumption(
    report: &mut Report,
    tad: &Tad,
    names: &mut Names,
    stage: StageId,
    name: &Text,
    amount: &Text,
) -> Option<Consumption> {
    let stage = &tad.stages[stage];
    let declared = stage.uses.iter().find(|u| tad.resources[u.resource].name == name.text);
    let Some(declared) = declared else {
        report.error(
            &name.at,
            format!(
                "the step uses \"{}\", which its stage \"{}\" does not declare: the diagram would not show it",
                name.text, stage.name
            ),
            format!(
                "Add it to `uses` of the stage. {}",
                suggest(
                    &name.text,
                    stage.uses.iter().map(|u| tad.resources[u.resource].name.as_str())
                )
            ),
        );
        return None;
    };
    let dimension = tad.resources[declared.resource].kind.dimension();
    let amount = super::law::read(report, names, amount, dimension)?;
    Some(Consumption { resource: declared.resource, amount })
}
