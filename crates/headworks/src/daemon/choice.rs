//! Which server runs behind the gate, where a wrapper or a script started it.

use super::{Daemon, apply_config};
use crate::config::{self, Config};
use crate::instance::{Instance, Note, started_ticks};
use crate::preflight::{self, ServerSettings};
use crate::profile::{Profile, Profiles, SettingsFrom};
use crate::{io, log};
use anyhow::Result;
use headworks_region::Region;
use headworks_region::snapshot::Snapshot;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

impl Daemon {
    /// Puts the profile of a server that asks for it into force. The server waits for that.
    pub(super) fn look_for_profile(&mut self) {
        let known = &self.region.known_servers;
        if let Some(server) = known.serving().filter(|it| started_ticks(it.pid).is_none()) {
            known.serving_ended(server);
        }
        let Some((server, name)) = known.asking().filter(|_| known.expected()) else { return };
        if started_ticks(server.pid).is_none() {
            return known.ask_again();
        }
        match self.take_profile(server.pid, &name.to_display()) {
            Ok(()) => log::line(&format!(
                "process {} is a server: its profile is {} (another: --profile NAME)",
                server.pid, self.note.profile
            )),
            Err(error) => log::line(&format!("the profile stays {}: {error:#}", self.note.profile)),
        }
        self.region.known_servers.answer(server);
    }

    fn take_profile(&mut self, server: u32, name: &str) -> Result<()> {
        let profiles = Profiles::read()?;
        let profile = profiles.of(Path::new(name));
        let settings = settings_of(profile, server);
        let mut config = match &self.note.config {
            Some(path) => config::load(path)?,
            None => Config::default(),
        };
        // Options of `headworks run` came before the file's.
        config.settings = self.region.control.settings();
        self.note.profile.clone_from(&profile.name);
        self.note.profile_file = profile.file.as_ref().map(std::fs::canonicalize).transpose()?;
        self.note.extra_port = settings.as_ref().and_then(|settings| settings.extra_port);
        let pooled = profile.served_by == "event-loops";
        self.region.set_pooled(pooled || settings.as_ref().is_some_and(crate::run::has_pool));
        self.region.declared_locks.set(&profile.locks);
        self.region.set_protocol(profile.protocol);
        apply_config(&self.region, &config, self.note.extra_port, &profile.bypass);
        if let Ok(region) = self.instance.open_io() {
            io::follow(&region, &config.io, profile);
        }
        self.instance.rewrite_note(&self.note)
    }

    /// The server, if it does not use the region. Only asked until the first client comes.
    pub(super) fn outside(&self, now: &Snapshot) -> Option<String> {
        let unseen = now.sessions.is_empty() && self.region.high_water() == 0;
        unseen.then(|| outside(&self.instance, self.note.server_pid))?
    }
}

/// What of a server's settings the gate needs. Of other servers than MariaDB the profile tells it.
fn settings_of(profile: &Profile, server: u32) -> Option<ServerSettings> {
    if profile.settings != SettingsFrom::Mariadb {
        return None;
    }
    let program = std::fs::read_link(format!("/proc/{server}/exe")).ok()?;
    let line = std::fs::read(format!("/proc/{server}/cmdline")).ok()?;
    let words = line.strip_suffix(b"\0")?.split(|&byte| byte == 0).skip(1);
    let args: Vec<OsString> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    Some(preflight::running_mariadb_settings(server, &program, &args))
}

/// A process at or below the instance's own that listens without using the region, and why, if no
/// other one there uses it. `None` also if this user may not know, or no server is known.
pub fn outside(instance: &Instance, top: u32) -> Option<String> {
    if top == 0 {
        return None;
    }
    let listening: Vec<u32> = family(top).into_iter().filter(|&pid| listens(pid)).collect();
    let first = *listening.first()?;
    if listening.iter().any(|&pid| instance.is_mapped_by(pid).unwrap_or(true)) {
        return None;
    }
    let maps = std::fs::read_to_string(format!("/proc/{first}/maps")).ok()?;
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let why = if !maps.contains("libheadworks") {
        "what started it has cleared LD_PRELOAD, or it is linked statically: name the server itself after `run --`"
    } else if namespace(&first.to_string()) != namespace("self") {
        "it runs in another PID namespace: start headworks inside that, or the server without `unshare --pid`"
    } else {
        "its user cannot open the gate's region: start headworks itself as that user"
    };
    Some(format!("process {first} ({}) serves without the gate: {why}", name_of(first)))
}

/// A process of this instance that listens without the gate, as another server has chosen the
/// profile.
pub fn beside(region: &Region, note: &Note) -> Option<String> {
    let pid = region.known_servers.beside()?;
    // A process that has ended has no name.
    let name = Some(name_of(pid)).filter(|name| !name.is_empty())?;
    Some(format!(
        "process {pid} ({name}) serves without the gate, which has the profile {} of another server: give each server \
         its own `headworks run`",
        note.profile
    ))
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// A process and all below it.
fn family(top: u32) -> BTreeSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
        let parent = after.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = BTreeSet::from([top]);
    let mut rest = vec![top];
    while let Some(pid) = rest.pop() {
        let fresh = children.remove(&pid).unwrap_or_default();
        rest.extend(fresh.iter().copied().filter(|&child| found.insert(child)));
    }
    found
}

/// Whether a process has a socket that listens.
fn listens(pid: u32) -> bool {
    let read = |file: &str| {
        let path = PathBuf::from(format!("/proc/{pid}/net")).join(file);
        std::fs::read_to_string(path).unwrap_or_default()
    };
    // State 0A of TCP is LISTEN, and this flag of a Unix socket says the same.
    let column = |text: String, at: usize, word: &str, inode: usize| -> Vec<String> {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let listening = lines.filter(|fields| fields.get(at) == Some(&word));
        listening.filter_map(|fields| Some(format!("socket:[{}]", fields.get(inode)?))).collect()
    };
    let mut sockets = column(read("tcp"), 3, "0A", 9);
    sockets.extend(column(read("tcp6"), 3, "0A", 9));
    sockets.extend(column(read("unix"), 3, "00010000", 6));
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_listens_is_found_among_those_below() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        assert!(family(own).contains(&child.id()) && !listens(child.id()));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(own));
        drop(tcp);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(family(u32::MAX), BTreeSet::from([u32::MAX]));
    }
}
