//! YCSB on Redis, on memcached and on mongo-java-server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_rig::{LoopKind, LoopServer};
use headworks_workload::db::DbError;
use headworks_workload::driver::{self, Progress as Told, Report};
use headworks_workload::ycsb::{Address, Core, Key, Records, User, UserOptions, load};

use super::{Drive, Front, Place, Server};
use crate::apples::figure::Workload;

/// Records (of 1 KB) of a full and of a quick run, in Redis.
const IN_REDIS: (u64, u64) = (100_000, 5_000);

/// The same in memcached, which is filled for each run, and the memory that it may take for them.
const IN_MEMCACHED: (u64, u64) = (100_000, 5_000);
const MEMCACHED_MIB: &str = "1024";

/// The same in mongo-java-server, whose heap has 512 MB and which is filled for each run.
const IN_MONGODB: (u64, u64) = (50_000, 2_000);

/// The seed of what is loaded.
const SEED: u64 = 1;

/// Connections that load. Fewer than any P, so that a gate does not hold them.
const LOADERS: usize = 2;

const DEADLINE: Duration = Duration::from_secs(60);

/// The account in Redis, and the application in MongoDB's protocol, of sensitive users.
const SENSITIVE: &str = "ls";

/// A server with records.
pub(super) struct Ycsb {
    server: LoopServer,
    address: Address,
    /// The same for users who say who they are.
    sensitive: Address,
    /// Unless a load has another.
    core: Core,
    records: u64,
    /// Filled before each run, because it forgets.
    forgets: bool,
}

/// The records lie in a file, which the server reads when it starts and never writes afterwards.
pub(super) fn redis(core: Core, place: Place<'_>, front: &Front, filling: bool) -> Result<Ycsb> {
    let server = LoopServer::builder(LoopKind::Redis)
        .options(["--maxclients", "4000", "--tcp-backlog", "4096"])
        .options(["--dbfilename", "ycsb.rdb", "--dir"])
        .options([place.work])
        .options(["--user", SENSITIVE, "on", "nopass", "~*", "&*", "+@all"])
        .options(front.options)
        .behind(&front.gate)
        .remove_when_orphaned(place.work)
        .start()?;
    let records = if place.quick { IN_REDIS.1 } else { IN_REDIS.0 };
    let address: Address = format!("redis://{}", server.address()).parse()?;
    // Any password is the right one.
    let sensitive = format!("redis://{SENSITIVE}:any@{}", server.address()).parse()?;
    let site = Ycsb { server, address, sensitive, core, records, forgets: false };
    if !filling {
        site.wait()?;
    }
    Ok(site)
}

/// It knows no users by name, so that sensitive users are like all others.
pub(super) fn memcached(core: Core, place: Place<'_>, front: &Front) -> Result<Ycsb> {
    let server = LoopServer::builder(LoopKind::Memcached)
        .options(["-m", MEMCACHED_MIB])
        .options(front.options)
        .behind(&front.gate)
        .remove_when_orphaned(place.work)
        .start()?;
    let records = if place.quick { IN_MEMCACHED.1 } else { IN_MEMCACHED.0 };
    let address: Address = format!("memcached://{}", server.address()).parse()?;
    let sensitive = address.clone();
    Ok(Ycsb { server, address, sensitive, core, records, forgets: true })
}

pub(super) fn mongodb(core: Core, place: Place<'_>, front: &Front) -> Result<Ycsb> {
    ensure!(
        LoopKind::MongoJava.is_here_or_skip(),
        "no mongo-java-server to run under a JVM; `scripts/setup java` fetches it"
    );
    let server = LoopServer::builder(LoopKind::MongoJava)
        .options(front.options)
        .behind(&front.gate)
        .remove_when_orphaned(place.work)
        .start()?;
    let records = if place.quick { IN_MONGODB.1 } else { IN_MONGODB.0 };
    let address = format!("mongodb://{}/ycsb", server.address());
    let sensitive = format!("{address}?appName={SENSITIVE}").parse()?;
    let address: Address = address.parse()?;
    Ok(Ycsb { server, address, sensitive, core, records, forgets: true })
}

impl Ycsb {
    /// Waits until the last record has been read from the file.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let read = self.address.connect().and_then(|mut s| s.read(Key::of(self.records - 1)));
            match read {
                Ok(Some(_)) => return Ok(()),
                Ok(None) | Err(_) if begun.elapsed() < DEADLINE => sleep(Duration::from_millis(20)),
                Ok(None) => anyhow::bail!("records are missing after the load"),
                Err(error) => return Err(error).context("the server does not answer"),
            }
        }
    }

    fn load(&self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        load(&self.address, self.records, SEED, LOADERS, &mut |_| tick())?;
        Ok(())
    }
}

impl Server for Ycsb {
    fn fill(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        self.load(tick)?;
        let mut stream = TcpStream::connect(self.server.address())?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(b"SAVE\r\n")?;
        let mut said = [0; 5];
        stream.read_exact(&mut said)?;
        ensure!(&said == b"+OK\r\n", "Redis does not save its records:\n{}", self.server.log());
        Ok(())
    }

    fn make_ready(&mut self, tick: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.forgets { self.load(tick) } else { Ok(()) }
    }

    fn drive(&self, drive: Drive<'_>) -> Result<Report, DbError> {
        let load = drive.load;
        let core = match load.workload {
            Some(Workload::Ycsb(core)) => core,
            _ => self.core,
        };
        let options = UserOptions {
            core,
            popularity: core.popularity(),
            records: Records::loaded(self.records),
            seed: drive.seed,
        };
        let connect = |number: usize| {
            let known = number < load.sensitive;
            User::connect(if known { &self.sensitive } else { &self.address }, &options, number)
        };
        let observe = &mut |told: &Told| (drive.tick)(told.elapsed);
        driver::run(drive.how, User::KINDS, &connect, drive.stop, observe)
    }

    /// Users check what they read: a record that is missing or not whole is an error of a run.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn is_running(&mut self) -> bool {
        self.server.is_running()
    }

    fn ensure_gated(&self, gated: bool) -> Result<()> {
        self.server.ensure_gated(gated)
    }

    fn log_tail(&self) -> String {
        self.server.log_tail()
    }

    fn stop(&mut self) -> Result<()> {
        self.server.end(libc::SIGTERM, DEADLINE)?;
        Ok(())
    }
}
