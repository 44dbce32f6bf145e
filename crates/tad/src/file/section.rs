//! A table of a TOML file, read key by key.
//!
//! Not `serde`: a derived reader stops at the first mistake, and a person who writes a diagram
//! wants to see them all at once, each with its line.

use super::error::{Report, Span, suggest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text and where it is.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub text: String,
    pub at: Span,
}

/// A table, and which of its keys were asked for.
#[derive(Debug)]
pub(super) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    /// Where its header or its opening brace is.
    pub at: Span,
    /// What it is, for messages: `[[stage]]`.
    what: &'static str,
    asked: Vec<&'static str>,
}

impl<'t, 'i> Section<'t, 'i> {
    pub fn new(table: &'t DeTable<'i>, at: Span, what: &'static str) -> Self {
        Section { table, at, what, asked: Vec::new() }
    }

    /// A value, if the key is there.
    pub fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'i>>> {
        self.asked.push(key);
        self.table.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where the value of a key is, or the table itself.
    pub fn at(&self, key: &str) -> Span {
        self.table.get(key).map_or_else(|| self.at.clone(), Spanned::span)
    }

    /// A text that may be missing.
    pub fn text(&mut self, report: &mut Report, key: &'static str) -> Option<Text> {
        let value = self.value(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(Text { text: text.to_owned(), at: value.span() }),
            None => {
                self.mistyped(report, key, value, "a text in quotes");
                None
            }
        }
    }

    /// A text that must be there.
    pub fn need_text(&mut self, report: &mut Report, key: &'static str) -> Option<Text> {
        if !self.has(key) {
            self.asked.push(key);
            report.error(
                &self.at,
                format!("{} has no `{key}`", self.what),
                format!("Add a line `{key} = \"…\"`."),
            );
            return None;
        }
        self.text(report, key)
    }

    /// A text that may be missing, without its place.
    pub fn words(&mut self, report: &mut Report, key: &'static str) -> String {
        self.text(report, key).map(|text| text.text).unwrap_or_default()
    }

    /// A whole number of at least one that may be missing.
    pub fn count(&mut self, report: &mut Report, key: &'static str) -> Option<u32> {
        let value = self.value(key)?;
        match whole(value.get_ref()) {
            Some(number) if (1..=1_000_000).contains(&number) => Some(number as u32),
            Some(number) => {
                report.error(
                    &value.span(),
                    format!("`{key} = {number}` of {} is out of range", self.what),
                    "Write a whole number from 1 to 1000000: with none, nothing would ever be done.",
                );
                None
            }
            None => {
                self.mistyped(report, key, value, "a whole number");
                None
            }
        }
    }

    /// A number that may be zero and may be missing.
    pub fn number(&mut self, report: &mut Report, key: &'static str) -> Option<f64> {
        let value = self.value(key)?;
        match real(value.get_ref()) {
            Some(number) if number.is_finite() && number >= 0.0 => Some(number),
            Some(_) => {
                report.error(
                    &value.span(),
                    format!("`{key}` of {} is out of range", self.what),
                    "Write a number that is not negative.",
                );
                None
            }
            None => {
                self.mistyped(report, key, value, "a number");
                None
            }
        }
    }

    /// A yes or no; no if it is missing.
    pub fn flag(&mut self, report: &mut Report, key: &'static str) -> bool {
        let Some(value) = self.value(key) else { return false };
        value.get_ref().as_bool().unwrap_or_else(|| {
            self.mistyped(report, key, value, "true or false");
            false
        })
    }

    /// Texts: a list of them, one of them, or none.
    pub fn texts(&mut self, report: &mut Report, key: &'static str) -> Vec<Text> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let mut texts = Vec::new();
        for item in items(value) {
            match item.get_ref().as_str() {
                Some(text) => texts.push(Text { text: text.to_owned(), at: item.span() }),
                None => self.mistyped(report, key, item, "a list of texts in quotes"),
            }
        }
        texts
    }

    /// Tables: a list of them, one of them, or none.
    pub fn tables(
        &mut self,
        report: &mut Report,
        key: &'static str,
        what: &'static str,
    ) -> Vec<Section<'t, 'i>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let mut sections = Vec::new();
        for item in items(value) {
            match item.get_ref().as_table() {
                Some(table) => sections.push(Section::new(table, item.span(), what)),
                None => self.mistyped(report, key, item, "a table"),
            }
        }
        sections
    }

    /// The entries of a table whose keys are free, in the order of the file.
    pub fn entries(
        &mut self,
        report: &mut Report,
        key: &'static str,
    ) -> Vec<(Text, &'t Spanned<DeValue<'i>>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        match value.get_ref().as_table() {
            Some(table) => entries(table),
            None => {
                self.mistyped(report, key, value, "a table");
                Vec::new()
            }
        }
    }

    /// Reports the keys that were never asked for.
    pub fn finish(self, report: &mut Report) {
        for (key, _) in self.table.iter() {
            let name: &str = key.get_ref();
            if !self.asked.contains(&name) {
                report.error(
                    &key.span(),
                    format!("{} has no key `{name}`", self.what),
                    suggest(name, self.asked.iter().copied()),
                );
            }
        }
    }

    pub fn mistyped(
        &self,
        report: &mut Report,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        wanted: &str,
    ) {
        report.error(
            &value.span(),
            format!("`{key}` of {} is of type {}", self.what, value.get_ref().type_str()),
            format!("It takes {wanted}."),
        );
    }
}

/// The entries of a table in the order of the file.
pub(super) fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(Text, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| (Text { text: key.get_ref().to_string(), at: key.span() }, value))
        .collect();
    entries.sort_by_key(|(key, _)| key.at.start);
    entries
}

/// The items of a list; anything else is a list of one.
pub(super) fn items<'t, 'i>(value: &'t Spanned<DeValue<'i>>) -> &'t [Spanned<DeValue<'i>>] {
    match value.get_ref() {
        DeValue::Array(array) => array,
        _ => std::slice::from_ref(value),
    }
}

/// A whole number, however it is written (decimal, hexadecimal, with underscores).
pub(super) fn whole(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A number, with or without a point.
pub(super) fn real(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) => whole(value).map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}
