//! Connections that end after every byte of a conversation, in an orderly way or not: afterwards no
//! permit is lost.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_rig::gated::RunDirectory;

use crate::asker::Asker;
use crate::behaviour;
use crate::clients;
use crate::crowd::Crowd;
use crate::database::{Database, Place, Subject};
use crate::gate::{self, DEADLINE};
use crate::kills::free_places;
use crate::relay::Relay;

/// Arguments of `cut`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only this database
    #[arg(long)]
    database: Vec<Database>,
    /// Cut after every so many bytes
    #[arg(long, default_value_t = 1)]
    step: usize,
}

const PLACES: u32 = 2;
const CROWD: usize = 4;
const SETTINGS: &str = "hold_ms_max = 900000\ncount = \"admitted\"\nstall_ms = 600000\n";

/// The behaviours whose conversations are cut, whatever their language.
const CONVERSATIONS: [&str; 2] = ["cut", "transactions"];

/// Of MongoDB's protocol, whose drivers send numbers back that the server gave them.
const BY_HAND: [&str; 1] = ["cut"];

/// Runs on each database; says whether all went well.
pub fn run(options: &Options) -> Result<bool> {
    for database in Database::ALL {
        let wanted = options.database.is_empty() || options.database.contains(&database);
        if wanted && database.is_here() {
            on(database, options).with_context(|| database.name())?;
        }
    }
    Ok(true)
}

fn on(database: Database, options: &Options) -> Result<()> {
    let talks = record(database)?;
    let gated = gate::start(database, PLACES, SETTINGS, 400, None)?;
    let crowd = Crowd::gather(database, gated.server.port(), CROWD)?;
    let begun = Instant::now();
    let mut cuts = 0;
    for talk in &talks {
        for at in (0..=talk.len()).step_by(options.step.max(1)) {
            cut(gated.server.port(), &talk[..at], End::of(cuts))
                .with_context(|| format!("cut after {at} bytes"))?;
            cuts += 1;
        }
    }
    gated.wait("only the crowd is left", DEADLINE, |status| {
        status.number("users") == CROWD as u64
    })?;
    let before = crowd.requests();
    let moves = Instant::now();
    while crowd.requests() < before + 10 * CROWD as u64 {
        ensure!(moves.elapsed() < DEADLINE, "the background load is stuck");
        std::thread::sleep(Duration::from_millis(5));
    }
    crowd.leave()?;
    gated.wait("no session is left", DEADLINE, |status| status.number("users") == 0)?;
    if database.keeps_places() {
        free_places(database, &gated, PLACES)?;
    }
    gated.wait("all permits are free", DEADLINE, |status| status.number("inside") == 0)?;
    Asker::connect(database, gated.server.port(), "checker")?.check()?;
    let status = gated.status()?;
    ensure!(status.counter("panic") == 0, "a panic inside the library: {:#}", status.0);
    println!(
        "{database}: {cuts} connections cut in {:.0} s: no permit lost, no session stuck",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// What clients send in some behaviours, as it is: they need no answer to go on.
fn record(database: Database) -> Result<Vec<Vec<u8>>> {
    let subject = Subject { database, tls: false };
    let server = database.start(&Place::default(), 50)?;
    let scratch = RunDirectory::new()?;
    let mut talks = Vec::new();
    let names = if database == Database::MongoDb { &BY_HAND[..] } else { &CONVERSATIONS[..] };
    for behaviour in behaviour::of(subject)? {
        let stem = behaviour.path.file_stem().unwrap_or_default();
        if names.iter().any(|name| *name == stem) {
            let relay = Relay::start(server.port())?;
            let (own, direct) = (relay.port(), server.port());
            clients::run(subject, &behaviour, own, direct, &scratch.join(&behaviour.name))?;
            talks.extend(relay.finish().into_iter().map(|talk| talk.client));
        }
    }
    ensure!(talks.iter().any(|talk| talk.len() > 100), "the recorded conversation is empty");
    Ok(talks)
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Closed without a look at the answer.
    Close,
    /// Reset.
    Reset,
    /// Nothing more is sent, but what comes is read.
    HalfClose,
}

impl End {
    fn of(number: usize) -> End {
        [End::Close, End::Reset, End::HalfClose][number % 3]
    }
}

fn cut(port: u16, bytes: &[u8], end: End) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    // The server may have hung up already: part of what is tested.
    let _ = stream.write_all(bytes);
    match end {
        End::Close => {}
        End::Reset => {
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            // SAFETY: an open socket, and a structure of the length that is given.
            let failed = unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    size_of_val(&linger) as libc::socklen_t,
                )
            };
            ensure!(failed == 0, std::io::Error::last_os_error());
        }
        End::HalfClose => {
            let _ = stream.shutdown(Shutdown::Write);
            let mut rest = [0; 4096];
            while stream.read(&mut rest).is_ok_and(|read| read > 0) {}
        }
    }
    Ok(())
}
