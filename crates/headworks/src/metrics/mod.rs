//! Figures for Prometheus, by HTTP. They are served on a Unix socket that only the database's user
//! and root may open, and on TCP if the configuration asks for it.
//!
//! Each scrape takes its own copy of the region. Ratios (unfairness, variation) cover the time
//! since the last scrape.

mod collect;
mod files;
mod http;
mod out;

use crate::instance::Instance;
use crate::io::Files;
use anyhow::{Context, Result, bail};
use collect::Figures;
use files::{FileFigures, Moved};
use headworks_region::snapshot::Snapshot;
use headworks_region::{Mapping, clock};
use http::{Answer, Listener, Server};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError};

/// Type of the format, for scrapers.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the figures come from.
#[derive(Debug)]
struct Source {
    instance: Instance,
    region: Mapping,
    before: Mutex<Before>,
}

/// What the last scrape saw.
#[derive(Debug, Default)]
struct Before {
    gate: Option<Arc<Snapshot>>,
    files: Option<Files>,
    /// By name of threads, since the first scrape: threads end, and their counters with them.
    moved: Moved,
}

/// The servers that are open.
pub struct Metrics {
    source: Arc<Source>,
    tcp: Option<Tcp>,
}

/// A server by TCP.
struct Tcp {
    address: SocketAddr,
    server: Server,
}

impl Tcp {
    fn open(address: SocketAddr, source: &Arc<Source>) -> Result<Tcp> {
        let listener = Listener::Tcp(TcpListener::bind(address)?);
        Ok(Tcp { address, server: serve(listener, source.clone())? })
    }

    fn close(self) {
        self.server.close();
    }
}

impl Metrics {
    /// Opens the Unix socket of an instance.
    pub fn start(instance: &Instance, region: Mapping) -> Result<Metrics> {
        let path = instance.metrics_path();
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        let source =
            Arc::new(Source { instance: instance.clone(), region, before: Mutex::default() });
        serve(Listener::Unix(listener), source.clone()).context("cannot serve metrics")?;
        Ok(Metrics { source, tcp: None })
    }

    /// Opens, moves or closes the TCP port. If the new address is not available, the old one stays.
    pub fn listen(&mut self, wanted: Option<SocketAddr>) -> Result<()> {
        if self.address() == wanted {
            return Ok(());
        }
        let Some(address) = wanted else {
            self.tcp.take().into_iter().for_each(Tcp::close);
            return Ok(());
        };
        let mut opened = Tcp::open(address, &self.source);
        // From 127.0.0.1 to 0.0.0.0, our own port would be in the way.
        let same_port = |tcp: &mut Tcp| tcp.address.port() == address.port();
        if opened.is_err()
            && let Some(own) = self.tcp.take_if(same_port)
        {
            let before = own.address;
            own.close();
            opened = Tcp::open(address, &self.source);
            if opened.is_err() {
                self.tcp = Tcp::open(before, &self.source).ok();
            }
        }
        match opened {
            Ok(tcp) => {
                self.tcp.replace(tcp).into_iter().for_each(Tcp::close);
                Ok(())
            }
            Err(error) => {
                let stays = match self.address() {
                    Some(address) => format!("http://{address}/metrics and the Unix socket serve"),
                    None => "the Unix socket serves".to_owned(),
                };
                bail!(
                    "cannot serve metrics on {address}: {error}\n  {stays} them meanwhile\n  \
                     free the port (who has it: ss -ltnp), or choose another address (`metrics` in the configuration), \
                     then: headworks reload --name {}",
                    self.source.instance.name
                )
            }
        }
    }

    /// The TCP address, if one is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|tcp| tcp.address)
    }
}

fn serve(listener: Listener, source: Arc<Source>) -> std::io::Result<Server> {
    Server::start(listener, move |method, path| answer(method, path, &source))
}

fn answer(method: &str, path: &str, source: &Source) -> Answer {
    if !["GET", "HEAD"].contains(&method) {
        return Answer::plain("405 Method Not Allowed", "GET /metrics\n");
    }
    if path != "/metrics" {
        return Answer::plain("404 Not Found", "see /metrics\n");
    }
    let body = source.text().unwrap_or_else(|_| "# EOF\n".to_owned());
    Answer { status: "200 OK", kind: CONTENT_TYPE, body }
}

impl Source {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut last = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Arc::new(self.region.figures(clock::now()));
        let before = last.gate.replace(now.clone()).unwrap_or_else(|| now.clone());
        let files = Files::read(&self.instance);
        if let Some(files) = &files {
            let Before { files: before, moved, .. } = &mut *last;
            moved.add(before.as_ref(), files);
            *before = Some(files.clone());
        }
        let files = files.map(|files| FileFigures::new(files, last.moved.clone()));
        drop(last);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Figures::new(&self.instance.name, &before, now)));
        if let Some(files) = files {
            registry.register_collector(Box::new(files));
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let source = Source {
            instance: Instance { name: "db".to_owned(), dir: "/nowhere".into() },
            region: crate::views::region(),
            before: Mutex::default(),
        };
        Metrics { source: Arc::new(source), tcp: None }
    }

    fn free() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    fn is_served(address: SocketAddr) -> bool {
        std::net::TcpStream::connect(address).is_ok()
    }

    #[test]
    fn an_address_that_cannot_be_had_leaves_the_one_before() {
        let mut metrics = metrics();
        let first = free();
        metrics.listen(Some(first)).unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let second = taken.local_addr().unwrap();
        let error = metrics.listen(Some(second)).unwrap_err().to_string();
        for part in [
            format!("cannot serve metrics on {second}"),
            format!("http://{first}/metrics and the Unix socket serve"),
            "headworks reload --name db".to_owned(),
        ] {
            assert!(error.contains(&part), "{error}");
        }
        assert_eq!(metrics.address(), Some(first));
        assert!(is_served(first));
        drop(taken);
        // A child that another test forks has it for a moment, too.
        let begun = std::time::Instant::now();
        while let Err(error) = metrics.listen(Some(second)) {
            assert!(begun.elapsed().as_secs() < 20, "{error}");
        }
        assert!(is_served(second) && !is_served(first));
        metrics.listen(None).unwrap();
        assert!(!is_served(second));
    }

    #[test]
    fn a_port_of_ones_own_is_not_in_the_way() {
        let mut metrics = metrics();
        let narrow = free();
        let wide = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), narrow.port());
        for address in [narrow, wide, narrow] {
            metrics.listen(Some(address)).unwrap();
            assert_eq!(metrics.address(), Some(address));
            assert!(is_served(narrow), "{address}");
        }
        // An address that this machine does not have, with the same port: metrics stay at the old
        // one.
        let nowhere = SocketAddr::new([192, 0, 2, 1].into(), narrow.port());
        metrics.listen(Some(nowhere)).unwrap_err();
        assert_eq!(metrics.address(), Some(narrow));
        assert!(is_served(narrow));
    }
}
