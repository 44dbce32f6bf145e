//! A page for each problem: what it is, how to see it in a diagram, an example, why scheduling
//! fails there, its remedies and their cost, and how to try them.

use crate::remedy::Problem;

/// The page of a problem, as Markdown.
pub fn page(problem: Problem) -> &'static str {
    match problem {
        Problem::NoScheduling => include_str!("../explanations/no-scheduling.md"),
        Problem::UnknownUsage => include_str!("../explanations/unknown-usage.md"),
        Problem::HiddenContention => include_str!("../explanations/hidden-contention.md"),
        Problem::Blocking => include_str!("../explanations/blocking.md"),
        Problem::OrderingConstraint => include_str!("../explanations/ordering-constraint.md"),
    }
}

/// The problem with this name, or letter in either case.
pub fn find(word: &str) -> Option<Problem> {
    Problem::from_name(word).or_else(|| {
        let letter = |problem: &Problem| word.eq_ignore_ascii_case(&problem.letter().to_string());
        Problem::ALL.into_iter().find(letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Remedy;
    use crate::systems;

    #[test]
    fn each_page_says_all_that_a_reader_needs() {
        for problem in Problem::ALL {
            let page = page(problem);
            assert!(page.lines().next().unwrap().ends_with(&format!("({})", problem.letter())));
            for part in [
                "What it is",
                "How to see it in a diagram",
                "Example",
                "Which condition it violates",
                "Direct remedy",
                "Indirect remed",
                "Which to choose",
                "Try it",
                "Source",
            ] {
                assert!(page.contains(part), "{problem:?} says nothing of {part:?}");
            }
            assert!(page.contains(problem.condition().title()), "{problem:?}");
        }
    }

    #[test]
    fn pages_name_systems_remedies_and_problems_that_there_are() {
        for problem in Problem::ALL {
            for line in page(problem).lines().filter_map(|line| line.strip_prefix("    ")) {
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words[..2], ["headworks", "tad"], "{line}");
                assert!(systems::names().any(|name| name == words[3]), "{line}");
            }
            // A text in backquotes without spaces is a remedy, a letter or a line of a file.
            for word in page(problem).split('`').skip(1).step_by(2) {
                let known = Remedy::NAMES.contains(&word) || word == "di" || word.contains(" = ");
                assert!(known, "{problem:?} speaks of `{word}`");
            }
        }
    }

    #[test]
    fn a_problem_is_found_by_name_or_letter() {
        assert_eq!(find("blocking"), Some(Problem::Blocking));
        assert_eq!(find("n"), Some(Problem::NoScheduling));
        assert_eq!(find("X"), None);
    }
}
