//! Examples for the commands, at the end of their help and of their manual pages.
//!
//! A command may have its own (`after_help`); here are those of the others, in one table. A test holds
//! that every command has some.

/// A command, as it is typed, and its examples.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("status", &["headworks status", "headworks status --name mariadb --json | jq .unfairness"]),
    ("top", &["headworks top", "headworks top --name mariadb --delay 0.5"]),
    (
        "set",
        &[
            "headworks set --parallelism 32",
            "headworks set --mode observe            # hold nobody, go on measuring",
            "headworks set --weight reports=0.5 --weight web=2",
        ],
    ),
    ("off", &["headworks off                         # everybody passes from this moment on"]),
    ("on", &["headworks on"]),
    (
        "reload",
        &["headworks reload --name mariadb       # the file that `run` or `enable` was given"],
    ),
    (
        "doctor",
        &["headworks doctor", "headworks doctor /usr/sbin/mariadbd", "headworks doctor --json"],
    ),
    (
        "daemon",
        &[
            "headworks daemon --name mariadb       # after its daemon was killed",
            "tail -f /run/headworks/mariadb/daemon.log   # what it decides",
        ],
    ),
    ("man", &["headworks man target/man && man target/man/headworks-run.1"]),
    ("bench", &["headworks bench list", "headworks bench run gate-mariadb --quick --out out/demo"]),
    ("bench list", &["headworks bench list --json"]),
    (
        "bench run",
        &[
            "headworks bench run gate-mariadb --quick",
            "headworks bench run gate-mariadb --seed 7 --repeat 5 --out out/record",
        ],
    ),
    ("bench report", &["headworks bench report out/demo       # draws again what was measured"]),
    ("tad list", &["headworks tad list"]),
    (
        "io",
        &[
            "headworks run --io split-deadline -- postgres -D /var/lib/postgresql/15/main",
            "headworks io top",
        ],
    ),
    ("io top", &["headworks io top", "headworks io top --name postgres --json"]),
    (
        "io set",
        &[
            "headworks io set --scheduler afq --device disk",
            "headworks io set --config /etc/headworks.toml   # its [io] section",
        ],
    ),
    ("volume create", &["headworks volume create db --size 2G --backing memory --fs ext4"]),
    ("volume mount", &["sudo headworks volume mount db /mnt/db"]),
    ("volume umount", &["sudo headworks volume umount db"]),
    ("volume list", &["headworks volume list"]),
    ("volume stat", &["headworks volume stat db"]),
    ("volume rm", &["headworks volume rm db"]),
    (
        "volume powercut",
        &["sudo headworks volume powercut db     # then mount it again, and see what is left"],
    ),
    ("volume replay", &["headworks volume replay db trace.json"]),
    ("volume doctor", &["headworks volume doctor"]),
    ("volume serve", &["headworks volume serve db             # by NBD, to whoever connects"]),
];

/// Adds the examples of the table to the commands that have none of their own.
pub fn with_examples(command: clap::Command) -> clap::Command {
    EXAMPLES.iter().fold(command, |command, (path, lines)| {
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
    // A command that another build does not have.
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(first, |sub| add(sub, rest, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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

    #[test]
    fn every_command_has_an_example_that_names_it() {
        let mut found = Vec::new();
        let command = with_examples(crate::cli::Cli::command());
        bare(&command, "", &mut found);
        let groups = ["volume", "tad", "explain"];
        found.retain(|path| !groups.contains(&path.trim()));
        assert!(found.is_empty(), "no example: {found:?}");
    }

    #[test]
    fn the_table_names_commands_that_there_are() {
        for (path, _) in EXAMPLES {
            let mut command = crate::cli::Cli::command();
            for word in path.split(' ') {
                command = command.find_subcommand(word).unwrap_or_else(|| panic!("{path}")).clone();
            }
        }
    }
}
