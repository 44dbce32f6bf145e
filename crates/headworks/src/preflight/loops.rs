//! What a Redis, memcached or MongoDB server will listen on and run as, found before it starts.

use super::ServerSettings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

/// Most files that include each other.
const INCLUDES_MAX: usize = 16;

/// Settings of a server with event loops, and whether it would fork into the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSettings {
    /// The settings that all servers have.
    pub server: ServerSettings,
    /// It forks and exits, so that it could not be watched.
    pub detaches: bool,
}

fn nothing(port: u16) -> LoopSettings {
    LoopSettings {
        server: ServerSettings { port: Some(port), ..ServerSettings::default() },
        detaches: false,
    }
}

/// Settings with which `redis-server args...` would run.
pub fn redis_settings(args: &[OsString]) -> LoopSettings {
    let mut settings = nothing(6379);
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let mut rest = &args[..];
    if let Some((file, after)) = args.split_first().filter(|(file, _)| !file.starts_with('-')) {
        redis_file(&mut settings, Path::new(file), INCLUDES_MAX);
        rest = after;
    }
    // Each option with all words up to the next.
    let mut line = Vec::new();
    for word in rest.iter().copied().chain(std::iter::once("--")) {
        if let Some(option) = word.strip_prefix("--") {
            redis_line(&mut settings, &line);
            line.clear();
            line.extend(option.split_ascii_whitespace());
        } else {
            line.extend(word.split_ascii_whitespace());
        }
    }
    settings
}

fn redis_file(settings: &mut LoopSettings, file: &Path, includes: usize) {
    // The server itself complains about an unreadable file.
    let Ok(text) = std::fs::read_to_string(file) else { return };
    for line in text.lines() {
        let words: Vec<&str> =
            line.split_ascii_whitespace().map(|word| word.trim_matches('"')).collect();
        match words[..] {
            ["include", more] if includes > 0 => {
                redis_file(settings, Path::new(more), includes - 1)
            }
            _ => redis_line(settings, &words),
        }
    }
}

fn redis_line(settings: &mut LoopSettings, words: &[&str]) {
    let Some((name, values)) = words.split_first() else { return };
    let value = values.first().copied().unwrap_or_default();
    let server = &mut settings.server;
    match name.to_ascii_lowercase().as_str() {
        // Zero is none at all.
        "port" => server.port = value.parse().ok().filter(|&port| port != 0),
        "unixsocket" => server.socket = (!value.is_empty()).then(|| PathBuf::from(value)),
        "bind" => {
            // A minus means that the address may be missing.
            let addresses: Vec<&str> =
                values.iter().map(|value| value.trim_start_matches('-')).collect();
            server.bind_address = Some(addresses.join(","));
        }
        "dir" => server.datadir = Some(PathBuf::from(value)),
        "daemonize" => settings.detaches = value.eq_ignore_ascii_case("yes"),
        _ => {}
    }
}

/// Settings with which `memcached args...` would run.
pub fn memcached_settings(args: &[OsString]) -> LoopSettings {
    let mut settings = nothing(11211);
    let mut args = args.iter().filter_map(|arg| arg.to_str());
    while let Some(arg) = args.next() {
        let (name, mut value) = match arg.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            },
            None => match arg.strip_prefix('-').and_then(|short| short.split_at_checked(1)) {
                Some((name, "")) => (name, None),
                Some((name, value)) => (name, Some(value)),
                None => continue,
            },
        };
        let mut take = || value.take().or_else(|| args.next()).unwrap_or_default();
        match name {
            "p" | "port" => settings.server.port = take().parse().ok().filter(|&port| port != 0),
            "s" | "unix-socket" => {
                settings.server.socket = Some(PathBuf::from(take()));
                settings.server.port = None;
            }
            "l" | "listen" => settings.server.bind_address = Some(take().to_owned()),
            "u" | "user" => settings.server.user = Some(take().to_owned()),
            "d" | "daemon" => settings.detaches = true,
            _ => {}
        }
    }
    settings
}

