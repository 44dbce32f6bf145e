//! `headworks run`: checks and prepares everything, and then this process becomes the database.
//!
//! It becomes the database instead of starting it. So process id, signals, exit code and service
//! manager see what they would see without headworks. The daemon is started before, as a separate
//! process. It ends with the database, and no process waits for it. Only as the first process of a
//! container this process stays, so that the server does not become the daemon's parent
//! ([`crate::init`]).

mod warnings;

use crate::cli::{IoDevice, Run};
use crate::config::{self, Config};
use crate::daemon::{apply_config, handing};
use crate::instance::{Instance, Note, StartLock, started_ticks};
use crate::io;
use crate::preflight::{self, Binary, ServerSettings};
use crate::preload;
use crate::process::{become_user, pipe, wait_readable};
use crate::profile::{Check, GENERIC, Profile, Profiles, RunAs, SettingsFrom};
use anyhow::{Context, Result, anyhow, bail};
use headworks_region::clock;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use warnings::warn;

pub use warnings::few;

/// The preloaded library: beside this program, or where packages put libraries.
pub fn shim_path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HEADWORKS_SHIM") {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe().context("cannot find out where this program lies")?;
    let dir = own.parent().unwrap_or(Path::new("/"));
    let name = "libheadworks.so";
    [dir.join(name), dir.join("../lib/headworks").join(name), dir.join("../lib").join(name)]
        .into_iter()
        .find(|path| path.exists())
        .ok_or_else(|| {
            anyhow!(
                "cannot find {name} beside {}\n  build it: make build\n  or say where it is: HEADWORKS_SHIM=…/{name}",
                own.display()
            )
        })
}

/// Returns only if something prevents the start.
pub fn run(args: &Run) -> Result<Infallible> {
    crate::init::stay_if_first()?;
    let error = match behind_the_gate(args) {
        Ok(never) => match never {},
        Err(error) if !args.fail_open => return Err(error),
        Err(error) => error,
    };
    eprintln!(
        "headworks: {error:#}\nheadworks: {} starts WITHOUT the gate, as --fail-open asks",
        Path::new(&args.command[0]).display()
    );
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    Err(error).with_context(|| format!("cannot start {}", Path::new(&args.command[0]).display()))
}

fn behind_the_gate(args: &Run) -> Result<Infallible> {
    let mut config = match &args.config {
        Some(path) => config::load(path)?,
        None => Config::default(),
    };
    override_settings(&mut config, args);
    let scheduled = config.io.choose(args.io);
    let program = &args.command[0];
    let profiles = Profiles::read()?;
    refuse_starter(&profiles, Path::new(program))?;
    let binary = preflight::check_binary(Path::new(program))?;
    let profile = match &args.profile {
        Some(asked) => profiles.asked(asked)?,
        None => profiles.of(binary.path()).clone(),
    };
    // Perhaps a wrapper or a script, which starts a server that a profile knows.
    let expected = args.profile.is_none() && profile.name == GENERIC;
    let settings = settings_of(&profile, &binary, &args.command[1..]);
    if let Some(settings) = &settings {
        check_server(&profile, settings, &args.command[1..])?;
    }
    let shim = std::fs::canonicalize(shim_path()?)?;
    let starting = StartLock::take()?;
    let instance = claim(args, &binary)?;
    // A job for which no gate was asked. A server that it starts has one all the same.
    let files_only = scheduled
        && expected
        && (args.parallelism.is_none() && args.quota.is_none() && args.mode.is_none());
    warn(args, &profile, &binary, files_only);
    if crate::instance::goes_at_logout(&instance.dir) {
        eprintln!(
            "headworks: warning: {} goes when you log out, and no command finds the gate then\n  {}",
            instance.dir.display(),
            crate::instance::KEEP_RUN_DIR
        );
    }
    let owner = match profile.run_as {
        RunAs::UserOption => owner_of(settings.as_ref())?,
        RunAs::DataOwner => owner_of_data(&binary, settings.as_ref())?,
        RunAs::Caller => None,
    };
    let servers = if expected { profiles.servers().collect() } else { Vec::new() };
    let plan = Plan {
        args,
        config,
        scheduled,
        files_only,
        profile,
        servers,
        binary,
        settings,
        shim,
        instance,
        owner,
    };
    let result = plan.start();
    // The exec failed: the database was not started. The daemon sees this process end, and ends
    // too.
    plan.instance.remove();
    drop(starting);
    result
}

