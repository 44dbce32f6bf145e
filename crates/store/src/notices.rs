//! What an operator should hear of, and not a thousand times: clients that are not served, and
//! requests that fail. Each is counted, and each kind has a line in the log now and then.

use crate::config::Config;
use crate::who::who;
use headworks_volume::nbd::{Origin, Peer, Unserved};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines of a kind.
const QUIET: Duration = Duration::from_secs(10);

/// Requests of a volume that have failed in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The volume.
    pub volume: String,
    /// The error, as a symbol.
    pub error: String,
    /// How many.
    pub count: u64,
}

#[derive(Default)]
struct Inner {
    /// Clients that were not served, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// Requests that failed, by volume and error.
    failed: BTreeMap<(String, String), u64>,
    /// When a line of this kind was last written, and how many were left out since.
    lines: BTreeMap<String, (Instant, u64)>,
}

/// See the module.
#[derive(Default)]
pub struct Notices(Mutex<Inner>);

impl Inner {
    /// Writes a line, unless there was one of its kind a moment ago.
    fn line(&mut self, kind: &str, words: impl FnOnce() -> String) {
        let now = Instant::now();
        if let Some((last, left_out)) = self.lines.get_mut(kind)
            && now.duration_since(*last) < QUIET
        {
            *left_out += 1;
            return;
        }
        let left_out = self.lines.insert(kind.to_owned(), (now, 0)).map_or(0, |(_, count)| count);
        let more = if left_out > 0 { format!(" ({left_out} more before)") } else { String::new() };
        eprintln!("headworks-store: {}{more}", words());
    }
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request of a volume has failed.
    pub fn failed(&self, volume: &str, what: &str, error: &io::Error) {
        let symbol = symbol(error);
        let mut inner = self.lock();
        inner.line(&format!("{volume} {symbol}"), || {
            format!("a {what} of volume `{volume}` has failed: {error}")
        });
        *inner.failed.entry((volume.to_owned(), symbol)).or_default() += 1;
    }

    /// A client was not served.
    pub fn unserved(&self, config: Option<&Config>, client: Unserved) {
        let (reason, words) = match client {
            Unserved::Full { origin, has } => {
                let most = config.map_or(0, |config| config.connections);
                let words = format!(
                    "all {most} connections are taken: {} is turned away, and has {has} of them\n  \
                     raise `connections`, or end some: headworks store status; ss -xtp",
                    place(origin)
                );
                ("full", words)
            }
            Unserved::Handshake { peer, why } => match reason(config, peer, why) {
                Some((reason, words)) => {
                    (reason, format!("{} is not served: {words}", place(peer.origin)))
                }
                None => return,
            },
        };
        let mut inner = self.lock();
        *inner.refused.entry(reason).or_default() += 1;
        inner.line(reason, || words);
    }

    /// Clients that were not served, by reason.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.lock().refused.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// Requests that failed.
    pub fn failures(&self) -> Vec<Failed> {
        let inner = self.lock();
        let one = |((volume, error), count): (&(String, String), &u64)| Failed {
            volume: volume.clone(),
            error: error.clone(),
            count: *count,
        };
        inner.failed.iter().map(one).collect()
    }
}

fn place(origin: Origin) -> String {
    match origin {
        Origin::Unix { uid } => format!("user {uid} of this machine"),
        Origin::Tcp(address) => address.to_string(),
    }
}

fn symbol(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "ENOSPC".to_owned(),
        Some(libc::EIO) => "EIO".to_owned(),
        Some(libc::EDQUOT) => "EDQUOT".to_owned(),
        Some(libc::EROFS) => "EROFS".to_owned(),
        Some(libc::ENXIO) => "ENXIO".to_owned(),
        Some(errno) => format!("errno {errno}"),
        None => "other".to_owned(),
    }
}

/// Why a client is not served, as a key and in words. None if it left, which is its right.
fn reason(config: Option<&Config>, peer: &Peer, why: &io::Error) -> Option<(&'static str, String)> {
    if why.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return Some(("certificate", format!("TLS: {why}")));
    }
    let is_silent = matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    if is_silent {
        return Some(("silent", "its handshake took too long".to_owned()));
    }
    // What the server itself says, and no error of a socket.
    let words = why.get_ref()?.to_string();
    if words == "the client gave up" {
        return None;
    }
    let config = config?;
    let needs_tls = config.tls.is_some() && matches!(peer.origin, Origin::Tcp(_));
    if who(config, peer).is_none() && (peer.certificate.is_some() || !needs_tls) {
        let words =
            "no [[client]] of the configuration is meant by its user, address or certificate";
        return Some(("stranger", words.to_owned()));
    }
    Some(("handshake", words))
}
