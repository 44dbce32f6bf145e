//! What a MariaDB server will listen on and run as, found before it starts.
//!
//! The server reads its option files itself, with `--print-defaults`. That option works only first,
//! or right after those that name the files. Anywhere else the server would ignore it and *start*.
//! So the server gets only those few arguments, and `--help` after them, which ends it in any case.
//! The rest of the command line is read here.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Settings of a server that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// TCP port; `None` without TCP.
    pub port: Option<u16>,
    /// Second TCP port, for administrators.
    pub extra_port: Option<u16>,
    /// Unix socket, if one is named.
    pub socket: Option<PathBuf>,
    /// Addresses that it binds to, with commas in between; `None` means all.
    pub bind_address: Option<String>,
    /// `one-thread-per-connection` (the default), `pool-of-threads` or `no-threads`.
    pub thread_handling: Option<String>,
    /// User that it becomes.
    pub user: Option<String>,
    /// Its data.
    pub datadir: Option<PathBuf>,
}

impl Default for ServerSettings {
    /// Settings of a server without any option.
    fn default() -> Self {
        ServerSettings {
            port: Some(3306),
            extra_port: None,
            socket: None,
            bind_address: None,
            thread_handling: None,
            user: None,
            datadir: None,
        }
    }
}

/// Options that name option files, in the server's spelling: only these may stand before
/// `--print-defaults`.
const FILE_OPTIONS: &[&str] =
    &["--defaults-file=", "--defaults-extra-file=", "--defaults-group-suffix="];

/// How long a server may take to print its options.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Settings with which `program args...`, a MariaDB or MySQL server, would run. If the server does
/// not print its option files, only the command line is read.
pub fn mariadb_settings(program: &Path, args: &[OsString]) -> ServerSettings {
    settings(program, args, Command::new(program))
}

/// The same for a process that runs it. The server is asked as that process's user, from its
/// directory: it may be a program of that user's own.
pub fn running_mariadb_settings(pid: u32, program: &Path, args: &[OsString]) -> ServerSettings {
    let mut command = Command::new(program);
    command.current_dir(format!("/proc/{pid}/cwd"));
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    match std::fs::metadata(format!("/proc/{pid}")) {
        Ok(process) if process.uid() == own => {}
        Ok(process) => drop(command.uid(process.uid()).gid(process.gid())),
        Err(_) => return ServerSettings::default(),
    }
    settings(program, args, command)
}

fn settings(program: &Path, args: &[OsString], asking: Command) -> ServerSettings {
    let leading = args.iter().take_while(|arg| names_option_files(arg)).count();
    let (files, rest) = args.split_at(leading);
    let mut settings = ServerSettings::default();
    // A script such as mariadbd-safe is not run: it might not know the option and start the server.
    if matches!(super::elf::read(program), Ok(Ok(_)))
        && let Some(printed) = print_defaults(asking, files)
    {
        merge(&mut settings, &options_in(&printed));
    }
    merge(&mut settings, rest);
    // The server makes the socket in its data directory.
    if let (Some(socket), Some(datadir)) = (&settings.socket, &settings.datadir) {
        settings.socket = Some(datadir.join(socket));
    }
    settings
}

fn names_option_files(arg: &OsStr) -> bool {
    let arg = arg.to_string_lossy();
    arg == "--no-defaults" || FILE_OPTIONS.iter().any(|option| arg.starts_with(option))
}

/// The server's output; `None` if it fails or takes too long.
fn print_defaults(mut command: Command, files: &[OsString]) -> Option<String> {
    command.args(files).args(["--print-defaults", "--help"]);
    output_of(command)
}

/// A command's output; `None` if it fails or takes too long.
pub(super) fn output_of(mut command: Command) -> Option<String> {
    let mut child = command
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut output = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // Far more than option files contain.
        let read = output.by_ref().take(1 << 20).read_to_end(&mut text);
        read.map(|_| String::from_utf8_lossy(&text).into_owned()).ok()
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    reader.join().ok().flatten().filter(|_| status.success())
}