fn override_settings(config: &mut Config, args: &Run) {
    let settings = &mut config.settings;
    if let Some(parallelism) = args.parallelism {
        parallelism.set(settings);
    }
    if let Some(quota) = args.quota {
        settings.zeta = quota;
    }
    if let Some(mode) = args.mode {
        settings.mode = mode.into();
    }
    if let Some(count) = args.count {
        settings.count = count.into();
    }
    config.cpu_weights |= args.cgroups;
    if let Some(device) = args.io_device {
        config.io.rotational = Some(device == IoDevice::Disk);
    }
}

/// Whether few threads serve all connections, so that sessions are queued by withholding their
/// events.
pub fn has_pool(settings: &ServerSettings) -> bool {
    settings.thread_handling.as_deref() == Some("pool-of-threads")
}

/// If a program starts the server and exits, the instance would end with it.
fn refuse_starter(profiles: &Profiles, program: &Path) -> Result<()> {
    let Some(profile) = profiles.started_by(program) else { return Ok(()) };
    let server = profile.servers.first().map_or("SERVER", String::as_str);
    bail!(
        "{} starts the server and ends, so the gate cannot watch over the server through it\n  \
         start the server itself: headworks run -- {server} …, with the options that {server} has in the output of `ps`",
        program.display()
    );
}

fn settings_of(profile: &Profile, binary: &Binary, args: &[OsString]) -> Option<ServerSettings> {
    match (profile.settings, binary) {
        (SettingsFrom::Mariadb, _) => Some(preflight::mariadb_settings(binary.path(), args)),
        (SettingsFrom::Postgres, Binary::Dynamic { path, .. }) => {
            Some(preflight::postgres_settings(path, args))
        }
        // An unknown script might ignore the option and start the server.
        (SettingsFrom::Postgres, Binary::Script { .. }) | (SettingsFrom::None, _) => None,
        (SettingsFrom::Redis, _) => Some(preflight::redis_settings(args).server),
        (SettingsFrom::Memcached, _) => Some(preflight::memcached_settings(args).server),
        (SettingsFrom::Mongodb, _) => Some(preflight::mongodb_settings(args).server),
    }
}

fn check_server(profile: &Profile, settings: &ServerSettings, args: &[OsString]) -> Result<()> {
    for check in &profile.checks {
        match check {
            Check::Foreground => refuse_to_detach(profile, args)?,
            Check::Ports => check_ports(profile, settings)?,
        }
    }
    Ok(())
}

/// Which option keeps the server in the foreground, if it would fork with these arguments.
pub fn detaches(profile: &Profile, args: &[OsString]) -> Option<&'static str> {
    let (settings, mend) = match profile.settings {
        SettingsFrom::Redis => (preflight::redis_settings(args), "start it with: --daemonize no"),
        SettingsFrom::Memcached => (preflight::memcached_settings(args), "start it without: -d"),
        SettingsFrom::Mongodb => (
            preflight::mongodb_settings(args),
            "start it without: --fork   # or processManagement.fork: true in its file",
        ),
        // MySQL has this option, MariaDB does not.
        SettingsFrom::Mariadb => {
            let leaves = |arg: &OsString| arg == "--daemonize" || arg == "-D";
            return args.iter().any(leaves).then_some("start it without: --daemonize");
        }
        SettingsFrom::Postgres | SettingsFrom::None => return None,
    };
    settings.detaches.then_some(mend)
}

/// If a server forks and exits, the instance would end with it.
fn refuse_to_detach(profile: &Profile, args: &[OsString]) -> Result<()> {
    if let Some(mend) = detaches(profile, args) {
        bail!(
            "{} is set to leave the terminal, so the gate could not watch over it\n  {mend}\n  \
             (as a service it stays: its service manager watches over it)",
            profile.title
        );
    }
    Ok(())
}

fn check_ports(profile: &Profile, settings: &ServerSettings) -> Result<()> {
    let (port_option, socket_option) = match profile.settings {
        SettingsFrom::Postgres => ("-p …", "-p … or -k DIRECTORY"),
        SettingsFrom::Redis => ("--port …", "--unixsocket …"),
        SettingsFrom::Memcached => ("-p …", "-s …"),
        SettingsFrom::Mongodb => ("--port …", "--unixSocketPrefix …"),
        SettingsFrom::Mariadb | SettingsFrom::None => ("--port=…", "--socket=…"),
    };
    let bind = settings.bind_address.as_deref();
    for port in [settings.port, settings.extra_port].into_iter().flatten() {
        if let Some(owner) = preflight::port_in_use(bind, port) {
            bail!(
                "port {port} is in use{owner}\n  stop that server, or choose another port: {port_option}"
            );
        }
    }
    if let Some(socket) = &settings.socket
        && let Some(owner) = preflight::socket_in_use(socket)
    {
        bail!(
            "a server listens on {}{owner}\n  stop it, or choose another socket: {socket_option}",
            socket.display()
        );
    }
    Ok(())
}

