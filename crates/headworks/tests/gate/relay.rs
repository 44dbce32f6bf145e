//! A relay between one client and the server: connects from any address of the loopback network,
//! and records what the server says.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::sync::{Arc, Mutex};
use std::thread;

use headworks_rig::{ACCOUNT, Address, ConnectOptions, DATABASE, Server};

/// Serves one connection.
pub struct Relay {
    address: SocketAddr,
    record: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    /// A relay to `server` that connects from `source`.
    pub fn new(server: &Server, source: Ipv4Addr) -> Relay {
        Relay::with_header(server, source, &[])
    }

    /// The same, with these bytes before those of the client.
    pub fn with_header(server: &Server, source: Ipv4Addr, header: &[u8]) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = Relay { address: listener.local_addr().unwrap(), record: Arc::default() };
        let (port, record) = (server.port(), Arc::clone(&relay.record));
        let header = header.to_vec();
        thread::spawn(move || {
            let client = listener.accept().unwrap().0;
            let mut server = connect_from(source, port).unwrap();
            server.write_all(&header).unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pass_on(from, to, |_| {}));
            pass_on(server, client, |bytes| {
                record.lock().unwrap().extend_from_slice(bytes);
            });
        });
        relay
    }

    /// Connects through the relay, as an ordinary account.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions::new(Address::Tcp(self.address), ACCOUNT).database(DATABASE)
    }

    /// Everything that the server has said. What the client has read is in it.
    pub fn recorded(&self) -> Vec<u8> {
        self.record.lock().unwrap().clone()
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        see(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn connect_from(source: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let address = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let size = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
    let (own, servers) = (address(source, 0), address(Ipv4Addr::LOCALHOST, port));
    // SAFETY: a new descriptor has no other owner; both addresses outlive the calls, and `size` is
    // theirs.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let stream = TcpStream::from_raw_fd(socket);
        if libc::bind(socket, (&raw const own).cast(), size) != 0
            || libc::connect(socket, (&raw const servers).cast(), size) != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(stream)
    }
}
