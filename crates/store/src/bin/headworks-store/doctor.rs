//! Checks a configuration, its files and this machine; and the unit that starts a store.

use anyhow::{Context, Result};
use headworks_store::config::{self, Config, ConfigError};
use headworks_store::control;
use headworks_store::tls;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

enum State {
    Ok,
    Warning,
    Missing,
}

struct Finding {
    state: State,
    what: String,
    found: String,
    mend: Option<String>,
}

impl Finding {
    fn ok(what: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding { state: State::Ok, what: what.into(), found: found.into(), mend: None }
    }

    fn missing(
        what: impl Into<String>,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding { state: State::Missing, mend: Some(mend.into()), ..Finding::ok(what, found) }
    }

    fn warning(
        what: impl Into<String>,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding { state: State::Warning, mend: Some(mend.into()), ..Finding::ok(what, found) }
    }
}

/// `doctor`. It fails if a store could not start.
pub fn run(path: &Path) -> Result<ExitCode> {
    let mut findings = Vec::new();
    match config::load(path) {
        Ok(config) => {
            findings.push(Finding::ok("configuration", path.display().to_string()));
            examine(&config, path, &mut findings);
        }
        Err(error) => {
            let mend = format!("see an example: {}", config::EXAMPLE);
            let found = match &error {
                ConfigError::Read { path, why } => format!("cannot read {}: {why}", path.display()),
                ConfigError::Wrong(_) => error.to_string(),
            };
            findings.push(Finding::missing("configuration", found, mend));
        }
    }
    let mut bad = false;
    for Finding { state, what, found, mend } in findings {
        let word = match state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Missing => "MISSING",
        };
        bad |= matches!(state, State::Missing);
        println!("{word}  {what}: {found}");
        if let Some(mend) = mend {
            println!("         mend: {mend}");
        }
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine(config: &Config, path: &Path, findings: &mut Vec<Finding>) {
    let running = control::ask(&config.control(), &control::Request::Status).is_ok();
    let start = format!("headworks store serve --config {}", path.display());
    findings.push(if running {
        Finding::ok("store", "it runs")
    } else {
        Finding::warning("store", "it does not run", start)
    });
    for volume in &config.volumes {
        let what = format!("volume {}", volume.name);
        if volume.path == "memory" {
            findings.push(Finding::warning(
                what,
                "its bytes end with the store",
                "name a file or a device",
            ));
        } else if volume.path.contains("://") {
            findings.push(Finding::ok(what, volume.path.clone()));
        } else {
            match OpenOptions::new().read(true).write(true).open(&volume.path) {
                Ok(_) => findings.push(Finding::ok(what, volume.path.clone())),
                Err(error) => findings.push(Finding::missing(
                    what,
                    format!("{}: {error}", volume.path),
                    format!("make it, or give it to this user: ls -l {}", volume.path),
                )),
            }
        }
    }
    if let Some(files) = &config.tls {
        match tls::server(&files.certificate, &files.key, &files.clients) {
            Ok(_) => findings.push(Finding::ok("TLS", files.certificate.display().to_string())),
            Err(error) => {
                findings.push(Finding::missing("TLS", error.to_string(), "mend the files of [tls]"))
            }
        }
    }
    for place in config.listen.iter().filter_map(|place| place.strip_prefix("unix:")) {
        let dir = Path::new(place).parent().unwrap_or(Path::new("/"));
        if !dir.is_dir() {
            findings.push(Finding::missing(
                format!("socket {place}"),
                "its directory is missing",
                format!("mkdir -p {}", dir.display()),
            ));
        }
    }
    match &config.state {
        None => findings.push(Finding::warning(
            "state",
            "what is learned is forgotten at a restart",
            "state = \"/var/lib/headworks-store\"",
        )),
        Some(dir) if !dir.is_dir() => findings.push(Finding::missing(
            "state",
            format!("{} is missing", dir.display()),
            format!("mkdir -p {}", dir.display()),
        )),
        Some(dir) => findings.push(Finding::ok("state", dir.display().to_string())),
    }
    if config.clients.is_empty() {
        findings.push(Finding::warning(
            "clients",
            "every process that reaches a socket may open every volume",
            "name them: [[client]] with a uid or a certificate, and `clients` of each volume",
        ));
    }
}

/// A unit of systemd.
pub fn unit(config: &Path) -> Result<String> {
    let program = std::env::current_exe().context("this program has no path")?;
    let config = std::path::absolute(config)?;
    Ok(format!(
        "# Its user, once: useradd --system --home-dir /var/lib/headworks-store --shell /usr/sbin/nologin headworks-store\n\
         # Files and devices of volumes must be writable for that user: chown, or SupplementaryGroups=disk\n\
         [Unit]\nDescription=Headworks storage server\nAfter=network.target\n\n\
         [Service]\nType=notify\nExecStart={} serve --config {}\nExecReload=/bin/kill -HUP $MAINPID\n\
         User=headworks-store\nRuntimeDirectory=headworks-store\nStateDirectory=headworks-store\n\
         Restart=on-failure\nLimitNOFILE=16384\nNoNewPrivileges=true\nProtectSystem=full\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        program.display(),
        config.display()
    ))
}
