//! Ten thousand connections on one server: what each costs in the region, and how long a decision
//! takes then.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::asker::Asker;
use crate::crowd::Crowd;
use crate::database::Database;
use crate::gate::{self, DEADLINE};

/// Arguments of `many`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The database
    #[arg(long, default_value = "mariadb")]
    database: Database,
    /// Connections that stay idle
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Connections that work
    #[arg(long, default_value_t = 64)]
    busy: usize,
    /// Places of the gate
    #[arg(long, default_value_t = 16)]
    places: u32,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Opens the connections, lets some work, and prints what the gate says.
pub fn run(options: &Options) -> Result<bool> {
    if !options.database.is_here() {
        return Ok(true);
    }
    raise_descriptors()?;
    let all = options.connections + options.busy as u32 + 50;
    let gated = gate::start(options.database, options.places, "", all, None)?;
    let port = gated.server.port();
    let begun = Instant::now();
    let mut idle = Vec::new();
    for number in 0..options.connections {
        let asker = Asker::connect(options.database, port, "idle");
        idle.push(asker.with_context(|| format!("connection {number}"))?);
    }
    let connected = begun.elapsed();
    let crowd = Crowd::gather(options.database, port, options.busy)?;
    gated
        .wait("all are users", DEADLINE, |status| status.number("users") >= u64::from(all - 50))?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let status = gated.status()?;
    let requests = crowd.requests();
    crowd.leave()?;
    // Each idle connection still answers.
    let asking = Instant::now();
    for asker in &mut idle {
        asker.check()?;
    }
    println!(
        "{}: {} connections made in {:.1} s, asked once each in {:.1} s; {requests} requests of {} others in {} s; \
         full table: {}",
        options.database,
        options.connections,
        connected.as_secs_f64(),
        asking.elapsed().as_secs_f64(),
        options.busy,
        options.seconds,
        status.counter("slot_table_full"),
    );
    ensure!(status.counter("slot_table_full") == 0, "the table of sessions was full");
    drop(idle);
    gated.wait("no session is left", DEADLINE, |status| status.number("users") == 0)?;
    Ok(true)
}

/// As many descriptors as this process may have.
fn raise_descriptors() -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes into the structure.
    ensure!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads the structure.
    ensure!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0, "setrlimit");
    Ok(())
}
