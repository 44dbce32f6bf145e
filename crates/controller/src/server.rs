//! The threads of a controller: one listens, one keeps the office, one decides, one gives
//! beats, and each connection has one that reads and one that writes. A node that does not take
//! what it is told loses its connection, and delays no other. Nor does an etcd that is silent.

use crate::config::{self, Config};
use crate::desk::{Desk, NodeNumber};
use crate::keeper::{Keeper, Office};
use crate::tenant::{self, Settings};
use crate::wire::{self, Said};
use anyhow::{Context, Result, anyhow, ensure};
use headworks_store::tls;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
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

/// Time between beats: some may be late.
const BEAT: Duration = Duration::from_secs(2);

/// State that is known without asking etcd. A thread that has its lock waits for nothing.
struct Inside {
    desk: Desk,
    office: Office,
    writers: HashMap<NodeNumber, SyncSender<String>>,
    changed: bool,
}

/// See the module.
pub struct Server {
    config: Config,
    token: String,
    /// etcd is asked under this lock. It is taken before the other, never after.
    keeper: Mutex<Keeper>,
    inside: Mutex<Inside>,
    wake: Condvar,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// What `set` says: what is not named stays.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    tenant: String,
    weight: Option<f64>,
    limit: Option<f64>,
    target: Option<f64>,
    #[serde(default)]
    no_limit: bool,
    #[serde(default)]
    no_target: bool,
    #[serde(default)]
    forget: bool,
}

impl Change {
    fn check(&self) -> Result<()> {
        tenant::name_is_one(&self.tenant)?;
        let numbers = [
            ("weight", self.weight, &tenant::WEIGHTS),
            ("limit", self.limit, &tenant::RATES),
            ("target", self.target, &tenant::RATES),
        ];
        for (what, number, range) in numbers {
            ensure!(
                number.is_none_or(|number| range.contains(&number)),
                "a {what} is a number from {} to {}",
                range.start(),
                range.end()
            );
        }
        let named = numbers.iter().any(|(_, number, _)| number.is_some());
        ensure!(
            named || self.no_limit || self.no_target || self.forget,
            "nothing is to be set: name a weight, a limit or a target"
        );
        Ok(())
    }

    fn make(&self, settings: &mut Settings) {
        if self.forget {
            settings.remove(&self.tenant);
            return;
        }
        let tenant = settings.entry(self.tenant.clone()).or_default();
        tenant.weight = self.weight.unwrap_or(tenant.weight);
        tenant.limit = if self.no_limit { None } else { self.limit.or(tenant.limit) };
        tenant.target = if self.no_target { None } else { self.target.or(tenant.target) };
    }
}

