//! What a profile's file may say, and the way from there to a [`Profile`].

use super::{Bypass, Calls, Check, FRAMINGS, Profile, RunAs, SettingsFrom};
use crate::config::io;
use crate::config::rules::BYPASS_MAX;
use crate::config::schema::{IoFileSection, IoThreadSection};
use headworks_hooks::symbols::SYMBOLS;
use headworks_region::declared_locks::{DeclaredLocks, WORD_BYTES, WORDS};
use headworks_region::rules::{Rule, Verdict};
use headworks_region::text::{TEXT_BYTES, Text};
use headworks_settings::{Mistake, Place, explain, word};
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

type Texts = Vec<Spanned<String>>;

/// The file. `name`, `framing` and `[programs]` are needed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Letters, digits, `-` and `_`.
    name: Spanned<String>,
    title: Option<String>,
    /// One of [`FRAMINGS`].
    framing: Spanned<String>,
    /// What serves a connection; must be what the framing expects. Default: just that.
    served_by: Option<Spanned<String>>,
    package: Option<String>,
    #[serde(default)]
    notes: Vec<String>,
    programs: Programs,
    #[serde(default)]
    calls: CallsSection,
    #[serde(default)]
    locks: Locks,
    #[serde(default)]
    bypass: Vec<Spanned<BypassSection>>,
    #[serde(default)]
    files: Vec<Spanned<IoFileSection>>,
    #[serde(default)]
    threads: Vec<Spanned<IoThreadSection>>,
    #[serde(default)]
    preflight: Preflight,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    systemd: Systemd,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Programs {
    #[serde(default)]
    servers: Vec<String>,
    #[serde(default)]
    starters: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallsSection {
    #[serde(default)]
    accept: Texts,
    #[serde(default)]
    receive: Texts,
    #[serde(default)]
    send: Texts,
    #[serde(default)]
    sleep: Texts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Locks {
    #[serde(default)]
    acquire: Texts,
    #[serde(default)]
    release: Texts,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BypassSection {
    account: Option<Spanned<String>>,
    database: Option<Spanned<String>>,
    application: Option<Spanned<String>>,
    address: Option<Spanned<String>>,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preflight {
    settings: Option<Spanned<String>>,
    run_as: Option<Spanned<String>>,
    #[serde(default)]
    checks: Texts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    signal: Option<Spanned<String>>,
    command: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Systemd {
    user: Option<String>,
    #[serde(default)]
    units: Texts,
}

/// Signals by which servers are asked to end.
const SIGNALS: &[&str] = &["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"];

/// Reads and checks a profile's text.
pub(super) fn parse(text: &str, path: &Path) -> Result<Profile, Mistake> {
    let place = &Place { text, path };
    let file: File = toml::from_str(text).map_err(|error| explain(&error, place, mend_of))?;
    name(&file.name, place)?;
    let framings: Vec<&str> = FRAMINGS.iter().map(|(name, ..)| *name).collect();
    let (framing, protocol, served_by) =
        FRAMINGS[word("framing", &file.framing, &framings, place)?];
    if let Some(written) = &file.served_by
        && written.get_ref() != served_by
    {
        let what = format!(
            "`served_by` is \"{}\", but the framing \"{framing}\" is that of a server with {served_by}",
            written.get_ref()
        );
        let mend = format!("Write `served_by = \"{served_by}\"`, or choose another framing.");
        return Err(place.at_key(written.span(), what, mend));
    }
    if let Some(more) = file.bypass.get(BYPASS_MAX) {
        return Err(place.at(
            more.span().start,
            format!("this `[[bypass]]` is one too many: {BYPASS_MAX} is the most"),
            "Join some: in a pattern, `*` stands for any characters.".to_owned(),
        ));
    }
    Ok(Profile {
        title: file.title.unwrap_or_else(|| file.name.get_ref().clone()),
        name: file.name.into_inner(),
        file: None,
        framing: framing.to_owned(),
        served_by: served_by.to_owned(),
        servers: file.programs.servers,
        starters: file.programs.starters,
        calls: calls(file.calls, place)?,
        locks: locks(&file.locks, place)?,
        bypass: file.bypass.iter().map(|each| bypass(each, place)).collect::<Result<_, _>>()?,
        io: io::files(&file.files, place)?
            .into_iter()
            .chain(io::threads(&file.threads, place)?)
            .map(|(_, rule)| rule)
            .collect(),
        settings: choice(
            "settings",
            &file.preflight.settings,
            &[
                ("none", SettingsFrom::None),
                ("mariadb", SettingsFrom::Mariadb),
                ("postgres", SettingsFrom::Postgres),
                ("redis", SettingsFrom::Redis),
                ("memcached", SettingsFrom::Memcached),
                ("mongodb", SettingsFrom::Mongodb),
            ],
            place,
        )?,
        run_as: choice(
            "run_as",
            &file.preflight.run_as,
            &[
                ("caller", RunAs::Caller),
                ("user-option", RunAs::UserOption),
                ("data-owner", RunAs::DataOwner),
            ],
            place,
        )?,
        checks: checks(&file.preflight.checks, place)?,
        stop_signal: match &file.stop.signal {
            Some(signal) => SIGNALS[word("signal", signal, SIGNALS, place)?].to_owned(),
            None => "SIGTERM".to_owned(),
        },
        stop_command: file.stop.command,
        units: units(file.systemd.units, place)?,
        service_user: file.systemd.user,
        package: file.package,
        notes: file.notes,
        protocol,
    })
}

/// What to write for a key whose value has the wrong type.
fn mend_of(key: &str, message: &str) -> String {
    let list = ["servers", "starters", "acquire", "release", "units", "checks", "notes"];
    match key {
        "files" | "threads" | "bypass" => {
            format!("Write the section as `[[{key}]]`, because there may be several.")
        }
        key if list.contains(&key) => format!("Write a list: `{key} = [\"...\", \"...\"]`."),
        key if message.ends_with("expected a string") => {
            format!("Write a text in quotes: `{key} = \"...\"`.")
        }
        _ => "`headworks profile show mariadb --toml` shows the usual keys.".to_owned(),
    }
}

fn name(name: &Spanned<String>, place: &Place<'_>) -> Result<(), Mistake> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.get_ref().is_empty() && name.get_ref().chars().all(plain) {
        return Ok(());
    }
    let what = format!("`name` is \"{}\", which is no name", name.get_ref());
    Err(place.at_key(name.span(), what, "Use letters, digits, `-` and `_`.".to_owned()))
}

/// One of a few words; the first if none is written.
fn choice<T: Copy>(
    key: &str,
    value: &Option<Spanned<String>>,
    known: &[(&str, T)],
    place: &Place<'_>,
) -> Result<T, Mistake> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let at = value.as_ref().map_or(Ok(0), |value| word(key, value, &names, place))?;
    Ok(known[at].1)
}

fn checks(written: &Texts, place: &Place<'_>) -> Result<Vec<Check>, Mistake> {
    const KNOWN: &[(&str, Check)] = &[("ports", Check::Ports), ("foreground", Check::Foreground)];
    let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
    written.iter().map(|each| Ok(KNOWN[word("checks", each, &names, place)?].1)).collect()
}

fn calls(written: CallsSection, place: &Place<'_>) -> Result<Calls, Mistake> {
    let known: Vec<&str> = SYMBOLS.iter().map(|symbol| symbol.name).collect();
    let list = |key: &str, calls: Texts| -> Result<Vec<String>, Mistake> {
        for call in &calls {
            word(key, call, &known, place)?;
        }
        Ok(calls.into_iter().map(Spanned::into_inner).collect())
    };
    Ok(Calls {
        accept: list("accept", written.accept)?,
        receive: list("receive", written.receive)?,
        send: list("send", written.send)?,
        sleep: list("sleep", written.sleep)?,
    })
}

fn locks(written: &Locks, place: &Place<'_>) -> Result<DeclaredLocks, Mistake> {
    for (key, list) in [("acquire", &written.acquire), ("release", &written.release)] {
        for (at, text) in list.iter().enumerate() {
            let found = text.get_ref();
            let fits = (3..=WORD_BYTES).contains(&found.len()) && found.is_ascii();
            let (what, mend) = if !fits {
                (
                    format!("`{key}` has \"{found}\", which cannot be looked for"),
                    format!("Write 3 to {WORD_BYTES} ASCII characters: a routine's name."),
                )
            } else if at >= WORDS {
                (
                    format!("`{key}` has more than {WORDS} words"),
                    "Keep those that are used most; the stall detector finds the rest.".to_owned(),
                )
            } else {
                continue;
            };
            return Err(place.at_key(text.span(), what, mend));
        }
    }
    let plain = |list: &Texts| list.iter().map(|text| text.get_ref().clone()).collect();
    Ok(DeclaredLocks { acquire: plain(&written.acquire), release: plain(&written.release) })
}

fn bypass(section: &Spanned<BypassSection>, place: &Place<'_>) -> Result<Bypass, Mistake> {
    let BypassSection { account, database, application, address, reason } = section.get_ref();
    let mut conditions = Vec::new();
    let mut pattern = |key: &str, value: &Option<Spanned<String>>| {
        let Some(value) = value else { return Ok(Text::new(b"")) };
        let text = value.get_ref();
        if text.is_empty() || text.len() > TEXT_BYTES {
            let what = format!("`{key}` has {} bytes", text.len());
            let mend = format!("Write 1 to {TEXT_BYTES} bytes; `*` stands for any characters.");
            return Err(place.at_key(value.span(), what, mend));
        }
        conditions.push((key.to_owned(), text.clone()));
        Ok(Text::new(text.as_bytes()))
    };
    let rule = Rule {
        account: pattern("account", account)?,
        database: pattern("database", database)?,
        application: pattern("application", application)?,
        address: pattern("address", address)?,
        local_port: 0,
        verdict: Verdict { class: 0, bypass: true },
    };
    if conditions.iter().all(|(_, text)| text.bytes().all(|byte| byte == b'*')) {
        return Err(place.at(
            section.span().start,
            "this `[[bypass]]` fits every connection, so no request would ever be held".to_owned(),
            "Write `account`, `database`, `application` or `address` below it.".to_owned(),
        ));
    }
    Ok(Bypass { reason: reason.clone(), conditions, rule })
}

fn units(written: Texts, place: &Place<'_>) -> Result<Vec<String>, Mistake> {
    for unit in &written {
        let stem = unit.get_ref().strip_suffix(".service").unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
        if stem.is_empty() || !stem.chars().all(plain) {
            let what = format!("`units` has \"{}\", which is no unit", unit.get_ref());
            let mend = "Write \"NAME.service\", or \"NAME@.service\" for a template.".to_owned();
            return Err(place.at_key(unit.span(), what, mend));
        }
    }
    Ok(written.into_iter().map(Spanned::into_inner).collect())
}
