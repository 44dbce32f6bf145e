//! Figures for Prometheus, by HTTP: on a Unix socket that only the database's user and root may
//! open, and on TCP if the configuration asks for it.
//!
//! Each scrape takes its own copy of the region. Ratios (unfairness, variation) are of the time since
//! the scrape before.

mod collect;

use crate::instance::Instance;
use anyhow::{Context, Result, anyhow, bail};
use collect::Figures;
use headworks_region::snapshot::Snapshot;
use headworks_region::{Mapping, clock};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use tiny_http::{Header, Method, Request, Response, Server};

/// What a scraper is told of the format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the figures come from.
#[derive(Debug)]
struct Source {
    instance: String,
    region: Mapping,
    before: Mutex<Option<Snapshot>>,
}

/// The servers that are open.
pub struct Metrics {
    source: Arc<Source>,
    tcp: Option<Tcp>,
}

/// A server by TCP.
struct Tcp {
    address: SocketAddr,
    /// The socket on which the server listens: to be able to close it at once.
    socket: TcpListener,
    server: Arc<Server>,
}

impl Tcp {
    fn open(address: SocketAddr, source: &Arc<Source>) -> Result<Tcp> {
        let socket = TcpListener::bind(address)?;
        let server = server(socket.try_clone()?)?;
        serve(server.clone(), source.clone());
        Ok(Tcp { address, socket, server })
    }

    /// Its port is free when this returns. The server by itself would only look around when the next client comes.
    fn close(self) {
        // SAFETY: the descriptor is open, and its owner does not read from it.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        self.server.unblock();
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
            Arc::new(Source { instance: instance.name.clone(), region, before: Mutex::new(None) });
        serve(server(listener)?, source.clone());
        Ok(Metrics { source, tcp: None })
    }

    /// Opens, moves or closes the TCP port. If the new address cannot be had, the one before stays.
    pub fn listen(&mut self, wanted: Option<SocketAddr>) -> Result<()> {
        if self.address() == wanted {
            return Ok(());
        }
        let Some(address) = wanted else {
            self.tcp.take().into_iter().for_each(Tcp::close);
            return Ok(());
        };
        let mut opened = Tcp::open(address, &self.source);
        // From 127.0.0.1 to 0.0.0.0 we are in our own way.
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
                    self.source.instance
                )
            }
        }
    }

    /// The TCP address, if one is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|tcp| tcp.address)
    }
}

fn server(listener: impl Into<tiny_http::Listener>) -> Result<Arc<Server>> {
    let server = Server::from_listener(listener, None)
        .map_err(|error| anyhow!("cannot serve metrics: {error}"))?;
    Ok(Arc::new(server))
}

/// Answers on a thread of its own until the server is unblocked.
fn serve(server: Arc<Server>, source: Arc<Source>) {
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            // A scraper that hangs up is its own problem.
            let _ = answer(request, &source);
        }
    });
}

fn answer(request: Request, source: &Source) -> std::io::Result<()> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(Response::from_string("GET /metrics\n").with_status_code(405));
    }
    let path = request.url().split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return request.respond(Response::from_string("see /metrics\n").with_status_code(404));
    }
    let text = source.text().unwrap_or_else(|_| "# EOF\n".to_owned());
    let kind = Header::from_bytes("Content-Type", CONTENT_TYPE);
    let mut response = Response::from_string(text);
    if let Ok(kind) = kind {
        response.add_header(kind);
    }
    request.respond(response)
}

impl Source {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let now = self.region.snapshot(clock::now());
        let mut last = match self.before.lock() {
            Ok(last) => last,
            Err(poisoned) => poisoned.into_inner(),
        };
        let before = last.replace(now.clone()).unwrap_or_else(|| now.clone());
        drop(last);
        text(&self.instance, &before, now)
    }
}

/// The text of a scrape.
fn text(instance: &str, before: &Snapshot, now: Snapshot) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Figures::new(instance, before, now)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let source = Source {
            instance: "db".to_owned(),
            region: crate::views::region(),
            before: Mutex::new(None),
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
        metrics.listen(Some(second)).unwrap();
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
        // An address that this machine does not have, with the same port: it stays where it was.
        let nowhere = SocketAddr::new([192, 0, 2, 1].into(), narrow.port());
        metrics.listen(Some(nowhere)).unwrap_err();
        assert_eq!(metrics.address(), Some(narrow));
        assert!(is_served(narrow));
    }
}
