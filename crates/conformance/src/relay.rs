//! A relay between a client and a server that writes down what passes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::Result;

/// What passed over one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// From the client.
    pub client: Vec<u8>,
    /// From the server.
    pub server: Vec<u8>,
}

/// Time that connections have to end after their client has ended.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

type Record = Arc<Mutex<Vec<Conversation>>>;

/// Listens on its own port until it is dropped.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    ended: Arc<AtomicBool>,
    record: Record,
    listener: Option<JoinHandle<()>>,
}

impl Relay {
    /// A relay to `port` on 127.0.0.1.
    pub fn start(port: u16) -> Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let own = listener.local_addr()?.port();
        let (ended, record) = (Arc::new(AtomicBool::new(false)), Record::default());
        let (stop, notes) = (Arc::clone(&ended), Arc::clone(&record));
        let listener = spawn(move || {
            let (mut connections, mut sockets) = (Vec::new(), Vec::new());
            for client in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(client) = client else { continue };
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                let number = {
                    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                    notes.push(Conversation::default());
                    notes.len() - 1
                };
                sockets.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
                connections.extend(both_ways(client, server, &notes, number));
            }
            // The client has ended. A server that streams notices that only when it sends again.
            let begun = Instant::now();
            while begun.elapsed() < SHUTDOWN_GRACE
                && !connections.iter().all(JoinHandle::is_finished)
            {
                sleep(Duration::from_millis(2));
            }
            for socket in sockets {
                let _ = socket.shutdown(Shutdown::Both);
            }
            for connection in connections {
                let _ = connection.join();
            }
        });
        Ok(Relay { port: own, ended, record, listener: Some(listener) })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until every connection has ended, and returns what passed over each, in the order of
    /// their beginnings.
    pub fn finish(mut self) -> Vec<Conversation> {
        self.end();
        std::mem::take(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = listener.join();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

fn both_ways(
    client: TcpStream,
    server: TcpStream,
    record: &Record,
    number: usize,
) -> Vec<JoinHandle<()>> {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else {
        return Vec::new();
    };
    let (up, down) = (Arc::clone(record), Arc::clone(record));
    vec![
        spawn(move || {
            copy(client, server, |bytes| note(&up, number, |one| one.client.extend(bytes)));
        }),
        spawn(move || {
            copy(server_too, client_too, |bytes| {
                note(&down, number, |one| one.server.extend(bytes));
            });
        }),
    ]
}

/// Changes the record of one connection.
fn note(record: &Record, number: usize, change: impl FnOnce(&mut Conversation)) {
    let mut all = record.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(one) = all.get_mut(number) {
        change(one);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => &buffer[..read],
        };
        note(read);
        if to.write_all(read).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}
