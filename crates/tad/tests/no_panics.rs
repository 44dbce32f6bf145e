//! Whatever is in a file, reading it ends with a system or with errors that name a line.

use headworks_tad::check;
use headworks_tad::file::{FileErrors, read_scenario, read_tad};
use headworks_tad::systems;
use proptest::prelude::*;
use proptest::sample::Index;

const SCENARIO: &str = r#"
name = "s"
duration = "10 s"
[[client]]
name = "C1"
[[client.load]]
request = "get-cached"
threads = 4
parameters = { reply = "2 KB" }
entry = "node 1"
keys = { zipf = 1.0 }
[[change]]
at = "5 s"
node = "slave"
resource = "io"
rate = "1 MB/s"
[[change]]
at = "6 s"
client = "C1"
[[change.load]]
request = "put"
burst = { count = 3, every = "1 s" }
"#;

/// Words that mean something somewhere in a file, and values that hardly do anywhere.
const WORDS: [&str; 24] = [
    "0",
    "-1",
    "99999999999999999999",
    "0x10",
    "nan",
    "1e400",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    "\"on-demand\"",
    "\"$reply\"",
    "\"cpu 1 us\"",
    "\"node 4000000000\"",
    "\"handle\"",
    "\"\u{e9}\"",
    "= ",
    "]",
    "\"",
    "[[stage]]",
    "name = \"cpu\"",
    "\"9007199254740993 KB\"",
    "1979-05-27",
];

/// What may be done to a text.
#[derive(Clone, Debug)]
enum Change {
    DropLine(Index),
    RepeatLine(Index, Index),
    SwapLines(Index, Index),
    /// What follows the first `=` of a line becomes a word.
    Value(Index, &'static str),
    /// A token of one line is put in place of one of another.
    Graft(Index, Index, Index),
    Insert(Index, char),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Change::DropLine),
        (at(), at()).prop_map(|(from, to)| Change::RepeatLine(from, to)),
        (at(), at()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        (at(), proptest::sample::select(WORDS.to_vec())).prop_map(|(l, w)| Change::Value(l, w)),
        (at(), at(), at()).prop_map(|(a, b, c)| Change::Graft(a, b, c)),
        (at(), any::<char>()).prop_map(|(place, c)| Change::Insert(place, c)),
        at().prop_map(Change::Cut),
    ]
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for change in changes {
        let count = lines.len();
        if count == 0 {
            break;
        }
        match change {
            Change::DropLine(at) => {
                lines.remove(at.index(count));
            }
            Change::RepeatLine(from, to) => {
                let line = lines[from.index(count)].clone();
                lines.insert(to.index(count), line);
            }
            Change::SwapLines(a, b) => lines.swap(a.index(count), b.index(count)),
            Change::Value(at, word) => {
                let line = &mut lines[at.index(count)];
                let keep = line.find('=').map_or(0, |equals| equals + 1);
                line.truncate(keep);
                line.push_str(word);
            }
            Change::Graft(from, to, token) => {
                let quoted = |line: &str| {
                    let parts: Vec<String> = line.split('"').map(str::to_owned).collect();
                    (parts.len() >= 3).then_some(parts)
                };
                let (from, to) = (from.index(count), to.index(count));
                if let (Some(source), Some(mut target)) = (quoted(&lines[from]), quoted(&lines[to]))
                {
                    let odd = |len: usize| 2 * token.index(len / 2) + 1;
                    let (s, t) = (odd(source.len()), odd(target.len()));
                    target[t] = source[s].clone();
                    lines[to] = target.join("\"");
                }
            }
            Change::Insert(at, c) => {
                let line = &mut lines[at.index(count)];
                let places = line.char_indices().map(|(place, _)| place).collect::<Vec<_>>();
                let place = if places.is_empty() { 0 } else { places[at.index(places.len())] };
                line.insert(place, *c);
            }
            Change::Cut(at) => lines.truncate(at.index(count)),
        }
    }
    lines.join("\n")
}

fn good(text: &str, errors: &FileErrors) -> Result<(), TestCaseError> {
    prop_assert!(!errors.0.is_empty());
    for error in &errors.0 {
        prop_assert!((1..=text.matches('\n').count() + 1).contains(&error.line), "{error}");
        prop_assert!(!error.problem.is_empty() && !error.hint.is_empty());
    }
    Ok(())
}

fn try_system(text: &str) -> Result<(), TestCaseError> {
    match read_tad("any.toml", text) {
        Err(errors) => good(text, &errors),
        Ok(loaded) => {
            let report = check::report(&loaded.value);
            prop_assert!(report.findings.iter().all(|finding| !finding.reason.is_empty()));
            Ok(())
        }
    }
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        try_system(&text)?;
    }

    #[test]
    fn what_looks_like_toml(
        lines in proptest::collection::vec((any::<Index>(), proptest::sample::select(WORDS.to_vec())), 0..40)
    ) {
        let all: Vec<&str> = systems::names().flat_map(|name| systems::text(name).unwrap().lines()).collect();
        let text: Vec<String> = lines
            .iter()
            .map(|(line, word)| match line.get(&all).split_once('=') {
                Some((key, _)) => format!("{key}= {word}"),
                None => (*line.get(&all)).to_owned(),
            })
            .collect();
        try_system(&text.join("\n"))?;
    }

    #[test]
    fn a_system_with_changes(
        system in 0..5_usize,
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let name = systems::names().nth(system).unwrap();
        try_system(&changed(systems::text(name).unwrap(), &changes))?;
    }

    #[test]
    fn a_scenario_with_changes(changes in proptest::collection::vec(change(), 0..4)) {
        let tad = read_tad("hbase", systems::text("hbase").unwrap()).unwrap().value;
        let text = changed(SCENARIO, &changes);
        if let Err(errors) = read_scenario("any.toml", &text, &tad) {
            prop_assert!(!changes.is_empty(), "{errors}");
            good(&text, &errors)?;
        }
    }
}