/// The line that the server prints before its options, and only then.
const HEADLINE: &str = "would have been started with the following arguments";

/// The options in the output of `--print-defaults`: a headline, then all of them on one line with
/// blanks in between. A word that does not begin with `--` belongs to the value before it.
fn options_in(printed: &str) -> Vec<OsString> {
    let lines = printed.lines().skip_while(|line| !line.contains(HEADLINE)).skip(1);
    let line = lines.collect::<Vec<_>>().join(" ");
    let mut options: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match options.last_mut() {
            Some(last) if !word.starts_with("--") => {
                last.push(' ');
                last.push_str(word);
            }
            _ => options.push(word.to_owned()),
        }
    }
    options.into_iter().map(OsString::from).collect()
}

/// Reads options in order; the last one counts.
fn merge(settings: &mut ServerSettings, args: &[OsString]) {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let arg = arg.to_string_lossy();
        let Some((name, value)) = option(&arg) else {
            // Everything after a bare `--` is not an option.
            if arg == "--" {
                return;
            }
            continue;
        };
        let mut value =
            || value.clone().or_else(|| Some(args.next()?.to_string_lossy().into_owned()));
        match name.as_str() {
            "port" => settings.port = number(value(), settings.port),
            "extra-port" => settings.extra_port = number(value(), settings.extra_port),
            "socket" => settings.socket = value().map(PathBuf::from),
            "bind-address" => settings.bind_address = value(),
            "thread-handling" => {
                settings.thread_handling = value().map(|value| thread_handling(&value))
            }
            "user" => settings.user = value(),
            "datadir" => settings.datadir = value().map(PathBuf::from),
            "skip-networking" if !arg.ends_with("=0") && !arg.to_lowercase().ends_with("=off") => {
                (settings.port, settings.extra_port) = (None, None);
            }
            _ => {}
        }
    }
}

/// A port. Zero means none; a value that is not a number changes nothing.
fn number(value: Option<String>, before: Option<u16>) -> Option<u16> {
    match value.and_then(|value| value.trim().parse().ok()) {
        Some(port) => Some(port).filter(|&port| port != 0),
        None => before,
    }
}

/// The server accepts a choice by number or name.
fn thread_handling(value: &str) -> String {
    match value.to_lowercase().replace('_', "-").as_str() {
        "0" => "one-thread-per-connection".to_owned(),
        "1" => "no-threads".to_owned(),
        "2" => "pool-of-threads".to_owned(),
        other => other.to_owned(),
    }
}

