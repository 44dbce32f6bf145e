//! Arrows and steps that contradict each other.

use super::*;

/// Warnings about the smallest system with a wait, after a change.
fn warnings(old: &str, new: &str) -> Vec<String> {
    let text = systems::problem_text("blocking").unwrap();
    assert!(text.contains(old), "{old:?} is not there");
    let loaded = read_tad("blocking.toml", &text.replacen(old, new, 1));
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    loaded.warnings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn warned(old: &str, new: &str, words: &str) {
    let warnings = warnings(old, new);
    assert!(warnings.len() == 1 && warnings[0].contains(words), "{warnings:?}");
}

const BACK: &str = "[[flow]]\nfrom = \"handle\"\nto = \"clients\"\n";

#[test]
fn arrows_and_steps_must_agree() {
    assert_eq!(warnings(BACK, BACK), [""; 0]);
    let arrow = "[[flow]]\nfrom = \"io\"\nto = \"clients\"\n";
    warned(
        BACK,
        &format!("{BACK}{arrow}"),
        "from stage \"io\" to the clients, and no step takes it",
    );
    let onward = "[[flow]]\nfrom = \"handle\"\nto = \"io\"\n\n[[flow]]";
    warned(onward, "[[flow]]", "goes from stage \"handle\" to stage \"io\", and no arrow");
    let blocking = "[[flow]]\nfrom = \"handle\"\nto = \"io\"\nkind = \"blocking\"\n";
    warned(blocking, "", "threads of stage \"handle\" wait for stage \"io\", and no arrow");
    warned("calls = [\"io\"]", "then = [\"io\"]", "drawn as blocked by stage \"io\", and none");
}

#[test]
fn what_says_nothing_is_not_contradicted() {
    // A recorded arrow that is a guess.
    let guess = "[[flow]]\nfrom = \"io\"\nto = \"handle\"\nconfidence = \"guess\"\n";
    assert_eq!(warnings(BACK, &format!("{BACK}{guess}")), [""; 0]);
    // A stage whose requests are not described.
    let other = "[[stage]]\nname = \"other\"\nprocess = \"server\"\nthreads = 1\n\
        [[flow]]\nfrom = \"handle\"\nto = \"other\"\n";
    assert_eq!(warnings(BACK, &format!("{BACK}{other}")), [""; 0]);
}
