//! Examples at the end of the help of commands and of their manual pages.

/// Adds the examples of a table (a command, as it is typed, and its examples) to the commands that
/// have no `after_help`.
pub fn with_examples(command: clap::Command, examples: &[(&str, &[&str])]) -> clap::Command {
    examples.iter().fold(command, |command, (path, lines)| {
        let words: Vec<&str> = path.split(' ').collect();
        let title = if lines.len() == 1 { "Example:" } else { "Examples:" };
        add(command, &words, &format!("{title}\n  {}", lines.join("\n  ")))
    })
}

fn add(command: clap::Command, path: &[&str], text: &str) -> clap::Command {
    let Some((first, rest)) = path.split_first() else {
        let own = command.get_after_help().map(ToString::to_string);
        return match own {
            Some(own) if own.contains("xample") => command,
            Some(own) => command.after_help(format!("{own}\n\n{text}")),
            None => command.after_help(text.to_owned()),
        };
    };
    // For tests to find (`faults`): an example is no reason to fail.
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(first, |sub| add(sub, rest, text))
}

/// For tests: commands below `name` without an example that names them, and examples without a
/// command.
pub fn faults(command: clap::Command, name: &str, examples: &[(&str, &[&str])]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, _) in examples {
        let mut at = &command;
        for word in path.split(' ') {
            match at.find_subcommand(word) {
                Some(sub) => at = sub,
                None => faults.push(format!("no command: {path}")),
            }
        }
    }
    bare(&with_examples(command, examples), name, &mut faults);
    faults
}

fn bare(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
        let named = sub.has_subcommands() || help.contains(path.trim());
        if !(help.contains("xample") && named) {
            found.push(path.clone());
        }
        bare(sub, &path, found);
    }
}
