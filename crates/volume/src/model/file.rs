//! Device files: TOML with one section, `[ssd]` or `[hdd]`, and a line about the device.

use super::parameters::{Field, Form};
use super::{Device, hdd, ssd};
use headworks_settings::{Mistake, Place, nearest};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Reads a device file.
pub fn read(text: &str, name: &str) -> Result<Device, Mistake> {
    let place = Place { text, path: Path::new(name) };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        let mend = "Write `key = value` on lines of their own below `[ssd]` or `[hdd]`.".to_owned();
        place.at(at.start, format!("this is no TOML: {}", error.message()), mend)
    })?;
    let mut found = None;
    for (key, value) in table.get_ref() {
        let word: &str = key.get_ref();
        match (word, value.get_ref()) {
            ("about", DeValue::String(_)) => {}
            ("ssd" | "hdd", DeValue::Table(section)) => {
                if found.is_some() {
                    let problem = "the file describes two devices".to_owned();
                    let mend = "Keep `[ssd]` or `[hdd]` and move the other to a separate file.";
                    return Err(place.at(key.span().start, problem, mend.to_owned()));
                }
                found = Some((word == "ssd", key.span(), section));
            }
            ("ssd" | "hdd", _) => {
                let problem = format!("`{word}` is no section");
                return Err(place.at(key.span().start, problem, format!("Write `[{word}]`.")));
            }
            _ => {
                let problem = format!("`{word}` means nothing here");
                let mend = "Beside the text `about` there is one section, `[ssd]` or `[hdd]`: \
                            move the key below it, or remove it.";
                return Err(place.at(key.span().start, problem, mend.to_owned()));
            }
        }
    }
    let Some((is_ssd, at, section)) = found else {
        let problem = "the file describes no device".to_owned();
        let needed = |fields: &[Field]| {
            let fields = fields.iter().filter(|field| field.default.is_none());
            fields.map(|field| field.key).collect::<Vec<_>>().join(", ")
        };
        let mend = format!(
            "Write `[ssd]` and below it {}; or `[hdd]` and {}.",
            needed(ssd::Parameters::FIELDS),
            needed(hdd::Parameters::FIELDS)
        );
        return Err(place.at(0, problem, mend));
    };
    let fields = if is_ssd { ssd::Parameters::FIELDS } else { hdd::Parameters::FIELDS };
    let numbers = numbers(&place, &at, section, fields)?;
    let number = |key: &str| numbers.get(key).copied().unwrap_or(0.0);
    if is_ssd {
        let parameters = ssd::Parameters::from_numbers(number);
        let page = parameters.page_bytes;
        if !page.is_multiple_of(512) {
            let problem = format!("`page_bytes` is {page}, which is no number of sectors");
            let mend = "Write a multiple of 512; most drives have 16384.".to_owned();
            return Err(place.at(key_span(section, "page_bytes", &at).start, problem, mend));
        }
        return Ok(Device::Ssd(parameters));
    }
    let parameters = hdd::Parameters::from_numbers(number);
    if parameters.inner_mb_per_s > parameters.outer_mb_per_s {
        let problem = "`inner_mb_per_s` is above `outer_mb_per_s`".to_owned();
        let mend = "Inner tracks are shorter: exchange the two.".to_owned();
        return Err(place.at(key_span(section, "inner_mb_per_s", &at).start, problem, mend));
    }
    Ok(Device::Hdd(parameters))
}

fn key_span(section: &DeTable<'_>, key: &str, otherwise: &Range<usize>) -> Range<usize> {
    let found = section.iter().find(|(found, _)| found.get_ref() == key);
    found.map_or_else(|| otherwise.clone(), |(key, _)| key.span())
}

/// The numbers of a section, by key, all of them in range.
fn numbers<'f>(
    place: &Place<'_>,
    at: &Range<usize>,
    section: &DeTable<'_>,
    fields: &'f [Field],
) -> Result<BTreeMap<&'f str, f64>, Mistake> {
    let mut numbers = BTreeMap::new();
    for (key, value) in section {
        let word: &str = key.get_ref();
        let Some(field) = fields.iter().find(|field| field.key == word) else {
            let problem = format!("there is no parameter `{word}`");
            return Err(place.at(key.span().start, problem, suggest(word, fields)));
        };
        let number = number(field, value.get_ref())
            .map_err(|(problem, mend)| place.at(value.span().start, problem, mend))?;
        numbers.insert(field.key, number);
    }
    for field in fields {
        if numbers.contains_key(field.key) {
            continue;
        }
        let Some(default) = field.default else {
            let problem = format!("`{}` is missing", field.key);
            let mend = format!(
                "Add `{} = …`, from {} to {}.{}",
                field.key, field.least, field.most, field.about
            );
            return Err(place.at(at.start, problem, mend));
        };
        numbers.insert(field.key, default);
    }
    Ok(numbers)
}

