//! What a client of the store sees: the volumes that it may open, each with its requests bound to
//! an application.

use crate::apps::{App, Apps};
use crate::config::Config;
use crate::note::{Desk, Told};
use crate::notices::Notices;
use crate::tls;
use crate::who::who;
use headworks_policy::block::SECTOR_BYTES;
use headworks_volume::engine::{Engine, Submission};
use headworks_volume::nbd::{
    Backend, Directory, Export, Exports, Greeting, Origin, Peer, Room, Secured, Tls, Unserved,
};
use headworks_volume::store::Extent;
use rustls::ServerConfig;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};

/// A volume in the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Its name.
    pub name: String,
    /// The path that it was opened by.
    pub path: String,
    /// Where it begins in the pool.
    pub start: u64,
    /// Its size.
    pub size: u64,
    /// What clients of ours are told of its bytes.
    pub words: String,
}

/// What is offered at the moment.
#[derive(Clone, Default)]
pub struct Offer {
    /// The configuration.
    pub config: Option<Arc<Config>>,
    /// The volumes.
    pub volumes: Vec<Opened>,
    /// TLS, if it is set up.
    pub tls: Option<Arc<ServerConfig>>,
}

/// See the module.
pub struct Front {
    /// What is offered.
    pub offer: RwLock<Offer>,
    /// The queue of all volumes.
    pub engine: Arc<Engine>,
    /// Whose requests are whose.
    pub apps: Arc<Apps>,
    /// Where notes go.
    pub desk: Arc<Desk>,
    /// What the log and the counters are told of clients.
    pub notices: Notices,
    /// The device seeks.
    pub rotational: bool,
}

impl Front {
    /// What is offered.
    pub fn offer(&self) -> Offer {
        self.offer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A front that the servers of all places share.
pub struct Door(pub Arc<Front>);

impl Directory for Door {
    fn exports(&self, peer: &Peer) -> Exports {
        let Offer { config, volumes, .. } = self.0.offer();
        let Some(config) = config else { return Exports::default() };
        let Some(client) = who(&config, peer) else { return Exports::default() };
        let may = |opened: &&Opened| {
            let about = config.volumes.iter().find(|volume| volume.name == opened.name);
            about.is_some_and(|about| {
                about.clients.as_ref().is_none_or(|clients| clients.contains(&client))
            })
        };
        let export = |opened: &Opened| {
            let app = self.0.apps.usual(&opened.name, &client)?;
            let read_only = config.volumes.iter().any(|v| v.name == opened.name && v.read_only);
            let bound = Bound {
                front: Arc::clone(&self.0),
                volume: opened.clone(),
                client: client.clone(),
                app,
                tagged: RwLock::default(),
            };
            let export = Export::new(&opened.name, Arc::new(bound));
            Some(export.read_only(read_only).rotational(self.0.rotational))
        };
        let list = volumes.iter().filter(may).filter_map(export).collect();
        // Names are unique and sizes are whole sectors.
        Exports::new(list).unwrap_or_default()
    }

    fn tls(&self, origin: Origin) -> Tls {
        let under_tls = self.0.offer().tls.is_some();
        match origin {
            Origin::Tcp(_) if under_tls => Tls::Required,
            _ => Tls::None,
        }
    }

    fn unserved(&self, client: Unserved) {
        self.0.notices.unserved(self.0.offer().config.as_deref(), client);
    }

    fn secure(&self, socket: OwnedFd) -> io::Result<Secured> {
        let config = self.0.offer().tls.ok_or(io::ErrorKind::Unsupported)?;
        let (plain, certificate) = tls::accept(&config, socket)?;
        Ok(Secured { plain, certificate })
    }
}

/// A volume for one client's connection.
struct Bound {
    front: Arc<Front>,
    volume: Opened,
    client: String,
    /// Whose requests are that have no tag.
    app: Arc<App>,
    /// Applications by tag, as the client says.
    tagged: RwLock<Vec<(u16, Arc<App>)>>,
}

impl Bound {
    fn app_of(&self, tag: u16) -> Arc<App> {
        let tagged = self.tagged.read().unwrap_or_else(PoisonError::into_inner);
        let found = tagged.iter().find(|(known, _)| tag != 0 && *known == tag);
        Arc::clone(found.map_or(&self.app, |(_, app)| app))
    }
}

impl Backend for Bound {
    fn size_bytes(&self) -> u64 {
        self.volume.size
    }

    fn submit(&self, mut submission: Submission) {
        submission.request.cause = self.app_of(submission.tag).cause;
        submission.request.sector += self.volume.start / SECTOR_BYTES;
        self.front.engine.submit(submission);
    }

    fn greet(&self, _: &Greeting) -> Option<String> {
        Some(format!("{};application={}", self.volume.words, self.app.about().name))
    }

    fn note(&self, note: &[u8]) -> Vec<u8> {
        let own = |name: &str| self.front.apps.named(name, &self.volume.name, &self.client);
        let Ok(told) = serde_json::from_slice::<Told>(note) else {
            return br#"{"error":"cannot read the note"}"#.to_vec();
        };
        if !told.tags.is_empty() {
            let known = told.tags.iter().filter_map(|(tag, name)| Some((*tag, own(name)?)));
            // A tag has 16 bits, and a note has room for few.
            *self.tagged.write().unwrap_or_else(PoisonError::into_inner) = known.collect();
        }
        let usual = Arc::clone(&self.app);
        let all = self.tagged.read().unwrap_or_else(PoisonError::into_inner).clone();
        let own_apps = std::iter::once(usual).chain(all.into_iter().map(|(_, app)| app));
        let answer = self.front.desk.told(&told, own, own_apps);
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    fn admit(&self, bytes: u64, before: &mut dyn FnMut()) -> Option<Room> {
        Some(self.app.budget.take(bytes, before))
    }

    fn reserve(&self, bytes: u64, before: &mut dyn FnMut()) -> Option<Room> {
        Some(self.app.answers.take(bytes, before))
    }

    fn failed(&self, what: &str, error: &io::Error) {
        self.front.notices.failed(&self.volume.name, what, error);
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        let start = self.volume.start;
        let mut extents = self.front.engine.extents(start + offset, len)?;
        for extent in &mut extents {
            extent.offset -= start;
        }
        Ok(extents)
    }
}
