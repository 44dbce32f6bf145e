//! Manual pages, made from the command line's own definition.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Directory for the pages
    #[arg(default_value = "man")]
    pub dir: PathBuf,
}

/// Writes one page for the program and one for each of its subcommands (`headworks-run.1` and so
/// on), and prints their names. Subcommands that are separate programs (`apart`) write theirs.
pub fn write(cmd: clap::Command, args: &Man, apart: &[&str]) -> anyhow::Result<()> {
    for page in write_all(cmd, &args.dir, apart)? {
        println!("{}", page.display());
    }
    Ok(())
}

fn write_all(cmd: clap::Command, dir: &Path, apart: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir).with_context(|| {
        format!(
            "cannot make the directory {} for the manual pages; name one that you may write",
            dir.display()
        )
    })?;
    // `help` would repeat every page as a subcommand of itself.
    let mut cmd = cmd.disable_help_subcommand(true);
    cmd.build();
    let mut written = Vec::new();
    write_with_subcommands(&cmd, None, dir, apart, &mut written)?;
    Ok(written)
}

fn write_with_subcommands(
    cmd: &clap::Command,
    parent: Option<&str>,
    dir: &Path,
    apart: &[&str],
    written: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let name = match parent {
        Some(parent) => format!("{parent}-{}", cmd.get_name()),
        None => cmd.get_name().to_owned(),
    };
    // The name in the page's head has the parents in it, its synopsis has them with blanks.
    let page =
        clap_mangen::Man::new(cmd.clone().display_name(name.clone())).title(name.to_uppercase());
    let mut text = Vec::new();
    page.render(&mut text).with_context(|| format!("cannot write the manual page of {name}"))?;
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, text).with_context(|| {
        format!(
            "cannot write {}: check free space (`df -h`) and the directory's mode",
            path.display()
        )
    })?;
    written.push(path);
    for sub in cmd.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        if !apart.contains(&sub.get_name()) {
            write_with_subcommands(sub, Some(&name), dir, &[], written)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn every_subcommand_has_a_page() {
        let command = Command::new("headworks")
            .about("Governs the way in")
            .subcommand(
                Command::new("run")
                    .about("Starts a database")
                    .arg(Arg::new("parallelism").long("parallelism")),
            )
            .subcommand(Command::new("bench").subcommand(Command::new("list")))
            .subcommand(Command::new("tad").about("A separate program"))
            .subcommand(Command::new("secret").hide(true));
        let dir = std::env::temp_dir().join(format!("headworks-man-{}", std::process::id()));
        let written = write_all(command, &dir, &["tad"]).unwrap();
        let names: Vec<_> =
            written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let page = std::fs::read_to_string(dir.join("headworks-run.1")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            names,
            ["headworks.1", "headworks-run.1", "headworks-bench.1", "headworks-bench-list.1"]
        );
        assert!(
            page.contains("parallelism") && page.contains("HEADWORKS\\-RUN")
                || page.contains("HEADWORKS-RUN"),
            "{page}"
        );
        assert!(page.contains("headworks run"), "{page}");
    }
}
