//! The part of HTTP that a scrape needs.
//!
//! Every process that can reach the port may connect. So a client has two seconds for its request
//! and as long for the answer, and only a few are served at a time. If descriptors run out, the
//! server waits until some are free.

use crate::control::{read_until, write_all};
use std::io::{Error, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Clients that are served at once; others get an error and may retry.
const CLIENTS_MAX: usize = 16;

/// Time until the next attempt after `accept` failed.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// An answer: its status, the type of its body, and the body.
pub(super) struct Answer {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    pub fn plain(status: &'static str, body: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.to_owned() }
    }

    fn bytes(&self, with_body: bool) -> Vec<u8> {
        let Answer { status, kind, body } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let body = if with_body { body.as_str() } else { "" };
        (head + body).into_bytes()
    }
}

/// A socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// A connection, whatever its family: reads and writes are the same for both.
    fn accept(&self) -> std::io::Result<UnixStream> {
        Ok(match self {
            Listener::Tcp(listener) => OwnedFd::from(listener.accept()?.0).into(),
            Listener::Unix(listener) => listener.accept()?.0,
        })
    }

    fn fd(&self) -> i32 {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix(listener) => listener.as_raw_fd(),
        }
    }
}

/// A server, until it is closed.
pub(super) struct Server {
    listener: Arc<Listener>,
    closed: Arc<AtomicBool>,
}

impl Server {
    /// Serves on its own threads. `answer` gets the method and the path.
    pub fn start(
        listener: Listener,
        answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static,
    ) -> std::io::Result<Server> {
        let server = Server { listener: Arc::new(listener), closed: Arc::default() };
        let (listener, closed) = (server.listener.clone(), server.closed.clone());
        let answer = Arc::new(answer);
        let clients = Arc::new(AtomicUsize::new(0));
        std::thread::Builder::new().spawn(move || {
            while !closed.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok(stream) => admit(stream, &clients, &answer),
                    Err(error) => std::thread::sleep(pause_after(&error)),
                }
            }
        })?;
        Ok(server)
    }

    /// Its address is free when this returns.
    pub fn close(self) {
        self.closed.store(true, Ordering::SeqCst);
        // SAFETY: the descriptor is open. A thread that waits in `accept` returns with an error.
        unsafe { libc::shutdown(self.listener.fd(), libc::SHUT_RDWR) };
    }
}

/// After a client that left there is no pause. Other errors may last, such as a lack of
/// descriptors.
fn pause_after(error: &Error) -> Duration {
    match error.raw_os_error() {
        Some(libc::ECONNABORTED | libc::EINTR) => Duration::ZERO,
        _ => RETRY_INTERVAL,
    }
}

fn admit<A>(stream: UnixStream, clients: &Arc<AtomicUsize>, answer: &Arc<A>)
where
    A: Fn(&str, &str) -> Answer + Send + Sync + 'static,
{
    if clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS_MAX {
        clients.fetch_sub(1, Ordering::SeqCst);
        let busy = Answer::plain("503 Service Unavailable", "too many clients: come again\n");
        let _ = (&stream).write(&busy.bytes(true));
        return;
    }
    let place = Place(clients.clone());
    let answer = answer.clone();
    // Without a thread for it, the client sees its connection close.
    let _ = std::thread::Builder::new().spawn(move || {
        let _place = place;
        // Errors of a scraper concern only that scraper.
        let _ = serve(&stream, &*answer);
    });
}

/// One of the clients served at a time, until dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(stream: &UnixStream, answer: impl Fn(&str, &str) -> Answer) -> anyhow::Result<()> {
    let head = read_until(stream, |bytes| bytes.windows(4).any(|end| end == b"\r\n\r\n"))?;
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split_ascii_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        let what = Answer::plain("400 Bad Request", "GET /metrics\n");
        return write_all(stream, &what.bytes(true));
    };
    let path = target.split('?').next().unwrap_or_default();
    write_all(stream, &answer(method, path).bytes(method != "HEAD"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{SocketAddr, TcpStream};

    fn server() -> (Server, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer =
            |method: &str, path: &str| Answer::plain("200 OK", &format!("{method} {path}"));
        (Server::start(Listener::Tcp(listener), answer).unwrap(), address)
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        read(stream)
    }

    fn read(mut stream: TcpStream) -> String {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn a_request_is_answered_whatever_it_is() {
        let (server, address) = server();
        let answer = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: gate\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains("Content-Length: 12\r\n") && answer.ends_with("\r\n\r\nGET /metrics")
        );
        assert!(ask(address, "HEAD /x HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, "\r\n\r\n").starts_with("HTTP/1.1 400"));
        server.close();
    }

    #[test]
    fn silent_clients_take_the_places_only_for_a_while() {
        let (server, address) = server();
        let silent: Vec<TcpStream> =
            (0..CLIENTS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        // They were accepted in order, so this one is refused; its request is not needed.
        let busy = read(TcpStream::connect(address).unwrap());
        assert!(busy.starts_with("HTTP/1.1 503"), "{busy}");
        // Each connection is closed soon, without an answer.
        for stream in silent {
            assert_eq!(read(stream), "");
        }
        while !ask(address, "GET /x HTTP/1.1\r\n\r\n").ends_with("GET /x") {}
        server.close();
    }
}
