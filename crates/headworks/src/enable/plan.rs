//! The files to write for one service, and the consequences for it.

use super::unit::Unit;
use super::write::Change;
use super::{forking_check, notes};
use crate::cli::Enable;
use crate::config::Config;
use crate::preflight::{ServerSettings, mariadb_settings};
use crate::profile::{Profile, Profiles, SettingsFrom};
use crate::run::{has_pool, shim_path};
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name of the drop-in. systemd applies them by name: it comes after `override.conf`, which
/// `systemctl edit` writes.
pub const DROP_IN: &str = "zz-headworks.conf";

/// First words of a file that is ours.
const MARK: &str = "# Written by `headworks enable`; `headworks disable` removes it. Checksum ";

/// In a file that is not ours, our lines stand between these.
const BLOCK_BEGIN: &str = "# headworks enable: begin";
const BLOCK_END: &str = "# headworks enable: end";

/// The capability to open files of other users.
const OPENS_ALL: &str = "CAP_DAC_OVERRIDE";

/// Where regions of services lie.
const RUN_DIRECTORY: &str = "/run/headworks";

/// The machine, or an image of one, and where headworks is installed there.
#[derive(Clone, Debug)]
pub struct Place {
    /// `/` for the machine itself.
    pub root: PathBuf,
    /// Path of the program on the machine.
    pub program: PathBuf,
    /// The library.
    pub library: PathBuf,
}

impl Place {
    /// Finds where headworks is installed.
    pub fn find(root: &Path) -> Result<Place> {
        let root = std::fs::canonicalize(root)
            .with_context(|| format!("there is no directory {}", root.display()))?;
        if root == Path::new("/") {
            return Ok(Place {
                root,
                program: std::env::current_exe().context("cannot find this program")?,
                library: std::fs::canonicalize(shim_path()?)?,
            });
        }
        let prefix = ["/usr", "/usr/local"]
            .into_iter()
            .find(|prefix| root.join(&prefix[1..]).join("lib/headworks/libheadworks.so").exists());
        let prefix = Path::new(prefix.unwrap_or("/usr/local"));
        Ok(Place {
            root,
            program: prefix.join("bin/headworks"),
            library: prefix.join("lib/headworks/libheadworks.so"),
        })
    }

