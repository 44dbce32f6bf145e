//! TLS for a connection: a thread stands between the client's socket and a plain one, so that
//! nothing else knows of it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a handshake may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that stand between the two sockets, in each direction.
const BETWEEN_BYTES: usize = 64 << 10;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is no PEM.
    #[error("{path}: {problem}\n  see what it is: openssl x509 -in {path} -text")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The parts do not fit.
    #[error("TLS cannot be set up: {0}")]
    Parts(String),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |problem: String| TlsError::File { path: path.to_owned(), problem };
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?.collect();
    let all = all.map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("it has no certificate".into())) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| TlsError::File { path: path.to_owned(), problem: error.to_string() })
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::Parts(error.to_string()))?;
    }
    Ok(roots)
}

fn parts(error: impl std::fmt::Display) -> TlsError {
    TlsError::Parts(error.to_string())
}

/// The store's side: clients must show a certificate that is signed by one of `clients`.
///
/// # Errors
/// A file is missing or wrong.
pub fn server(
    certificate: &Path,
    own_key: &Path,
    clients: &Path,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots(clients)?),
        Arc::clone(&provider),
    )
    .build()
    .map_err(parts)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(parts)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(certificate)?, key(own_key)?)
        .map_err(parts)?;
    Ok(Arc::new(config))
}

/// A client's side.
///
/// # Errors
/// A file is missing or wrong.
pub fn client(
    certificate: &Path,
    own_key: &Path,
    servers: &Path,
) -> Result<Arc<ClientConfig>, TlsError> {
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(parts)?
            .with_root_certificates(roots(servers)?)
            .with_client_auth_cert(certificates(certificate)?, key(own_key)?)
            .map_err(parts)?;
    Ok(Arc::new(config))
}

/// Whether a certificate is for this DNS name.
pub fn is_for(certificate: &[u8], name: &str) -> bool {
    let certificate = CertificateDer::from(certificate);
    let (Ok(parsed), Ok(name)) =
        (ParsedCertificate::try_from(&certificate), ServerName::try_from(name))
    else {
        return false;
    };
    rustls::client::verify_server_name(&parsed, &name).is_ok()
}

/// A client's socket begins TLS: its plain bytes, and the client's certificate.
///
/// # Errors
/// The client shows no certificate that is accepted, or is silent.
pub fn accept(config: &Arc<ServerConfig>, wire: OwnedFd) -> io::Result<(OwnedFd, Option<Vec<u8>>)> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let (plain, connection) = begin(Connection::Server(connection), wire)?;
    Ok((plain, connection))
}

/// Begins TLS with the server `name`: the plain bytes.
///
/// # Errors
/// The server is not the one of this name, or does not accept the certificate.
pub fn connect(config: &Arc<ClientConfig>, name: &str, wire: OwnedFd) -> io::Result<OwnedFd> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    Ok(begin(Connection::Client(connection), wire)?.0)
}

fn begin(mut connection: Connection, wire: OwnedFd) -> io::Result<(OwnedFd, Option<Vec<u8>>)> {
    let mut wire = TcpStream::from(wire);
    wire.set_read_timeout(Some(PATIENCE))?;
    wire.set_write_timeout(Some(PATIENCE))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut wire)?;
    }
    let certificate =
        connection.peer_certificates().and_then(|all| all.first()).map(|first| first.to_vec());
    let (plain, own) = UnixStream::pair()?;
    wire.set_nonblocking(true)?;
    own.set_nonblocking(true)?;
    std::thread::Builder::new().name("store-tls".to_owned()).spawn(move || {
        // An end of the connection, in whatever way, ends both sockets. By TLS 1.3 a client learns
        // only here that its certificate is refused.
        if let Err(error) = relay(&mut connection, &wire, &own)
            && error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
        {
            let peer = wire.peer_addr().map_or_else(|_| "gone".to_owned(), |peer| peer.to_string());
            eprintln!("headworks-store: TLS with {peer}: {error}");
        }
        let _ = wire.shutdown(Shutdown::Both);
    })?;
    Ok((plain.into(), certificate))
}

/// Passes bytes on in both directions until one side ends.
fn relay(tls: &mut Connection, mut wire: &TcpStream, mut plain: &UnixStream) -> io::Result<()> {
    let mut bytes = vec![0; BETWEEN_BYTES];
    // Plain bytes for `plain` that it has not taken: from, to.
    let mut held = (0, 0);
    let mut out = vec![0; BETWEEN_BYTES];
    let mut ended = false;
    loop {
        let mut moved = false;
        if held.0 == held.1 {
            match tls.reader().read(&mut out) {
                Ok(0) => return Ok(()),
                Ok(count) => held = (0, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if ended && !tls.wants_write() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // Not without bytes: at a plain end that is closed that fails too, and what it has
        // said would be lost.
        if held.0 < held.1
            && let Some(count) = tried(plain.write(&out[held.0..held.1]))?
        {
            held.0 += count;
            moved |= count > 0;
        }
        if !tls.wants_write()
            && let Some(count) = tried(plain.read(&mut bytes))?
        {
            if count == 0 {
                tls.send_close_notify();
                wire.set_nonblocking(false)?;
                while tls.wants_write() {
                    tls.write_tls(&mut wire)?;
                }
                return Ok(());
            }
            tls.writer().write_all(&bytes[..count])?;
            moved = true;
        }
        while tls.wants_write() {
            let Some(count) = tried(tls.write_tls(&mut wire))? else { break };
            moved |= count > 0;
        }
        if held.0 == held.1
            && !ended
            && tls.wants_read()
            && let Some(count) = tried(tls.read_tls(&mut wire))?
        {
            ended = count == 0;
            tls.process_new_packets().map_err(io::Error::other)?;
            moved = true;
        }
        if !moved {
            wait(tls, wire, plain, held.0 < held.1)?;
        }
    }
}

/// None if it would have to wait.
fn tried(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
        Err(error) => Err(error),
    }
}

fn wait(tls: &Connection, wire: &TcpStream, plain: &UnixStream, held: bool) -> io::Result<()> {
    let mut on_wire = PollFlags::empty();
    on_wire.set(PollFlags::IN, !held);
    on_wire.set(PollFlags::OUT, tls.wants_write());
    let mut on_plain = PollFlags::empty();
    on_plain.set(PollFlags::IN, !tls.wants_write());
    on_plain.set(PollFlags::OUT, held);
    let mut fds = [PollFd::new(wire, on_wire), PollFd::new(plain, on_plain)];
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    // A plain end that is closed takes nothing any more.
    if held && fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}
