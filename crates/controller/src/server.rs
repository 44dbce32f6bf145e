//! The threads of a controller: one listens, one decides, and each connection has one that reads
//! and one that writes. A node that does not take what it is told loses its connection, and delays
//! no other.

use crate::config::{self, Config};
use crate::desk::{Desk, NodeNumber};
use crate::keeper::{Keeper, Settings, Tenant};
use crate::wire::{self, Said};
use anyhow::{Context, Result};
use headworks_store::tls;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A node that says nothing for so long is gone. It says `report` in each period.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a node may take to take what it is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Texts that wait for a node.
const WAITING: usize = 64;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 20_000;

/// Looks for the lease.
const LOOK: Duration = Duration::from_secs(2);

/// Of a thread: they hold a line and little else.
const STACK_BYTES: usize = 256 << 10;

struct Inside {
    desk: Desk,
    keeper: Keeper,
    writers: HashMap<NodeNumber, SyncSender<String>>,
    changed: bool,
}

/// See the module.
pub struct Server {
    config: Config,
    token: String,
    inside: Mutex<Inside>,
    wake: Condvar,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// What `set` says: what is not named stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    tenant: String,
    weight: Option<f64>,
    limit: Option<f64>,
    target: Option<f64>,
    #[serde(default)]
    no_limit: bool,
    #[serde(default)]
    forget: bool,
}

