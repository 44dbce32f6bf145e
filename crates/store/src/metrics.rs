//! Figures for Prometheus: its text format, and the little HTTP that a scrape needs.

use crate::control::{AppStatus, Status};
use crate::governor::Fares;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Scrapers that are served at a time.
const CLIENTS_MAX: usize = 8;

/// The text of a scrape.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    one(
        "headworks_store_connections",
        "gauge",
        "Clients that are connected.",
        status.connections as f64,
    );
    one(
        "headworks_store_turned_away_total",
        "counter",
        "Connections that were refused.",
        status.turned_away as f64,
    );
    one(
        "headworks_store_depth",
        "gauge",
        "Requests with the device, at most.",
        status.depth.into(),
    );
    one(
        "headworks_store_best_effort_depth",
        "gauge",
        "Of them best effort.",
        status.best_effort_depth.into(),
    );
    one(
        "headworks_store_epoch_total",
        "counter",
        "How often shares have changed.",
        status.epoch as f64,
    );
    one(
        "headworks_store_connections_max",
        "gauge",
        "Clients that may be connected.",
        status.connections_max as f64,
    );
    let name = "headworks_store_refused_total";
    let _ = writeln!(text, "# HELP {name} Clients that were not served.\n# TYPE {name} counter");
    for (reason, count) in &status.refused {
        let _ = writeln!(text, "{name}{{reason=\"{reason}\"}} {count}");
    }
    let name = "headworks_store_failed_requests_total";
    let _ = writeln!(text, "# HELP {name} Requests that failed.\n# TYPE {name} counter");
    for failed in &status.failed {
        let (volume, error, count) = (&failed.volume, &failed.error, failed.count);
        let _ = writeln!(text, "{name}{{volume=\"{volume}\",error=\"{error}\"}} {count}");
    }
    let ios = ["read", "write", "flush", "other"];
    for (name, kind, help, of) in FAMILIES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for app in &status.applications {
            let _ = writeln!(text, "{name}{{application=\"{}\"}} {}", app.name, of(app));
        }
    }
    let name = "headworks_store_requests_total";
    let _ = writeln!(text, "# HELP {name} Requests that were completed.\n# TYPE {name} counter");
    for app in &status.applications {
        for (kind, count) in ios.iter().zip(app.ios) {
            let _ =
                writeln!(text, "{name}{{application=\"{}\",kind=\"{kind}\"}} {count}", app.name);
        }
    }
    text
}

type Family = (&'static str, &'static str, &'static str, fn(&AppStatus) -> f64);

const FAMILIES: [Family; 9] = [
    ("headworks_store_share", "gauge", "Share of the device that is granted.", |app| app.share),
    ("headworks_store_need", "gauge", "Share that the target needs, as learned.", |app| app.need),
    ("headworks_store_used", "gauge", "Share that was used in the last second.", |app| {
        app.last.used
    }),
    ("headworks_store_dft", "gauge", "Deviation from target in the last second.", |app| {
        app.last.dft.unwrap_or(f64::NAN)
    }),
    ("headworks_store_shortfall", "gauge", "Part of the target that is missing.", |app| match app
        .fares
    {
        Fares::Behind { shortfall }
        | Fares::NoRoom { shortfall, .. }
        | Fares::NotStorage { shortfall } => shortfall,
        Fares::BestEffort | Fares::Unknown | Fares::Met | Fares::Sated { .. } | Fares::Silent => {
            0.0
        }
    }),
    ("headworks_store_in_flight_bytes", "gauge", "Bytes of requests in flight.", |app| {
        app.bytes as f64
    }),
    ("headworks_store_bytes_total", "counter", "Bytes read and written.", |app| {
        app.bytes_total as f64
    }),
    ("headworks_store_wait_seconds_total", "counter", "Time of requests in the queue.", |app| {
        app.waited_s
    }),
    (
        "headworks_store_service_seconds_total",
        "counter",
        "Time of requests with the device.",
        |app| app.service_s,
    ),
];

/// A server of metrics, until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl Metrics {
    /// Serves what `text` returns at each scrape.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> std::io::Result<Metrics> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let metrics = Metrics { address, closed: Arc::default() };
        let closed = Arc::clone(&metrics.closed);
        let (text, clients) = (Arc::new(text), Arc::new(AtomicUsize::new(0)));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            loop {
                let accepted = listener.accept();
                if closed.load(Ordering::Acquire) {
                    return;
                }
                let Ok((stream, _)) = accepted else {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
                    clients.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                let (text, clients) = (Arc::clone(&text), Arc::clone(&clients));
                std::thread::spawn(move || {
                    // Errors of a scraper concern only that scraper.
                    let _ = answer(stream, &*text);
                    clients.fetch_sub(1, Ordering::AcqRel);
                });
            }
        })?;
        Ok(metrics)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the thread, which then ends.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

fn answer(mut stream: TcpStream, text: impl Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut head = [0; 1024];
    let count = stream.read(&mut head)?;
    let known = head[..count].starts_with(b"GET /metrics");
    let (status, body) =
        if known { ("200 OK", text()) } else { ("404 Not Found", "see /metrics\n".to_owned()) };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