fn claim(args: &Run, binary: &Binary) -> Result<Instance> {
    let default = || {
        binary
            .path()
            .file_name()
            .map_or_else(|| "database".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let instance = Instance::named(&args.name.clone().unwrap_or_else(default))?;
    instance.refuse_elsewhere()?;
    if instance.is_running() {
        bail!(
            "instance `{}` runs already (process {})\n  give this one another name: headworks run --name NAME -- …",
            instance.name,
            instance.note().map_or(0, |note| note.server_pid)
        );
    }
    instance.remove();
    Ok(instance)
}

/// User and group that the database will run as, if it is not the caller's own.
fn owner_of(settings: Option<&ServerSettings>) -> Result<Option<(u32, u32)>> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    let Some(user) = settings.and_then(|settings| settings.user.as_deref()) else {
        return Ok(None);
    };
    if let Ok(uid) = user.parse::<u32>() {
        return Ok(Some((uid, uid)));
    }
    let name = CString::new(user)?;
    // SAFETY: the name is a C string; the entry is copied before the next call.
    let found =
        unsafe { libc::getpwnam(name.as_ptr()).as_ref().map(|entry| (entry.pw_uid, entry.pw_gid)) };
    found.map(Some).ok_or_else(|| {
        anyhow!("the server is to run as user `{user}`, which this machine does not have\n  choose another: --user=…, or make it: useradd --system {user}")
    })
}

/// The owner of its data: a server that refuses root, and cannot change its user, has to run as
/// that.
fn owner_of_data(binary: &Binary, settings: Option<&ServerSettings>) -> Result<Option<(u32, u32)>> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    let server = binary.path().display();
    let Some(datadir) = settings.and_then(|settings| settings.datadir.as_deref()) else {
        bail!(
            "{server} does not tell where its data is, whose owner it has to run as\n  \
             see why: {server} -C data_directory, followed by the options that were given here\n  \
             or choose the user yourself: setpriv --reuid=postgres --regid=postgres --init-groups headworks run -- …"
        );
    };
    let owner = preflight::owner_of_data(datadir).with_context(|| {
        format!("cannot read the owner of the data directory {}", datadir.display())
    })?;
    if owner.0 == 0 {
        bail!(
            "{} belongs to root, and the server refuses to run as root\n  give it to the server's user: chown -R postgres: {}",
            datadir.display(),
            datadir.display()
        );
    }
    Ok(Some(owner))
}

/// All that was determined before the start.
struct Plan<'a> {
    args: &'a Run,
    config: Config,
    /// Whether its files have a scheduler.
    scheduled: bool,
    /// It is started for that alone.
    files_only: bool,
    profile: Profile,
    /// Servers one of which the program may start; its profile is then taken instead.
    servers: Vec<&'a [String]>,
    binary: Binary,
    settings: Option<ServerSettings>,
    shim: PathBuf,
    instance: Instance,
    owner: Option<(u32, u32)>,
}

