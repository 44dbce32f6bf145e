//! Examples for the commands, at the end of their help and of their manual pages.
//!
//! A command may have its own (`after_help`); here are those of the others, in one table. A test
//! checks that every command has some.

/// A command, as it is typed, and its examples.
pub const EXAMPLES: &[(&str, &[&str])] = &[
    ("status", &["headworks status", "headworks status --name mariadb --json | jq .unfairness"]),
    ("top", &["headworks top", "headworks top --name mariadb --delay 0.5"]),
    (
        "set",
        &[
            "headworks set --parallelism 32",
            "headworks set --mode dry-run            # hold no session, go on measuring",
            "headworks set --weight reports=0.5 --weight web=2",
        ],
    ),
    ("off", &["headworks off                         # all requests pass from this moment on"]),
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
    ("io", &["headworks run --io split-deadline -- postgres -D /srv/pg", "headworks io top"]),
    ("io top", &["headworks io top", "headworks io top --name postgres --json"]),
    ("io waits", &["headworks io waits", "headworks io waits --name mariadbd --count 100"]),
    (
        "io set",
        &[
            "headworks io set --scheduler afq --device disk",
            "headworks io set --config /etc/headworks.toml   # its [io] section",
        ],
    ),
    ("volume create", &["headworks volume create db --size 2G --backing memory --fs ext4"]),
    (
        "volume mount",
        &[
            "sudo headworks volume mount db /mnt/db",
            "sudo headworks volume mount db /mnt/db --io mariadbd   # its queue knows whose the writes are",
        ],
    ),
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
    (
        "volume serve",
        &["headworks volume serve db             # by NBD, to any client that connects"],
    ),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example_that_names_it() {
        let mut found = headworks_console::faults(crate::cli::Cli::command(), "", super::EXAMPLES);
        let groups = ["volume", "explain"];
        found.retain(|path| {
            !groups.contains(&path.trim()) && !crate::apart::NAMES.contains(&path.trim())
        });
        assert!(found.is_empty(), "{found:?}");
    }
}
