//! The process of a volume: engine, front end, control socket.

use super::causes::Link;
use super::control::{self, Figures, Power, Request, Response};
use super::front::Front;
use super::state::{Named, Note};
use super::system;
use crate::cli;
use crate::instance::Instance;
use crate::process::{block_signals, read_signal};
use anyhow::{Context, Result, bail};
use headworks_policy::block::SchedulerKind;
use headworks_volume::nbd::{self, Export, Exports, Limits, Listener, Stop};
use headworks_volume::{Submission, Volume};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Serves until it is told to stop.
pub fn serve(args: &cli::Serve) -> Result<()> {
    // SAFETY: the parent made this descriptor for this process and names it on the command line.
    let mut ready = args.ready_fd.map(|fd| unsafe { File::from_raw_fd(fd) });
    let served = match &args.nbd {
        Some(place) => serve_nbd(&args.name, place),
        None => serve_until_told(args, &mut ready),
    };
    // Open until this process ends: the parent waits for that, and then finds the log complete.
    std::mem::forget(ready);
    served
}

/// Serves over NBD until a signal comes.
fn serve_nbd(name: &str, place: &str) -> Result<()> {
    let (named, description) = Named::existing(name)?;
    let Some(_lock) = named.lock()? else {
        bail!("volume `{name}` runs already: headworks volume stat {name}");
    };
    let signals = block_signals()?;
    let volume = description.volume.start()?;
    let rotational = description.volume.find_device()?.is_rotational();
    let export = Export::new(name, Arc::new(Arc::clone(&volume.engine))).rotational(rotational);
    let listener = match place.split_once(':') {
        Some(("unix", path)) => Listener::unix(path),
        Some(("tcp", address)) => Listener::tcp(address),
        _ => bail!("write unix:PATH or tcp:HOST:PORT, not `{place}`"),
    }
    .with_context(|| format!("cannot listen on {place}"))?;
    println!("volume `{name}` is export `{name}` on {place}; stop it with Ctrl-C");
    let stop = Stop::new()?;
    let stopper = stop.clone();
    std::thread::spawn(move || {
        wait_for_signal(&signals);
        stopper.stop();
    });
    nbd::serve(listener, Exports::new(vec![export])?, Limits::default(), &stop)?;
    flush(&volume)?;
    named.clear();
    Ok(())
}

fn wait_for_signal(signals: &OwnedFd) {
    loop {
        let mut fd = libc::pollfd { fd: signals.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&raw mut fd, 1, -1) };
        if matches!(read_signal(signals), Some(libc::SIGTERM | libc::SIGINT)) {
            return;
        }
    }
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
    system::can_serve()?;
    let Some(_lock) = volume.lock()? else {
        bail!("volume `{0}` runs already: headworks volume stat {0}", volume.name);
    };
    // Before any thread exists: they inherit both.
    let signals = block_signals()?;
    become_io_flusher();
    let started = match args.io {
        Some(_) => description.volume.start_beneath_calls()?,
        None => description.volume.start()?,
    };
    let front = Front::start(&volume, &started, &description)?;
    let device = front.path();
    let scheduler = description.volume.scheduler.parse::<SchedulerKind>()?;
    let link = |name: &String| link(name, scheduler, &started, &device);
    let link = args.io.as_ref().map(link).transpose()?;
    let served = Served { volume: started, front, link };
    volume.write_note(&Note {
        pid: std::process::id(),
        device: device.clone(),
        mounted_on: None,
    })?;
    let listener = listen(&volume)?;
    match ready.take() {
        // In one write, as it is read by one call.
        Some(mut ready) => {
            ready.write_all(format!("ready {}\n", device.display()).as_bytes())?;
        }
        None => println!("volume `{}` is {}; stop it with Ctrl-C", volume.name, device.display()),
    }
    wait(&listener, &signals, &served);
    // On failure `doctor` finds the remains, and the log says why.
    served.stop(&volume)?;
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

struct Served {
    volume: Volume,
    front: Front,
    link: Option<Link>,
}

/// Lets the volume's queue know whose its requests are.
fn link(name: &str, scheduler: SchedulerKind, volume: &Volume, device: &Path) -> Result<Link> {
    let number = std::fs::metadata(device)?.rdev();
    let link = Link::new(Instance::named(name)?, number, scheduler);
    volume.engine.set_causes(Box::new(link.clone()));
    Ok(link)
}

fn listen(volume: &Named) -> Result<UnixListener> {
    let path = volume.file("control.sock");
    let _ = std::fs::remove_file(&path);
    UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))
}

/// Answers until it is told to stop, by a client or by a signal.
fn wait(listener: &UnixListener, signals: &OwnedFd, served: &Served) {
    loop {
        let mut fds = [listener.as_raw_fd(), signals.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array and its length belong together.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, 1_000) };
        if fds[1].revents != 0 && matches!(read_signal(signals), Some(libc::SIGTERM | libc::SIGINT))
        {
            return;
        }
        if served.front.has_ended() {
            return;
        }
        if let Some(link) = &served.link {
            link.look();
        }
        if fds[0].revents != 0
            && let Ok((stream, _)) = listener.accept()
        {
            let mut stop = false;
            // Errors of a client concern only that client.
            let _ = control::serve(&stream, |request| {
                stop = request == Request::Stop;
                served.answer(request)
            });
            if stop {
                return;
            }
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
            lead_us: self.front.lead_us,
            looks: self.front.looks,
        }
    }

    /// Removes everything in reverse order; all writes are durable by then.
    fn stop(self, named: &Named) -> Result<()> {
        self.front.stop(named)?;
        flush(&self.volume)
    }
}
