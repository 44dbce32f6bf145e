//! The `headworks` command.

mod apart;
mod cgroup;
mod cli;
mod config;
mod control;
mod counterfactual;
mod daemon;
mod doctor;
mod enable;
mod events;
mod explain;
mod init;
mod instance;
mod io;
mod log;
mod metrics;
mod preflight;
mod preload;
mod process;
mod profile;
mod quota;
mod render;
mod root_helper;
mod run;
mod sidecar;
mod slo;
mod status;
mod top;
mod tuning;
#[cfg(test)]
#[path = "../tests/fixtures/views.rs"]
mod views;
mod volume;

use anyhow::{Result, bail};
use clap::CommandFactory;
use cli::{Cli, Command};
use control::{Request, Response};
use headworks_policy::Nanos;
use headworks_region::clock;
use instance::Instance;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    headworks_console::main(|| {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        if let Some((name, arguments)) = apart::asked(&words) {
            match apart::run(name, &arguments)? {}
        }
        dispatch(headworks_console::parse::<Cli>(cli::EXAMPLES).command)
    })
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => match run::run(&args)? {},
        Command::Status(args) => {
            let instance = Instance::find(args.select.name.as_deref())?;
            let status = fetch(&instance)?;
            if args.json {
                println!("{}", serde_json::to_string_pretty(&status)?);
            } else {
                let width = headworks_console::terminal_width();
                print!("{}", render::status_text(&status, width, std::io::stdout().is_terminal()));
                if status.gate == "stale"
                    && let Some(scheduler) = io::holds(&instance)
                {
                    println!("calls on files need no daemon: {scheduler} still holds them");
                }
                for line in io::unheld(&instance) {
                    println!("{line}");
                }
            }
        }
        Command::Top(args) => {
            let instance = Instance::find(args.select.name.as_deref())?;
            let delay = Duration::from_secs_f64(args.delay.clamp(0.1, 60.0));
            let fetch =
                || Ok(top::Fetched { status: fetch(&instance)?, volumes: volume::running() });
            top::run(fetch, delay)?;
        }
        Command::Set(args) => set(&args)?,
        Command::Off(select) => switch(&select, true)?,
        Command::On(select) => switch(&select, false)?,
        Command::Reload(select) => {
            let instance = Instance::find(select.name.as_deref())?;
            println!("{}", order(&instance, &Request::Reload)?);
        }
        Command::Explain(args) => explain::run(&args)?,
        Command::Enable(args) => return enable::enable(&args),
        Command::Disable(args) => return enable::disable(&args),
        Command::Attend(args) => sidecar::run(&args)?,
        Command::Profile(args) => profile::show::run(&args.command)?,
        Command::Doctor(args) => return doctor(&args),
        Command::Bench => match apart::run("bench", &[])? {},
        Command::Controller => match apart::run("controller", &[])? {},
        Command::Hbase => match apart::run("hbase", &[])? {},
        Command::Store => match apart::run("store", &[])? {},
        Command::Tad => match apart::run("tad", &[])? {},
        Command::Volume(args) => return volume::run(&args.command),
        Command::Io(args) => io::run(&args.command)?,
        Command::Daemon(args) => {
            let instance = Instance::find(args.select.name.as_deref())?;
            if args.foreground {
                use std::os::fd::FromRawFd;
                daemon::prefer();
                // SAFETY: the parent made this descriptor for us and says so on the command line.
                let ready = args.ready_fd.map(|fd| unsafe { std::fs::File::from_raw_fd(fd) });
                let companion = match args.run_as {
                    Some(ids) => root_helper::split(&instance, ready.as_ref(), ids)?,
                    None if instance.note()?.cpu_weights => {
                        cgroup::Companion::Own(Box::new(cgroup::Worker::new(&instance.name)))
                    }
                    None => cgroup::Companion::None,
                };
                daemon::run(instance, ready, args.detach, companion)?;
            } else {
                // SAFETY: geteuid has no preconditions.
                let root = unsafe { libc::geteuid() } == 0;
                let owner = if root { Some(instance.owner()?) } else { None };
                run::spawn_daemon(&instance, owner, true)?;
                println!(
                    "the daemon of instance `{}` runs again; the gate is closed",
                    instance.name
                );
            }
        }
        Command::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
            headworks_console::man::write(command, &args, &apart::NAMES)?;
            return apart::write_manuals(&args.dir);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of an instance, with that of its files.
fn fetch(instance: &Instance) -> Result<status::Status> {
    Ok(status::Status { files: io::Files::read(instance), ..fetch_gate(instance)? })
}

/// From its daemon, or from the region alone if that does not answer.
fn fetch_gate(instance: &Instance) -> Result<status::Status> {
    if let Ok(Response::Status(status)) = control::ask(instance, &Request::Status) {
        return Ok(*status);
    }
    let region = instance.view_region()?;
    if !region.is_foreign() && !instance.is_running() {
        bail!(
            "the database of instance `{}` is gone and so is its daemon\n  remove what is left: rm -r {}",
            instance.name,
            instance.dir.display()
        );
    }
    let before = region.snapshot(clock::now());
    std::thread::sleep(Duration::from_millis(500));
    let mut status = status::Status::build(&instance.name, &before, &region.snapshot(clock::now()));
    // Its log, up to where it stopped.
    status.log = instance.log();
    Ok(status)
}