/// Settings with which `mongod args...` would run. Its options take precedence over its file,
/// wherever they stand.
pub fn mongodb_settings(args: &[OsString]) -> LoopSettings {
    let (mut settings, mut options) = (nothing(27017), Vec::new());
    let mut args = args.iter().filter_map(|arg| arg.to_str());
    while let Some(arg) = args.next() {
        let (name, mut value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
        let mut take = || value.take().or_else(|| args.next()).unwrap_or_default();
        match name {
            "--config" | "-f" => mongodb_file(&mut settings, Path::new(take())),
            "--fork" => options.push((name, "true")),
            "--port" | "--bind_ip" | "--dbpath" => options.push((name, take())),
            _ => {}
        }
    }
    for (name, value) in options {
        mongodb_option(&mut settings, name, value);
    }
    settings
}

/// Settings from a file in YAML, each under the name of its option.
fn mongodb_file(settings: &mut LoopSettings, file: &Path) {
    const SETTINGS: [(&str, &str, &str); 4] = [
        ("net", "port", "--port"),
        ("net", "bindIp", "--bind_ip"),
        ("storage", "dbPath", "--dbpath"),
        ("processManagement", "fork", "--fork"),
    ];
    // The server itself complains about a file that is unreadable or not YAML.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let documents = YamlLoader::load_from_str(&text).unwrap_or_default();
    let Some(document) = documents.first() else { return };
    for (section, key, option) in SETTINGS {
        // Also `net.port: 27018`, in one line.
        let value = match &document[section][key] {
            Yaml::BadValue => &document[format!("{section}.{key}").as_str()],
            value => value,
        };
        match value {
            Yaml::String(text) => mongodb_option(settings, option, text),
            Yaml::Integer(number) => mongodb_option(settings, option, &number.to_string()),
            Yaml::Boolean(is) => mongodb_option(settings, option, &is.to_string()),
            _ => {}
        }
    }
}

fn mongodb_option(settings: &mut LoopSettings, option: &str, value: &str) {
    match option {
        "--port" => settings.server.port = value.parse().ok().filter(|&port| port != 0),
        "--bind_ip" => settings.server.bind_address = Some(value.to_owned()),
        "--dbpath" => settings.server.datadir = Some(PathBuf::from(value)),
        "--fork" => settings.detaches = value == "true",
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn redis_reads_its_file_then_its_options() {
        let file =
            std::env::temp_dir().join(format!("headworks-redis-{}.conf", std::process::id()));
        std::fs::write(
            &file,
            "# port 1\nport 7000\nbind 127.0.0.1 -::1\nDaemonize yes\nunixsocket \"/run/r.sock\"\n",
        )
        .unwrap();
        let name = file.to_str().unwrap();
        let settings = redis_settings(&args(&[name]));
        assert_eq!((settings.server.port, settings.detaches), (Some(7000), true));
        assert_eq!(settings.server.bind_address.as_deref(), Some("127.0.0.1,::1"));
        assert_eq!(settings.server.socket, Some(PathBuf::from("/run/r.sock")));
        let settings =
            redis_settings(&args(&[name, "--port", "0", "--daemonize", "no", "--bind", "::1"]));
        assert_eq!((settings.server.port, settings.detaches), (None, false));
        assert_eq!(settings.server.bind_address.as_deref(), Some("::1"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(redis_settings(&args(&["--port 7001"])).server.port, Some(7001));
        assert_eq!(redis_settings(&[]).server.port, Some(6379));
    }

    #[test]
    fn memcached_reads_short_and_long_options() {
        let settings = memcached_settings(&args(&[
            "-m",
            "64",
            "-p",
            "11300",
            "-u",
            "memcache",
            "-l127.0.0.1",
            "-P",
            "f",
        ]));
        assert_eq!((settings.server.port, settings.detaches), (Some(11300), false));
        assert_eq!(settings.server.user.as_deref(), Some("memcache"));
        assert_eq!(settings.server.bind_address.as_deref(), Some("127.0.0.1"));
        let settings = memcached_settings(&args(&["--unix-socket=/run/m.sock", "-d"]));
        assert_eq!((settings.server.port, settings.detaches), (None, true));
    }

    #[test]
    fn mongodb_reads_its_options() {
        let settings =
            mongodb_settings(&args(&["--dbpath", "/d", "--port=27100", "--bind_ip", "::1"]));
        assert_eq!((settings.server.port, settings.detaches), (Some(27100), false));
        assert_eq!(settings.server.bind_address.as_deref(), Some("::1"));
        assert_eq!(settings.server.datadir.as_deref(), Some(Path::new("/d")));
        let settings = mongodb_settings(&args(&["-f", "/nowhere/mongod.conf", "--fork"]));
        assert_eq!((settings.server.port, settings.detaches), (Some(27017), true));
    }

    #[test]
    fn mongodb_reads_its_file_and_counts_its_options_more() {
        let file =
            std::env::temp_dir().join(format!("headworks-mongo-{}.conf", std::process::id()));
        std::fs::write(
            &file,
            "# mongod.conf\nstorage:\n  dbPath: /var/lib/mongodb\nnet:\n  port: 27018\n  \
             bindIp: 127.0.0.1,::1\nprocessManagement:\n   fork: true\nsystemLog.path: /l\n",
        )
        .unwrap();
        let name = file.to_str().unwrap();
        let settings = mongodb_settings(&args(&["--port", "27019", "--config", name]));
        assert_eq!((settings.server.port, settings.detaches), (Some(27019), true));
        assert_eq!(settings.server.bind_address.as_deref(), Some("127.0.0.1,::1"));
        assert_eq!(settings.server.datadir.as_deref(), Some(Path::new("/var/lib/mongodb")));
        std::fs::write(&file, "net.port: 27020\nprocessManagement:\n  fork: false\n").unwrap();
        let settings = mongodb_settings(&args(&["-f", name]));
        assert_eq!((settings.server.port, settings.detaches), (Some(27020), false));
        std::fs::write(&file, "\t: {[").unwrap();
        assert_eq!(mongodb_settings(&args(&["-f", name])), mongodb_settings(&[]));
        std::fs::remove_file(&file).unwrap();
    }
}