impl Plan<'_> {
    /// Makes the instance, starts its daemon and becomes the database.
    fn start(&self) -> Result<Infallible> {
        let Plan { args, scheduled, profile, binary, instance, owner, .. } = self;
        let region = instance.create(*owner)?;
        region.set_protocol(profile.protocol);
        region.declared_locks.set(&profile.locks);
        region.known_servers.expect(self.servers.iter().copied());
        let pooled = profile.served_by == "event-loops";
        region.set_pooled(pooled || self.settings.as_ref().is_some_and(has_pool));
        let note = self.note()?;
        instance.write_note(&note, *owner)?;
        apply_config(&region, &self.config, note.extra_port, &profile.bypass);
        region.heartbeat.alive_ns.store(clock::now().0, Ordering::Relaxed);
        if *scheduled {
            let data = self.settings.as_ref().and_then(|settings| settings.datadir.as_deref());
            let data = data.filter(|data| data.exists()).unwrap_or(Path::new("."));
            io::prepare(instance, *owner, &self.config.io, profile, data)?;
        }
        instance.hand_over(*owner)?;
        spawn_daemon(instance, *owner, false)?;

        let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
        let (sanitizer, options) = preload::SANITIZER_OPTIONS;
        let settings = region.control.settings();
        if !self.files_only {
            eprintln!(
                "headworks: {} runs behind a gate (profile {}{}, mode {}, P = {}{}); watch it: headworks top --name {}",
                binary.path().display(),
                profile.name,
                if self.servers.is_empty() {
                    ""
                } else {
                    " until it starts a server that another one knows"
                },
                settings.mode.name(),
                settings.parallelism,
                if settings.auto { ", looked for from there" } else { "" },
                instance.name
            );
        }
        let mut command = Command::new(binary.path());
        command
            .args(&args.command[1..])
            .env("LD_PRELOAD", preload::among(&self.shim, &preloaded))
            .env(sanitizer, preload::with_options(std::env::var_os(sanitizer), options))
            .env("HEADWORKS_REGION", instance.region_path())
            // Of a job that this command is part of.
            .env_remove(handing::VARIABLE);
        if *scheduled {
            let whose = match binary.calls_the_kernel() {
                true => "files of other programs that it starts",
                false => "its files",
            };
            eprintln!(
                "headworks: {whose} are governed by {}; watch them: headworks io top --name {}",
                self.config.io.kind, instance.name
            );
            command.env("HEADWORKS_IO", instance.io_path());
        }
        if let Some(token) = &note.token {
            command.env(handing::VARIABLE, format!("{} {token}", std::process::id()));
        }
        if let (RunAs::DataOwner, Some((uid, gid))) = (profile.run_as, owner) {
            become_user(*uid, *gid)?;
        }
        let error = command.exec();
        Err(error).with_context(|| format!("cannot start {}", binary.path().display()))
    }

    fn note(&self) -> Result<Note> {
        let pid = std::process::id();
        let command = self.args.command.iter().map(|part| part.to_string_lossy().into_owned());
        Ok(Note {
            server_pid: pid,
            server_started_ticks: started_ticks(pid)
                .context("cannot read /proc: is it mounted?")?,
            command: command.collect(),
            config: self.args.config.as_ref().map(std::fs::canonicalize).transpose()?,
            extra_port: self.settings.as_ref().and_then(|settings| settings.extra_port),
            profile: self.profile.name.clone(),
            profile_file: self.profile.file.as_ref().map(std::fs::canonicalize).transpose()?,
            attended: false,
            cpu_weights: self.config.cpu_weights,
            token: self.starts_as_others().then(handing::new_token).transpose()?,
        })
    }

    /// Whether what it starts may be unable to open the regions: it may run as another user, or see
    /// other directories.
    fn starts_as_others(&self) -> bool {
        let may_be_a_wrapper = !self.profile.knows(self.binary.path()) && self.owner.is_none();
        // SAFETY: geteuid has no preconditions.
        self.scheduled || (may_be_a_wrapper && unsafe { libc::geteuid() } == 0)
    }
}

/// Starts the daemon of an instance and waits until it serves. Its messages go to our standard
/// error; those of a `detached` daemon only until then.
pub fn spawn_daemon(instance: &Instance, owner: Option<(u32, u32)>, detached: bool) -> Result<()> {
    let (ready, theirs) = pipe()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["daemon", "--foreground", "--name", &instance.name, "--ready-fd"])
        .arg(theirs.as_raw_fd().to_string())
        .args(detached.then_some("--detach"))
        .args(owner.map(|(uid, gid)| format!("--run-as={uid}:{gid}")))
        .current_dir("/")
        .env_remove("LD_PRELOAD")
        .env("HEADWORKS_RUN_DIR", crate::instance::run_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(|| {
            // In its own session: the terminal's Ctrl-C is for the database. Forked once more, so
            // that the database never has a child that it did not start.
            libc::setsid();
            match libc::fork() {
                -1 => Err(std::io::Error::last_os_error()),
                0 => Ok(()),
                _ => libc::_exit(0),
            }
        });
    }
    let mut child = command.spawn().context("cannot start the daemon")?;
    drop(theirs);
    child.wait()?;
    let mut line = String::new();
    wait_readable(&ready, 5_000);
    let mut file = std::fs::File::from(ready);
    let mut buffer = [0u8; 16];
    if let Ok(count) = file.read(&mut buffer) {
        line.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    if line.starts_with("ready") {
        return Ok(());
    }
    bail!("the daemon did not start; its message, if any, is above")
}