    /// Whether it is this machine.
    pub fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where a path of the machine lies in the image.
    pub fn below(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// The actions for one service.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The service.
    pub unit: Unit,
    /// Files.
    pub changes: Vec<Change>,
    title: String,
    notes: Vec<String>,
    /// The companion that is to be stopped.
    companion: Option<String>,
}

/// Name of an instance for a unit: `postgresql-15-main` for `postgresql@15-main.service`.
fn instance_of(unit: &Unit) -> String {
    let stem = unit.name.strip_suffix(".service").unwrap_or(&unit.name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    stem.chars().map(plain).take(40).collect()
}

/// The companion's name.
fn companion_of(instance: &str) -> String {
    format!("headworks-{instance}.service")
}

/// Where PostgreSQL's cluster keeps the environment of its server. `pg_ctlcluster` uses only that
/// one.
fn cluster_environment(unit: &Unit) -> Option<String> {
    let (version, cluster) = unit.instance()?.split_once('-')?;
    let by_cluster = unit.words().iter().any(|word| word.ends_with("/pg_ctlcluster"));
    by_cluster.then(|| format!("/etc/postgresql/{version}/{cluster}/environment"))
}

impl Plan {
    /// What `enable` would write.
    pub fn to_enable(
        place: &Place,
        unit: Unit,
        args: &Enable,
        profiles: &Profiles,
    ) -> Result<Plan> {
        let asked = args.profile.as_ref().map(|asked| profiles.asked(asked)).transpose()?;
        // A unit that starts a private script is known by the unit's name.
        let by_name = || profiles.asked(&args.service).ok();
        let found = asked.or_else(|| unit.profile(profiles).cloned()).or_else(by_name);
        let Some(profile) = found else {
            bail!(
                "no profile knows what {} starts ({}); nothing was changed\n  \
                 choose one: --profile NAME (headworks profile list); `generic` is for any server with a thread for \
                 each connection",
                unit.name,
                unit.all("ExecStart").join("; ")
            );
        };
        reachable(place, &unit)?;
        refuse_another_preload(place, &unit)?;
        let instance = instance_of(&unit);
        let forks = forking_check::check(place, &unit, &profile, &instance)?;
        let config = config_of(place, args, &instance)?;
        let mut io = config.as_ref().map(|(_, config)| config.io.clone()).unwrap_or_default();
        let scheduled = io.choose(args.io);
        let config = config.map(|(path, _)| path);
        let words = unit.words();
        let server = words.iter().map(Path::new).find(|path| profile.knows(path));
        let settings = server.and_then(|server| settings_of(place, &unit, &profile, server));
        let mut command = attend(place, &profile, args, &instance, config.as_deref());
        if scheduled {
            // The drop-in names the region, whatever the file says later.
            command.push_str(" --io-region");
        }
        if let Some(settings) = settings {
            add_settings(&mut command, &settings);
        }
        let companion = companion(&unit, &profile, &instance, &command);
        let drop_in = drop_in(place, &unit, &instance, scheduled);
        let mut changes = Vec::new();
        for (path, body) in [
            (format!("/etc/systemd/system/{}", companion_of(&instance)), companion),
            (format!("/etc/systemd/system/{}.d/{DROP_IN}", unit.name), drop_in),
        ] {
            let path = place.below(&path);
            ours(&path)?;
            changes.extend(Change::to(path, Some(signed(&body)))?);
        }
        if let Some(file) = cluster_environment(&unit) {
            let path = place.below(&file);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let with = with_block(&text, &environment_block(place, &instance, scheduled))
                .with_context(|| format!("{}; nothing was changed", path.display()))?;
            changes.extend(Change::to(path, Some(with))?);
        }
        let mut notes = notes::all(place, &unit, server, &instance, scheduled);
        if config.is_none() {
            notes.push(format!(
                "without a configuration file all users are alike; with one: /etc/headworks/{instance}.toml, then enable again"
            ));
        }
        if scheduled && io.rotational.is_none() {
            notes.push(format!(
                "its files are scheduled by {} as for the device of {}; if its data lie on another kind, write `device = \"disk\"` or \"flash\" \
                 into [io] of the configuration",
                io.kind,
                place.root.display()
            ));
        }
        notes.extend(forks);
        notes.extend(profile.notes.iter().cloned());
        let title = format!(
            "{} behind the gate (profile {}, instance {instance})",
            unit.name, profile.name
        );
        Ok(Plan { unit, changes, title, notes, companion: None })
    }

    /// What `disable` would remove.
    pub fn to_disable(place: &Place, unit: Unit) -> Result<Plan> {
        let instance = instance_of(&unit);
        let mut changes = Vec::new();
        for path in [
            format!("/etc/systemd/system/{}.d/{DROP_IN}", unit.name),
            format!("/etc/systemd/system/{}", companion_of(&instance)),
        ] {
            let path = place.below(&path);
            ours(&path)?;
            changes.extend(Change::to(path, None)?);
        }
        if let Some(file) = cluster_environment(&unit) {
            let path = place.below(&file);
            if let Ok(text) = std::fs::read_to_string(&path) {
                changes.extend(Change::to(path, Some(without_block(&text)))?);
            }
        }
        let title = format!("{} away from the gate (instance {instance})", unit.name);
        let companion = Some(companion_of(&instance));
        Ok(Plan { unit, changes, title, notes: Vec::new(), companion })
    }

    /// Commands for the service manager.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut commands = vec![
            command(&["systemctl", "daemon-reload"]),
            command(&["systemctl", "restart", &self.unit.name]),
        ];
        if let Some(companion) = &self.companion {
            // Its file is gone, and with it its binding to the service; it would run on.
            commands.push(command(&["systemctl", "stop", companion]));
        } else {
            let companion = companion_of(&instance_of(&self.unit));
            commands.push(command(&["systemctl", "is-active", &companion]));
        }
        commands
    }

    /// For people.
    pub fn text(&self, place: &Place) -> String {
        let mut out = format!("{}\n", self.title);
        if self.changes.is_empty() {
            let _ = writeln!(out, "  it is so already: nothing to write");
            return out;
        }
        for change in &self.changes {
            let path = change.path.display();
            let (verb, lines) = match (&change.before, &change.after) {
                (None, Some(after)) => ("write", added("", after)),
                (Some(before), Some(after)) => ("change", added(before, after)),
                (_, None) => ("remove", Vec::new()),
            };
            let _ = writeln!(out, "  {verb} {path}");
            for line in lines {
                let _ = writeln!(out, "      {line}");
            }
        }
        if place.is_machine() {
            let _ = writeln!(out, "  then, to make it so:");
            for command in self.commands() {
                let _ = writeln!(out, "      {}", command.join(" "));
            }
            let _ = writeln!(
                out,
                "  the restart ends every connection of {}, and rolls open transactions back",
                self.unit.name
            );
        }
        for note in &self.notes {
            let _ = writeln!(out, "  note: {}", note.replace('\n', "\n      "));
        }
        out
    }
}

