//! Which word was probably meant.

/// Longest word that may be a slip for another, in bytes: longer ones cost much to compare.
const WORD_MAX: usize = 100;

/// The known word that is most like `word`, if one is like it at all.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let normal = |text: &str| text.to_lowercase().replace('-', "_");
    if word.len() > WORD_MAX {
        return None;
    }
    let word = normal(word);
    known
        .into_iter()
        .map(|known| (strsim::levenshtein(&word, &normal(known)), known))
        .filter(|(distance, known)| {
            *distance <= 1.max((known.chars().count() + 1) / 3)
                // An unfinished or prefixed name: `hold_ms` for `hold_ms_max`.
                || (word.len() >= 3 && (normal(known).contains(&word) || word.contains(&normal(known))))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// "Did you mean `near`? ", or nothing. `quote` stands on both sides of the word.
pub fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    quote: char,
) -> String {
    let question = |near: &str| format!("Did you mean {quote}{near}{quote}? ");
    nearest(word, known).map(question).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_and_an_unfinished_name_are_recognized_and_other_words_are_not() {
        let known = ["hold_ms_max", "weight"];
        assert_eq!(nearest("wieght", known), Some("weight"));
        assert_eq!(nearest("hold-ms", known), Some("hold_ms_max"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(did_you_mean("wight", known, '`'), "Did you mean `weight`? ");
        assert_eq!(did_you_mean("colour", known, '`'), "");
    }
}
