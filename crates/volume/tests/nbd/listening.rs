//! Sockets, ports, and how many may come.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use headworks_volume::nbd::export::Mode;
use headworks_volume::nbd::{Export, Exports, Limits, Listener, Stop, serve};

use crate::raw::{Client, hello};
use crate::served::{Folder, MIB, Served, is_gone, memory, wait_until};

#[test]
fn a_socket_that_a_dead_server_left_is_replaced_and_a_live_one_is_not() {
    let folder = Folder::new();
    let path = folder.0.join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(!is_gone(&path), "a listener leaves its socket behind");
    // A child that another test forks has it for a moment, too.
    let begun = Instant::now();
    let listener = loop {
        match Listener::unix(&path) {
            Ok(listener) => break listener,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
    };
    let refused = Listener::unix(&path).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AddrInUse);
    assert!(refused.to_string().contains("a server is there already"), "{refused}");
    drop(listener);
    assert!(is_gone(&path));
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = Folder::new();
    let path = folder.0.join("file");
    std::fs::write(&path, "precious").unwrap();
    let refused = Listener::unix(&path).unwrap_err();
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert!(Listener::unix(folder.0.join("missing/socket")).is_err());
}

#[test]
fn a_socket_that_became_another_servers_is_left_alone() {
    let folder = Folder::new();
    let path = folder.0.join("socket");
    let first = Listener::unix(&path).unwrap();
    // The second is bound before the first one's file goes, so the inodes differ.
    let moved = folder.0.join("moved");
    std::fs::rename(&path, &moved).unwrap();
    let second = Listener::unix(&path).unwrap();
    drop(first);
    assert!(!is_gone(&path));
    drop(second);
    assert!(is_gone(&path));
}

#[test]
fn clients_come_by_tcp_too() {
    let listener = Listener::tcp("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let exports = Exports::new(vec![Export::new("data", memory(MIB))]).unwrap();
    let stop = Stop::new().unwrap();
    let own = stop.clone();
    let thread = std::thread::spawn(move || serve(listener, exports, Limits::default(), &own));
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&hello(Mode::Simple, "data")).unwrap();
    let mut greeting = [0; 18 + 20 + 12 + 20];
    socket.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..8], b"NBDMAGIC");
    assert_eq!(stop.counts().connections, 1);
    stop.stop();
    thread.join().unwrap().unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

#[test]
fn too_many_clients_are_turned_away_until_one_goes() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let served = Served::with(vec![Export::new("data", memory(MIB))], limits);
    let mut first = Client::new(&served.path, Mode::Simple, "data");
    // One in its handshake counts.
    let second = Client::mute(&served.path);
    wait_until(|| served.counts().connections == 2, || format!("{:?}", served.counts()));
    let mut third = Client::mute(&served.path);
    assert_eq!(third.read(&mut [0]).unwrap(), 0);
    assert_eq!(served.counts().turned_away, 1);
    assert_eq!(first.read(0, 512), [0; 512]);
    drop(second);
    wait_until(|| served.counts().connections == 1, || format!("{:?}", served.counts()));
    Client::new(&served.path, Mode::Simple, "data").read(0, 512);
}
