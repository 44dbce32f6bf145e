//! Errors of the TOML reader in plain words.

use crate::{Mistake, Place, did_you_mean};

/// Puts an error of the TOML reader into plain words. `mend_of` says what to write for a key whose
/// value has the wrong type. It is given the key and what the reader said.
pub fn explain(
    error: &toml::de::Error,
    place: &Place<'_>,
    mend_of: fn(&str, &str) -> String,
) -> Mistake {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let key = quoted.next().unwrap_or_default().to_owned();
        let known: Vec<&str> = quoted.collect();
        let mend = did_you_mean(&key, known.iter().copied(), '`')
            + &format!("The keys here are: {}.", known.join(", "));
        return place.at(span.start, format!("there is no key `{key}`"), mend);
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        let key = key.trim_matches('`');
        return place.at(span.start, format!("`{key}` is missing"), format!("Write `{key}` here."));
    }
    if message.starts_with("invalid type") || message.starts_with("invalid value") {
        let key = match place.key_name(span.start) {
            "" => place.text[span.clone()]
                .trim_matches(['[', ']', ' ', '\n'])
                .lines()
                .next()
                .unwrap_or_default(),
            key => key,
        };
        return place.at_key(
            span.clone(),
            format!("`{key}`: {}", plain(message)),
            mend_of(key, message),
        );
    }
    let mend = if message.contains("duplicate key") {
        "Keep one of the two."
    } else {
        "This is no TOML: texts stand in quotes, one `key = value` on a line; see https://toml.io."
    };
    let what = plain(message).replace('\n', "; ");
    place.at(span.start, what, mend.to_owned())
}

/// Without the names that types have in Rust.
fn plain(message: &str) -> String {
    let message = message
        .replace("invalid type: ", "found ")
        .replace("invalid value: ", "found ")
        .replace("found map", "found one section")
        .replace(" as i128", "")
        .replace("expected a string", "expected a text in quotes")
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("floating point", "number")
        .replace("a sequence", "a section in two brackets");
    match message.split_once("struct ") {
        None => message,
        Some((before, named)) => {
            let rest = named.trim_start_matches(char::is_alphanumeric);
            format!("{before}a section{rest}")
        }
    }
}
