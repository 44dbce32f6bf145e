//! Choosing remedies by letter, as the dissertation does: `d|i|di|i2|i` (section 4.3).
//!
//! One letter for each problem, in the order of Table 4.5; `?` leaves the problem alone. Letters
//! for the three problems that are not in that table may follow. The system's file defines its
//! letters (`[remedy.<problem>.<letter>]`).

use crate::model::{Alternative, Tad};
use crate::remedy::{Problem, RemedyError, apply};

/// Why a choice does not fit a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaatError {
    /// Neither five letters nor up to as many as there are problems.
    #[error(
        "\"{text}\" has {count} letters: write one for each problem ({problems}; the last three may be left out), with \"|\" between them and \"?\" for \
         what stays as it is, for instance \"d|?|?|?|?\""
    )]
    Count {
        /// What was written.
        text: String,
        /// Number of letters in it.
        count: usize,
        /// The problems in order.
        problems: String,
    },
    /// A letter that the system's file does not have.
    #[error("system \"{system}\" has no remedy \"{letter}\" of {problem}; it has {known}")]
    Letter {
        /// System.
        system: String,
        /// Problem.
        problem: &'static str,
        /// What was written.
        letter: String,
        /// What could be written.
        known: String,
    },
    /// The remedies of the letters do not fit together.
    #[error("remedy \"{letter}\" of {problem} cannot be applied: {error}")]
    Remedy {
        /// Problem.
        problem: &'static str,
        /// Letter.
        letter: String,
        /// Why.
        error: RemedyError,
    },
}

/// The choices of a text: for each problem in order, the alternative or none.
pub fn choose<'t>(tad: &'t Tad, text: &str) -> Result<Vec<Option<&'t Alternative>>, MaatError> {
    let mut letters: Vec<&str> =
        text.trim().trim_matches(['[', ']']).split('|').map(str::trim).collect();
    if !(Problem::OF_THE_PAPER..=Problem::ALL.len()).contains(&letters.len()) {
        return Err(MaatError::Count {
            text: text.to_owned(),
            count: letters.len(),
            problems: Problem::ALL.map(Problem::name).join(", "),
        });
    }
    letters.resize(Problem::ALL.len(), "?");
    Problem::ALL
        .into_iter()
        .zip(letters)
        .map(|(problem, letter)| {
            if letter == "?" {
                return Ok(None);
            }
            let known = tad.remedies.get(&problem).map_or(&[][..], Vec::as_slice);
            let found = known.iter().find(|alternative| alternative.letter == letter);
            found.map(Some).ok_or_else(|| MaatError::Letter {
                system: tad.name.clone(),
                problem: problem.name(),
                letter: letter.to_owned(),
                known: letters_of(known),
            })
        })
        .collect()
}

/// A copy of the system with the chosen remedies applied.
pub fn remedied(tad: &Tad, text: &str) -> Result<Tad, MaatError> {
    let mut changed = tad.clone();
    for (problem, alternative) in Problem::ALL.into_iter().zip(choose(tad, text)?) {
        let Some(alternative) = alternative else { continue };
        for remedy in &alternative.remedies {
            apply(&mut changed, remedy).map_err(|error| MaatError::Remedy {
                problem: problem.name(),
                letter: alternative.letter.clone(),
                error,
            })?;
        }
    }
    Ok(changed)
}

/// Letters and their meanings, for people.
fn letters_of(known: &[Alternative]) -> String {
    let mut words: Vec<String> =
        known.iter().map(|each| format!("\"{}\" ({})", each.letter, each.about)).collect();
    words.push("\"?\" (leave it)".to_owned());
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read_tad;
    use crate::systems;

    fn hbase() -> Tad {
        read_tad("hbase", systems::text("hbase").unwrap()).unwrap().value
    }

    #[test]
    fn letters_choose_what_the_file_says() {
        let tad = hbase();
        let chosen = choose(&tad, "[d|i|di|i2|i]").unwrap();
        let letters: Vec<&str> = chosen.iter().flatten().map(|each| each.letter.as_str()).collect();
        assert_eq!(letters, ["d", "i", "di", "i2", "i"]);
        assert_eq!(remedied(&tad, "?|?|?|?|?").unwrap(), tad);
        assert_ne!(remedied(&tad, "d | ? | ? | ? | ?").unwrap(), tad);
        assert_eq!(remedied(&tad, "d|?|?|?|?|?|?|?"), remedied(&tad, "d|?|?|?|?"));
    }

    #[test]
    fn a_wrong_letter_is_told_the_possible_ones() {
        let error = choose(&hbase(), "d|i|d|x|d").unwrap_err().to_string();
        assert!(error.contains("\"x\" of blocking") && error.contains("\"i2\""), "{error}");
        let error = choose(&hbase(), "d|i").unwrap_err().to_string();
        assert!(error.contains("2 letters") && error.contains("hidden-contention"), "{error}");
    }

    #[test]
    fn letters_that_need_others_say_so() {
        // One scheduler for all stages of a node needs queues at all of them.
        let error = remedied(&hbase(), "?|?|d|?|?").unwrap_err().to_string();
        assert!(
            error.contains("hidden-contention") && error.contains("scheduling point"),
            "{error}"
        );
    }
}