/// Serves until the process ends.
///
/// # Errors
/// The configuration cannot be served.
pub fn serve(config: Config) -> Result<()> {
    let token = config.token()?;
    let tls = match &config.tls {
        Some(files) => Some(tls::server(&files.certificate, &files.key, &files.clients)?),
        None => None,
    };
    let listener = TcpListener::bind(&config.listen)
        .with_context(|| format!("cannot listen at {}", config.listen))?;
    let (keeper, settings) = Keeper::new(&config)?;
    println!("the controller listens at {}", listener.local_addr()?);
    let inside = Inside {
        desk: Desk::default(),
        office: Office::default(),
        writers: HashMap::new(),
        changed: false,
    };
    let server = Arc::new(Server {
        token,
        config,
        keeper: Mutex::new(keeper),
        inside: Mutex::new(inside),
        wake: Condvar::new(),
        tls,
    });
    server.publish(&server.keeper(), Some(settings));
    server.start("look", Server::look)?;
    server.start("decide", Server::decide)?;
    server.start("beat", Server::beat)?;
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

fn say(words: &str) {
    eprintln!("headworks-controller: {words}");
}

impl Server {
    fn start(self: &Arc<Self>, name: &str, work: fn(&Server)) -> io::Result<()> {
        let own = Arc::clone(self);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&own)).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing is left half changed by a panic: each change is one call.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the keeper has found is so from now on, and what is new is told.
    fn publish(&self, keeper: &Keeper, settings: Option<Settings>) {
        let mut inside = self.lock();
        let stands = |office: &Office| office.serves().map_err(str::to_owned);
        let before = stands(&std::mem::replace(&mut inside.office, keeper.office().clone()));
        let now = stands(&inside.office);
        match &now {
            Ok(fence) if before != now => say(&format!("in office, fence {fence}")),
            Err(words) if before != now => say(&format!("{words}: nodes are told nothing")),
            _ => {}
        }
        if let Some(settings) = settings {
            let known = tenant::faults(inside.desk.settings());
            for fault in tenant::faults(&settings).iter().filter(|fault| !known.contains(fault)) {
                say(fault);
            }
            inside.desk.set(settings);
            inside.changed = true;
        }
        if inside.office.fence().is_none() {
            // Nodes look for the one in office.
            inside.writers.clear();
        }
        drop(inside);
        self.wake.notify_all();
    }

    /// Keeps the place, or tries to get it.
    fn look(&self) {
        loop {
            let mut keeper = self.keeper();
            let settings = keeper.look();
            self.publish(&keeper, settings);
            drop(keeper);
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
            let Ok(fence) = inside.office.serves() else { continue };
            for (node, push) in inside.desk.decide() {
                tell(&mut inside.writers, node, push.text(fence));
            }
        }
    }

    /// Nodes leave a controller that stands still.
    fn beat(&self) {
        loop {
            std::thread::sleep(BEAT);
            let mut inside = self.lock();
            if inside.office.serves().is_err() {
                continue;
            }
            let nodes: Vec<NodeNumber> = inside.writers.keys().copied().collect();
            for node in nodes {
                tell(&mut inside.writers, node, wire::beat());
            }
        }
    }

    fn client(&self, socket: OwnedFd) -> io::Result<()> {
        let socket = match &self.tls {
            Some(config) => tls::accept(config, socket)?.0,
            None => socket,
        };
        let stream = UnixStream::from(socket);
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let words = |result: Result<String>| {
            // An answer is a line.
            result.unwrap_or_else(|error| format!("error {error:#}").replace('\n', " "))
        };
        let answer = match line(&mut lines)?.as_deref().and_then(wire::said) {
            Some(Said::Hello { version, role, token, node }) if token == self.token => {
                return self.node(&mut lines, stream, (&node, &role, version));
            }
            Some(Said::Status(token)) if token == self.token => {
                let inside = self.lock();
                serde_json::to_string(&inside.desk.status(&inside.office))?
            }
            Some(Said::Set(token, json)) if token == self.token => words(self.set(&json)),
            Some(Said::Raise(token, above)) if token == self.token => {
                let raised = self.raise(above, "an operator asks for more than");
                words(raised.map(|fence| format!("its fence is {fence} from now on")))
            }
            Some(_) => "error the token is another one".to_owned(),
            None => {
                "error this is a controller of headworks, and speaks another language".to_owned()
            }
        };
        (&stream).write_all((answer + "\n").as_bytes())
    }

    fn set(&self, json: &str) -> Result<String> {
        let change: Change = serde_json::from_str(json)?;
        change.check()?;
        let mut keeper = self.keeper();
        let before = self.lock().desk.settings().clone();
        let mut after = before.clone();
        change.make(&mut after);
        let kept = keeper.keep(&before, &after);
        let settings = kept.is_ok().then_some(after);
        self.publish(&keeper, settings);
        kept.map(|()| format!("{} is set", change.tenant))
    }

    /// Someone has heard a fence that is larger than this one's.
    fn raise(&self, above: u64, who: &str) -> Result<u64> {
        let mut keeper = self.keeper();
        let before = keeper.office().serves().map_err(|words| anyhow!("{words}"))?;
        let raised = keeper.raise(above);
        match &raised {
            Ok(fence) if *fence > before => say(&format!(
                "{who} {above}, and this controller's fence was {before}: was etcd, or the state directory, \
                 restored or emptied? It holds its place, so its fence is {fence} from now on"
            )),
            Ok(_) => {}
            Err(error) => say(&format!(
                "{who} {above}, and this controller's fence is {before}, which was not raised: {error:#}"
            )),
        }
        self.publish(&keeper, None);
        raised
    }

    fn node(
        &self,
        lines: &mut BufReader<UnixStream>,
        stream: UnixStream,
        (name, role, version): (&str, &str, u32),
    ) -> io::Result<()> {
        let (sender, texts) = sync_channel::<String>(WAITING);
        let number = {
            let mut inside = self.lock();
            let fence = match inside.office.serves() {
                Ok(fence) => fence,
                Err(words) => {
                    let words = format!("error {words}").replace('\n', " ");
                    return (&stream).write_all((words + "\n").as_bytes());
                }
            };
            let number = inside.desk.come(name, role, version);
            let _ = sender.try_send(wire::Push::default().text(fence) + &wire::beat());
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
        let ended = self.hear(lines, number, name);
        let mut inside = self.lock();
        inside.writers.remove(&number);
        inside.desk.go(number);
        ended
    }

    fn hear(
        &self,
        lines: &mut BufReader<UnixStream>,
        number: NodeNumber,
        name: &str,
    ) -> io::Result<()> {
        let mut changes = Vec::new();
        while let Some(line) = line(lines)? {
            match wire::said(&line) {
                Some(Said::Use { used, wants, tenant }) => changes.push((tenant, used, wants)),
                Some(Said::Report) => {
                    self.lock().desk.report(number, &changes);
                    changes.clear();
                }
                Some(Said::Fence(heard)) => {
                    let ours = self.lock().office.fence();
                    if ours.is_some_and(|ours| ours < heard) {
                        // It comes again. Why it was not raised is in the log.
                        let _ = self.raise(heard, &format!("{name} has heard fence"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Who does not take it is gone: its connection ends, and it is told all again.
fn tell(writers: &mut HashMap<NodeNumber, SyncSender<String>>, node: NodeNumber, text: String) {
    if writers.get(&node).is_some_and(|writer| writer.try_send(text).is_err()) {
        writers.remove(&node);
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
        let wire = reached(controller)
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
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Asks each of them until one in office answers.
    ///
    /// # Errors
    /// None does: what each has said.
    pub fn ask(&self, question: &str) -> Result<String> {
        self.answers(question, |_| true)
    }

    /// What the one in office knows; else what another says of itself, in the order of addresses.
    ///
    /// # Errors
    /// None answers.
    pub fn status(&self) -> Result<Value> {
        let in_office = |answer: &str| {
            serde_json::from_str::<Value>(answer).is_ok_and(|status| !status["fence"].is_null())
        };
        let answer = self.answers(&format!("status {}", self.token), in_office)?;
        serde_json::from_str(&answer).context("the answer cannot be read: is it another version?")
    }

    fn answers(&self, question: &str, good: impl Fn(&str) -> bool) -> Result<String> {
        let mut other = None;
        let mut failed = Vec::new();
        for controller in &self.controllers {
            match self.connect(controller).and_then(|stream| answer(stream, question)) {
                Ok(answer) => match answer.strip_prefix("error ") {
                    Some(words) => failed.push(format!("{controller}: {words}")),
                    None if good(&answer) => return Ok(answer),
                    None => other = other.or(Some(answer)),
                },
                Err(error) => failed.push(format!("{controller}: {error:#}")),
            }
        }
        ensure!(
            !self.controllers.is_empty(),
            "no controller is named\n  name it: --controller HOST:PORT"
        );
        other.ok_or_else(|| anyhow!("{}", failed.join("\n")))
    }
}

/// A host that is cut off does not refuse: it does not answer.
fn reached(controller: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("its host has no address");
    for address in controller.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn answer(stream: UnixStream, question: &str) -> Result<String> {
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).with_context(|| {
        format!("it has not answered within {} s, and may do it later", PATIENCE.as_secs())
    })?;
    ensure!(!answer.is_empty(), "the controller ended the connection without an answer");
    Ok(answer.trim_end().to_owned())
}