/// Lines of `after` that are missing in `before`, and with a minus the other way round.
fn added(before: &str, after: &str) -> Vec<String> {
    let fresh = after.lines().filter(|line| !before.lines().any(|old| old == *line));
    let gone = before.lines().filter(|line| !after.lines().any(|new| new == *line));
    fresh.map(str::to_owned).chain(gone.map(|line| format!("- {line}"))).collect()
}

/// Refuses an installation that the service cannot access.
fn reachable(place: &Place, unit: &Unit) -> Result<()> {
    let home =
        unit.last("ProtectHome").is_some_and(|word| !["no", "false", "off", "0"].contains(&word));
    let hidden =
        |path: &Path| ["/home", "/root", "/run/user"].iter().any(|dir| path.starts_with(dir));
    let private = unit.yes("PrivateTmp");
    let temporary = |path: &Path| path.starts_with("/tmp") || path.starts_with("/var/tmp");
    let library = &place.library;
    if (home && hidden(library)) || (private && temporary(library)) {
        bail!(
            "{} does not see {} (ProtectHome= or PrivateTmp=); nothing was changed\n  \
             install it where services may read: sudo make install   # to /usr/local",
            unit.name,
            library.display()
        );
    }
    Ok(())
}

/// The configuration file, as a path of the machine.
fn config_of(place: &Place, args: &Enable, instance: &str) -> Result<Option<(PathBuf, Config)>> {
    let Some(path) = &args.config else {
        let usual = format!("/etc/headworks/{instance}.toml");
        let there = place.below(&usual);
        if !there.exists() {
            return Ok(None);
        }
        let config = crate::config::load(&there)?;
        return Ok(Some((usual.into(), config)));
    };
    let path = std::path::absolute(path)?;
    let there = place.below(&path.to_string_lossy());
    let config = crate::config::load(&there)?;
    Ok(Some((path, config)))
}

/// Variables of the server's environment that name our regions.
fn variables(instance: &str, io: bool) -> Vec<(&'static str, String)> {
    let mut variables = vec![("HEADWORKS_REGION", format!("{RUN_DIRECTORY}/{instance}/region"))];
    if io {
        variables.push(("HEADWORKS_IO", format!("{RUN_DIRECTORY}/{instance}/io")));
    }
    variables
}

/// Refuses a unit whose environment files preload another library: they stand above our drop-in.
fn refuse_another_preload(place: &Place, unit: &Unit) -> Result<()> {
    for file in unit.all("EnvironmentFile") {
        let path = place.below(file.trim_start_matches('-'));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.lines().any(|line| line.trim_start().starts_with("LD_PRELOAD=")) {
            bail!(
                "{} sets LD_PRELOAD, and would replace our library by it; nothing was changed\n  \
                 move that line into the unit: systemctl edit {}   # [Service] Environment=LD_PRELOAD=…",
                path.display(),
                unit.name
            );
        }
    }
    Ok(())
}

/// The settings that the service's server reports; only on this machine.
fn settings_of(
    place: &Place,
    unit: &Unit,
    profile: &Profile,
    server: &Path,
) -> Option<ServerSettings> {
    if !place.is_machine() || profile.settings != SettingsFrom::Mariadb {
        return None;
    }
    // As in Debian's template.
    let suffix = unit.instance().map(|name| format!("--defaults-group-suffix=.{name}").into());
    let arguments: Vec<OsString> = suffix.into_iter().collect();
    Some(mariadb_settings(server, &arguments))
}

/// The companion's command.
fn attend(
    place: &Place,
    profile: &Profile,
    args: &Enable,
    instance: &str,
    config: Option<&Path>,
) -> String {
    let asked = match &profile.file {
        // The companion reads the profile itself, and runs in another directory.
        Some(file) if args.profile.is_some() => {
            std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string()
        }
        _ => profile.name.clone(),
    };
    let mut command =
        format!("{} attend --name {instance} --profile {asked}", place.program.display());
    if let Some(config) = config {
        let _ = write!(command, " --config {}", config.display());
    }
    if let Some(scheduler) = args.io {
        let _ = write!(command, " --io {scheduler}");
    }
    command
}

/// Adds the options for settings that the companion cannot read.
pub(super) fn add_settings(command: &mut String, settings: &ServerSettings) {
    if let Some(port) = settings.extra_port {
        let _ = write!(command, " --extra-port {port}");
    }
    if has_pool(settings) {
        command.push_str(" --pool-of-threads");
    }
}

