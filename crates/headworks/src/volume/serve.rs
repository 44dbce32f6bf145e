//! The process of a volume: engine, front end, control socket.

use super::causes::Link;
use super::control::{self, Figures, Power, Request, Response};
use super::front::{Front, Kernel, Nbd};
use super::state::{Named, Note};
use super::system;
use super::tunnel::Tunnel;
use crate::cli;
use crate::events::Events;
use crate::instance::Instance;
use anyhow::{Context, Result, bail};
use headworks_policy::block::SchedulerKind;
use headworks_volume::{Submission, Volume};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Serves until it is told to stop.
pub fn serve(args: &cli::Serve) -> Result<()> {
    // SAFETY: the parent made this descriptor for this process and names it on the command line.
    let mut ready = args.ready_fd.map(|fd| unsafe { File::from_raw_fd(fd) });
    let served = serve_until_told(args, &mut ready);
    // Open until this process ends: the parent waits for that, and then finds the log complete.
    std::mem::forget(ready);
    served
}

/// Makes everything durable, if there is power.
fn flush(volume: &Volume) -> Result<()> {
    volume.engine.drain();
    if volume.power.as_ref().is_none_or(|power| power.is_on()) {
        let flush = headworks_policy::block::Operation::Flush;
        volume
            .engine
            .call(|done| Submission::new(flush, 0, 0, done))
            .context("cannot make the last writes durable")?;
    }
    Ok(())
}

fn serve_until_told(args: &cli::Serve, ready: &mut Option<File>) -> Result<()> {
    let (volume, description) = Named::existing(&args.name)?;
    if args.nbd.is_none() {
        system::can_serve()?;
    }
    let Some(_lock) = volume.lock()? else {
        bail!("volume `{0}` runs already: headworks volume stat {0}", volume.name);
    };
    // Before any thread exists: they inherit all three. Questions wait until the volume is there.
    let mut events = Events::start(&volume.file("control.sock"))?;
    // A server, or who asks by the control socket, may be gone when it is written to.
    // SAFETY: no other thread exists yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    become_io_flusher();
    ask_to_be_spared();
    let tunnel = Tunnel::open(&description.volume, &volume.file("tunnel.sock"))?;
    let socket = tunnel.as_ref().map(Tunnel::socket);
    let started = match args.io {
        Some(_) => description.volume.start_beneath_calls(socket)?,
        None => description.volume.start_by(socket)?,
    };
    let mut note = Note { pid: std::process::id(), ..Note::default() };
    let (front, link): (Box<dyn Front>, _) = match &args.nbd {
        Some(place) => {
            note.nbd = Some(place.clone());
            (Box::new(Nbd::start(place, &volume, &started, &description)?), None)
        }
        None => {
            let kernel = Kernel::start(&volume, &started, &description)?;
            let scheduler = description.volume.scheduler.parse::<SchedulerKind>()?;
            let link = |name: &String| link(name, scheduler, &started, &kernel.path());
            let link = args.io.as_ref().map(link).transpose()?;
            note.device = Some(kernel.path());
            (Box::new(kernel), link)
        }
    };
    let mut served = Served { volume: started, front, link };
    volume.write_note(&note)?;
    let place = note.place();
    match ready.take() {
        // In one write, as it is read by one call.
        Some(mut ready) => ready.write_all(format!("ready {place}\n").as_bytes())?,
        None => println!("volume `{}` is {place}; stop it with Ctrl-C", volume.name),
    }
    wait(&mut events, &mut served);
    // On failure `doctor` finds the remains, and the log says why.
    served.stop()?;
    drop(tunnel);
    volume.clear();
    Ok(())
}

/// The kernel must not wait for our writeback before it gives this process memory: writing back may
/// need that memory.
fn become_io_flusher() {
    const PR_SET_IO_FLUSHER: i32 = 57;
    // SAFETY: sets flags of the calling thread, which others inherit. Older kernels refuse.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// As much as MariaDB's own unit asks for its server. Of 1,000, which is all memory.
const OOM_SCORE: i32 = -600;

/// If memory runs out, the kernel ends the largest process. That may be a volume in memory, whose
/// end is the end of all databases on it, and of their data. So it is spared as those databases
/// are: other programs go first. It is not exempt, as its memory may be the reason.
fn ask_to_be_spared() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let adjusted = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok());
    if adjusted.is_some_and(|score: i32| score > OOM_SCORE) {
        // Only root may.
        let _ = std::fs::write(FILE, OOM_SCORE.to_string());
    }
}

