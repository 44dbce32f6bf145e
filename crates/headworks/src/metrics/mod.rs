//! Figures for Prometheus, by HTTP: on a Unix socket that only the database's user and root may
//! open, and on TCP if the configuration asks for it.
//!
//! Each scrape takes its own copy of the region. Ratios (unfairness, variation) are of the time since
//! the scrape before.

mod collect;

use crate::instance::Instance;
use anyhow::{Context, Result, anyhow};
use collect::Figures;
use headworks_region::snapshot::Snapshot;
use headworks_region::{Mapping, clock};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::net::{SocketAddr, TcpListener};
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
    tcp: Option<(SocketAddr, Arc<Server>)>,
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

    /// Opens, moves or closes the TCP port. If it cannot be opened, there is none.
    pub fn listen(&mut self, wanted: Option<SocketAddr>) -> Result<()> {
        if self.tcp.as_ref().map(|(address, _)| *address) == wanted {
            return Ok(());
        }
        if let Some((_, server)) = self.tcp.take() {
            server.unblock();
        }
        let Some(address) = wanted else { return Ok(()) };
        let listener = TcpListener::bind(address).with_context(|| {
            format!(
                "cannot serve metrics on {address}: choose another address (`metrics` in the configuration) and \
                 reload; the Unix socket serves them meanwhile"
            )
        })?;
        let server = server(listener)?;
        serve(server.clone(), self.source.clone());
        self.tcp = Some((address, server));
        Ok(())
    }

    /// The TCP address, if one is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|(address, _)| *address)
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