/// Thousandths of a bound; a bound above zero is never rounded to zero.
fn thousandths(bound: f64) -> u32 {
    if bound > 0.0 { ((bound * 1e3).round() as u32).max(1) } else { 0 }
}

/// Sends the daemon a command and returns its reply.
fn order(instance: &Instance, request: &Request) -> Result<String> {
    match control::ask(instance, request)? {
        Response::Done(done) => Ok(done),
        Response::Error(error) => bail!("{error}"),
        Response::Status(_) | Response::Tuning(_) => {
            bail!(
                "unexpected reply from the daemon: is it another version?\n  compare: headworks --version; headworks doctor"
            )
        }
    }
}

fn set(args: &cli::Set) -> Result<()> {
    let instance = Instance::find(args.select.name.as_deref())?;
    if let Some(length) = args.try_for {
        let Some(cli::Parallelism::Fixed(parallelism)) = args.parallelism else {
            bail!(
                "only a number can be tried, not `auto`: headworks set --parallelism 32 --for 10"
            );
        };
        let request = Request::Try { parallelism, ms: length.as_millis() as u64 };
        println!("instance `{}`: {}", instance.name, order(&instance, &request)?);
        return Ok(());
    }
    let region = instance.open_region()?;
    let mut settings = region.control.settings();
    let before = settings;
    if let Some(parallelism) = args.parallelism {
        parallelism.set(&mut settings);
    }
    if let Some(quota) = args.quota {
        settings.zeta = quota;
    }
    if let Some(bound) = args.unfairness_max {
        settings.unfairness_max_mille = thousandths(bound);
    }
    if let Some(bound) = args.latency_cv_max {
        settings.latency_cv_max_mille = thousandths(bound);
    }
    if let Some(mode) = args.mode {
        settings.mode = mode.into();
    }
    if let Some(count) = args.count {
        settings.count = count.into();
    }
    if let Some(ms) = args.hold_ms_max {
        settings.hold_max = Nanos::from_millis(ms);
    }
    if let Some(ms) = args.idle_in_transaction_ms {
        settings.idle_limit = Nanos::from_millis(ms);
    }
    if let Some(us) = args.anticipation_us {
        settings.anticipation = Nanos::from_micros(us);
    }
    if let Some(ms) = args.stall_ms {
        settings.stall = Nanos::from_millis(ms);
    }
    if !args.weight.is_empty() {
        daemon::set_weights(&region, &args.weight.iter().cloned().collect())?;
    }
    let fixed = matches!(args.parallelism, Some(cli::Parallelism::Fixed(_)));
    // A P that an operator fixes is permanent, even if the same P was temporary before.
    let stays = fixed && region.heartbeat.temporary_p().is_some();
    if stays {
        region.heartbeat.set_temporary_p(None);
    }
    if settings == before && !stays && !args.weight.is_empty() {
        println!("the weights are in force until the next reload or restart");
        return Ok(());
    }
    if settings == before && !stays {
        bail!("nothing to change: the gate has these settings already");
    }
    if !region.apply(&settings) {
        bail!("the region is busy: part of the change may be missing; give the command again");
    }
    println!(
        "instance `{}`: mode {}, P {}{}, quota {}, until the next reload or restart",
        instance.name,
        settings.mode.name(),
        settings.parallelism,
        if settings.auto { " and looked for" } else { "" },
        if settings.zeta == 0 { "at its minimum".to_owned() } else { settings.zeta.to_string() }
    );
    Ok(())
}

fn switch(select: &cli::Select, off: bool) -> Result<()> {
    let instance = Instance::find(select.name.as_deref())?;
    let region = instance.open_region()?;
    region.set_off(off);
    let files = instance.io_path().exists().then(|| instance.open_io()).transpose()?;
    if let Some(files) = &files {
        files.control.set_off(off);
    }
    if off {
        println!(
            "the gate of `{}` is open: no session is held{}. Undo it: headworks on",
            instance.name,
            if files.is_some() { ", and no call on a file" } else { "" }
        );
        return Ok(());
    }
    if let Some(files) = files.filter(|files| files.control.is_on()) {
        println!("{} schedules the files of `{}` again", files.control.kind(), instance.name);
    }
    if region.counter(headworks_region::layout::Counter::PanicOpened) > 0 {
        println!(
            "the gate of `{}` is switched on, but the library stands aside after internal errors: every request \
             passes until the database is restarted",
            instance.name
        );
    } else if region.heartbeat.stale(clock::now()) {
        println!(
            "the gate of `{}` is switched on, but its daemon sends no heartbeat, so all requests pass\n  \
             start it again: headworks daemon --name {}",
            instance.name, instance.name
        );
    } else {
        println!("the gate of `{}` is closed: at most P sessions are inside", instance.name);
    }
    Ok(())
}

fn doctor(args: &cli::Doctor) -> Result<ExitCode> {
    let shim = run::shim_path().unwrap_or_else(|_| "libheadworks.so".into());
    let findings = doctor::examine(&instance::run_dir(), args.program.as_deref(), &shim);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print!("{}", doctor::text(&findings, std::io::stdout().is_terminal()));
    }
    let missing = findings.iter().any(doctor::Finding::is_missing);
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