/// One value, or what is wrong with it and what to write.
fn number(field: &Field, value: &DeValue<'_>) -> Result<f64, (String, String)> {
    let key = field.key;
    let written = match (field.form, value) {
        (Form::Flag, DeValue::Boolean(flag)) => Some(f64::from(u8::from(*flag))),
        (Form::Flag, _) => None,
        (_, DeValue::Integer(integer)) => {
            let digits = i64::from_str_radix(integer.as_str(), integer.radix());
            // A number that f64 cannot hold exactly is out of every range.
            digits.ok().map(|whole| whole as f64)
        }
        (Form::Number, DeValue::Float(float)) => float.as_str().parse::<f64>().ok(),
        _ => None,
    };
    let Some(number) = written else {
        let form = match field.form {
            Form::Flag => "true or false",
            Form::Whole => "a whole number",
            Form::Number => "a number",
        };
        return Err((format!("`{key}` is {form}"), format!("Write `{key} = {}`.", example(field))));
    };
    if !(field.least..=field.most).contains(&number) {
        let problem = format!("`{key}` is {number}, out of range");
        return Err((problem, format!("Write a value from {} to {}.", field.least, field.most)));
    }
    Ok(number)
}

fn example(field: &Field) -> String {
    let value = field.default.unwrap_or(field.least);
    match field.form {
        Form::Flag => (value != 0.0).to_string(),
        _ => value.to_string(),
    }
}

/// The key that was probably meant.
fn suggest(word: &str, fields: &[Field]) -> String {
    match nearest(word, fields.iter().map(|field| field.key)) {
        Some(key) => format!("Write `{key}`, or remove the line."),
        None => {
            let keys: Vec<&str> = fields.iter().map(|field| field.key).collect();
            format!("Remove the line. There are: {}.", keys.join(", "))
        }
    }
}

/// Writes a device file.
pub fn write(about: &str, section: &str, fields: &[Field], numbers: &[f64]) -> String {
    let mut text = format!("about = {}\n\n[{section}]\n", toml::Value::from(about));
    for (field, number) in fields.iter().zip(numbers) {
        let value = match field.form {
            Form::Flag => (*number != 0.0).to_string(),
            Form::Whole => format!("{number:.0}"),
            // Four digits after the point: a tenth of a nanosecond, for microseconds.
            Form::Number => ((number * 1e4).round() / 1e4).to_string(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "#{}\n{} = {value}", field.about, field.key);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HDD: &str = "[hdd]\nseek_settle_ms = 1\nseek_sqrt_ms = 9\nseek_linear_ms = 6.5\n\
                       queue_gain = 0.3\nwrite_gain = 0.4\nouter_mb_per_s = 180\n\
                       inner_mb_per_s = 90\ncache_kib = 0x4000\n";

    fn refused(text: &str) -> Mistake {
        Device::from_toml(text, "my.toml").unwrap_err()
    }

    #[test]
    fn a_file_is_read_with_its_defaults() {
        let Ok(Device::Hdd(hdd)) = Device::from_toml(HDD, "my.toml") else { panic!("refused") };
        assert_eq!((hdd.seek_linear_ms, hdd.rpm, hdd.cache_kib), (6.5, 7_200.0, 16_384));
    }

    #[test]
    fn errors_name_the_line_the_key_and_what_to_write() {
        for (text, line, problem, mend) in [
            (HDD.replace("queue_gain", "queue_gian"), 5, "`queue_gian`", "Write `queue_gain`"),
            (HDD.replace("= 9\n", "= -9\n"), 3, "`seek_sqrt_ms` is -9", "from 0 to 1000"),
            (
                HDD.replace("= 9\n", "= \"9\"\n"),
                3,
                "`seek_sqrt_ms` is a number",
                "seek_sqrt_ms = 0",
            ),
            (HDD.replace("= 0x4000", "= 1.5"), 9, "`cache_kib` is a whole number", "cache_kib = 0"),
            (HDD.replace("= 180", "= 18"), 8, "`inner_mb_per_s` is above", "exchange"),
            (
                HDD.replace("queue_gain = 0.3\n", ""),
                1,
                "`queue_gain` is missing",
                "Add `queue_gain",
            ),
            (HDD.replace("= 9\n", "= nan\n"), 3, "out of range", "from 0 to 1000"),
            (HDD.replace("= 9\n", "=\n"), 3, "no TOML", "key = value"),
            (format!("{HDD}[ssd]\n"), 10, "two devices", "Keep"),
            (format!("size = 3\n{HDD}"), 1, "`size` means nothing", "move the key below"),
            ("hdd = 3\n".to_owned(), 1, "`hdd` is no section", "[hdd]"),
            (String::new(), 1, "describes no device", "[ssd]"),
        ] {
            let error = refused(&text);
            assert_eq!(error.line, line, "{error}");
            assert!(error.what.contains(problem), "{error}");
            assert!(error.mend.contains(mend), "{error}");
            assert!(error.to_string().starts_with("my.toml:"), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let device = Device::from_toml(HDD, "my.toml").unwrap();
        let text = device.to_toml("A \"disk\"").unwrap();
        assert!(text.contains("# Revolutions a minute.\nrpm = 7200\n"), "{text}");
        assert_eq!(Device::from_toml(&text, "written").unwrap(), device);
        let drive = Device::preset("ssd-c").unwrap();
        let text = drive.to_toml("again").unwrap();
        assert_eq!(Device::from_toml(&text, "written").unwrap(), drive);
    }
}