struct Served {
    volume: Volume,
    front: Box<dyn Front>,
    link: Option<Link>,
}

/// Lets the volume's queue know whose its requests are.
fn link(name: &str, scheduler: SchedulerKind, volume: &Volume, device: &Path) -> Result<Link> {
    let number = std::fs::metadata(device)?.rdev();
    let link = Link::new(Instance::named(name)?, number, scheduler);
    volume.store.name_tags(&link.figures().applications);
    volume.engine.set_causes(Box::new(link.clone()));
    Ok(link)
}

/// The last user of a device is mostly gone so soon.
const SOON: Duration = Duration::from_secs(2);

/// Answers until it is told to stop, by a client or by a signal, and no user is left.
fn wait(events: &mut Events, served: &mut Served) {
    let mut told: Option<Instant> = None;
    loop {
        let step_ms = match told {
            None => 1_000,
            Some(told) if told.elapsed() < SOON => 5,
            Some(_) => 200,
        };
        let happened = events.wait(step_ms);
        if matches!(happened.signal, Some(libc::SIGTERM | libc::SIGINT)) {
            told.get_or_insert_with(Instant::now);
        }
        if served.front.has_ended() || told.is_some() && served.front.let_go() {
            return;
        }
        if let Some(link) = &served.link {
            link.look();
            served.volume.store.name_tags(&link.figures().applications);
        }
        if let Some(client) = happened.client {
            // Errors of a client concern only that client.
            let _ = control::serve(&client, |request| {
                if request == Request::Stop {
                    told.get_or_insert_with(Instant::now);
                }
                served.answer(request)
            });
        }
    }
}

impl Served {
    fn answer(&self, request: Request) -> Response {
        let power = || {
            self.volume.power.as_ref().ok_or_else(|| {
                Response::Error(
                    "this volume has no powercut layer\n  create it with: --layer powercut"
                        .to_owned(),
                )
            })
        };
        match request {
            Request::Stat => Response::Figures(Box::new(self.figures())),
            Request::Cut => match power() {
                Ok(power) if power.is_on() => Response::Cut(power.cut()),
                Ok(_) => Response::Error("the power is off already".to_owned()),
                Err(refusal) => refusal,
            },
            Request::Restore => match power() {
                Ok(power) if power.is_on() => Response::Error("the power is on".to_owned()),
                Ok(power) => {
                    power.restore();
                    Response::Done("the power is back; what was lost is lost".to_owned())
                }
                Err(refusal) => refusal,
            },
            Request::Stop => Response::Done("stopping".to_owned()),
        }
    }

    fn figures(&self) -> Figures {
        let layers: BTreeMap<String, BTreeMap<String, f64>> = self
            .volume
            .engine
            .figures()
            .into_iter()
            .enumerate()
            .filter(|(_, (_, figures))| !figures.is_empty())
            .map(|(at, (name, figures))| {
                (format!("{} {name}", at + 1), figures.into_iter().collect())
            })
            .collect();
        Figures {
            counts: self.volume.engine.counts(),
            layers,
            power: self.volume.power.as_ref().map(|power| Power {
                on: power.is_on(),
                unflushed_bytes: power.unflushed_bytes(),
                last_cut: power.last_cut(),
            }),
            allocated_bytes: self.volume.store.allocated_bytes(),
            trouble: self.volume.store.trouble(),
            causes: self.link.as_ref().map(Link::figures),
            lead_us: self.front.lead_us(),
            looks: self.front.looks(),
            ring: self.front.has_ring(),
            reach: self.front.reach(),
        }
    }

    /// Removes everything in reverse order; all writes are durable by then.
    fn stop(self) -> Result<()> {
        self.front.stop()?;
        flush(&self.volume)
    }
}
