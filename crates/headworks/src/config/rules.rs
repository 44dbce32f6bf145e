//! The rules of a configuration: which connection belongs to which class.

use super::ClassConfig;
use super::schema::{RuleSection, Words};
use super::validate::{number, text};
use headworks_region::rules::{RULES, Rule, Verdict, parse_network};
use headworks_region::text::Text;
use headworks_settings::{Mistake, Place, did_you_mean};
use std::net::IpAddr;
use toml::Spanned;

/// Rules that a profile may have of whom it never holds.
pub(crate) const BYPASS_MAX: usize = 8;

/// Rules that a file may have. Room is left in the region for the rule that lets the
/// administrators' port pass, and for the profile's rules. The daemon puts these before all others.
pub(super) const RULES_MAX: usize = RULES - 1 - BYPASS_MAX;

/// Checks all rules.
pub(super) fn rules(
    sections: &[Spanned<RuleSection>],
    classes: &[ClassConfig],
    place: &Place<'_>,
) -> Result<Vec<Rule>, Mistake> {
    let mut rules: Vec<Rule> = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        if at == RULES_MAX {
            return Err(place.at(
                section.span().start,
                format!("this rule is one too many: {RULES_MAX} is the most"),
                "Join some rules: in a pattern, `*` stands for any characters.".to_owned(),
            ));
        }
        let rule = rule(section, classes, place)?;
        reachable(&rule, &rules, section, place)?;
        rules.push(rule);
    }
    Ok(rules)
}

/// Refuses a rule that can never decide.
fn reachable(
    rule: &Rule,
    before: &[Rule],
    section: &Spanned<RuleSection>,
    place: &Place<'_>,
) -> Result<(), Mistake> {
    let Some(at) = before.iter().position(|earlier| hides(earlier, rule)) else { return Ok(()) };
    let nth = at + 1;
    let what = match unconditional(&before[at]) {
        true => {
            format!(
                "this rule is never reached: rule {nth} has no condition and fits every connection"
            )
        }
        false => format!("this rule is never reached: rule {nth} has the same conditions"),
    };
    let mend = format!(
        "The first rule that fits decides. Move rule {nth} behind this one, or remove one of them."
    );
    Err(place.at(section.span().start, what, mend))
}

fn hides(earlier: &Rule, later: &Rule) -> bool {
    let conditions = |rule: &Rule| {
        (rule.account, rule.database, rule.application, rule.address, rule.local_port)
    };
    unconditional(earlier) || conditions(earlier) == conditions(later)
}

fn unconditional(rule: &Rule) -> bool {
    let patterns = [rule.account, rule.database, rule.application, rule.address];
    rule.local_port == 0
        && patterns.iter().all(|pattern| pattern.bytes().iter().all(|&byte| byte == b'*'))
}

fn rule(
    section: &Spanned<RuleSection>,
    classes: &[ClassConfig],
    place: &Place<'_>,
) -> Result<Rule, Mistake> {
    let written = section.get_ref();
    let pattern = |key: &str, value: &Words| match value {
        Some(value) => text(key, value, place).map(|()| Text::new(value.get_ref().as_bytes())),
        None => Ok(Text::new(b"")),
    };
    let rule = Rule {
        account: pattern("account", &written.account)?,
        database: pattern("database", &written.database)?,
        application: pattern("application", &written.application)?,
        address: address(&written.address, place)?,
        local_port: number("port", &written.port, place)?.unwrap_or(0) as u32,
        verdict: verdict(section, classes, place)?,
    };
    if let (Some(port), b"local") = (&written.port, rule.address.bytes()) {
        return Err(place.at_key(
            port.span(),
            "a rule with `address = \"local\"` and `port` fits no connection".to_owned(),
            "\"local\" is the Unix socket, which has no port. Remove one of the two.".to_owned(),
        ));
    }
    Ok(rule)
}

/// A single address becomes a network of one, so that it fits however it is spelled.
fn address(value: &Words, place: &Place<'_>) -> Result<Text, Mistake> {
    let Some(value) = value else { return Ok(Text::new(b"")) };
    text("address", value, place)?;
    let found = value.get_ref().as_str();
    let refuse = |what: String| {
        let mend = "Write an address (\"10.0.0.7\"), a network (\"10.0.0.0/8\", \"fd00::/8\"), a pattern (\"10.0.*\") \
                    or \"local\" for the Unix socket. Names of hosts are not looked up.";
        Err(place.at_key(value.span(), what, mend.to_owned()))
    };
    if found == "local" || found.contains(['*', '?']) {
        return Ok(Text::new(found.as_bytes()));
    }
    if found.contains('/') {
        return match parse_network(found) {
            Some(_) => Ok(Text::new(found.as_bytes())),
            None => refuse(format!("\"{found}\" is no network")),
        };
    }
    match found.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            Ok(Text::new(format!("{address}/{bits}").as_bytes()))
        }
        Err(_) => refuse(format!("\"{found}\" is no address")),
    }
}

fn verdict(
    section: &Spanned<RuleSection>,
    classes: &[ClassConfig],
    place: &Place<'_>,
) -> Result<Verdict, Mistake> {
    let RuleSection { class, bypass, .. } = section.get_ref();
    match (class, bypass.as_ref().filter(|bypass| *bypass.get_ref())) {
        (None, Some(_)) => Ok(Verdict { class: 0, bypass: true }),
        (Some(class), None) => class_index(class, classes, place),
        (Some(_), Some(bypass)) => Err(place.at_key(
            bypass.span(),
            "this rule has both `bypass = true` and `class`".to_owned(),
            "Who is never held needs no class: remove one of the two.".to_owned(),
        )),
        (None, None) => Err(place.at(
            section.span().start,
            "this rule decides nothing".to_owned(),
            "Write `class = \"...\"` or `bypass = true` below it.".to_owned(),
        )),
    }
}

fn class_index(
    class: &Spanned<String>,
    classes: &[ClassConfig],
    place: &Place<'_>,
) -> Result<Verdict, Mistake> {
    let name = class.get_ref();
    if let Some(at) = classes.iter().position(|class| class.name == *name) {
        return Ok(Verdict { class: at as u32, bypass: false });
    }
    let names = classes.iter().map(|class| class.name.as_str());
    let mut mend = did_you_mean(name, names.clone(), '"');
    mend += &format!(
        "The classes are: {}. Another one is declared with `[[class]]` and `name = \"{name}\"`.",
        names.collect::<Vec<_>>().join(", ")
    );
    Err(place.at_key(class.span(), format!("there is no class \"{name}\""), mend))
}