/// Name and value of one argument. `--loose-`, `_` for `-`, short options and `-P3306` count.
fn option(arg: &str) -> Option<(String, Option<String>)> {
    if let Some(long) = arg.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let name = name.replace('_', "-");
        let name = name.strip_prefix("loose-").unwrap_or(&name);
        let name = name.strip_prefix("mysqld-").unwrap_or(name);
        return Some((name.to_owned(), value));
    }
    let short = arg.strip_prefix('-')?;
    let letter = short.chars().next()?;
    let name = match letter {
        'P' => "port",
        'S' => "socket",
        'u' => "user",
        'h' => "datadir",
        _ => return None,
    };
    let rest = &short[letter.len_utf8()..];
    Some((name.to_owned(), (!rest.is_empty()).then(|| rest.trim_start_matches('=').to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(args: &[&str]) -> ServerSettings {
        let mut settings = ServerSettings::default();
        merge(&mut settings, &args.iter().map(OsString::from).collect::<Vec<_>>());
        settings
    }

    #[test]
    fn every_spelling_of_an_option_is_read_and_the_last_one_counts() {
        for args in [
            &["--port=3999"][..],
            &["--port", "3999"],
            &["-P", "3999"],
            &["-P3999"],
            &["--loose-port=3999"],
            &["--loose_port=3999"],
            &["--port=1", "--port=3999"],
        ] {
            assert_eq!(merged(args).port, Some(3999), "{args:?}");
        }
        let settings = merged(&[
            "--bind_address=127.0.0.1",
            "--extra-port=3998",
            "-S",
            "/run/db.sock",
            "-h/data",
            "-umysql",
            "--thread-handling=2",
        ]);
        assert_eq!(
            settings,
            ServerSettings {
                port: Some(3306),
                extra_port: Some(3998),
                socket: Some(PathBuf::from("/run/db.sock")),
                bind_address: Some("127.0.0.1".to_owned()),
                thread_handling: Some("pool-of-threads".to_owned()),
                user: Some("mysql".to_owned()),
                datadir: Some(PathBuf::from("/data")),
            }
        );
    }

    #[test]
    fn no_networking_means_no_ports() {
        assert_eq!(merged(&["--extra-port=9", "--skip-networking"]).port, None);
        assert_eq!(merged(&["--skip-networking=0"]).port, Some(3306));
        assert_eq!(merged(&["--skip-networking=OFF"]).port, Some(3306));
    }

    #[test]
    fn values_with_blanks_in_option_files_stay_whole() {
        let printed = "mariadbd would have been started with the following arguments:\n\
                       --init-connect=SET NAMES utf8 --datadir=/my data --port=3311 \n";
        let options = options_in(printed);
        assert_eq!(options, ["--init-connect=SET NAMES utf8", "--datadir=/my data", "--port=3311"]);
    }

    #[test]
    fn only_options_that_name_files_go_before_print_defaults() {
        let leads = |arg: &str| names_option_files(OsStr::new(arg));
        assert!(leads("--defaults-file=/x") && leads("--no-defaults"));
        assert!(
            !leads("--defaults_file=/x") && !leads("--defaults-file"),
            "not known to the server"
        );
        assert!(!leads("--port=1") && !leads("--print-defaults") && !leads("-P"));
    }

    #[test]
    fn what_is_no_list_of_options_is_not_read() {
        assert!(options_in("mariadbd  Ver 10.11\nUsage:\n--port=1\n").is_empty());
    }

    #[test]
    fn a_relative_socket_lies_with_the_data() {
        let args = ["--no-defaults", "--socket=s", "--datadir=/data"].map(OsString::from);
        let settings = mariadb_settings(Path::new("/nowhere/mariadbd"), &args);
        assert_eq!(settings.socket, Some(PathBuf::from("/data/s")));
    }

    #[test]
    fn the_real_server_tells_what_is_in_its_option_files() {
        let Ok(program) = super::super::resolve(Path::new("mariadbd")) else {
            eprintln!("skipped: no mariadbd on this machine");
            return;
        };
        let file = std::env::temp_dir().join(format!("headworks-my-{}.cnf", std::process::id()));
        std::fs::write(
            &file,
            "[mariadbd]\nport = 3411\nextra_port = 3412\nsocket = /tmp/a b.sock\n",
        )
        .unwrap();
        let args = [format!("--defaults-file={}", file.display()), "--port=3413".to_owned()];
        let settings = mariadb_settings(&program, &args.map(OsString::from));
        std::fs::remove_file(&file).unwrap();
        assert_eq!((settings.port, settings.extra_port), (Some(3413), Some(3412)));
        assert_eq!(settings.socket, Some(PathBuf::from("/tmp/a b.sock")));
        // None of these is accepted here; the server must not start because of it.
        for odd in ["--defaults_file=/x", "--port=1", "--print-defaults"] {
            let settings = mariadb_settings(&program, &[odd.into(), "--datadir=/nowhere".into()]);
            assert_eq!(settings.datadir.as_deref(), Some(Path::new("/nowhere")));
        }
        let plain = mariadb_settings(&program, &["--no-defaults".into()]);
        assert_eq!(plain, ServerSettings::default());
    }
}
