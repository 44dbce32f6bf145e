//! A server whose workers send each answer in two parts: what counting of answers is tested on. A
//! request is a byte. It prints `ready PORT`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

fn answer(mut client: TcpStream) {
    // A client that is gone needs no answer.
    let _ = client.write_all(b"a").and_then(|()| client.write_all(b"b"));
}

fn main() {
    let (hand, handed) = mpsc::channel();
    let handed = Arc::new(Mutex::new(handed));
    for _ in 0..2 {
        let handed = handed.clone();
        let take = move || handed.lock().expect("no panic").recv().expect("main lives");
        let work = move || {
            loop {
                answer(take());
            }
        };
        std::thread::Builder::new().name("worker".to_owned()).spawn(work).expect("a thread");
    }
    // At all addresses of the loopback device, too.
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    println!("ready {}", listener.local_addr().expect("an address").port());
    std::io::stdout().flush().expect("a pipe");
    for mut client in listener.incoming().flatten() {
        client.set_nodelay(true).expect("an option");
        let hand = hand.clone();
        let read = move || {
            while client.read_exact(&mut [0]).is_ok() {
                hand.send(client.try_clone().expect("a socket")).expect("workers live");
            }
        };
        std::thread::Builder::new().name("reader".to_owned()).spawn(read).expect("a thread");
    }
}
