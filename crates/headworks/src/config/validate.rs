//! From what a file says to what the region takes, with every contradiction refused.

use super::rules::rules;
use super::schema::{ClassSection, File, GateSection, Number, NumberOrAuto, WholeNumber, Words};
use super::{ClassConfig, Config, OPEN, millis};
use headworks_policy::slo::TARGETS;
use headworks_policy::wrr::WEIGHT_ONE;
use headworks_policy::{CLASSES, Nanos};
use headworks_region::Mode;
use headworks_region::control::{Count, Settings};
use headworks_region::text::TEXT_BYTES;
use headworks_settings::{Mistake, Place, choice, within};
use std::net::SocketAddr;
use toml::Spanned;

/// Checks everything that the TOML reader cannot.
pub(super) fn validate(file: File, place: &Place<'_>) -> Result<Config, Mistake> {
    let settings = settings(&file.gate, place)?;
    let classes = classes(&file.class, place)?;
    let rules = rules(&file.rule, &classes, place)?;
    let metrics = metrics(&file.gate.metrics, place)?;
    let cpu_weights = file.gate.cpu_weights.is_some_and(|value| *value.get_ref());
    let io = super::io::io(&file.io, place)?;
    Ok(Config { settings, classes, rules, metrics, cpu_weights, io })
}

/// A whole number in its range, or `None` if the file does not say it.
pub(super) fn number(key: &str, value: &Number, place: &Place<'_>) -> Result<Option<u64>, Mistake> {
    let (Some(value), Some(known)) = (value, WholeNumber::named(key)) else { return Ok(None) };
    let found = *value.get_ref();
    if (known.least..=known.most).contains(&found) {
        return Ok(u64::try_from(found).ok());
    }
    let what = format!("`{key}` is {found}, which is out of range");
    Err(place.at_key(value.span(), what, known.range()))
}

/// An address with a port.
fn metrics(value: &Words, place: &Place<'_>) -> Result<Option<SocketAddr>, Mistake> {
    let Some(value) = value else { return Ok(None) };
    match value.get_ref().parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => Err(place.at_key(
            value.span(),
            format!("`metrics` is \"{}\", which is no address with a port", value.get_ref()),
            "Write \"127.0.0.1:9090\" or \"[::1]:9090\"; names of hosts are not looked up."
                .to_owned(),
        )),
    }
}

fn settings(gate: &GateSection, place: &Place<'_>) -> Result<Settings, Mistake> {
    const MODES: [Mode; 2] = [Mode::DryRun, Mode::Enforce];
    let standard = Settings::default();
    const COUNTS: [Count; 2] = [Count::Working, Count::Admitted];
    let count = choice("count", &gate.count, &COUNTS.map(Count::name), place)?;
    let mode = choice("mode", &gate.mode, &MODES.map(Mode::name), place)?;
    let number = |key, value| number(key, value, place);
    let words = |key, value, or: u32| Ok(number(key, value)?.map_or(or, |found| found as u32));
    let times = |key, value, or: Nanos| Ok(number(key, value)?.map_or(or, millis));
    let settings = Settings {
        mode: mode.map_or(standard.mode, |at| MODES[at]),
        off: false,
        parallelism: parallelism(gate, place)?.unwrap_or(OPEN),
        auto: parallelism(gate, place)?.is_none(),
        zeta: words("quota_requests", &gate.quota_requests, standard.zeta)?,
        unfairness_max_mille: bound("unfairness_max", &gate.unfairness_max, place)?,
        latency_cv_max_mille: bound("latency_cv_max", &gate.latency_cv_max, place)?,
        hold_max: times("hold_ms_max", &gate.hold_ms_max, standard.hold_max)?,
        idle_limit: times(
            "idle_in_transaction_ms",
            &gate.idle_in_transaction_ms,
            standard.idle_limit,
        )?,
        anticipation: number("anticipation_us", &gate.anticipation_us)?
            .map_or(standard.anticipation, Nanos::from_micros),
        stall: times("stall_ms", &gate.stall_ms, standard.stall)?,
        count: count.map_or(standard.count, |at| COUNTS[at]),
    };
    contradictions(&settings, gate, place)?;
    Ok(settings)
}

/// A bound in thousandths.
fn bound(key: &str, value: &Option<Spanned<f64>>, place: &Place<'_>) -> Result<u32, Mistake> {
    let Some(value) = value else { return Ok(0) };
    let mend = format!("Write a number from 0 (no bound) to 1000, or remove `{key}`.");
    within(key, value, 0.0..=1_000.0, &mend, place).map(crate::thousandths)
}

/// P, or `None` to look for it.
fn parallelism(gate: &GateSection, place: &Place<'_>) -> Result<Option<u32>, Mistake> {
    let Some(written) = &gate.parallelism else { return Ok(None) };
    match written.get_ref() {
        NumberOrAuto::Number(found) => {
            let value = Some(Spanned::new(written.span(), *found));
            Ok(number("parallelism", &value, place)?.map(|found| found as u32))
        }
        NumberOrAuto::Word(word) if word == "auto" => Ok(None),
        NumberOrAuto::Word(word) => {
            let range = WholeNumber::named("parallelism").map(WholeNumber::range);
            Err(place.at_key(
                written.span(),
                format!("`parallelism` knows no \"{word}\""),
                format!("Write \"auto\" for a search. {}", range.unwrap_or_default()),
            ))
        }
    }
}

