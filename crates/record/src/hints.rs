//! What a user knows better: names of stages, and which belong together.
//!
//! ```toml
//! [[stage]]
//! match = "stage_fn"          # a stage's name or title, or a part of it with * at an end
//! name = "log writer"         # two stages with one name become one
//!
//! [[stage]]
//! match = "worker-#"
//! through = "compress_*"      # those of its threads that were seen in such a function
//! name = "compressors"
//! ```

use serde::Deserialize;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// Stages.
    #[serde(default)]
    stage: Vec<Stage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    r#match: String,
    through: Option<String>,
    name: String,
}

/// Births of threads that make a stage on-demand: more than a pool that is filled once.
const BIRTHS_MIN: u64 = 3;

impl Hints {
    /// Reads a file of hints.
    pub fn parse(text: &str) -> Result<Hints, toml::de::Error> {
        toml::from_str(text)
    }

    /// The name that a hint gives to a stage with this title.
    pub(crate) fn name(&self, title: &str) -> Option<&str> {
        let mut whole = self.stage.iter().filter(|hint| hint.through.is_none());
        whole.find(|hint| matches(&hint.r#match, title)).map(|hint| &*hint.name)
    }

    /// The name that a hint gives to those threads of a stage with this title that were seen in
    /// these functions.
    pub(crate) fn part(&self, title: &str, functions: &[&str]) -> Option<&str> {
        let mut parts = self.stage.iter().filter(|hint| matches(&hint.r#match, title));
        let seen = |through: &str| functions.iter().any(|function| matches(through, function));
        parts.find(|hint| hint.through.as_deref().is_some_and(seen)).map(|hint| &*hint.name)
    }

    /// Whether a hint splits a stage with this title.
    pub(crate) fn splits(&self, title: &str) -> bool {
        self.stage.iter().any(|hint| hint.through.is_some() && matches(&hint.r#match, title))
    }

    /// Threads are born again and again: one for each request or connection.
    pub(crate) fn on_demand(&self, births: u64, most: u32) -> bool {
        births >= BIRTHS_MIN && births >= u64::from(most)
    }
}

/// `*` at an end stands for anything.
fn matches(pattern: &str, title: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), Some(_)) => title.contains(rest.trim_end_matches('*')),
        (Some(end), None) => title.ends_with(end),
        (None, Some(begin)) => title.starts_with(begin),
        (None, None) => title == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("stage_*", "stage_3") && matches("*_3", "stage_3"));
        assert!(matches("*tag*", "stage_3") && !matches("stage", "stage_3"));
    }

    #[test]
    fn a_wrong_key_is_refused() {
        assert!(Hints::parse("[[stage]]\nmatch = \"a\"\nname = \"b\"\n").is_ok());
        assert!(Hints::parse("[[stages]]\n").is_err());
    }
}