fn companion(unit: &Unit, profile: &Profile, instance: &str, command: &str) -> String {
    let name = &unit.name;
    let user = unit.last("User").or(profile.service_user.as_deref()).unwrap_or("root");
    let group = unit.last("Group").map(|group| format!("Group={group}\n")).unwrap_or_default();
    format!(
        "[Unit]\n\
         Description=Headworks: the gate in front of {name}\n\
         Documentation=man:headworks-attend(1)\n\
         Before={name}\n\
         # Stopped and restarted with the service, after it.\n\
         PartOf={name}\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={command}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         User={user}\n\
         {group}\
         RuntimeDirectory=headworks/{instance}\n\
         RuntimeDirectoryMode=0700\n\
         # A daemon that is started again takes over the region that the server uses. The daemon\n\
         # itself empties the directory.\n\
         RuntimeDirectoryPreserve=yes\n\
         Environment=HEADWORKS_RUN_DIR={RUN_DIRECTORY}\n\
         Restart=always\n\
         RestartSec=1\n\
         TimeoutStopSec=100\n\
         # Whatever starves, its heartbeat does not: without it all requests pass.\n\
         Nice=-10\n\
         OOMScoreAdjust=-900\n\
         LimitMEMLOCK=infinity\n"
    )
}

fn drop_in(place: &Place, unit: &Unit, instance: &str, scheduled: bool) -> String {
    let companion = companion_of(instance);
    let mut text = format!(
        "[Unit]\n\
         # Not required: without its companion the service starts without the gate.\n\
         Wants={companion}\n\
         After={companion}\n"
    );
    let mut service = String::new();
    if cluster_environment(unit).is_none() {
        let _ = writeln!(service, "Environment=LD_PRELOAD={}", preload(place, unit));
        for (name, value) in variables(instance, scheduled) {
            let _ = writeln!(service, "Environment={name}={value}");
        }
    }
    if unit.last("ProtectSystem") == Some("strict") {
        let _ = writeln!(service, "ReadWritePaths=-{RUN_DIRECTORY}/{instance}");
    }
    // The library is loaded by root, who may not open another user's files without it.
    let bound = unit.all("CapabilityBoundingSet");
    if unit.last("User").is_none() && !bound.is_empty() && !bound.join(" ").contains(OPENS_ALL) {
        let _ = writeln!(service, "CapabilityBoundingSet={OPENS_ALL}");
    }
    if !unit.all("NoExecPaths").is_empty() {
        let _ = writeln!(service, "ExecPaths=-{}", place.library.display());
    }
    if !service.is_empty() {
        let _ = write!(text, "\n[Service]\n{service}");
    }
    text
}

/// Our library, among those that the unit preloads already.
fn preload(place: &Place, unit: &Unit) -> String {
    let mut others = "";
    for line in unit.all("Environment") {
        for word in line.split_whitespace() {
            let word = word.trim_matches(['"', '\'']);
            others = word.strip_prefix("LD_PRELOAD=").unwrap_or(others);
        }
    }
    crate::preload::among(&place.library, OsStr::new(others)).to_string_lossy().into_owned()
}

fn environment_block(place: &Place, instance: &str, scheduled: bool) -> String {
    let mut block = format!("{BLOCK_BEGIN}\nLD_PRELOAD = '{}'\n", place.library.display());
    for (name, value) in variables(instance, scheduled) {
        let _ = writeln!(block, "{name} = '{value}'");
    }
    block + BLOCK_END + "\n"
}

fn with_block(text: &str, block: &str) -> Result<String> {
    let mut text = without_block(text);
    let taken = |line: &str| {
        let name = line.split(['=', ' ', '\t']).next().unwrap_or_default();
        ["LD_PRELOAD", "HEADWORKS_REGION", "HEADWORKS_IO"].contains(&name)
    };
    if let Some(line) = text.lines().map(str::trim_start).find(|line| taken(line)) {
        bail!(
            "`{line}` stands there already: remove it, or write the other library into the same value by hand"
        );
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text + block)
}

fn without_block(text: &str) -> String {
    let Some(begin) = text.find(BLOCK_BEGIN) else { return text.to_owned() };
    let Some(length) = text[begin..].find(BLOCK_END) else { return text.to_owned() };
    let end = begin + length + BLOCK_END.len();
    let rest = text[end..].strip_prefix('\n').unwrap_or(&text[end..]);
    format!("{}{rest}", &text[..begin])
}

/// FNV-1a: detects an edited file, not a forged one.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn signed(body: &str) -> String {
    format!("{MARK}{:08x}\n{body}", checksum(body))
}

/// Refuses a file that another program or a person has written or changed.
fn ours(path: &Path) -> Result<()> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let signed = text.strip_prefix(MARK).and_then(|rest| rest.split_once('\n'));
    let whole = signed.is_some_and(|(sum, body)| sum == format!("{:08x}", checksum(body)));
    if whole {
        return Ok(());
    }
    let what = if signed.is_some() { "was changed since it was written" } else { "is not ours" };
    bail!(
        "{} {what}; nothing was changed\n  keep what you want of it elsewhere, and remove it: rm {}",
        path.display(),
        path.display()
    )
}