/// A hold ends after `hold_ms_max` whatever happens, so nothing that acts on holds may take longer.
fn contradictions(
    settings: &Settings,
    gate: &GateSection,
    place: &Place<'_>,
) -> Result<(), Mistake> {
    let longest = settings.hold_max;
    let others = [
        (
            "idle_in_transaction_ms",
            &gate.idle_in_transaction_ms,
            settings.idle_limit,
            longest < settings.idle_limit,
        ),
        ("stall_ms", &gate.stall_ms, settings.stall, longest <= settings.stall),
        (
            "anticipation_us",
            &gate.anticipation_us,
            settings.anticipation,
            longest < settings.anticipation,
        ),
    ];
    for (key, value, time, wrong) in others {
        if !wrong {
            continue;
        }
        // If the other key has its default, it is `hold_ms_max` that was written.
        let Some(span) = value.as_ref().or(gate.hold_ms_max.as_ref()).map(Spanned::span) else {
            continue;
        };
        return Err(place.at_key(
            span,
            format!("`hold_ms_max` ({longest}) must be longer than `{key}` ({time})"),
            format!(
                "No request is held for longer than `hold_ms_max`, so the other limit would never be reached. \
                 Raise `hold_ms_max` or lower `{key}`."
            ),
        ));
    }
    Ok(())
}

fn classes(
    sections: &[Spanned<ClassSection>],
    place: &Place<'_>,
) -> Result<Vec<ClassConfig>, Mistake> {
    let mut classes = vec![ClassConfig::default_class()];
    let mut declared: Vec<&str> = Vec::new();
    for section in sections {
        let class = class(section, place)?;
        let span = section.get_ref().name.as_ref().map_or(section.span(), Spanned::span);
        if declared.contains(&class.name.as_str()) {
            return Err(place.at_key(
                span,
                format!("the class \"{}\" is declared twice", class.name),
                "Give one of them another name, or remove it.".to_owned(),
            ));
        }
        let targets = classes.iter().filter(|class| class.target.is_some()).count();
        if class.target.is_some() && targets == TARGETS {
            let latency = section.get_ref().latency_ms_max.as_ref();
            return Err(place.at_key(
                latency.map_or(span, Spanned::span),
                format!("the target of the class \"{}\" is one too many", class.name),
                format!("{TARGETS} classes may have one: let some users share a class."),
            ));
        }
        declared.extend(section.get_ref().name.as_ref().map(|name| name.get_ref().as_str()));
        if class.name == classes[0].name {
            classes[0] = class;
        } else if classes.len() == CLASSES {
            return Err(place.at_key(
                span,
                format!("the class \"{}\" is one too many", class.name),
                format!(
                    "There may be {} besides \"default\": let some users share a class.",
                    CLASSES - 1
                ),
            ));
        } else {
            classes.push(class);
        }
    }
    Ok(classes)
}

fn class(section: &Spanned<ClassSection>, place: &Place<'_>) -> Result<ClassConfig, Mistake> {
    let ClassSection { name, weight, weight_of, latency_ms_max, percentile, foreground } =
        section.get_ref();
    let Some(name) = name else {
        return Err(place.at(
            section.span().start,
            "this class has no name".to_owned(),
            "Write `name = \"...\"` below it.".to_owned(),
        ));
    };
    text("name", name, place)?;
    if let Some(weight) = weight {
        let mend = "Write a number from 0.001 to 1000. Only the proportion of the weights counts. \
                    To never hold a user at all, write a rule with `bypass = true`.";
        within("weight", weight, 0.001..=1_000.0, mend, place)?;
    }
    let thousandths = |weight: &Spanned<f64>| (weight.get_ref() * 1e3).round() as u32;
    Ok(ClassConfig {
        name: name.get_ref().clone(),
        weight_thousandths: weight.as_ref().map_or(WEIGHT_ONE, thousandths).max(1),
        shared: choice("weight_of", weight_of, &["user", "class"], place)? == Some(1),
        target: target(latency_ms_max.as_ref(), percentile.as_ref(), place)?,
        foreground: foreground.unwrap_or(true),
    })
}

/// Fraction of the requests that may take so long at most.
fn target(
    latency: Option<&Spanned<f64>>,
    percentile: Option<&Spanned<f64>>,
    place: &Place<'_>,
) -> Result<Option<(f64, Nanos)>, Mistake> {
    let Some(latency) = latency else {
        return match percentile {
            None => Ok(None),
            Some(percentile) => Err(place.at_key(
                percentile.span(),
                "`percentile` says nothing without a target".to_owned(),
                "Write `latency_ms_max = ...` beside it, or remove it.".to_owned(),
            )),
        };
    };
    let mend = "Write a number from 0.001 to 3600000 (milliseconds), or remove it.";
    let ms = within("latency_ms_max", latency, 0.001..=3_600_000.0, mend, place)?;
    let mend = "Write a number from 50 to 99.99, or remove it (default: 99.9).";
    let percent = match percentile {
        Some(percentile) => within("percentile", percentile, 50.0..=99.99, mend, place)?,
        None => 99.9,
    };
    Ok(Some((percent / 100.0, Nanos((ms * 1e6) as u64))))
}

/// Refuses a text that the region cannot keep.
pub(super) fn text(key: &str, value: &Spanned<String>, place: &Place<'_>) -> Result<(), Mistake> {
    let refuse = |what: String, mend: &str| Err(place.at_key(value.span(), what, mend.to_owned()));
    let found = value.get_ref();
    if found.is_empty() {
        return refuse(format!("`{key}` is empty"), "Write a text, or remove the key.");
    }
    if found.len() > TEXT_BYTES {
        let what = format!("`{key}` has {} bytes, and {TEXT_BYTES} is the most", found.len());
        return refuse(what, "Shorten it; in a pattern, `*` stands for any characters.");
    }
    if found.chars().any(char::is_control) {
        return refuse(
            format!("`{key}` has a control character"),
            "Write printable characters only.",
        );
    }
    Ok(())
}