/// Serves until the process ends.
///
/// # Errors
/// The configuration cannot be served.
pub fn serve(config: Config) -> Result<()> {
    let listener = TcpListener::bind(&config.listen)
        .with_context(|| format!("cannot listen at {}", config.listen))?;
    let keeper = Keeper::new(&config)?;
    let mut desk = Desk::default();
    desk.set(keeper.settings()?);
    let tls = match &config.tls {
        Some(files) => Some(tls::server(&files.certificate, &files.key, &files.clients)?),
        None => None,
    };
    println!("the controller listens at {}", listener.local_addr()?);
    let server = Arc::new(Server {
        token: config.token()?,
        config,
        inside: Mutex::new(Inside { desk, keeper, writers: HashMap::new(), changed: false }),
        wake: Condvar::new(),
        tls,
    });
    let own = Arc::clone(&server);
    std::thread::Builder::new().name("look".into()).spawn(move || own.look())?;
    let own = Arc::clone(&server);
    std::thread::Builder::new().name("decide".into()).spawn(move || own.decide())?;
    for client in listener.incoming() {
        // A client that is gone again, or too many files: the others go on.
        let Ok(client) = client else { continue };
        if server.lock().writers.len() >= CONNECTIONS_MAX {
            continue;
        }
        let _ = client.set_nodelay(true);
        let own = Arc::clone(&server);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let _ = thread.spawn(move || {
            // The end of a connection concerns no other.
            let _ = own.client(client.into());
        });
    }
    Ok(())
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing is left half changed by a panic: each change is one call.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the place, or tries to get it.
    fn look(&self) {
        loop {
            let mut inside = self.lock();
            let (fence, settings) = inside.keeper.look();
            if let Some(settings) = settings {
                inside.desk.set(settings);
                inside.changed = true;
            }
            if fence.is_none() {
                // Nodes look for the one in office.
                inside.writers.clear();
            }
            drop(inside);
            self.wake.notify_all();
            std::thread::sleep(LOOK);
        }
    }

    /// Decides in each period, and at once when an operator has changed something.
    fn decide(&self) {
        let period = Duration::from_millis(self.config.period_ms);
        loop {
            let waiting =
                self.wake.wait_timeout_while(self.lock(), period, |inside| !inside.changed);
            let mut inside =
                waiting.map_or_else(|error| error.into_inner().0, |(inside, _)| inside);
            inside.changed = false;
            let Some(fence) = inside.keeper.fence() else { continue };
            let pushes = inside.desk.decide();
            for (node, push) in pushes {
                let text = push.text(fence);
                // Who does not take it is gone: its connection ends, and it is told all again.
                if inside.writers.get(&node).is_some_and(|writer| writer.try_send(text).is_err()) {
                    inside.writers.remove(&node);
                }
            }
        }
    }

    fn client(self: &Arc<Self>, socket: OwnedFd) -> io::Result<()> {
        let socket = match &self.tls {
            Some(config) => tls::accept(config, socket)?.0,
            None => socket,
        };
        let stream = UnixStream::from(socket);
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let answer = match line(&mut lines)?.as_deref().and_then(wire::said) {
            Some(Said::Hello { version, role, token, node }) if token == self.token => {
                return self.node(&mut lines, stream, (&node, &role, version));
            }
            Some(Said::Status(token)) if token == self.token => {
                let inside = self.lock();
                let status = inside.desk.status(inside.keeper.fence());
                serde_json::to_string(&status)?
            }
            Some(Said::Set(token, json)) if token == self.token => match self.set(&json) {
                Ok(words) => words,
                Err(error) => format!("error {error:#}"),
            },
            Some(_) => "error the token is another one".to_owned(),
            None => {
                "error this is a controller of headworks, and speaks another language".to_owned()
            }
        };
        (&stream).write_all((answer + "\n").as_bytes())
    }

    fn set(&self, json: &str) -> Result<String> {
        let change: Change = serde_json::from_str(json)?;
        let above =
            |number: Option<f64>| number.is_none_or(|number| number.is_finite() && number > 0.0);
        anyhow::ensure!(
            above(change.weight) && above(change.limit) && above(change.target),
            "weights, limits and targets are above 0"
        );
        anyhow::ensure!(!change.tenant.trim().is_empty(), "the tenant has no name");
        let mut inside = self.lock();
        anyhow::ensure!(inside.keeper.fence().is_some(), "another controller is in office");
        let mut settings: Settings = inside.desk.settings().clone();
        if change.forget {
            settings.remove(&change.tenant);
        } else {
            let tenant: &mut Tenant = settings.entry(change.tenant.clone()).or_default();
            tenant.weight = change.weight.unwrap_or(tenant.weight);
            tenant.limit = if change.no_limit { None } else { change.limit.or(tenant.limit) };
            tenant.target = change.target.or(tenant.target);
        }
        inside.keeper.keep(&settings)?;
        inside.desk.set(settings);
        inside.changed = true;
        drop(inside);
        self.wake.notify_all();
        Ok(format!("{} is set", change.tenant))
    }

    fn node(
        self: &Arc<Self>,
        lines: &mut BufReader<UnixStream>,
        stream: UnixStream,
        (name, role, version): (&str, &str, u32),
    ) -> io::Result<()> {
        let (sender, texts) = sync_channel::<String>(WAITING);
        let number = {
            let mut inside = self.lock();
            let Some(fence) = inside.keeper.fence() else {
                return (&stream).write_all(b"error another controller is in office\n");
            };
            let number = inside.desk.come(name, role, version);
            let _ = sender.try_send(wire::Push::default().text(fence));
            inside.writers.insert(number, sender);
            number
        };
        let out = stream.try_clone()?;
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            for text in texts {
                if (&out).write_all(text.as_bytes()).is_err() {
                    break;
                }
            }
            let _ = out.shutdown(std::net::Shutdown::Both);
        })?;
        let ended = self.hear(lines, number);
        let mut inside = self.lock();
        inside.writers.remove(&number);
        inside.desk.go(number);
        ended
    }

    fn hear(&self, lines: &mut BufReader<UnixStream>, number: NodeNumber) -> io::Result<()> {
        let mut changes = Vec::new();
        while let Some(line) = line(lines)? {
            match wire::said(&line) {
                Some(Said::Use { used, wants, tenant }) => changes.push((tenant, used, wants)),
                Some(Said::Report) => {
                    self.lock().desk.report(number, &changes);
                    changes.clear();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The next line; none at the end.
fn line(lines: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    lines.by_ref().take(wire::LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// How a node or an operator comes to a controller.
#[derive(Clone, Debug)]
pub struct Reach {
    /// `HOST:PORT` of each controller.
    pub controllers: Vec<String>,
    /// The word.
    pub token: String,
    /// Certificates.
    pub tls: Option<config::Tls>,
}

impl Reach {
    /// Connects to one of them.
    ///
    /// # Errors
    /// It does not answer.
    pub fn connect(&self, controller: &str) -> Result<UnixStream> {
        let wire = std::net::TcpStream::connect(controller)
            .with_context(|| format!("no controller answers at {controller}"))?;
        wire.set_nodelay(true)?;
        let socket = match &self.tls {
            Some(files) => {
                let config = tls::client(&files.certificate, &files.key, &files.clients)?;
                let host = controller.rsplit_once(':').map_or(controller, |(host, _)| host);
                tls::connect(&config, host.trim_matches(['[', ']']), wire.into())?
            }
            None => wire.into(),
        };
        let stream = UnixStream::from(socket);
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Asks each of them until one in office answers.
    ///
    /// # Errors
    /// None is.
    pub fn ask(&self, question: &str) -> Result<String> {
        let mut last = anyhow::anyhow!("no controller is named\n  name it: --controller HOST:PORT");
        for controller in &self.controllers {
            match self.connect(controller).and_then(|stream| answer(stream, question)) {
                Ok(answer) => match answer.strip_prefix("error ") {
                    Some(words) => last = anyhow::anyhow!("{controller}: {words}"),
                    None => return Ok(answer),
                },
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn answer(stream: UnixStream, question: &str) -> Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    anyhow::ensure!(!answer.is_empty(), "the controller ended the connection without an answer");
    Ok(answer.trim_end().to_owned())
}
