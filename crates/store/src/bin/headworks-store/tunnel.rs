//! A Unix socket for programs that speak NBD without TLS, to a store that wants it.

use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_store::tls;
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const STARTTLS: u32 = 5;
const ACK: u32 = 1;

/// Serves until it is killed.
pub fn run(args: &cli::Tunnel) -> Result<()> {
    // The end of one client must not be that of all.
    // SAFETY: no other thread exists yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // Files that are wrong are said before a client comes.
    let config = || tls::client(&args.certificate, &args.key, &args.servers);
    config()?;
    let host = args.address.rsplit_once(':').map_or(args.address.as_str(), |(host, _)| host);
    let name = args.name.clone().unwrap_or_else(|| host.trim_matches(['[', ']']).to_owned());
    if UnixStream::connect(&args.socket).is_ok() {
        bail!("a program listens there already: {}", args.socket.display());
    }
    let _ = std::fs::remove_file(&args.socket);
    let listener = UnixListener::bind(&args.socket)
        .with_context(|| format!("cannot make {}", args.socket.display()))?;
    println!("{} leads to {}", args.socket.display(), args.address);
    for client in listener.incoming().flatten() {
        // For each connection: a certificate is renewed in place before its end.
        let config = match config() {
            Ok(config) => config,
            Err(error) => {
                eprintln!("headworks-store: a client is hung up: {error}");
                continue;
            }
        };
        let (name, address) = (name.clone(), args.address.clone());
        std::thread::Builder::new().spawn(move || {
            let carried = reach(&address)
                .and_then(|wire| Ok(tls::connect(&config, &name, wire)?))
                .and_then(|plain| carry(client, plain));
            if let Err(error) = carried {
                eprintln!("headworks-store: {address}: {error:#}");
            }
        })?;
    }
    Ok(())
}

/// Connects, up to the point where TLS begins.
fn reach(address: &str) -> Result<OwnedFd> {
    let mut wire = TcpStream::connect(address)?;
    wire.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&wire, true)?;
    wire.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut hello = [0; 18];
    wire.read_exact(&mut hello)?;
    if hello[..8] != INIT_MAGIC.to_be_bytes() || hello[8..16] != OPTION_MAGIC.to_be_bytes() {
        bail!("no NBD server of the newstyle kind answers there");
    }
    let mut bytes = u32::from(hello[17] & 3).to_be_bytes().to_vec();
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(STARTTLS.to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    wire.write_all(&bytes)?;
    let mut reply = [0; 20];
    wire.read_exact(&mut reply)?;
    if reply[12..16] != ACK.to_be_bytes() {
        bail!("the server has no TLS");
    }
    Ok(wire.into())
}

/// Greets the client as the server did, then passes bytes on.
fn carry(client: UnixStream, plain: OwnedFd) -> Result<()> {
    let plain = UnixStream::from(plain);
    let mut hello = INIT_MAGIC.to_be_bytes().to_vec();
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(3_u16.to_be_bytes());
    (&client).write_all(&hello)?;
    // The client's flags: the server has heard the tunnel's.
    let mut flags = [0; 4];
    (&client).read_exact(&mut flags)?;
    if flags != 3_u32.to_be_bytes() {
        bail!("a client without the flags of fixed newstyle, or without NO_ZEROES");
    }
    let (mut from, mut to) = (client.try_clone()?, plain.try_clone()?);
    let up = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut &plain, &mut &client);
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = up.join();
    Ok(())
}
