//! A page for each problem: what it is, how to see it in a diagram, an example, why scheduling
//! fails there, its remedies and their cost, and how to try them.

use crate::remedy::Problem;

/// All keys of a system's and a scenario's file, as Markdown.
pub const FILES: &str = include_str!("../../../docs/diagram-files.md");

/// The page of a problem, as Markdown.
pub fn page(problem: Problem) -> &'static str {
    match problem {
        Problem::NoScheduling => include_str!("../explanations/no-scheduling.md"),
        Problem::UnknownUsage => include_str!("../explanations/unknown-usage.md"),
        Problem::HiddenContention => include_str!("../explanations/hidden-contention.md"),
        Problem::Blocking => include_str!("../explanations/blocking.md"),
        Problem::OrderingConstraint => include_str!("../explanations/ordering-constraint.md"),
        Problem::SurplusThreads => include_str!("../explanations/surplus-threads.md"),
        Problem::ServiceToEnd => include_str!("../explanations/service-to-end.md"),
        Problem::HeldThreads => include_str!("../explanations/held-threads.md"),
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
                let text = systems::text(words[3]).unwrap_or_else(|| panic!("{line}"));
                let tad = crate::file::read_tad(words[3], text).unwrap().value;
                let after = |key: &str| {
                    let at = words.iter().position(|word| *word == key)?;
                    words.get(at + 1).copied()
                };
                if let Some(scenario) = after("--scenario") {
                    let known = crate::scenarios::find(scenario);
                    let text = known.unwrap_or_else(|| panic!("{line}")).text;
                    assert!(crate::file::read_scenario(scenario, text, &tad).is_ok(), "{line}");
                }
                if let Some(letters) = after("--maat") {
                    crate::maat::remedied(&tad, letters.trim_matches('\'')).unwrap();
                }
            }
            // A text in backquotes without spaces is a remedy, a letter or a line of a file.
            for word in page(problem).split('`').skip(1).step_by(2) {
                let known = Remedy::NAMES.contains(&word) || word == "di" || word.contains(" = ");
                assert!(known, "{problem:?} speaks of `{word}`");
            }
        }
    }

    #[test]
    fn the_page_of_files_names_every_key_and_its_example_is_one() {
        // Every key that a reader asks for stands in the code as a text; these are all files.
        let sources = [
            include_str!("file/system.rs"),
            include_str!("file/resource.rs"),
            include_str!("file/request.rs"),
            include_str!("file/step.rs"),
            include_str!("file/scenario.rs"),
            include_str!("file/remedies.rs"),
        ];
        let asks = [
            "text(report, \"",
            "texts(report, \"",
            "count(report, \"",
            "number(report, \"",
            "flag(report, \"",
            "value(\"",
        ];
        for source in sources {
            for part in asks.iter().flat_map(|ask| source.split(ask).skip(1)) {
                let key = part.split('"').next().unwrap();
                let named = [format!("`{key}`"), format!(".{key}]]"), format!("[[{key}]]")];
                let named = named.iter().any(|name| FILES.contains(name));
                assert!(named, "the page does not name `{key}`");
            }
        }
        for remedy in Remedy::NAMES {
            assert!(FILES.contains(&format!("`{remedy}`")), "the page does not name `{remedy}`");
        }
        let blocks: Vec<&str> = FILES.split("```toml\n").skip(1).collect();
        let [system, scenario] = blocks.as_slice() else { panic!("two examples") };
        let example = |text: &str| text.split("```").next().unwrap().to_owned();
        let read = crate::file::read_tad("example", &example(system));
        let read = read.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(read.warnings, []);
        crate::file::read_scenario("example", &example(scenario), &read.value).unwrap();
    }

    #[test]
    fn a_problem_is_found_by_name_or_letter() {
        assert_eq!(find("blocking"), Some(Problem::Blocking));
        assert_eq!(find("n"), Some(Problem::NoScheduling));
        assert_eq!(find("X"), None);
    }
}
