//! The text of a layer: `name:key=value,key=value`, or `name:word`.

use headworks_policy::Nanos;

/// What is wrong with a layer's text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("layer `{text}`: {problem}\n  for example: {example}")]
pub struct LayerError {
    /// The whole text.
    pub text: String,
    /// In words.
    pub problem: String,
    /// An example of valid settings.
    pub example: &'static str,
}

/// The keys of one layer, taken one by one; keys left at the end are unknown.
pub(super) struct Settings<'a> {
    text: &'a str,
    example: &'static str,
    left: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    /// Splits `text` at commas and equal signs.
    pub(super) fn new(text: &'a str, example: &'static str) -> Result<Self, LayerError> {
        let mut settings = Settings { text, example, left: Vec::new(), known: Vec::new() };
        let rest = text.split_once(':').map_or("", |(_, rest)| rest);
        for item in rest.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                return Err(settings.error(format!("`{item}` is no KEY=VALUE")));
            };
            settings.left.push((key.trim(), value.trim()));
        }
        Ok(settings)
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> LayerError {
        LayerError { text: self.text.to_owned(), problem: problem.into(), example: self.example }
    }

    fn take_text(&mut self, key: &'static str) -> Result<Option<&'a str>, LayerError> {
        self.known.push(key);
        let mut found = None;
        while let Some(at) = self.left.iter().position(|(name, _)| *name == key) {
            if found.replace(self.left.remove(at).1).is_some() {
                return Err(self.error(format!("`{key}` is given twice")));
            }
        }
        Ok(found)
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, LayerError> {
        let Some(text) = self.take_text(key)? else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.error(format!("`{key}={text}`: {what}"))),
        }
    }

    /// One of a few words.
    pub(super) fn take_word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, LayerError> {
        let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.take(key, &format!("write one of {}", list.join(", ")), |text| {
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
        })
    }

    /// A whole number.
    pub(super) fn take_number(&mut self, key: &'static str) -> Result<Option<u64>, LayerError> {
        self.take(key, "write a whole number", |text| text.parse().ok())
    }

    /// A fraction from 0 to 1.
    pub(super) fn take_fraction(&mut self, key: &'static str) -> Result<Option<f64>, LayerError> {
        self.take(key, "write a number from 0 to 1", |text| {
            text.parse().ok().filter(|value| (0.0..=1.0).contains(value))
        })
    }

    /// A time: `250us`, `2ms`, `1.5s`.
    pub(super) fn take_time(&mut self, key: &'static str) -> Result<Option<Nanos>, LayerError> {
        self.take(key, "write a time, for example 250us, 2ms or 1.5s", time)
    }

    /// A size: `512`, `64k`, `100M`, `1G` (powers of 1024).
    pub(super) fn take_bytes(&mut self, key: &'static str) -> Result<Option<u64>, LayerError> {
        self.take(key, "write a size, for example 512, 64k, 100M or 1G", bytes)
    }

    /// Two whole numbers, `1000-2000`, both included; or one.
    pub(super) fn take_range(
        &mut self,
        key: &'static str,
    ) -> Result<Option<(u64, u64)>, LayerError> {
        self.take(key, "write FIRST-LAST", |text| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let range = (first.parse().ok()?, last.parse().ok()?);
            (range.0 <= range.1).then_some(range)
        })
    }

    /// Nothing may be left.
    pub(super) fn finish(self) -> Result<(), LayerError> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => {
                Err(self.error(format!("`{key}` is unknown; known are {}", self.known.join(", "))))
            }
        }
    }
}

/// A time with its unit.
pub fn time(text: &str) -> Option<Nanos> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let scale = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let ns = digits.parse::<f64>().ok()? * scale;
    // Up to a day: exact in a float.
    (0.0..=86_400e9).contains(&ns).then_some(Nanos(ns as u64))
}

/// A size in bytes: a whole number with `k`, `M`, `G` or `T` (powers of 1024), `KiB`, `MiB` and so
/// on.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(time("250us"), Some(Nanos(250_000)));
        assert_eq!(time("1.5s"), Some(Nanos(1_500_000_000)));
        assert_eq!((time("5"), time("-1s"), time("ms")), (None, None, None));
        assert_eq!(bytes("64k"), Some(65_536));
        assert_eq!(bytes("1T"), Some(1 << 40));
        assert_eq!((bytes("1.5G"), bytes("99999999T"), bytes("k")), (None, None, None));
    }

    #[test]
    fn what_is_unknown_or_given_twice_is_said() {
        let mut settings = Settings::new("delay:read=1ms,raed=2ms", "delay:read=2ms").unwrap();
        settings.take_time("read").unwrap();
        let error = settings.finish().unwrap_err().to_string();
        assert!(error.contains("`raed` is unknown; known are read"), "{error}");
        let mut twice = Settings::new("delay:read=1ms,read=2ms", "").unwrap();
        assert!(twice.take_time("read").unwrap_err().problem.contains("twice"));
        assert!(Settings::new("delay:read", "").is_err());
    }
}
